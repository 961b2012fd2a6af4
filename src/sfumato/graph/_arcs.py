"""Compressed arcs are built, transposed and checked here by sorting and counting only, without a loop over arcs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato._blocks import let_go, spans
from sfumato._validate import check_choice, check_int
from sfumato.errors import DataError
from sfumato.graph._checks import as_array

MAX_NODES = 2**31 - 1
_BLOCK = 1 << 22
"""Arcs that are looked at together."""

Packed = tuple[np.ndarray, np.ndarray, dict[str, int]]


def nothing_merged() -> dict[str, int]:
    return {"duplicates": 0, "reversed": 0, "self_loops": 0}


def check_num_nodes(num_nodes: int) -> int:
    """Return the number of nodes if a graph can have it: at least 1, and below 2**31 (indices are int32)."""
    return check_int(
        "A graph needs at least one node and int32 node indices.", low=1, high=MAX_NODES, num_nodes=num_nodes
    )


def pack_arcs(source: Any, target: Any, num_nodes: int, self_loops: str = "remove") -> Packed:
    """Group arcs by source, sort targets, drop repeated arcs: ``(indptr, indices, merged)``."""
    source, target, merged = _endpoints(source, target, num_nodes, self_loops)
    keys = source * num_nodes + target
    unique = _sorted_unique(keys)
    merged["duplicates"] = len(keys) - len(unique)
    return (*_unpack(unique, num_nodes), merged)


def pack_edges(source: Any, target: Any, num_nodes: int, self_loops: str = "remove") -> Packed:
    """Store both arcs of every undirected edge, one row each: ``(indptr, indices, merged)``.

    A row repeated as it is counts as a duplicate, a row whose reverse is there as well counts as reversed.
    """
    source, target, merged = _endpoints(source, target, num_nodes, self_loops)
    pairs = np.minimum(source, target) * num_nodes + np.maximum(source, target)
    rows = _sorted_unique(pairs * 2 + (source > target))
    edges = _sorted_unique(rows >> 1)
    merged["duplicates"] = len(pairs) - len(rows)
    merged["reversed"] = len(rows) - len(edges)
    keys = np.concatenate([edges, _reverse(edges, num_nodes)])
    return (*_unpack(_sorted_unique(keys), num_nodes), merged)


def transpose_arcs(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group the same arcs by destination: ``(indptr, indices)`` with sorted sources."""
    keys = _reverse(_keys(indptr, indices), len(indptr) - 1)
    keys.sort()
    return _unpack(keys, len(indptr) - 1)


def owners(indptr: np.ndarray) -> np.ndarray:
    """Return the source of every arc, int64 [num_arcs]."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def check_pointers(indptr: Any, num_arcs: int) -> np.ndarray:
    """Return row pointers as int64 if they start at 0, never fall and end at the number of arcs."""
    pointers: np.ndarray = as_array("indptr", indptr)
    if pointers.ndim != 1 or pointers.dtype.kind not in "iu" or len(pointers) == 0:
        raise DataError(
            f"Expected indptr to be a 1-D array of integers, got shape {pointers.shape} of {pointers.dtype}. "
            "Pass num_nodes + 1 row pointers."
        )
    check_num_nodes(len(pointers) - 1)
    pointers = pointers.astype(np.int64, copy=False)
    if pointers[0] != 0 or pointers[-1] != num_arcs or (np.diff(pointers) < 0).any():
        raise DataError(
            f"Expected indptr to start at 0, never fall and end at {num_arcs} (the number of indices), "
            f"got {int(pointers[0])} ... {int(pointers[-1])}. Rebuild it with Graph.from_edges."
        )
    return pointers


def check_node_ids_in_range(name: str, values: Any, num_nodes: int) -> np.ndarray:
    nodes: np.ndarray = as_array(name, values)
    if nodes.size == 0:
        nodes = nodes.astype(np.int64)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise DataError(
            f"Expected {name} to be a 1-D array of integers, got shape {nodes.shape} of {nodes.dtype}. "
            "Map node ids to 0..num_nodes-1 first, or use read_csv, which does it."
        )
    for first, last in spans(len(nodes), _BLOCK):
        part = nodes[first:last]
        let_go(nodes)
        if part.min() >= 0 and part.max() < num_nodes:
            continue
        row = first + int(np.argmax((part < 0) | (part >= num_nodes)))
        kind = "negative" if nodes[row] < 0 else "no node"
        raise DataError(
            f"Expected {name} to hold node indices from 0 to {num_nodes - 1}, but {name}[{row}] is {kind}. "
            "Correct the row or raise num_nodes."
        )
    return nodes


def check_arcs(indptr: Any, indices: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays as int64 and int32 if targets are in range, sorted in each row and never repeated."""
    indices = as_array("indices", indices)
    indptr = check_pointers(indptr, len(indices) if indices.ndim else 0)
    indices = check_node_ids_in_range("indices", indices, len(indptr) - 1).astype(np.int32, copy=False)
    for first, last in spans(len(indices) - 1, _BLOCK):
        falls = indices[first + 1 : last + 1] <= indices[first:last]
        low, high = np.searchsorted(indptr, [first + 1, last + 1])
        falls[indptr[low:high] - 1 - first] = False  # where a node begins
        let_go(indices)
        if falls.any():
            raise DataError(
                "Expected the targets of every node to be sorted and unique, got others. "
                "Build the graph with Graph.from_csr or Graph.from_edges, which sort and merge."
            )
    return indptr, indices


