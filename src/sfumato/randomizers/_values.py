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

    >>> check_values(np.zeros((2, 3)), num_features=3).shape
    (2, 3)
    """
    check_array("values", values)
    if sparse.issparse(values) and values.format != "csr":
        values = values.tocsr()
    if values.ndim != 2 or values.shape[1] != num_features or values.dtype.kind not in "biuf":
        shape = f"{values.dtype} of shape {values.shape}"
        raise fail("values", shape, f"to be numbers of shape [users, {num_features}]", "Give one row a user.")
    return values


def check_range(name: str, bound: float | tuple[float, ...], num_features: int) -> Floats:
    """Return a public bound as one float for each column; a single number holds for all columns.

    >>> check_range("low", -1, 3).tolist()
    [-1.0, -1.0, -1.0]
    """
    entries = bound if isinstance(bound, tuple) else (bound,)
    if isinstance(bound, tuple) and len(bound) != num_features:
        raise fail(name, f"a tuple of {len(bound)}", f"to hold {num_features} numbers, one a column")
    for entry in entries:
        if not isinstance(entry, Real) or isinstance(entry, bool) or not isfinite(entry) or abs(entry) > _FARTHEST:
            raise fail(name, entry, f"to be a finite number within {_FARTHEST:g} of 0, or a tuple of one a column")
    return np.broadcast_to(np.array(entries, np.float64), num_features)


def check_array(name: str, values: Values) -> None:
    """Refuse a list. Which array a list becomes, and so whether it is refused, would depend on its entries.

    >>> check_array("labels", [0, 1])
    Traceback (most recent call last):
    sfumato.errors.InputError: Expected labels to be a NumPy array or a SciPy matrix, got 'a list'. Choose its dtype.
    """
    if not isinstance(values, np.ndarray) and not sparse.issparse(values):
        raise fail(name, f"a {type(values).__name__}", "to be a NumPy array or a SciPy matrix", "Choose its dtype.")


def floats(block: NDArray[np.generic]) -> Floats:
    """Return the entries as float64, without a warning whatever they are.

    >>> floats(np.array([True, False])).tolist()
    [1.0, 0.0]
    """
    with np.errstate(all="ignore"):
        return np.asarray(block).astype(np.float64, copy=False)


def finite(block: NDArray[np.generic]) -> Floats:
    """Return the entries as floats within 1e100 of 0, so that squares and sums stay finite; NaN becomes 0.

    >>> finite(np.array([np.nan, -np.inf, 2.0])).tolist()
    [0.0, -1e+100, 2.0]
    """
    return np.clip(np.nan_to_num(floats(block), nan=0.0), -_FARTHEST, _FARTHEST)


def entries(values: Values, columns: NDArray[np.integer]) -> NDArray[np.generic]:
    """Return the entries (i, columns[i, j]) as an array [users, m], in time O(users * m) for dense values.

    >>> entries(np.array([[5, 6, 7], [8, 9, 10]]), np.array([[0, 2], [1, 2]])).tolist()
    [[5, 7], [9, 10]]
    """
    users, width = columns.shape
    if not sparse.issparse(values):
        return np.asarray(values[np.arange(users)[:, None], columns])
    return np.asarray(values[np.repeat(np.arange(users), width), columns.ravel()]).reshape(users, width)


def row_blocks(values: Values, width: int) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows in the clear, so small that ``width`` numbers for each row stay within 16 MB.

    >>> [block.shape for _, block in row_blocks(np.zeros((3, 2)), width=1 << 20)]
    [(2, 2), (1, 2)]
    """
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, values.shape[0], step):
        rows = slice(start, min(start + step, values.shape[0]))
        yield rows, dense(values[rows])


def csr_blocks(values: Values) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows as CSR float64, of at most about two million entries.

    >>> [(rows.stop, block.nnz) for rows, block in csr_blocks(np.eye(3))]
    [(3, 3)]
    """
    step = max(1, _BLOCK // max(1, values.shape[1]))
    for start in range(0, values.shape[0], step):
        rows = slice(start, min(start + step, values.shape[0]))
        yield rows, to_csr(values[rows])


def to_csr(values: Values) -> sparse.csr_matrix:
    """Return the non-zero entries as finite float64 in CSR form. NaN is zero, and no zero is stored.

    Rows are sorted, and entries of the same place are added.

    >>> to_csr(np.array([[0.0, np.nan, 3.0]])).nnz
    1
    """
    matrix = sparse.csr_matrix(values if sparse.issparse(values) else floats(values), copy=True)
    matrix.sum_duplicates()
    matrix.data = finite(matrix.data)
    matrix.eliminate_zeros()
    return matrix


def dense(values: Values) -> Floats:
    """Return all entries as a dense array of floats.

    >>> dense(sparse.csr_matrix(np.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return floats(values.toarray() if sparse.issparse(values) else values)
