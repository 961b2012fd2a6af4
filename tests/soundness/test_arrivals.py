"""Nodes that arrive later: brute force over every edge says in which release it is read, and by how much it changes it."""

from dataclasses import replace
from functools import partial
from itertools import combinations, permutations

import numpy as np
import pytest
import soundness_faults as faults

from sfumato.bounded._counting import to_count_steps
from sfumato.bounded.aggregation import neighborhood_sum, to_steps
from sfumato.central import _counts as counts
from sfumato.central import _shares as shares
from sfumato.central import _typed as typed
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._labels import LabelMessages
from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel
from sfumato.tables._newcomers import Newcomers, node_names

ARC, EDGE, OWNED = EdgeLevel(directed=True), EdgeLevel(directed=False), NodeLevel()
UNITS = [EDGE, ARC, OWNED, NodeLevel(max_out_degree=2), NodeLevel(relation="replace")]
NODES, BATCH = 9, np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
"""Four nodes are trained on, three arrive, then two."""
BUDGET = Budget(1.0, 1e-5)


def data_of(rng, directed):
    adjacency = rng.random((NODES, NODES)) < rng.uniform(0.3, 0.9)
    np.fill_diagonal(adjacency, False)
    adjacency = adjacency if directed else np.triu(adjacency) | np.triu(adjacency).T
    return adjacency, rng.random((NODES, 2)).astype(np.float32), rng.integers(0, 3, NODES)


def part(data, batch, directed):
    """The nodes of one batch, with the edges among them if it is the trained one."""
    adjacency, x, y = data
    rows = np.flatnonzero(batch == BATCH)
    source, target = adjacency[np.ix_(rows, rows)].nonzero() if batch == 0 else ([], [])
    graph = Graph.from_arcs(source, target, len(rows), directed=directed, x=x[rows], y=y[rows], node_ids=rows,
                            classes=("a", "b", "c"))  # fmt: skip
    return graph.with_roles([0, 0, 0, 2]) if batch == 0 else graph


def joined(data, batch, known, directed):
    """The newcomers of one batch with their new edges."""
    order = np.r_[np.flatnonzero(batch == BATCH), np.flatnonzero(batch > BATCH)]
    adjacency = data[0][np.ix_(order, order)]
    source, target = (adjacency if directed else np.triu(adjacency)).nonzero()
    new = np.minimum(source, target) < np.count_nonzero(batch == BATCH)
    return Newcomers.join(part(data, batch, directed), known, source[new], target[new])


def handed_over(monkeypatch, unit, data, fixed, join=joined):
    """(exact sums of all rows, messages, scale of noise, noise multiplier) of every part of training and of two arrivals.

    All three are answered by the same fixed rows, as if earlier outcomes were given.
    """
    seen, directed = [[], [], []], unit != EDGE
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: bytes(32))

    def observe(arcs, rows, scale, key, steps=to_count_steps):
        seen[len(runs)].append((neighborhood_sum(arcs, steps(rows)), rows, float(scale)))
        return fixed[len(runs)][len(seen[len(runs)]) - 1][: len(rows)].copy()

    monkeypatch.setattr(shares, "noisy_neighborhood_sum", partial(observe, steps=to_steps))
    monkeypatch.setattr(counts, "noisy_counts", observe)
    known, runs = [part(data, 0, directed)], []
    plan = LabelMessages(epochs=1).calibrate(BUDGET, unit, known[0].public_facts(unit))
    runs.append(plan.fit(known[0], seed=5))
    for batch in (1, 2):
        late = join(data, batch, known, directed)
        budget = BUDGET if isinstance(unit, NodeLevel) else None
        runs.append(calibrate_arrival(runs, node_names(late), late.public_facts(unit), budget).fit(late, seed=5))
        known.append(late)
    events = [run.plan.event("aggregate/1") for run in runs]
    noise = [event.noise_multiplier if isinstance(unit, NodeLevel) else 1 / event.epsilon for event in events]
    return [[(*hop, multiplier) for hop in hops] for hops, multiplier in zip(seen, noise, strict=True)]


def neighbors(rng, unit, data):
    """The data without or with one edge or arc, for every pair; or with one record emptied or replaced."""
    if isinstance(unit, NodeLevel):
        for v in range(NODES):
            adjacency, x, y = (array.copy() for array in data)
            gone = unit.relation == "remove"
            adjacency[v] = False if gone else (rng.random(NODES) < 0.5) & (np.arange(NODES) != v)
            x[v], y[v] = (0, -1) if gone else (rng.random(2), rng.integers(0, 3))
            yield v, (adjacency, x, y)
        return
    for u, v in combinations(range(NODES), 2) if unit == EDGE else permutations(range(NODES), 2):
        adjacency = data[0].copy()
        adjacency[u, v] ^= True
        adjacency[v, u] = adjacency[v, u] if unit == ARC else adjacency[u, v]
        yield (u, v), (adjacency, *data[1:])


