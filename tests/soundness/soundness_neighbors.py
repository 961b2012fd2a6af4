"""Neighboring graphs by brute force, and the checkers of sensitivity that real code and planted faults both pass through.

Thousands of tiny graphs are handled at once as one disjoint union: graph g holds the ids g N to g N + N - 1. Operations
are looked up in their modules at each call, so that a fault planted there is what gets measured.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from sfumato.bounded import _degree as degree
from sfumato.bounded import _routing as routing
from sfumato.bounded import aggregation
from sfumato.bounded.aggregation import Arcs, affected_coordinates, hop_sensitivity, normalize_rows
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise.keys import derive_key
from sfumato.privacy.units import EdgeLevel, NodeLevel

NODES, WIDTH = 5, 4
KEY = bytes(32)
ARC, EDGE = EdgeLevel(directed=True), EdgeLevel(directed=False)


@dataclass(frozen=True)
class Graphs:
    """Graphs side by side: ``adjacency[g, u, t]`` says that u owns an arc to t; ``rows[g, u]`` is u's message."""

    adjacency: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Neighbors: ``left`` and ``right`` differ in the record ``record[g]`` of graph g, a node or u N + t."""

    left: Graphs
    right: Graphs
    record: np.ndarray

    @property
    def distinct(self) -> int:
        """How many different pairs of different data there are."""
        sides = (
            part.reshape(len(part), -1).view(np.uint8)
            for g in (self.left, self.right)
            for part in (g.adjacency, g.rows)
        )
        left, left_rows, right, right_rows = sides
        whole = np.ascontiguousarray(np.hstack([left, left_rows, right, right_rows]))
        differs = (left != right).any(1) | (left_rows != right_rows).any(1)
        return len({whole[i].tobytes() for i in np.flatnonzero(differs)})


@dataclass(frozen=True)
class Measured:
    """What brute force found: pairs, largest L2 change, most changed coordinates, records that changed nothing."""

    pairs: int
    worst: float
    touched: int
    silent: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operation under one unit: its claim, and the coordinates it says can change."""

    operation: str
    unit: str
    claim: float
    coordinates: int
    measure: Callable[[], Measured]

    def __str__(self) -> str:
        return f"{self.operation} | {self.unit}"


def assert_sound(measured: Measured, claim: float, coordinates: int) -> None:
    """Never above the claim, reached within 1 %, no coordinate uncounted, and no record overlooked."""
    assert measured.worst <= claim * (1 + 1e-12), f"the claim is too small: {measured.worst:.9g} > {claim:.9g}"
    assert measured.touched <= coordinates, f"coordinates are miscounted: {measured.touched} > {coordinates}"
    assert not measured.silent, f"records are dropped: {measured.silent[:5]}"
    assert measured.worst >= 0.99 * claim, f"the claim is not reached: {measured.worst:.6g} < {claim:.6g}"
    assert measured.touched == coordinates, f"coordinates are overcounted: {measured.touched} < {coordinates}"


def messages(rng: np.random.Generator) -> np.ndarray:
    """Aligned, opposed, random, awkward to round, slightly too long, and short or empty rows."""
    sign = np.where(np.arange(NODES) % 2, -1, 1)[:, None]
    aligned = np.tile(np.eye(WIDTH)[0], (NODES, 1))
    sphere = normalize_rows(rng.normal(size=(NODES, WIDTH)))
    long = np.tile([19660.05, 26214.05, 0, 0], (NODES, 1)) / INT16_ONE
    short = sphere * rng.random((NODES, 1)) * (np.arange(NODES) != 2)[:, None]
    return np.stack([aligned, aligned * sign, sphere, np.full_like(aligned, 0.5), long, short]).astype(np.float32)


