r"""Composition theorems of the textbooks: what k guarantees add up to if nothing else is known of the mechanisms.

:mod:`sfumato.privacy.accounting` knows the mechanisms and is tighter for every plan; these theorems are for guarantees
that come as numbers, for checking by hand, and for comparison with published figures. Parameters must be fixed before
data; :mod:`sfumato.privacy.filters` is for parameters chosen on the way. Results are rounded up.

**The slides' comparison.** DP-SGD with q = 0.01, sigma = 4, T = 10000, delta = 1e-5 (Abadi et al. 2016, section 4)
costs 1.26 by the moments accountant and 9.34 by strong composition. The second comes from the classical Gaussian
calibration of one step, sigma = sqrt(2 ln(1.25 / delta_0)) / epsilon_0, with q T delta_0 = delta / 2, amplified to
(q epsilon_0, q delta_0), composed with delta' = delta / 2 and with e^epsilon - 1 cut to its first term, epsilon:

>>> q, sigma, steps, delta = 0.01, 4.0, 10_000, 1e-5
>>> step_delta = delta / 2 / (q * steps)
>>> step_epsilon = q * math.sqrt(2 * math.log(1.25 / step_delta)) / sigma
>>> round(math.sqrt(2 * steps * math.log(2 / delta)) * step_epsilon + steps * step_epsilon**2, 2)
9.34

The theorem as printed gives 9.35, and the optimum for mechanisms of that epsilon and delta a step 7.05:

>>> [round(rule(step_epsilon, steps, delta / 2, q * step_delta)[0], 3) for rule in (advanced_composition, optimal_composition)]
[9.355, 7.051]

None of the three is a guarantee: epsilon_0 = 1.46 is above 1, where the classical calibration has no proof, and
sampling amplifies to ln(1 + q (e^epsilon_0 - 1)) = 0.033, not to q epsilon_0 = 0.015. With proved steps
(the exact Gaussian curve, exact amplification) the theorem gives 17.2, and accounting 0.947:

>>> from sfumato.privacy import accounting
>>> from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
>>> proved = math.log1p(q * math.expm1(accounting.epsilon([GaussianEvent(sigma)], step_delta)))
>>> round(advanced_composition(proved, steps, delta / 2, q * step_delta)[0], 1)
17.2
>>> run = [PoissonGaussianEvent(sampling_prob=q, noise_multiplier=sigma, steps=steps)]
>>> round(accounting.epsilon(run, delta, method="moments"), 2), round(accounting.epsilon(run, delta), 3)
(1.26, 0.947)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from sfumato._validate import check_int, check_real, fail

_LARGEST_EPSILON = 700.0  # of one mechanism, or of a group: exp() stays finite
_ROUNDING = 1e-13  # relative; covers a handful of elementary functions
_TAIL_ROUNDING = 1e-9  # relative; covers the sum over privacy losses
_NEGLIGIBLE = 800.0  # log-probabilities so far below the mode are zero as floats
Guarantee = tuple[float, float]


def basic_composition(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the sum of guarantees (epsilon_i, delta_i), the price of releasing all of them.

    **Formal guarantee.** Mechanisms that are (epsilon_i, delta_i)-DP are together (sum epsilon_i, sum delta_i)-DP under the
    same relation. Each mechanism may look at earlier answers. A number counts as the decimal it prints as; the sum is exact,
    then rounded up to a float.

    Args:
        guarantees: pairs of epsilon >= 0 and delta in [0, 1].

    Raises:
        InputError: a value is outside its range.

    >>> basic_composition([(0.1, 1e-7)] * 10)
    (1.0, 1e-06)

    Source: Dwork and Roth 2014, theorem 3.16; Dwork, Kenthapadi, McSherry, Mironov and Naor 2006, theorem 1.
    """
    checked = [_checked(epsilon, delta) for epsilon, delta in guarantees]
    epsilons, deltas = (sum((_exact(pair[i]) for pair in checked), Fraction(0)) for i in (0, 1))
    return _above(epsilons), min(1.0, _above(deltas))


