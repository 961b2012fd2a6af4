"""Groups of a split graph: brute force over neighboring tiny graphs, and planted faults that the same check must catch."""

import numpy as np
import pytest
import scipy.sparse as sp
from soundness_records import graph_of, neighbor

from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _splits as splits
from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._split_gradients import SplitNetwork, split_steps
from sfumato.bounded._splits import group_numbers, split_graph
from sfumato.graph._graph import Graph

NODES, GROUPS, SEED, FEATURES, WIDTH, CLASSES, CLIP = 7, 2, 11, 3, 2, 2, 1e-3
ROLES = np.array([0, 0, 0, 0, 2, 0, 0], np.uint8)
SIZE = FEATURES * WIDTH + WIDTH + (WIDTH + 1) * CLASSES
KEY = bytes(32)


def base(count, seed=0):
    """Random data: (adjacency, features, labels), undirected in every second graph, with absent nodes in some."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        adjacency = rng.random((NODES, NODES)) < rng.uniform(0, 0.9)
        if number % 2:
            adjacency |= adjacency.T
        x = rng.normal(size=(NODES, FEATURES)).astype(np.float32)
        x[rng.random(NODES) < 0.1] = 0
        y = rng.integers(-1, CLASSES, NODES)
        yield adjacency, x, y


@pytest.fixture
def grid_sum(monkeypatch):
    """What one step releases before noise, by the path that the method takes."""
    held = []

    def kept(key, array):
        held.append(array)
        return b""

    monkeypatch.setattr(gradients, "operand_mac", kept)

    def call(data, weights, *, leave_out, second_hop=True):
        split = split_graph(graph_of(*data, ROLES), GROUPS, SEED, second_hop=second_hop)
        settings = PrivateSGD(1.0, 1, CLIP, 1.0, 0.01)
        split_steps(SplitNetwork(split, WIDTH, CLASSES), weights, settings, KEY, leave_out=leave_out)
        return held.pop().astype(np.float64)

    return call


def measured(grid_sum, relation, arcs, count=16, **options):
    """The largest change of a sum in clips, over all records of many graphs, and the records that changed nothing."""
    rng = np.random.default_rng(1)
    options = {"leave_out": relation == "remove", **options}
    worst, silent = 0.0, set(range(NODES)) - {4}  # node 4 is no training node, and may stand alone
    for data in base(count):
        weights = rng.normal(size=SIZE)
        left = grid_sum(data, weights, **options)
        for record in range(NODES):
            right = grid_sum(neighbor(relation, arcs, record, data, rng), weights, **options)
            moved = float(np.linalg.norm(left - right)) / 2**24
            worst = max(worst, moved)
            silent -= {record} if moved else set()
    return worst, silent


CLAIMS = {"remove": 1.0, "replace": 2.0}


def test_the_two_groups_hold_several_nodes_each():
    groups = group_numbers(np.arange(NODES), GROUPS, SEED)
    assert sorted(np.bincount(groups)) == [3, 4]
    assert groups[ROLES == 0].any()
    assert not groups[ROLES == 0].all()


@pytest.mark.parametrize("arcs", ["incident", "owned"])
@pytest.mark.parametrize("relation", CLAIMS)
def test_one_record_moves_the_sum_by_at_most_the_claim_and_reaches_it(grid_sum, relation, arcs):
    worst, silent = measured(grid_sum, relation, arcs)
    assert 0.99 * CLAIMS[relation] <= worst <= CLAIMS[relation]
    assert not silent


@pytest.mark.parametrize("relation", CLAIMS)
@pytest.mark.parametrize("second_hop", [True, False])
def test_a_record_changes_no_other_group(relation, second_hop):
    """Bit by bit, alone and in company: what another group gives reads nothing of this record."""
    rng, groups, moved = np.random.default_rng(2), group_numbers(np.arange(NODES), GROUPS, SEED), 0
    for data in base(25, seed=3):
        weights = rng.normal(size=SIZE)
        for record in range(NODES):
            pair = data, neighbor(relation, "incident", record, data, rng)
            both = [SplitNetwork(split_graph(graph_of(*one, ROLES), GROUPS, SEED, second_hop=second_hop), WIDTH, CLASSES, 0.3, 5)
                    for one in pair]  # fmt: skip
            other = np.array([1 - groups[record]])
            left, right = (net.clipped_sum(weights, other, CLIP, step=9) for net in both)
            assert np.array_equal(left, right)
            assert both[0].split.left_out[other] == both[1].split.left_out[other]
            own = np.array([groups[record]])
            left, right = (net.clipped_sum(weights, own, CLIP, step=9) for net in both)
            moved += not np.array_equal(left, right)
            whole = both[0].clipped_sum(weights, np.arange(GROUPS), CLIP, step=9)
            assert np.array_equal(whole, left + both[0].clipped_sum(weights, other, CLIP, step=9))
    assert moved > 100


def every_arc(graph, groups, order):
    """Arcs across groups are kept, as in the published code."""
    return arcs_inside(graph, np.zeros_like(groups), order)


def both_ways(graph, groups, order):
    """A node counts as absent only if nobody has an arc to it: an emptied record with in-arcs is overlooked."""
    inside = arcs_inside(graph, groups, order)
    return sp.csr_matrix(inside.maximum(inside.T))


def degrees_before_the_cut(graph, groups, order):
    """Weights by the degrees of the whole graph: a node's arc to another group moves what that group sums."""
    inside, whole = (arcs_inside(graph, part, order) for part in (groups, np.zeros_like(groups)))
    degrees = np.asarray(whole.maximum(whole.T).sum(1)).ravel() + 1
    inside.data = inside.data / np.sqrt(degrees[inside.indices])
    return inside


