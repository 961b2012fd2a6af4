"""The arrays of a graph can be written to after it was built; before anything is charged for it, its checks are done again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato.errors import DataError
from sfumato.graph._checks import MOST_FEATURE, first_beyond
from sfumato.graph._packed import PackedRows
from sfumato.graph._types import EdgeTypes
from sfumato.graph._weights import EdgeWeights

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

_WRITABLE = object()
_IMMUTABLE = (bytes, int, float, bool, str, tuple)
"""Types of what may stand behind an array, or in place of one; any other owner, such as a file or a tensor, can be written to."""


def checked_again(graph: Graph) -> Graph:
    """Return the same graph, of which everything that may have been written to since it was built passed its checks again.

    Arrays that nobody can write to passed when it was built. Those of a stored graph are read from its file, which can change.
    """
    again: dict[str, Any] = {"_checked": tuple(one if _fixed(one) else _WRITABLE for one in graph._checked)}
    x = graph.stored_x
    if isinstance(x, sp.csr_matrix) and not _fixed(x):
        _check_sparse(x)
    elif isinstance(x, PackedRows) and not _fixed(x) and x.numbers is not None and not _small(x.numbers):
        raise DataError(
            f"Expected x to be finite and from -{MOST_FEATURE:g} to {MOST_FEATURE:g}, got others. Load it again."
        )
    if graph.targets is not None:
        again["targets"] = replace(graph.targets)
    if hasattr(graph, "known"):
        again["known"] = tuple(map(checked_again, graph.known))
    return graph.changed(**again)


def _fixed(value: Any) -> bool:
    """Whether nobody can write to what this holds."""
    if isinstance(value, EdgeWeights):
        return _fixed(value.steps)
    if isinstance(value, EdgeTypes):
        return _fixed(value.marks)
    if isinstance(value, PackedRows):
        return all(map(_fixed, value.parts))
    if isinstance(value, sp.csr_matrix):
        return all(map(_fixed, (value.data, value.indices, value.indptr)))
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    return value is None or type(value) in _IMMUTABLE


def _small(numbers: np.ndarray) -> bool:
    return first_beyond(numbers.reshape(-1)) is None


def _check_sparse(x: sp.csr_matrix) -> None:
    try:
        x.check_format(full_check=True)
    except ValueError:
        raise DataError(
            "Expected x to be a CSR matrix with columns in range and ascending ends of rows, got another. Build it and the graph "
            "again."
        ) from None
