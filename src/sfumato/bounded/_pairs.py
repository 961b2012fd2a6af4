r"""Edges that are divided by a public draw for each pair of nodes, and noisy sums over the edges of one part.

Whether a pair of nodes belongs to a part is a pseudo-random function of the two nodes and of a public seed
(:func:`public_draws`). It reads no edge, so an edge that comes or goes moves no other edge from one part to another.

Each edge of the summed part has a row of k numbers from 0 to 1. Rows are held in whole steps of :math:`\lfloor 2 \cdot 32767 / k
\rfloor`, rounded toward zero, so that one row has at most :math:`2 \cdot 32767` steps in L1 norm: as many as the two messages
of one edge in a hop of counts (:func:`~sfumato.bounded._counting.unrouted_sensitivity`). Sums are exact int64.

Source: McSherry (2009), theorem 4 (parallel composition).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import let_go, room, spans
from sfumato._validate import fail
from sfumato.bounded._routing import needs_one_way
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._arcs import row_blocks
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.keys import Key, Stream, derive_key, operand_mac
from sfumato.privacy.units import Unit, edges_in

if TYPE_CHECKING:
    from sfumato.bounded.aggregation import Arcs

_MESSAGES = 2
_BLOCK = 1 << 19


def pair_sensitivity(unit: Unit) -> float:
    r"""Return the L1 sensitivity, in full messages, of counts over one part of the edges and of sums over the other part.

    **Formal guarantee** (sum of absolute changes of all entries). An undirected edge belongs to one part, by
    :func:`public_draws`. In the part that is counted it adds one message of L1 norm at most 1 to each of two rows; in the part
    that is summed it adds one row of at most :math:`2 \cdot 32767` steps. In both cases at most 2 messages' worth changes, and
    nothing of the other part. Rows of the sums may be computed from the released counts: if neighboring graphs differ in a
    counted edge, the sums are post-processing of the counts; if they differ in a summed edge, the counts have the same law and
    fix what each edge would add. So Laplace noise of scale b messages on all entries costs :math:`\epsilon = 2 / b` in all.
    Of a person's k edges some are counted and the others summed: together at most 2 k messages' worth changes.

    >>> from sfumato.privacy.units import EdgeLevel
    >>> pair_sensitivity(EdgeLevel(directed=False))
    2.0
    """
    edges = edges_in(unit)
    if edges is None or not needs_one_way(unit):
        raise UnsupportedUnitError(
            f"Scores of links have no proof when the unit is {unit.describe()}: one record may be many links, or a link has a "
            "direction, which no score here tells. Use EdgeLevel(directed=False)."
        )
    return float(_MESSAGES * edges)


def public_draws(pairs: NDArray[np.integer], num_nodes: int, purpose: str, seed: int = 0) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each pair of nodes, by AES under a public key; the order of the two does not count.

    Draws of another ``purpose`` or public ``seed`` are independent. ``pairs`` are two node numbers each, [2, m].

    >>> draws = public_draws(np.array([[0, 2, 1], [2, 0, 2]]), 3, "test")
    >>> bool(draws[0] == draws[1]), bool(draws[0] == draws[2])
    (True, False)
    """
    stream, found = Stream(derive_key(bytes(32), "pairs", purpose, seed)), np.empty(pairs.shape[1])
    for first, last in spans(len(found), _BLOCK):
        part = pairs[:, first:last]
        index = part.min(axis=0).astype(np.uint64) * np.uint64(num_nodes) + part.max(axis=0).astype(np.uint64)
        found[first:last] = (stream.at(index, 0)[:, 0] >> np.uint64(11)) * 2.0**-53
    return found


def drawn(arcs: Arcs, purpose: str, share: float, seed: int = 0, *, loops: bool = False) -> NDArray[np.bool_]:
    """Mark the arcs of pairs of nodes whose :func:`public_draws` are below a ``share``, bool [num_arcs].

    ``loops`` says whether arcs from a node to itself are marked. One byte an arc, and a block at a time.

    >>> from sfumato.bounded.aggregation import Arcs
    >>> both = Arcs(np.array([0, 1, 3]), np.array([1, 0, 1], np.int32))
    >>> drawn(both, "test", 1.0).tolist(), drawn(both, "test", 0.0, loops=True).tolist()
    ([True, True, False], [False, False, True])
    """
    marks = room(len(arcs.sources), np.bool_)
    for first, last in row_blocks(arcs.offsets, _BLOCK):
        low, high = arcs.offsets[first], arcs.offsets[last]
        pairs = _pairs(arcs, first, last)
        marks[low:high] = public_draws(pairs, arcs.num_nodes, purpose, seed) < share
        marks[low:high][pairs[0] == pairs[1]] = loops
        let_go(marks)
        let_go(arcs.sources)
    return marks


def edges_among(arcs: Arcs, marks: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Give the marked edges once each, the smaller node first, as blocks of pairs [2, m].

    >>> from sfumato.bounded.aggregation import Arcs
    >>> both = Arcs(np.array([0, 1, 3]), np.array([1, 0, 1], np.int32))
    >>> [pairs.tolist() for pairs in edges_among(both, np.array([True, True, True]))]
    [[[0], [1]]]
    """
    for first, last in row_blocks(arcs.offsets, _BLOCK):
        pairs = _pairs(arcs, first, last)
        yield pairs[:, marks[arcs.offsets[first] : arcs.offsets[last]] & (pairs[0] < pairs[1])]
        let_go(marks)
        let_go(arcs.sources)


def _pairs(arcs: Arcs, first: int, last: int) -> NDArray[np.int64]:
    """Both ends of the arcs of some nodes."""
    ends = arcs.offsets[first : last + 1]
    return np.stack((np.repeat(np.arange(first, last), np.diff(ends)), arcs.sources[ends[0] : ends[-1]]))


def row_steps(num_columns: int) -> int:
    """Return the whole steps that stand for the number 1 in a row of so many numbers.

    >>> row_steps(5)
    13106
    """
    return _MESSAGES * INT16_ONE // num_columns


def noisy_pair_sums(rows: NDArray[np.float64], noise_scale: float | Fraction, key: Key) -> NDArray[np.int64]:
    """Release the sums of the rows of edges, one column each, in steps of :func:`row_steps`.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PureEvent` of epsilon 2 / ``noise_scale``, together with the
    counts of :func:`pair_sensitivity`. The noise is a function of ``key``, of a MAC of the exact steps, and of the column.

    ``rows`` [m, k] hold numbers from 0 to 1. A ``noise_scale`` of 0 adds no noise and protects nothing.

    >>> noisy_pair_sums(np.ones((3, 2)), 0.0, bytes(32)).tolist()
    [98301, 98301]
    """
    steps, sums = room(rows.shape, np.int64), np.zeros(rows.shape[1], np.int64)
    for first, last in spans(len(rows), _BLOCK):
        part = rows[first:last]
        if not ((part >= 0) & (part <= 1)).all():
            raise fail("rows", "a number outside", "to hold numbers from 0 to 1")
        steps[first:last] = (part * row_steps(rows.shape[1])).astype(np.int64)
        sums += steps[first:last].sum(axis=0)
        let_go(steps)
        let_go(rows)
    if noise_scale:
        own = derive_key(key, operand_mac(key, steps))
        sums = sums + keyed_discrete_laplace(own, Fraction(noise_scale) * INT16_ONE, 0, len(sums))
    return sums