def base_graphs(num_random: int, *, directed: bool, seed: int = 0) -> Graphs:
    """Empty, complete, stars out and in, a ring, loops, and random graphs, each with every kind of messages."""
    rng = np.random.default_rng(seed)
    eye, full = np.eye(NODES, dtype=bool), np.ones((NODES, NODES), bool)
    sends, receives = np.zeros_like(full), np.zeros_like(full)
    sends[0], receives[:, 0] = True, True
    special = [~full, full, full & ~eye, sends, receives, sends | receives, np.roll(eye, 1, axis=1), eye]
    random = rng.random((num_random, NODES, NODES)) < rng.uniform(0.05, 0.95, (num_random, 1, 1))
    adjacency = np.concatenate([np.stack(special), random])
    if not directed:
        adjacency = np.triu(adjacency) | np.triu(adjacency).transpose(0, 2, 1)
    rows = np.stack([messages(rng) for _ in adjacency])
    return Graphs(np.repeat(adjacency, rows.shape[1], axis=0), rows.reshape(-1, NODES, WIDTH))


def edge_pairs(num_random: int, *, directed: bool, symmetric: bool = False) -> Pairs:
    """Every arc, or every undirected edge, of every graph toggled; ``symmetric`` starts from undirected graphs."""
    base = base_graphs(num_random, directed=directed and not symmetric)
    u, t = np.indices((NODES, NODES)).reshape(2, -1) if directed else np.triu_indices(NODES)
    left = Graphs(np.repeat(base.adjacency, len(u), axis=0), np.repeat(base.rows, len(u), axis=0))
    u, t = np.tile(u, len(base.rows)), np.tile(t, len(base.rows))
    adjacency, each = left.adjacency.copy(), np.arange(len(u))
    adjacency[each, u, t] ^= True
    if not directed:
        adjacency[each, t, u] = adjacency[each, u, t]
    return Pairs(left, Graphs(adjacency, left.rows), u * NODES + t)


def without_loops(pairs: Pairs) -> Pairs:
    """A node's arc to itself has no direction: a routed hop never keeps it."""
    keep = pairs.record // NODES != pairs.record % NODES
    sides = (Graphs(side.adjacency[keep], side.rows[keep]) for side in (pairs.left, pairs.right))
    return Pairs(*sides, pairs.record[keep])


def node_pairs(num_random: int, relation: str, *, released: bool) -> Pairs:
    """Every record of every graph emptied, or replaced by each of the 2^N target lists (and by other messages)."""
    base = base_graphs(num_random, directed=True)
    lists = (np.arange(2**NODES)[:, None] >> np.arange(NODES) & 1).astype(bool)
    lists = lists if relation == "replace" else lists[:1]
    kinds = 4 if relation == "replace" and not released else 1
    each = len(lists) * kinds
    shape = (len(base.rows), NODES, len(lists), kinds)
    graph, v, chosen, kind = (index.reshape(-1) for index in np.indices(shape))
    left = Graphs(base.adjacency[graph], base.rows[graph])
    adjacency, rows, at = left.adjacency.copy(), left.rows.copy(), np.arange(len(v))
    adjacency[at, v] = lists[chosen]
    if not released:
        fresh = normalize_rows(np.random.default_rng(each).normal(size=(len(v), WIDTH)))
        own = rows[at, v]
        options = [own, -own, fresh, np.zeros_like(own)] if relation == "replace" else [np.zeros_like(own)]
        rows[at, v] = np.stack(options)[kind, at]
    return Pairs(left, Graphs(adjacency, rows), v)


