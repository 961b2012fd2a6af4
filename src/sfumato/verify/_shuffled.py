r"""What shuffled reports cost, by sums of its own: the divergence of the pair of *clones* (Feldman, McMillan and Talwar, 2021).

Part of the verifier: it needs NumPy. n reports of epsilon :math:`\epsilon_0` tell at most what
:math:`(A + B, C - A + 1 - B)` tells of B, where :math:`C \sim \mathrm{Bin}(n - 1, e^{-\epsilon_0})`, A counts the heads of C fair
coins, and B is 1 with probability :math:`E / (1 + E)`, :math:`E = e^{\epsilon_0}`. Given C = c, an outcome is worth it from k
heads on, the least number above :math:`(c + 1) (t E - 1) / ((E - 1) (1 + t))` with :math:`t = e^\epsilon`, and with
:math:`S \sim \mathrm{Bin}(c, 1/2)` the divergence is

.. math:: \frac{E - t}{E + 1} P[S = k - 1] - (t - 1) P[S \ge k] .

Numbers of clones farther than nine deviations from their mean have a bound of Chernoff: fewer count as if each told everything.
Sums have six digits, and the last one is rounded upward.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST_USERS, _RANGES, _CELLS, _ROUNDING, _LEAST = 10**7, 1024, 1 << 20, 1 + 1e-6, 1e-290


def shuffled_delta(local: float, epsilon: float, users: int) -> float:
    """Return the delta of ``users`` shuffled reports at ``epsilon``, from above; more than ten million count as so many."""
    others = min(users, _MOST_USERS) - 1
    if epsilon >= local:
        return 0.0
    share = math.exp(-local)
    spread = 9 * math.sqrt(others * share * (1 - share)) + 40
    low, high = max(0, int(others * share - spread)), min(others, int(others * share + spread) + 1)
    clones = np.arange(low, high + 1, dtype=np.float64)
    weights = np.exp(_log_choose(others, clones) - local * clones + (others - clones) * _log_rest(share))
    width = -(-len(clones) // _RANGES)
    masses = np.add.reduceat(weights, np.arange(0, len(clones), width))
    masses[-1] += _beyond(others, high + 1, share)
    fewer = _beyond(others, low - 1, share)
    return float(masses @ _divergences(clones[::width], local, epsilon)) * _ROUNDING + fewer + _LEAST


def _beyond(others: int, clones: int, share: float) -> float:
    """Bound the probability of so many ``clones`` or a number farther from the mean; 0 where there is no such number."""
    if not 0 <= clones <= others or share == 1:
        return 0.0
    found = clones / others
    pairs = ((found, share), (1 - found, 1 - share))
    return math.exp(-others * sum(one * math.log(one / other) for one, other in pairs if one) * (1 - 1e-6))


def _divergences(clones: Floats, local: float, epsilon: float) -> Floats:
    slope, level = math.expm1(local) * (1 + math.exp(epsilon)), math.expm1(local + epsilon)
    terms = math.ceil(7 * math.sqrt(clones[-1])) + 40
    rows = max(1, _CELLS // terms)
    steps = np.arange(terms, dtype=np.float64)
    found = []
    for start in range(0, len(clones), rows):
        c = clones[start : start + rows]
        k = np.floor((c + 1) * (level / slope)) + 1
        at = np.where(k - 1 <= c, np.exp(_log_choose(c, np.minimum(k - 1, c)) - c * math.log(2)), 0.0)
        heads = k[:, None] + steps
        odds = np.maximum(c[:, None] - heads + 1, 0.0) / heads
        tail = at * np.cumprod(odds, axis=1).sum(axis=1)
        own = -math.expm1(epsilon - local) / (1 + math.exp(-local)) * at - math.expm1(epsilon) * tail
        found.append(np.maximum(own, 0.0))
    return np.concatenate(found)


def _log_rest(share: float) -> float:
    return math.log1p(-share) if share < 1 else 0.0


def _log_choose(n: Floats | int, k: Floats) -> Floats:
    return _log_factorial(np.asarray(n, np.float64)) - _log_factorial(k) - _log_factorial(n - k)


def _log_factorial(n: Floats) -> Floats:
    """Stirling's series from n + 8 on, and back by the factors between."""
    x = n + 9.0
    series = (
        (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    )
    return np.asarray(series - sum(np.log(n + step) for step in range(1, 9)))
