r"""Cells of records: the cell of a record is a function of this record and public values alone, to the last bit.

**Formal guarantee.** Whatever other records hold, and whether they are there, a record's cell stays the same. So neighboring
data sets of :class:`~sfumato.privacy.units.SubclassLevel` differ in the records of one cell, and no record moves another from
cell to cell.

**Proof.** Inputs and centroids are rounded to integers in units of :math:`2^{-12}`, at most :math:`2^{15}` in magnitude (what is
beyond 8 is cut, and what is not a number is 0); directions to integers of at most :math:`2^{12}`. A product of a row and a
column is a sum of at most :math:`2^{21}` integers of at most :math:`2^{30}` each: exact in float64 in any order, so the
other rows of a batch change nothing. Means and norms along single rows
are floats, which NumPy is assumed to compute to the same bits wherever a row stands. The nearest centroid has the smallest
:math:`\|c\|^2 - 2 x \cdot c`, an integer below :math:`2^{53}`. The lowest number wins a tie.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import fail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

_MULTIPLIERS, _WIDTH = (1, 7, 31), 0.05
_LARGEST, _INPUT_STEPS, _DIRECTION_STEPS, _WIDEST, _CHUNK = 8.0, 2.0**12, 2.0**12, 2**21, 4096


def direction_cells(x: Floats, y: NDArray[np.integer], directions: Floats, cells: int) -> NDArray[np.int64]:
    r"""Return the cell of each record: its class, and where public directions place it.

    A record, less its own mean and divided by its norm, has products :math:`p_i` with the directions. Its cell is
    :math:`\sum_i m_i \lfloor p_i / 0.05 \rfloor` modulo ``cells``, with m = 1, 7, 31. Records that are alike often share a cell.

    ``directions`` [k, ...], at most three, are the same for each class. An empty record, of class -1, has the cell -1.

    >>> x = np.array([[0.0, 1.0], [0.0, 2.0], [0.9, 0.1]])
    >>> direction_cells(x, np.array([0, 0, 1]), np.array([[1.0, -1.0]]), 5).tolist()
    [1, 1, 8]

    Source: Datar, Immorlica, Indyk and Mirrokni (2004), Locality-Sensitive Hashing Scheme Based on p-Stable Distributions.
    """
    rows, columns = _checked(x, y), np.asarray(directions, np.float64).reshape(len(directions), -1)
    if rows.shape[1] != columns.shape[1] or len(columns) > len(_MULTIPLIERS) or not np.isfinite(columns).all():
        expected = f"to hold at most {len(_MULTIPLIERS)} rows of {rows.shape[1]} finite numbers"
        raise fail("directions", directions.shape, expected)
    largest = max(np.abs(columns).max(), 1e-300)
    whole = np.rint(columns / largest * _DIRECTION_STEPS).T
    width = max(1.0, np.rint(_WIDTH * _INPUT_STEPS * _DIRECTION_STEPS / largest))
    found = np.zeros(len(rows), np.int64)
    for at in range(0, len(rows), _CHUNK):
        places = np.floor_divide(_whole(_unit(rows[at : at + _CHUNK])) @ whole, width).astype(np.int64)
        found[at : at + _CHUNK] = places @ np.array(_MULTIPLIERS[: len(columns)]) % cells
    return _numbered(y, found, cells)


def centroid_cells(x: Floats, y: NDArray[np.integer], centroids: Floats) -> NDArray[np.int64]:
    """Return the cell of each record: its class, and the nearest of this class's public centroids.

    ``centroids`` [num_classes, cells, ...] may be fitted on public records, never on protected ones.

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]])
    >>> centroid_cells(x, np.array([0, 0, 1]), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)).tolist()
    [1, 0, 2]
    """
    rows, (classes, cells) = _checked(x, y), centroids.shape[:2]
    if centroids[0, 0].size != rows.shape[1] or y.max(initial=-1) >= classes:
        raise fail("centroids", centroids.shape, f"to hold rows of {rows.shape[1]} numbers for each class")
    nearest = np.zeros(len(rows), np.int64)
    for label in range(classes):
        middles = _whole(centroids[label].reshape(cells, -1))
        own = np.flatnonzero(y == label)
        for at in (own[start : start + _CHUNK] for start in range(0, len(own), _CHUNK)):
            nearest[at] = (np.square(middles).sum(1) - 2 * _whole(rows[at]) @ middles.T).argmin(1)
    return _numbered(y, nearest, cells)


def _checked(x: Floats, y: NDArray[np.integer]) -> Floats:
    rows = x.reshape(len(x), math.prod(x.shape[1:]))
    if len(x) != len(y) or rows.shape[1] > _WIDEST:
        raise fail("x", x.shape, f"to hold {len(y)} records of at most {_WIDEST} numbers, one for each class of y")
    return rows


def _unit(rows: Floats) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):  # what is not finite becomes 0
        centered: NDArray[np.float64] = rows.astype(np.float64) - rows.mean(1, dtype=np.float64, keepdims=True)
        centered /= np.sqrt(np.square(centered).sum(1, keepdims=True))
    return centered


def _whole(values: Floats) -> NDArray[np.float64]:
    kept = np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0), -_LARGEST, _LARGEST)
    return np.rint(kept * _INPUT_STEPS)


def _numbered(y: NDArray[np.integer], within: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    return np.where(y < 0, -1, y.astype(np.int64) * cells + within)
