"""Parsers of the published benchmark files: one function for each family makes a Graph from a folder and a name."""

from __future__ import annotations

import csv
import json
import warnings
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from sfumato._pickles import load_pickle, read_npz, reading
from sfumato.errors import DataError
from sfumato.graph._arcs import owners
from sfumato.graph._graph import Graph

_NPZ_PARTS = ("data", "indices", "indptr", "shape")
_FEATURE_IDS = 1_000_000
_EXACT = 2**53
_TRAFFIC_CLASSES = ("lowest traffic", "low traffic", "middle traffic", "high traffic", "highest traffic")


def require_nodes(keep: np.ndarray, min_class_size: int) -> int:
    if not keep.any():
        raise DataError(
            f"Expected a class of at least min_class_size={min_class_size} labelled nodes, found none. "
            "Lower min_class_size; 0 keeps every class."
        )
    return int(keep.sum())


def planetoid(folder: Path, name: str) -> Graph:
    """Read Cora, Citeseer or PubMed from the raw ``ind.*`` files, with the public split as roles."""
    parts: dict[str, Any] = {}
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph"):
        path = folder / f"ind.{name}.{part}"
        if part == "allx" and not path.exists():
            continue
        with reading(path), path.open("rb") as stream:
            parts[part] = load_pickle(stream, path)
    index_path = folder / f"ind.{name}.test.index"
    with reading(index_path):
        test = np.loadtxt(index_path, dtype=np.int64, ndmin=1)
    with reading(folder / f"ind.{name}.graph"):
        lists, num_nodes = parts["graph"], len(parts["graph"])
        source = np.repeat(np.fromiter(lists, np.int64), [len(targets) for targets in lists.values()])
        target = np.fromiter(chain.from_iterable(lists.values()), np.int64)
    with reading(index_path):
        first_rows = np.arange(len(parts["ally"]))
        row_of_node = np.full(num_nodes, -1)  # the last row below: zeros, for test nodes absent from tx
        row_of_node[np.concatenate((first_rows, test))] = np.arange(len(first_rows) + len(test))
        one_hot_labels = _rows([parts["ally"], parts["ty"]], row_of_node).toarray()
        x = _rows([parts["allx"], parts["tx"]], row_of_node) if "allx" in parts else None
    if x is None:
        warnings.warn(f"{folder} holds no ind.{name}.allx: loaded without features (x is None).", stacklevel=3)
    roles = np.full(num_nodes, 3, dtype=np.uint8)
    num_train = len(parts["y"])
    roles[:num_train], roles[num_train : num_train + 500], roles[test] = 0, 1, 2
    return Graph.from_edges(
        source,
        target,
        num_nodes,
        directed=False,
        x=x,
        y=np.where(one_hot_labels.any(axis=1), one_hot_labels.argmax(axis=1), -1),
        classes=tuple(map(str, range(one_hot_labels.shape[1]))),
        roles=roles,
    )


def _rows(blocks: list[Any], order: np.ndarray) -> scipy.sparse.csr_matrix:
    """Stack the blocks and a row of zeros, then take rows in ``order``."""
    stacked = [scipy.sparse.csr_matrix(block) for block in blocks]
    stacked.append(scipy.sparse.csr_matrix((1, stacked[0].shape[1])))
    return scipy.sparse.vstack(stacked, format="csr", dtype=np.float32)[order]


def npz(folder: Path, name: str) -> Graph:
    """Read a graph of the Cora-ML or co-author/Amazon kind; citations and co-purchases are read as undirected."""
    return _from_npz(folder / f"{name}.npz", directed=False)


