"""Losses that read a released matrix: brute force over neighboring tiny graphs, and planted faults that it must catch."""

import numpy as np
import pytest
import scipy.sparse as sp
from soundness_records import graph_of, neighbor

from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _occurrences as occurrences
from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._occurrences import readers, root_examples, trim
from sfumato.bounded._pagerank import Walk
from sfumato.bounded._split_gradients import SplitNetwork, split_steps
from sfumato.bounded._splits import unit_rows
from sfumato.central._appr import Rows, loss_weights
from sfumato.errors import InputError

NODES, FEATURES, WIDTH, CLASSES, CLIP = 7, 3, 2, 2, 1e-3
ROOTS = np.array([0, 1, 2, 4, 6])
SIZE = FEATURES * WIDTH + WIDTH + (WIDTH + 1) * CLASSES
KEY = bytes(32)


def base(count, seed=0):
    """Random data: (adjacency, features, labels, released matrix). Some nodes have no features, some no label, few both."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        adjacency = rng.random((NODES, NODES)) < rng.uniform(0, 0.4)
        if number % 2:
            adjacency |= adjacency.T
        x = rng.normal(size=(NODES, FEATURES)).astype(np.float32)
        x[rng.random(NODES) < 0.2] = 0
        y = np.where(rng.random(NODES) < 0.2, -1, rng.integers(0, CLASSES, NODES))
        released = rng.normal(size=(len(ROOTS), NODES)) * (rng.random((len(ROOTS), NODES)) < 0.5)
        yield adjacency, x, y, sp.csr_matrix(released)


def network_of(data, released, most):
    """The network that the method trains; by names in the module, so that faults can be planted."""
    matrix = occurrences.trim(released, ROOTS, most)
    return SplitNetwork(root_examples(graph_of(*data), matrix, ROOTS), WIDTH, CLASSES)


def terms(network, weights, *, leave_out):
    """What each root adds, [roots, parameters]."""
    return np.array([
        network.clipped_sum(weights, np.array([w]), CLIP) * (1 - int(leave_out and network.split.left_out[w]))
        for w in range(len(ROOTS))
    ])  # fmt: skip


def measured(relation, arcs, most, count=12, seed=0, **options):
    """Over all records of many graphs: the most terms that changed, whether all of them vanished, the longest change in C."""
    rng = np.random.default_rng(1)
    leave_out = options.get("leave_out", relation == "remove")
    moved, vanished, longest = 0, True, 0.0
    for *data, released in base(count, seed):
        weights = rng.normal(size=SIZE)
        left = terms(network_of(data, released, most), weights, leave_out=leave_out)
        for record in range(NODES):
            other = neighbor(relation, arcs, record, data, rng)
            right = terms(network_of(other, released, most), weights, leave_out=leave_out)
            rows = np.flatnonzero((left != right).any(1))
            moved = max(moved, len(rows))
            vanished &= not right[rows].any()
            longest = max(longest, float(np.linalg.norm((left - right).sum(0))) / 2**24)
    return moved, vanished, longest


@pytest.mark.parametrize("arcs", ["incident", "owned"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_emptied_record_deletes_at_most_the_promised_terms_and_moves_no_other(arcs, most):
    moved, vanished, longest = measured("remove", arcs, most)
    assert moved == most
    assert vanished
    assert most - 1 < longest <= most


@pytest.mark.parametrize("most", [1, 3])
def test_a_replaced_record_exchanges_at_most_the_promised_terms(most):
    moved, vanished, longest = measured("replace", "incident", most)
    assert moved == most
    assert not vanished
    assert most < longest <= 2 * most


def clipped_columns(bound):
    """What losses read where columns are clipped to the bound after they were trimmed, as the method does."""
    return lambda matrix, roots, most: loss_weights(matrix, roots, most, bound)


@pytest.mark.parametrize("bound", [1e-3, 1.0])
def test_a_column_clip_neither_lets_more_terms_read_a_record_nor_fewer(monkeypatch, bound):
    """Trimming bounds the terms; a noise for the bound of the columns, here up to 2,000 times less, would be far too small."""
    monkeypatch.setattr(occurrences, "trim", clipped_columns(bound))
    moved, vanished, longest = measured("remove", "incident", 2)
    assert moved == 2
    assert vanished
    assert max(1.0, bound) < longest <= 2


def without_own_label(matrix, roots, most):
    """Column supports alone are counted: a root whose diagonal was trimmed still reads its own label."""
    shifted = np.arange(matrix.shape[1], matrix.shape[1] + matrix.shape[0])
    wide = sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], shifted[-1] + 1))
    return trim(wide, shifted, most)[:, : matrix.shape[1]]


def by_mass(matrix, roots, most):
    """Theorem 8: the L1 norm of each column is at most the bound."""
    mass = np.asarray(abs(matrix).sum(0)).ravel()
    return sp.csr_matrix(matrix @ sp.diags(1 / np.maximum(1, mass / most)))


def absent_by_arcs(graph):
    """A node without any arc alone counts as absent: neighbors of a record become absent together with it."""
    joined = sp.csr_matrix((np.ones(graph.num_arcs), graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    alone = np.asarray(joined.sum(0)).ravel() + np.asarray(joined.sum(1)).ravel() == 0
    return absent(graph) & alone


absent = occurrences.absent_nodes
FAULTS = {
    "the own label is not counted": [("trim", without_own_label)],
    "columns are bounded by their mass": [("trim", by_mass)],
    "columns are clipped, and nothing is trimmed": [("trim", lambda *given: clipped_columns(0.1)(*given[:2], NODES))],
    "nothing is trimmed": [("trim", lambda matrix, roots, most: matrix)],
    "absent nodes need to have no arc": [("absent_nodes", absent_by_arcs)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_reach_more_terms_are_caught(monkeypatch, name):
    for attribute, fault in FAULTS[name]:
        monkeypatch.setattr(occurrences, attribute, fault)
    assert any(measured("remove", "incident", 2, seed=seed)[0] > 2 for seed in range(20))


@pytest.mark.parametrize("most", [1, len(ROOTS)])
def test_rows_that_are_never_released_move_every_root_and_no_sum_further_than_that(most):
    """Exact rows change with the record: readers bound nothing, and k terms move a sum by up to 2 k."""
    rng, roots, moved, longest = np.random.default_rng(1), len(ROOTS), 0, 0.0
    walk = Walk(0.25, 1e-4, 1e-4)

    def changed(data):
        graph = graph_of(*data)
        rows = Rows("gaussian", roots, NODES, 2, 1.0).exact(graph, ROOTS, walk)
        return terms(network_of(data, rows, most), weights, leave_out=False)

    for *data, _ in base(40, seed=7):
        weights = rng.normal(size=SIZE)
        left = changed(data)
        for record in range(NODES):
            right = changed(neighbor("replace", "incident", record, data, rng))
            moved = max(moved, int((left != right).any(1).sum()))
            for drawn in (left - right, (left - right)[::2]):  # all roots, and those that some coins drew
                far = float(np.linalg.norm(drawn.sum(0))) / 2**24
                assert far <= 2 * len(drawn)
                longest = max(longest, far)
    assert moved > 2  # the bound of trimmed rows, R = 1, does not hold: neither for the terms
    assert longest > 2  # nor for the sums


def test_terms_of_an_emptied_record_that_are_not_left_out_are_caught():
    _, vanished, longest = measured("remove", "incident", 1, leave_out=False)
    assert not vanished
    assert longest > 1.01


def test_rows_that_read_other_nodes_are_caught(monkeypatch):
    """A mean that is taken off all rows is a mean over other nodes as well."""

    def centered(graph):
        rows = unit_rows(graph).toarray()
        return sp.csr_matrix(rows - rows.mean(0))

    monkeypatch.setattr(occurrences, "unit_rows", centered)
    assert measured("replace", "incident", 1)[0] > 1


def test_the_released_sums_are_those_of_the_terms(monkeypatch):
    """The path that a method takes adds what the terms add, and no more."""
    held = []
    monkeypatch.setattr(gradients, "operand_mac", lambda key, array: held.append(array) or b"")
    for *data, released in base(4):
        network, weights = network_of(data, released, 2), np.random.default_rng(3).normal(size=SIZE)
        settings = PrivateSGD(1.0, 1, CLIP, 1.0, 0.01)
        split_steps(network, weights, settings, KEY, leave_out=True)
        assert np.array_equal(held.pop(), terms(network, weights, leave_out=True).sum(0))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_no_id_has_more_readers_than_the_bound_and_the_largest_entries_stay(most):
    for *_, released in base(20, seed=5):
        kept = trim(released, ROOTS, most)
        assert readers(kept, ROOTS).max() <= most
        full, left = released.toarray(), kept.toarray()
        assert np.array_equal(left[left != 0], full[left != 0])
        for column in range(NODES):
            others = np.arange(len(ROOTS)) if column not in ROOTS else np.flatnonzero(column != ROOTS)
            dropped = np.abs(full[others, column] * (left[others, column] == 0)).max()
            assert dropped <= np.abs(left[others, column][left[others, column] != 0]).min(initial=np.inf)
        assert np.array_equal(left[np.arange(len(ROOTS)), ROOTS], full[np.arange(len(ROOTS)), ROOTS])


def test_scores_are_the_weighted_sum_of_those_of_the_nodes():
    """The kernel's gradient against a numerical one of the formula in the docstring."""
    *data, released = next(iter(base(1, seed=9)))
    graph, rng = graph_of(*data), np.random.default_rng(0)
    matrix = trim(released, ROOTS, 2)
    network, flat = SplitNetwork(root_examples(graph, matrix, ROOTS), WIDTH, CLASSES), rng.normal(size=SIZE)
    own, dense = unit_rows(graph).toarray(), matrix.toarray()
    dense[~dense.any(1), ROOTS[~dense.any(1)]] = 1

    def loss(parameters):
        first, bias, second, last = np.split(parameters, np.cumsum([FEATURES * WIDTH, WIDTH, WIDTH * CLASSES]))
        hidden = np.maximum(own @ first.reshape(FEATURES, WIDTH) + bias, 0)
        scores = dense @ hidden @ second.reshape(WIDTH, CLASSES) + last
        picked = scores[np.arange(len(ROOTS)), graph.y[ROOTS]] - np.log(np.exp(scores).sum(1))
        return -picked[graph.y[ROOTS] >= 0].sum()

    numeric = np.array([(loss(flat + step) - loss(flat - step)) / 2e-6 for step in 1e-6 * np.eye(SIZE)])
    assert np.allclose(network.gradient(flat, np.arange(len(ROOTS))), numeric, atol=1e-6)


@pytest.mark.parametrize("roots", [np.array([0, 0]), np.array([0])])
def test_roots_have_to_be_different_and_one_a_row(roots):
    with pytest.raises(InputError, match="different ids"):
        trim(sp.csr_matrix(np.eye(2)), roots, 1)
