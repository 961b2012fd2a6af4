r"""Noisy neighborhood sums on a fixed-point grid, with the sensitivity of one hop under each privacy unit.

One hop sends from every node u a message :math:`m_u` with :math:`\|m_u\|_2 \le 1` along each of its arcs:
:math:`S_v = \sum_{u \to v} m_u`; with weights of arcs in [0, 1], the share :math:`w_{uv} m_u` of each. Messages are held as
int16 steps of 1 / 32767, rounded toward zero, with :math:`\sum_c q_{u,c}^2 \le 32767^2` checked in integers, and shares of them
are rounded toward zero; sums are exact int64. The released matrix is
:math:`S + \mathrm{round}(\sigma Z)`, so it does not depend on blocking, order or the number of threads.

Source: Sajadmanesh et al. (2023), GAP, algorithm 5, lemmas 6 to 8. The published lemma counts one arc; an undirected
edge is two (:func:`hop_sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import ROWS_AT_ONCE, let_go, room, spans
from sfumato._validate import check_real, fail
from sfumato.bounded._engine import LOCAL, cut, engine
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._weights import check_steps
from sfumato.loops._native import aligned
from sfumato.loops.kernels import INT16_ONE, loops
from sfumato.noise._witness import witnessed
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac

if TYPE_CHECKING:
    from sfumato.graph._packed import PackedRows
    from sfumato.loops._native import Noise
    from sfumato.privacy.units import NodeLevel, Unit

_BLOCK = 1 << 16


@dataclass(frozen=True)
class Arcs:
    """Arcs grouped by destination: ``sources[offsets[v]:offsets[v + 1]]`` send to node v.

    ``weights`` say how much of a message an arc carries, in steps of 1 / 2^15; None carries all of it.

    Shapes: ``offsets`` int64 [num_nodes + 1], ``sources`` int32 [num_arcs], ascending within a group, ``weights`` uint16
    [num_arcs].

    Raises:
        DataError: weights are of another type or length, or one is above 1, for which no sensitivity is proved.

    >>> Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32)).num_nodes
    2
    """

    offsets: NDArray[np.int64]
    sources: NDArray[np.int32]
    weights: NDArray[np.uint16] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            check_steps(self.weights, len(self.sources))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All that these arcs are, for a MAC."""
        return (self.offsets, self.sources) if self.weights is None else (self.offsets, self.sources, self.weights)

    @property
    def num_nodes(self) -> int:
        """The number of nodes that can receive messages."""
        return len(self.offsets) - 1


