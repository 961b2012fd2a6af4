"""A fit key that does not change, what hops send, and fits that are resumed."""

import pytest

from sfumato.central import _counts as counts
from sfumato.central import _shares as shares
from sfumato.method import hops as engine
from sfumato.record._resume import FitState


@pytest.fixture
def fixed_key(monkeypatch):
    """Every fit draws the same key, so that two fits can be compared bit by bit."""
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: bytes(range(32)))


@pytest.fixture
def hops(monkeypatch):
    """The arguments of every hop and of both parts of counts: (arcs, rows, noise)."""
    calls = []

    def recorded(original):
        def record(arcs, rows, noise, key):
            calls.append((arcs, rows.copy(), noise))
            return original(arcs, rows, noise, key)

        return record

    for module in (shares, engine):
        monkeypatch.setattr(module, "noisy_neighborhood_sum", recorded(module.noisy_neighborhood_sum))
    monkeypatch.setattr(counts, "noisy_counts", recorded(counts.noisy_counts))
    return calls


@pytest.fixture
def resumable(tmp_path):
    """A function that makes the fit of a plan again, from the state that it had."""
    FitState.create(tmp_path / "private").close()

    def again(plan, graph):
        state = FitState.open(tmp_path / "private")
        try:
            return plan.fit(graph, ledger=tmp_path / "ledger.jsonl", state=state)
        finally:
            state.close()

    return again
