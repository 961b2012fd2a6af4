"""The ledger: what the plan allows, once, in order, chained and on disk before anything is computed."""

import hashlib
import json

import pytest

from sfumato.errors import BudgetExceededError, LedgerError
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.ledger import GENESIS, Ledger, Release, canonical_json

PLAN = {"method": "gap", "unit": {"name": "edge"}, "claim": {"epsilon": 1.0, "delta": 1e-7}, "delta_sampler": 1e-25}
RELEASES = (
    Release("encoder", PoissonGaussianEvent(0.1, 2.0, 50, "replace"), (30,), 30),
    Release("aggregate/1", GaussianEvent(3.5), (4, 16), 32),
    Release("aggregate/2", GaussianEvent(3.5, count=2), (4, 16), 32, "the node itself"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def ledger(path):
    return Ledger(PLAN, RELEASES, path)


def charge_all(ledger):
    for release in RELEASES:
        ledger.charge(release.name)
    return ledger


def test_it_opens_with_the_plan(ledger, path):
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert entry["kind"] == "plan"
    assert entry["index"] == 0
    assert entry["previous"] == GENESIS == "0" * 64
    assert entry["plan"] == {**PLAN, "releases": [release.to_dict() for release in RELEASES]}
    assert not ledger.complete


def test_charges_are_written_before_they_return(ledger, path):
    for done, release in enumerate(RELEASES, start=1):
        assert not ledger.complete
        assert ledger.charge(release.name) is release
        lines = path.read_text().splitlines()
        assert len(lines) == 1 + done
        assert json.loads(lines[-1])["release"] == release.to_dict()
    assert ledger.complete


def test_entries_form_a_hash_chain(ledger, path):
    charge_all(ledger)
    previous = GENESIS
    for index, line in enumerate(path.read_text().splitlines()):
        entry = json.loads(line)
        assert (entry["index"], entry["previous"]) == (index, previous)
        previous = entry.pop("hash")
        assert previous == hashlib.sha256(canonical_json(entry).encode()).hexdigest()
    assert ledger.head == previous


def test_file_and_memory_agree(ledger, path):
    charge_all(ledger)
    assert path.read_text() == ledger.text()
    assert charge_all(Ledger(PLAN, RELEASES)).text() == ledger.text()


def test_another_plan_has_another_head():
    other = {**PLAN, "claim": {"epsilon": 1.5, "delta": 1e-7}}
    assert charge_all(Ledger(PLAN, RELEASES)).head != charge_all(Ledger(other, RELEASES)).head


@pytest.mark.parametrize(
    ("before", "name", "expected"),
    [(0, "aggregate/1", "encoder"), (0, "unplanned", "encoder"), (1, "encoder", "aggregate/1"),
     (2, "aggregate/1", "aggregate/2"), (3, "aggregate/2", "nothing is left"), (3, "more", "nothing is left")],
)  # fmt: skip
def test_wrong_order_double_and_unplanned_charges_change_nothing(ledger, path, before, name, expected):
    for release in RELEASES[:before]:
        ledger.charge(release.name)
    written, head = path.read_bytes(), ledger.head
    with pytest.raises(BudgetExceededError, match=f"{name}.*{expected}.*new plan"):
        ledger.charge(name)
    assert path.read_bytes() == written
    assert ledger.head == head
    assert len(ledger.entries) == 1 + before


def test_an_existing_file_is_never_extended(ledger, path):
    written = path.read_bytes()
    with pytest.raises(LedgerError, match="choose a new folder"):
        Ledger(PLAN, RELEASES, path)
    assert path.read_bytes() == written


def test_a_charge_that_cannot_be_written_is_not_made(ledger, path):
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="ledger"):
        ledger.charge("encoder")
    assert len(ledger.entries) == 1


def test_a_plan_without_releases_is_complete_at_once():
    assert Ledger(PLAN, ()).complete
    with pytest.raises(BudgetExceededError, match="nothing is left"):
        Ledger(PLAN, ()).charge("aggregate/1")


@pytest.mark.parametrize("release", RELEASES)
def test_releases_survive_json(release):
    assert Release.from_dict(json.loads(canonical_json(release.to_dict()))) == release


@pytest.mark.parametrize(("release", "draws"), list(zip(RELEASES, (1500, 32, 64), strict=True)))
def test_draws_count_every_step(release, draws):
    assert release.draws == draws


def test_canonical_json_has_one_form():
    assert canonical_json({"b": 1.0, "a": {"y": None, "x": [1, 2.5]}}) == '{"a":{"x":[1,2.5],"y":null},"b":1.0}'
    assert canonical_json({"é": "ü"}) == '{"é":"ü"}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})
