"""Checks on what a graph carries: features, labels, node ids and roles. Errors name a place, never what stands there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sfumato._blocks import let_go, spans
from sfumato._validate import check_int, check_real, fail
from sfumato.errors import DataError, InputError
from sfumato.graph._packed import PackedRows

ROLES = ("train", "val", "test", "none")
_BLOCK = 1 << 22
_MOST_UNDECLARED = 1000
"""Classes that nobody declared are numbered below this, or below the number of nodes: any number makes all classes below it."""
MOST_FEATURE = 1e13
"""Largest absolute value of a feature. Networks multiply, add and square features in float32, which ends at 3.4e38."""


def as_array(name: str, values: Any) -> np.ndarray:
    """Return ``values`` as an array."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # their words may hold values
        raise DataError(
            f"Expected {name} to be an array, got {type(values).__name__} that NumPy makes none of. Give rows of one length."
        ) from None


def check_promises(num_nodes: int, max_degree: int | None, mean_degree: float | None) -> None:
    """Refuse a promised degree that no graph of so many nodes can have; repeated arcs count once."""
    remedy = f"A node has at most one arc to each of the {num_nodes} nodes. Lower the promise, or make none."
    if max_degree is not None:
        check_int(remedy, low=1, high=num_nodes, max_degree=max_degree)
    if mean_degree is not None:
        remedy = remedy if max_degree is None else f"No node has more than the promised max_degree={max_degree}."
        check_real(remedy, low=0, high=max_degree or num_nodes, mean_degree=mean_degree)


def check_names(
    classes: Any, feature_names: Any, assumed_public: Any, undeclared: Any = ()
) -> dict[str, tuple[str, ...]]:
    """Return names of classes, of features and of facts as text, by the fields of a graph."""
    facts = {"assumed_public": assumed_public, "undeclared": undeclared}
    given = {"classes": classes, "feature_names": feature_names, **facts}
    for field, names in given.items():
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise fail(field, type(names).__name__, "to be a list of names")
    found = {field: tuple(str(name) for name in names) for field, names in given.items()}
    for field in ("classes", "feature_names"):
        if len(set(found[field])) < len(found[field]):
            twice = next(name for name, times in Counter(found[field]).items() if times > 1)
            raise InputError(
                f"Expected {field} to be distinct names, got {twice!r} twice. Rename one of them, or leave it out."
            )
    return found | {field: tuple(dict.fromkeys(found[field])) for field in facts}


def check_features(x: Any, num_nodes: int) -> np.ndarray | sp.csr_matrix | PackedRows | None:
    """Return features as dense or CSR float32 [num_nodes, num_features]; packed rows as they are."""
    if x is None:
        return None
    if isinstance(x, PackedRows):
        if len(x) == num_nodes:
            return x
        x = x.whole
    if not sp.issparse(x):
        x = as_array("x", x)
    if x.ndim != 2 or x.shape[0] != num_nodes or x.dtype.kind not in "fiub":
        raise DataError(
            f"Expected x to be numbers of shape [{num_nodes}, num_features], got shape {tuple(x.shape)} of {x.dtype}. "
            "Give one row of numbers a node."
        )
    with np.errstate(over="ignore"):
        if sp.issparse(x):
            x = x if isinstance(x, sp.csr_matrix) and x.dtype == np.float32 else sp.csr_matrix(x, dtype=np.float32)
        else:
            x = np.ascontiguousarray(x, dtype=np.float32)
    _check_size(x)
    return x


def _check_size(x: np.ndarray | sp.csr_matrix) -> None:
    values = x.data if isinstance(x, sp.csr_matrix) else x.reshape(-1)
    bad = first_beyond(values)
    if bad is None:
        return
    if isinstance(x, sp.csr_matrix):
        row, column = int(np.searchsorted(x.indptr, bad, side="right") - 1), int(x.indices[bad])
    else:
        row, column = divmod(bad, x.shape[1])
    raise DataError(
        f"Expected x to be finite and from -{MOST_FEATURE:g} to {MOST_FEATURE:g}, but x[{row}, {column}] is not. Fill that "
        "value, or rescale or drop that column."
    )


def first_beyond(values: np.ndarray) -> int | None:
    """Return the place of the first value that no feature may have; None if there is none."""
    for first, last in spans(len(values), _BLOCK):
        part = values[first:last]
        let_go(values)
        low, high = np.float32(part.min()), np.float32(part.max())  # not a number if one is not
        if not -MOST_FEATURE <= low <= high <= MOST_FEATURE:
            return first + int(np.argmin(np.abs(part.astype(np.float64)) <= MOST_FEATURE))
    return None


