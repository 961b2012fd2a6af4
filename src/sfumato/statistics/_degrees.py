"""Degrees of single nodes for a twin, from what a run of statistics estimates. Post-processing alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sfumato.statistics._estimates import Estimates
    from sfumato.statistics._wiring import Whole

_NOISY = 8.0  # as many times the scale of the noise are the nodes of largest degree that counts say little of


def degrees_of(run: Estimates, generator: np.random.Generator, groups: Whole, totals: Whole, name: str) -> Whole:
    r"""Return a degree for each node, int64 [n], of which every group has exactly its total.

    A node is scored by its released degree x, which is shrunk towards the mean of its group by
    :math:`\sqrt{1 - 2 b^2 / \mathrm{var}(x)}` with b the scale of the noise, so that scores spread as degrees do; without
    released degrees of nodes the score is drawn. Nodes get the degrees of the estimated sequence in the order of scores.

    Args:
        run: the estimates.
        generator: of public randomness.
        groups: the group of each node.
        totals: the sum of the degrees in each group.
        name: the counts of nodes by degree: degrees, out-degrees or in-degrees.
    """
    sizes = np.bincount(groups, minlength=len(totals))
    means = totals / np.maximum(sizes, 1)
    rows = run.fitted.released.get(name)
    known = None if rows is None or run.raw(name) is None else rows
    by_group = known is not None and len(known) > 1 and len(known) == len(totals)
    sequence = _sequence(run, totals, name) if known is not None and not by_group and len(known) == 1 else None
    scores = _scores(run, generator, groups, means, name, sequence)
    found = np.maximum(scores, 0) if scores is not None else generator.poisson(means[groups]).astype(np.float64)
    if scores is not None and (sequence is not None or by_group):
        order = np.lexsort((generator.random(len(scores)), scores))
        if sequence is not None:
            found[order] = sequence
        else:
            for group in np.flatnonzero(sizes).tolist():
                found[order[groups[order] == group]] = run.sequence(name, group)
    return to_totals(generator, np.minimum(found, len(groups) - 1), groups, totals)


def _scores(
    run: Estimates,
    generator: np.random.Generator,
    groups: Whole,
    means: NDArray[np.float64],
    name: str,
    sequence: NDArray[np.float64] | None,
) -> NDArray[np.float64] | None:
    """What nodes are ordered by: expected degrees, or random ones with the spread that the sequence leaves within groups."""
    nodes = run.raw("node-degrees")
    if nodes is not None:
        row = nodes[int(name == "in-degrees")]
        apart = row - means[groups]
        spread = float(np.mean(apart**2))
        noise = 2 * run.scale("node-degrees") ** 2
        shrunk: NDArray[np.float64] = means[groups] + apart * np.sqrt(max(1 - noise / max(spread, 1e-9), 0.01))
        return shrunk
    if run.raw(name) is None:
        return None
    between = float(np.var(means[groups]))
    within = max(float(np.var(sequence)) - between, 0.0) if sequence is not None else 1.0
    drawn: NDArray[np.float64] = means[groups] + np.sqrt(within) * generator.standard_normal(len(groups))
    return drawn


def _sequence(run: Estimates, totals: Whole, name: str) -> NDArray[np.float64]:
    r"""The estimated degrees in ascending order, of which the largest are made to fit other releases.

    Counts of nodes above a degree say little of the few nodes above the largest degrees, since noise is of the same size. These
    nodes get the largest released degrees of single nodes; or else degrees that rise as a power of the rank, such that wedges
    are as many as was released, or edges if no wedges were.
    """
    found = run.sequence(name).astype(np.float64)
    few = min(len(found) // 4, int(np.ceil(_NOISY * run.scale(name))))
    if not few:
        return found
    nodes = run.raw("node-degrees")
    least, rest, most = found[-few - 1], found[:-few], len(found) - 1.0
    if nodes is not None:
        found[-few:] = np.clip(np.sort(nodes[int(name == "in-degrees")])[-few:], least, most)
        return found
    wedges = run.raw("wedges")
    ratio = few / np.arange(few, 0, -1.0)

    def excess(power: float) -> float:
        tail = np.minimum(max(least, 1.0) * ratio**power, most)
        if wedges is None:
            return float(tail.sum() + rest.sum() - totals.sum())
        return float((tail * (tail - 1)).sum() + (rest * (rest - 1)).sum() - 2 * wedges[0])

    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    found[-few:] = np.minimum(max(least, 1.0) * ratio**low, most)
    return found


def to_totals(generator: np.random.Generator, degrees: NDArray[np.float64], groups: Whole, totals: Whole) -> Whole:
    """Scale degrees by group and round them at random, so that each group has exactly its total.

    >>> to_totals(np.random.default_rng(0), np.array([1.0, 1.0, 4.0]), np.zeros(3, int), np.array([12])).tolist()
    [2, 2, 8]
    """
    sums = np.bincount(groups, degrees, minlength=len(totals))
    even = sums[groups] <= 0
    degrees = np.where(even, 1.0, degrees)
    sums = np.bincount(groups, degrees, minlength=len(totals))
    wanted = degrees * (totals / np.maximum(sums, 1e-9))[groups]
    order = np.lexsort((generator.random(len(groups)), groups))
    found = np.empty(len(groups), np.int64)
    found[order] = np.diff(np.rint(np.cumsum(wanted[order])).astype(np.int64), prepend=0)
    return found
