"""Parser of the Facebook networks of American universities in 2005: one school, or all that are there as one graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse

from sfumato._pickles import reading
from sfumato.datasets._listing import EVERY_SCHOOL
from sfumato.datasets._parsers import require_nodes
from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.graph._onehot import one_hot_rows
from sfumato.graph._subgraph import induced_arcs

_FEATURES = ("status", "gender", "major", "minor", "dorm")
_SHARED_FEATURES = _FEATURES[:3]
_SHARED_YEARS = np.arange(2004, 2010)
_YEAR = 5


def facebook100(folder: Path, school: str, min_class_size: int | None) -> Graph:
    """Read one university, or all of them, with the class year as target; students without a year are dropped.

    Feature columns are the codes in the raw files, before students are dropped; 0 is missing and has no column. The union
    has one column for a code of all schools, and neither minor nor dorm, as in the published preparation of FB-100.
    """
    together = school == EVERY_SCHOOL
    names = sorted(path.stem for path in folder.glob("*.mat")) if together else [school]
    if not names:
        raise DataError(f"Expected the files of schools, such as Berkeley13.mat, in {folder}, found none.")
    parts = [_read(folder / f"{name}.mat") for name in names]
    starts = np.cumsum([0, *(len(info) for _, _, info in parts)])
    ends = np.cumsum([0, *(len(indices) for _, indices, _ in parts)])
    indptr = np.concatenate([[0], *(part[1:] + end for (part, _, _), end in zip(parts, ends, strict=False))])
    indices = np.concatenate([part + start for (_, part, _), start in zip(parts, starts, strict=False)])
    info = np.concatenate([part for _, _, part in parts])
    ids: list[np.ndarray] = [np.arange(len(part)) for _, _, part in parts]
    if together:
        ids = [np.char.add(f"{name}/", rows.astype(str)) for name, rows in zip(names, ids, strict=True)]
    years = info[:, _YEAR]
    kept = _SHARED_YEARS if min_class_size is None else _large(years, min_class_size)
    keep = np.isin(years, kept)
    if min_class_size is None and not keep.any():
        raise DataError(
            "Expected students of the years 2004 to 2009, found none. Pass min_class_size to keep other years."
        )
    num_nodes = require_nodes(keep, min_class_size or 0)
    features = _SHARED_FEATURES if together else _FEATURES
    x, feature_names = _one_hot(info[:, : len(features)], features)
    source, target = induced_arcs(indptr, indices, keep)
    return Graph.from_arcs(
        source,
        target,
        num_nodes,
        directed=False,
        x=x[keep],
        y=np.searchsorted(kept, years[keep]),
        classes=tuple(map(str, kept)),
        node_ids=np.concatenate(ids)[keep],
        feature_names=feature_names,
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row pointers and targets of the arcs, and the attributes of the students."""
    with reading(path), path.open("rb") as stream:
        from scipy.io import loadmat

        content = loadmat(stream, variable_names=["A", "local_info"])
        adjacency, info = scipy.sparse.csc_matrix(content["A"]), np.asarray(content["local_info"]).astype(np.int64)
        adjacency.check_format(full_check=True)
        if info.ndim != 2 or info.shape[1] <= _YEAR or adjacency.shape != (len(info), len(info)):
            raise ValueError(f"A has shape {adjacency.shape} and local_info {info.shape}, not [N, N] and [N, 7]")
    return adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64), info


def _large(years: np.ndarray, min_class_size: int) -> np.ndarray:
    values, counts = np.unique(years, return_counts=True)
    return values[(values > 0) & (counts >= min_class_size)]


def _one_hot(codes: np.ndarray, names: Sequence[str]) -> tuple[scipy.sparse.csr_matrix, tuple[str, ...]]:
    """One column for each code above 0 that occurs, in code order, columns of ``codes`` side by side."""
    columns: list[np.ndarray] = []
    feature_names: list[str] = []
    for name, column in zip(names, codes.T, strict=True):
        values = np.unique(column[column > 0])
        columns.append(np.where(column > 0, np.searchsorted(values, column) + len(feature_names), -1))
        feature_names += [f"{name}={value}" for value in values]
    return one_hot_rows(np.column_stack(columns), len(feature_names)), tuple(feature_names)
