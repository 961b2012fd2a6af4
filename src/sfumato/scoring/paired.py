r"""Paired comparisons: two models answer the same test nodes, and only where they differ is anything learned.

With one seed the difference of every node is one observation: its mean has a t-interval over nodes, and answers that are right
or wrong have McNemar's mid-p test (Fagerland, Lydersen and Laake 2013), which reads the nodes on which exactly one model is
right. With several seeds, each with a split of its own, a node can be tested more than once and nodes of one fit share what is
peculiar to it. So variances are clustered by node, what seeds differ by beyond that is added, and the degrees of freedom follow
Satterthwaite (1946).

The share of a gain that is kept, :math:`\bar a / \bar b` with a = run - floor and b = ceiling - floor of the same nodes, has
Fieller's interval (1954), and none where the gain itself cannot be told from 0.

Nodes are taken for independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.05
"""The chance at which a difference is taken for clear."""


@dataclass(frozen=True)
class Difference:
    """The mean difference of two models over the same nodes, with its 95 % interval.

    Args:
        mean: of the first model less the second.
        low: lower end of the interval; None for a single node.
        high: upper end of the interval; None for a single node.
        p: the chance of a difference at least as large if there were none.
        nodes: the number of distinct nodes.
        seeds: the number of splits.
    """

    mean: float
    low: float | None
    high: float | None
    p: float
    nodes: int
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether test and interval both exclude that there is no difference, at 5 %."""
        return self.low is not None and self.high is not None and self.p < LEVEL and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of the numbers of this difference alone."""
        return {"difference": self.mean, "low": self.low, "high": self.high, "p": self.p}


Part = tuple[NDArray[np.int64], Floats]
"""Row numbers of the nodes of one seed, and what was measured of them, [m, k]."""


def difference(parts: Sequence[Part]) -> Difference:
    """Compare two models on the nodes that both answered.

    Args:
        parts: of each seed the nodes, and the difference of the models for each of them, [m, 1].

    >>> answers = np.repeat([1.0, -1.0, 0.0], [9, 1, 1203])[:, None]  # right where the other is wrong, and the reverse
    >>> found = difference([(np.arange(1213), answers)])
    >>> round(found.mean, 4), round(found.p, 4), found.clear
    (0.0066, 0.0117, True)
    """
    nodes = len(np.unique(np.concatenate([at for at, _ in parts])))
    mean, spread, freedom = _moments(parts)
    middle = float(mean[0])
    if nodes < 2:
        return Difference(middle, None, None, 1.0, nodes, len(parts))
    error = float(np.sqrt(spread[0, 0]))
    half = _quantile(freedom) * error
    each = parts[0][1][:, 0]
    if len(parts) == 1 and np.isin(each, (-1.0, 0.0, 1.0)).all():
        p = mid_p(int((each > 0).sum()), int((each < 0).sum()))
    else:
        p = _two_sided(middle / error, freedom) if error else float(middle == 0)
    return Difference(middle, middle - half, middle + half, p, nodes, len(parts))


def mid_p(won: int, lost: int) -> float:
    """Return the two-sided mid-p value of McNemar's test.

    Args:
        won: number of nodes that only the first model has right.
        lost: number of nodes that only the second has right.

    >>> round(mid_p(0, 2), 3), round(mid_p(9, 1), 4), mid_p(3, 3)
    (0.25, 0.0117, 1.0)
    """
    from scipy.special import bdtr

    few, total = min(won, lost), won + lost
    if won == lost:
        return 1.0
    at = bdtr(few, total, 0.5) - (bdtr(few - 1, total, 0.5) if few else 0.0)
    return float(min(1.0, 2 * bdtr(few, total, 0.5) - at))


def holm(chances: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number (Holm 1979), in the order of ``chances``.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, least, found = np.argsort(chances), 0.0, [0.0] * len(chances)
    for place, at in enumerate(order.tolist()):
        least = max(least, min(1.0, (len(chances) - place) * chances[at]))
        found[at] = least
    return found


@dataclass(frozen=True)
class Share:
    """How much of a gain is kept, with its 95 % interval by Fieller.

    Args:
        share: kept gain over whole gain.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    share: float
    low: float
    high: float


def kept_share(parts: Sequence[Part]) -> Share | None:
    """Return which share of a gain is kept; None if the whole gain cannot be told from 0, or is a loss.

    Args:
        parts: of each seed the nodes, and [m, 2]: what is kept and the whole gain, node by node.

    >>> whole = np.repeat([1.0, 0.0], [300, 700])
    >>> kept = np.where(np.arange(1000) % 4 == 0, 0.0, whole)
    >>> found = kept_share([(np.arange(1000), np.stack([kept, whole], axis=1))])
    >>> round(found.share, 2), round(found.low, 2), round(found.high, 2)
    (0.75, 0.7, 0.8)
    """
    if len(np.unique(np.concatenate([at for at, _ in parts]))) < 2:
        return None
    mean, spread, freedom = _moments(parts)
    limit = _quantile(freedom) ** 2
    kept, whole = float(mean[0]), float(mean[1])
    square = whole**2 - limit * spread[1, 1]
    if whole <= 0 or square <= 0:
        return None
    cross, rest = kept * whole - limit * spread[0, 1], kept**2 - limit * spread[0, 0]
    half = float(np.sqrt(max(cross**2 - square * rest, 0.0)) / square)
    return Share(kept / whole, float(cross / square) - half, float(cross / square) + half)


def _moments(parts: Sequence[Part]) -> tuple[Floats, Floats, float]:
    """The mean over all nodes and seeds [k], the covariance of that mean [k, k], and its degrees of freedom."""
    nodes, values = np.concatenate([at for at, _ in parts]), np.concatenate([one for _, one in parts])
    total, mean = len(values), values.mean(axis=0)
    beyond = values - mean
    _, place = np.unique(nodes, return_inverse=True)
    groups, seeds = int(place.max()) + 1, len(parts)
    by_node = np.zeros((groups, values.shape[1]))
    np.add.at(by_node, place, beyond)
    spread = by_node.T @ by_node / total**2 * (groups / max(groups - 1, 1))
    if seeds == 1:
        return mean, spread, float(groups - 1)
    by_seed = np.stack([(one - mean).sum(axis=0) for _, one in parts])
    found = by_seed.T @ by_seed * (seeds / (seeds - 1)) - beyond.T @ beyond
    sizes, axes = np.linalg.eigh(found / total**2)
    apart = axes * np.maximum(sizes, 0) @ axes.T  # what seeds differ by beyond their nodes
    of_nodes, of_seeds = np.diag(spread), np.diag(apart)
    weight = of_nodes**2 / max(groups - 1, 1) + of_seeds**2 / (seeds - 1)
    whole = (of_nodes + of_seeds) ** 2
    freedom = np.divide(whole, weight, out=np.full_like(whole, groups - 1.0), where=weight > 0)
    return mean, spread + apart, float(freedom.min())


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - LEVEL / 2))


def _two_sided(t: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))
