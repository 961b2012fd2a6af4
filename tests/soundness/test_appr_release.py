"""PageRank rows: brute force over neighboring tiny graphs, the claims reached, and planted faults that the same check catches."""

from fractions import Fraction
from itertools import permutations
from math import exp, log, sqrt

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.bounded import _appr_release as appr_release
from sfumato.bounded._appr_release import (
    STEPS,
    clipped_rows,
    exponential_row_events,
    gaussian_row_event,
    pick_weights,
)
from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.graph._graph import Graph

NODES, CLIP = 7, 0.01
STAR = np.zeros((NODES, NODES), bool)
STAR[1:, 0] = STAR[0, 1:] = True


def rows_of(adjacency, alpha):
    owner, target = np.nonzero(adjacency)
    graph = Graph.from_edges(owner, target, NODES, directed=True)
    return approximate_pagerank(graph.indptr, graph.indices, np.arange(NODES), Walk(alpha, 0.01))


def emptied(adjacency, record):
    left = adjacency.copy()
    left[record] = left[:, record] = False
    return left


def pairs(alpha, count=30):
    """All rows of random graphs and of a star, before and after each node lost all its arcs."""
    rng = np.random.default_rng(0)
    for number in range(count):
        adjacency = rng.random((NODES, NODES)) < rng.uniform(0.05, 0.6)
        adjacency = STAR if not number else adjacency | adjacency.T if number % 2 else adjacency
        before = rows_of(adjacency, alpha)
        for record in range(NODES):
            yield before, rows_of(emptied(adjacency, record), alpha)


def moved(clip, alpha=0.05):
    """The largest change of one row and of the whole matrix, in clipping thresholds."""
    apart = [(clipped_rows(a, clip) - clipped_rows(b, clip)).toarray() / STEPS for a, b in pairs(alpha)]
    return max(np.linalg.norm(change, axis=1).max() for change in apart), max(map(np.linalg.norm, apart))


def test_a_removed_node_moves_each_row_by_at_most_sqrt_2_clips_and_more_than_the_published_one():
    row, whole = moved(CLIP)
    assert 1.35 < row <= sqrt(2)
    assert 1 < whole / sqrt(NODES) <= sqrt(2)
    event = gaussian_row_event(NODES, CLIP, 1.0)
    assert row * CLIP <= 1 / event.noise_multiplier
    assert whole * CLIP <= sqrt(event.count) / event.noise_multiplier


def test_the_published_sensitivity_fails_in_the_published_walk():
    """A star's leaf, with the published alpha too, if its arcs move from one node to another."""
    ends = [clipped_rows(rows_of(only_arc_to(node), 0.25), CLIP).toarray()[0] / STEPS for node in (1, 2)]
    assert 1 < np.linalg.norm(ends[0] - ends[1]) <= sqrt(2)


def only_arc_to(node):
    adjacency = np.zeros((NODES, NODES), bool)
    adjacency[0, node] = True
    return adjacency


def test_steps_never_exceed_the_norm():
    rng = np.random.default_rng(1)
    dense = rng.random((3000, 5)) * 10.0 ** rng.integers(-200, 150, (3000, 1)) * (rng.random((3000, 5)) < 0.7)
    dense[0] = [0.6, 0.8, 0, 0, 0]
    for clip in (1e-9, 0.01, 1.0, 1e9):
        steps = clipped_rows(sp.csr_array(dense), clip).toarray().astype(object)
        assert (steps >= 0).all()
        assert ((steps**2).sum(1) <= STEPS**2).all()
    assert (clipped_rows(sp.csr_array(dense), 1e-9).toarray()[0, :2] > 0.59 * STEPS).all()


def unclipped(matrix, clip):
    return sp.csr_array(
        (np.floor(matrix.data / clip * STEPS).astype(np.int64), matrix.indices, matrix.indptr), matrix.shape
    )


def by_entry(matrix, clip):
    """Each entry is clipped alone."""
    steps = np.minimum(np.floor(matrix.data / clip * STEPS), STEPS).astype(np.int64)
    return sp.csr_array((steps, matrix.indices, matrix.indptr), matrix.shape)


def signed(matrix, clip):
    """The mean of a row is taken off: entries become negative, and opposite rows are possible."""
    dense = matrix.toarray() - matrix.toarray().mean(1, keepdims=True)
    return sp.csr_array(np.trunc(dense / np.linalg.norm(dense, axis=1, keepdims=True) * STEPS))


@pytest.mark.parametrize("fault", [unclipped, by_entry, signed])
def test_planted_faults_in_clipping_are_caught(monkeypatch, fault):
    monkeypatch.setitem(globals(), "clipped_rows", fault)
    assert moved(CLIP)[0] > 1.01 * sqrt(2)


