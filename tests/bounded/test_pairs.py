"""Public draws for pairs of nodes, and noisy sums over edges."""

import numpy as np
import pytest

from sfumato.bounded._pairs import noisy_pair_sums, public_draws, row_steps
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE

KEY = bytes(range(32))


def test_a_draw_reads_the_pair_and_nothing_else():
    pairs = np.stack(np.triu_indices(60, 1))
    draws = public_draws(pairs, 60, "learners")
    np.testing.assert_array_equal(public_draws(pairs[::-1], 60, "learners"), draws)
    np.testing.assert_array_equal(public_draws(pairs[:, 100:], 60, "learners"), draws[100:])
    assert draws.min() >= 0
    assert draws.max() < 1
    assert abs(draws.mean() - 0.5) < 5 / np.sqrt(12 * len(draws))


def test_purposes_and_seeds_draw_independently():
    pairs = np.stack(np.triu_indices(60, 1))
    first = public_draws(pairs, 60, "learners")
    for other in (public_draws(pairs, 60, "held out"), public_draws(pairs, 60, "learners", 1)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 5 / np.sqrt(len(first))


def test_sums_are_exact_and_round_toward_zero():
    rows = np.array([[0.5, 1.0], [0.3, 0.0]])
    step = row_steps(2)
    assert noisy_pair_sums(rows, 0, KEY).tolist() == [int(0.5 * step) + int(0.3 * step), step]
    assert noisy_pair_sums(np.empty((0, 3)), 0, KEY).tolist() == [0, 0, 0]


def test_a_row_has_2_messages_at_most_and_nearly_so_many():
    for columns in range(1, 200):
        moved = noisy_pair_sums(np.ones((1, columns)), 0, KEY).sum() / INT16_ONE
        assert 2 - columns / INT16_ONE < moved <= 2


@pytest.mark.parametrize("number", [-0.01, 1.01, np.nan])
def test_numbers_out_of_range_are_refused(number):
    with pytest.raises(InputError, match="from 0 to 1"):
        noisy_pair_sums(np.array([[number]]), 1, KEY)
