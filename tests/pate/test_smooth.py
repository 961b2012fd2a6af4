"""Local sensitivities against every histogram within reach, and the release of a value against its exact divergence."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.pate.data_dependent import gaussian_log_q, gaussian_renyi
from sfumato.pate.smooth import (
    charged,
    conditions,
    confident_local_sensitivities,
    gnss_renyi,
    local_sensitivities,
    published_gnss_renyi,
    smooth_sensitivity,
    tilted_weights,
)

SETTINGS = [(8, 3, 1.0, 2.0), (6, 3, 0.7, 1.5), (9, 2, 3.0, 2.0), (5, 4, 2.0, 2.0), (8, 3, 5.0, 4.0)]


def brute_force(exact, teachers, classes, value):
    """Largest change of ``value`` by one vote, among histograms within d changes: {histogram: [d = 0, 1, ...]}."""
    rows = exact.histograms(teachers, classes)
    at = {tuple(row): float(v) for row, v in zip(rows, value(rows), strict=True)}
    local = {tuple(r): max(abs(at[tuple(r)] - at[tuple(o)]) for o in exact.neighbors(r)) for r in rows}
    far = np.abs(rows[:, None] - rows).sum(axis=2) // 2
    steps = np.array([local[tuple(row)] for row in rows])
    return rows, np.array([[steps[far[i] <= d].max() for d in range(teachers)] for i in range(len(rows))])


@pytest.mark.parametrize(("teachers", "classes", "noise", "order"), SETTINGS)
def test_no_histogram_within_reach_moves_more(exact, teachers, classes, noise, order):
    def value(rows):
        return gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]

    rows, truth = brute_force(exact, teachers, classes, value)
    bound = local_sensitivities(rows, noise, order)
    slack = 1e-12 * order / noise**2
    assert (bound + slack >= truth).all()
    assert (np.diff(bound, axis=1) >= -slack).all()


def test_a_bound_that_looks_one_vote_less_far_fails(exact):
    def value(rows):
        return gaussian_renyi(gaussian_log_q(rows, 1.0), 1.0, np.array([2.0]))[:, 0]

    rows, truth = brute_force(exact, 8, 3, value)
    bound = local_sensitivities(rows, 1.0, 2.0)
    assert (bound[:, :-1] < truth[:, 1:] - 1e-9).any()


@pytest.mark.parametrize(("threshold", "spread"), [(5.0, 2.0), (3.0, 4.0)])
@pytest.mark.parametrize(("teachers", "classes", "noise", "order"), SETTINGS)
def test_confident_bound_covers_the_probability_of_an_answer(exact, teachers, classes, noise, order, threshold, spread):
    def value(rows):
        answers = gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]
        return charged(answers, tilted_weights(rows.max(axis=1), threshold, spread, order), order)

    rows, truth = brute_force(exact, teachers, classes, value)
    bound = confident_local_sensitivities(rows, rows.max(axis=1), threshold, spread, noise, order)
    assert (bound + 1e-12 >= truth).all()


def test_published_weights_miss_that_probability(exact):
    threshold, spread, noise, order = 5.0, 2.0, 5.0, 4.0

    def value(rows):
        answers = gaussian_renyi(gaussian_log_q(rows, noise), noise, np.array([order]))[:, 0]
        return charged(answers, tilted_weights(rows.max(axis=1), threshold, spread, order), order)

    rows, truth = brute_force(exact, 8, 3, value)
    weights = tilted_weights(rows.max(axis=1), threshold, spread, order)
    assert (weights[:, None] * local_sensitivities(rows, noise, order) < truth).any()


def test_classes_are_sorted_first():
    """Known fault elsewhere: with unsorted counts the sensitivity is 0 unless class 0 wins."""
    winner_last = local_sensitivities(np.array([[30, 20, 200]]), 40.0, 14.0)
    assert winner_last == pytest.approx(local_sensitivities(np.array([[200, 30, 20]]), 40.0, 14.0), rel=1e-12)
    assert winner_last[0, 60] > 0


def test_published_local_sensitivities():
    few = local_sensitivities(np.array([[10, 0, 0]]), 0.5, 1.5)[0]
    assert few == pytest.approx([3.13507e-17, 1.60180e-8, 5.90684e-3, *[5.99981308] * 7], rel=1e-5)
    many = local_sensitivities(np.array([[1000, 500, 300, 200, 0]]), 250.0, 10.0)[0]
    assert (many[:298] == 0).all()
    assert many[298:301] == pytest.approx([2.777e-7, 2.109e-6, 2.731e-6], rel=3e-4)
    assert many[300:] == pytest.approx(many[300])


def test_published_conditions():
    assert conditions(20.0, 10, 25.0) == (True, False)
    assert conditions(30.0, 10, 25.0) == (True, True)
    with pytest.raises(InputError, match="C5 and C6"):
        local_sensitivities(np.array([[100, *[0] * 9]]), 20.0, 25.0)


def gaussians(shift, first, second, order):
    """Exact Renyi divergence of N(0, first^2) from N(shift, second^2)."""
    mixed = (1 - order) * first**2 + order * second**2
    if mixed <= 0:
        return np.inf
    spread = 0.5 * np.log(mixed) - (1 - order) * np.log(first) - order * np.log(second)
    return order * shift**2 / (2 * mixed) + spread / (1 - order)


def worst_pair(order, beta, noise):
    """Largest exact divergence of a release: values differ by no more than either sensitivity."""
    ratios = np.exp(np.linspace(-beta, beta, 41))
    return max(
        gaussians(min(1.0, ratio) * part, noise, noise * ratio, order) for ratio in ratios for part in (0, 0.5, 1)
    )


@pytest.mark.parametrize("order", [2.0, 7.5, 14.0, 50.0])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.49])
@pytest.mark.parametrize("noise", [2.0, 6.0, 12.0])
def test_release_costs_what_the_worst_pair_says(order, share, noise):
    assert gnss_renyi(share / order, noise, order) == pytest.approx(worst_pair(order, share / order, noise), rel=1e-12)


@pytest.mark.parametrize(("order", "beta", "noise"), [(14.0, 0.0329, 6.23), (7.5, 0.0533, 4.88), (20.5, 0.0205, 11.9)])
def test_published_release_costs_less_than_the_truth(order, beta, noise):
    """The printed parameters: the divergence of the very Gaussians, integrated, is above the printed formula."""
    ratio = np.exp(-beta)
    x = np.linspace(-60 * noise, 60 * noise, 400_001)
    log_p = -(x**2) / (2 * noise**2)
    log_q = -((x - ratio) ** 2) / (2 * (noise * ratio) ** 2) + beta
    density = np.exp(order * log_p + (1 - order) * log_q) / (noise * np.sqrt(2 * np.pi))
    truth = np.log(density.sum() * (x[1] - x[0])) / (order - 1)
    assert truth == pytest.approx(gnss_renyi(beta, noise, order), rel=1e-6)
    assert truth > 1.15 * published_gnss_renyi(beta, noise, order)


def test_release_needs_a_small_beta():
    with pytest.raises(InputError, match="smaller beta"):
        gnss_renyi(0.12, 5.0, 5.0)


def test_smooth_sensitivity_is_smooth(exact):
    rows = exact.histograms(8, 3)
    bound = local_sensitivities(rows, 1.0, 2.0)
    values = {tuple(row): smooth_sensitivity(steps, 0.3) for row, steps in zip(rows, bound, strict=True)}
    ratios = [values[tuple(o)] / values[tuple(row)] for row in rows for o in exact.neighbors(row)]
    assert max(ratios) <= np.exp(0.3) * (1 + 1e-9)
    assert max(ratios) > np.exp(0.2)
