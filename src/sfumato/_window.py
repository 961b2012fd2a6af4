r"""A window says which edges of a table are read: those of one day, week, month, quarter or year, by a column of their times.

A split says which rows lie in the past: those before a day. Recency gives rows weights by their age.

Windows of one period are the cells of a public grid: the days :math:`[s_i, s_{i+1})` in UTC, where :math:`s_{i+1}` is the first
day of the next window. So each day, and each time, lies in exactly one of them, which nothing but the row itself decides. That is
what parallel composition over windows rests on (:mod:`sfumato.record._windows` has the proof).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

from sfumato._validate import fail
from sfumato.errors import InputError

_YEAR = "(?!0000)[0-9]{4}"
_FORMS: Mapping[str, str] = {
    "day": rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}",
    "week": rf"{_YEAR}-W[0-9]{{2}}",
    "month": rf"{_YEAR}-(0[1-9]|1[0-2])",
    "quarter": rf"{_YEAR}-Q[1-4]",
    "year": _YEAR,
}
PERIODS = tuple(_FORMS)
_LONGEST = 80
_SUCH_AS = "2026 (a year), 2026-Q1, 2026-03, 2026-W05 or 2026-03-01"


@dataclass(frozen=True)
class Window:
    """A window of the edges of a table: those whose time in a column lies in one cell of a grid of periods.

    >>> window = Window.parse("paid=2026-03")
    >>> window.period, str(window.first), str(window.last), str(window)
    ('month', '2026-03-01', '2026-03-31', 'paid=2026-03')
    """

    column: str
    period: str
    name: str
    first: date
    last: date

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read COLUMN=WINDOW, where the form of the window says the period.

        Raises:
            InputError: there is no column, or no such day, week, month, quarter or year.
        """
        column, _, name = text.strip().rpartition("=") if isinstance(text, str) else ("", "", "")
        column = column.strip()
        if not 0 < len(column) <= _LONGEST or not column.isprintable():
            expected = f"to be COLUMN=WINDOW, with a column of 1 to {_LONGEST} printable characters"
            raise fail("window", text, expected, "Name the column of the times of edges, such as date=2026-03.")
        found = days_of(name)
        if found is None:
            raise InputError(
                f"Expected window to be a window that there is, such as {_SUCH_AS}, got {name!r}. It is counted in UTC."
            )
        return cls(column, *found)

    def __str__(self) -> str:
        return f"{self.column}={self.name}"


@dataclass(frozen=True)
class TimeSplit:
    """A split by time divides the rows of a table by the column of their times: those before a day of UTC, and those from it on.

    >>> split = TimeSplit.parse("date:2026-Q2")
    >>> str(split.first), str(split)
    ('2026-04-01', 'date:2026-Q2')
    """

    column: str
    name: str
    first: date

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read COLUMN:DATE; of a week, month, quarter or year its first day counts.

        Raises:
            InputError: there is no column, or no such day, week, month, quarter or year.
        """
        column, _, name = text.strip().rpartition(":") if isinstance(text, str) else ("", "", "")
        column = column.strip()
        found = days_of(name)
        if found is None or not 0 < len(column) <= _LONGEST or not column.isprintable():
            expected = (
                f"to be COLUMN:DATE, with a column of 1 to {_LONGEST} printable characters and a date that there is"
            )
            raise fail("split_by_time", text, expected, f"Such as date:2026-03-01. A date is {_SUCH_AS}, of UTC.")
        return cls(column, found[1], found[2])

    def __str__(self) -> str:
        return f"{self.column}:{self.name}"


@dataclass(frozen=True)
class Recency:
    r"""Recency weights halve with age: a row of age a days has the weight :math:`2^{-a / h}`, of half-life h, and at most 1.

    Half-life and ``reference``, the day from which ages are counted, are public. A reference of None is not known yet.

    >>> str(Recency.parse("date:2w@2026-Q1"))
    'date:14d@2026-01-01'
    """

    column: str
    days: int
    reference: date | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read COLUMN:HALFLIFE or COLUMN:HALFLIFE@DATE, with a half-life in days, weeks or years of 365 days, such as 90d.

        Raises:
            InputError: there is no column, no half-life, or no such day, week, month, quarter or year.
        """
        found = (
            re.fullmatch(r"(.+):([1-9][0-9]{0,5})([dwy])(?:@(.+))?", text.strip()) if isinstance(text, str) else None
        )
        column = found[1].strip() if found else ""
        day = days_of(found[4]) if found and found[4] else None
        if found is None or (found[4] and day is None) or not 0 < len(column) <= _LONGEST or not column.isprintable():
            expected = "to be COLUMN:HALFLIFE@DATE, such as date:90d@2026-03-01"
            raise fail("recency", text, expected, f"Days, weeks and years are 90d, 12w and 2y. A date is {_SUCH_AS}.")
        return cls(column, int(found[2]) * {"d": 1, "w": 7, "y": 365}[found[3]], day and day[2])

    def __str__(self) -> str:
        return f"{self.column}:{self.days}d" + (f"@{self.reference}" if self.reference else "")


def days_of(name: str) -> tuple[str, str, date, date] | None:
    """Return the period of a window, its name, and its first and last day; None if there is no such window.

    >>> days_of("2026-13"), days_of("2026-3"), days_of("2026-02-30"), days_of("2025-W53")
    (None, None, None, None)
    >>> [str(day) for day in days_of("2026-W53")[2:]]
    ['2026-12-28', '2027-01-03']
    """
    period = next((one for one, form in _FORMS.items() if re.fullmatch(form, name)), None)
    try:
        first = _FIRST[period](name) if period else None
        last = None if first is None or period is None else _LAST[period](first)
    except (ValueError, OverflowError):
        return None
    return None if first is None or last is None or period is None else (period, name, first, last)


def window_of(day: date, period: str) -> str:
    """Return the name of the window of a period in which a day lies.

    >>> window_of(date(2027, 1, 3), "week"), window_of(date(2027, 1, 3), "quarter")
    ('2026-W53', '2027-Q1')
    """
    year, week, _ = day.isocalendar()
    return {
        "day": day.isoformat(),
        "week": f"{year:04}-W{week:02}",
        "month": day.isoformat()[:7],
        "quarter": f"{day.year:04}-Q{(day.month + 2) // 3}",
        "year": f"{day.year:04}",
    }[period]


_FIRST: Mapping[str, Callable[[str], date]] = {
    "day": date.fromisoformat,
    "week": lambda name: date.fromisocalendar(int(name[:4]), int(name[6:]), 1),
    "month": lambda name: date(int(name[:4]), int(name[5:]), 1),
    "quarter": lambda name: date(int(name[:4]), 3 * int(name[6:]) - 2, 1),
    "year": lambda name: date(int(name), 1, 1),
}
_LAST: Mapping[str, Callable[[date], date]] = {
    "day": lambda first: first,
    "week": lambda first: first + timedelta(days=6),
    "month": lambda first: _month_end(first.year, first.month),
    "quarter": lambda first: _month_end(first.year, first.month + 2),
    "year": lambda first: date(first.year, 12, 31),
}


def _month_end(year: int, month: int) -> date:
    return date(year, 12, 31) if month == 12 else date(year, month + 1, 1) - timedelta(days=1)
