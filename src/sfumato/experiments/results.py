"""Results of an experiment: one JSON line a cell, read back, checked and summed up with an interval over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.evaluation import Summary
from sfumato.experiments.spec import Cell, Published, Spec

FILE = "results.jsonl"
_KEYS = {
    "id", "spec", "spec_hash", "profile", "label", "role", "method", "dataset", "split", "unit", "epsilon", "delta",
    "max_degree", "settings", "at", "seed", "status", "reason", "version", "versions", "device", "seconds", "peak_mb",
    "metrics", "certificate",
}  # fmt: skip
_CELL = ("spec", "label", "method", "dataset", "split", "unit", "epsilon", "delta", "max_degree", "settings", "at")
Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One table row or point: mean accuracy over seeds, each on a fresh split, with its 95 % t-interval (fractions).

    ``published`` is in percent. ``seconds`` and ``peak_mb`` are means: of a fit, and of the process that made it.
    """

    label: str
    role: str
    epsilon: float | None
    at: Any
    mean: float
    low: float | None
    high: float | None
    seeds: int
    published: Published | None
    seconds: float
    peak_mb: float
    macro_f1: float


def split_torn(content: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and what follows the last line end: a line that was being written when the process died.

    >>> split_torn(b'{"id": 1}\\n{"i')
    (b'{"id": 1}\\n', b'{"i')
    """
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def parse(content: bytes, path: str | Path) -> list[Row]:
    """Rows of whole lines.

    Raises:
        DataError: a line is not a result, or a cell appears twice.
    """
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not set(row) >= _KEYS or row["status"] not in ("done", "skipped"):
            raise DataError(
                f"Expected line {number} of {path} to be a result of this version. Move the file away to restart."
            )
        if row["id"] in seen:
            raise DataError(
                f"Expected every cell of {path} once, but line {number} repeats one. Remove one of the two lines."
            )
        seen.add(row["id"])
        rows.append(row)
    return rows


def read(path: str | Path) -> list[Row]:
    """Rows of a results file, or of the folder that holds it; a torn last line does not count.

    Raises:
        DataError: there is no such file, a line is not a result, or a cell appears twice.
    """
    path = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"Expected results at {str(path)!r}: {error.strerror}. Run `sfumato experiment run` first."
        ) from error
    return parse(split_torn(content)[0], path)


def belonging(rows: Sequence[Row], spec: Spec) -> list[Row]:
    """The rows of a specification as it is now, on its data set, with any number of seeds."""
    keys = {_key(cell.to_dict()) for cell in spec.cells()}
    return [row for row in rows if _key(row) in keys]


def summarize(rows: Sequence[Row], spec: Spec) -> tuple[Line, ...]:
    """Sum up finished cells, one line for each run, epsilon and varied value, in the order of the specification."""
    published = {(number.label, number.epsilon, number.at): number for number in spec.published}
    roles = {run.label: run.role for run in spec.runs}
    done: dict[str, list[Row]] = {}
    for row in rows:
        if row["status"] == "done":
            done.setdefault(_key(row), []).append(row)
    firsts = {_key(cell.to_dict()): cell for cell in spec.cells() if cell.seed == 0}
    return tuple(
        _line(cell, roles[cell.label], done[key], published.get((cell.label, cell.epsilon, cell.at)))
        for key, cell in firsts.items()
        if key in done
    )


def _line(cell: Cell, role: str, rows: Sequence[Row], published: Published | None) -> Line:
    score = Summary.of([row["metrics"]["accuracy"] for row in rows])
    seconds, peak, macro_f1 = (
        sum(values) / len(rows)
        for values in (
            [row["seconds"]["train"] for row in rows],
            [row["peak_mb"] for row in rows],
            [row["metrics"]["macro_f1"] for row in rows],
        )
    )
    where = cell.label, role, cell.epsilon, cell.at
    return Line(*where, score.mean, score.low, score.high, score.seeds, published, seconds, peak, macro_f1)


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps([values[name] for name in _CELL], sort_keys=True)
