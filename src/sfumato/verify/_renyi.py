"""Renyi divergences: an upper bound on the cost of any plan, and the only one for selections.

A selection shows the best of a random number of trials (Papernot and Steinke 2022, theorems 2 and 6). Divergences of a trial
are exact for Gaussians, for sampled and repeated ones within reach of the integral, and for Laplace, randomized response and
pure ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ._documents import canonical
from ._losses import Symmetric
from .events import parts_of
from .events._gaussian import gaussian_log_delta
from .events._poisson_gaussian import Sampled
from .events._repeated_gaussian import Repeated

ORDERS = 1 + np.geomspace(0.01, 1e8, 900)
_NONE = np.zeros(0)
_NEAR, _MOST_MINIMA, _FINER = 1.02, 4, 50  # minima that are looked at closer, and by how many orders
_ROUNDING = 1e-6
_SLACK = 1e-14  # of a log moment: rounding of the sum that gives it
_DELTA_SLACK = 1e-9  # of the closed form
_STEPS, _REACH, _MOST_NODES = 10, 13.0, 30_000  # of the integral: nodes a deviation or spacing, deviations, nodes
_RARE = -690.0  # log of the mass of what is rounded up to the most terms
_MOST_COUNTS, _MOST_CENTERS = 100_000, 400
Event = dict[str, Any]
Law = tuple[np.ndarray, np.ndarray]


def renyi_epsilon(events: list[Event], delta: float) -> float:
    """Return an upper bound on epsilon (conversion of Canonne, Kamath and Steinke 2020).

    >>> trial = [{"type": "pure", "epsilon": 1.0, "count": 1}]
    >>> best = {"type": "selection", "candidates": [trial], "rule": "geometric", "mean_trials": 10}
    >>> round(renyi_epsilon([best], 1e-6), 4)
    3.0
    """
    bounds = _bounds(events, delta, _NONE)
    inner, least = bounds[1:-1], float(np.nanmin(bounds))
    low = (inner <= bounds[:-2]) & (inner <= bounds[2:]) & (inner <= _NEAR * least)
    minima = 1 + np.flatnonzero(low)
    minima = minima[np.argsort(bounds[minima])][:_MOST_MINIMA]
    if minima.size and math.isfinite(least):  # with many trials, between two orders the bound may be much lower
        finer = [1 + np.geomspace(ORDERS[i - 1] - 1, ORDERS[i + 1] - 1, _FINER) for i in minima]
        least = min(least, float(np.nanmin(_bounds(events, delta, np.concatenate(finer)))))
    return max(0.0, least) * (1 + _ROUNDING)


def _bounds(events: list[Event], delta: float, finer: np.ndarray) -> np.ndarray:
    """Return what each of ``ORDERS`` and each ``finer`` one says of epsilon."""
    orders = np.concatenate([ORDERS, finer])
    return np.asarray(
        _divergences(events, finer) + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    )


def _divergences(events: list[Event], finer: np.ndarray) -> np.ndarray:
    """Return divergences of everything together at ``ORDERS`` and ``finer`` ones, the larger direction of each mechanism."""
    orders = np.concatenate([ORDERS, finer])
    mu, parts = parts_of([event for event in events if event["type"] != "selection"])
    total = orders * mu * mu / 2
    for part in parts:
        if isinstance(part, Symmetric):
            total = total + part.steps * part.renyi(orders)
        else:
            total = total + part.steps * np.concatenate([_on_grid(part), _of_terms(part, finer)])
    for event in events:
        if event["type"] == "selection":
            total = total + _of_selection(event, finer)
    return np.asarray(total)


@lru_cache(maxsize=64)
def _on_grid(part: Sampled | Repeated) -> np.ndarray:
    return _of_terms(part, ORDERS)


def _of_terms(part: Sampled | Repeated, orders: np.ndarray) -> np.ndarray:
    """Return divergences of one step in which k terms of a record are drawn: those if k is seen, or less where it is hidden.

    Exp((order - 1) D) is convex in both laws together, so what is seen bounds what is hidden, and so does a mixture of bounds.
    """
    k, logs, most = _law(part)
    seen = np.full(orders.shape, -math.inf)
    for count, log_weight in zip((*k, most), (*logs, _RARE), strict=True):
        shift = (1 + part.replace) * count / part.s
        seen = np.logaddexp(seen, log_weight + orders * (orders - 1) * shift**2 / 2)
    if isinstance(part, Repeated) and part.replace:
        return np.asarray(seen / (orders - 1))
    law = (k / part.s, np.exp(logs))
    alone = (-law[0], law[1]) if part.replace else (np.zeros(1), np.ones(1))
    hidden = _log_moments(law, alone, float(np.diff(k).max()) / part.s, orders) + _SLACK
    if most > k[-1]:
        hidden = np.logaddexp(hidden, _RARE + orders * (orders - 1) * (most / part.s) ** 2 / 2)
    return np.asarray(np.minimum(hidden, seen) / (orders - 1))


def _law(part: Sampled | Repeated) -> tuple[np.ndarray, np.ndarray, float]:
    """Return how many terms are drawn, ascending, the logarithms of their probabilities, and the most terms.

    A term that vanishes while others are exchanged counts half.

    By Bernstein's inequality, counts further from the mean have mass exp(-690) at most. Among very many counts, some are
    rounded up: more terms cost more.
    """
    if isinstance(part, Sampled):
        return np.array([0.0, 1.0]), np.log([1 - part.q, part.q]), 1
    mean = part.terms * part.q
    reach = -_RARE / 3 + math.sqrt(_RARE**2 / 9 - 2 * _RARE * mean)
    if reach > _MOST_COUNTS / 2:
        raise ValueError("more values than are reasonable")
    k = np.arange(max(0, math.ceil(mean - reach)), min(part.terms, math.floor(mean + reach)) + 1)
    ratios = np.log((part.terms - k[:-1]) / k[1:]) + math.log(part.q) - math.log1p(-part.q)
    logs = np.concatenate(([0.0], np.cumsum(ratios)))
    logs -= np.logaddexp.reduce(logs)
    group = -(-k.size // _MOST_CENTERS)
    starts = np.arange(0, k.size, group)
    last = np.minimum(starts + group, k.size) - 1
    k, logs = k[last].astype(float), np.logaddexp.reduceat(logs, starts)
    if part.leaves:
        k, logs = np.add.outer(k, [0, 0.5]).ravel(), np.add.outer(logs, np.log([1 - part.q, part.q])).ravel()
    return k, logs, part.terms + part.leaves / 2


def _log_moments(upper: Law, lower: Law, spacing: float, orders: np.ndarray) -> np.ndarray:
    """Return (order - 1) D between two mixtures of N(center, 1), the larger direction; infinite beyond the nodes.

    The trapezoidal rule converges geometrically: P^a Q^(1 - a) is below bells with centers within a far(P) + (a - 1) far(Q) of 0,
    and mixtures on a lattice of this ``spacing`` have no zero within pi / spacing of the line.
    """
    step = min(1.0, 1 / spacing) / _STEPS
    far, near = sorted((float(np.abs(centers).max()) for centers, _ in (upper, lower)), reverse=True)
    wanted = np.ceil((orders * far + (orders - 1) * near + _REACH) / step)
    within = np.flatnonzero(wanted <= _MOST_NODES)
    result = np.full(orders.size, math.inf)
    if not within.size:
        return result
    middle = int(wanted[within].max())
    x = step * np.arange(-middle, middle + 1)
    log_p, log_q = (_log_density(*law, x) for law in (upper, lower))
    for i in within:
        inner = slice(middle - int(wanted[i]), middle + int(wanted[i]) + 1)
        p, q, order = log_p[inner], log_q[inner], orders[i]
        exponents = [order * p + (1 - order) * q, order * q + (1 - order) * p]
        tops = [float(one.max()) for one in exponents]
        sums = [top + math.log(np.exp(one - top).sum() * step) for one, top in zip(exponents, tops, strict=True)]
        result[i] = max(0.0, *sums)
    return result


def _log_density(centers: np.ndarray, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    logs = np.full(x.size, -math.inf)
    for center, weight in zip(centers, weights, strict=True):
        if weight > 0:
            logs = np.logaddexp(logs, math.log(weight) - (x - center) ** 2 / 2)
    return np.asarray(logs - math.log(2 * math.pi) / 2)


def _of_selection(event: Event, finer: np.ndarray) -> np.ndarray:
    """Return divergences of the best of K trials; a trial has at most the largest ones of its candidates."""
    orders, mean = np.concatenate([ORDERS, finer]), event["mean_trials"]
    candidates = [*{canonical(events): events for events in event["candidates"]}.values()]
    curves = [_divergences(candidate, finer) for candidate in candidates]
    base = np.max(curves, axis=0)
    if event["rule"] == "poisson":
        deltas = np.max([_deltas(*pair, orders) for pair in zip(candidates, curves, strict=True)], axis=0)
        return np.asarray(np.logaddexp(-mean, (orders - 1) * (base + mean * deltas) + math.log(mean)) / (orders - 1))
    eta = {"geometric": 1, "logarithmic": 0}[event["rule"]]
    low, high = 0.0, 2 * math.log(mean) + 2  # log 1 / gamma, where the law has this mean
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if math.exp(middle) - 1 > mean * middle else (middle, high)
    log_ratio = math.log(mean) if eta else high
    free = min(log_ratio, float(np.nanmin((1 - 1 / orders) * base + log_ratio / orders)))
    return np.asarray(base + (1 + eta) * free + math.log(mean) / (orders - 1))


def _deltas(candidate: list[Event], curve: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return deltas of one trial at epsilon = log(1 + 1 / (order - 1)): by its divergences, or by what it costs without sampling.

    Without sampling all Gaussians are one, in closed form, and pure mechanisms shift epsilon by their sum.
    """
    epsilons = -np.log1p(-1 / orders)
    lines, slopes = (orders - 1) * (curve + np.log1p(-1 / orders)) - np.log(orders), orders - 1
    deltas = np.array([math.exp(min(0.0, float(np.nanmin(lines - slopes * epsilon)))) for epsilon in epsilons])
    if any(event["type"] == "selection" for event in candidate):
        return deltas
    mu, parts = parts_of(candidate)
    pure = math.fsum(part.steps * part.bound for part in parts if isinstance(part, Symmetric)) * (1 + _DELTA_SLACK)
    for part in parts:
        if not isinstance(part, Symmetric):
            most = part.most if isinstance(part, Repeated) else 1 + part.replace
            mu = math.hypot(mu, math.sqrt(part.steps) * most / part.s)
    for i in np.flatnonzero(epsilons >= pure):
        closed = math.exp(gaussian_log_delta(mu, epsilons[i] - pure)) * (1 + _DELTA_SLACK) if mu else 0.0
        deltas[i] = min(deltas[i], closed)
    return deltas
