"""Public upper bounds on the degrees of single nodes, and whether a graph keeps to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.errors import DataError, SchemaError
from sfumato.graph._checks import as_array
from sfumato.graph._schema import contradiction

_BLOCK = 1 << 24
_UNNAMED = "which one is private, so no message says it: count edges where the data is"


def most_arcs(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the larger of the numbers of out-arcs and in-arcs of each node, at least 1, int64. Private unless declared."""
    into = np.zeros(len(indptr) - 1, dtype=np.int64)
    for start in range(0, len(indices), _BLOCK):
        into += np.bincount(indices[start : start + _BLOCK], minlength=len(into))
    most: np.ndarray = np.maximum(np.maximum(np.diff(indptr), into), 1).astype(np.int64)
    return most


def check_promise(most: int | None, indptr: np.ndarray, indices: np.ndarray) -> None:
    """Refuse a graph in which a node has more out-arcs or in-arcs than ``most``, a promise; None promises nothing."""
    if most is not None and most_arcs(indptr, indices).max() > most:
        raise SchemaError(
            f"Expected every node to have at most max_degree={most} edges (of a directed graph arcs out, and arcs in), as is "
            f"promised by option or schema, got more at some node ({_UNNAMED}). Promise a bound that is known without this data; "
            "single edges (--unit edge) need none."
        )


def check_degree_bounds(bounds: Any, indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return public bounds as int64 [num_nodes], and refuse a graph that has more arcs."""
    found = as_array("degree_bounds", bounds)
    if found.shape != (len(indptr) - 1,) or found.dtype.kind not in "iu" or (found < 1).any():
        raise DataError(
            f"Expected degree_bounds to be {len(indptr) - 1} integers >= 1, one for each node, got an array of shape "
            f"{found.shape} of {found.dtype}. Declare at least 1, for nodes without arcs too."
        )
    if (most_arcs(indptr, indices) > found).any():
        raise SchemaError(
            f"Expected every node to have at most as many arcs as its declared bound, got more at some node ({_UNNAMED}). Remove "
            "arcs, or declare a bound that is known without this data."
        )
    return found.astype(np.int64, copy=False)


def bounds_in(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the public bounds that a column holds, int64 [num_nodes]."""
    numbers = values.astype(np.float64) if values.dtype.kind in "iuf" else np.full(len(values), np.nan)
    wrong = ~((numbers >= 1) & (numbers % 1 == 0) & (numbers < 2.0**53))
    if wrong.any():
        raise contradiction(name, ids[int(wrong.argmax())], "an integer >= 1")
    return numbers.astype(np.int64)
