"""Counts of cells in which somebody did not answer: only their number is known, and the model says less, gently."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local._cells import cells_of
from sfumato.local._collection import topology
from sfumato.local._opened import _of_counted, smoothed
from sfumato.local._shared_counts import SharedCounts
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords

GRAPH = stochastic_block_model(600, 3, mean_degree=12, num_features=0, seed=3).with_split((0.5, 0.25, 0.25), seed=0)
ASKED = GRAPH.train_mask | GRAPH.val_mask


def opened(epsilon, answers, key):
    """What two servers open if so many of all who are asked answer, drawn by the key, as is the noise of both."""
    method, rng = SharedCounts(epsilon), np.random.default_rng(key)
    cells = cells_of(topology(GRAPH), ASKED, method.size)
    there = ASKED & (rng.random(GRAPH.num_nodes) < answers)
    counts = np.zeros((1 + cells.max(), 3), np.int64)
    np.add.at(counts, (cells[there], GRAPH.y[there]), 1)
    for server in range(2):
        source = SecretWords(bytes([key, server] * 16))
        counts = counts + zero_sum_laplace(source, Fraction(2) / Fraction(epsilon), *counts.shape)
    return np.concatenate((cells[:, None], np.where(ASKED[:, None], counts[cells], 0)), axis=1)


def right(epsilon, answers, keys=6):
    """The mean accuracy on nodes that were not asked."""
    method = SharedCounts(epsilon)
    found = [method.learned(GRAPH, opened(epsilon, answers, key)).argmax(axis=1) for key in range(keys)]
    return np.mean([(one == GRAPH.y)[~ASKED].mean() for one in found])


@pytest.mark.parametrize("counted", list(product(range(1, 4), range(1, 5))))
def test_the_covariance_is_that_of_random_users_of_the_cells(counted):
    """Brute force over all sets of so many users of two cells, under a kernel of unit diagonal."""
    factor = np.random.default_rng(5).normal(size=(7, 3)) + 1
    factor /= np.linalg.norm(factor, axis=1)[:, None]
    kernel, cells = factor @ factor.T, (np.arange(3), np.arange(3, 7))
    member = np.array([np.isin(np.arange(7), cell) for cell in cells]).astype(float)
    every = [
        member_of @ kernel @ member_of.T
        for first in combinations(cells[0], counted[0])
        for second in combinations(cells[1], counted[1])
        for member_of in [np.array([np.isin(np.arange(7), some) for some in (first, second)]).astype(float)]
    ]
    sizes, k = np.array([3.0, 4.0]), np.array(counted, float)
    found = _of_counted(member @ kernel @ member.T, sizes, k)
    np.testing.assert_allclose(found, np.mean(every, axis=0), atol=1e-12)
    naive = (member @ kernel @ member.T) * np.outer(k / sizes, k / sizes)
    assert (k == sizes).all() == np.allclose(naive, found, atol=1e-9)


def test_cells_without_answers_say_nothing():
    """Their noise, of whatever size, is as if their users had not been asked."""
    method, rows = SharedCounts(1.0), opened(1.0, 1.0, 0)
    empty, unasked = rows.copy(), rows.copy()
    silent = rows[:, 0] == rows[:, 0].max()
    empty[silent, 1:] = [40, -50, 10]
    unasked[silent] = [-1, 0, 0, 0]
    found = method.learned(GRAPH, empty)
    np.testing.assert_array_equal(found, method.learned(GRAPH, unasked))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_few_answers_and_none_break_nothing():
    for answers in (0.0, 0.003, 0.02):
        found = SharedCounts(4.0).learned(GRAPH, opened(4.0, answers, 1))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(SharedCounts(4.0).learned(GRAPH, opened(4.0, 0.0, 1)), 1 / 3)


def test_a_cell_of_one_user_is_counted_or_not():
    kernel = np.eye(4, dtype=np.float32)
    cells, counts = np.array([0, 1, 2, -1]), np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    found = smoothed([(kernel, 0.0)], cells, counts, 1e-6)
    assert found[0, 0] > 0.7
    assert found[2, 1] > 0.7
    np.testing.assert_allclose(found[[1, 3]], 0.5, atol=1e-6)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, (0.99, 0.97, 0.88)), (2.0, (0.99, 0.98, 0.98))])
def test_accuracy_falls_gently(epsilon, least):
    """Fixed keys: with all, four in five, and half of the answers."""
    found = [right(epsilon, answers) for answers in (1.0, 0.8, 0.5)]
    assert (np.array(found) >= least).all(), found