def check_symmetric(indptr: np.ndarray, indices: np.ndarray) -> None:
    r"""Refuse arcs of which one has no reverse. They are read once, in order, and nothing is sorted.

    With A the matrix of the arcs and x, y vectors of fresh secret coins, :math:`x^T A y = y^T A x` modulo 2^64 is tested. It
    holds for every x and y if A is symmetric. Otherwise it holds with a probability below 2^-58. *Proof:* the difference is
    :math:`\sum_{uv} c_{uv} x_u y_v` with :math:`c_{uv} = A_{uv} - A_{vu}` in {-1, 0, 1}. Take u with some
    :math:`c_{uv} \ne 0`. The factor of :math:`x_u` is :math:`L = \sum_v c_{uv} y_v`, which is uniform, since plus or minus one
    uniform number is in it. If 2^k is the highest power of two in L, of chance 2^-(k+1), then :math:`L x_u` is one of 2^(64-k)
    values, all equally likely, and at most one hides the difference; L = 0 has chance 2^-64. In all,
    :math:`\sum_{k < 64} 2^{-(k+1)} 2^{k-64} + 2^{-64} = 33 \cdot 2^{-64}`.

    Source: the test of matrix products of Freivalds (1979), over integers modulo 2^64.
    """
    coins = np.random.default_rng().integers(2**64, size=(len(indptr) - 1, 2), dtype=np.uint64)  # x, y
    turned, total = np.stack([0 - coins[:, 1], coins[:, 0]], axis=1), 0
    for first, last in row_blocks(indptr, _BLOCK >> 4):
        degrees, targets = np.diff(indptr[first : last + 1]), indices[indptr[first] : indptr[last]]
        terms = np.repeat(turned[first:last], degrees, axis=0) * coins.take(targets, axis=0)  # x_u y_v and -y_u x_v
        total += int(terms.sum(dtype=np.uint64))
        let_go(indices)
    if total % 2**64:
        raise DataError(
            "Expected both arcs of every edge because directed=False, got an arc without its reverse (which one is private). "
            "Declare directed=True, or pass one row an edge to Graph.from_edges."
        )


def row_blocks(indptr: np.ndarray, most: int = _BLOCK) -> Iterator[tuple[int, int]]:
    """Cut nodes into ranges of at most so many arcs and nodes, or of one node that has more.

    >>> list(row_blocks(np.array([0, 3, 4, 4, 9]), 4))
    [(0, 3), (3, 4)]
    """
    first, end = 0, len(indptr) - 1
    while first < end:
        last = int(np.searchsorted(indptr, indptr[first] + most, side="right")) - 1
        last = min(max(last, first + 1), first + most, end)
        yield first, last
        first = last


def linked(indptr: np.ndarray, indices: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Say which pairs of nodes [2, m] are arcs, by bisection of the targets of the first.

    >>> linked(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([[0, 1, 1], [1, 1, 0]])).tolist()
    [True, False, True]
    """
    low, end = indptr[pairs[0]], indptr[pairs[0] + 1]
    high = end.copy()
    while (parted := np.flatnonzero(low < high)).size:
        middle = (low[parted] + high[parted]) >> 1
        less = indices[middle] < pairs[1, parted]
        low[parted[less]], high[parted[~less]] = middle[less] + 1, middle[~less]
    found: np.ndarray = low < end
    found[found] = indices[low[found]] == pairs[1, found]
    return found


def self_loop(row: int) -> DataError:
    return DataError(
        f"Expected no self-loops, but source[{row}] and target[{row}] are one node. "
        "Remove it, or pass self_loops='remove' or 'keep'."
    )


def _endpoints(source: Any, target: Any, num_nodes: int, self_loops: str) -> tuple[Any, Any, dict[str, int]]:
    check_num_nodes(num_nodes)
    check_choice(("error", "remove", "keep"), self_loops=self_loops)
    source = check_node_ids_in_range("source", source, num_nodes).astype(np.int64, copy=False)
    target = check_node_ids_in_range("target", target, num_nodes).astype(np.int64, copy=False)
    if len(source) != len(target):
        raise DataError(
            f"Expected source and target to have the same length, got {len(source)} and {len(target)}. "
            "Pass one entry an edge in both."
        )
    merged = nothing_merged()
    loops = source == target
    if self_loops == "keep" or not loops.any():
        return source, target, merged
    if self_loops == "error":
        raise self_loop(int(np.argmax(loops)))
    merged["self_loops"] = int(loops.sum())
    return source[~loops], target[~loops], merged


def _sorted_unique(keys: np.ndarray) -> np.ndarray:
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return keys
    keys.sort()
    return distinct(keys)


def distinct(keys: np.ndarray) -> np.ndarray:
    """Return each of some sorted keys once."""
    if len(keys) < 2:
        return keys
    first = np.empty(len(keys), dtype=bool)
    first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def _unpack(keys: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    rows = keys // num_nodes
    columns = keys - rows * num_nodes
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=num_nodes), out=indptr[1:])
    return indptr, columns.astype(np.int32)


def _keys(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    keys = owners(indptr)
    keys *= len(indptr) - 1
    keys += indices
    return keys


def _reverse(keys: np.ndarray, num_nodes: int) -> np.ndarray:
    rows = keys // num_nodes
    reverse: np.ndarray = (keys - rows * num_nodes) * num_nodes + rows
    return reverse


def count_loops(indptr: np.ndarray, indices: np.ndarray) -> int:
    """Count the arcs from a node to itself."""
    found = 0
    for first, last in row_blocks(indptr):
        heads = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        found += int(np.count_nonzero(heads == indices[indptr[first] : indptr[last]]))
        let_go(indices)
    return found
