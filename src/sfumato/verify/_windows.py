"""Windows of time: each has the totals of a ledger for itself, if no two of them overlap. The verifier's own calendar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from ._documents import plain

_FORMS = {
    "day": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "week": "[0-9]{4}-W[0-9]{2}",
    "month": "[0-9]{4}-[0-9]{2}",
    "quarter": "[0-9]{4}-Q[1-4]",
    "year": "[0-9]{4}",
}
_DAY_IN = {"day": "{}", "week": "{}-7", "month": "{}-01", "quarter": "{:.4}-01-01", "year": "{}-01-01"}
RECORDS = {"edge": "one edge", "person": "the set of edges of one person"}
CAVEATS = {
    "edge": "A record is one edge in one window of time. An edge that is there in k windows is k records, and costs up to k "
    "times the epsilon through all releases. An edge whose time is moved to another window is two records.",
    "person": "A record is all edges of one person in one window of time. A person with edges in k windows is k records, and "
    "costs up to k times the epsilon through all releases. Moving an edge to another window changes two records.",
}
"""What is said of windows, by the units that may have them."""


def is_window(period: str, name: str) -> bool:
    """Return whether there is such a window of a period, in the only spelling that it has.

    >>> is_window("month", "2026-03"), is_window("month", "2026-13"), is_window("month", "2026-Q1"), is_window("week", "2025-W53")
    (True, False, False, False)
    """
    try:
        return bool(re.fullmatch(_FORMS[period], name) and date.fromisoformat(_DAY_IN[period].format(name)))
    except ValueError:
        return False


def window_faults(found: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield a problem for windows without a window, for a window without windows, and for one that is none of its period."""
    if ("windows" in found) != ("window" in found):
        yield f"{where}: expected windows and the window that is charged, or neither"
    elif "window" in found and not is_window(found["windows"]["period"], found["window"]):
        yield f"{where}.window: expected a {found['windows']['period']} that there is, got {plain(found['window'])}"


def header_faults(header: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for a ledger that cannot have windows: of a list of ids, of another unit than edges, or with a schedule."""
    if "windows" not in header:
        return
    if header["dataset"].get("population") is not True:
        yield "line 1: windows: not expected in the ledger of a list of ids"
    if header["unit"].get("name") not in CAVEATS:
        yield "line 1: windows: expected unit edge or person, since features, labels and people last through all windows"
    if "schedule" in header:
        yield "line 1: windows: not expected beside a schedule, which counts the runs of all of them"


def line_fault(header: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the window of a line of a run; None if nothing is."""
    windows, name = header.get("windows"), entry.get("window")
    if windows is None:
        return None if name is None else "names a window, which this ledger does not have"
    if name is None:
        return "names no window, so nothing says which account it is charged to"
    if not is_window(windows["period"], name):
        return f"{plain(name)} is no {windows['period']}: a window that overlaps others would count an edge in two accounts"
    return None


def suffix(population: Mapping[str, Any] | None) -> str:
    """Return what a certificate adds to the words of what is protected."""
    if population is None or "window" not in population or "windows" not in population:
        return ""
    windows = population["windows"]
    return f", in any one {windows['period']} (here {population['window']}, by column {windows['column']})"