def advanced_composition(epsilon: float, count: int, slack: float, delta: float = 0.0) -> Guarantee:
    r"""Return the guarantee of ``count`` mechanisms at the price of a further ``slack`` of delta.

    .. math:: \epsilon' = \sqrt{2 k \ln(1 / \delta')} \epsilon + k \epsilon (e^\epsilon - 1), \qquad k \delta + \delta'.

    **Formal guarantee.** ``count`` mechanisms that are (epsilon, delta)-DP are together (result)-DP under the same relation.
    Each mechanism may look at earlier answers. Above epsilon of about sqrt(2 ln(1 / slack) / count) the sum
    ``count * epsilon`` of :func:`basic_composition` is smaller.

    Args:
        epsilon: epsilon of each mechanism, from 0 to 700.
        count: the number k of mechanisms, >= 1.
        slack: the further delta', in (0, 1).
        delta: delta of each mechanism, in [0, 1].

    Raises:
        InputError: a value is outside its range.

    >>> epsilon, delta = advanced_composition(epsilon=0.01, count=1000, slack=1e-6)
    >>> round(epsilon, 4), delta
    (1.7628, 1e-06)

    Source: Dwork, Rothblum and Vadhan 2010, theorem III.3; Dwork and Roth 2014, theorem 3.20.
    """
    epsilon, delta = _checked(epsilon, delta)
    count = check_int(low=1, count=count)
    slack = check_real(low=0, high=1, open_low=True, open_high=True, slack=slack)
    total = math.sqrt(-2 * count * math.log(slack)) * epsilon + count * epsilon * math.expm1(epsilon)
    return total * (1 + _ROUNDING), min(1.0, _above(count * _exact(delta) + _exact(slack)))


def optimal_composition(epsilon: float, count: int, slack: float, delta: float = 0.0) -> Guarantee:
    r"""Return the smallest epsilon that ``count`` mechanisms of this epsilon and delta are sure to have at a given delta.

    The smallest e with :func:`optimal_composition_delta` of e at most :math:`1 - (1 - \delta)^k (1 - \delta')`, which
    is about :math:`k \delta + \delta'`; that number is the second result.

    **Formal guarantee.** As for :func:`advanced_composition`, and no theorem that knows epsilon and delta only can give
    less: k-fold randomized response attains it. Exact to 1e-9 relative in delta.

    Args:
        epsilon: epsilon of each mechanism, from 0 to 700.
        count: the number k of mechanisms, >= 1.
        slack: the further delta', in [0, 1); at 0 the result is ``count * epsilon``.
        delta: delta of each mechanism, in [0, 1].

    Raises:
        InputError: a value is outside its range.

    >>> epsilon, delta = optimal_composition(epsilon=0.01, count=1000, slack=1e-6)
    >>> round(epsilon, 4), delta
    (1.3654, 1e-06)

    Source: Kairouz, Oh and Viswanath 2015, theorem 3.3. For mechanisms that differ the exact answer is #P-hard (Murtagh
    and Vadhan 2016); accounting of ``PureEvent`` bounds it.
    """
    epsilon, delta = _checked(epsilon, delta)
    count = check_int(low=1, count=count)
    slack = check_real(low=0, high=1, open_high=True, slack=slack)
    tail = _randomized_response_tail(epsilon, count)
    low, high = 0.0, _above(count * _exact(epsilon))
    if tail(0.0) <= slack:
        high = 0.0
    while slack > 0 and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if tail(middle) <= slack else (middle, high)
    return high, _joined(count, delta, slack)


def optimal_composition_delta(total_epsilon: float, epsilon: float, count: int, delta: float = 0.0) -> float:
    r"""Return the smallest delta that ``count`` mechanisms are sure to have at ``total_epsilon`` = e.

    .. math:: 1 - (1 - \delta)^k \left(1 - \sum_{l=0}^k \binom{k}{l}
        \frac{\max(0, e^{(k - l) \epsilon} - e^{e + l \epsilon})}{(1 + e^\epsilon)^k}\right).

    **Formal guarantee.** As for :func:`optimal_composition`.

    Args:
        total_epsilon: the epsilon e of all mechanisms together, >= 0.
        epsilon: epsilon of each mechanism, from 0 to 700.
        count: the number k of mechanisms, >= 1.
        delta: delta of each mechanism, in [0, 1].

    Raises:
        InputError: a value is outside its range.

    >>> round(optimal_composition_delta(1.0, epsilon=0.5, count=4), 6)
    0.094895

    Source: Kairouz, Oh and Viswanath 2015, theorem 3.3; between its steps Murtagh and Vadhan 2016, theorem 1.5.
    """
    total_epsilon = check_real(low=0, total_epsilon=total_epsilon)
    epsilon, delta = _checked(epsilon, delta)
    count = check_int(low=1, count=count)
    return _joined(count, delta, _randomized_response_tail(epsilon, count)(total_epsilon))


