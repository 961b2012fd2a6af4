"""Renyi divergences of Gaussian mixtures on a line, in units of the noise's standard deviation."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray
ROUNDING = 4e-15  # of a log moment, absolute and relative: tiny divergences otherwise round to no loss at all
REST = -690.0  # log mass of components that cannot be told from none
_MAX_NODES = 40_000
_REACH = 12.0  # standard deviations integrated beyond the outermost center
_CHUNK = 2_000_000


def revealed(shifts: Array, probs: Array, orders: Array) -> Array:
    """Divergences when the component is seen: log E exp(a (a - 1) shift^2 / 2) / (a - 1), a bound on every mixture.

    It bounds what hides the component because exp((a - 1) D_a) is jointly convex.
    """
    with np.errstate(over="ignore"):
        exponents = np.multiply.outer(orders * (orders - 1) / 2, shifts**2)
    finite = np.where(np.isfinite(exponents), exponents, 1e300)
    return _divergences(logsumexp(finite, b=probs, axis=1), orders)


def add_rest(divergences: Array, shift: float, orders: Array) -> Array:
    """Add components of mass exp(REST) in all, at most ``shift`` away: exp((a - 1) D_a) is subadditive."""
    with np.errstate(over="ignore"):
        moments = np.logaddexp((orders - 1) * divergences, REST + orders * (orders - 1) / 2 * shift**2)
    return np.asarray(moments / (orders - 1))


def mixtures(upper: tuple[Array, Array], lower: tuple[Array, Array], scale: float, orders: Array) -> Array:
    """Divergences between two mixtures of N(shift, 1), the larger direction; infinity out of reach.

    The trapezoidal rule on powers of P and Q. Where the components are a lattice of spacing 1 / ``scale`` with binomial
    weights, their zeros have imaginary part pi scale, so that its error is below rounding at steps of scale / 6.
    P^a Q^(1 - a) lies below a sum of bells (as 1 / Q is at most that of any component) whose centers are within
    a far(P) + (a - 1) far(Q) of 0.
    """
    step = min(0.15, scale / 6)
    far = [float(np.abs(shifts).max()) for shifts, _ in (upper, lower)]
    wanted = orders * max(far) + (orders - 1) * min(far) + _REACH
    reached = min(float(wanted.max()), _MAX_NODES * step / 2)
    nodes = np.arange(-math.ceil(reached / step), math.ceil(reached / step) + 1) * step
    log_p, log_q = (_log_density(shifts, probs, nodes) for shifts, probs in (upper, lower))
    logs = np.full(len(orders), np.inf)
    middle = len(nodes) // 2
    for i, order in enumerate(orders):
        if wanted[i] > reached * (1 + 1e-12):
            continue
        half = math.ceil(wanted[i] / step)
        part = slice(max(0, middle - half), middle + half + 1)
        p, q = log_p[part], log_q[part]
        logs[i] = max(_log_integral(order * a + (1 - order) * b, step) for a, b in ((p, q), (q, p)))
    return _divergences(logs, orders)


def _divergences(log_moments: Array, orders: Array) -> Array:
    return np.asarray((np.maximum(log_moments, 0) * (1 + ROUNDING) + ROUNDING) / (orders - 1))


def _log_integral(logs: Array, step: float) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()) * step)


def _log_density(shifts: Array, probs: Array, nodes: Array) -> Array:
    result = np.empty(len(nodes))
    with np.errstate(divide="ignore"):
        logs = np.log(probs)[:, None] - math.log(2 * math.pi) / 2
    for start in range(0, len(nodes), max(1, _CHUNK // len(shifts))):
        part = slice(start, start + max(1, _CHUNK // len(shifts)))
        result[part] = logsumexp(logs - (nodes[part] - shifts[:, None]) ** 2 / 2, axis=0)
    return result
