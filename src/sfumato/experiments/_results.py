"""Results of an experiment: one JSON line a cell, read back, checked and summed up with an interval over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError
from sfumato.scoring._scores import Summary

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row
    from sfumato.experiments._spec import Published, Spec

FILE = "results.jsonl"
_KEYS = {
    "id", "spec", "spec_hash", "profile", "label", "role", "method", "dataset", "split", "unit", "epsilon", "delta",
    "max_degree", "settings", "at", "seed", "status", "reason", "version", "versions", "device", "seconds", "peak_mb",
    "metrics", "certificate",
}  # fmt: skip
CURVE_ROLES = ("train", "validation")
_POINTS = 40  # that are kept of the curve of a stage
_ANSWERS = (
    "answered",
    "noisy_label_accuracy",
    "plurality_accuracy",
    "published_epsilon",
    "data_independent_epsilon",
)
_CELL = ("spec", "label", "method", "dataset", "split", "unit", "epsilon", "delta", "max_degree", "settings", "at")


@dataclass(frozen=True)
class Line:
    """A table row or a point of a curve.

    ``score`` is accuracy, or AUC of link prediction, over seeds, each on a fresh split; None if a number was published but
    nothing was run. ``macro_f1``, ``seconds`` and ``peak_mb`` are means over fits, and ``answers`` of what teachers answered
    and what that cost. The certificate is that of the first result. ``curves`` hold by stage of training the number of its
    steps, some of them (``at``), and for each role the mean accuracy after these, with its interval.
    """

    label: str
    role: str
    unit: str
    epsilon: float | None
    at: Any
    score: Summary | None
    macro_f1: float | None
    seconds: float | None
    peak_mb: float | None
    certificate: Mapping[str, Any] | None
    published: Published | None
    answers: Mapping[str, float] | None = None
    curves: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def mean(self) -> float:
        """The mean score. Like ``low``, ``high`` and ``seeds``, it is there only if the line was run."""
        return self._run.mean

    @property
    def low(self) -> float | None:
        """The lower end of the interval; None for a single seed."""
        return self._run.low

    @property
    def high(self) -> float | None:
        """The upper end of the interval; None for a single seed."""
        return self._run.high

    @property
    def seeds(self) -> int:
        """The number of seeds that were run."""
        return self._run.seeds

    @property
    def _run(self) -> Summary:
        assert self.score is not None
        return self.score


def split_torn(content: bytes) -> tuple[bytes, bytes]:
    r"""Split whole lines from what follows the last line end: a line that was being written when the process died."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def parse(content: bytes, path: str | Path) -> list[Row]:
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not _sound(row):
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


def _sound(row: Any) -> bool:
    """Whether a line has every field, and those that are read have their types."""
    if not isinstance(row, dict) or not set(row) >= _KEYS or row["status"] not in ("done", "skipped"):
        return False
    if not isinstance(row["id"], str) or not all(
        isinstance(row[key], dict) for key in ("metrics", "seconds", "versions")
    ):
        return False
    if row["status"] == "skipped":
        return True
    numbers = [
        *(row["metrics"].get(key) for key in _measures(row)),
        row["seconds"].get("train"),
        row["peak_mb"],
    ]
    certificate = row["certificate"]
    if not _sound_curves(row["metrics"].get("curves", {})):
        return False
    return all(isinstance(one, (int, float)) and math.isfinite(one) for one in numbers) and (
        certificate is None
        or (isinstance(certificate, dict) and {"protects", "claim", "releases", "assumed_public"} <= set(certificate))
    )


def _measures(row: Row) -> tuple[str, ...]:
    """The names of a row's scores, the first of which tables and figures show."""
    return ("auc",) if "auc" in row["metrics"] else ("accuracy", "macro_f1")


def _sound_curves(curves: Any) -> bool:
    """Whether there is a list of shares for each stage and role."""
    if not isinstance(curves, dict) or not all(isinstance(roles, dict) for roles in curves.values()):
        return False
    found = [values for roles in curves.values() for values in roles.values()]
    return all(
        isinstance(values, list) and all(isinstance(one, (int, float)) and 0 <= one <= 1 for one in values)
        for values in found
    )


