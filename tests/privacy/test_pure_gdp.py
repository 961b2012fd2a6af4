"""Pure events under Gaussian composition: the bound is on the right side, is reached, and a smaller one is no bound."""

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sfumato.privacy import accounting
from sfumato.privacy._filters import Charge, GaussianFilter, gaussian_mu
from sfumato.privacy._pure_gdp import pure_epsilon, pure_mu
from sfumato.privacy.events import (
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
)
from sfumato.verify._charges import mu_of
from sfumato.verify._charges import pure_mu as checked_mu

EPSILONS = [1e-9, 1e-4, 0.01, 0.333333, 0.999, 1.0, 1.001, 3.0, 12.0, 40.0, 300.0]


def exact(epsilon):
    """-2 Phi^-1(1 / (1 + e^epsilon)) to 60 digits, by a root."""
    with mpmath.workdps(200):
        q = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        return mpmath.findroot(lambda mu: mpmath.erfc(mu / mpmath.sqrt(8)) / 2 - q, pure_mu(epsilon))


@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
def test_mu_is_the_formula_rounded_up(epsilon):
    truth = exact(epsilon)
    for found in (pure_mu(epsilon), checked_mu(epsilon) * (1 + 1e-9)):
        assert truth <= found <= truth * (1 + mpmath.mpf(3e-9))


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e-6, *EPSILONS])
def test_the_inverse_is_rounded_down(epsilon):
    back = pure_epsilon(pure_mu(epsilon))
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-6)
    assert pure_mu(back) <= pure_mu(epsilon)


def curves(epsilon, mu):
    """The trade-off of a pure event and of Gaussians at many levels, and at the corner of the first."""
    corner = 1 / (1 + np.exp(epsilon))
    level = np.concatenate([np.linspace(0, 1, 2001)[1:-1], np.geomspace(1e-12, 1, 200)[:-1], [corner]])
    pure = np.maximum.reduce([np.zeros_like(level), 1 - np.exp(epsilon) * level, np.exp(-epsilon) * (1 - level)])
    return pure, ndtr(ndtri(1 - level) - mu)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_the_curve_of_gaussians_is_below_and_a_smaller_mu_is_not(epsilon):
    pure, gaussian = curves(epsilon, pure_mu(epsilon))
    assert (gaussian <= pure + 1e-12).all()
    pure, gaussian = curves(epsilon, pure_mu(epsilon) * 0.999)
    assert (gaussian > pure + 1e-9 * epsilon).any()


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("event", [PureEvent, RandomizedResponseEvent, ExponentialEvent])
def test_events_that_are_composed_cost_at_most_what_their_mu_says(event, epsilon):
    one = event(epsilon, count=24) if event is not RandomizedResponseEvent else event(epsilon, 2, 24)
    mu = gaussian_mu([one, LaplaceEvent(1 / epsilon), GaussianEvent(3.0)])
    assert mu == pytest.approx((25 * pure_mu(epsilon) ** 2 + 1 / 9) ** 0.5)
    together = accounting.epsilon([one, LaplaceEvent(1 / epsilon), GaussianEvent(3.0)], 1e-6)
    assert together <= accounting.epsilon([GaussianEvent(1 / mu)], 1e-6) * (1 + 1e-3)


def test_as_many_deviations_as_epsilon_would_be_too_few():
    """A near miss: the losses of many answers have a deviation of epsilon each, but one answer alone tells more."""
    pure, gaussian = curves(0.1, 0.1)
    assert (gaussian > pure + 1e-3).any()


def test_a_filter_takes_pure_plans_beside_gaussian_ones():
    budget = GaussianFilter(epsilon=4.0, delta=1e-6)
    pure = Charge(0.0926, 0.0, gaussian_mu([PureEvent(0.0926)]))
    for _ in range(52):
        budget.charge(pure)
    assert budget.would_exceed(pure)
    assert accounting.epsilon([PureEvent(0.0926, 52)], 1e-6) < 4
    assert gaussian_mu([PureEvent(0.1), PoissonGaussianEvent(0.1, 1.0, 3)]) is None


def test_the_verifier_takes_no_mu_below_its_own():
    releases = [{"event": PureEvent(0.3, 2).to_dict()}, {"event": GaussianEvent(2.0).to_dict()}]
    mu = gaussian_mu([PureEvent(0.3, 2), GaussianEvent(2.0)])
    assert mu_of(mu, releases) == (mu, mu)
    assert mu_of(mu * 0.9999, releases)[1] == pytest.approx(mu)
    assert mu_of(90.0, [{"event": PureEvent(701.0).to_dict()}]) == (90.0, np.inf), "no total allows so much"
    assert mu_of(mu, [{"event": PoissonGaussianEvent(0.1, 1.0, 3).to_dict()}]) == (mu, None)
