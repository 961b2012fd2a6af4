"""The times of edges are read, and say which rows lie in a window. Every row of the table is checked, also those outside.

A cell is one of these, and is never guessed:

* a date of ISO 8601: ``2026-03-01``, ``2026-W09-7``, or a column of dates;
* a date with a time and a zone, ``2026-03-01T23:30:00+02:00``, or a column of times with a zone: its day in UTC counts;
* less than a date, where that decides the window: ``2026-03``, ``2026-W09``, ``2026-Q1``, or a year, also as a whole number.

A time without a zone lies in one window here and in another one elsewhere, so it is refused, and so is a missing time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._window import Recency, TimeSplit, Window, days_of, window_of
from sfumato.errors import DataError
from sfumato.tables._columns import by_place, needed
from sfumato.tables._tables import known

if TYPE_CHECKING:
    from sfumato.tables._reading import Reading

_ROWS = 1 << 20  # whose times are read together
_TIME = re.compile(
    r"[0-9]{4}-(?:[0-9]{2}-[0-9]{2}|W[0-9]{2}-[1-7])[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_IN_UTC = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?(?:Z|[+]00(?::?00)?)$"
_DAY = re.compile(r"[0-9]{4}-W[0-9]{2}-[1-7]")
_DATES = "Write dates such as 2026-03-01, or times with a zone such as 2026-03-01T12:00Z."
_MISSING = f"no date. {_DATES} A row whose time is not known is in no window: take it out of the table"
_NO_ZONE = "a time without a zone, which is another day elsewhere. Add the zone, or write the date alone"
_DAMAGED = f"no date of ISO 8601. {_DATES} Other forms are not guessed"


class _Refused(Exception):  # noqa: N818
    """A cell that says no window, and why."""


def time_column(names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str | None:
    """Return the column of the times of edges; None where no window is asked for."""
    return _checked(how.within.column, names, ends, how, place) if how.within else None


def ages_column(names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str | None:
    """Return the column of the times by which weights fade; None where none do."""
    return _checked(how.fading.column, names, ends, how, place) if how.fading else None


def _checked(column: str | None, names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str:
    column = known(names, column, place)
    if column in (*ends, *how.of_edges[:2]):
        raise DataError(
            f"Expected the times of {place} beside its ends, weights and types, got the column {column!r} as both. Name another."
        )
    if len(by_place(names, how)) > 2:
        raise DataError(
            f"Expected the columns of ends of {place} to be called source and target where a window is read, or times, got "
            "others. Rename them, name them with source and target, or leave other columns out with drop, so that two remain."
        )
    return needed(str(column), how, place, "time")


def windows_of(column: Any, period: str, place: str, number: Callable[[int], int]) -> np.ndarray:
    """Return the window of a period in which each row lies, by its name, as an array of texts.

    ``number`` gives the number of a row in errors. The window of a row follows from the row alone.

    Raises:
        DataError: a row says no window.
    """
    import pyarrow as pa
    import pyarrow.types as pt

    from sfumato.tables._cells import settled

    values = settled(column)
    there, wrong = values.is_valid().to_numpy(zero_copy_only=False), {}
    if pt.is_timestamp(values.type) and values.type.tz is None and len(values):
        wrong[0] = _NO_ZONE
    elif not there.all():
        wrong[int(np.argmin(there))] = _MISSING
    elif pt.is_date(values.type) or pt.is_timestamp(values.type):
        days, codes = np.unique(_days(values), return_inverse=True)
        return np.array([window_of(day, period) for day in days.tolist()], object)[codes.ravel()]
    elif pt.is_large_string(values.type) or pt.is_integer(values.type):
        coded = _short(values.cast(pa.large_string())).dictionary_encode()
        names, codes = [], coded.indices.to_numpy()
        for code, text in enumerate(coded.dictionary.to_pylist()):
            try:
                names.append(_window(text, period))
            except _Refused as why:
                names.append("")
                wrong[int(np.argmax(codes == code))] = str(why)
        if not wrong:
            return np.array(names, object)[codes]
    elif len(values):
        wrong[0] = _DAMAGED
    if not wrong:
        return np.zeros(0, object)
    row = min(wrong)
    raise DataError(f"Expected the time of an edge in every row of {place}, but row {number(row)} has {wrong[row]}.")


def fading(
    column: Any, rule: Recency, values: np.ndarray | None, place: str, number: Callable[[int], int]
) -> np.ndarray:
    """Return the weight of each row by its age, times its own value if it has one, float64 [num_rows].

    The weight of a row follows from the row and public numbers alone. ``number`` gives the number of a row in errors.

    Raises:
        DataError: a row does not say its day.
    """
    days = windows_of(column, "day", f"{place}, column {rule.column!r},", number)
    ages = (np.datetime64(rule.reference) - days.astype("datetime64[D]")).astype(np.float64)
    weights: np.ndarray = np.exp2(-np.maximum(ages, 0) / rule.days)
    return weights if values is None else weights * values


def inside(
    column: Any, window: Window | TimeSplit, place: str, number: Callable[[int], int], of: str = "an edge"
) -> np.ndarray:
    """Return which rows lie in a window, or before a split, bool [num_rows]; ``number`` gives the number of a row in errors.

    Raises:
        DataError: a row says no window.
    """
    found = [np.zeros(0, bool)]
    for start in range(0, len(column), _ROWS):
        rows, wrong, problem = _inside(column.slice(start, _ROWS), window)
        if problem is not None:
            raise DataError(
                f"Expected the time of {of} in every row of {place}, but row {number(start + wrong)}, column "
                f"{window.column!r}, has {problem}."
            )
        found.append(rows)
    return np.concatenate(found)


def _inside(column: Any, window: Window | TimeSplit) -> tuple[np.ndarray, int, str | None]:
    """Which rows lie in a window; else the first row that says none, and why."""
    import pyarrow as pa
    import pyarrow.types as pt

    from sfumato.tables._cells import settled

    values = settled(column)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    if not there.all():
        return there, int(np.argmin(there)), _MISSING
    if pt.is_timestamp(values.type) and values.type.tz is None:
        return there, 0, _NO_ZONE
    if pt.is_date(values.type) or pt.is_timestamp(values.type):
        days = _days(values)
        if isinstance(window, TimeSplit):
            return days < np.datetime64(window.first), 0, None
        return (days >= np.datetime64(window.first)) & (days <= np.datetime64(window.last)), 0, None
    if pt.is_large_string(values.type) or pt.is_integer(values.type):
        return _of_texts(_short(values.cast(pa.large_string())).dictionary_encode(), window)
    return there, 0, _DAMAGED


def _days(values: Any) -> np.ndarray:
    """The day of each date or time in UTC, datetime64[D]."""
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_date(values.type):
        unit, counts = "D", values.cast(pa.date32(), safe=False).cast(pa.int32())
    else:
        unit, counts = values.type.unit, values.cast(pa.int64())
    days: np.ndarray = counts.to_numpy().astype(np.int64).astype(f"datetime64[{unit}]").astype("datetime64[D]")
    return days


def _short(values: Any) -> Any:
    """Texts without spaces around; of a time in UTC the date alone, so that few different ones are left to be read."""
    import pyarrow.compute as pc

    values = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.match_substring_regex(values, _IN_UTC), pc.utf8_slice_codeunits(values, 0, 10), values)


def _of_texts(coded: Any, window: Window | TimeSplit) -> tuple[np.ndarray, int, str | None]:
    """Which rows lie in a window; else the first row that says none, and why."""
    found, refused = [], dict[int, str]()
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            found.append(_is_inside(text, window))
        except _Refused as why:
            found.append(False)
            refused[code] = str(why)
    codes = coded.indices.to_numpy()
    if refused:
        row = int(np.argmax(np.isin(codes, list(refused))))
        return np.zeros(0, bool), row, refused[int(codes[row])]
    return np.array(found, bool)[codes], 0, None


def _is_inside(text: str, window: Window | TimeSplit) -> bool:
    """Whether a cell lies in a window, or before a split."""
    if isinstance(window, Window):
        return _window(text, window.period) == window.name
    kind, first, last = _days_in(text)
    if first < window.first <= last:
        raise _Refused(f"a {kind}, which does not say on which side of the split it lies. Write dates")
    return last < window.first


def _window(text: str, period: str) -> str:
    """Return the window in which a cell lies."""
    kind, first, last = _days_in(text)
    name = window_of(first, period)
    if name != window_of(last, period):
        raise _Refused(f"a {kind}, which does not say the {period}. Write dates, or choose a longer window")
    return name


def _days_in(text: str) -> tuple[str, date, date]:
    """Return what a cell is, a day or a longer period, and its first and last day."""
    if not text:
        raise _Refused(_MISSING)
    if (time := _TIME.fullmatch(text)) is not None:
        if time[1] is None:
            raise _Refused(_NO_ZONE)
        try:
            day = datetime.fromisoformat(text).astimezone(UTC).date()
        except (ValueError, OverflowError):
            raise _Refused(_DAMAGED) from None
        return "day", day, day
    if _DAY.fullmatch(text):
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise _Refused(_DAMAGED) from None
        return "day", day, day
    days = days_of(text)
    if days is None:
        raise _Refused(_DAMAGED)
    return days[0], *days[2:]
