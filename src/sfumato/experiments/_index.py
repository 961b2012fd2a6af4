"""The index of recorded results: every table and figure of the sources, what runs it, and what its pages say.

A page of a script has the line that :func:`stamp` writes, and its tables have a column for seeds or runs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoWarning
from sfumato.experiments._spec import find

if TYPE_CHECKING:
    from sfumato.experiments._cells import Cell
    from sfumato.experiments._measured import Measured
    from sfumato.experiments._sources import Document, Entry
    from sfumato.experiments._spec import Spec

_DAY = r"\d{4}-\d\d-\d\d"
_STAMP = re.compile(rf"^Date: ({_DAY})\. Seeds: (none|(\d+)(?: to (\d+))?)\.$", re.MULTILINE)
_REPEATED = ("seeds", "runs")  # columns that say how often a row was repeated
_LONG = 300.0  # seconds of a fit from which 3 seeds are enough
STATES = ("done", "part", "skipped", "no measurement")
_HEAD = """# Results

What was measured, by question, and then every numbered table and figure of the five source documents. `sfumato experiment list`
shows what can be run, and [Experiments](../experiments.md) says how to run it and how to read the pages. This index is written by
`python tools/docs_pages.py` from the catalogue (`src/sfumato/experiments/sources.toml`), the recorded results of specifications
(`experiments.jsonl`), and the pages of scripts.
"""
_QUESTIONS = (
    ("What does privacy cost on a friend network?", ("price-of-privacy", "defaults")),
    ("Is the default a good choice on other graphs?", ("defaults", "rare", "local")),
    ("What does it cost to protect every arc of a node?", ("defaults",)),
    ("What does an attacker learn?", ("attacker",)),
    ("Does the code keep its epsilon?", ("audit",)),
    ("What do images of a model show of its classes?", ("class-level",)),
    ("Are published numbers reached?", ("pate-tables", "graph-split", "dpsgd")),
    ("What does a synthetic twin keep?", ("twin",)),
    ("How fast is it, and how large may a graph be?", ("bench", "large", "collect-load")),
)
_STATES = """* **done**: all of it is recorded. **part**: recorded, but for what the last column says. **skipped**: not recorded,
  for the reason in the last column. **no measurement**: there is nothing to run.
* Seeds are the smallest and the largest number of a row. Every seed has its own split, unless the data come with one.
* Names without `python` are specifications, which `sfumato experiment run NAME` runs. Links lead to the pages.
* Pages of specifications show the distance to the published number of each row. They are made of `experiments.jsonl` when the
  documentation is built (`make docs`).
