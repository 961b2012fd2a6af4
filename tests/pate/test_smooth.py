"""Smooth sensitivities against every histogram within reach, and the release of a value against its exact divergence."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.pate import _sensitivity as sensitivity
from sfumato.pate._data_dependent import (
    gaussian_log_q,
    gaussian_renyi,
    laplace_log_q,
    laplace_renyi,
    log_tilted_weights,
)
from sfumato.pate._sensitivity import confident_local_sensitivities, laplace_local_sensitivities, local_sensitivities
from sfumato.pate._smooth import gnss_renyi, published_gnss_renyi, smooth_sensitivity


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


def gaussian_cost(rows):
    return gaussian_renyi(gaussian_log_q(rows, 1.0), 1.0, np.array([2.0]))[:, 0]


def laplace_cost(rows):
    return laplace_renyi(laplace_log_q(rows, 1.0), 2.0, np.array([2.0]))[:, 0]


@pytest.mark.parametrize("beta", [0.05, 0.3, 1.0])
@pytest.mark.parametrize(
    ("bound", "cost"), [(local_sensitivities, gaussian_cost), (laplace_local_sensitivities, laplace_cost)]
)
def test_smooth_sensitivity_is_a_smooth_upper_bound(exact, bound, cost, beta):
    rows, truth = exact.changes(8, 3, cost)
    claimed = bound(rows, 1.0, 2.0)
    smooth = np.array([smooth_sensitivity(steps, beta) for steps in claimed])
    assert (smooth >= [smooth_sensitivity(steps, beta) for steps in truth]).all()
    place = {tuple(row): i for i, row in enumerate(rows)}
    pairs = np.array([(place[tuple(other)], i) for i, row in enumerate(rows) for other in exact.neighbors(row)]).T

    def largest(values):
        return float(np.divide(*values[pairs]).max())

    assert np.exp(2 / 3 * beta) < largest(smooth) <= np.exp(beta) * (1 + 1e-9)
    assert largest(truth[:, 0] + 1e-9) > np.exp(beta), "the local sensitivity itself would pass as well"


@pytest.mark.parametrize(
    ("teachers", "noise", "order", "beta"), [(50, (20.0, 8.0), 3.0, 0.002), (120, (70.0, 20.0), 8.0, 0.001)]
)
def test_confident_bound_is_smooth_where_all_teachers_may_change(monkeypatch, teachers, noise, order, beta):
    """A count beyond all teachers, d + 1 changes from now, would let the bound grow where the maximum over d is cut off."""

    def steepest():
        worst = 0.0
        for top in range(teachers // 2 + 1, teachers):
            rows = np.array([[top, teachers - top, 0], [top - 1, teachers - top + 1, 0]])
            peaks = rows.max(axis=1).astype(float)
            bounds = confident_local_sensitivities(rows, peaks, 0.8 * teachers, *noise, order)
            worst = max(worst, abs(np.diff([np.log(smooth_sensitivity(steps, beta)) for steps in bounds])[0]))
        return worst

    assert steepest() <= beta * (1 + 1e-6)

    def uncapped(reached, *rest):
        return log_tilted_weights(reached[:, :1] + np.arange(reached.shape[1]), *rest)

    monkeypatch.setattr(sensitivity, "log_tilted_weights", uncapped)
    assert steepest() > 1.1 * beta
