"""Arrays and facts are kept on disk as one .npy file an array and graph.json; arrays are memory-mapped when read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._files import whole_folder
from sfumato.errors import DataError

FORMAT = 1


def save_arrays(directory: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Path:
    """Write arrays and JSON facts into a new ``directory``; nothing is left behind if it fails.

    Args:
        directory: must not exist.
        arrays: the arrays by name.
        facts: facts that are JSON-ready.

    Raises:
        DataError: the directory exists.
    """
    if directory.exists():
        raise DataError(f"Expected {directory} not to exist yet. Choose another folder or remove it first.")
    with whole_folder(directory) as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        written = {**facts, "format": FORMAT, "arrays": sorted(arrays)}
        (folder / "graph.json").write_text(json.dumps(written, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    return directory


def load_arrays(
    directory: Path, known: Collection[str], absent: Mapping[str, Any], mmap: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the arrays and facts that :func:`save_arrays` wrote.

    Args:
        directory: the folder to read.
        known: the names of the facts that have to be there, and no others.
        absent: values of facts that old files lack.
        mmap: whether arrays stay on disk until they are read.

    Raises:
        DataError: a file is missing, damaged, or of another format.
    """
    facts = _facts(directory / "graph.json", known, absent)
    return {name: _array(directory / f"{name}.npy", mmap) for name in facts["arrays"]}, facts


def _facts(path: Path, known: Collection[str], absent: Mapping[str, Any]) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"Expected a saved graph, but {path} is missing. Pass a folder of Graph.save.") from None
    except ValueError as error:
        raise DataError(f"Expected {path} to be JSON, got: {error}. Save the graph again.") from None
    if isinstance(facts, dict):
        facts = {**absent, **facts}
    if not isinstance(facts, dict) or facts.get("format") != FORMAT or set(facts) != {*known, "format", "arrays"}:
        raise DataError(f"Expected {path} to describe a graph of format {FORMAT}. Save the graph again.")
    return facts


def _array(path: Path, mmap: bool) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="c" if mmap else None, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"Expected {path} to be a whole .npy file, got: {reason}. Save the graph again.") from None