def group_privacy(epsilon: float, delta: float, size: int) -> Guarantee:
    r"""Return the guarantee for ``size`` = k records that change at once.

    .. math:: \left(k \epsilon, \; \delta \, \frac{e^{k \epsilon} - 1}{e^\epsilon - 1}\right).

    **Formal guarantee.** An (epsilon, delta)-DP mechanism is (result)-DP for data sets that k steps of the same relation
    join: each step costs :math:`P_{i-1}(S) \le e^\epsilon P_i(S) + \delta`, and the deltas add up as a geometric series.

    Args:
        epsilon: for one record, >= 0; ``size * epsilon`` at most 700.
        delta: for one record, in [0, 1].
        size: the number k of records, >= 1.

    Raises:
        InputError: a value is outside its range.

    >>> epsilon, delta = group_privacy(epsilon=0.5, delta=1e-6, size=3)
    >>> epsilon, round(delta, 9)
    (1.5, 5.367e-06)

    Source: Dwork and Roth 2014, theorem 2.2 (delta = 0); Vadhan 2017, lemma 2.2.
    """
    epsilon, delta = _checked(epsilon, delta)
    size = check_int(low=1, size=size)
    total = _above(size * _exact(epsilon))
    if total > _LARGEST_EPSILON:
        raise fail("size * epsilon", total, f"to be <= {_LARGEST_EPSILON:g}", "Such a group has no protection left.")
    steps = math.expm1(total) / math.expm1(epsilon) if epsilon > 0 else float(size)
    return total, min(1.0, delta * steps * (1 + _ROUNDING))


def post_processing(epsilon: float, delta: float) -> Guarantee:
    """Return the guarantee of any function of a mechanism's output: the same.

    **Formal guarantee.** If M is (epsilon, delta)-DP, so is f(M) for every f, deterministic or random, that reads nothing
    of the data but M's output: for deterministic f the outputs S have the preimage T with P[f(M(x)) in S] = P[M(x) in T]
    <= e^epsilon P[M(y) in T] + delta; a random f is a mixture of such. An f that reads the data again is a mechanism of
    its own, to be composed.

    Args:
        epsilon: epsilon of M, >= 0.
        delta: delta of M, in [0, 1].

    Raises:
        InputError: a value is outside its range.

    >>> post_processing(epsilon=1.0, delta=1e-6)
    (1.0, 1e-06)

    Source: Dwork and Roth 2014, proposition 2.1.
    """
    return _checked(epsilon, delta)


def _checked(epsilon: float, delta: float) -> Guarantee:
    return check_real(low=0, high=_LARGEST_EPSILON, epsilon=epsilon), check_real(low=0, high=1, delta=delta)


def _exact(value: float) -> Fraction:
    """Return the decimal that a float prints as."""
    return Fraction(repr(value))


def _above(exact: Fraction) -> float:
    """Return the nearest float that prints as no less."""
    nearest = float(exact)
    return nearest if _exact(nearest) >= exact else math.nextafter(nearest, math.inf)


def _joined(count: int, delta: float, slack: float) -> float:
    """Return 1 - (1 - delta)^count (1 - slack), rounded up."""
    if delta == 0 or slack >= 1:
        return min(1.0, slack)
    if delta == 1:
        return 1.0
    return min(1.0, -math.expm1(count * math.log1p(-delta) + math.log1p(-slack)) * (1 + _ROUNDING))


def _randomized_response_tail(epsilon: float, count: int) -> Callable[[float], float]:
    """Return delta as a function of the total epsilon for k-fold randomized response, rounded up.

    The loss is (k - 2 l) epsilon with l ~ Binomial(k, 1 / (1 + e^epsilon)); delta(e) = E max(0, 1 - exp(e - loss)), a sum of
    positive terms. Logarithms are summed from the mode outward and normalized, so that none is a difference of
    large factorials.
    """
    mode = int((count + 1) / (1 + math.exp(epsilon)))
    spread = math.sqrt(2 * _NEGLIGIBLE * count) / 2 + _NEGLIGIBLE
    lies = np.arange(max(0, int(mode - spread)), min(count, int(mode + spread)) + 1, dtype=float)
    at = mode - int(lies[0])
    steps = np.log((count - lies[:-1]) / (lies[:-1] + 1)) - epsilon
    logs = np.concatenate([-np.cumsum(steps[:at][::-1])[::-1], [0.0], np.cumsum(steps[at:])])
    probs, losses = np.exp(logs) / np.exp(logs).sum(), (count - 2 * lies) * epsilon

    def tail(total_epsilon: float) -> float:
        above = losses > total_epsilon
        terms = probs[above] * -np.expm1(total_epsilon - losses[above])
        return min(1.0, float(terms.sum()) * (1 + _TAIL_ROUNDING))

    return tail
