"""Values of users (dense rows or CSR), read only at the entries that a report needs. No entry is ever an error."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato._validate import fail

Values: TypeAlias = Any  # a NumPy array or a SciPy CSR matrix; SciPy ships no types
Floats = NDArray[np.float64]
_BLOCK = 1 << 21
_FARTHEST = 1e100


def check_values(values: Values, num_features: int) -> Values:
    """Refuse values that are not numbers in rows of ``num_features``.

    Only kind and shape are checked, which are public; no entry is read.
    """
    check_array("values", values)
    if sparse.issparse(values) and values.format != "csr":
        values = values.tocsr()
    if values.ndim != 2 or values.shape[1] != num_features or values.dtype.kind not in "biuf":
        shape = f"{values.dtype} of shape {values.shape}"
        raise fail("values", shape, f"to be numbers of shape [users, {num_features}]", "Give one row a user.")
    return values


def check_range(name: str, bound: float | tuple[float, ...], num_features: int) -> Floats:
    """Return a public bound as one float for each column; a single number holds for all columns."""
    entries = bound if isinstance(bound, tuple) else (bound,)
    if isinstance(bound, tuple) and len(bound) != num_features:
        raise fail(name, f"a tuple of {len(bound)}", f"to hold {num_features} numbers, one a column")
    for entry in entries:
        if not isinstance(entry, Real) or isinstance(entry, bool) or not isfinite(entry) or abs(entry) > _FARTHEST:
            raise fail(name, entry, f"to be a finite number within {_FARTHEST:g} of 0, or a tuple of one a column")
    return np.broadcast_to(np.array(entries, np.float64), num_features)


def check_array(name: str, values: Values) -> None:
    """Refuse a list. Which array a list becomes, and so whether it is refused, would depend on its entries."""
    if not isinstance(values, np.ndarray) and not sparse.issparse(values):
        raise fail(name, f"a {type(values).__name__}", "to be a NumPy array or a SciPy matrix", "Choose its dtype.")


def floats(block: NDArray[np.generic]) -> Floats:
    """Return the entries as float64, without a warning whatever they are."""
    with np.errstate(all="ignore"):
        return np.asarray(block).astype(np.float64, copy=False)


def finite(block: NDArray[np.generic]) -> Floats:
    """Return the entries as floats within 1e100 of 0, so that squares and sums stay finite; NaN becomes 0."""
    return np.clip(np.nan_to_num(floats(block), nan=0.0), -_FARTHEST, _FARTHEST)


def entries(values: Values, columns: NDArray[np.integer]) -> NDArray[np.generic]:
    """Return the entries (i, columns[i, j]) as an array [users, m], in time O(users * m) for dense values."""
    users, width = columns.shape
    if not sparse.issparse(values):
        return np.asarray(values[np.arange(users)[:, None], columns])
    return np.asarray(values[np.repeat(np.arange(users), width), columns.ravel()]).reshape(users, width)


def row_blocks(values: Values, width: int) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows in the clear, so small that ``width`` numbers for each row stay within 16 MB."""
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, values.shape[0], step):
        rows = slice(start, min(start + step, values.shape[0]))
        yield rows, dense(values[rows])


def csr_blocks(values: Values) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows as CSR float64, of at most about two million entries."""
    step = max(1, _BLOCK // max(1, values.shape[1]))
    for start in range(0, values.shape[0], step):
        rows = slice(start, min(start + step, values.shape[0]))
        yield rows, to_csr(values[rows])


def to_csr(values: Values) -> sparse.csr_matrix:
    """Return the non-zero entries as finite float64 in CSR form. NaN is zero, and no zero is stored.

    Rows are sorted, and entries of the same place are added.
    """
    matrix = sparse.csr_matrix(values if sparse.issparse(values) else floats(values), copy=True)
    matrix.sum_duplicates()
    matrix.data = finite(matrix.data)
    matrix.eliminate_zeros()
    return matrix


def dense(values: Values) -> Floats:
    """Return all entries as a dense array of floats."""
    return floats(values.toarray() if sparse.issparse(values) else values)