def hop_sensitivity(unit: Unit, *, released_messages: bool) -> float:
    r"""Return the L2 sensitivity of one hop in units of a full row (multiply by 32767 for steps).

    **Formal guarantee** (Frobenius norm of the change of S; each message has norm at most 1):

    * one arc: one row changes by one message: 1;
    * one undirected edge (u, v): row v loses :math:`m_u`, row u loses :math:`m_v`: :math:`\sqrt{1 + 1} = \sqrt 2`;
    * one person, of at most k edges: if each is one arc, k messages change, which may all be for one row: k. If they are
      undirected, row v loses one message for each of its :math:`d_v` edges among them, so the change is at most
      :math:`\sqrt{\sum_v d_v^2}`. This sum counts :math:`d_u + d_v` for each edge (u, v), which is at most k + 1, since every
      edge touches u or v at most once, but for (u, v) itself. So :math:`\sqrt{k (k + 1)}`, which a star reaches; k times
      :math:`\sqrt 2` would be sound too, but larger;
    * node, owned arcs, record emptied: at most D rows, one for each distinct target, lose the one message of that
      node: :math:`\sqrt D`. Arcs that others own are untouched, and their messages do not read this record;
    * the same, record replaced: with released messages the node's message stays and its targets change, at most 2D rows
      by norm 1: :math:`\sqrt{2D}`. Otherwise a target kept in both lists may move from m to -m: D rows by 2:
      :math:`2 \sqrt D` (lists that share t targets give :math:`4t + 2(D - t) \le 4D`).

    **With weights** these bounds stay. An arc of weight w in [0, 1] carries :math:`f_w(q)`, every coordinate of
    :math:`w q` rounded toward zero, so :math:`f_w(q)_c` lies between 0 and :math:`q_c`. Two facts follow, coordinate by
    coordinate, for any weights w and w' of one record, or of its neighbor:

    * :math:`\|f_w(q)\| \le \|q\| \le 1`: an arc that is there in one graph alone changes its row by norm at most 1;
    * :math:`|f_w(q)_c - f_{w'}(q)_c| \le |q_c|`: an arc that is there in both, with another weight, changes its row by norm
      at most 1 if its message stays, and by :math:`\|f_w(q)\| + \|f_{w'}(q')\| \le 2` if that changes too.

    So one arc gives 1 and one undirected edge :math:`\sqrt 2`, whether it comes, goes or changes its weight, and the edges of a
    person what they give without weights; an emptied node
    :math:`\sqrt D`; a replaced one with t shared targets :math:`t + 2(D - t) \le 2D` with released messages, where without
    weights the t rows would stay, and :math:`4t + 2(D - t) \le 4D` otherwise. Which arcs a cap keeps does not depend on weights
    (:mod:`~sfumato.bounded._degree`). Weights above 1 or below 0 would break both facts, and so would an edge of several rows
    whose weights are clipped one by one and then added.

    Args:
        unit: the privacy unit, an edge, a person with many edges, or a node with owned arcs.
        released_messages: True if the messages are post-processing of earlier releases, and so equal in both neighboring
            graphs. If False, the message of a node may change with the record of that node.

    Raises:
        UnsupportedUnitError: the unit has no bounded hop (all incident arcs), or is not a graph unit.

    >>> from sfumato.privacy.units import EdgeLevel, NodeLevel
    >>> round(hop_sensitivity(EdgeLevel(directed=False), released_messages=True), 6)
    1.414214
    >>> hop_sensitivity(NodeLevel(max_out_degree=100), released_messages=False)
    10.0
    >>> from sfumato.privacy.units import PersonLevel
    >>> round(hop_sensitivity(PersonLevel(5, directed=False), released_messages=True), 6)
    5.477226
    """
    return _hop(unit, released_messages)[0]


def hop_arc_change(unit: Unit, *, released_messages: bool) -> float | None:
    r"""Return how far one arc of another owner moves a hop, over :func:`hop_sensitivity`; None without owned arcs.

    **Formal guarantee** (Frobenius norm of the change of S when the arc u -> v of another owner u vanishes, or appears;
    nobody's record changes, so every message stays). Row v loses a message of norm at most 1. If u has more than D arcs,
    another one may come in and a second row gets that message: :math:`\sqrt{1 + 1} = \sqrt 2`. How many arcs u has is not
    public, so this is the bound for every u. The k arcs of k owners move S by at most k times as much. With weights both rows
    move by norm at most 1 as well, and an arc that changes its weight alone moves one row by at most 1.

    Args:
        unit: the privacy unit.
        released_messages: as for :func:`hop_sensitivity`.

    >>> from sfumato.privacy.units import NodeLevel
    >>> round(hop_arc_change(NodeLevel(max_out_degree=100), released_messages=True), 6)
    0.141421
    """
    if unit.no_arc_change is None:
        return None
    return math.sqrt(2) / hop_sensitivity(unit, released_messages=released_messages)


def affected_coordinates(unit: Unit, num_nodes: int, width: int) -> int:
    """Return how many coordinates of a released ``[num_nodes, width]`` matrix can differ between neighboring graphs.

    The sampler's share of delta grows with this number. Under a node ``unit``, ``max_out_degree`` bounds the rows that change.

    Raises:
        UnsupportedUnitError: the unit has no bounded hop (all incident arcs), or is not a graph unit.

    >>> from sfumato.privacy.units import EdgeLevel
    >>> affected_coordinates(EdgeLevel(directed=False), 1000, 16)
    32
    """
    return min(_hop(unit, True)[1], num_nodes) * width


def _hop(unit: Unit, released_messages: bool) -> tuple[float, int]:
    if unit.name not in HOPS:
        raise _unbounded(unit)
    return HOPS[unit.name](unit, released_messages)


def _of_edges(unit: Any, _: bool) -> tuple[float, int]:
    return math.sqrt(unit.arcs_per_record), unit.arcs_per_record


def _of_persons(unit: Any, _: bool) -> tuple[float, int]:
    edges = unit.edges
    return (float(edges) if unit.directed else math.sqrt(edges * (edges + 1))), unit.arcs_per_record


