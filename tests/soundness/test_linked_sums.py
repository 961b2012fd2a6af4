"""Sums of groups that nodes choose: brute force over neighbors of tiny graphs, and planted faults that the same check catches."""

import numpy as np
import pytest
import scipy.sparse as sp
from soundness_records import graph_of, neighbor

from sfumato.bounded import _linked_sums as linked
from sfumato.bounded._linked_sums import (
    check_linked,
    linked_arc_change,
    linked_sensitivity,
    linked_sums,
    noisy_linked_sums,
)
from sfumato.bounded._splits import unit_rows
from sfumato.errors import UnsupportedUnitError
from sfumato.privacy.units import NodeLevel

NODES, CENTERS, FEATURES, CLASSES = 7, 3, 3, 2
ROLES = np.array([0, 0, 0, 2, 1, 3, 2], np.uint8)
UNITS = {relation: NodeLevel(relation=relation) for relation in ("remove", "replace")}


def base(count):
    """Random data: (adjacency, features, labels), undirected in every second graph; features that agree, so that sums add up."""
    rng = np.random.default_rng(0)
    for number in range(count):
        adjacency = rng.random((NODES, NODES)) < rng.uniform(0.1, 0.9)
        adjacency |= adjacency.T & bool(number % 2)
        x = (rng.normal(size=(NODES, FEATURES)) * rng.choice([0.1, 1]) + rng.choice([-1, 0, 1])).astype(np.float32)
        x[rng.random(NODES) < 0.1] = 0
        yield adjacency, x, np.where(rng.random(NODES) < 0.1, -1, rng.integers(0, CLASSES, NODES))


def summed(data, sparse=True, join=True):
    graph = graph_of(*data, ROLES)
    rows = unit_rows(graph)
    return linked_sums(graph, rows if sparse else rows.toarray(), CLASSES, join=join) / 32767


def opposite(data, record):
    """The record with features of the other sign: a replacement that moves most."""
    adjacency, x, y = data
    return adjacency, x * np.where(np.arange(NODES) == record, -1, 1)[:, None].astype(np.float32), y


def measured(relation, arcs="owned", count=40, join=True):
    """The largest change of the sums, and the records that changed nothing."""
    rng, worst, silent = np.random.default_rng(1), 0.0, set(range(NODES))
    for data in base(count):
        left = summed(data, join=join)
        for record in range(NODES):
            others = [neighbor(relation, arcs, record, data, rng) for _ in range(1 if relation == "remove" else 3)]
            for other in [*others, opposite(data, record)][: len(others) + (relation == "replace")]:
                moved = float(np.linalg.norm(left - summed(other, join=join)))
                worst, silent = max(worst, moved), silent - {record} if moved else silent
    return worst, silent


def claim(relation):
    return linked_sensitivity(UNITS[relation], CENTERS, FEATURES, CLASSES)


@pytest.mark.parametrize("relation", UNITS)
def test_one_record_moves_the_sums_by_at_most_the_claim_and_reaches_it(relation):
    worst, silent = measured(relation)
    assert 0.98 * claim(relation) <= worst <= claim(relation)
    assert not silent


@pytest.mark.parametrize("sparse", [True, False])
def test_groups_are_sums_of_rows_by_class(sparse):
    """Node 3 points at two centers, and halves itself; node 4 at one; 5 at none. A center is in its own group alone."""
    adjacency = np.zeros((NODES, NODES), bool)
    adjacency[[3, 3, 4, 0, 5], [0, 1, 1, 1, 4]] = True
    x = np.eye(NODES, dtype=np.float32) / 2  # scaled to norm 1 by the rows that are summed
    y = np.array([1, 0, -1, 0, 0, 0, 0])
    found = summed((adjacency, x, y), sparse)
    second = np.array([0, 1, 0, 0.5, 1, 0, 0])
    expected = np.stack([second / np.linalg.norm(second), np.array([1, 0, 0, 0.5, 0, 0, 0]) / np.sqrt(1.25)])
    assert found == pytest.approx(expected, abs=1e-4)


def test_an_arc_of_another_owner_moves_the_sums_by_at_most_its_claim():
    worst = 0.0
    for adjacency, x, y in base(12):
        for owner, record in np.ndindex(NODES, CENTERS):
            other = adjacency.copy()
            other[owner, record] ^= True
            worst = max(worst, float(np.linalg.norm(summed((adjacency, x, y)) - summed((other, x, y)))))
    assert 0.9 < worst <= linked_arc_change(UNITS["remove"]) * claim("remove")


def test_incident_arcs_have_no_such_bound_and_are_refused():
    """Emptying a center with all arcs that point at it moves what points at it into other groups."""
    assert measured("remove", "incident")[0] > 1.15 * claim("remove")
    with pytest.raises(UnsupportedUnitError, match="owned"):
        check_linked(NodeLevel(arcs="incident"))


@pytest.mark.parametrize("relation", UNITS)
def test_centers_alone_hold_the_claim_for_incident_arcs(relation):
    worst, silent = measured(relation, "incident", join=False)
    assert 0.98 * claim(relation) <= worst <= claim(relation)
    assert silent == {3, 4, 5, 6}


def unprojected(sums):
    """A group counts with everything that it holds."""
    return sums


def scaled_to_one(sums):
    """Short rows are made longer: no projection, and no distance is kept."""
    return np.trunc(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1) * 2.0**36).astype(np.int64)


def undivided(rows, divisors):
    """Each group gets the whole row."""
    return on_grid(rows, np.ones_like(divisors))


def centers_send(graph, centers, join):
    """Training nodes are in the groups of others, too."""
    found = senders(graph, centers, join).tolil()
    for place, center in enumerate(centers):
        for other in graph.indices[graph.indptr[center] : graph.indptr[center + 1]]:
            if other in centers:
                found[list(centers).index(other), centers[place]] = 1
    return sp.csr_matrix(found)


on_grid, senders = linked._on_grid, linked._senders
FAULTS = {"_projected": [unprojected, scaled_to_one], "_on_grid": [undivided]}


@pytest.mark.parametrize(("name", "fault"), [(name, one) for name, some in FAULTS.items() for one in some])
def test_planted_faults_are_caught(monkeypatch, name, fault):
    monkeypatch.setattr(linked, name, fault)
    assert measured("remove")[0] > 1.05 * claim("remove")


def test_centers_that_also_join_other_groups_are_caught(monkeypatch):
    monkeypatch.setattr(linked, "_on_grid", lambda rows, _: on_grid(rows, np.ones(NODES, np.int64)))
    monkeypatch.setattr(linked, "_senders", centers_send)
    assert measured("remove")[0] > 1.05 * claim("remove")


def test_noise_is_added_to_every_entry_and_follows_what_was_read():
    graph = graph_of(*next(base(1)), ROLES)
    rows = unit_rows(graph)
    plain, read = noisy_linked_sums(graph, rows, CLASSES, 0.0, bytes(32))
    noisy, same = noisy_linked_sums(graph, rows, CLASSES, 100.0, bytes(32))
    assert np.array_equal(plain, linked_sums(graph, rows, CLASSES))
    assert read == same
    assert (np.abs(noisy - plain) > 3276).mean() > 0.9
    other = noisy_linked_sums(graph, -rows, CLASSES, 100.0, bytes(32))[0]
    assert not np.array_equal(noisy - plain, other + plain)
