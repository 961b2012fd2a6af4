r"""Label messages by type of edges: counts of neighbors for each type side by side, and a head that weighs the types.

A record is one edge of one type, so counts of all protected types together are one release with the noise of a single hop
(:func:`~sfumato.bounded._incoming.incoming_of`). Edges of public types are no records: their counts are exact, part of no
release, and computed again whenever they are read.

A head reads a block of inputs for each type (:func:`~sfumato.central._counts.message_parts`), one for the counts of all types
added up, whose noise is larger by the root of their number, and the logarithms of the class probabilities without messages.
Several heads learn: on all blocks, on those of the types, on the sum, and on each type alone. The one with the smallest log-loss
on validation labels is kept, with zeros for blocks that it does not read. Labels are public here, so the choice costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks
from sfumato.bounded._counting import from_senders, to_count_steps
from sfumato.bounded._incoming import incoming, incoming_of
from sfumato.bounded._routing import needs_one_way, one_way, outward
from sfumato.bounded.aggregation import Arcs, sum_in_blocks
from sfumato.central._counts import (
    Kinds,
    count_deviation,
    count_inputs,
    message_parts,
    one_hot,
    protected_types,
)
from sfumato.central._rows import Labeled, head_scores, learn_head
from sfumato.errors import DataError
from sfumato.graph._targets import softmax
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.hops import side_by_side
from sfumato.nn._numpy_networks import log_loss

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session

Thoughts = Callable[[NDArray[np.int64]], NDArray[np.float32]]
"""What nodes without a known label are thought to be, from the counts of known ones, float32 [num_nodes, num_classes]."""


def routed_counts(plan: Planned, graph: Graph, known: NDArray[np.bool_], rank: NDArray[np.int64]) -> Arcs | Kinds:
    """Return the arcs along which counts are made, by the rules of a unit; of each protected type where edges have types."""
    if plan.public.edge_types is None:
        return routed_along(plan, incoming(graph), known, rank)
    check_types(plan.public, graph)
    kinds = {name: incoming_of(graph, name) for name in protected_types(plan.public)}
    return {name: routed_along(plan, arcs, known, rank) for name, arcs in kinds.items()}


def routed_along(plan: Planned, arcs: Arcs, known: NDArray[np.bool_], rank: NDArray[np.int64]) -> Arcs:
    """Return those of some arcs along which counts are made under the unit of a plan."""
    return one_way(arcs, rank) if needs_one_way(plan.unit) else outward(arcs, known)


def with_public(
    plan: Planned, graph: Graph, counts: NDArray[np.int64], thoughts: Thoughts | None = None
) -> NDArray[np.int64]:
    """Put the exact counts of public types beside released ones, S of all types and, if it is there, T of all types.

    Public edges are read in both directions. ``thoughts`` give the messages of T from S.
    """
    public = plan.public.public_types
    if not public:
        return counts
    check_types(plan.public, graph)
    width = len(protected_types(plan.public)) * plan.public.num_classes
    rows, known = one_hot(graph, plan.public.num_classes)
    arcs = [outward(incoming_of(graph, name), known) for name in public]
    first = side_by_side(counts[:, :width], *_exact(arcs, rows, known))
    if thoughts is None or counts.shape[1] == width:
        return first
    return side_by_side(first, counts[:, width:], *_exact(arcs, thoughts(first), ~known))


def _exact(kinds: list[Arcs], rows: NDArray[np.float32], sends: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Counts of public types, without noise."""
    steps = to_count_steps(rows)
    return [sum_in_blocks(from_senders(arcs, sends), steps) for arcs in kinds]


def read_counts(
    plan: Planned,
    counts: NDArray[np.int64],
    own: NDArray[np.float32],
    weight: float,
    shares: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """Return what the head reads of counts, by :func:`~sfumato.central._counts.count_inputs` and by type.

    With K types of edges the result is [num_nodes, (K + 1) (3 num_classes + 1) + num_classes].
    """
    types = plan.public.edge_types
    if types is None:
        return count_inputs(plan, counts, own, weight, shares)
    classes, kinds, noise = own.shape[1], len(types), count_deviation(plan)
    protected = len(protected_types(plan.public))
    messages = counts[:, : kinds * classes] / INT16_ONE
    if counts.shape[1] > kinds * classes:
        messages += weight * (counts[:, kinds * classes :] / INT16_ONE)
    each, grown = messages.reshape(len(own), kinds, classes), float(np.sqrt(1 + weight**2))
    parts: list[NDArray[Any]] = []
    for kind in range(kinds):
        own_noise = noise if kind < protected else 0.0
        parts += message_parts(each[:, kind], own_noise or 1.0, own_noise * grown, shares)
    total = noise * float(np.sqrt(protected))
    parts += message_parts(each.sum(axis=1), total or 1.0, total * grown, shares)
    return np.hstack([*parts, np.log(own)]).astype(np.float32)


def learn_weighing_types(plan: Planned, method: Any, session: Session, learners: Labeled, held_out: Labeled) -> Arrays:
    """Train a head on the rows of learners, or heads on some of the blocks of types, of which held out labels choose one."""
    classes, types = plan.public.num_classes, plan.public.edge_types
    if types is None:
        return learn_head(method, classes, session, learners, held_out)
    best: tuple[float, Arrays] | None = None
    for chosen in _candidates(len(types)):
        columns = _columns(chosen, len(types), classes)
        some, seen = ((rows[:, columns], y) for rows, y in (learners, held_out))
        found = learn_head(method, classes, session, some, seen)
        loss = log_loss(head_scores(found, seen[0]), seen[1]) if len(seen[1]) else 0.0
        if best is None or loss < best[0]:
            whole = np.zeros((classes, learners[0].shape[1]), np.float32)
            whole[:, columns] = found["head.weight"]
            best = loss, {**found, "head.weight": whole}
    assert best is not None
    return best[1]


def thoughts_by(
    plan: Planned, weights: Arrays, own: NDArray[np.float32], shares: NDArray[np.float32] | None
) -> Thoughts:
    """Return what a head thinks of all nodes from the counts of known ones."""

    def thoughts(counts: NDArray[np.int64]) -> NDArray[np.float32]:
        def block(first: int, last: int) -> NDArray[np.float32]:
            return softmax(head_scores(weights, read_counts(plan, counts[first:last], own[first:last], 0, shares)))

        return in_blocks(block, len(own), read=(counts, own))

    return thoughts


def _candidates(kinds: int) -> list[tuple[int, ...]]:
    """Blocks that a head may read; number ``kinds`` is the sum over types."""
    return [(*range(kinds + 1),), (*range(kinds),), (kinds,), *((kind,) for kind in range(kinds))]


def _columns(chosen: tuple[int, ...], kinds: int, classes: int) -> NDArray[np.int64]:
    """The inputs of some blocks, and those of the class probabilities."""
    width = 3 * classes + 1
    starts = [*(np.arange(width) + kind * width for kind in chosen), np.arange(classes) + (kinds + 1) * width]
    return np.concatenate(starts)


def check_types(public: PublicFacts, graph: Graph) -> None:
    """Refuse a graph with other types than those of a plan."""
    found = None if graph.types is None else graph.types.names
    if found != public.edge_types:
        raise DataError(
            f"Expected a graph with edges of the types {', '.join(public.edge_types or ())}, got "
            f"{', '.join(found or ()) or 'none'}. "
            "Read it with the same edge_type and edge_types as the graph that was fitted."
        )