def _of_nodes(unit: Any, released_messages: bool) -> tuple[float, int]:
    cap = _owned_cap(unit)
    if unit.relation == "remove":
        return math.sqrt(cap), cap
    return (math.sqrt(2 * cap) if released_messages else 2 * math.sqrt(cap)), 2 * cap


def _owned_cap(unit: NodeLevel) -> int:
    if unit.arcs != "owned":
        raise _unbounded(unit)
    if unit.max_out_degree is None:
        raise fail("max_out_degree", None, "to be a public number under NodeLevel", "Pass `max_degree`, such as 100.")
    return unit.max_out_degree


def _unbounded(unit: Unit) -> UnsupportedUnitError:
    return UnsupportedUnitError(
        f"One hop has no bounded sensitivity when the unit is {unit.describe()}: one record could change every row. "
        "Use EdgeLevel, or NodeLevel(arcs='owned', max_out_degree=D)."
    )


HOPS: dict[str, Callable[[Any, bool], tuple[float, int]]] = {
    "edge": _of_edges,
    "person": _of_persons,
    "node": _of_nodes,
}
"""Of each unit with a bounded hop: its sensitivity (of released messages, or others) and the rows that can change."""


def to_steps(rows: NDArray[np.float32]) -> NDArray[np.int16]:
    """Put rows of norm at most 1 on the grid of whole steps of 1 / 32767, rounding toward zero.

    No row leaves with a squared norm above 32767^2.

    Shapes: float [num_nodes, width] to int16 [num_nodes, width].

    Raises:
        InputError: the rows are not a matrix, or hold a number that is not finite.

    >>> to_steps(np.array([[0.6, -0.8]], np.float32)).tolist()
    [[19660, -26213]]
    """
    return _on_grid(rows)[0]


def _on_grid(rows: NDArray[np.float32]) -> tuple[NDArray[np.int16], float]:
    """Return the steps of rows, and the norm of the longest row."""
    rows = np.ascontiguousarray(rows, np.float32)
    longest = math.inf
    if rows.ndim == 2:
        steps, square = aligned(*rows.shape), 0.0
        for first, last in spans(len(rows), ROWS_AT_ONCE):
            squares = np.empty(last - first)
            loops().quantize(rows[first:last], steps[first:last], squares)
            square = np.maximum(square, squares.max())  # not a number if one is not
            let_go(rows)
        longest = math.sqrt(square)
    if not math.isfinite(longest):
        raise fail("rows", f"an array of shape {rows.shape}", "to be a finite matrix, one row a node")
    return steps, longest


def neighborhood_sum(arcs: Arcs, steps: NDArray[np.int16]) -> NDArray[np.int64]:
    """Sum the messages that reach each node, exactly, int64 [num_nodes, width]. Not private: the caller must add noise.

    ``steps`` are messages in steps of 1 / 32767, int16 [num_nodes, width].

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> neighborhood_sum(both, np.array([[5, 0], [0, 7]], np.int16)).tolist()
    [[0, 7], [5, 0]]
    """
    out = np.empty((arcs.num_nodes, steps.shape[1]), np.int64)
    loops().sum_rows(arcs.offsets, arcs.sources, loops().pack(steps), 0, out, arcs.weights)
    return out


def noisy_neighborhood_sum(
    arcs: Arcs, rows: NDArray[np.float32], noise_stddev: float, key: Key, *, block: int = _BLOCK
) -> NDArray[np.int64]:
    r"""Release one hop: :math:`S + \mathrm{round}(\sigma Z)` in steps of 1 / 32767.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.GaussianEvent` with noise multiplier
    ``noise_stddev`` / :func:`hop_sensitivity`, plus ``SAMPLER_TAU`` for each affected coordinate. The noise is a function
    of ``key``, of a MAC of the exact steps, arcs and weights, and of (row, column). So the same operand gives the same bits;
    another operand, such as other weights, gives independent noise and must be charged as another release.

    Args:
        arcs: arcs by destination, at most ``max_out_degree`` for each owner under a node unit.
        rows: messages of norm at most 1 (longer rows are an error), [num_nodes, width].
        noise_stddev: standard deviation in units of a full row, >= 0; 0 adds none and protects nothing.
        key: the key of this release.
        block: number of rows handled at a time; it never changes the result.

    Shapes: int64 [num_nodes, width], in steps.

    Raises:
        InputError: ``noise_stddev`` is negative, or ``rows`` has another shape or a row longer than 1.

    >>> both, rows = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32)), np.eye(2, dtype=np.float32)
    >>> released = noisy_neighborhood_sum(both, rows, 2.0, bytes(32))
    >>> released.shape, bool((released == noisy_neighborhood_sum(both, rows, 2.0, bytes(32), block=1)).all())
    ((2, 2), True)
    """
    check_real(low=0, noise_stddev=noise_stddev)
    if rows.ndim != 2 or len(rows) != arcs.num_nodes:
        raise fail("rows", f"an array of shape {rows.shape}", f"to be a matrix of {arcs.num_nodes} rows, one a node")
    steps, longest = _on_grid(rows)
    if longest > 1 + 1e-5:
        raise fail("rows", "a longer row", "to have norm at most 1", "Normalize rows before sending them.")
    if not noise_stddev:
        return sum_in_blocks(arcs, steps, block=block)
    release_key = derive_key(key, operand_mac(key, steps, *arcs.arrays))
    onto = partial(sum_in_blocks, arcs, steps, block=block)
    stddev = noise_stddev * INT16_ONE
    return witnessed(rounded_gaussian(release_key, stddev, 0, steps.size, onto), stddev, onto)