def weights_of_arcs(inside):
    """The normalization that the fault above needs: entries stay as they are."""
    return sp.csr_matrix(inside.maximum(inside.T) + sp.eye(inside.shape[0]))


def by_tensor(network, flat, groups, l2_clip_norm, step=0):
    """Each of the four tensors is clipped to the full bound on its own."""
    ends = np.cumsum([FEATURES * WIDTH, WIDTH, WIDTH * CLASSES])
    total = np.zeros(len(flat))
    for group in groups:
        parts = np.split(network.gradient(flat, np.array([group]), step), ends)
        total += np.concatenate([part * min(1, l2_clip_norm / max(np.linalg.norm(part), 1e-300)) for part in parts])
    return np.trunc(total / l2_clip_norm * 2**24).astype(np.int64)


def unclipped(network, flat, groups, l2_clip_norm, step=0):
    """Nothing is clipped, as in the published code."""
    return np.trunc(network.gradient(flat, groups, step) / l2_clip_norm * 2**24).astype(np.int64)


arcs_inside = splits._arcs_inside
FAULTS = {
    "arcs across groups are kept": ("remove", "incident", {"second_hop": False}, [(splits, "_arcs_inside", every_arc)]),
    "degrees before the cut": ("remove", "incident", {"second_hop": False},
        [(splits, "_arcs_inside", degrees_before_the_cut), (splits, "_normalized", weights_of_arcs)]),
    "each tensor is clipped alone": ("remove", "incident", {}, [(SplitNetwork, "clipped_sum", by_tensor)]),
    "nothing is clipped": ("replace", "incident", {}, [(SplitNetwork, "clipped_sum", unclipped)]),
    "the emptied group is not left out": ("remove", "incident", {"leave_out": False}, []),
    "absent by in-arcs": ("remove", "owned", {}, [(splits, "_arcs_inside", both_ways)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(grid_sum, monkeypatch, name):
    relation, arcs, options, patches = FAULTS[name]
    for where, attribute, fault in patches:
        monkeypatch.setattr(where, attribute, fault)
    worst, _ = measured(grid_sum, relation, arcs, **options)
    assert worst > 1.01 * CLAIMS[relation]


def test_a_group_that_reads_another_is_caught(monkeypatch, grid_sum):
    """A mean that is taken off all rows is a mean over other groups as well."""
    real = splits.unit_rows

    def centered(graph):
        rows = real(graph).toarray()
        return sp.csr_matrix(rows - rows.mean(0))

    monkeypatch.setattr(splits, "unit_rows", centered)
    worst, _ = measured(grid_sum, "replace", "incident")
    assert worst > 1.01 * CLAIMS["replace"]


def untidy(x, rng):
    """The same features, sparse: unsorted, every value in two halves, some zeros stored."""
    rows, columns = np.nonzero(x)
    rows, columns = (
        np.r_[rows, rows, rng.integers(0, len(x), 3)],
        np.r_[columns, columns, rng.integers(0, x.shape[1], 3)],
    )
    values = np.r_[np.tile(x[np.nonzero(x)] / 2, 2), np.zeros(3)]
    order = np.lexsort((rng.random(len(rows)), rows))
    pointers = np.r_[0, np.cumsum(np.bincount(rows, minlength=len(x)))]
    return sp.csr_matrix((values[order].astype(np.float32), columns[order], pointers), shape=x.shape)


@pytest.mark.parametrize("relation", CLAIMS)
@pytest.mark.parametrize("seed", range(6))
def test_odd_graphs(monkeypatch, relation, seed):
    """One to six nodes and one to twenty groups, loops, one class, any role, features from 1e-38 to 1e38, untidy or dense."""
    rng, held = np.random.default_rng(seed), []
    monkeypatch.setattr("sfumato.graph._checks.MOST_FEATURE", np.inf)
    monkeypatch.setattr(gradients, "operand_mac", lambda key, array: held.append(array) or b"")
    nodes, groups, classes, second = (
        rng.integers(1, 7),
        rng.choice([1, 2, 3, 20]),
        rng.integers(1, 4),
        rng.random() < 0.5,
    )
    roles, ids = rng.choice(4, nodes, p=[0.7, 0.1, 0.1, 0.1]), rng.permutation(1000)[:nodes]
    clip, weights = 10.0 ** rng.integers(-9, 10), rng.normal(size=2 * 3 + 3 + 4 * classes) * 10.0 ** rng.integers(-3, 3)

    def operand(adjacency, x, y):
        graph = Graph.from_edges(
            *np.nonzero(adjacency), nodes, directed=True, self_loops="keep", roles=roles, node_ids=ids,
            x=untidy(x, rng) if rng.random() < 0.5 else x, y=y if (y >= 0).any() else None, classes=("a", "b", "c")[:classes],
        )  # fmt: skip
        network = SplitNetwork(split_graph(graph, groups, seed, second_hop=second), 3, classes)
        split_steps(network, weights, PrivateSGD(1.0, 1, clip, 1.0, 0.01), KEY, leave_out=relation == "remove")
        return held.pop()

    for _ in range(6):
        adjacency, y = rng.random((nodes, nodes)) < rng.choice([0, 0.3, 1]), rng.integers(-1, classes, nodes)
        x = (rng.normal(size=(nodes, 2)) * 10.0 ** rng.integers(-38, 38, (nodes, 1))).astype(np.float32)
        x[rng.random(nodes) < 0.3] = 0
        left = operand(adjacency, x, y)
        for record in range(nodes):
            for arcs in ("incident", "owned"):
                other, changed, labels = adjacency.copy(), x.copy(), y.copy()
                empty = relation == "remove"
                other[record] = False if empty else rng.random(nodes) < 0.5
                if arcs == "incident":
                    other[:, record] = False if empty else rng.random(nodes) < 0.5
                changed[record], labels[record] = (0, -1) if empty else (rng.normal(size=2), rng.integers(-1, classes))
                moved = (left - operand(other, changed, labels)).tolist()
                assert (
                    sum(step * step for step in moved) <= (CLAIMS[relation] * 2**24) ** 2
                )  # whole numbers of any size