def _from_npz(path: Path, *, directed: bool) -> Graph:
    prefixes = [f"{stem}_{matrix}" for stem in ("adj", "attr") for matrix in ("matrix.", "")]
    members = read_npz(
        path,
        *(prefix + part for prefix in prefixes for part in _NPZ_PARTS),
        *("adj_matrix", "node_attr", "labels", "node_label", "metadata", "class_names", "node_names", "attr_names"),
    )
    with reading(path):
        members = {**(members.get("metadata") or {}), **members}
        adjacency = _matrix(members, "adj_matrix", "adj")
        if adjacency is None:
            raise ValueError("no adjacency: neither adj_matrix nor adj_data")
        y = members["labels"] if "labels" in members else members["node_label"]
        classes = members.get("class_names")
        source, node_ids = owners(adjacency.indptr.astype(np.int64)), members.get("node_names")
        return Graph.from_edges(
            source,
            adjacency.indices,
            adjacency.shape[0],
            directed=directed,
            self_loops="keep" if directed else "remove",
            x=_matrix(members, "node_attr", "attr"),
            y=y,
            classes=tuple(classes if classes is not None else map(str, range(int(np.max(y)) + 1))),
            node_ids=None if node_ids is None else np.char.strip(np.asarray(node_ids, dtype=str)),
            feature_names=tuple(members.get("attr_names", ())),
        )


def _matrix(members: dict[str, Any], pickled: str, stem: str) -> scipy.sparse.csr_matrix | None:
    """The CSR matrix of an npz file: one pickled object, or its parts under ``stem_`` or ``stem_matrix.``."""
    if isinstance(members.get(pickled), scipy.sparse.csr_matrix):
        return members[pickled]
    for prefix in (f"{stem}_matrix.", f"{stem}_"):
        if all(prefix + part in members for part in _NPZ_PARTS):
            data, indices, indptr, shape = (members[prefix + part] for part in _NPZ_PARTS)
            matrix = scipy.sparse.csr_matrix((data, indices, indptr), shape=tuple(shape))
            matrix.check_format(full_check=True)
            return matrix
    return None


def musae(folder: Path, name: str) -> Graph:
    """Read a network of pages or users: features from JSON lists of ids, target page type, mature language, or binned traffic."""
    stem = name.rsplit("_", 1)[-1]
    features = _listed(folder / name / f"{stem}.json")
    return _from_csv(folder / name / f"{stem}_edges.csv", folder / name / f"{stem}_target.csv", features, traffic=True)


def lastfm_asia(folder: Path, _: str) -> Graph:
    """Read the users of LastFM in Asia. The target is the country; features are liked artists, if their file is there."""
    path = folder / "lastfm_asia_features.json"
    features = _listed(path) if path.exists() else None
    return _from_csv(folder / "lastfm_asia_edges.csv", folder / "lastfm_asia_target.csv", features, traffic=False)