def sum_in_blocks(
    arcs: Arcs,
    steps: NDArray[np.int16],
    noise: Noise | None = None,
    *,
    block: int = _BLOCK,
) -> NDArray[np.int64]:
    """Sum the messages that reach every node, a block of rows at a time, and add noise. Not private without it.

    Args:
        arcs: arcs by destination.
        steps: messages in steps of 1 / 32767, int16 [num_nodes, width].
        noise: adds the noise of the entries from a position on, counted row by row; None adds none.
        block: number of rows handled at a time; it never changes the result.

    Shapes: int64 [num_nodes, width].

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> sum_in_blocks(both, np.array([[5, 0], [0, 7]], np.int16)).tolist()
    [[0, 7], [5, 0]]
    """
    width, blocks, packed = steps.shape[1], cut(arcs.num_nodes, block), loops().pack(steps)
    released = room((arcs.num_nodes, width), np.int64)
    if engine() is LOCAL:
        for first, last in blocks:
            loops().sum_rows(arcs.offsets, arcs.sources, packed, first, released[first:last], arcs.weights, noise)
            for array in (released, *arcs.arrays):
                let_go(array)
        return released
    parts = (_incoming(arcs, *rows) for rows in blocks)
    for number, sums in engine().run(_block_sums, (packed, width, loops().NAME), parts):
        first, last = blocks[number]
        released[first:last] = sums
        if noise is not None:
            noise.add(released[first:last], first * width)
        let_go(released)
    return released


def _incoming(arcs: Arcs, first: int, last: int) -> tuple[NDArray[Any], ...]:
    """The arrays of the arcs that reach some rows, counted from the first of them."""
    offsets = arcs.offsets[first : last + 1]
    return offsets - offsets[0], *(array[offsets[0] : offsets[-1]] for array in arcs.arrays[1:])


def _block_sums(
    packed: NDArray[Any],
    width: int,
    packed_for: str,
    offsets: NDArray[np.int64],
    sources: NDArray[np.int32],
    weights: NDArray[np.uint16] | None = None,
) -> NDArray[np.int64]:
    if packed_for != loops().NAME:
        raise fail(
            "the loops of a worker",
            loops().NAME,
            f"to be in {packed_for}, as here",
            "Install one build of sfumato everywhere.",
        )
    sums = np.empty((len(offsets) - 1, width), np.int64)
    loops().sum_rows(offsets, sources, packed, 0, sums, weights)
    return sums


def normalize_rows(rows: NDArray[np.floating] | NDArray[np.int64] | PackedRows) -> NDArray[np.float32]:
    """Scale each row to norm 1; zero rows stay zero. Rows that are no array, but give blocks of float32, are read block by block.

    >>> normalize_rows(np.array([[3, 4], [0, 0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    scaled = room(rows.shape, np.float32)
    in_order = not isinstance(rows, np.ndarray) or rows.flags.c_contiguous
    block = _BLOCK if in_order else len(rows) or 1  # the layout decides the order of NumPy's sums
    for first in range(0, len(rows), block):
        part = rows[first : first + block].astype(np.float64)
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        scaled[first : first + block] = np.divide(part, norms, out=np.zeros_like(part), where=norms > 0)
        let_go(rows)
        let_go(scaled)
    return scaled