def owner_arcs(adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CSR by owner of the union."""
    graph, _, target = np.nonzero(adjacency)
    indptr = np.zeros(adjacency.shape[0] * NODES + 1, np.int64)
    np.cumsum(adjacency.sum(2).reshape(-1), out=indptr[1:])
    return indptr, (graph * NODES + target).astype(np.int32)


def one_at_a_time(cap: Callable) -> Callable:
    """Cap each graph alone with a key of its own: ids 0 to N - 1, as a user's graph would have."""

    def capped(indptr, indices, max_out_degree, key):
        offsets, kept = [np.zeros(1, np.int64)], []
        for g, first in enumerate(range(0, len(indptr) - 1, NODES)):
            local = indptr[first : first + NODES + 1]
            own = indices[local[0] : local[-1]] - np.int32(first)
            part, targets = cap(local - local[0], own, max_out_degree, derive_key(key, g))
            offsets.append(part[1:] + offsets[-1][-1])
            kept.append(targets + np.int32(first))
        return np.concatenate(offsets), np.concatenate(kept).astype(np.int32)

    return capped


def hop(graphs: Graphs, max_out_degree: int | None = None, *, alone: bool = False) -> np.ndarray:
    """One released hop before noise, [graphs, N, width] in steps, by the path that `gap` takes."""
    arcs = owner_arcs(graphs.adjacency)
    if max_out_degree is not None:
        cap = one_at_a_time(degree.cap_out_degree) if alone else degree.cap_out_degree
        arcs = cap(*arcs, max_out_degree, KEY)
    rows = graphs.rows.reshape(-1, WIDTH)
    sums = aggregation.noisy_neighborhood_sum(Arcs(*degree.by_destination(*arcs)), rows, 0.0, KEY, block=1013)
    return sums.reshape(graphs.rows.shape)


def shared_hop(graphs: Graphs, cap: int | None = None) -> np.ndarray:
    """The routed hop of label messages at node level before noise, where all nodes send and receive."""
    every = np.ones(len(graphs.rows) * NODES, bool)
    left = routing.receiving(Arcs(*owner_arcs(graphs.adjacency)), every, every)
    owned = left.offsets, left.sources
    owned = owned if cap is None else degree.cap_out_degree(*owned, cap, KEY)
    rows = routing.share(graphs.rows.reshape(-1, WIDTH), np.diff(owned[0]))
    arcs = Arcs(*degree.by_destination(*owned))
    return aggregation.neighborhood_sum(arcs, aggregation.to_steps(rows)).reshape(graphs.rows.shape)


def kept_arcs(graphs: Graphs, max_out_degree: int) -> np.ndarray:
    """The capped arcs as 0 and 1, [graphs, owner, target]; every graph is capped alone."""
    indptr, indices = one_at_a_time(degree.cap_out_degree)(*owner_arcs(graphs.adjacency), max_out_degree, KEY)
    dense = np.zeros(graphs.adjacency.shape, np.int64)
    np.add.at(dense.reshape(-1, NODES), (np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices % NODES), 1)
    return dense


def regrouped_arcs(graphs: Graphs, max_out_degree: int | None = None) -> np.ndarray:
    """Arcs regrouped by destination, counted in a matrix [graphs, target, owner]."""
    arcs = owner_arcs(graphs.adjacency)
    if max_out_degree is not None:
        arcs = degree.cap_out_degree(*arcs, max_out_degree, KEY)
    offsets, sources = degree.by_destination(*arcs)
    dense = np.zeros(graphs.adjacency.shape, np.int64)
    np.add.at(dense.reshape(-1, NODES), (np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), sources % NODES), 1)
    return dense


def measure(pairs: Pairs, operate: Callable[[Graphs], np.ndarray], step: int = 1) -> Measured:
    """Run an operation on both sides of every pair; squares are exact integers. ``step`` is the unit of the claim."""
    difference = (operate(pairs.left) - operate(pairs.right)).reshape(len(pairs.record), -1)
    squares, changed = np.square(difference).sum(1), (difference != 0).sum(1)
    silent = set(pairs.record.tolist()) - set(pairs.record[changed > 0].tolist())
    return Measured(pairs.distinct, float(np.sqrt(squares.max())) / step, int(changed.max()), tuple(sorted(silent)))


def assert_only_the_owner_moves(pairs: Pairs, operate: Callable[[Graphs], np.ndarray]) -> None:
    """When one record changes, every other owner keeps exactly what it kept."""
    moved = (operate(pairs.left) != operate(pairs.right)).any(2)
    moved[np.arange(len(moved)), pairs.record] = False
    assert not moved.any(), f"other owners' arcs move in {int(moved.any(1).sum())} of {len(moved)} pairs"