def measure(monkeypatch, unit, graphs=2, join=joined):
    """Check every neighbor: an edge changes one release, by the sensitivity that its noise is for at most."""
    rng, worst = np.random.default_rng(0), np.zeros(3)
    fixed = rng.integers(-INT16_ONE, INT16_ONE, (3, 3, NODES, 3))
    for _ in range(graphs):
        data = data_of(rng, directed=unit != EDGE)
        before = handed_over(monkeypatch, unit, data, fixed, join)
        for record, other in neighbors(rng, unit, data):
            changed = np.zeros(3)
            for b, (hops, theirs) in enumerate(
                zip(before, handed_over(monkeypatch, unit, other, fixed, join), strict=True)
            ):
                assert len(hops) == len(theirs) == (1 if isinstance(unit, NodeLevel) else 2)
                for (sums, rows, scale, noise), (sums2, rows2, scale2, _) in zip(hops, theirs, strict=True):
                    order = 2 if isinstance(unit, NodeLevel) else 1
                    assert scale == scale2
                    changed[b] += np.linalg.norm((sums - sums2).ravel(), order) / INT16_ONE / float(scale / noise)
                    assert changed[b] <= 1 + 1e-12, "too small a sensitivity"
                    if not isinstance(unit, NodeLevel):
                        assert np.array_equal(rows, rows2), "messages read edges other than by releases"
                        assert np.count_nonzero((sums != sums2).any(1)) <= 1, "too small a sensitivity: two rows"
                        assert not sums[np.count_nonzero(b == BATCH) :].any() or b == 0, "rows of known nodes"
            if not isinstance(unit, NodeLevel):
                assert np.count_nonzero(changed) <= 1, "an edge pays twice"
                assert not np.delete(changed, max(BATCH[list(record)])).any(), "an edge is read in another release"
            worst = np.maximum(worst, changed)
    return worst


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_an_edge_is_read_once_and_a_record_changes_a_release_by_what_is_charged(monkeypatch, unit):
    worst = measure(monkeypatch, unit, graphs=3 if isinstance(unit, NodeLevel) else 1)
    assert worst.min() > (0.99 if unit.relation != "replace" else 0.7), "the bound is not reached"


@pytest.mark.parametrize(
    ("unit", "name", "fault"),
    [(EDGE, "one_way", faults.both_ways), (EDGE, "one_way", faults.degree_order), (OWNED, "share", faults.undivided)],
)
def test_planted_faults_of_routing(monkeypatch, unit, name, fault):
    monkeypatch.setattr(shares if name == "share" else typed, name, fault)
    with pytest.raises(AssertionError, match="too small"):
        measure(monkeypatch, unit)


def answering_known_nodes(data, batch, known, directed):
    """Rows of known nodes hear of new edges too: both arcs are kept."""
    late = joined(data, batch, known, directed)
    order = np.r_[np.flatnonzero(batch == BATCH), np.flatnonzero(batch > BATCH)]
    new = (batch == BATCH)[order]
    adjacency = data[0][np.ix_(order, order)] & (new[:, None] | new)
    indptr = np.r_[0, np.cumsum(adjacency.sum(1))]
    return replace(late, reach_indptr=indptr, reach_indices=adjacency.nonzero()[1].astype(np.int32))


def under_another_id(data, batch, known, directed):
    """The last node of batch 1 arrives again in batch 2, by another id."""
    if batch == 1:
        return joined(data, batch, known, directed)
    late = joined(data, batch, known, directed)
    adjacency = data[0].copy()
    adjacency[8], adjacency[:, 8] = adjacency[6], adjacency[:, 6]
    adjacency[8, 8] = adjacency[8, 6] = adjacency[6, 8] = False
    again = joined((adjacency, *data[1:]), batch, known, directed)
    return replace(late, reach_indptr=again.reach_indptr, reach_indices=again.reach_indices)


@pytest.mark.parametrize(
    ("unit", "join", "message"),
    [
        (ARC, answering_known_nodes, "rows of known nodes"),
        (EDGE, under_another_id, "pays twice|another release"),
        (ARC, under_another_id, "pays twice|another release"),
    ],
)
def test_planted_faults_of_joining(monkeypatch, unit, join, message):
    if join is answering_known_nodes:  # routing would drop these arcs again
        monkeypatch.setattr(typed, "outward", faults.both_ways)
    with pytest.raises(AssertionError, match=message):
        measure(monkeypatch, unit, join=join)


def everything(data, batch, known, directed):
    """All edges that there are now, those between known nodes too."""
    late = joined(data, batch, known, directed)
    order = np.r_[np.flatnonzero(batch == BATCH), np.flatnonzero(batch > BATCH)]
    adjacency = data[0][np.ix_(order, order)]
    return replace(
        late, reach_indptr=np.r_[0, np.cumsum(adjacency.sum(1))], reach_indices=adjacency.nonzero()[1].astype(np.int32)
    )


def test_edges_between_known_nodes_are_refused_and_would_be_read_twice(monkeypatch):
    data = data_of(np.random.default_rng(0), False)
    with pytest.raises(DataError, match="row 1 links two nodes that were there before"):
        Newcomers.join(part(data, 1, False), [part(data, 0, False)], [0, 3], [4, 4])
    with pytest.raises(AssertionError, match=r"rows of known nodes|pays twice"):
        measure(monkeypatch, EDGE, join=everything)
