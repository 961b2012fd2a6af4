"""Noisy counts: brute force over edges measures the L1 sensitivity of both parts together; near misses fail."""

import numpy as np
import pytest
import soundness_faults as faults
from soundness_neighbors import NODES, WIDTH, Graphs, edge_pairs, owner_arcs, without_loops

import sfumato as sf
from sfumato.bounded import _counting as counting
from sfumato.bounded import _routing as routing
from sfumato.bounded._counting import count_sensitivity, from_senders, gaussian_counts, noisy_counts, to_count_steps
from sfumato.bounded._degree import by_destination
from sfumato.bounded.aggregation import Arcs, neighborhood_sum
from sfumato.central import _power_steps as power
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.calibration import LEAST_PURE_EPSILON, gaussian_noise_multiplier

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)


def shares(rows):
    """Rows of L1 norm 1, with signs: what the bound allows at most."""
    flat = rows.reshape(-1, WIDTH)
    lengths = np.abs(flat).sum(1, keepdims=True)
    return np.divide(flat, lengths, out=np.zeros_like(flat), where=lengths > 0).astype(np.float32)


def parts(graphs: Graphs, directed: bool) -> list[np.ndarray]:
    """Both parts before noise, where a public half of the nodes sends first."""
    arcs = Arcs(*by_destination(*owner_arcs(graphs.adjacency)))
    known = np.arange(arcs.num_nodes) % NODES < NODES // 2
    rank = routing.public_order(known, 3)
    arcs = routing.outward(arcs, known) if directed else routing.one_way(arcs, rank)
    steps = to_count_steps(shares(graphs.rows))
    sets = from_senders(arcs, known), counting.from_senders(arcs, ~known)
    return [neighborhood_sum(one, steps).reshape(graphs.rows.shape) for one in sets]


def power_steps(graphs: Graphs, directed: bool) -> list[np.ndarray]:
    """Both parts of method dpar: known nodes send to others, which send among each other."""
    arcs = Arcs(*by_destination(*owner_arcs(graphs.adjacency)))
    known = np.arange(arcs.num_nodes) % NODES < NODES // 2
    arcs, rows = counting.to_others(arcs, known), shares(graphs.rows)
    rows[~known] /= power.unrouted_sensitivity(ARC if directed else EDGE)
    sets = from_senders(arcs, known), counting.from_senders(arcs, ~known)
    steps = to_count_steps(rows)
    return [neighborhood_sum(one, steps).reshape(graphs.rows.shape) for one in sets]


def check(directed, claim, parts=parts, most=1, order=1):
    """Both parts together move by the claim at most in a norm, in one row; some pair of graphs reaches it."""
    pairs = without_loops(edge_pairs(40, directed=directed))
    sides = [parts(side, directed) for side in (pairs.left, pairs.right)]
    moved = [np.abs(left - right) for left, right in zip(*sides, strict=True)]
    change = sum((one.astype(float) ** order).sum(axis=(1, 2)) for one in moved) ** (1 / order) / INT16_ONE
    rows = sum(one.any(axis=2).sum(axis=1) for one in moved)
    assert change.max() <= claim + 1e-12, "too small a claim"
    assert rows.max() <= most, "two rows change"
    assert change.max() > claim - 0.01, "not reached"
    return len(change)


@pytest.mark.parametrize("directed", [True, False])
def test_both_parts_together_move_by_1_at_most(directed):
    assert check(directed, count_sensitivity(ARC if directed else EDGE)) > 100


def whole(rows):
    """Rows with one entry of norm 1, such as labels have: what the bound in L2 norm allows at most."""
    flat = rows.reshape(-1, WIDTH)
    flat = flat / np.maximum(np.abs(flat).sum(1, keepdims=True), 1e-9)
    return np.where(np.arange(WIDTH) == 0, np.abs(flat).sum(1, keepdims=True), 0).astype(np.float32)


@pytest.mark.parametrize("directed", [True, False])
def test_both_parts_together_move_by_1_at_most_in_the_norm_of_gaussian_noise(directed, monkeypatch):
    monkeypatch.setitem(globals(), "shares", whole)
    assert check(directed, count_sensitivity(ARC if directed else EDGE), order=2) > 100


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("factor", "message"), [(0.95, "too small"), (1.05, "not reached")])
def test_another_claim_fails(factor, message, order, monkeypatch):
    if order == 2:
        monkeypatch.setitem(globals(), "shares", whole)
    with pytest.raises(AssertionError, match=message):
        check(False, factor, order=order)


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (routing, "one_way", faults.both_ways),
        (routing, "one_way", faults.degree_order),
        (counting, "from_senders", lambda arcs, sends: arcs),
    ],
    ids=["both ways", "an order by degree", "known senders again in the second part"],
)
def test_planted_faults_are_caught(monkeypatch, module, name, fault):
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError, match=r"too small|two rows"):
        check(False, 1.0)


@pytest.mark.parametrize("directed", [True, False])
def test_power_steps_move_both_parts_together_by_1_at_most(directed):
    assert check(directed, 1.0, power_steps, 1 if directed else 2) > 100