"""
_COLUMNS = ("number", "what", "state", "seeds", "what is missing, and why", "run by", "date")


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


def index_page(documents: Sequence[Document], pages: dict[str, Recorded]) -> str:
    sections = [_section(document, pages) for document in documents]
    summary = ["## Tables and figures of the sources", "", *_summary(documents, pages)]
    return "\n".join([_HEAD, *_questions(pages), "", *summary, "", _STATES, *sections, _beside(documents, pages)])


def _questions(pages: dict[str, Recorded]) -> Iterator[str]:
    """A table of the pages that answer a question, where they are there."""
    yield from ("| question | pages |", "|---|---|")
    for question, names in _QUESTIONS:
        if links := [f"[{pages[name].title}]({name}.md)" for name in names if name in pages]:
            yield f"| {question} | {'; '.join(links)} |"


def state(entry: Entry, pages: dict[str, Recorded]) -> str:
    """Return one of :data:`STATES` for an entry, given the pages that are there, by name."""
    if not entry.measured:
        return "no measurement"
    if entry.why is None:
        return "done"
    return "part" if any(_pages(entry, pages)) else "skipped"


def _pages(entry: Entry, pages: dict[str, Recorded]) -> Iterator[str]:
    """The names of the pages of an entry: those of its specifications that are there, then those of its scripts."""
    yield from (name for name in (*entry.specs, *entry.absent) if name in pages)
    yield from entry.pages


def _summary(documents: Sequence[Document], pages: dict[str, Recorded]) -> Iterator[str]:
    entries = [entry for document in documents for entry in document.entries]
    states = [state(entry, pages) for entry in entries]
    done, part, skipped, without = (states.count(name) for name in STATES)
    yield (
        f"* {len(entries)} tables and figures, of which {len(entries) - without} report a measurement: {done} done, "
        f"{part} in part, {skipped} skipped."
    )
    rows = [row for name in dict.fromkeys(n for e in entries for n in _pages(e, pages)) for row in pages[name].rows]
    ran = sum(row.seeds > 0 for row in rows)
    yield (
        f"* {ran:,} rows are recorded in tables that count seeds or runs. {_share(sum(row.enough for row in rows), ran)} of "
        "them have 5 or more (3 where a fit takes more than 5 minutes)."
    )
    names = dict.fromkeys(name for entry in entries for name in entry.specs)
    enough = sum(row.enough for name in names if name in pages for row in pages[name].rows)
    asked = sum(map(_rows_of, names))
    scripts = [
        row
        for page in dict.fromkeys(page for e in entries for page in e.pages)
        for row in pages[page].rows
        if row.seeds
    ]
    both = _share(enough + sum(row.enough for row in scripts), asked + len(scripts))
    yield (
        f"* The full profiles of the {len(names)} specifications whose data are at hand ask for {asked:,} rows. "
        f"{_share(enough, asked)} of these are recorded with so many seeds. With the {len(scripts):,} rows that scripts record "
        f"it is {both} of {asked + len(scripts):,}; rows that scripts could still record are not counted."
    )
    timed = [name for name in names if name in pages and any(row.seconds for row in pages[name].rows)]
    hours = sum(_fits_of(name) * _seconds_of(pages[name]) for name in timed) / 3600
    yield (
        f"* All fits of the full profile take about {hours:.0f} hours of training in one process for the {len(timed)} "
        "specifications that have a page, by the seconds on these pages, which were measured on busy machines. The other "
        f"{len(names) - len(timed)} are not in this sum."
    )


@cache
def _rows_of(name: str) -> int:
    """How many rows the full profile of a specification has: one for each run, epsilon and varied value."""
    return len({(cell.label, cell.epsilon, repr(cell.at)) for cell in _cells_of(name)})


def _fits_of(name: str) -> int:
    return len(_cells_of(name))


@cache
def _cells_of(name: str) -> tuple[Cell, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        return tuple(find(name).cells())


def _seconds_of(page: Recorded) -> float:
    """The mean seconds of a fit of the rows of a page."""
    found = [row.seconds for row in page.rows if row.seconds]
    return sum(found) / len(found)


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.0f} %)" if whole else "0"


def _section(document: Document, pages: dict[str, Recorded]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    for entry in document.entries:
        specs = [f"[`{name}`]({name}.md)" if name in pages else f"`{name}`" for name in (*entry.specs, *entry.absent)]
        scripts = [f"`python {script}`" for script in entry.scripts]
        runs = ", ".join([*specs, *scripts, *(f"[page]({name}.md)" for name in entry.pages)])
        date, seeds = _when(pages[name] for name in _pages(entry, pages))
        cells = (entry.number, entry.title, state(entry, pages), seeds, entry.reason or "", runs, date)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([f"## {document.citation.partition(',')[0]}", "", f"{document.citation}.", "", *lines, ""])


def _when(found: Iterable[Recorded]) -> tuple[str, str]:
    pages = list(found)
    days = [day for page in pages for day in re.findall(_DAY, page.date or "")]
    counts = [count for page in pages if page.seeds for count in page.seeds]
    return _range(days), _range(counts)


def _range(values: Sequence[str] | Sequence[int]) -> str:
    return " to ".join(map(str, dict.fromkeys((min(values), max(values))))) if values else "-"


def _beside(documents: Sequence[Document], pages: dict[str, Recorded]) -> str:
    """The pages that no entry names."""
    named = {name for document in documents for entry in document.entries for name in _pages(entry, pages)}
    lines = [
        f"| [{page.title}]({name}.md) | {' | '.join(_when([page]))} |"
        for name, page in pages.items()
        if name not in named
    ]
    return "\n".join(["## Beside the sources", "", "| page | date | seeds |", "|---|---|---|", *lines, ""])
