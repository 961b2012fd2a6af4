"""Arrays and facts are kept on disk as one .npy file an array and graph.json; arrays are memory-mapped when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from sfumato._blocks import MOST_HELD
from sfumato._files import whole_folder
from sfumato.errors import DataError
from sfumato.graph._packed import PackedRows

FORMAT = 3
"""Format 1 had the names of arrays alone; format 2 their types, shapes and SHA-256 digests; format 3 may have packed features."""
_FACTS = "graph.json"
_BLOCK = 1 << 24


class ArrayFile:
    """A .npy file that is written block after block; ``columns`` is the shape of a row."""

    def __init__(self, path: Path, dtype: Any, columns: tuple[int, ...] = ()) -> None:
        self._dtype, self._shape = np.dtype(dtype), (0, *columns)
        self._digest, self._file = hashlib.sha256(), path.open("wb")
        self._head()

    def append(self, block: np.ndarray) -> None:
        rows = np.ascontiguousarray(block, dtype=self._dtype)
        self._shape = (self._shape[0] + len(rows), *self._shape[1:])
        if rows.size:
            self._digest.update(rows.data)
            self._file.write(rows.data)

    def close(self) -> dict[str, Any]:
        """Return type, shape and digest of the array, now that its file is complete."""
        self._file.seek(0)
        self._head()
        self._file.close()
        return {"dtype": self._dtype.str, "shape": list(self._shape), "sha256": self._digest.hexdigest()}

    def _head(self) -> None:
        """Write the header, whose length is the same for any number of rows."""
        about = {"descr": self._dtype.str, "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._file, about)


def save_arrays(directory: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Path:
    """Write arrays and JSON facts into a new ``directory``; nothing is left behind if it fails."""
    if directory.exists():
        raise DataError(f"Expected {directory} not to exist yet. Choose another folder or remove it first.")
    with whole_folder(directory) as folder:
        write_facts(folder, facts, {name: write_array(folder, name, array) for name, array in arrays.items()})
    return directory


def write_array(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    file = ArrayFile(folder / f"{name}.npy", array.dtype, array.shape[1:])
    for start in range(0, len(array), _BLOCK):
        file.append(array[start : start + _BLOCK])
    return file.close()


def write_facts(folder: Path, facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write graph.json in ``folder``: the ``facts`` of a graph, and what :class:`ArrayFile` says of its ``arrays``."""
    said = {**facts, "format": FORMAT, "arrays": arrays}
    written = json.dumps({**said, "sha256": _digest(said)}, sort_keys=True, indent=1) + "\n"
    (folder / _FACTS).write_text(written, encoding="utf-8")


def load_arrays(
    directory: Path, known: Collection[str], absent: Mapping[str, Any], mmap: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = _facts(directory / _FACTS, known, absent)
    return {name: _array(directory / f"{name}.npy", mmap, about) for name, about in facts["arrays"].items()}, facts


def stored_rows(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    """Build the sparse rows that three stored arrays hold, and refuse columns out of range. SciPy's loops rely on this."""
    try:
        rows = sp.csr_matrix((data, indices, indptr), shape)
        rows.check_format(full_check=True)
    except ValueError as error:
        raise DataError(
            f"Expected the stored features to be sparse rows, got: {error}. Save the graph again."
        ) from None
    return rows


def features_apart(x: Any) -> dict[str, Any]:
    """Return the arrays that features are stored as, by name, of which any may be None."""
    if isinstance(x, PackedRows):
        return {"x": x.numbers, "x_codes": x.codes}
    return {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr} if sp.issparse(x) else {"x": x}


def stored_features(arrays: dict[str, Any], num_nodes: int, num_features: int, widths: Any) -> Any:
    """Take the stored arrays of features out of ``arrays``, and return the features: dense, sparse, packed or None."""
    x, codes, data, indices, indptr = (
        arrays.pop(f"x{part}", None) for part in ("", "_codes", "_data", "_indices", "_indptr")
    )
    if widths is not None:
        return PackedRows(x, codes, tuple(widths))
    if indices is None:
        return x
    data = np.ones(len(indices), np.float32) if data is None else data  # an import leaves out a row of ones
    return stored_rows(data, indices, indptr, (num_nodes, num_features))


def check_digests(directory: Path, report: Callable[[str, int, int], None] | None = None) -> None:
    """Read the facts and every array of a saved graph, and refuse one that is not as it was written."""
    facts = _facts(directory / _FACTS, (), {}, strict=False)
    if "sha256" in facts and facts["sha256"] != _digest({name: facts[name] for name in facts if name != "sha256"}):
        raise DataError(
            f"Expected {directory / _FACTS} to be as it was written, got other facts. Import the graph again."
        )
    for name, about in facts["arrays"].items():
        if about is None:
            raise DataError(f"Expected {directory} to hold digests, got a graph of format 1. Load and save it again.")
        array, digest = _array(directory / f"{name}.npy", True, about), hashlib.sha256()
        rows = max(1, _BLOCK * len(array) // max(1, array.size))
        for start in range(0, len(array), rows):
            digest.update(np.ascontiguousarray(array[start : start + rows]).data)
            if report is not None:
                report(f"check {name}", min(start + rows, len(array)), len(array))
        if digest.hexdigest() != about["sha256"]:
            raise DataError(
                f"Expected {directory / name}.npy to be as it was written, got other values. Import or save the graph again."
            )


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _facts(path: Path, known: Collection[str], absent: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"Expected a saved graph, but {path} is missing. Pass a folder that `sfumato data import` or Graph.save wrote."
        ) from None
    except ValueError as error:
        raise DataError(f"Expected {path} to be JSON, got: {error}. Save the graph again.") from None
    if isinstance(facts, dict):
        facts = {**absent, **facts}
        if facts.get("format") == 1 and isinstance(facts.get("arrays"), list):
            facts |= {"arrays": dict.fromkeys(facts["arrays"]), "format": FORMAT}
        if facts.get("format") == 2:
            facts["format"] = FORMAT
    wrong = not isinstance(facts, dict) or facts.get("format") != FORMAT or not isinstance(facts.get("arrays"), dict)
    if wrong or (strict and set(facts) - {"sha256"} != {*known, "format", "arrays"}):
        raise DataError(f"Expected {path} to describe a graph of format 1 to {FORMAT}. Save the graph again.")
    return facts


def _mode(path: Path) -> Literal["r", "c"]:
    """How a file is mapped: large ones for reading alone, since a map that can be written to counts as memory of the process."""
    private = path.stem in ("indptr", "y", "node_ids", "roles", "degree_bounds", "cells") or not path.exists()
    return "c" if private or path.stat().st_size <= MOST_HELD else "r"


def _array(path: Path, mmap: bool, about: Mapping[str, Any] | None) -> np.ndarray:
    try:
        array = np.asarray(np.load(path, mmap_mode=_mode(path) if mmap else None, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"Expected {path} to be a whole .npy file, got: {reason}. Save the graph again.") from None
    if about is not None and [array.dtype.str, *array.shape] != [about["dtype"], *about["shape"]]:
        raise DataError(
            f"Expected {path} to hold {about['dtype']} of shape {about['shape']}, as graph.json says, got {array.dtype.str} of "
            f"shape {list(array.shape)}. Save the graph again."
        )
    return array
