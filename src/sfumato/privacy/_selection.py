r"""Private selection: only the best of a random number of trials is shown.

A *trial* is a mechanism Q whose output holds a score. An integer K is drawn independently of the data, Q runs K times with
fresh randomness, and only the output of the highest score leaves. If K were fixed, the cost would grow with K; with K random
and secret it grows with log E[K] at most. A trial may also draw a candidate uniformly and show it with the output:
exp((a - 1) D_a) is then the candidates' average, so their pointwise largest curve bounds it.

**Proof.** Order outputs by score (ties by fresh coins, which is choosing any of the tied trials). With f the generating
function of K and G = Q(below y) + u Q(y), output y has probability Q(y) E_u f'(G). As x^a z^(1 - a) is jointly convex,

.. math:: e^{(a-1) D_a(A \| A')} \le P[K = 0] + e^{(a-1) D_a(Q \| Q')} \sup f'(G)^a f'(G')^{1-a},

where G and G' are the probabilities that Q and Q' give to one randomized event (lemma 7 of the source; the public output "no
trial" is an outcome of its own here, the first term). The two theorems bound the supremum.

Source: Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", theorems 2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext

import numpy as np

from sfumato.noise.keys import Key, derive_key
from sfumato.privacy.events import check_rule

_ETA = {"logarithmic": 0.0, "geometric": 1.0}
_MARGIN = 1e-12  # relative; covers the rounding of what is added
_DIGITS, _NEGLIGIBLE = 100, Decimal("1e-80")
Array = np.ndarray


def log_ratio(rule: str, mean_trials: float) -> float:
    r"""Return t = log(1 / gamma) of the truncated negative binomial law whose mean is ``mean_trials``.

    Geometric (eta = 1): P[K = k] = gamma (1 - gamma)^(k - 1), mean e^t. Logarithmic (eta = 0):
    P[K = k] = (1 - gamma)^k / (k t), mean (e^t - 1) / t.

    >>> round(log_ratio("geometric", 10), 6), round(log_ratio("logarithmic", 10), 6)
    (2.302585, 3.61495)
    """
    if rule == "geometric":
        return math.log(mean_trials)
    low, high = 0.0, 2 * math.log(mean_trials) + 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if math.expm1(middle) >= mean_trials * middle else (middle, high)
    return high


def negative_binomial_renyi(
    rule: str, mean_trials: float, orders: Array, base: Array, free_orders: Array, free_base: Array
) -> Array:
    r"""Return Renyi divergences of the selection when K is geometric or logarithmic (theorem 2, at its best free order).

    .. math::
        \varepsilon'(a) = \varepsilon(a) + \frac{\log E[K]}{a - 1}
        + (1 + \eta) \min_{b \ge 1} \left[ (1 - 1/b) \, \varepsilon(b) + \frac{t}{b} \right].

    **Formal guarantee.** If the trial's divergences, in both directions, are at most ``base`` at ``orders`` and ``free_base``
    at ``free_orders``, the selection's are at most the result. Here f'(x) = E[K] (gamma / (1 - (1 - gamma) x))^(1 + eta). Let
    c = 1 - (1 - gamma) G >= gamma, which is a probability itself. Order b gives c' <= c^(1 - 1/b) e^((1 - 1/b) D_b(Q' || Q)),
    so c'^(a - 1) c^(-a) <= gamma^(-1 - (a - 1)/b) e^((a - 1)(1 - 1/b) D_b). Every b is valid, so the least over a finite grid
    is valid too.

    ``mean_trials`` is E[K], and ``free_orders`` are the orders b to try; order 1 is always tried.

    >>> a = np.array([2.0, 8.0])
    >>> negative_binomial_renyi("geometric", 10, a, a / 50, a, a / 50).round(3).tolist()
    [3.198, 1.345]
    """
    t = log_ratio(rule, mean_trials)
    with np.errstate(over="ignore"):
        free = (1 - 1 / free_orders) * free_base + t / free_orders
    constant = (1 + _ETA[rule]) * min(t, float(free.min(initial=math.inf)))
    return np.asarray((base + constant + math.log(mean_trials) / (orders - 1)) * (1 + _MARGIN))


def poisson_renyi(mean_trials: float, orders: Array, base: Array, deltas: Array) -> Array:
    r"""Return Renyi divergences of the selection when K is Poisson (theorem 6). The output "no trial" is counted.

    .. math::
        \varepsilon'(a) = \frac{1}{a - 1} \log \left( e^{-m} + m \, e^{(a - 1)(\varepsilon(a) + m \hat\delta(a))} \right).

    **Formal guarantee.** If the trial's divergences are at most ``base`` at ``orders``, and in both directions it is
    (log(1 + 1 / (a - 1)), deltas)-DP for each order a, the selection's divergences are at most the result. Here
    f'(x) = m e^(m (x - 1)), and f'(G)^a f'(G')^(1 - a) = m exp(m (a - 1) ((1 - G') - a / (a - 1) (1 - G))), where the
    inner difference is at most delta. (The other direction of every inequality is the same statement about Q' and Q.)

    ``mean_trials`` is m.

    >>> poisson_renyi(10, np.array([8.0]), np.array([0.16]), np.array([0.01])).round(4).tolist()
    [0.5889]
    """
    with np.errstate(over="ignore"):
        exponents = (orders - 1) * (base + mean_trials * deltas) + math.log(mean_trials)
        return np.asarray(np.logaddexp(-mean_trials, exponents) / (orders - 1) * (1 + _MARGIN))


def draw_trials(rule: str, mean_trials: float, key: Key) -> int:
    """Draw the number of trials K by inverting its distribution function at 256 secret bits.

    Only under ``poisson`` can K be 0.

    **Formal guarantee.** The total variation to the exact law is below 2^-128. Proof: probabilities are summed with 100
    digits, what lies beyond 1e-80 is cut, and the bits move each of fewer than 2^60 boundaries by 2^-256 at most.

    >>> counts = [draw_trials("geometric", 4, bytes([i]) * 32) for i in range(200)]
    >>> min(counts), round(sum(counts) / 200, 1)
    (1, 4.3)
    """
    check_rule(rule, mean_trials)
    with localcontext() as context:
        context.prec = _DIGITS
        left = Decimal(int.from_bytes(derive_key(key, "number of trials"), "big")) / Decimal(2) ** 256
        for count, probability in _law(rule, mean_trials):
            left -= probability
            if left < 0 or (probability < _NEGLIGIBLE and count > mean_trials):
                break
    return count


def _law(rule: str, mean_trials: float) -> Iterator[tuple[int, Decimal]]:
    """Each value of K with its probability."""
    mean = Decimal(mean_trials)
    if rule == "poisson":
        count, probability = 0, (-mean).exp()
        while True:
            yield count, probability
            count += 1
            probability *= mean / count
    t = Decimal(log_ratio(rule, mean_trials))
    stay = 1 - (-t).exp()
    count, probability = 1, (stay / t if rule == "logarithmic" else 1 - stay)
    while True:
        yield count, probability
        probability *= stay * count / (count + 1) if rule == "logarithmic" else stay
        count += 1
