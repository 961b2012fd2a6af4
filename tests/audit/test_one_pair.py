"""Two nodes with and without an edge: released edges certify most of epsilon, and never more than a method keeps."""

from itertools import count
from unittest.mock import patch

import pytest

import sfumato as sf
from sfumato.audit import _one_pair as one_pair
from sfumato.audit._one_pair import audit_pair
from sfumato.catalog import method_named
from sfumato.central import _edgerand as edgerand
from sfumato.central import _lapgraph as lapgraph

BUDGET = sf.Budget(1.0, 1e-6)
HOMES = {"edgerand": (edgerand, "randomized_pairs"), "lapgraph": (lapgraph, "largest_pairs")}


@pytest.fixture(autouse=True)
def fixed_keys(monkeypatch):
    numbers = count(1)
    monkeypatch.setattr(one_pair, "new_key", lambda: next(numbers).to_bytes(32, "big"))


def bound(method, runs, directed=False):
    unit = sf.EdgeLevel(directed=directed)
    found = audit_pair(method_named(method), unit, BUDGET, runs=runs, confidence=0.999, directed=directed)
    return found.epsilon_lower_bound


def less_noise(method, times):
    home, name = HOMES[method]
    real = getattr(home, name)
    return patch.object(home, name, lambda pairs, present, epsilon, *rest: real(pairs, present, times * epsilon, *rest))


@pytest.mark.parametrize("method", HOMES)
@pytest.mark.parametrize("directed", [True, False])
def test_an_honest_method_stays_below_its_claim(method, directed):
    assert 0 <= bound(method, 60, directed) < 1


@pytest.mark.parametrize("method", HOMES)
def test_eight_times_the_epsilon_is_found(method):
    with less_noise(method, 8):
        assert bound(method, 80) > 1


@pytest.mark.audit
@pytest.mark.parametrize("method", HOMES)
@pytest.mark.parametrize("directed", [True, False])
def test_85_percent_of_the_claim_are_certified(method, directed):
    assert 0.85 < bound(method, 10_000, directed) < 1
