"""Noise multipliers (standard deviation / L2 sensitivity) that the GAP reference code arrives at, edge level."""

import pytest

from sfumato.privacy.calibration import gaussian_noise_multiplier

# GAP (Sajadmanesh et al. 2023), epsilon, delta, hops K: Facebook, Reddit, Amazon; then epsilon 1, K = 2 and 5.
FIXTURES = [
    (4, 1e-7, 2, 1.8354),
    (4, 1e-8, 2, 1.9737),
    (4, 1e-8, 5, 3.1206),
    (1, 1e-7, 2, 6.6166),
    (1, 1e-7, 5, 10.4618),
]


@pytest.mark.parametrize(("epsilon", "delta", "hops", "noise_multiplier"), FIXTURES)
def test_noise_of_gap(epsilon, delta, hops, noise_multiplier):
    assert gaussian_noise_multiplier(epsilon, delta, hops) == pytest.approx(noise_multiplier, abs=5.1e-5)
