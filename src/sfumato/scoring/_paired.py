r"""Paired comparisons: two models answer the same test nodes, and only where they differ is anything learned.

With one seed the difference of every node is one observation: its mean has a t-interval over nodes, and answers that are right
or wrong have McNemar's mid-p test (Fagerland, Lydersen and Laake 2013), which reads the nodes on which exactly one model is
right. With several seeds, each with a split of its own, a node can be tested more than once and nodes of one fit share what is
peculiar to it. So variances are clustered by node, what seeds differ by beyond that is added, and the degrees of freedom follow
Satterthwaite (1946). Where values differ by class, so does their variance (Welch 1947): each class has as many degrees of freedom
as it has nodes, less one, and a class of three cannot lend confidence from a thousand others. A difference that is the same for
all nodes shows no spread, and is no evidence.

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
LEAST = 10
"""The fewest nodes of a class from which anything is said of a score that the class has a part in."""
_NO_SPREAD = 1e-9


@dataclass(frozen=True)
class Difference:
    """The mean difference of the first of two models to the second over the same nodes, with its interval.

    There is no interval for a single node, and where all nodes differ by the same. ``p`` is the chance of a difference at least
    as large if there were none.
    """

    mean: float
    low: float | None
    high: float | None
    p: float
    nodes: int
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether the interval excludes that there is no difference; it never does where the test does not."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        return {"difference": self.mean, "low": self.low, "high": self.high, "p": self.p}


Part = tuple[NDArray[np.int64], Floats]
"""Row numbers of the nodes of one seed, and what was measured of them, [m, k]."""
Classes = NDArray[np.integer]


def difference(parts: Sequence[Part], strata: Sequence[Classes] | None = None, tests: int = 1) -> Difference:
    """Compare two models on the nodes that both answered.

    ``strata`` are the class of each node of each seed, which a node keeps; None takes all for one class.
    """
    nodes = len(np.unique(np.concatenate([at for at, _ in parts])))
    mean, spread, freedom = _moments(parts, strata)
    middle, error = float(mean[0]), float(np.sqrt(spread[0, 0]))
    if nodes < 2 or (middle and error <= _NO_SPREAD * abs(middle)):
        return Difference(middle, None, None, 1.0, nodes, len(parts))
    half = _quantile(freedom, LEVEL / tests) * error
    low, high = middle - half, middle + half
    each = parts[0][1][:, 0]
    if len(parts) > 1 or not np.isin(each, (-1.0, 0.0, 1.0)).all():
        return Difference(middle, low, high, _two_sided(middle / error, freedom) if error else 1.0, nodes, len(parts))
    p = mid_p(int((each > 0).sum()), int((each < 0).sum()))
    low, high = (low, high) if p < LEVEL / tests else (min(low, 0.0), max(high, 0.0))
    return Difference(middle, low, high, p, nodes, len(parts))


def mid_p(won: int, lost: int) -> float:
    """Return the two-sided mid-p value of McNemar's test."""
    from scipy.special import bdtr

    few, total = min(won, lost), won + lost
    if won == lost:
        return 1.0
    at = bdtr(few, total, 0.5) - (bdtr(few - 1, total, 0.5) if few else 0.0)
    return float(min(1.0, 2 * bdtr(few, total, 0.5) - at))


@dataclass(frozen=True)
class Share:
    """How much of a gain is kept, over the whole gain, with its 95 % interval by Fieller."""

    share: float
    low: float
    high: float


def kept_share(parts: Sequence[Part], strata: Sequence[Classes] | None = None) -> Share | None:
    """Return which share of a gain is kept; None if the whole gain cannot be told from 0, or is a loss.

    ``parts`` measure two things: what is kept and the whole gain, node by node.
    """
    if len(np.unique(np.concatenate([at for at, _ in parts]))) < 2:
        return None
    mean, spread, freedom = _moments(parts, strata)
    limit = _quantile(freedom, LEVEL) ** 2
    kept, whole = float(mean[0]), float(mean[1])
    square = whole**2 - limit * spread[1, 1]
    if whole <= 0 or square <= 0 or spread[1, 1] <= (_NO_SPREAD * whole) ** 2:
        return None
    cross, rest = kept * whole - limit * spread[0, 1], kept**2 - limit * spread[0, 0]
    half = float(np.sqrt(max(cross**2 - square * rest, 0.0)) / square)
    return Share(kept / whole, float(cross / square) - half, float(cross / square) + half)


def _moments(parts: Sequence[Part], strata: Sequence[Classes] | None) -> tuple[Floats, Floats, float]:
    """The mean over all nodes and seeds [k], the covariance of that mean [k, k], and its degrees of freedom."""
    nodes, values = np.concatenate([at for at, _ in parts]), np.concatenate([one for _, one in parts])
    total, mean, seeds = len(values), values.mean(axis=0), len(parts)
    beyond = values - mean
    _, first, place = np.unique(nodes, return_index=True, return_inverse=True)
    by_node = np.zeros((len(first), values.shape[1]))
    np.add.at(by_node, place, beyond)
    classes = np.zeros(len(first), np.int64) if strata is None else np.concatenate(strata)[first]
    spread, weight = np.zeros((values.shape[1],) * 2), np.zeros(values.shape[1])
    for label in np.unique(classes).tolist():
        rows = by_node[classes == label]
        free = max(len(rows) - 1, 1)
        part = rows.T @ rows / total**2 * (len(rows) / free)
        spread, weight = spread + part, weight + np.diag(part) ** 2 / free
    if seeds > 1:
        by_seed = np.stack([(one - mean).sum(axis=0) for _, one in parts])
        found = by_seed.T @ by_seed * (seeds / (seeds - 1)) - beyond.T @ beyond
        sizes, axes = np.linalg.eigh(found / total**2)
        apart = axes * np.maximum(sizes, 0) @ axes.T  # what seeds differ by beyond their nodes
        spread, weight = spread + apart, weight + np.diag(apart) ** 2 / (seeds - 1)
    most = np.full_like(weight, max(len(first) - 1.0, 1.0))
    freedom = np.divide(np.diag(spread) ** 2, weight, out=most, where=weight > 0)
    return mean, spread, float(freedom.min())


def _quantile(freedom: float, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - level / 2))


def _two_sided(t: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))
