r"""Sums of labels along arcs when every arc of a node belongs to its record, under public upper bounds on degrees.

Nodes are senders or receivers, by public roles. Sender u has a class :math:`y_u`; node v has at most :math:`B_v` arcs out and
at most :math:`B_v` in, and the bounds are public. The *load* of a sender is :math:`D_u = \sum_{v} 1 / B_v` over the receivers
that it has an arc to. One copy of its class goes along each of these arcs, with weight

.. math:: \omega_{uv} = \frac{w(D_u)}{\sqrt{B_v}}, \qquad
    w(t) = \begin{cases} 2 \sqrt 2 - 2 \sqrt t & t \le 1/2 \\ 1 / \sqrt t & t \ge 1/2. \end{cases}

**Formal guarantee** (:func:`promised_sensitivity`): all rows together, but for the row of the node that is removed, have L2
sensitivity 1.

* *A sender is removed.* Its copies vanish, of joint norm :math:`w(D) \sqrt D \le 1`: for :math:`t \le 1/2`,
  :math:`2 \sqrt{2 t} - 2 t` rises to 1 at 1/2. Other senders' loads count receivers alone, so they stay.
* *A receiver v is removed.* Its own row, which only v sees, goes. The load of each sender with an arc to v falls from D to
  :math:`D' = D - 1 / B_v`, and its other copies grow by the joint norm
  :math:`(w(D') - w(D)) \sqrt{D'} \le \int_{D'}^{D} |w'(t)| \sqrt t \, dt \le 1 / B_v`, for :math:`|w'(t)| \sqrt t` is 1 up to
  1/2 and 1 / (2 t) beyond. There are at most :math:`B_v` such senders: by the triangle inequality 1 in all.
* *Replaced*: removed, and put back otherwise: 2.

w is the largest such function: :math:`w(t) \le w(s) + 2 (\sqrt s - \sqrt t)` and :math:`w(s) \le 1 / \sqrt s` for every
:math:`s \ge t`; the least of these bounds is the one above. Weights :math:`1 / \sqrt{B_u}` that no record moves have the same
sensitivity, and copies up to :math:`2 \sqrt 2` times smaller under a promise.

**Why not the true degree.** The hop of owned arcs (:func:`~sfumato.bounded._routing.share`) sends copies of weight
:math:`1 / \sqrt{d_u}`. Let k senders each have arcs to the same two receivers. If one receiver is removed, the row of the other
grows from :math:`k / \sqrt 2` to k: without bound in k.

Weights are whole steps of 1 / :data:`GRID`, rounded down. Rounding moves each of at most :math:`\sqrt{B}` copies (in norm) of at
most B senders by one step, with B the largest bound; so w is made smaller by :func:`rounding_slack`.

Where no bound is declared, one is found: :mod:`~sfumato.bounded._found_bound` has other divisors, and a lower height A of w
(here 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_real, fail
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.noise._witness import witnessed
from sfumato.noise.gaussian import MOST_STDDEV, rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import NodeLevel, Unit

GRID = 2**26
"""Steps of a copy of weight 1."""
_LOAD, _MOST_SLACK = 2**40, 0.5
Floats = NDArray[np.float64]
Steps = NDArray[np.int64]


class Copies(NamedTuple):
    """Copies are what senders send to receivers: one entry for each arc that carries a class.

    ``weights`` are in steps of 1 / :data:`GRID`.

    >>> Copies(np.array([1]), np.array([0]), np.array([GRID])).weights.tolist()
    [67108864]
    """

    receivers: NDArray[np.integer]
    classes: NDArray[np.integer]
    weights: Steps


class Divisors(NamedTuple):
    """What copies and pairs are divided by: a number for each node, which is private where a bound was found.

    ``height`` is A of the weights, ``slack`` the share of them that pays for rounding, and ``pairs`` the weight of a pair before
    it is divided; all three are public.

    >>> Divisors(np.array([4, 9]), slack=0.1).height
    1.0
    """

    of_nodes: Steps
    height: float = 1.0
    slack: float = 0.0
    pairs: float = 1.0


def protects_every_arc(unit: Unit) -> bool:
    """Return whether the record of a unit is a node with every arc in or out of it.

    >>> protects_every_arc(NodeLevel(arcs="incident")), protects_every_arc(NodeLevel())
    (True, False)
    """
    return type(unit) is NodeLevel and unit.arcs == "incident"


def promised_sensitivity(unit: Unit) -> float:
    """Return the L2 sensitivity of the rows that other nodes see, in units of a copy of weight 1; also of the pairs of classes.

    **Formal guarantee.** The top of this file has the proof for rows, :func:`pair_weights` for pairs.

    >>> promised_sensitivity(NodeLevel(arcs="incident")), promised_sensitivity(NodeLevel(arcs="incident", relation="replace"))
    (1.0, 2.0)
    """
    if not protects_every_arc(unit):
        raise UnsupportedUnitError(
            f"Promised degrees have no proof when the unit is {unit.describe()}. Use NodeLevel(arcs='incident'), or "
            "label-messages for edges and owned arcs."
        )
    return 2.0 if unit.relation == "replace" else 1.0


def load_weight(load: Floats, height: float = 1.0) -> Floats:
    r"""Return the weight w of a sender's copies for its load, before the divisor :math:`\sqrt{B_v}` of the receiver.

    ``height`` is A: copies of a sender have a joint norm of at most A.

    >>> load_weight(np.array([0.0, 0.5, 4.0])).round(3).tolist()
    [2.828, 1.414, 0.5]
    """
    root, half = np.sqrt(load), np.sqrt(height / 2)
    return np.where(root <= half, 2 * (2 * half - root), height / np.maximum(root, max(half, 1e-300)))


def declared_divisors(bounds: Steps, indptr: Steps, indices: NDArray[np.int32]) -> Divisors:
    """Return public bounds as divisors, which are refused if the graph has more arcs.

    >>> declared_divisors(np.array([1, 1]), np.array([0, 1, 2]), np.array([1, 0], np.int32)).of_nodes.tolist()
    [1, 1]
    """
    check_bounds(bounds, indptr, indices)
    return Divisors(bounds, slack=rounding_slack(bounds))


def rounding_slack(bounds: Steps) -> float:
    r"""Return the share of the weights that pays for rounding: :math:`B^{3/2} / \mathrm{GRID} + 2^{-20}`, B the largest bound.

    >>> round(rounding_slack(np.array([80, 1500])), 6)
    0.000867
    """
    slack = float(np.max(bounds, initial=1)) ** 1.5 / GRID + 2.0**-20
    if slack > _MOST_SLACK:
        raise InputError(
            f"Expected a bound on degrees of at most about {int((_MOST_SLACK * GRID) ** (2 / 3))}, got {np.max(bounds)}. "
            "Promise less, or take method linear."
        )
    return float(slack)


def check_bounds(bounds: Steps, indptr: Steps, indices: NDArray[np.int32]) -> None:
    """Refuse a graph in which a node has more arcs out, or more arcs in, than its public bound.

    >>> check_bounds(np.array([1, 1]), np.array([0, 1, 2]), np.array([1, 0], np.int32))
    """
    most = np.maximum(np.diff(indptr), np.bincount(indices, minlength=len(bounds)))
    if len(bounds) != len(indptr) - 1 or (bounds < 1).any() or (most > bounds).any():
        expected = "to be at least 1, and for each node at least the number of its arcs out and of its arcs in"
        raise fail("bounds", "a smaller one", expected, "Promise bounds that hold for the graph.")


def copies_to(
    indptr: Steps,
    indices: NDArray[np.int32],
    classes: NDArray[np.int64],
    receives: NDArray[np.bool_],
    divisors: Divisors,
) -> Copies:
    """Return what every sender sends. Senders are the nodes that do not receive.

    **Formal guarantee.** Summed by receiver, the copies have the sensitivity of :func:`promised_sensitivity`.

    >>> star = np.array([0, 2, 2, 2]), np.array([1, 2], np.int32)
    >>> copies = copies_to(*star, np.array([0, -1, -1]), np.array([False, True, True]), Divisors(np.full(3, 2)))
    >>> (copies.weights / GRID).round(3).tolist()
    [0.707, 0.707]
    """
    owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    used = receives[indices] & ~receives[owners]
    owners, targets = owners[used], indices[used]
    shares = _LOAD // divisors.of_nodes  # integers: loads are exact
    loads = np.zeros(len(shares), np.int64)
    np.add.at(loads, owners, shares[targets])
    weight = load_weight(loads / _LOAD, divisors.height) * (1 - divisors.slack)
    steps = np.floor(GRID * weight[owners] * np.sqrt(shares[targets] / _LOAD)).astype(np.int64)
    sends = classes[owners] >= 0
    return Copies(targets[sends], classes[owners][sends], steps[sends])


def row_sums(copies: Copies, num_nodes: int, num_classes: int) -> Steps:
    r"""Sum copies by receiver, as rows of mean 0: class c has the code :math:`C e_c - 1`. Not private.

    The code has norm :math:`\sqrt{C (C - 1)}`.

    >>> row_sums(Copies(np.array([1, 1]), np.array([0, 0]), np.array([5, 7])), 2, 2).tolist()
    [[0, 0], [12, -12]]
    """
    counts = _totals(
        copies.receivers.astype(np.int64) * num_classes + copies.classes, copies.weights, num_nodes * num_classes
    )
    counts = counts.reshape(num_nodes, num_classes)
    centered: Steps = num_classes * counts - counts.sum(axis=1, keepdims=True)
    return centered


def pair_weights(
    indptr: Steps, indices: NDArray[np.int32], sends: NDArray[np.bool_], divisors: Divisors, *, directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], Steps]:
    r"""Return the arcs between two senders, and what each adds to a count of pairs of classes.

    Arc (u, w) adds :math:`1 / \max(B_u, B_w)` to the entry :math:`(y_u, y_w)`. An undirected edge is read once, from its smaller
    end; an arc of a directed graph adds half of that.

    **Formal guarantee.** The emptied record v takes away at most :math:`B_v` entries of at most :math:`1 / B_v` (directed: at
    most :math:`2 B_v`, of half of that): L1 and L2 sensitivity 1. No other entry reads its record. Replaced: 2.

    >>> both = np.array([0, 1, 2]), np.array([1, 0], np.int32)
    >>> [part.tolist() for part in pair_weights(*both, np.ones(2, bool), Divisors(np.array([1, 4])), directed=False)]
    [[0], [1], [16777216]]
    """
    owners = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    used = sends[owners] & sends[indices] & ((owners != indices) if directed else (owners < indices))
    first, second = owners[used], indices[used].astype(np.int64)
    larger = np.maximum(divisors.of_nodes[first], divisors.of_nodes[second])
    return first, second, np.floor(GRID * divisors.pairs / (larger * (1 + directed))).astype(np.int64)


def pair_sums(
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], Steps], classes: NDArray[np.int64], size: int
) -> Steps:
    """Sum pairs by the classes of their ends, int64 [size, size]; ends without a class are left out. Not private.

    >>> pair_sums((np.array([0]), np.array([1]), np.array([7])), np.array([1, 0]), 2).tolist()
    [[0, 0], [7, 0]]
    """
    one, other = classes[pairs[0]], classes[pairs[1]]
    known = (one >= 0) & (other >= 0)
    return _totals(one[known] * size + other[known], pairs[2][known], size * size).reshape(size, size)


def noisy(sums: Steps, stddev: float, key: Key) -> Steps:
    r"""Release whole sums with rounded Gaussian noise.

    **Formal guarantee.** For sums of L2 sensitivity :math:`\Delta` steps, a Gaussian event of noise multiplier
    ``stddev`` / :math:`\Delta`, plus ``SAMPLER_TAU`` for each coordinate.

    >>> noisy(np.array([[1, 2]]), 0.0, bytes(32)).tolist()
    [[1, 2]]
    """
    check_real(low=0, high=MOST_STDDEV, open_high=True, stddev=stddev)
    if not stddev:
        return sums
    noise = rounded_gaussian(derive_key(key, operand_mac(key, sums)), stddev, 0, sums.size)
    return witnessed(sums + noise.reshape(sums.shape), stddev, lambda: sums)


def _totals(places: NDArray[np.int64], weights: Steps, size: int) -> Steps:
    """Exact sums by place."""
    found = np.zeros(size, np.int64)
    np.add.at(found, places, weights)
    return found
