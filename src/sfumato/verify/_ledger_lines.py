"""The lines of the ledger of a data set: their form, their chain, and that they fit each other. Part of the verifier."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._documents import canonical, differences, loads, parse, plain
from ._windows import header_faults, line_fault

Entry = dict[str, Any]
_FIRST = "0" * 64
_NOISE = "first noise"
_DAY, _MARK = re.compile("day [1-9][0-9]*"), re.compile("[0-9a-f]{32}|[0-9a-f]{64}")


def entries_of(file: Path, problems: list[str]) -> list[Entry]:
    """Read the lines up to the first that is not of a known form, or does not continue the chain."""
    entries: list[Entry] = []
    previous = _FIRST
    *whole, rest = file.read_bytes().split(b"\n")
    for number, line in enumerate(whole, start=1):
        where, faults = f"line {number}", list[str]()
        entry = parse(where, {where: line + b"\n"}, "dataset_ledger_entry", faults)
        if entry is not None:
            body = canonical({key: value for key, value in entry.items() if key != "hash"})
            stated = {key: entry[key] for key in ("index", "previous", "hash")}
            wanted = {"index": number - 1, "previous": previous, "hash": hashlib.sha256(body).hexdigest()}
            found = list(differences(stated, wanted, "its"))
            if found:
                faults = [
                    f"{where}: does not continue the chain ({found[0]}): lines were changed, removed or put in another order"
                ]
        if faults:
            problems.extend(faults)
            return entries
        entries.append(entry)
        previous = entry["hash"]
    if rest:
        problems.append(f"line {len(whole) + 1}: has no end: its writer was stopped; nothing was drawn for it")
    return entries


def head_faults(file: Path, entries: list[Entry]) -> Iterator[str]:
    path = file.with_name(file.name + ".head")
    try:
        head = loads(path.read_bytes()) if path.is_file() else None
        noted = None if head is None else (head["entries"], head["hash"])
    except (ValueError, KeyError, TypeError, RecursionError):
        noted = None
    ends = [(entry["index"] + 1, entry["hash"]) for entry in entries[-2:]]
    if noted is None:
        yield f"{plain(path.name)}: is missing or damaged, so nothing says which line is the last"
    elif noted not in ends:
        yield f"{plain(path.name)}: names another last line: the ledger lost lines, or one of both files is an older copy"


def kind_faults(entries: list[Entry]) -> Iterator[str]:
    """Yield a problem for a second header, a run or a node that is charged twice, and a mark or arrival that fits no run."""
    runs, plans, marks = set[str](), dict[str, Entry](), dict[tuple[str, str], str]()
    arrived: set[tuple[str, str]] = set()
    header = entries[0]["header"]
    living = header["dataset"].get("population") is True
    yield from header_faults(header)
    yield from _format_faults(entries)
    for number, entry in enumerate(entries, start=1):
        kind, where = entry["kind"], f"line {number}: "
        if living and kind == "population":
            yield f"{where}the ledger is of a population already, whose name stays"
        if not living and kind == "deletion":
            yield f"{where}nobody can leave a list of ids: the ledger is of no population"
        living |= kind == "population"
        if (kind == "header") != (number == 1):
            yield f"{where}expected one header, in the first line"
        elif kind == "run":
            if (fault := line_fault(header, entry)) is not None:
                yield f"{where}{fault}"
            if entry["claim"]["run"] in runs:
                yield f"{where}run {plain(entry['claim']['run'][:8])} is charged twice"
            runs.add(entry["claim"]["run"])
            plans[entry["claim"]["plan"]] = entry["claim"]
        elif kind == "spent":
            if entry["run"] not in runs:
                yield f"{where}no run of this name was charged before"
            if not _MARK.fullmatch(entry["mark"]):
                yield f"{where}the mark is not of 32 or 64 hexadecimal digits, as one that noise was drawn under is"
            known = (entry["run"], _NOISE) in marks and entry["what"]
            if not (known or entry["what"] == _NOISE or _DAY.fullmatch(entry["what"])):
                yield f"{where}expected the mark of the first noise of a run, or of a day, before those of its releases"
            if marks.setdefault((entry["run"], entry["what"]), entry["mark"]) != entry["mark"]:
                yield f"{where}a second mark: noise was drawn twice under one claim"
        elif kind == "arrival":
            if "windows" in header:
                yield f"{where}the edges of nodes that arrive have no time, and so no window to be charged to"
            paid, late = plans.get(entry["arrival"]["plan"]), entry["claim"]
            if paid is None or any(late[name] > paid[name] for name in ("epsilon", "delta")):
                yield f"{where}these nodes extend no run that was charged as much before"
            nodes = {(entry["arrival"]["extends"], node) for node in entry["arrival"]["nodes"]}
            if nodes & arrived:
                yield f"{where}a node arrives twice after one run"
            arrived |= nodes


def _format_faults(entries: list[Entry]) -> Iterator[str]:
    """Yield a problem for a header of an earlier format than its first run needs: lines have dates from format 3 on."""
    first = next((entry for entry in entries if entry["kind"] == "run"), {})
    if entries[0]["header"]["format"] < 3 and ("at" in first or "windows" in entries[0]["header"]):
        yield "line 1: format: expected 3, since a ledger that has windows, or whose first run has a date, began in it"


def mark_faults(run: str, certificate: Entry, entries: list[Entry]) -> Iterator[str]:
    """Yield a problem if no line marks the first noise of a run whose release is there, or one marks what it does not release."""
    marked = {entry["what"] for entry in entries if entry["kind"] == "spent" and entry["run"] == run}
    if _NOISE not in marked:
        yield "the release of this run is there, and no line marks its first noise: lines of this ledger are lost"
    names = [release["name"] for release in certificate["releases"]]
    for what in sorted(marked - {_NOISE}):
        if not any(what == name or what.startswith(f"{name}/") for name in names):
            yield f"a line marks the noise of {plain(what)}, which this run does not release"


def dates(entries: list[Entry]) -> Iterator[str]:
    """Yield a sentence for each line that says it is older than one before, as after a clock that was set back."""
    last = ""
    for number, entry in enumerate(entries, start=1):
        if entry.get("at", last) < last:
            yield f"line {number} is of {entry['at']}, earlier than a line before it"
        last = max(last, entry.get("at", last))
