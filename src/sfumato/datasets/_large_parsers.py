"""Parsers of larger published graphs from their original files: Elliptic, Flickr, Reddit, Amazon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._pickles import read_npz, reading
from sfumato.datasets._parsers import edge_table, json_object, node_values, number_labels, whole
from sfumato.errors import DataError
from sfumato.graph._arcs import check_pointers, owners
from sfumato.graph._graph import Graph

_ELLIPTIC_COLUMNS = 167
_ELLIPTIC_CLASSES = ("illicit", "licit")
_ELLIPTIC_CODES = {"1": 0, "2": 1, "unknown": -1}
_AMAZON_COLUMNS = 100
_FLICKR_ROLES = ("tr", "va", "te")


def elliptic(folder: Path, _: str) -> Graph:
    """Read Bitcoin transactions. The target is licit or illicit; most have no label. Flows of money are read as undirected."""
    names = [f"elliptic_txs_{part}.csv" for part in ("features", "classes", "edgelist")]
    paths = _found(folder, names)
    with reading(paths[0]):
        table = np.loadtxt(paths[0], delimiter=",", ndmin=2)
        if table.shape[1] != _ELLIPTIC_COLUMNS:
            raise ValueError(f"{table.shape[1]} columns, not {_ELLIPTIC_COLUMNS}: an id, a time step and 165 numbers")
        ids = whole(table[:, 0], "ids")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("ids are not there once each")
    with reading(paths[1]):
        labels = np.loadtxt(paths[1], dtype=str, delimiter=",", skiprows=1, ndmin=2)
        if labels.shape != (len(ids), 2) or not {*labels[:, 1]} <= {*_ELLIPTIC_CODES}:
            raise ValueError("rows are not an id and 1, 2 or unknown, one for each transaction")
        y = np.full(len(ids), -2)
        y[_rows(ids, labels[:, 0].astype(np.int64))] = [_ELLIPTIC_CODES[code] for code in labels[:, 1]]
        if (y == -2).any():
            raise ValueError("a transaction has no row")
    with reading(paths[2]):
        ends = _rows(ids, edge_table(paths[2]))
    return Graph.from_edges(
        ends[:, 0], ends[:, 1], len(ids), directed=False, x=table[:, 1:], y=y,
        classes=_ELLIPTIC_CLASSES, node_ids=ids,
    )  # fmt: skip


def _rows(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    order = np.argsort(ids)
    rows: np.ndarray = order[np.searchsorted(ids, wanted, sorter=order).clip(max=len(ids) - 1)]
    if not np.array_equal(ids[rows], wanted):
        raise ValueError("an id is not among those of elliptic_txs_features.csv")
    return rows


def flickr(folder: Path, _: str) -> Graph:
    """Read pictures on Flickr in the form of GraphSAINT. The target is the kind of picture; roles are the published split."""
    names = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
    paths = _found(folder, names)
    source, target, num_nodes = _arcs(paths[0])
    with reading(paths[1]):
        x = np.load(paths[1], allow_pickle=False)
        if x.ndim != 2 or len(x) != num_nodes:
            raise ValueError(f"features of shape {x.shape} for {num_nodes} nodes of adj_full.npz")
    with reading(paths[2]):
        kinds = node_values(paths[2])
        if len(kinds) != num_nodes or not all(type(kind) is int and kind >= 0 for kind in kinds):
            raise ValueError(f"not one class number for each of {num_nodes} nodes")
        y, classes = number_labels(kinds)
    with reading(paths[3]):
        roles = _roles(json_object(paths[3]), num_nodes)
    return Graph.from_arcs(source, target, num_nodes, directed=False, x=x, y=y, classes=classes, roles=roles)


def _roles(lists: dict[str, Any], num_nodes: int) -> np.ndarray:
    """The role of each node, 3 for one that is in no list."""
    roles = np.full(num_nodes, 3, np.uint8)
    for role, name in enumerate(_FLICKR_ROLES):
        for node in lists[name]:
            if type(node) is not int or not 0 <= node < num_nodes or roles[node] != 3:
                raise ValueError(
                    f"expected integers from 0 to {num_nodes - 1}, each in one role at most, found another in {name}"
                )
            roles[node] = role
    return roles


def reddit(folder: Path, _: str) -> Graph:
    """Read posts on Reddit with all 57 million edges between them. The target is the community."""
    data_path, arcs_path = _found(folder, ("reddit_data.npz", "reddit_graph.npz"))
    source, target, num_nodes = _arcs(arcs_path)
    members = read_npz(data_path, "feature", "label")
    with reading(data_path):
        x, labels = members["feature"], members["label"]
        if x.ndim != 2 or len(x) != num_nodes or labels.shape != (num_nodes,):
            raise ValueError(f"feature {x.shape} and label {labels.shape} for {num_nodes} nodes of reddit_graph.npz")
        y, classes = number_labels(whole(labels, "labels", low=0))
    return Graph.from_edges(source, target, num_nodes, directed=False, x=x, y=y, classes=classes)


def _arcs(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Ends of the arcs and number of nodes of a matrix that SciPy saved, by coordinates or by compressed rows; 0 is no arc."""
    members: dict[str, Any] = read_npz(path, "row", "col", "indptr", "indices", "data", "shape", "format")
    with reading(path):
        num_nodes, columns = (int(size) for size in members["shape"])
        if num_nodes != columns:
            raise ValueError(f"a matrix of shape [{num_nodes}, {columns}], which is not square")
        form = "coo" if "row" in members else "csr"
        if "format" in members and members["format"].astype(str) != form:
            raise ValueError(f"expected a matrix of format {form}, found {members['format'].astype(str)}")
        if form == "coo":
            source, target = members["row"], members["col"]
        else:
            pointers, target = members["indptr"], members["indices"]
            if len(pointers) != num_nodes + 1 or pointers[-1] != len(target):
                raise ValueError(
                    f"expected {num_nodes + 1} row pointers that end at {len(target)}, "
                    f"found {len(pointers)} that end at {pointers[-1]}"
                )
            source = owners(check_pointers(pointers, len(target)))
        stored = members["data"] != 0
        if not len(stored) == len(source) == len(target):
            raise ValueError(
                f"{len(source)} sources, {len(target)} targets and {len(stored)} entries, not as many of each"
            )
        return (source, target, num_nodes) if stored.all() else (source[stored], target[stored], num_nodes)


def amazon(folder: Path, _: str) -> Graph:
    """Read products on Amazon that are bought together (ogbn-products). The target is the category."""
    names = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz")
    paths = _found(folder / "raw", names)
    with reading(paths[2]):
        y, classes = number_labels(whole(np.loadtxt(paths[2], ndmin=1), "labels", low=0))
    with reading(paths[1]):
        x = np.loadtxt(paths[1], dtype=np.float32, delimiter=",", ndmin=2)
        if x.shape != (len(y), _AMAZON_COLUMNS):
            raise ValueError(f"features of shape {x.shape}, not [{len(y)}, {_AMAZON_COLUMNS}]: one row for each label")
    with reading(paths[0]):
        edges = np.loadtxt(paths[0], dtype=np.int32, delimiter=",", ndmin=2)
        if edges.shape[1] != 2:
            raise ValueError(f"{edges.shape[1]} columns, not 2")
    return Graph.from_edges(edges[:, 0], edges[:, 1], len(y), directed=False, x=x, y=y, classes=classes)


def _found(folder: Path, names: Sequence[str]) -> list[Path]:
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"Expected {', '.join(names)} in {folder}, but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} "
            "not there."
        )
    return [folder / name for name in names]
