"""Histories of edges that are charged to a ledger: once for all days, and for every model of any of them.

``charge.json`` in the folder of a history says what was charged; ``released.npz`` is what was released, through which day. The
ledger has a mark for each day, written before the day was drawn. Whoever draws a day again shows the same mark, and the same
noise; so a second mark, or a second release of one day, means that the claim was spent twice. ``released.npz`` and every model
publish the marks of their days: each of them must be that of the ledger.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._claim import claim_faults
from ._daily import MARKS
from ._documents import canonical, differences, one_line, parse
from ._epsilon import SAMPLER_TAU
from ._methods import rules_of
from ._plan import unfit
from ._population import METHOD, population_faults
from ._releases import release_faults
from ._tensors import read_tensors
from ._units import unit_form_faults

if TYPE_CHECKING:
    from ._ledger_lines import Entry

CHARGE, RELEASED = "charge.json", "released.npz"
_DAY = "day "


class Model(Protocol):
    """A release that was trained on a history."""

    @property
    def folder(self) -> Path: ...
    @property
    def certificate(self) -> Entry: ...
    @property
    def plan(self) -> str: ...


@dataclass(frozen=True)
class History:
    """A history in its folder: what a certificate would say of it, the hash of its plan, and what was released by which day."""

    folder: Path
    certificate: Entry
    plan: str
    day: int
    digest: str
    marks: tuple[str, ...]
    spec: Entry = field(default_factory=dict)


def history_folders(named: Sequence[Path], runs: Sequence[Path]) -> list[Path]:
    """Return the folders of histories that are charged: those that are named, and all below others, each once."""
    below = (path.parent for folder in runs for path in sorted(folder.rglob(CHARGE)))
    return list({path.resolve(): path for path in [*named, *below] if (path / CHARGE).is_file()}.values())


def read_history(folder: Path) -> History | str:
    """Read a history and derive its claim from its events; return the first problem, if there is one."""
    name, problems = one_line(str(folder)), list[str]()
    charge = parse(CHARGE, {CHARGE: (folder / CHARGE).read_bytes()}, "charged_history", problems)
    day, digest, marks = _released(folder / RELEASED, problems)
    if charge is None:
        return f"{name}: {problems[0]}"
    plan = charge["plan"]
    certificate = {
        "format": 3,
        **{key: charge[key] for key in ("settings", "public_facts", "budget")},
        **{key: value for key, value in plan.items() if key != "delta_sampler"},
        "accounting": {"method": "pld", "delta_sampler": plan["delta_sampler"], "sampler_tau": SAMPLER_TAU},
    }
    problems.extend(text.replace("certificate.json", CHARGE) for text in _faults(certificate))
    line = {"index": 0, "previous": "0" * 64, "kind": "plan", "plan": plan}
    head = hashlib.sha256(canonical(line)).hexdigest()
    return f"{name}: {problems[0]}" if problems else History(folder, certificate, head, day, digest, marks)


def _faults(certificate: Entry) -> Iterator[str]:
    rules = rules_of(certificate["method"])
    strange = list(unit_form_faults(certificate["unit"])) or unfit(certificate, rules)
    yield from strange
    if "history" not in certificate:
        yield "certificate.json: plan.history: is missing"
    if strange or rules is None:
        return
    yield from population_faults(certificate)
    yield from rules.faults(certificate)
    yield from release_faults(certificate, rules)
    yield from claim_faults(certificate)[0]


def _released(path: Path, problems: list[str]) -> tuple[int, str, tuple[str, ...]]:
    """Return the day through which a history was released, 0 before the first, the SHA-256 of what was, and the marks."""
    if not path.exists():
        return 0, "", ()
    try:
        content = path.read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            day, marks = int(stored["day"]), _hexadecimal(stored["marks"])
        if len(marks) != day:
            raise ValueError("a mark for each day")
        return day, hashlib.sha256(content).hexdigest(), marks
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile):
        problems.append(f"{RELEASED}: cannot be read; remove it: it is made again from the days")
        return 0, "", ()


def _hexadecimal(marks: NDArray[np.int64]) -> tuple[str, ...]:
    """Return marks as the ledger has them."""
    return tuple(row.astype(">i8").tobytes().hex() for row in marks.reshape(-1, 4))


def history_faults(
    claim: Entry, kept: Sequence[History], models: Sequence[Model], entries: Sequence[Entry]
) -> Iterator[str]:
    """Yield a problem for a history and models that are not those of its claim, or of days without a mark in the ledger."""
    whole: list[History | Model] = [*kept, *models]
    settings = _settings(whole[0])
    for one in whole:
        where = f"(compared with {one_line(str(one.folder))})"
        yield from (f"{text} {where}" for text in differences(claim["plan"], one.plan, "claim.plan"))
        yield from (f"{text} {where}" for text in differences(settings, _settings(one), "settings"))
    spent = [entry for entry in entries if entry["kind"] == "spent" and entry["run"] == claim["run"]]
    marked = {entry["what"]: entry["mark"] for entry in spent}
    seen: dict[tuple[str, int], str] = {}
    for one in whole:
        day, name = _day(one), one_line(str(one.folder))
        lost = next((number for number in range(1, day + 1) if f"{_DAY}{number}" not in marked), None)
        if lost is not None:
            yield f"{name} is released through day {day}, and no line marks day {lost}: it was drawn uncharged, or lines are lost"
        wrong = (n for n, mark in enumerate(_marks(one), 1) if marked.get(f"{_DAY}{n}", mark) != mark)
        if (other := next(wrong, None)) is not None:
            yield (
                f"{name} has another mark of day {other} than the ledger: noise was drawn twice under one claim, for other edges "
                "of that day or of one before"
            )
        kind, digest = _told(one)
        if seen.setdefault((kind, day), digest) != digest:
            yield f"{name} holds another release of day {day} than a copy of this history: noise was drawn twice under one claim"


def _settings(one: History | Model) -> dict[str, Any]:
    return {**one.certificate["settings"], "day": None}


def _day(one: History | Model) -> int:
    stated = one.certificate["settings"]
    return one.day if isinstance(one, History) else int(stated["day"] or stated["days"])


def _marks(one: History | Model) -> tuple[str, ...]:
    if isinstance(one, History):
        return one.marks
    found = read_tensors(one.folder / "release" / "model.safetensors", []) or {}
    return _hexadecimal(found[MARKS].array()) if MARKS in found else ()


def _told(one: History | Model) -> tuple[str, str]:
    """Where a release is kept, as rows of the history or of a model of it, and its SHA-256."""
    if isinstance(one, History):
        return RELEASED, one.digest
    path = one.folder / "release" / "releases.safetensors"
    return path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def of_history(one: Entry) -> str | None:
    """Return the name under which a certificate says that its history is charged."""
    name: str | None = one.get("history")
    return name if one["method"] == METHOD else None
