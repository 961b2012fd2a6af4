"""Sub-graphs of training nodes: brute force over neighboring tiny graphs, and planted faults that the same check must catch."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from soundness_records import graph_of, neighbor

from sfumato.audit._worst_subgraphs import WorstStart, worst_subgraphs
from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _subgraphs as subgraphs
from sfumato.bounded._degree import cap_out_degree
from sfumato.bounded._gradients import PrivateSGD, private_steps
from sfumato.bounded._splits import unit_rows
from sfumato.bounded._subgraphs import occurrences, read_arcs, subgraph_rows
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.nn._models import MLP
from sfumato.noise.keys import derive_key
from sfumato.privacy.events import RepeatedGaussianEvent
from sfumato.privacy.units import NodeLevel

NODES, FEATURES, CLIP = 9, 3, 1e-3
KEY = bytes(32)
CASES = [(1, 1, 9), (2, 1, 9), (3, 1, 9), (2, 1, 1), (1, 2, 9), (2, 2, 9), (2, 2, 1)]
"""Arcs that an owner keeps, layers, and arcs that a node reads."""


def base(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        adjacency = rng.random((NODES, NODES)) < rng.uniform(0.1, 0.9)
        yield adjacency, rng.normal(size=(NODES, FEATURES)).astype(np.float32), rng.integers(-1, 2, NODES)


def terms(data, max_arcs, layers, most):
    """What each root's term reads: its row and its label, in bytes."""
    graph = graph_of(*data)
    rows = subgraphs.subgraph_rows(subgraphs_own(graph), subgraphs.read_arcs(graph, max_arcs, most, KEY), layers)
    y = graph.y if graph.y is not None else np.full(NODES, -1)
    return [row.tobytes() + bytes([label + 1]) for row, label in zip(rows.toarray(), y, strict=True)]


subgraphs_own = unit_rows


def most_changed(case, relation, count=40):
    """The largest number of terms that one record changes."""
    rng, worst = np.random.default_rng(1), 0
    for data in base(count):
        left = terms(data, *case)
        for record in range(NODES):
            right = terms(neighbor(relation, "owned", record, data, rng), *case)
            worst = max(worst, sum(a != b for a, b in zip(left, right, strict=True)))
    return worst


def claim(case, relation):
    return occurrences(NodeLevel(max_out_degree=100, relation=relation), *case[:2])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_a_record_changes_at_most_the_claimed_number_of_terms(case, relation):
    worst, most = most_changed(case, relation), claim(case, relation)
    assert worst <= most
    if case[2] == 9 and most <= 7:
        assert worst == most  # one fewer would be false


def test_the_claims():
    assert [claim(case, "remove") for case in CASES] == [2, 3, 4, 3, 3, 7, 7]
    assert [claim(case, "replace") for case in CASES] == [3, 5, 7, 5, 5, 13, 13]


def most_with_arcs(case, relation, k, count=60):
    """The largest number of terms that a record changes with k arcs of others, and how many the proof allows."""
    rng, worst = np.random.default_rng(4), 0
    for data in base(count, seed=9):
        for record in range(NODES):
            owners = [owner for owner in np.flatnonzero(data[0][:, record]) if owner != record]
            if len(owners) < k:
                continue
            other = neighbor(relation, "owned", record, data, rng)
            other[0][rng.permutation(owners)[:k], record] = False
            left, right = terms(data, *case), terms(other, *case)
            worst = max(worst, sum(a != b for a, b in zip(left, right, strict=True)))
    return worst, claim(case, relation) + k * subgraphs.arc_terms(*case[:2])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("relation", ["remove", "replace"])
@pytest.mark.parametrize("k", [1, 2])
def test_arcs_of_others_change_at_most_the_claimed_number_of_further_terms(case, relation, k):
    worst, most = most_with_arcs(case, relation, k)
    assert worst <= most
    if case in ((1, 1, 9), (2, 1, 9)) and relation == "remove":
        assert worst == most  # one fewer would be false


def test_arcs_of_others_count_for_more_than_the_record_alone():
    for case in CASES[:5]:
        assert most_with_arcs(case, "remove", 2)[0] > claim(case, "remove")


