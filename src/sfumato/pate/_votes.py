"""Vote counts have one row for each query and one column for each class, and are checked to be integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.errors import DataError

Votes = NDArray[np.int64]


def read_votes(path: str | Path, num_queries: int | None = None) -> Votes:
    """Read the counts of the first ``num_queries`` rows (default: all) of a ``.npy`` file. Nothing in it is run.

    Raises:
        DataError: no such file, not an array, or not counts.
        InputError: more queries than rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/votes.npy", np.array([[9.0, 1.0], [2.0, 8.0]]))
    ...     read_votes(f"{folder}/votes.npy", 1).tolist()
    [[9, 1]]
    """
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it holds no plain array"
        raise DataError(
            f"Cannot read votes from {str(path)!r}: {reason}. Save counts [queries, classes] with numpy.save as .npy."
        ) from error
    if not isinstance(rows, np.ndarray):
        rows.close()
        raise DataError(f"Expected one array in {str(path)!r}, got an archive. Save counts with numpy.save as .npy.")
    if num_queries is not None:
        most = len(rows) if rows.ndim else 0
        num_queries = check_int(f"{str(path)!r} has {most} rows.", low=1, high=max(most, 1), queries=num_queries)
        rows = rows[:num_queries] if rows.ndim else rows
    try:
        return check_votes(np.array(rows))
    except ValueError as error:
        raise DataError(f"{str(path)!r}: {error}") from error


def check_votes(votes: NDArray[Any]) -> Votes:
    """Return counts [queries, classes] as integers, every row with the same sum: each teacher votes on each query."""
    votes = np.asarray(votes)
    if votes.ndim != 2 or votes.shape[0] < 1 or votes.shape[1] < 2:
        raise fail(
            "votes", votes.shape, "to have the shape [queries, classes], two classes or more", "One row a query."
        )
    if votes.dtype.kind not in "iuf":
        raise fail("votes", str(votes.dtype), "to hold numbers", "Count the teachers' votes for each class.")
    wrong = ~(np.isfinite(votes) & (votes >= 0) & (votes == np.floor(votes)) & (votes < 2**31))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        name = f"votes[{row}, {column}]"
        raise fail(name, "another number", "to be an integer, 0 or more", "Pass counts, not shares.")
    counts = votes.astype(np.int64)
    sums = counts.sum(axis=1)
    if (sums != sums[0]).any() or sums[0] == 0:
        row = int(np.argmax(sums != sums[0]))
        remedy = "Every teacher votes once on every query."
        raise fail(f"the sum of votes[{row}]", "another", "to be the number of teachers, as in every row", remedy)
    return counts


def count_votes(predictions: NDArray[np.integer], num_classes: int) -> Votes:
    """Count the teachers' votes: predictions [teachers, queries] to counts [queries, classes].

    Raises:
        InputError: predictions are no integers of that shape, or out of range.

    >>> count_votes(np.array([[0, 2], [0, 1], [1, 1]]), 3).tolist()
    [[2, 1, 0], [0, 2, 1]]
    """
    predictions = np.asarray(predictions)
    num_classes = check_int(low=2, num_classes=num_classes)
    if predictions.ndim != 2 or predictions.dtype.kind not in "iu":
        found = f"{predictions.dtype}{list(predictions.shape)}"
        raise fail("predictions", found, "to be integers of the shape [teachers, queries]", "Pass classes.")
    if predictions.size and not 0 <= predictions.min() <= predictions.max() < num_classes:
        raise fail("predictions", "others", f"to lie in 0 to {num_classes - 1}", "A teacher must name a class.")
    places = predictions + num_classes * np.arange(predictions.shape[1])
    counts = np.bincount(places.ravel(), minlength=num_classes * predictions.shape[1])
    return counts.reshape(-1, num_classes).astype(np.int64)
