"""How the ledger of a data set is read: every line of it, or its tail and the lines of one run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato._validate import check_int
from sfumato.errors import InputError
from sfumato.record import _population as population
from sfumato.record import _windows as windows
from sfumato.record._arrivals import Arrival
from sfumato.record._claims import Account, Claim, Made
from sfumato.record._ledger_file import Tail, head_problem, noted_sums, read_chain, read_tail
from sfumato.record._schedule import is_schedule

RULES = ("basic", "gdp")
FORMATS = (1, 2, 3)  # 1: runs did not mark what they spent; 2: no line said when it was written, and by whom
_NO_SCHEDULE = {"epsilons": list[float](), "delta": 0.0}
_HEADER = {"format", "unit", "dataset", "total_epsilon", "total_delta", "composition"}
_DIGEST = re.compile(rb'"ids_digest":"([0-9a-f]{64})"')
_RUN = b'"kind":"run"'
_DECLARED = b'"kind":"population"'  # in canonical JSON nothing but this field looks like it
_claim = lru_cache(1 << 14, typed=True)(Claim)  # to check a claim takes longer than to read its line


def read_account(path: Path) -> Account:
    """Read a ledger file without changing it, and check its chain, its fields and its ``.head``."""
    path = followed(path)
    if not path.exists():
        raise InputError(
            f"Expected {str(path)!r} to be the ledger of a data set, as --ledger makes it, but the file does not exist. Check "
            "the path; a ledger that was lost must be restored."
        )
    if path.is_dir():
        raise InputError(
            f"Expected {str(path)!r} to be the ledger of a data set, which is one file, got a folder. Name the file; the "
            "ledger of a single run is RUN/release/ledger.jsonl, and `sfumato verify` reads it."
        )
    chain = read_chain(path)
    header: Any = chain.entries[0].get("header") if chain.entries else None
    if not is_header(header):
        found = "its first line is not the header that --ledger writes" if path.stat().st_size else "the file is empty"
        raise InputError(
            f"Expected {str(path)!r} to be the ledger of a data set, but {found}. Check the path. If this was the ledger, "
            "restore it from a backup: what it held is still spent."
        )
    account = _account(header, enumerate(chain.entries[1:], start=2), chain.problem or head_problem(path, chain))
    noted = noted_sums(path)
    if account.problem is None and noted is not None and noted != account.spent():
        return replace(
            account, problem=f"{path.name}.head notes other sums than the claims have; remove nothing, restore it"
        )
    return account


def read_for(path: Path, run: str) -> tuple[Account, Tail | None]:
    """Read what a charge of one run needs: header, sums, and the lines of this run; of a file that changed every line.

    **Guarantee.** The bytes are those that a process found sound, line by line, before it wrote the head. So the account has the
    sums of all claims, and all that the ledger says of this run.
    """
    path = followed(path)
    tail = read_tail(path)
    if tail is None:
        return read_account(path), None
    header = json.loads(tail.content[: tail.content.index(b"\n")]).get("header")
    lines = sorted([*tail.lines_with(_DECLARED), *tail.lines_with(run.encode())], key=lambda one: one[0])
    if not is_header(header) or "windows" in header:  # whose sums are of each window
        return read_account(path), None
    account = replace(_account(header, lines, None), summed=tail.sums, counted=tail.content.count(_RUN))
    if account.problem or account.filter().remaining.keys() != tail.sums.keys():
        return read_account(path), None
    return account, tail


def _account(header: dict[str, Any], lines: Iterable[tuple[int, dict[str, Any]]], problem: str | None) -> Account:
    """Gather what lines say, up to the first that is none of a ledger."""
    claims: list[Claim] = []
    marks: dict[str, dict[str, str]] = {}
    arrivals: list[tuple[Arrival, Claim]] = []
    made: dict[str, Made] = {}
    deletions: list[tuple[int, Made]] = []
    charged: dict[str, str] = {}
    for number, entry in lines:
        try:
            if entry["kind"] == "population" and not population.is_population(header):
                header = {**header, "dataset": population.declared(entry["name"], header["dataset"])}
            elif entry["kind"] == "deletion":
                deletions.append((check_int(low=1, records=entry["records"]), Made.of(entry)))
            elif entry["kind"] == "spent":
                own, what = marks[entry["run"]], entry["what"]
                if own.setdefault(what, entry["mark"]) != entry["mark"] or not isinstance(entry["mark"], str):
                    raise TypeError("a second mark")
            elif entry["kind"] == "arrival":
                arrivals.append((Arrival.from_dict(entry["arrival"]), _claim(**entry["claim"])))
            else:
                claims.append(_claim(**entry["claim"]))
                marks.setdefault(claims[-1].run, {})
                made[claims[-1].run] = Made.of(entry)
                if "windows" in header:
                    charged[claims[-1].run] = windows.of_line(header["windows"], entry)
        except (KeyError, TypeError, InputError):
            problem = f"line {number} is not the claim of a run, nor its mark, nor an arrival"
            problem += ", of this ledger's windows" if "windows" in header else ""
            break
    return Account(header, tuple(claims), problem, marks, tuple(arrivals), made, tuple(deletions), windows=charged)


def is_header(header: Any) -> bool:
    """Return whether a first line is that of a ledger of a data set."""
    if not isinstance(header, dict) or not is_schedule(header.get("schedule", _NO_SCHEDULE)):
        return False
    if set(header) - {"schedule", "windows"} != _HEADER or header["composition"] not in RULES:
        return False
    if header["format"] not in FORMATS or ("windows" in header and not windows.fits(header)):
        return False
    numbers = all(isinstance(header[name], float) for name in ("total_epsilon", "total_delta"))
    return numbers and header["total_epsilon"] > 0 and header["total_delta"] >= 0


def followed(path: Path) -> Path:
    """Return the file that a path names, behind a symbolic link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def same_people(path: Path, name: str | None = None) -> list[str]:
    """Return a sentence for each other ledger in the folder of one that is about the same people, as far as both say.

    They are if both have a population of one name, or if a graph of one has the node ids of a graph of the other. ``name`` is
    the population of a ledger that is to be made.
    """
    own, found = _people(path) | ({name} if name else set()), []
    for head in sorted(path.parent.glob("*.head")):
        other = head.with_suffix("")
        if other.is_file() and other.resolve() != path.resolve() and own & _people(other):
            found.append(
                f"{other.name}, in the same folder, is a ledger of the same people: neither counts what the other spends, so "
                "both totals add up. Charge all runs to one of them."
            )
    return found


def _people(path: Path) -> set[str]:
    """The name of the population of a ledger, and the digests of the ids of its graphs."""
    content = path.read_bytes() if path.is_file() else b""
    words = {word.decode() for word in _DIGEST.findall(content)}
    for line in (content[: content.find(b"\n")], *(line for line in content.splitlines() if _DECLARED in line)):
        try:
            entry = json.loads(line)
            dataset = entry["header"]["dataset"] if "header" in entry else {"population": True, **entry}
            words |= {dataset["name"]} if dataset.get("population") is True else set()
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return words
