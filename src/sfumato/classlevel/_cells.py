"""Which cell of a unit each record is in: its class, or the part of its class that public values say."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from sfumato._validate import fail
from sfumato.bounded._partitions import centroid_cells, direction_cells
from sfumato.errors import DataError
from sfumato.graph._subgraph import dense_rows

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays
    from sfumato.privacy.units import Unit

CENTROIDS = "cells.centroids"
"""The name of the public centroids among the arrays of a run."""
_DIRECTIONS, _SMOOTH, _SEED = 3, 2.0, 0


def check_partition(unit: Unit, public_rows: int, kmeans: bool) -> None:
    """Refuse settings that do not fit the partition of a unit; ``kmeans`` makes declared cells of the private images."""
    fitted = unit.partition == "centroids"
    if fitted != (public_rows > 0):
        expected = "to be above 0 for centroids" if fitted else "to be 0 without centroids"
        raise fail("public_rows", public_rows, expected, "Centroids are fitted on images that are declared public.")
    if kmeans and unit.partition != "declared":
        raise fail(
            "kmeans", kmeans, "to be False unless cells are declared", "Use SubclassLevel(partition='declared')."
        )


def cells_of(
    unit: Unit, graph: Graph, public_rows: int = 0, *, kmeans: bool = False
) -> tuple[NDArray[np.int64], Arrays]:
    """Return the cell of every training record, int64 [num_nodes], -1 for none, and the public centroids, if there are any."""
    assert graph.y is not None
    trained = graph.train_mask & (graph.y >= 0)
    if unit.partition == "classes":
        return np.where(trained, graph.y, -1), {}
    x, cells = dense_rows(graph), unit.num_cells(1)
    if unit.partition == "declared":
        return np.where(trained, _declared(cells, graph, x, trained, kmeans), -1), {}
    if unit.partition == "directions":
        y = np.where(trained, graph.y, -1)
        return direction_cells(x, y, directions(graph.image_shape, graph.num_features), cells), {}
    shown = np.flatnonzero(graph.train_mask)[:public_rows]
    centroids = _centroids(x[shown], graph.y[shown], graph.num_classes, cells)
    trained[shown] = False
    return centroid_cells(x, np.where(trained, graph.y, -1), centroids), {CENTROIDS: centroids}


def cells_key(unit: Unit, graph: Graph, public_rows: int = 0, *, kmeans: bool = False) -> str:
    """Return a digest of the public values that decide cells, for one unit and its records; empty where there are none."""
    if unit.partition not in ("directions", "centroids", "declared"):
        return ""
    decided: tuple[Any, ...] = (graph.image_shape, graph.num_features)
    if unit.partition == "centroids":
        decided = tuple(np.flatnonzero(graph.train_mask)[:public_rows].tolist())
    elif unit.partition == "declared":
        column = graph.train_mask if kmeans else graph.cells
        decided = (kmeans, None if column is None else column.tolist())
    return hashlib.sha256(repr(decided).encode()).hexdigest()


def directions(image_shape: tuple[int, int, int] | None, num_features: int) -> NDArray[np.float64]:
    """Return three public random directions, of mean 0 and norm 1 each, smooth for images, [3, num_features]."""
    drawn = np.random.default_rng(_SEED).standard_normal((_DIRECTIONS, *(image_shape or (num_features,))))
    if image_shape is not None:
        drawn = gaussian_filter(drawn, (0, 0, _SMOOTH, _SMOOTH))
    flat: NDArray[np.float64] = drawn.reshape(_DIRECTIONS, -1)
    flat -= flat.mean(1, keepdims=True)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    return flat


def _declared(
    cells: int, graph: Graph, x: NDArray[np.float32], trained: NDArray[np.bool_], kmeans: bool
) -> NDArray[np.int64]:
    if not kmeans:
        if graph.cells is None or graph.cells.max() >= cells:
            raise DataError(
                f"Expected {graph.name!r} to declare the cell of each record, numbers below {cells}, got none or larger "
                "ones. Give it cells, or choose another partition."
            )
        return graph.cells
    assert graph.y is not None
    each = cells // graph.num_classes
    found = np.full(graph.num_nodes, -1, np.int64)
    for label in range(graph.num_classes):
        own = np.flatnonzero(trained & (graph.y == label))
        if len(own):
            found[own] = label * each + _clusters(x[own], min(each, len(own))).labels_
    return found


def _centroids(x: NDArray[np.float32], y: NDArray[np.int64], num_classes: int, cells: int) -> NDArray[np.float32]:
    for label, count in enumerate(np.bincount(y[y >= 0], minlength=num_classes)):
        if count < cells:
            raise DataError(
                f"Expected at least {cells} public images of every class, one for each cell, but class {label} has {count}. "
                "Declare more public, or ask for fewer cells."
            )
    found = [_clusters(x[y == label], cells).cluster_centers_ for label in range(num_classes)]
    return np.stack(found).astype(np.float32)


def _clusters(x: NDArray[np.float32], count: int) -> Any:
    from sklearn.cluster import KMeans

    return KMeans(count, n_init=1, random_state=_SEED).fit(x)