@pytest.fixture
def grid_sum(monkeypatch):
    """What one step of DP-SGD on all roots releases before noise."""
    held = []

    def kept(key, array):
        held.append(array)
        return b""

    monkeypatch.setattr(gradients, "operand_mac", kept)

    def call(data, case, sampling_prob=1.0, model=None):
        graph = data if isinstance(data, Graph) else graph_of(*data)
        rows = subgraph_rows(unit_rows(graph), read_arcs(graph, case[0], case[2], KEY), case[1]).toarray()
        y = torch.from_numpy(graph.y if graph.y is not None else np.full(graph.num_nodes, -1))
        torch.manual_seed(0)
        model = (model or MLP((rows.shape[1], 4, 2))).double()
        settings = PrivateSGD(sampling_prob, 1, CLIP, 1.0, 0.01)
        private_steps(model, lambda ids: (torch.from_numpy(rows[ids]), y[ids]), np.arange(len(y)), settings, KEY)
        return held.pop().astype(np.float64) / 2**24

    return call


@pytest.mark.parametrize("case", CASES[:5])
def test_a_record_moves_a_step_by_at_most_two_clips_a_term(grid_sum, case):
    rng, worst = np.random.default_rng(2), 0.0
    for data in base(6, seed=4):
        left = grid_sum(data, case)
        for record in range(NODES):
            worst = max(
                worst, float(np.linalg.norm(left - grid_sum(neighbor("remove", "owned", record, data, rng), case)))
            )
    assert 1.05 < worst <= moved(case, "remove")  # one clip, as if only the own term vanished, would not do


def moved(case, relation):
    """How far the proof lets a record move a step, in clips."""
    return RepeatedGaussianEvent(
        1.0, claim(case, relation), 1.0, 1, "leave" if relation == "remove" else relation
    ).apart


def farthest(grid_sum, case, relation, empty=None):
    """How far a record moves the first step, for the data sets and first weights that the auditor finds worst."""
    unit = NodeLevel(max_out_degree=case[0], relation=relation)
    method = WorstStart(max_arcs=case[0], num_layers=case[1])
    full, other = worst_subgraphs(method, unit)
    assert np.flatnonzero(full.y != other.y).tolist() == [0] * (relation == "remove")
    assert np.flatnonzero((full.x != other.x).any(axis=1)).tolist() == [0]
    facts = full.public_facts(unit, assume_public=True)
    sums = [
        grid_sum(graph, case, model=method._network(facts, unit))
        for graph in (full, other if empty is None else empty(other))
    ]
    return float(np.linalg.norm(sums[0] - sums[1]))


@pytest.mark.parametrize("case", [(1, 1, 9), (3, 1, 9), (1, 2, 9), (2, 2, 9), (2, 3, 9)])
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_the_worst_weights_reach_all_of_the_claim_and_no_more(grid_sum, case, relation):
    assert 0.99 < farthest(grid_sum, case, relation) / moved(case, relation) <= 1


def test_how_far_a_record_moves_a_step():
    assert [moved(case, "remove") for case in CASES[:5]] == [3, 5, 7, 5, 5]
    assert [moved(case, "replace") for case in CASES[:5]] == [6, 10, 14, 10, 10]


def test_a_record_that_leaves_its_label_behind_is_caught(grid_sum):
    """A term without label must vanish: of a record that keeps its label, the own term turns."""
    labeled = partial(replace, y=np.zeros(4, np.int64))
    assert farthest(grid_sum, CASES[0], "remove", labeled) > 1.2 * moved(CASES[0], "remove")


def test_a_step_without_a_changed_root_does_not_move(grid_sum):
    """Roots are drawn by coins of their own: the terms of a record enter with k ~ Bin(R, q)."""
    rng, still, moved = np.random.default_rng(3), 0, 0
    coin = gradients.coins(derive_key(KEY, "sample", 0), 0.3, np.arange(NODES))
    for data in base(10, seed=5):
        left, left_terms = grid_sum(data, CASES[1], 0.3), terms(data, *CASES[1])
        for record in range(NODES):
            other = neighbor("remove", "owned", record, data, rng)
            touched = [a != b for a, b in zip(left_terms, terms(other, *CASES[1]), strict=True)]
            apart = float(np.linalg.norm(left - grid_sum(other, CASES[1], 0.3)))
            drawn = int(np.sum(coin & touched))
            assert apart <= 2 * drawn + 1e-6 * bool(drawn)
            still, moved = still + (not drawn), moved + (apart > 0)
    assert still > 10
    assert moved > 20


def every_arc(indptr, indices, max_out_degree, key):
    """Nothing is capped."""
    return indptr, indices


