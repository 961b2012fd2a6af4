"""What recorded results say of themselves: title, date, seeds, and how often each row was repeated.

Results of specifications are data (:mod:`~sfumato.experiments._measured`). A page of a script has the line that :func:`stamp`
writes, and its tables have a column for seeds or runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.experiments._measured import Measured
    from sfumato.experiments._spec import Spec

_DAY = r"\d{4}-\d\d-\d\d"
_STAMP = re.compile(rf"^Date: ({_DAY})\. Seeds: (none|(\d+)(?: to (\d+))?)\.$", re.MULTILINE)
_REPEATED = ("seeds", "runs")  # columns that say how often a row was repeated
_LONG = 300.0  # seconds of a fit from which 3 seeds are enough


@dataclass(frozen=True)
class Row:
    """A row of a table that says how often it was repeated (0 if nothing was run), and perhaps the seconds of one fit."""

    seeds: int
    seconds: float | None = None

    @property
    def enough(self) -> bool:
        """Whether it has 5 seeds, or 3 where a fit takes more than 5 minutes."""
        return self.seeds >= (3 if (self.seconds or 0) > _LONG else 5)


@dataclass(frozen=True)
class Recorded:
    """A page of results: its heading, the last day, the smallest and largest number of seeds, and rows that say theirs."""

    title: str
    date: str | None
    seeds: tuple[int, int] | None
    rows: tuple[Row, ...]


def stamp(seeds: Iterable[int], date: str | None = None) -> str:
    """Write the line that a page of a script carries.

    >>> stamp([1, 3, 0], "2026-11-23"), stamp([], "2026-11-23")
    ('Date: 2026-11-23. Seeds: 1 to 3.', 'Date: 2026-11-23. Seeds: none.')
    """
    found = sorted({count for count in seeds if count})
    words = " to ".join(map(str, dict.fromkeys((found[0], found[-1])))) if found else "none"
    return f"Date: {date or datetime.now(UTC).date().isoformat()}. Seeds: {words}."


def of_experiment(spec: Spec, measured: Measured) -> Recorded:
    """Return what the recorded results of a specification say of themselves."""
    rows = tuple(Row(line.score.seeds if line.score else 0, line.seconds) for line in measured.lines)
    counts = [row.seeds for row in rows if row.seeds]
    return Recorded(spec.title, measured.date, (min(counts), max(counts)) if counts else None, rows)


def read_page(text: str) -> Recorded:
    r"""Read a page of a script.

    >>> read_page("# A table\n\nDate: 2026-11-23. Seeds: 1 to 3.\n").seeds
    (1, 3)
    """
    title = text.partition("\n")[0].removeprefix("# ").replace("\\", "")
    rows = tuple(_rows(text))
    found = _STAMP.search(text)
    least = int(found[3]) if found and found[3] else None
    seeds = None if found is None or least is None else (least, int(found[4] or least))
    return Recorded(title, found[1] if found else None, seeds, rows)


def _rows(text: str) -> Iterator[Row]:
    for columns, lines in _tables(text):
        key = next((name for name in _REPEATED if name in columns), None)
        for line in lines:
            if key is not None and (line[key].isdigit() or line[key] == "-"):
                yield Row(int(line[key].replace("-", "0")), _number(line.get("seconds", "")))


def _tables(text: str) -> Iterator[tuple[list[str], list[dict[str, str]]]]:
    """The Markdown tables of a page: names of columns in small letters, and lines by column."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        head, _, *lines = [_cells(line) for line in block.splitlines()]
        columns = [name.lower() for name in head]
        yield columns, [dict(zip(columns, line, strict=False)) for line in lines]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