def _listed(path: Path) -> scipy.sparse.csr_matrix:
    """A one for each id that the JSON object lists for a node."""
    with reading(path):
        lists = node_values(path)
        for ids in lists:
            if type(ids) is not list or not all(type(number) is int and 0 <= number < _FEATURE_IDS for number in ids):
                raise ValueError(f"expected for each node a list of integers from 0 to {_FEATURE_IDS - 1}")
        rows = np.repeat(np.arange(len(lists)), [len(ids) for ids in lists])
        columns = np.fromiter(chain.from_iterable(lists), np.int64)
        x = scipy.sparse.csr_matrix(
            (np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(len(lists), columns.max() + 1)
        )
        x.sum_duplicates()
        x.data[:] = 1
    return x


def node_values(path: Path) -> list[Any]:
    """The values of a JSON object whose keys are the nodes 0 to N-1, in the order of nodes."""
    values = json_object(path)
    if set(values) != set(map(str, range(len(values)))):
        raise ValueError(f"expected the node numbers 0 to {len(values) - 1} as keys, found others")
    return [values[str(node)] for node in range(len(values))]


def json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object, each of whose keys is there once."""
    content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_once)
    if type(content) is not dict:
        raise ValueError("expected one JSON object, found another value")
    return content


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("expected each key of a JSON object once, found one twice")
    return dict(pairs)


def whole(numbers: np.ndarray, what: str, *, low: int | None = None) -> np.ndarray:
    """Return numbers as int64 if all are integers below 2**53 in size and at least ``low``; ``what`` names them in the error."""
    fits = numbers.dtype.kind in "iuf" and (np.abs(numbers) < _EXACT) & (numbers == np.floor(numbers))
    if not np.all(fits) or (low is not None and (numbers < low).any()):
        raise ValueError(f"expected {what} to be integers{'' if low is None else f' >= {low}'}, found others")
    return numbers.astype(np.int64)


def edge_table(path: Path) -> np.ndarray:
    """Read the two ends of each edge, int64 [num_edges, 2], below a line that names the two columns."""
    with reading(path), path.open(encoding="utf-8") as stream:
        header, rows = stream.readline().split(","), [line for line in stream if line.strip()]
        if len(header) != 2 or not all(name.strip(' "\ufeff')[:1].isalpha() for name in header):
            raise DataError(
                f"Expected a header that names two columns in the first line of {path}, found none. "
                "Add a line such as id_1,id_2, or fetch the file again."
            )
        if not rows:
            raise DataError(f"Expected edges below the header of {path}, found none. Fetch the file again.")
        edges = np.loadtxt(rows, delimiter=",", ndmin=2, comments=None)
        if edges.shape[1] != 2:
            raise ValueError(f"expected 2 columns, found {edges.shape[1]}")
        return whole(edges, "the ends of edges")


def _from_csv(edges_path: Path, target_path: Path, x: scipy.sparse.csr_matrix | None, *, traffic: bool) -> Graph:
    """The graph of two tables; ``traffic`` says that a column called target is a number to be binned."""
    with reading(target_path):
        with target_path.open(encoding="utf-8", newline="") as stream:
            table = list(csv.DictReader(stream))
        ids = np.array([int(row.get("new_id", row["id"])) for row in table])
        column = next(name for name in ("page_type", "mature", "target") if name in table[0])
        if not all(row[column] and None not in row for row in table):
            raise ValueError(f"expected a {column} for each id and as many cells as in the header, found a row without")
        values = np.array([row[column] for row in table])[np.argsort(ids)]
        if not np.array_equal(np.sort(ids), np.arange(len(ids))):
            raise ValueError("ids are not 0 to N-1, each once")
        y, classes = _bin_traffic(values) if traffic and column == "target" else number_labels(values)
    edges = edge_table(edges_path)
    return Graph.from_edges(edges[:, 0], edges[:, 1], len(y), directed=False, x=x, y=y, classes=classes)


def _bin_traffic(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    traffic = values.astype(np.float64)
    return np.searchsorted(np.quantile(traffic, (0.2, 0.4, 0.6, 0.8)), traffic), _TRAFFIC_CLASSES


def number_labels(values: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number the distinct values, numbers in numeric order; an empty string is a missing label. Return numbers and names."""
    names = sorted({str(value) for value in values} - {""}, key=lambda name: (int(name) if name.isdigit() else 0, name))
    codes = {name: code for code, name in enumerate(names)}
    return np.array([codes.get(str(value), -1) for value in values]), tuple(names)


def directed(folder: Path, name: str) -> Graph:
    """Read e-mails (target department) or links between blogs (target side), whose arcs have a direction; self-loops stay."""
    if (folder / f"{name}.npz").exists():
        return _from_npz(folder / f"{name}.npz", directed=True)
    edges_path, label_path = folder / f"{name}.txt", folder / f"{name}-department-labels.txt"
    with reading(edges_path):
        arcs = np.loadtxt(edges_path, dtype=np.int64, ndmin=2)
    with reading(label_path):
        labels = np.loadtxt(label_path, dtype=np.int64, ndmin=2)
        y, classes = number_labels(labels[np.argsort(labels[:, 0]), 1])
    return Graph.from_edges(arcs[:, 0], arcs[:, 1], len(y), directed=True, self_loops="keep", y=y, classes=classes)