def check_labels(y: Any, num_nodes: int, num_classes: int) -> np.ndarray | None:
    """Return labels as int64 [num_nodes], -1 for missing."""
    if y is None:
        return None
    labels = as_array("y", y)
    if labels.ndim != 1:
        raise DataError(
            f"Expected y to be one class a node, shape [{num_nodes}], got shape {labels.shape}. "
            "For several labels of a node pass targets=Targets('multilabel', y) in place of y."
        )
    if len(labels) != num_nodes or labels.dtype.kind not in "iubf":
        raise DataError(
            f"Expected y to be {num_nodes} class numbers, got {len(labels)} values of {labels.dtype}. Give one a node."
        )
    if labels.dtype.kind == "f":
        _refuse_fractions(labels)
    if labels.dtype.kind == "b":
        labels = labels.astype(np.int64)
    limit = num_classes or max(num_nodes, _MOST_UNDECLARED)
    if len(labels) and (
        labels.min() < -1 or labels.max() >= limit
    ):  # before a cast, by which large numbers would change
        row = int(np.argmax((labels < -1) | (labels >= limit)))
        known = f"{num_classes} classes" if num_classes else "no classes are declared"
        remedy = (
            "Correct that label."
            if num_classes
            else "Number the classes: classes, y = np.unique(y, return_inverse=True)."
        )
        raise DataError(
            f"Expected y to be a class from 0 to {limit - 1} ({known}) or -1 for missing, but y[{row}] is not. {remedy}"
        )
    wrapped = _wrapped(labels, num_classes)
    if wrapped is not None:
        raise DataError(
            f"Expected y to be class numbers, but y[{wrapped}] is the largest number of {labels.dtype}, which -1 for missing "
            "becomes there. Write y as int64; if it is a class, declare classes."
        )
    labels = labels.astype(np.int64, copy=False)
    if not len(labels) or labels.max() < 0:
        raise DataError("Expected at least one label, but every label is missing (-1). Pass y=None, or add labels.")
    return labels


def _wrapped(values: np.ndarray, known: int = 0) -> int | None:
    """The first place where -1 may have become the largest number of an unsigned type, unless so many numbers are ``known``."""
    if values.dtype.kind != "u" or not values.size or known > (most := np.iinfo(values.dtype).max):
        return None
    found = values == most
    return int(found.argmax()) if found.any() else None


def _refuse_fractions(y: np.ndarray) -> None:
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(f"Expected y to be class numbers, but y[{row}] is not finite. Write -1 for a missing label.")
    fractional = y != np.floor(y)
    if fractional.any():
        row = int(np.argmax(fractional))
        raise DataError(
            f"Expected y to be class numbers, but y[{row}] has a fraction. "
            "For a number pass targets=Targets('number', y, limits=...) in place of y."
        )


def check_node_ids(node_ids: Any, num_nodes: int) -> np.ndarray | None:
    """Return original node ids as int64 or str [num_nodes], none repeated."""
    if node_ids is None:
        return None
    ids = as_array("node_ids", node_ids)
    if ids.dtype.kind == "O":
        ids = ids.astype(str) if all(isinstance(one, str | int) for one in ids.ravel()) else ids
    if ids.shape != (num_nodes,) or ids.dtype.kind not in "iuU":
        raise DataError(
            f"Expected node_ids to be {num_nodes} integers or strings, got shape {ids.shape} of {ids.dtype}. "
            "Give one id a node."
        )
    ascends = ids.dtype.kind != "U" and bool((ids[1:] > ids[:-1]).all())  # so that each is there once
    values, counts = (ids, np.ones(1)) if ascends else np.unique(ids, return_counts=True)
    if len(values) < num_nodes:
        raise DataError(
            f"Expected every node id once, but {values[np.argmax(counts)].item()!r} appears {counts.max()} times. "
            "Remove the repeated rows."
        )
    if ids.dtype.kind == "u" and ids.max() > np.iinfo(np.int64).max:
        raise DataError("Expected node_ids to be 64-bit integers, got one of 2**63 or more. Write them as text.")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64, copy=False)


def check_roles(roles: Any, num_nodes: int) -> np.ndarray | None:
    """Return roles as uint8 [num_nodes]: 0 train, 1 val, 2 test, 3 none."""
    if roles is None:
        return None
    values = as_array("roles", roles)
    if values.shape != (num_nodes,) or values.dtype.kind not in "iu":
        raise DataError(
            f"Expected roles to be {num_nodes} integers, got shape {values.shape} of {values.dtype}. "
            "Use random_roles, or 0 train, 1 val, 2 test, 3 none."
        )
    if values.min() < 0 or values.max() > 3:
        row = int(np.argmax((values < 0) | (values > 3)))
        raise DataError(f"Expected roles to be 0 train, 1 val, 2 test or 3 none, but roles[{row}] is not. Correct it.")
    return values.astype(np.uint8, copy=False)


def check_image_shape(shape: Any, num_features: int) -> tuple[int, int, int] | None:
    """Return channels, height and width of the images whose pixels are the columns; None stays None."""
    if shape is None:
        return None
    if not isinstance(shape, list | tuple):
        raise fail("image_shape", type(shape).__name__, "to be (channels, height, width)")
    found = tuple(shape)
    if len(found) != 3 or any(type(size) is not int or size < 1 for size in found) or math.prod(found) != num_features:
        raise DataError(
            f"Expected image_shape to be (channels, height, width) with a product of {num_features}, the number of columns of "
            f"x, got {found}. Correct it, or leave it out."
        )
    return found


def check_cells(cells: Any, num_nodes: int) -> np.ndarray | None:
    """Return declared cells as int64 [num_nodes], numbers from 0 and -1 for none; None stays None."""
    if cells is None:
        return None
    values = as_array("cells", cells)
    large = (
        values.dtype.kind == "u"
        and values.size
        and (values.max() > np.iinfo(np.int64).max or _wrapped(values) is not None)
    )
    if values.shape != (num_nodes,) or values.dtype.kind not in "iu" or values.min() < -1 or large:
        raise DataError(
            f"Expected cells to be {num_nodes} integers from -1 (no cell), one for each node, got shape {values.shape} of "
            f"{values.dtype}. Number the cells from 0."
        )
    return values.astype(np.int64, copy=False)
