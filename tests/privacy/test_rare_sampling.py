"""Very rare sampling over very many steps: bounds hold, and are close, against the exact delta as a contour integral."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.verify._claim import TOLERANCE
from sfumato.verify._epsilon import epsilon_bracket

ORDER, WIDTH, STEP, BLOCK = 2.0, 0.25, 0.0125, 500
SERIES = [1 / math.factorial(k) for k in range(14, 1, -1)]


def second_order(w):
    """exp(w) - 1 - w, by its series where w is small."""
    value, small = np.expm1(w) - w, np.abs(w) < 0.25
    value[small] = w[small] ** 2 * np.polyval(SERIES, w[small])
    return value


def complex_log1p(w):
    """The complex one of NumPy is log(1 + w), which loses digits that 250,000 steps miss."""
    return 0.5 * np.log1p(2 * w.real + np.abs(w) ** 2) + 1j * np.arctan2(w.imag, 1 + w.real)


def exact_delta(event, *spent):
    """For each epsilon e, the worse direction of 1 / (2 pi) times the integral of exp(K(s) - s e) / (s (s + 1)), s = ORDER + i t.

    K is the sum of log E exp(s L), by the trapezoidal rule, which converges geometrically for Gaussians. E[exp(s L) - 1]
    is s E[L] and terms of second order, where E[L] is E_r[L exp(L) - exp(L) + 1]: nothing cancels, though delta be 1e-9.
    The integrand's own rule wraps losses beyond 2 pi / WIDTH, of which e^(-ORDER loss) is left; it ends where it is 0.
    """
    q, z = event.sampling_prob, event.noise_multiplier
    x = np.arange(-14, 14 + (2 + 4 * ORDER) / z, STEP)
    normal = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * STEP
    moved, other = (np.log1p(q * np.expm1(sign * x / z - 1 / (2 * z * z))) for sign in (1, -1))
    other = other if event.relation == "replace" else 0 * x
    deltas = []
    for p, r in ((moved, other), (other, moved)):
        loss, mass, total = p - r, normal * np.exp(p), np.zeros(len(spent))
        mean = normal * np.exp(r) @ (loss * np.expm1(loss) - second_order(loss))
        for first in range(0, 200_000, BLOCK):
            s = ORDER + 1j * (np.arange(first, first + BLOCK) + 0.5) * WIDTH
            log_moments = event.steps * complex_log1p(second_order(np.outer(s, loss)) @ mass + s * mean)
            part = np.exp(log_moments - np.outer(spent, s)) / (s * (s + 1))
            total += part.real.sum(axis=1) * WIDTH / math.pi
            if (np.abs(part[:, -1] * s[-1]) < 1e-9 * np.abs(total)).all():
                break
        else:
            raise AssertionError("The integrand does not fall to 0.")
        deltas.append(total)
    return np.max(deltas, axis=0)


RARE = [
    (PoissonGaussianEvent(4e-6, 1.0, 250_000), 1e-6),
    (PoissonGaussianEvent(4e-6, 1.0, 250_000, "replace"), 1e-6),
    (PoissonGaussianEvent(4e-6, 0.5, 250_000, "replace"), 1e-6),
    (PoissonGaussianEvent(1e-5, 0.6, 10**6), 1e-6),
    (PoissonGaussianEvent(4e-6, 0.5, 3_814_697), 1e-9),
    (PoissonGaussianEvent(1e-5, 1.0, 10**6), 1e-8),
    (PoissonGaussianEvent(1e-5, 1.0, 10**6, "replace"), 1e-8),
]
AT_NIGHT = (0, 2, 3, 5, 6)


@pytest.mark.parametrize(
    ("event", "delta"),
    [pytest.param(*case, marks=[pytest.mark.soak] * (at in AT_NIGHT)) for at, case in enumerate(RARE)],
)
def test_rare_sampling_is_exact_to_a_thousandth(event, delta):
    value = epsilon([event], delta)
    claimed, less = exact_delta(event, value, 0.999 * value)
    assert claimed <= delta < less


def test_the_oracle_knows_an_ordinary_plan():
    """Reference table 4.1: 0.946868."""
    event = PoissonGaussianEvent(0.01, 4.0, 10_000)
    assert exact_delta(event, 0.946868) == pytest.approx(1e-5, rel=2e-5)


@pytest.mark.parametrize("event", [event for event, _ in RARE[:2]])
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
    _, high = epsilon_bracket([event.to_dict()], delta)
    assert exact_delta(event, high) <= delta
    assert high <= 1.0005 * epsilon([event], delta)


def test_the_verifier_searches_among_fine_tilts():
    """Heavy tails and tiny steps: tilts that halve leave its bound 7 % above the claim, and honest runs refused."""
    event, delta = PoissonGaussianEvent(4e-6, 0.75, 3_814_697), 1e-9
    _, high = epsilon_bracket([event.to_dict()], delta)
    assert high <= 1.02 * epsilon([event], delta)


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
    assume(event.steps * 2.0**-51 < delta / 50)  # else the rounding of the steps is what the verifier's bound shows
    value = epsilon([event], delta)
    low, high = epsilon_bracket([event.to_dict()], delta)
    assert low <= value
    assert high <= TOLERANCE * value
    assert (exact_delta(event, value, high) <= delta).all()


def test_a_gaussian_beside_rare_sampling_is_counted():
    event = PoissonGaussianEvent(4e-6, 2.0, 250_000)
    alone = epsilon([event], 1e-6)
    assert alone <= epsilon([event, GaussianEvent(1e200)], 1e-6) <= 1.001 * alone
