"""What a page about an experiment shows of its rows: means and intervals, never the value of a single fit.

A file of recorded results (JSON lines) holds it for any number of experiments: a line about the whole of each, and one for
each row of its table. Published numbers, roles and comments are not repeated there; they come from the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError
from sfumato.experiments._results import Line, lines_of, sum_up
from sfumato.record.ledger import canonical_json
from sfumato.scoring._scores import Summary

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row
    from sfumato.experiments._spec import Spec

_OF_A_CERTIFICATE = ("assumptions", "caveats", "notes")
_DIGITS = 5  # of scores, which are shares


@dataclass(frozen=True)
class Skipped:
    """Fits of one row that were not run for one reason, and how many they are."""

    label: str
    epsilon: float | None
    at: Any
    reason: str
    fits: int


@dataclass(frozen=True)
class Measured:
    """The results of an experiment, summed up.

    ``lines`` are what was measured or published, in the order of the runs. ``seeds`` are those of the run that has the most,
    ``words`` the assumptions, caveats and notes of its certificates, each once. ``teachers`` is the longest time in which those
    of a seed were trained.
    """

    lines: tuple[Line, ...]
    done: int = 0
    seeds: int = 0
    quick: bool = False
    date: str | None = None
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    teachers: float | None = None

    @classmethod
    def of(cls, spec: Spec, rows: Sequence[Row], date: str | None = None) -> Measured:
        """Sum up the rows of a specification, done and skipped."""
        done = [row for row in rows if row["status"] == "done"]
        lines = sum_up(spec, rows)
        teachers = [row["seconds"]["teachers"] for row in done if "answered" in row["metrics"]]
        quick = bool(rows) and all(row["profile"] == "quick" for row in rows)
        seeds: dict[str, set[int]] = {}
        for row in rows:
            seeds.setdefault(row["label"], set()).add(row["seed"])
        most = max(map(len, seeds.values()), default=0)
        words, skipped = tuple(_words(lines)), tuple(_skipped(rows))
        return cls(lines, len(done), most, quick, date, _versions(rows), words, skipped, max(teachers, default=None))

    def to_jsonl(self, spec: Spec) -> Iterator[dict[str, Any]]:
        """Yield the objects of a file of recorded results: first that of the whole, then one for each line that was run."""
        name, whole = {"experiment": spec.name}, asdict(replace(self, lines=()))
        kept = {
            key: value
            for key, value in whole.items()
            if value is not None and value is not False and value not in ((), {})
        }
        yield {**name, "dataset": spec.dataset, **kept}
        for line in self.lines:
            if line.score is not None:
                yield {**name, **_plain(line)}

    @classmethod
    def from_jsonl(cls, spec: Spec, objects: Sequence[dict[str, Any]]) -> Measured:
        """Read what :meth:`to_jsonl` wrote, beside the published numbers of the specification as it is now."""
        whole, *rows = [dict(one) for one in objects]
        del whole["experiment"], whole["dataset"]
        made = [_line(row) for row in rows]
        found = {(line.label, line.epsilon, repr(line.at)): line for line in made}
        whole["skipped"] = tuple(Skipped(**one) for one in whole.get("skipped", ()))
        whole["words"] = tuple(whole.get("words", ()))
        return cls(lines_of(spec, found), **whole)


def read_recorded(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Read a file of recorded results: the objects of each experiment, by its name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            values = json.loads(text)
            found.setdefault(values["experiment"], []).append(values)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"Expected line {number} of {path} to be an object that names its experiment. Correct or remove the line."
            ) from error
    return found


def recorded_text(path: str | Path, spec: Spec, measured: Measured) -> str:
    """Return the text of a file of recorded results in which those of ``spec`` are replaced, or added to the others."""
    found = read_recorded(path) if Path(path).exists() else {}
    found[spec.name] = list(measured.to_jsonl(spec))
    return "".join(canonical_json(one) + "\n" for name in sorted(found) for one in found[name])


def _plain(line: Line) -> dict[str, Any]:
    score = line.score
    assert score is not None
    certificate = None
    if line.certificate is not None:
        releases = [{key: one[key] for key in ("name", "event")} for one in line.certificate["releases"]]
        certificate = {**{key: line.certificate[key] for key in ("protects", "claim")}, "releases": releases}
    values = {
        "run": line.label, "epsilon": line.epsilon, "at": line.at, "seeds": score.seeds, "mean": round(score.mean, _DIGITS),
        "low": _round(score.low), "high": _round(score.high), "macro_f1": _round(line.macro_f1),
        "seconds": _round(line.seconds, 3), "peak_mb": _round(line.peak_mb, 1), "certificate": certificate,
        "answers": line.answers, "curves": line.curves,
    }  # fmt: skip
    return {key: value for key, value in values.items() if value is not None}


def _line(values: dict[str, Any]) -> Line:
    score = Summary(values["mean"], values.get("low"), values.get("high"), values["seeds"])
    costs = values.get("macro_f1"), values.get("seconds"), values.get("peak_mb"), values.get("certificate")
    where = values["run"], "", "", values.get("epsilon"), values.get("at")
    return Line(*where, score, *costs, None, values.get("answers"), values.get("curves"))


def _round(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None else round(value, digits)


def _words(lines: Sequence[Line]) -> Iterator[str]:
    found = [line.certificate for line in lines if line.certificate is not None]
    words = dict.fromkeys(word for values in found for key in _OF_A_CERTIFICATE for word in values.get(key, ()))
    public = dict.fromkeys(one for values in found for one in values["assumed_public"])
    yield from words
    yield from (f"Assumed public, read from the data: {one}." for one in public)


def _skipped(rows: Sequence[Row]) -> Iterator[Skipped]:
    groups: dict[tuple[str, float | None, Any, str], int] = {}
    for row in rows:
        if row["status"] == "skipped":
            key = row["label"], row["epsilon"], row["at"], str(row["reason"])
            groups[key] = groups.get(key, 0) + 1
    return (Skipped(*where, fits) for where, fits in groups.items())


def _versions(rows: Sequence[Row]) -> dict[str, list[str]]:
    names = sorted({name for row in rows for name in row["versions"]})
    found = {
        "Sfumato": {row["version"] for row in rows},
        **{name.capitalize(): {str(row["versions"].get(name)) for row in rows} for name in names},
        "Device": {row["device"] for row in rows},
        "Specification": {row["spec_hash"][:16] for row in rows},
    }
    return {name: sorted(values) for name, values in found.items() if values}