@pytest.mark.parametrize(("factor", "message"), [(0.95, "too small"), (1.05, "not reached")])
def test_another_claim_of_power_steps_fails(factor, message):
    with pytest.raises(AssertionError, match=message):
        check(False, factor, power_steps, 2)


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (power, "unrouted_sensitivity", lambda unit: 1.0),
        (counting, "to_others", lambda arcs, known: arcs),
        (counting, "from_senders", lambda arcs, sends: arcs),
    ],
    ids=["whole messages along both arcs", "known nodes receive", "known senders again in the second part"],
)
def test_planted_faults_of_power_steps_are_caught(monkeypatch, module, name, fault):
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError, match=r"too small"):
        check(False, 1.0, power_steps, 2)


def test_rows_never_leave_longer_than_1_and_longer_ones_are_refused():
    rng = np.random.default_rng(0)
    rows = rng.random((2000, 70)).astype(np.float32)
    rows /= rows.sum(1, keepdims=True)
    edges = np.array([[1.0, 0.0], [np.nextafter(np.float32(1), np.float32(2)), 0], [0.5, -0.5]], np.float32)
    for some in (rows, edges):
        assert np.abs(to_count_steps(some).astype(int)).sum(1).max() <= INT16_ONE
    for long in ([[0.6, 0.5]], [[1.001, 0.0]], [[-0.7, 0.7]], [[np.nan, 0.0]]):
        with pytest.raises(InputError, match="rows"):
            to_count_steps(np.array(long, np.float32))


def test_a_row_of_norm_1_in_the_other_sense_is_refused():
    """Codes of label messages have L2 norm 1, and L1 norm above it: Laplace noise would be too small for them."""
    both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    with pytest.raises(InputError, match="L1 norm at most 1"):
        noisy_counts(both, np.full((2, 2), 0.7, np.float32), 1.0, bytes(32))


def test_rows_of_other_nodes_and_negative_noise_are_refused():
    both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    with pytest.raises(InputError, match="a matrix of 2 rows"):
        noisy_counts(both, np.eye(3, dtype=np.float32), 1.0, bytes(32))
    with pytest.raises(InputError, match="noise_scale"):
        noisy_counts(both, np.eye(2, dtype=np.float32), -1.0, bytes(32))


def test_laplace_noise_is_smaller_than_gaussian_noise_where_the_module_says():
    for epsilon in np.geomspace(0.01, 20, 30):
        assert np.sqrt(2) / epsilon < min(gaussian_noise_multiplier(epsilon, delta) for delta in (1e-5, 1e-7, 1e-12))
    assert np.sqrt(2) / 0.01 > gaussian_noise_multiplier(0.01, 0.01), "not everywhere"
    told = [gaussian_noise_multiplier(epsilon, 1e-7) for epsilon in (1.0, 0.25)]
    assert np.round([*told, np.sqrt(2) / 0.25], 1).tolist() == [4.7, 17.3, 5.7]


def test_the_sampler_draws_noise_at_both_ends_of_what_calibration_allows():
    empty, rows = Arcs(np.zeros(4, np.int64), np.zeros(0, np.int32)), np.zeros((3, 2), np.float32)
    noisy_counts(empty, rows, 1 / LEAST_PURE_EPSILON, bytes(32))
    assert not noisy_counts(empty, rows, 1e-9, bytes(32)).any()
    with pytest.raises(InputError, match="scale"):
        noisy_counts(empty, rows, 1e5 / LEAST_PURE_EPSILON, bytes(32))


@pytest.mark.parametrize("factor", [1, 2 / 3, 3 / 2])
def test_gaussian_counts_have_the_deviation_that_is_asked_for(factor):
    """A near miss of two thirds or three halves of it is told apart."""
    empty, rows = Arcs(np.zeros(4001, np.int64), np.zeros(0, np.int32)), np.zeros((4000, 2), np.float32)
    noise = gaussian_counts(empty, rows, 3.0, bytes(32)) / INT16_ONE
    assert (abs(noise.std() / (3.0 * factor) - 1) < 0.03) == (factor == 1)
    assert abs(noise.mean()) < 0.15
    assert abs(np.mean((noise / noise.std()) ** 4) - 3) < 0.3, "Laplace noise would have 6"


def test_gaussian_counts_depend_on_the_exact_operand_and_refuse_longer_rows():
    both, rows = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32)), np.eye(2, dtype=np.float32)
    first = gaussian_counts(both, rows, 2.0, bytes(32))
    np.testing.assert_array_equal(gaussian_counts(both, rows, 2.0, bytes(32)), first)
    other = gaussian_counts(both, rows[::-1].copy(), 2.0, bytes(32))
    assert (first - neighborhood_sum(both, to_count_steps(rows)) != other).all()
    for wrong, message in ((np.full((2, 2), 0.7, np.float32), "L1 norm"), (np.eye(3, dtype=np.float32), "2 rows")):
        with pytest.raises(InputError, match=message):
            gaussian_counts(both, wrong, 1.0, bytes(32))
    with pytest.raises(InputError, match="noise_stddev"):
        gaussian_counts(both, rows, -1.0, bytes(32))


@pytest.mark.parametrize("workers", [1, 3])
def test_noise_is_the_same_in_any_pieces_by_any_threads(workers, monkeypatch):
    arcs = Arcs(np.array([0, 1, 2, 2]), np.array([1, 0], np.int32))
    rows, key = np.eye(3, 5, dtype=np.float32), bytes(32)
    whole = noisy_counts(arcs, rows, 2.0, key)
    monkeypatch.setattr(counting, "_PIECE", 4)
    monkeypatch.setattr(counting, "threads", lambda: workers)
    np.testing.assert_array_equal(noisy_counts(arcs, rows, 2.0, key), whole)
