"""Statistics under attack: an honest run stands, and planted faults are found."""

from itertools import count

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.audit._statistics import audit_statistics, pair_of
from sfumato.bounded import _statistics as bounded
from sfumato.statistics import _statistics as statistics
from sfumato.statistics._statistics import Statistics

EDGE, ARC, NODE = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True), sf.NodeLevel(arcs="incident")
ALL = "edges,mixing,degrees,triangles,wedges,stars,node-degrees,weight,weights"
BUDGET = sf.Budget(2.0, 1e-6)


@pytest.fixture(autouse=True)
def known_keys(monkeypatch):
    """Keys of runs are fixed, so that no test fails by chance."""
    numbers = count(1)
    monkeypatch.setattr("sfumato.audit._statistics.new_key", lambda: next(numbers).to_bytes(32, "big"))


@pytest.mark.audit
@pytest.mark.parametrize(
    ("stats", "unit"),
    [
        ("edges,degrees:4,triangles:4,wedges", EDGE),
        ("edges,degrees,mutual,node-degrees", ARC),
        ("edges,mixing,degrees,triangles", NODE),
        ("edges", sf.NodeLevel(arcs="incident", relation="replace")),
    ],
)
def test_an_honest_run_stands_and_much_of_its_claim_is_proved(stats, unit):
    found = audit_statistics(Statistics(stats), unit, BUDGET, runs=4000)
    assert not found.flagged, found.broken
    assert found.untested == ()
    least = 0.3 if unit.relation != "replace" else 0.1  # the pair is one removal
    assert least * 2.0 < found.epsilon_lower_bound < 2.0


def test_an_honest_run_stands():
    found = audit_statistics(Statistics("edges"), EDGE, BUDGET, runs=500)
    assert not found.flagged, found.broken
    assert 0.5 < found.epsilon_lower_bound < 2.0


def test_every_statistic_is_read():
    for unit, stats in ((EDGE, ALL), (NODE, "edges,mixing,degrees,triangles,wedges,stars,groups")):
        assert audit_statistics(Statistics(stats), unit, BUDGET, runs=8).untested == ()
    assert audit_statistics(Statistics("degrees,triangles", grouped=True), EDGE, BUDGET, runs=8).untested == ()


def less(times):
    return lambda counts, scale, key: bounded.noisy_totals(counts, scale / times, key)


FAULTS = {
    "half the noise": lambda patch: patch.setattr(statistics, "noisy_totals", less(2)),
    "one end of an edge": lambda patch: patch.setitem(bounded._OF_EDGES, "degrees", 1),
    "no bounds": lambda patch: patch.setattr(statistics, "scaled", lambda *_: 1),
    "bounds without a margin, from the third": lambda patch: patch.setattr(statistics, "top_bounds", lambda *_: (2, 2)),
    "edges counted at both ends": lambda patch: patch.setitem(
        statistics.COUNTS, "edges", lambda counted: 2 * type(counted).edges(counted)
    ),
}


@pytest.mark.audit
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    found = audit_statistics(Statistics("edges:2,degrees:4,triangles:4"), EDGE, sf.Budget(4.0, 1e-6), runs=1500)
    assert found.flagged


@pytest.mark.parametrize(
    ("stats", "fault"), [("degrees", lambda patch: patch.setattr(statistics, "noisy_totals", less(20))),
                         ("triangles", FAULTS["no bounds"])],
)  # fmt: skip
def test_large_faults_are_found_at_once(stats, fault, monkeypatch):
    fault(monkeypatch)
    assert audit_statistics(Statistics(stats), EDGE, sf.Budget(0.5, 1e-6), runs=300).flagged


def test_noise_of_one_release_in_another_is_found(monkeypatch):
    numbers = count()

    def again(counts, scale, key):  # both releases of a run have one key
        return bounded.noisy_totals(0 * counts, scale, (next(numbers) // 2).to_bytes(32, "big")) + counts

    honest = audit_statistics(Statistics("edges,mutual"), ARC, BUDGET, runs=100)
    assert honest.broken == ()
    monkeypatch.setattr(statistics, "noisy_totals", again)
    found = audit_statistics(Statistics("edges,mutual"), ARC, BUDGET, runs=100)
    assert any("edges and mutual are not independent" in one for one in found.broken)


def test_the_pair_is_one_record():
    for unit, arcs in ((EDGE, 2), (ARC, 1)):
        one, other = pair_of(Statistics("edges"), unit)
        assert one.num_arcs - other.num_arcs == arcs
        assert np.array_equal(one.y, other.y)
    one, other = pair_of(Statistics("edges"), NODE)
    assert (one.y != other.y).sum() == 1
    assert one.num_arcs - other.num_arcs == 2 * one.max_degree


def test_the_auditor_takes_statistics():
    told = []
    found = audit(Statistics("edges"), EDGE, BUDGET, size=0.01, progress=lambda *one: told.append(one))
    assert found.method == "statistics"
    assert told