def by_in_degree(graph, max_arcs, max_in_arcs, key):
    """Only the arcs that a node reads are capped, as if bounded in-degree bounded occurrence."""
    return subgraphs.Arcs(*cap_out_degree(*subgraphs.by_destination(graph.indptr, graph.indices), max_in_arcs, key))


def receivers_choose_first(graph, max_arcs, max_in_arcs, key):
    """Arcs that a node does not read are given back to their owner, who keeps others: its choice reads other lists."""
    read = cap_out_degree(*subgraphs.by_destination(graph.indptr, graph.indices), max_in_arcs, key)
    kept = cap_out_degree(*subgraphs.by_destination(*read), max_arcs, key)
    return subgraphs.Arcs(*subgraphs.by_destination(*kept))


def one_shuffle(indptr, indices, max_out_degree, key):
    """Arcs are chosen by their place in one shuffle of the whole graph: all owners choose again when one arc is missing."""
    order = np.random.default_rng(0).permutation(len(indices))
    kept = [np.sort(part[np.argsort(order[low : low + len(part)])][:max_out_degree])
            for low, part in zip(indptr, np.split(indices, indptr[1:-1]), strict=False)]  # fmt: skip
    return np.r_[0, np.cumsum([len(part) for part in kept])], np.concatenate(kept).astype(np.int32)


def centered(graph):
    """The mean of all nodes is taken off each row."""
    return sp.csr_matrix(unit_rows(graph).toarray() - unit_rows(graph).toarray().mean(0))


def by_whole_degree(own, arcs, num_layers):
    """Messages are divided by the sender's number of readers: what they say depends on who reads the same sender."""
    rows = subgraph_rows(own, arcs, num_layers).toarray()
    readers = np.bincount(arcs.sources, minlength=NODES) + 1.0
    return sp.csr_matrix(np.hstack([rows, subgraph_rows(sp.csr_matrix(own / readers[:, None]), arcs, 1).toarray()]))


FAULTS = {
    "no cap": ("cap_out_degree", every_arc, CASES[1]),
    "only in-arcs are capped": ("read_arcs", by_in_degree, (1, 1, 2)),
    "receivers choose first": ("read_arcs", receivers_choose_first, (1, 1, 2)),
    "one shuffle": ("cap_out_degree", one_shuffle, CASES[0]),
    "messages by readers": ("subgraph_rows", by_whole_degree, (1, 1, 1)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(monkeypatch, name):
    attribute, fault, case = FAULTS[name]
    monkeypatch.setattr(subgraphs, attribute, fault)
    assert most_changed(case, "remove", 60) > claim(case, "remove")


def test_a_mean_over_all_nodes_is_caught(monkeypatch):
    monkeypatch.setitem(globals(), "subgraphs_own", centered)
    assert most_changed(CASES[0], "remove", 10) > claim(CASES[0], "remove")


def test_arcs_of_others_have_no_bound():
    """Incident arcs: a node that all others point at takes their kept arcs with it, and all of them choose again."""
    rng, worst = np.random.default_rng(6), 0
    for adjacency, x, y in base(60, seed=7):
        adjacency[:, 0] = True
        left = terms((adjacency, x, y), 1, 1, 9)
        other, own_x, own_y = neighbor("remove", "owned", 0, (adjacency, x, y), rng)
        other[:, 0] = False
        worst = max(worst, sum(a != b for a, b in zip(left, terms((other, own_x, own_y), 1, 1, 9), strict=True)))
    assert worst > claim(CASES[0], "remove")


@pytest.mark.parametrize(("max_arcs", "layers"), [(0, 1), (1, 0), (1, 9)])
def test_numbers_out_of_range_are_refused(max_arcs, layers):
    with pytest.raises(InputError):
        occurrences(NodeLevel(max_out_degree=5), max_arcs, layers)


def test_sub_graphs_read_at_most_the_bound():
    for case in CASES:
        for adjacency, x, y in base(10, seed=8):
            arcs = read_arcs(graph_of(adjacency, x, y), case[0], case[2], KEY)
            assert np.diff(arcs.offsets).max() <= case[2]
            assert np.bincount(arcs.sources, minlength=NODES).max() <= case[0]
            owner = np.repeat(np.arange(NODES), np.diff(arcs.offsets))
            assert (arcs.sources != owner).all()
            assert adjacency[arcs.sources, owner].all()
