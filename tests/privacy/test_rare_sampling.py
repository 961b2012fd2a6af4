"""Very rare sampling over very many steps: bounds hold, and are close, against the exact delta as a contour integral."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent, event_to_dict
from sfumato.verify.claim import TOLERANCE
from sfumato.verify.epsilon import epsilon_bracket

ORDER, WIDTH = 2.0, 0.25


def exact_delta(event, spent, points=4000, step=0.05):
    """The worse direction of 1 / (2 pi) times the integral of exp(K(s) - s e) / (s (s + 1)) on s = ORDER + i t.

    K is the sum of log E exp(s L), by the trapezoidal rule, which converges geometrically for Gaussians where
    ``step`` resolves e^(i t L); the integrand's own rule wraps losses beyond 2 pi / WIDTH, of which e^(-ORDER loss) is left.
    """
    q, z = event.sampling_prob, event.noise_multiplier
    x = np.arange(-14, 14 + (2 + 4 * ORDER) / z, step)
    normal = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * step
    moved, other = (np.log1p(q * np.expm1(sign * x / z - 1 / (2 * z * z))) for sign in (1, -1))
    other = other if event.relation == "replace" else 0 * x
    deltas = []
    for p, r in ((moved, other), (other, moved)):
        total, loss, mass = 0.0, p - r, normal * np.exp(p)
        for t in np.array_split((np.arange(points) + 0.5) * WIDTH, points // 500):
            s = ORDER + 1j * t
            log_moments = event.steps * np.log1p(np.expm1(s[:, None] * loss) @ mass)
            total += (np.exp(log_moments - s * spent) / (s * (s + 1))).real.sum() * WIDTH / math.pi
        deltas.append(total)
    return max(deltas)


RARE = [
    (PoissonGaussianEvent(4e-6, 1.0, 250_000), 1e-6, 20_000),
    (PoissonGaussianEvent(4e-6, 1.0, 250_000, "replace"), 1e-6, 4000),
    (PoissonGaussianEvent(4e-6, 0.5, 250_000, "replace"), 1e-6, 4000),
    (PoissonGaussianEvent(1e-5, 0.6, 10**6), 1e-6, 4000),
    (PoissonGaussianEvent(4e-6, 0.5, 3_814_697), 1e-9, 4000),
    (PoissonGaussianEvent(1e-5, 1.0, 10**6), 1e-8, 4000),
    (PoissonGaussianEvent(1e-5, 1.0, 10**6, "replace"), 1e-8, 4000),
]


@pytest.mark.parametrize(("event", "delta", "points"), RARE)
def test_rare_sampling_is_exact_to_a_thousandth(event, delta, points):
    value, step = epsilon([event], delta), 0.05 if event.noise_multiplier == 1 else 0.0125
    assert exact_delta(event, value, points, step) <= delta * (1 + 1e-6)
    assert exact_delta(event, 0.999 * value, points, step) > delta


def test_the_oracle_knows_an_ordinary_plan():
    """Reference table 4.1: 0.946868."""
    event = PoissonGaussianEvent(0.01, 4.0, 10_000)
    assert exact_delta(event, 0.946868, 2000) == pytest.approx(1e-5, rel=2e-5)


@pytest.mark.parametrize("event", [event for event, _, _ in RARE[:2]])
def test_no_grid_of_an_independent_accountant_is_tighter(event):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    kind = {} if event.relation == "add-remove" else {"neighboring_relation": pld.NeighborRel.REPLACE_ONE}
    step = pld.from_gaussian_mechanism(
        event.noise_multiplier, sampling_prob=event.sampling_prob, value_discretization_interval=1e-6, **kind
    )
    assert epsilon([event], 1e-6) <= step.self_compose(event.steps).get_epsilon_for_delta(1e-6)


def test_the_verifier_counts_the_rounding_of_every_step():
    """A transform to the power of 3.8 million is wrong by 4e-10, which a small tilt multiplies by a million."""
    event, delta = PoissonGaussianEvent(4e-6, 0.5, 3_814_697), 1e-9
    _, high = epsilon_bracket([event_to_dict(event)], delta)
    assert exact_delta(event, high, step=0.0125) <= delta * (1 + 1e-6)
    assert high <= 1.0005 * epsilon([event], delta)


@pytest.mark.soak
@settings(deadline=None, max_examples=15)
@given(
    st.floats(math.log10(4e-6), -4).map(lambda power: 10.0**power),
    st.floats(0.5, 2.0),
    st.floats(2e-3, 1e-2),
    st.floats(-9, -5).map(lambda power: 10.0**power),
    st.sampled_from(["add-remove", "replace"]),
)
def test_random_rare_sampling(q, noise, bulk, delta, relation):
    """One-sided everywhere; the verifier's bound from above is no lower than the truth and confirms the claim."""
    event = PoissonGaussianEvent(q, noise, int((bulk / q) ** 2), relation)
    value = epsilon([event], delta)
    low, high = epsilon_bracket([event_to_dict(event)], delta)
    assert low <= value
    assert high <= TOLERANCE * value
    for bound in (value, high):
        assert exact_delta(event, bound, 20_000, 0.0125) <= delta * (1 + 1e-5)


def test_a_gaussian_beside_rare_sampling_is_counted():
    event = PoissonGaussianEvent(4e-6, 2.0, 250_000)
    alone = epsilon([event], 1e-6)
    assert alone <= epsilon([event, GaussianEvent(1e200)], 1e-6) <= 1.001 * alone
