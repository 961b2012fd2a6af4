"""Compressed arcs are built, transposed and checked here by sorting and counting only, without a loop over arcs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato._validate import check_choice, check_int
from sfumato.errors import DataError
from sfumato.graph._checks import as_array

MAX_NODES = 2**31 - 1

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
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= num_nodes):
        row = int(np.argmax((nodes < 0) | (nodes >= num_nodes)))
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
    falls = indices[1:] <= indices[:-1]
    starts = indptr[1:-1]
    falls[starts[(starts > 0) & (starts < len(indices))] - 1] = False
    if falls.any():
        raise DataError(
            "Expected the targets of every node to be sorted and unique, got others. "
            "Build the graph with Graph.from_csr or Graph.from_edges, which sort and merge."
        )
    return indptr, indices


def check_symmetric(indptr: np.ndarray, indices: np.ndarray) -> None:
    num_nodes = len(indptr) - 1
    keys = _keys(indptr, indices)
    back = _reverse(keys, num_nodes)
    back.sort()
    if np.array_equal(keys, back):
        return
    raise DataError(
        "Expected both arcs of every edge because directed=False, got an arc without its reverse (which one is private). Declare "
        "directed=True, or pass one row an edge to Graph.from_edges."
    )


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
