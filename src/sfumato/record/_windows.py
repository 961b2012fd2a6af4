r"""Windows of a population's ledger: each month (or day, week, quarter, year) of edges has the whole total for itself.

**Records.** Tables of edges have a column of times, and each time lies in one cell, its *window*, of a grid that is public
(:mod:`sfumato._window`). A *record* is an edge in one window: all rows that link two ids at times in it (*edge-month*,
*edge-day*, and so on; one arc of a directed graph). An edge that is there in k windows is k records. Let
:math:`T_1, T_2, \dots` be the tables (*snapshots*) that the releases of a ledger read, in their order. Two histories are
*neighbors* if there is one record (e, W) such that all snapshots are equal but for the rows of e at times in W.

**Formal guarantee.** Let every release read the edges of one window of a snapshot, and reserve its claim in the account of
that window. If each account is within (total epsilon, total delta) by the rule of the ledger, all releases together are
(total epsilon, total delta)-DP for neighboring histories, however many windows there are. The adversary is that of
:mod:`sfumato.record._population`: it sees each release, and then chooses window, method, budget and the next snapshots.

*Proof.* Let the histories differ in (e, W). The window of a row follows from the row alone, so of the rows that a release of a
window V reads, those of (e, W) are none if :math:`V \neq W`, and what it reads is equal on both sides: given all earlier
outcomes, its law is one and the same. If V = W, the graphs are equal or differ by the edge e: its laws are within its claim.
The filters of :mod:`sfumato.privacy._filters` are proved by induction over releases. Run it over those of window W alone. A
release of another window in between multiplies the probabilities on both sides by the same factor, and so changes no step. The
claims of window W are within the totals. :math:`\square` That one row lies in one window is what is used: if a boundary were
counted in two, both accounts would pay, and the sum of both would be what is promised.

**Persons.** Where rows have owners (:class:`~sfumato.privacy.units.PersonLevel`), a record (p, W) is all rows that person p owns
at times in W (*user-month*). The proof is the same: of the rows that a release of another window reads, none are p's in W, and
how many edges of a person stay is decided among the rows of one window (:mod:`sfumato.graph._persons`).

**Several records.** An edge that is there in k windows is k records, in k accounts. By rule ``basic`` all of them together are
within (k total epsilon, k total delta): the induction over the releases of the k windows adds up their claims. So is an edge
whose time is moved to another window (k = 2: one record goes, another comes). In one window, k records cost the price of a group
(:func:`~sfumato.record._population.group_price`), which bounds every other case too.

**What has no windows.** A release that reads something private that lasts is in every window: features and labels at node
level. So a ledger with windows takes edges and their owners alone, where these are public. Nodes
that arrive are refused too: their edges are read without times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato._window import PERIODS, Window, days_of
from sfumato.errors import InputError
from sfumato.privacy.units import class_named
from sfumato.record._population import is_population

_UNIT = (
    "Expected --window with --unit edge, arc or person, got unit {!r}: features, labels and people last through all windows, so "
    "what is released of one window tells of them in all others, and windows do not add up apart. Leave out --window: then all "
    "runs of the ledger add up."
)


def caveat(unit: str) -> str:
    """Return the caveat of a run under a unit that is charged to a window.

    >>> caveat("person")[:64]
    'A record is all edges of one person in one window of time. A per'
    """
    return class_named(unit).of_windows


def check_unit(name: str) -> None:
    """Refuse a unit of which windows hold no records apart.

    >>> check_unit("edge")
    """
    if not class_named(name).in_window:
        raise InputError(_UNIT.format(name))


def check_new(unit: str, population: str | None, schedule: object) -> None:
    """Refuse a new ledger of windows that is of a list of ids, or of another unit than edges, or with a schedule."""
    check_unit(unit)
    if population is None:
        raise InputError(
            "Expected --population NAME (population) beside --window at the first run of a ledger, got none: who is in changes "
            "from window to window. Say who is meant, such as --population customers."
        )
    if schedule is not None:
        raise InputError(
            "Expected no --schedule with --window: a schedule fixes the runs of a whole ledger, and here each window has the "
            "total for itself. Leave it out, and give --total-epsilon."
        )


def declared(window: str) -> dict[str, str]:
    """Return what the header of a ledger says whose first run reads this window.

    >>> declared("date=2026-03")
    {'column': 'date', 'period': 'month'}
    """
    found = Window.parse(window)
    return {"column": found.column, "period": found.period}


def fits(header: Mapping[str, Any]) -> bool:
    """Return whether the windows of a header have the form of :func:`declared`, in a ledger that may have some."""
    values, alone = header["windows"], "schedule" not in header and isinstance(header["dataset"], dict)
    if not (alone and is_population(header) and isinstance(values, dict)):
        return False
    return set(values) == {"column", "period"} and values["period"] in PERIODS


def of_line(windows: Mapping[str, str], entry: Mapping[str, Any]) -> str:
    """Return the window that a line of a run names; TypeError if it is none of a header's ``windows``.

    >>> of_line({"column": "date", "period": "month"}, {"window": "2026-03"})
    '2026-03'
    """
    name = entry.get("window")
    found = days_of(name) if isinstance(name, str) else None
    if found is None or found[0] != windows["period"]:
        raise TypeError("no such window")
    return found[1]


def charged(header: Mapping[str, Any], window: str | None, path: object) -> str | None:
    """Return the account that a run is charged to, by the window that its graph holds; None in a ledger without windows.

    Args:
        header: that of the ledger.
        window: COLUMN=WINDOW of the graph; None if it holds the edges of all times.
        path: the ledger, for messages.
    """
    windows = header.get("windows")
    if windows is None:
        if window is None:
            return None
        raise InputError(
            f"Expected no --window with the ledger {path}, which was begun without windows, got {window!r}: all its runs add up. "
            "Leave it out, or begin a ledger of a population with it."
        )
    example = f"--window {windows['column']}={_SUCH_AS[windows['period']]}"
    if window is None:
        raise InputError(
            f"Expected the {windows['period']} that the run reads, since the ledger {path} charges each one apart, got none. "
            f"Name it, such as {example}, where you train. What reads edges of all times, as sfumato predict does of another "
            "graph or of nodes that arrive, has no place in it: charge that to a ledger without windows."
        )
    if declared(window) != windows:
        raise InputError(
            f"Expected a window of the ledger {path}, a {windows['period']} by column {windows['column']!r}, got {window!r}: "
            f"windows that overlap would count one edge in two accounts. Name one, such as {example}."
        )
    return Window.parse(window).name


_SUCH_AS = {"day": "2026-03-01", "week": "2026-W05", "month": "2026-03", "quarter": "2026-Q1", "year": "2026"}


def suffix(population: Mapping[str, Any] | None) -> str:
    """Return what is added to the words of what is protected, from what a plan says of its population.

    >>> suffix({"windows": {"column": "date", "period": "month"}, "window": "2026-03"})
    ', in any one month (here 2026-03, by column date)'
    """
    if population is None or "window" not in population:
        return ""
    windows = population["windows"]
    return f", in any one {windows['period']} (here {population['window']}, by column {windows['column']})"
