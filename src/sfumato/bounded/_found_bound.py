r"""A bound on degrees that nobody has to declare: it is found with noise, and nodes above it get smaller weights.

Let :math:`c_v` count the senders that node v has arcs from, or arcs to, whichever are more (:func:`sender_counts`), and let
:math:`N(t)` be the number of nodes with :math:`c_v > t`. Node v has the divisor :math:`s_v = \max(B, c_v)` where a declared bound
would stand in :mod:`~sfumato.bounded._promise`; so rows of crowded nodes have smaller copies, and none is cut off. Let at most
:math:`M` nodes have :math:`c_v > B`, and :math:`\kappa = M / B`. The weight of a sender is

.. math:: w(t) = \begin{cases} 2 \sqrt{2 A} - 2 \sqrt t & t \le A / 2 \\ A / \sqrt t & t \ge A / 2 \end{cases}
    \qquad \text{with} \quad A + \sqrt{2 A \kappa} + \kappa = 1.

**Formal guarantee.** Where M bounds the number of crowded nodes of the larger of two graphs, rows of other nodes have L2
sensitivity 1 as there. Pairs of classes, divided by :math:`1 + \kappa`, have L1 sensitivity 1.

* *A receiver v is removed.* No count of another node reads it. The loads of its :math:`c_v` senders fall by :math:`1 / s_v \le
  1 / c_v` each, and :math:`|w'(t)| \sqrt t \le 1`: at most 1, as there. Pairs do not read it.
* *A sender u is removed.* Its own copies had the norm :math:`w(D_u) \sqrt{D_u} \le A`. Let then the divisor of each crowded
  neighbor v fall from :math:`c_v` to :math:`c_v - 1 \ge B`. Its row grows by at most :math:`(c_v - 1) w(0) (1 / \sqrt{c_v - 1}
  - 1 / \sqrt{c_v}) \le w(0) / (2 \sqrt{c_v}) \le \sqrt{2 A / B}`: over M rows :math:`\sqrt{2 A \kappa}`. And the loads of its
  other senders grow by :math:`(c_v - 1) (1 / (c_v - 1) - 1 / c_v) = 1 / c_v` together, which moves their copies by at most as
  much in norm: over M nodes :math:`\kappa`.
* *Pairs.* The sender takes away entries of at most 1 together. Entries of a crowded sender that it has an arc to grow by at
  most :math:`1 / c_v < 1 / B` together.

**The bound.** :func:`level` is the least x such that at most x nodes have :math:`c_v > T + x`. *It moves by at most 1.* A
sender more adds 1 to counts, and is one node more: :math:`N'(T + x + 1) \le N(T + x) + 1 \le x + 1`. A receiver more is one
node more. So with Gaussian noise of deviation :math:`\sigma` and a margin (:func:`margin`) of :data:`TAIL` deviations and the
sensitivity, the result x is at least the level of both graphs but for a chance below :math:`2^{-100}`, that of one draw of the
sampler, for which delta pays as for one (``SAMPLER_TAU``). Then every B from T + x on has at most x crowded nodes. *Outcomes
with a smaller x* are those on which nothing rests: in a mechanism that stops there, all that follows keeps its sensitivity,
and it differs from this one with that chance. T is chosen by a first release of the level from 0, of the same sensitivity.

**Rounding.** Weights are whole steps of 1 / GRID. Of others' copies and shares of loads, rounding moves at most as many in a
row as the node has senders: B, or S, the number of senders, in M rows. With R receivers its norm is at most :math:`B \sqrt R +
3 S \sqrt M` steps, which weights pay for. A crowded sender has at most 2 S entries of pairs (S in an undirected graph, and
both directions of S in a directed one), and each may move by a whole step, in the same direction. So pairs of weight p change
by at most :math:`p (1 + \kappa) + 2 M S / \mathrm{GRID}` in L1 norm, which :func:`pair_part` makes 1. Where 2 M S reaches
GRID, p is 0 and no pair is told.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._promise import GRID, Divisors

TAIL = 11.5
"""Deviations beyond which a Gaussian number lies with a chance below 2^-100."""
_TYPICAL, _EXCESS = 2.0, 6.0
Steps = NDArray[np.int64]


class Found(NamedTuple):
    """A bound that was found: at most ``crowded`` nodes have more senders than ``bound``. Both may be known.

    >>> Found(480, 40).crowded
    40
    """

    bound: int
    crowded: int

    @property
    def excess(self) -> float:
        r"""Return :math:`\kappa`."""
        return self.crowded / self.bound


def sender_counts(indptr: Steps, indices: NDArray[np.int32], sends: NDArray[np.bool_]) -> Steps:
    """Return how many senders each node has arcs from, or arcs to, whichever are more. Not private.

    >>> sender_counts(np.array([0, 2, 2, 2]), np.array([1, 2], np.int32), np.array([True, True, False])).tolist()
    [1, 1, 1]
    """
    owners = np.repeat(np.arange(len(sends)), np.diff(indptr))
    ends = (indices[sends[owners]], owners[sends[indices]])
    counts = [np.bincount(one, minlength=len(sends)) for one in ends]
    return np.maximum(*counts).astype(np.int64)


def level(counts: Steps, start: int) -> int:
    """Return the least x such that at most x nodes have more than start + x senders. Not private; it moves by at most 1.

    >>> level(np.array([9, 9, 5, 1]), 0), level(np.array([9, 9, 5, 1]), 7)
    (3, 2)
    """
    ordered = np.sort(counts)
    tried = np.arange(len(counts) + 1)
    above = len(counts) - np.searchsorted(ordered, start + tried, side="right")
    return int(np.argmax(above <= tried))


def start_of(typical: float) -> int:
    """Return where the second level starts, for a first level with noise; reads nothing else.

    >>> start_of(164.4), start_of(-3.0)
    (329, 1)
    """
    return max(math.ceil(_TYPICAL * typical), 1)


def margin(stddev: float, sensitivity: float) -> float:
    """Return what is added to a noisy level so that it is no less than the true one, of either graph.

    ``stddev`` is the deviation of its noise, ``sensitivity`` how far a record moves it.

    >>> round(margin(2.0, 1.0), 1)
    24.0
    """
    return sensitivity + TAIL * stddev


def find(start: int, noisy_level: float, margin: float, most: int) -> Found:
    """Return the bound for a second level with noise, or the most senders that a node can have: what leaves larger copies.

    ``start`` is where the level starts, ``margin`` what is added to it (:func:`margin`), and ``most`` a bound that always holds.

    >>> find(329, 12.0, 28.0, 15000), find(329, 12.0, 28.0, 400)
    (Found(bound=369, crowded=40), Found(bound=400, crowded=0))
    """
    crowded = max(math.ceil(noisy_level + margin), 1)
    found = Found(max(start + crowded, math.ceil(_EXCESS * crowded)), crowded)
    return found if found.bound < most and height(found.excess) / found.bound > 1 / most else Found(most, 0)


def height(excess: float) -> float:
    r"""Return A, which weights are in proportion to, for :math:`\kappa`; 0 if nothing is left.

    >>> round(height(0.0), 3), round(height(0.1), 3), height(1.0)
    (1.0, 0.564, 0.0)
    """
    root = math.sqrt(max(4 - 2 * excess, 0.0)) - math.sqrt(2 * excess)
    return max(root / 2, 0.0) ** 2


def pair_part(found: Found, senders: int) -> float:
    r"""Return the weight p of a pair before it is divided: :math:`(1 - 2 M S / \mathrm{GRID})^+ / (1 + \kappa)`, S ``senders``.

    Rounding moves whole steps whatever p is, so it is paid first.

    >>> pair_part(Found(10, 10), 100) < 0.5, pair_part(Found(10, 10), GRID)
    (True, 0.0)
    """
    return max(0.0, 1 - 2 * found.crowded * senders / GRID) / (1 + found.excess)


def found_divisors(found: Found, counts: Steps, sends: NDArray[np.bool_]) -> Divisors:
    """Return the divisors of all nodes for a bound that was found, and what of them is known.

    >>> found_divisors(Found(2, 0), np.array([1, 3]), np.array([True, False])).of_nodes.tolist()
    [2, 3]
    """
    senders, receivers = int(sends.sum()), int((~sends).sum())
    steps = found.bound * math.sqrt(receivers) + 3 * senders * math.sqrt(found.crowded)
    slack = min(steps / GRID + 2.0**-20, 1.0)
    return Divisors(np.maximum(found.bound, counts), height(found.excess), slack, pair_part(found, senders))