def picks_of(weights, lightest, row, top_k):
    """The exact probability of every ordered outcome of the one-shot selection of a row."""
    dense = [int(lightest)] * NODES
    for column, weight in zip(*(part[weights.indptr[row] : weights.indptr[row + 1]]
                                for part in (weights.indices, weights.data)), strict=True):  # fmt: skip
        dense[column] = int(weight)
    outcomes = {}
    for order in permutations(range(NODES), top_k):
        left, chance = sum(dense), Fraction(1)
        for pick in order:
            chance, left = chance * Fraction(dense[pick], left), left - dense[pick]
        outcomes[order] = chance
    return outcomes


def worst_ratio(clip, scale, top_k, count=6):
    worst = 0.0
    for a, b in pairs(0.25, count):
        both = [pick_weights(part, clip, scale) for part in (a, b)]
        for row in range(NODES):
            left, right = (picks_of(*part, row, top_k) for part in both)
            worst = max(worst, *(abs(log(left[order] / right[order])) for order in left))
    return worst


@pytest.mark.parametrize(("top_k", "scale"), [(1, 0.02), (1, 0.002), (2, 0.02)])
def test_a_removed_node_moves_the_chance_of_picks_by_at_most_the_claim(top_k, scale):
    (event,) = exponential_row_events(1, CLIP, scale, top_k)
    worst = worst_ratio(CLIP, scale, top_k)
    assert event.count == top_k
    assert worst <= event.epsilon * event.count
    # C2 / b a pick, as if all scores moved one way, would not do; two picks on seven nodes are less than two single ones.
    assert worst > (0.5 if top_k == 1 else 0.4) * event.epsilon * event.count


def test_the_claim_of_a_pick_is_reached():
    """One entry falls and all others rise: 2 C2 / b, and no more."""
    full, empty = (sp.csr_array(np.array([row])) for row in ([1.0] + [0.0] * 6, [0.0] + [1.0] * 6))
    weights = [pick_weights(part, CLIP, CLIP / 0.001) for part in (full, empty)]
    left, right = (picks_of(*part, 0, 1) for part in weights)
    (event,) = exponential_row_events(1, CLIP, CLIP / 0.001, 1)
    assert 0.99 * event.epsilon < log(left[0,] / right[0,]) + log(right[1,] / left[1,]) <= event.epsilon + 1e-12


@pytest.mark.parametrize("span", [1e-6, 0.1, 1.0, 7.3, 15.99, 16, 50, 1e4])
@pytest.mark.parametrize("nodes", [NODES, 2**28])
def test_weights_stay_in_their_range_exactly(span, nodes):
    matrix = sp.csr_array(([0.0, 1e-300, CLIP / 2, CLIP, 1e300], [0, 1, 2, 3, 4], [0, 5]), shape=(1, nodes))
    weights, lightest = pick_weights(matrix, CLIP, CLIP / span)
    assert lightest >= 2**7
    assert weights.data.min() >= lightest
    assert int(weights.data.max()) * nodes <= 2**60
    assert Fraction(int(weights.data.max()), lightest) <= Fraction(exp(min(CLIP / (CLIP / span), 700))) * (
        1 + Fraction(1, 10**15)
    )
    assert weights.data[3] == weights.data[4]


def beyond(matrix, clip, scale):
    """Entries are clipped to twice the bound."""
    data = np.rint(2**20 * np.exp(np.minimum(matrix.data, 2 * clip) / scale)).astype(np.uint64)
    return sp.csr_array((data, matrix.indices, matrix.indptr), matrix.shape), 2**20


def without_zeros(matrix, clip, scale):
    """An entry that is zero cannot be picked."""
    return pick_weights_sound(matrix, clip, scale)[0], 1


pick_weights_sound = appr_release.pick_weights


@pytest.mark.parametrize("fault", [beyond, without_zeros])
def test_planted_faults_in_weights_are_caught(monkeypatch, fault):
    monkeypatch.setitem(globals(), "pick_weights", fault)
    (event,) = exponential_row_events(1, CLIP, 0.02, 1)
    assert worst_ratio(CLIP, 0.02, 1, 3) > 1.01 * event.epsilon


def test_released_values_move_by_at_most_k_clips():
    picks = np.array([[0, 2, 5]])
    rows = [sp.csr_array(np.array([row])) for row in ([9.0] * NODES, [0.0] * NODES)]
    high, low = (appr_release._entries(part, CLIP, picks) for part in rows)
    assert abs(high - low).sum() == 3 * STEPS
    assert exponential_row_events(4, CLIP, 1.0, 3, 0.6)[1].noise_multiplier == pytest.approx(0.6 / (3 * CLIP))
