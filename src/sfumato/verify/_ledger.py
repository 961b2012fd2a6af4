"""The ledger of a data set, checked against the releases that it was charged for: :func:`verify_ledger`.

Every line is read again, and every claim is derived again from the certificate of its run. So the sum in the verdict rests
on events, not on what the ledger says of itself. A claim whose run has released nothing counts in full.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ._arrivals import batches
from ._charged_arrivals import arrival_faults, uncharged
from ._charges import Sum, draws_of, exact, mu_of, shown
from ._documents import differences, loads, one_line, parse, plain
from ._folder import VerifyInputError
from ._histories import History, history_faults, history_folders, of_history, read_history
from ._ledger_lines import Entry, dates, entries_of, head_faults, kind_faults, mark_faults
from ._population import STATED
from ._verifier import Verification, verify


@dataclass(frozen=True)
class Run:
    """A release that was found: its folder, what :func:`~sfumato.verify._verifier.verify` says of it, and its documents."""

    folder: Path
    verdict: Verification
    certificate: Entry
    spec: Entry
    plan: str
    release: str
    """SHA-256 of its manifest: two copies of one release are one."""


@dataclass(frozen=True)
class Line:
    """A run as its ledger has it: verified, stopped (it released nothing), reserved (no noise was drawn) or missing."""

    number: int
    claim: Entry
    state: str
    at: str | None = None
    folder: str | None = None
    window: str | None = None


@dataclass(frozen=True)
class LedgerVerification:
    """The result of :func:`verify_ledger`; ``valid`` means that no problems were found.

    Args:
        valid: whether there are no problems.
        problems: each problem, as text that names line or folder.
        header: the first line: unit, data set, totals and rule; None if it cannot be read.
        lines: the runs, in order.
        spent: each sum over all runs, rounded up, and its total.
        aside: releases that were found beside those of the ledger, and are in no sum.
    """

    valid: bool
    problems: tuple[str, ...]
    header: Entry | None = None
    lines: tuple[Line, ...] = ()
    spent: dict[str, tuple[str, str]] = field(default_factory=dict)
    aside: tuple[str, ...] = ()


def verify_ledger(file: Path, runs: Sequence[Path] = (), public_key: Path | None = None) -> LedgerVerification:
    """Check the ledger of a data set, every run that it names, and that all of them together are within its totals.

    A run is looked for in the folder that its line names, relative to the ledger, and under the folders ``runs``.

    **Formal guarantee.** If the ledger is valid, the releases of its runs together satisfy (1.001 * total_epsilon,
    total_delta)-DP under its unit, as far as each run does by :func:`~sfumato.verify._verifier.verify`; of a
    population through all its snapshots. With windows a record is an edge in one of them. Releases that were never charged here,
    and are not among ``runs``, show nowhere.

    >>> verify_ledger(Path("no-such-ledger"))
    Traceback (most recent call last):
    sfumato.verify._folder.VerifyInputError: Expected the file of a ledger, got 'no-such-ledger', which is none.
    """
    file = Path(file)
    if not file.is_file():
        raise VerifyInputError(f"Expected the file of a ledger, got {str(file)!r}, which is none.")
    problems: list[str] = []
    entries = entries_of(file, problems)
    problems.extend(head_faults(file, entries))
    if not entries or entries[0]["kind"] != "header":
        problems.append("line 1: expected the header of a ledger of a data set")
        return LedgerVerification(False, tuple(problems))
    header, lines, taken = entries[0]["header"], [], set[str]()
    found: dict[Path, Run | History | str] = {
        path.resolve(): _read(path, public_key) for path in _folders(file, entries, runs)
    }
    found |= {path.resolve(): read_history(path) for path in history_folders(_named(file, entries), runs)}
    histories = [one for one in found.values() if isinstance(one, History)]
    late = [run for one in found.values() if isinstance(one, Run) for run in _arrived(one)]
    whole = {run.folder.resolve(): run for run in [*(one for one in found.values() if isinstance(one, Run)), *late]}
    known = [run for run in whole.values() if "arrival" not in run.certificate]
    late = [run for run in whole.values() if "arrival" in run.certificate]
    problems.extend(text for text in found.values() if isinstance(text, str))
    problems.extend(kind_faults(entries))
    marked = {entry["run"] for entry in entries if entry["kind"] == "spent"}
    dataset = header["dataset"]
    for number, entry in enumerate(entries[1:], start=2):
        if entry["kind"] == "population":
            dataset = {"name": entry["name"], "population": True, **_cells(dataset)}
        if entry["kind"] not in ("run", "arrival"):
            continue
        claim, place = entry["claim"], file.parent / entry.get("folder", "")
        if entry["kind"] == "arrival":
            run = _match(claim["plan"], place, late, taken)
            faults = list(arrival_faults(entry, None if run is None else run.certificate))
            if run is not None:
                taken.add(run.release)
                faults += _run_faults(replace(run, spec={}), header, dataset, entry)
            begun = [place, *(one.folder / "arrivals" / place.name for one in known)]
            told = isinstance(found.get(_of_run(place).resolve()), str)  # the run has its own problem
            if run is not None or not (told or any(_stopped(path, claim["plan"], empty=True) for path in begun)):
                problems.extend(f"line {number}: {text}" for text in faults)
            continue
        kept = [one for one in histories if of_history(one.certificate) == claim["run"]]
        models = [one for one in known if of_history(one.certificate) == claim["run"]]
        if kept or models:
            taken |= {run.release for run in models}
            family: list[Run | History] = [*kept, *models]
            faults = [text for one in family for text in _run_faults(one, header, dataset, entry)]
            faults += history_faults(claim, kept, models, entries)
            problems.extend(f"line {number}: {text}" for text in faults)
            state = "verified" if claim["run"] in marked else "reserved"
            lines.append(Line(number, claim, state, entry.get("at"), entry.get("folder"), entry.get("window")))
            continue
        run = _match(claim["plan"], place, known, taken)
        state = "verified"
        if run is None:
            drawn = claim["run"] in marked or header["format"] == 1
            state = "missing" if drawn else "reserved"
            if "folder" in entry and _stopped(place, claim["plan"]):
                state = "stopped"
            elif drawn and not isinstance(found.get(_of_run(place).resolve()), str):  # else its own problem is told
                problems.append(
                    f"line {number}: the release of this run was not found, so its claim cannot be derived again. Put its folder "
                    "back, or name the folder that holds it with --runs"
                )
        else:
            taken.add(run.release)
            problems.extend(f"line {number}: {text}" for text in _run_faults(run, header, dataset, entry))
            if run.certificate["releases"] and header["format"] > 1:
                problems.extend(
                    f"line {number}: {text}" for text in mark_faults(claim["run"], run.certificate, entries)
                )
        lines.append(Line(number, claim, state, entry.get("at"), entry.get("folder"), entry.get("window")))
    aside, charged = list(dates(entries)), {line.claim["run"] for line in lines}
    for one in histories:
        if of_history(one.certificate) not in charged:
            same = _reads(one, header, dataset, entries)
            text = f"{one_line(str(one.folder))}: this history has no line in this ledger"
            (problems if same else aside).append(
                text + (", whose population it names" if same else ": it is in no sum")
            )
    for run in known:
        if run.release not in taken:
            same = _reads(run, header, dataset, entries)
            text = f"{one_line(str(run.folder))}: this release is not charged in this ledger"
            (problems if same else aside).append(text + (", whose data set it reads" if same else ": it is in no sum"))
    plans = {line.claim["plan"] for line in lines} | {
        run.plan for run in known if _reads(run, header, dataset, entries)
    }
    here, elsewhere = uncharged(late, taken, plans)
    problems.extend(here)
    aside.extend(elsewhere)
    spent: dict[str, tuple[str, str]] = {}
    for window, claims in _accounts(header, lines).items():
        problems.extend(f"{window}: {text}" if window else text for text in Sum(header).faults(claims))
        sums = Sum(header).spent(claims)
        spent |= {f"{name} in {window}" if window else name: one for name, one in sums.items()}
    return LedgerVerification(
        not problems, tuple(problems), {**header, "dataset": dataset}, tuple(lines), spent, tuple(aside)
    )


def _accounts(header: Entry, lines: list[Line]) -> dict[str, list[Entry]]:
    """The claims of each window, of which each has the totals for itself; all of them where a ledger has no windows."""
    if "windows" not in header:
        return {"": [line.claim for line in lines]}
    names = sorted({line.window or "no window" for line in lines})
    return {name: [line.claim for line in lines if (line.window or "no window") == name] for name in names}


def _cells(dataset: Entry) -> Entry:
    return {"cells": dataset["cells"]} if "cells" in dataset else {}


def _folders(file: Path, entries: list[Entry], runs: Sequence[Path]) -> list[Path]:
    """The folders of runs with a release: those that lines name, and all below others, each once."""
    named = _named(file, entries)
    for folder in map(Path, runs):
        if not folder.is_dir():
            raise VerifyInputError(f"Expected a folder of runs, got {str(folder)!r}, which is none.")
        below = (path.parents[1] for path in folder.rglob("release/manifest.json"))
        named += sorted({_of_run(path) for path in below})
    return list({path.resolve(): path for path in named if (path / "release" / "manifest.json").is_file()}.values())


def _named(file: Path, entries: list[Entry]) -> list[Path]:
    """The folders that lines name; for nodes that arrived that of the run, with which they are checked."""
    return [_of_run(file.parent / entry["folder"]) for entry in entries if "folder" in entry]


def _of_run(path: Path) -> Path:
    """The folder of the run in which a release stands, as one of nodes that arrived does; its own folder elsewhere."""
    inside = path.parent.name == "arrivals" and (path.parents[1] / "release" / "manifest.json").is_file()
    return path.parents[1] if inside else path


def _arrived(run: Run) -> Iterator[Run]:
    """The releases for nodes that arrived after a run, which were verified with it, and are charged to the ids of its graph."""
    yield from (replace(_found(folder, run.verdict), spec=run.spec) for folder in batches(run.folder))


def _read(folder: Path, public_key: Path | None) -> Run | str:
    name, verdict = one_line(str(folder)), verify(folder, public_key)
    if not verdict.valid:
        return f"{name}: {verdict.problems[0]}"
    return _found(folder, verdict)


def _found(folder: Path, verdict: Verification) -> Run:
    release, problems = folder / "release", list[str]()
    certificate, spec = (
        parse(f"{word}.json", {f"{word}.json": (release / f"{word}.json").read_bytes()}, word, problems)
        for word in ("certificate", "spec")
    )
    first = loads((release / "ledger.jsonl").read_bytes().partition(b"\n")[0])
    digest = hashlib.sha256((release / "manifest.json").read_bytes()).hexdigest()
    return Run(folder, verdict, certificate, spec, first["hash"], digest)


def _match(plan: str, place: Path, known: list[Run], taken: set[str]) -> Run | None:
    """The release of a plan that no line before has: in the folder that the line names, or in another."""
    free = [run for run in known if run.plan == plan and run.release not in taken]
    return min(free, key=lambda run: run.folder.resolve() != place.resolve(), default=None)


def _stopped(folder: Path, plan: str, empty: bool = False) -> bool:
    """Whether a folder holds the beginning of a run of this plan, and no release; one without a line counts if ``empty``."""
    path = folder / "release" / "ledger.jsonl"
    if not path.is_file() or path.with_name("manifest.json").exists():
        return False
    if not path.stat().st_size:
        return empty
    try:
        return bool(loads(path.read_bytes().partition(b"\n")[0])["hash"] == plan)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _run_faults(run: Run | History, header: Entry, dataset: Entry, entry: Entry) -> Iterator[str]:
    """Yield a problem if a line is not what the certificate of its run says."""
    certificate, claim = run.certificate, entry["claim"]
    stated = {
        "method": claim["method"],
        "claim": {name: claim[name] for name in ("epsilon", "delta")},
        "unit": header["unit"],
    }
    living = dataset.get("population") is True
    wanted = {name: certificate[name] for name in stated}
    windowed = {name: one[name] for name, one in (("windows", header), ("window", entry)) if name in one}
    totals = {name: header[name] for name in STATED}
    stated["population"] = {"name": dataset["name"], **totals, **windowed} if living else None
    wanted["population"] = certificate.get("population")
    graph = run.spec.get("graph")
    if graph is not None:
        snapshot = entry.get("snapshot", {}) if living else dataset
        stated["graph"] = {name: snapshot.get(name) for name in ("name", "ids_digest")}
        wanted["graph"] = {name: graph[name] for name in ("name", "ids_digest")}
    stated["draws"], wanted["draws"] = claim["draws"], draws_of(certificate["releases"])
    mu, implied = mu_of(claim["mu"], certificate["releases"])
    known = mu is not None and implied is not None and implied < math.inf  # rule basic adds up claims that have none
    if header["composition"] == "gdp" or known:
        stated["mu"], wanted["mu"] = mu, implied
    for name, value in stated.items():
        yield from (
            f"{text} (compared with {one_line(str(run.folder))})" for text in differences(value, wanted[name], name)
        )


def _reads(run: Run | History, header: Entry, dataset: Entry, entries: list[Entry]) -> bool:
    """Whether a release says that it reads the data set of a ledger."""
    if dataset.get("population") is True and run.certificate.get("population") is not None:
        return bool(run.certificate["population"]["name"] == dataset["name"])
    digests = {entry.get("snapshot", {}).get("ids_digest") for entry in entries} | {header["dataset"].get("ids_digest")}
    private = run.certificate["claim"]["epsilon"] is not None
    return private and (run.spec.get("graph") or {}).get("ids_digest") in digests - {None}


def describe_ledger(file: Path, result: LedgerVerification) -> str:
    """Describe a verdict about a ledger in plain words, one line for each finding."""
    lines = [f"{'VALID' if result.valid else 'NOT VALID'}: {one_line(str(file))}"]
    if result.header is not None:
        dataset, unit = result.header["dataset"], result.header["unit"]
        kind = "population" if dataset.get("population") is True else "data set"
        lines.append(
            f"{kind} {one_line(dataset['name'])}; unit: " + ", ".join(f"{key} {value}" for key, value in unit.items())
        )
    for line in result.lines:
        claim = line.claim
        where = f"line {line.number}: {one_line(line.folder or claim['run'][:8])}"
        where += f", {plain(line.window)}" if line.window else ""
        lines.append(
            f"{where}{f' of {line.at}' if line.at else ''}, {plain(claim['method'])}, epsilon {shown(exact(claim['epsilon']))}, "
            f"delta {shown(exact(claim['delta']))}: {line.state}"
        )
    if result.header is not None and "windows" in result.header:
        windows = result.header["windows"]
        lines.append(f"each {windows['period']} by column {one_line(windows['column'])} has the totals for itself")
    lines.extend(
        f"{name}: {spent} of {total} by rule {result.header['composition']}"
        for name, (spent, total) in result.spent.items()
        if result.header
    )
    lines.extend(f"beside it: {text}" for text in result.aside)
    return "\n".join([*lines, *(f"problem: {problem}" for problem in result.problems)])
