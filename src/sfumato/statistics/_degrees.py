"""Degrees of single nodes for a twin, from what a run of statistics estimates. Post-processing alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics._laws import Law

if TYPE_CHECKING:
    from sfumato.statistics._estimates import Estimates
    from sfumato.statistics._wiring import Whole

_SCALINGS = 8
_SURE = 0.95  # of the interval in which wedges say nothing
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
    most = len(groups) - 1 if known is None else int(found.max(initial=0))
    return to_totals(generator, np.minimum(found, len(groups) - 1), groups, totals, most)


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
    nodes get the largest released degrees of single nodes; or else degrees that rise as a power of the rank, such that edges
    are as many as was released. Wedges change that only where their interval says so. None is above the largest degree of the
    estimated sequence, since no release speaks of one.
    """
    found = run.sequence(name).astype(np.float64)
    few = min(len(found) // 4, int(np.ceil(_NOISY * run.scale(name))))
    if not few:
        return found
    nodes = run.raw("node-degrees")
    least, rest, most = max(found[-few - 1], 1.0), found[:-few], max(found[-1], 1.0)
    if nodes is not None:
        found[-few:] = np.clip(np.sort(nodes[int(name == "in-degrees")])[-few:], least, len(found) - 1.0)
        return found
    ratio = few / np.arange(few, 0, -1.0)

    def tail(power: float) -> NDArray[np.float64]:
        cut: NDArray[np.float64] = np.minimum(least * ratio**power, most)
        return cut

    def wedges(power: float) -> float:
        return sum(float((part * (part - 1)).sum()) for part in (tail(power), rest)) / 2

    power = _crossing(lambda at: float(tail(at).sum() + rest.sum() - totals.sum()))
    released = run.raw("wedges")
    if released is not None:
        less, more, _ = Law.of([run.scale("wedges")]).interval(_SURE)
        wanted = min(max(wedges(power), float(released[0]) - more), float(released[0]) - less)
        power = _crossing(lambda at: wedges(at) - wanted)
    found[-few:] = tail(power)
    return found


def _crossing(excess: Callable[[float], float]) -> float:
    """Return the power from 0 to 4 at which a rising function passes 0, or the end that is nearest."""
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return low


def to_totals(
    generator: np.random.Generator, degrees: NDArray[np.float64], groups: Whole, totals: Whole, most: int
) -> Whole:
    """Scale degrees by group and round them at random, so that each group has exactly its total.

    None gets above ``most``, unless its group has a larger mean.

    >>> to_totals(np.random.default_rng(0), np.array([1.0, 1.0, 4.0]), np.zeros(3, int), np.array([12]), 9).tolist()
    [2, 2, 8]
    >>> to_totals(np.random.default_rng(0), np.array([1.0, 1.0, 4.0]), np.zeros(3, int), np.array([12]), 6).tolist()
    [3, 3, 6]
    """
    sizes = np.bincount(groups, minlength=len(totals))
    bound = np.maximum(most, np.ceil(totals / np.maximum(sizes, 1)))[groups]
    sums = np.bincount(groups, degrees, minlength=len(totals))
    wanted = np.where(sums[groups] <= 0, 1.0, degrees)
    for _ in range(_SCALINGS):  # what is cut off goes to the others of the group
        sums = np.bincount(groups, wanted, minlength=len(totals))
        wanted = np.minimum(wanted * (totals / np.maximum(sums, 1e-9))[groups], bound)
    sums = np.bincount(groups, wanted, minlength=len(totals))
    wanted = wanted * (totals / np.maximum(sums, 1e-9))[groups]
    order = np.lexsort((generator.random(len(groups)), groups))
    found = np.empty(len(groups), np.int64)
    found[order] = np.diff(np.rint(np.cumsum(wanted[order])).astype(np.int64), prepend=0)
    return found
