"""Public draws for pairs of nodes, and noisy sums over edges."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded._pairs import noisy_pair_sums, pair_sensitivity, public_draws, row_steps
from sfumato.bounded.kernels import INT16_ONE
from sfumato.errors import InputError, UnsupportedUnitError

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


@pytest.mark.parametrize("unit", [sf.EdgeLevel(directed=True), sf.NodeLevel(max_out_degree=3), sf.RecordLevel()])
def test_other_units_have_no_bound(unit):
    with pytest.raises(UnsupportedUnitError, match=r"no proof.*Use EdgeLevel\(directed=False\)"):
        pair_sensitivity(unit)


def test_a_class_below_the_unit_inherits_no_bound():
    class Several(sf.EdgeLevel):
        pass

    with pytest.raises(UnsupportedUnitError):
        pair_sensitivity(Several(directed=False))


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


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_noise_has_the_scale_that_is_charged(factor, right):
    noise = noisy_pair_sums(np.empty((0, 40_000)), 2.0 * factor, KEY) / INT16_ONE
    mean = np.abs(noise).mean() / 2.0
    assert (abs(mean - 1) < 5 / np.sqrt(noise.size)) == right


def test_other_operands_have_other_noise_and_the_same_one_the_same():
    rows = np.full((3, 50), 0.5)
    more = np.vstack([rows, rows[:1]])
    one, again, other = (noisy_pair_sums(part, 2.0, KEY) for part in (rows, rows, more))
    np.testing.assert_array_equal(one, again)
    apart = other - noisy_pair_sums(more, 0, KEY) - (one - noisy_pair_sums(rows, 0, KEY))
    assert (apart != 0).mean() > 0.99
