"""What a plan of Gaussian and Poisson-subsampled Gaussian releases costs: epsilon for a delta, and the reverse.

Every answer is an upper bound. Compositions of Gaussian releases alone are exact: with mu^2 = sum of
count / noise_multiplier^2 (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 3.3)

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).

Everything else is composed as privacy loss distributions, each direction by itself, on a grid refined until stable;
the smallest of all valid bounds is reported. ``method="rdp"`` and ``method="moments"`` reproduce published tables only.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from scipy.special import erfcx, ndtr

from sfumato._validate import check_choice, check_real, fail
from sfumato.privacy import _pld
from sfumato.privacy.events import Event, GaussianEvent, PoissonGaussianEvent

METHODS = ("best", "rdp", "moments")
_DELTA_SLACK = 5e-10  # relative; covers the rounding of the closed form
_SERIES_BELOW = 0.1  # mu
_FAR = 1e6  # x, where delta is zero in floating point and phi(x) a bound on it
_REACH = {"add-remove": 1, "replace": 2}  # distance of two contributions over the clip norm
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_INTEGER_ORDERS = np.array([*range(2, 65), 128, 256, 512, 1024], dtype=float)
_RENYI_ORDERS = np.array([*(1 + np.arange(1, 100) / 10), *range(11, 64), 128, 256, 512, 1024])
_RENYI_ROUNDING = 1e-15  # per step: tiny sampling probabilities otherwise round to no loss at all
_SAMPLED_RANGE = (1e-3, 1e8)  # noise multipliers outside it are accounted as if every record were drawn
_ROUND_DOWN = 1 - 2.0**-50  # on epsilon: covers the rounding of mu and of epsilon / mu - mu / 2


def epsilon(events: Sequence[Event], delta: float, *, method: str = "best") -> float:
    """Return an epsilon such that the events together are (epsilon, delta)-differentially private.

    **Formal guarantee.** Relation: that of the events (a Gaussian event's multiplier holds it; a Poisson event names
    it). The value is never below the exact one: exact to 1e-9 relative in delta for Gaussian events alone, else at
    most 0.1 % above the limit of the privacy loss distribution, or a Renyi bound where that is out of floating-point
    reach (delta below about 1e-13, privacy losses of one step above 600). Infinite only beyond the largest float.
    Valid for events fixed before the data is seen.

    Args:
        events: what the plan releases, in any order.
        delta: failure probability, in (0, 1).
        method: "best"; "rdp" (Mironov 2017, conversion of Canonne, Kamath and Steinke 2020, Proposition 12); or
            "moments" (Abadi et al. 2016, Theorem 2, integer orders): looser, for comparison with published tables.

    Raises:
        InputError: delta outside (0, 1), an unknown method, something that is not an event.

    >>> round(epsilon([GaussianEvent(noise_multiplier=5.0, count=2)], delta=1e-6), 6)
    1.211967
    >>> abadi = PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000)
    >>> round(epsilon([abadi], 1e-5), 3), round(epsilon([abadi], 1e-5, method="moments"), 4)
    (0.947, 1.2586)
    """
    delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    method = check_choice(METHODS, method=method)
    mu, steps = _gather(events)
    if method != "best":
        return _renyi_epsilon(mu, steps, delta, _RENYI_ORDERS if method == "rdp" else _INTEGER_ORDERS, method)
    if not steps:
        return _gaussian_epsilon(mu, delta)
    bound = min(
        _gaussian_epsilon(_mu_if_all_drawn(mu, steps), delta), _renyi_epsilon(mu, steps, delta, _INTEGER_ORDERS, "rdp")
    )
    return _pld.epsilon(mu, steps, delta, bound) if 0 < bound < math.inf else bound


def delta(events: Sequence[Event], epsilon: float) -> float:
    """Return a delta such that the events together are (epsilon, delta)-differentially private.

    **Formal guarantee.** As for :func:`epsilon`: never below the exact value.

    Args:
        events: what the plan releases, in any order.
        epsilon: at least 0.

    Raises:
        InputError: a negative epsilon, something that is not an event.

    >>> round(delta([GaussianEvent(noise_multiplier=1.0)], epsilon=1.0), 6)
    0.126937
    """
    epsilon = check_real(low=0, epsilon=epsilon)
    mu, steps = _gather(events)
    bound = _gaussian_delta(_mu_if_all_drawn(mu, steps), epsilon)
    if not steps:
        return bound
    orders = _INTEGER_ORDERS
    with np.errstate(over="ignore"):
        log_deltas = (orders - 1) * (_renyi(mu, steps, orders) - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    bound = min(bound, math.nextafter(math.exp(min(0.0, float(log_deltas.min()))), 1.0))
    return _pld.delta(mu, steps, epsilon, bound)


def rough_epsilon(events: Sequence[Event], delta: float, near: float) -> float:
    """Return an upper bound on epsilon from one grid, good to about 0.1 % around ``near``; for searches."""
    mu, steps = _gather(events)
    if not steps:
        return _gaussian_epsilon(mu, delta)
    one_grid = _pld.epsilon_at(mu, steps, delta, _pld.grid_interval(mu, steps, near, delta, accuracy=1e-3))
    bound = min(one_grid, _gaussian_epsilon(_mu_if_all_drawn(mu, steps), delta))
    return bound if math.isfinite(one_grid) else min(bound, _renyi_epsilon(mu, steps, delta, _INTEGER_ORDERS, "rdp"))


def central_limit_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the epsilon of the limiting Gaussian law of the privacy loss: *not* a bound; where a search starts."""
    mu, steps = _gather(events)
    return _gaussian_epsilon(math.hypot(mu, *(math.sqrt(n) * _pld.spread(kind) for kind, n in steps.items())), delta)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon) of a composition of Gaussian releases, to about 1e-11 however small it is.

    With x = epsilon / mu - mu / 2, y = x + mu and the Mills ratio R, delta = phi(x) (R(x) - R(y)); for small mu the
    difference is the integral of 1 - t R(t) from x to y.
    """
    epsilon *= _ROUND_DOWN
    x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_density = -x * x / 2 - math.log(2 * math.pi) / 2
    if x > _FAR:
        return log_density
    if mu < _SERIES_BELOW:
        t = x + mu * (_NODES + 1) / 2
        difference = mu / 2 * float(_WEIGHTS @ (1 - t * _mills(t)))
    elif x < 0:
        return math.log(float(ndtr(-x)) - math.exp(log_density) * float(_mills(np.float64(y))))
    else:
        difference = float(_mills(np.float64(x)) - _mills(np.float64(y)))
    return log_density + math.log(difference) if difference > 0 else -math.inf


def _mills(x: np.ndarray | np.float64) -> np.ndarray:
    """Return (1 - Phi(x)) / phi(x)."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    if mu == 0 or math.isinf(mu):
        return min(mu, 1.0)
    return min(1.0, math.nextafter(math.exp(gaussian_log_delta(mu, epsilon)) * (1 + _DELTA_SLACK), 1.0))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest float whose delta, rounding included, is at most ``delta``."""
    goal = math.log(delta) - _DELTA_SLACK
    if mu == 0 or gaussian_log_delta(mu, 0.0) <= goal:
        return 0.0
    low, high = 0.0, mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1) * (1 + 1e-14)
    if math.isinf(high):
        return math.inf
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if gaussian_log_delta(mu, middle) <= goal else (middle, high)
    return high


def _gather(events: Sequence[Event]) -> tuple[float, Counter[_pld.Sampled]]:
    """Merge equal events: mu of all Gaussian releases, and the number of steps of each subsampled kind."""
    ratios: list[float] = []
    steps: Counter[_pld.Sampled] = Counter()
    for event in events:
        if isinstance(event, GaussianEvent):
            ratios.append(math.sqrt(event.count) / event.noise_multiplier)
        elif not isinstance(event, PoissonGaussianEvent):
            raise fail("events", event, "to hold GaussianEvent and PoissonGaussianEvent only")
        elif event.sampling_prob == 1 or not _SAMPLED_RANGE[0] <= event.noise_multiplier <= _SAMPLED_RANGE[1]:
            ratios.append(_REACH[event.relation] * math.sqrt(event.steps) / event.noise_multiplier)
        else:
            kind = _pld.Sampled(float(event.sampling_prob), float(event.noise_multiplier), event.relation)
            steps[kind] += int(event.steps)
    return math.hypot(*ratios), steps


def _mu_if_all_drawn(mu: float, steps: _pld.Steps) -> float:
    """Return mu of the plan without amplification by sampling, which dominates the plan with it."""
    ratios = [_REACH[kind.relation] * math.sqrt(count) / kind.noise_multiplier for kind, count in steps.items()]
    return math.hypot(mu, *ratios)


def _renyi_epsilon(mu: float, steps: _pld.Steps, delta: float, orders: np.ndarray, method: str) -> float:
    if mu > 1e150 or (mu == 0 and not steps):
        return math.inf if mu else 0.0
    values = _renyi(mu, steps, orders) - math.log(delta) / (orders - 1)
    if method == "rdp":
        values += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
    return max(0.0, float(values.min()))


def _renyi(mu: float, steps: _pld.Steps, orders: np.ndarray) -> np.ndarray:
    """Return Renyi divergences of the composed plan at ``orders``.

    For relation "replace" the pair passes through the sample without the record: by the weak triangle inequality
    (Mironov 2017, Corollary 4) D_a(P, Q) <= (a - 1/2) / (a - 1) D_2a(P, R) + D_(2a-1)(R, Q), where both terms
    are those of add/remove.
    """
    total = orders / 2 * (mu * mu)
    for (q, z, relation), count in steps.items():
        if relation == "add-remove":
            one = _sampled_renyi(q, z, orders)
        else:
            there, back = _sampled_renyi(q, z, 2 * orders), _sampled_renyi(q, z, 2 * orders - 1)
            one = np.minimum((orders - 0.5) / (orders - 1) * there + back, 2 * orders / z**2)
        total = total + count * (np.maximum(one, 0) + _RENYI_ROUNDING)
    return total


def _sampled_renyi(sampling_prob: float, noise_multiplier: float, orders: np.ndarray) -> np.ndarray:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    step = dp_accounting.PoissonSampledDpEvent(sampling_prob, dp_accounting.GaussianDpEvent(noise_multiplier))
    accountant = RdpAccountant(orders=orders.tolist())
    with _quiet_orders():
        return np.asarray(accountant.compose(step).rdp, dtype=float)


@contextmanager
def _quiet_orders() -> Iterator[None]:
    """Drop the notes about orders left out, which change no answer but its last digits."""

    def others(record: logging.LogRecord) -> bool:
        return "rdp_privacy_accountant" not in record.pathname

    logger = logging.getLogger("absl")
    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)