def read(path: str | Path) -> list[Row]:
    """Read the rows of a results file, or of the folder that holds it. A torn last line does not count."""
    path = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"Expected results at {str(path)!r}: {error.strerror}. Run `sfumato experiment run` first."
        ) from error
    return parse(split_torn(content)[0], path)


def belonging(rows: Sequence[Row], spec: Spec) -> list[Row]:
    """Return the rows of a specification as it is now, on its data set, with any number of seeds from the first of each run."""
    first = {_key(cell.to_dict()): cell.seed for cell in reversed(spec.cells())}
    return [row for row in rows if row["seed"] >= first.get(_key(row), math.inf)]


def summarize(rows: Sequence[Row], spec: Spec) -> tuple[Line, ...]:
    """Return the lines of what a specification ran on its data set; see :func:`sum_up`."""
    return tuple(line for line in sum_up(spec, belonging(rows, spec)) if line.score)


def sum_up(spec: Spec, rows: Sequence[Row]) -> tuple[Line, ...]:
    """Sum up the rows: a line for each run, epsilon and varied value that was run or published, in the order of the runs."""
    done: dict[tuple[str, float | None, str], list[Row]] = {}
    for row in rows:
        if row["status"] == "done":
            done.setdefault((row["label"], row["epsilon"], repr(row["at"])), []).append(row)
    return lines_of(spec, {key: _line(found) for key, found in done.items()})


def lines_of(spec: Spec, measured: Mapping[tuple[str, float | None, str], Line]) -> tuple[Line, ...]:
    """Return what was measured, by run, epsilon and ``at``, beside what was published, in the order of the runs."""
    published = {(one.label, one.epsilon, repr(one.at)): one for one in spec.published}
    lines: list[Line] = []
    for run in spec.runs:
        places = {repr(value): place for place, value in enumerate(run.values)}
        own = [key for key in dict.fromkeys([*published, *measured]) if key[0] == run.label]
        own.sort(key=lambda key: (places.get(key[2], -1), -1 if key[1] is None else key[1]))
        for key in own:
            line = measured.get(key) or Line(run.label, "", "", key[1], published[key].at, *(None,) * 6)
            lines.append(replace(line, role=run.role, unit=run.unit, published=published.get(key)))
    return tuple(lines)


def _line(rows: Sequence[Row]) -> Line:
    first, *others = _measures(rows[0])
    score = Summary.of([row["metrics"][first] for row in rows])
    macro_f1 = _mean([row["metrics"]["macro_f1"] for row in rows]) if others else None
    seconds, peak = _mean([row["seconds"]["train"] for row in rows]), _mean([row["peak_mb"] for row in rows])
    answered = "answered" in rows[0]["metrics"]
    answers = {name: _mean([row["metrics"][name] for row in rows]) for name in _ANSWERS} if answered else None
    where = rows[0]["label"], "", "", rows[0]["epsilon"], rows[0]["at"]
    certificate, curves = rows[0]["certificate"], [row["metrics"].get("curves") for row in rows]
    return Line(*where, score, macro_f1, seconds, peak, certificate, None, answers, _curves([c for c in curves if c]))


def _curves(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]] | None:
    """Sum up the seeds after some steps of each stage, for the roles that every seed has."""
    if not found:
        return None
    stages: dict[str, dict[str, Any]] = {}
    for stage in found[0]:
        curves = [one.get(stage, {}) for one in found]
        roles = [role for role in CURVE_ROLES if all(role in one for one in curves)]
        steps = min((len(one[role]) for one in curves for role in roles), default=0)
        at = sorted({round(k * (steps - 1) / (_POINTS - 1)) for k in range(_POINTS)}) if steps else []
        sums = {role: [Summary.of([one[role][k] for one in curves]) for k in at] for role in roles}
        means = {role: [[one.mean, one.low, one.high] for one in values] for role, values in sums.items()}
        stages[stage] = {"steps": steps, "at": [k + 1 for k in at], **means}
    return stages


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _key(values: Mapping[str, Any]) -> str:
    optional = values.get("curves", False), values.get("min_class_size")
    return json.dumps([*(values[name] for name in _CELL), *optional], sort_keys=True)
