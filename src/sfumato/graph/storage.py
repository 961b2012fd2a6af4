"""A graph on disk: one .npy file an array, and graph.json; memory-mapped when read."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato.errors import DataError
from sfumato.graph.arcs import check_arcs

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph

FORMAT = 1
_PLAIN = ("directed", "name", "max_degree", "mean_degree", "merged")
_TUPLES = ("classes", "feature_names", "assumed_public")


def save_graph(graph: Graph, directory: Path) -> Path:
    """Write ``graph`` into a new ``directory``; nothing is left behind if it fails."""
    if directory.exists():
        raise DataError(f"Expected {directory} not to exist yet. Choose another folder or remove it first.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        arrays = _arrays(graph)
        for name, array in arrays.items():
            np.save(partial / f"{name}.npy", array, allow_pickle=False)
        facts: dict[str, Any] = {name: getattr(graph, name) for name in _PLAIN + _TUPLES}
        facts |= {"format": FORMAT, "arrays": sorted(arrays), "num_features": graph.num_features}
        (partial / "graph.json").write_text(json.dumps(facts, sort_keys=True, indent=1) + "\n", encoding="utf-8")
        partial.chmod(0o755)
        partial.rename(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return directory


def load_graph(cls: type[Graph], directory: Path, mmap: bool) -> Graph:
    """Read a graph that :func:`save_graph` wrote."""
    facts = _facts(directory / "graph.json")
    arrays: dict[str, Any] = {name: _array(directory / f"{name}.npy", mmap) for name in facts["arrays"]}
    if "x_data" in arrays:
        shape = (len(arrays["indptr"]) - 1, facts["num_features"])
        arrays["x"] = sp.csr_matrix((arrays.pop("x_data"), arrays.pop("x_indices"), arrays.pop("x_indptr")), shape)
    indptr, indices = check_arcs(arrays.pop("indptr"), arrays.pop("indices"))
    fields: dict[str, Any] = {name: facts[name] for name in _PLAIN}
    fields |= {name: tuple(facts[name]) for name in _TUPLES}
    checked = (indptr, indices, fields["directed"], fields["max_degree"], arrays.get("x"), arrays.get("node_ids"))
    return cls(indptr, indices, **arrays, **fields, _checked=checked)


def _arrays(graph: Graph) -> dict[str, np.ndarray]:
    arrays: dict[str, Any] = {"indptr": graph.indptr, "indices": graph.indices, "y": graph.y}
    arrays |= {"node_ids": graph.node_ids, "roles": graph.roles}
    if isinstance(graph.x, sp.csr_matrix):
        arrays |= {"x_data": graph.x.data, "x_indices": graph.x.indices, "x_indptr": graph.x.indptr}
    else:
        arrays["x"] = graph.x
    return {name: array for name, array in arrays.items() if array is not None}


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"Expected a saved graph, but {path} is missing. Pass a folder of Graph.save.") from None
    except ValueError as error:
        raise DataError(f"Expected {path} to be JSON, got: {error}. Save the graph again.") from None
    known = {*_PLAIN, *_TUPLES, "format", "arrays", "num_features"}
    if not isinstance(facts, dict) or facts.get("format") != FORMAT or set(facts) != known:
        raise DataError(f"Expected {path} to describe a graph of format {FORMAT}. Save the graph again.")
    return facts


def _array(path: Path, mmap: bool) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="c" if mmap else None, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"Expected {path} to be a whole .npy file, got: {reason}. Save the graph again.") from None