def round_pairs(relation: str, count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1 and their neighbors, emptied or replaced (mostly by the opposite)."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([messages(rng).reshape(-1, WIDTH) for _ in range(count // (6 * NODES))])
    other = np.where(rng.random((len(rows), 1)) < 0.7, -rows, rng.permutation(rows))
    return rows, (other if relation == "replace" else np.zeros_like(rows)).astype(np.float32)


def measure_rounding(relation: str) -> Measured:
    """Rows on the grid: how far one row moves, in full rows."""
    left, right = round_pairs(relation)
    difference = aggregation.to_steps(left).astype(np.int64) - aggregation.to_steps(right)
    squares, changed = np.square(difference).sum(1), (difference != 0).sum(1)
    pairs = len({(a.tobytes(), b.tobytes()) for a, b in zip(left, right, strict=True) if (a != b).any()})
    return Measured(pairs, float(np.sqrt(squares.max())) / INT16_ONE, int(changed.max()), ())


def edge_case(unit: EdgeLevel, operation: str, *, symmetric: bool = False, num_random: int = 40) -> Case:
    """One hop, or regrouped arcs, under an edge unit."""
    of = "one arc of an undirected graph" if symmetric else "arc" if unit.directed else "undirected edge"

    def run() -> Measured:
        pairs = edge_pairs(num_random, directed=unit.directed, symmetric=symmetric)
        return measure(pairs, hop, INT16_ONE) if operation == "hop" else measure(pairs, regrouped_arcs)

    claim = hop_sensitivity(unit, released_messages=True)
    coordinates = affected_coordinates(unit, NODES, WIDTH) if operation == "hop" else unit.arcs_per_record
    return Case(operation, of, claim, coordinates, run)


def node_unit(relation: str, max_out_degree: int) -> NodeLevel:
    """Owned arcs, capped."""
    return NodeLevel(max_out_degree=max_out_degree, relation=relation)


def hop_case(relation: str, max_out_degree: int, *, released: bool, alone: bool = False, num_random: int = 4) -> Case:
    """One hop under a node unit, on capped arcs."""
    unit = node_unit(relation, max_out_degree)

    def run() -> Measured:
        pairs = node_pairs(num_random, relation, released=released)
        return measure(pairs, lambda graphs: hop(graphs, max_out_degree, alone=alone), INT16_ONE)

    name = f"node owned, {relation}, D = {max_out_degree}, {'released' if released else 'private'} messages"
    claim = hop_sensitivity(unit, released_messages=released)
    return Case("hop, each graph alone" if alone else "hop", name, claim, affected_coordinates(unit, NODES, WIDTH), run)


def arcs_case(operation: str, relation: str, max_out_degree: int, num_random: int = 4) -> Case:
    """The degree cap, or regrouped capped arcs, under a node unit: at most D arcs leave (and D enter)."""
    operate = kept_arcs if operation == "degree cap" else regrouped_arcs

    def run() -> Measured:
        pairs = node_pairs(num_random, relation, released=True)
        return measure(pairs, lambda graphs: operate(graphs, max_out_degree))

    arcs = max_out_degree * (2 if relation == "replace" else 1)
    name = f"node owned, {relation}, D = {max_out_degree}"
    return Case(operation, name, float(np.sqrt(arcs)), arcs, run)


RELATIONS = ("remove", "replace")
CASES = (
    edge_case(ARC, "hop"),
    edge_case(ARC, "hop", symmetric=True),
    edge_case(EDGE, "hop"),
    edge_case(ARC, "by_destination"),
    edge_case(EDGE, "by_destination"),
    *(
        hop_case(r, d, released=m, num_random=40 if r == "remove" else 4)
        for r in RELATIONS
        for d in (1, 2)
        for m in (True, False)
    ),
    hop_case("remove", 2, released=False, alone=True),
    *(arcs_case(o, r, 2, 40 if r == "remove" else 0) for o in ("degree cap", "by_destination") for r in RELATIONS),
    *(
        Case("rounding to the grid", f"one row, {r}", n, WIDTH, lambda r=r: measure_rounding(r))
        for r, n in (("remove", 1.0), ("replace", 2.0))
    ),
)


@cache
def result(case: Case) -> Measured:
    """The measurement of one case on the real code, taken once a process."""
    return case.measure()
