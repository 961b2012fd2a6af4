"""What a page holds, before it is HTML or Markdown: sections of text, lists, tables, figures and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from sfumato.report._drawing import Figure

_WORDY = 60  # characters


class Blank(str):
    """A text in the place of something that a person still has to write or to run; pages mark it."""


class Origin(str):
    """Where the sentences above it come from, such as a field of the certificate."""


@dataclass(frozen=True)
class Items:
    """A bulleted list of texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Commands that the reader can type."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names with their values, such as a data set and its split."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows of text under a caption; the first column names the row.

    ``text`` are the columns that hold words rather than numbers; ``heat`` has a share from 0 to 1 for each cell after the first
    column.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: tuple[str, ...] = ()
    heat: tuple[tuple[float, ...], ...] = ()

    @property
    def wordy(self) -> bool:
        """Whether cells are so long that a phone shows one below the other."""
        return not self.heat and any(len(cell) > _WORDY for row in self.rows for cell in row)

    def without_empty(self) -> Table:
        """Return the table without the columns that hold nothing but dashes."""
        kept = [i for i in range(len(self.columns)) if i == 0 or any(row[i] != "-" for row in self.rows)]
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
        )


@dataclass(frozen=True)
class Folded:
    """Facts that are shown when the reader asks for them, under a few words that say what they are."""

    summary: str
    facts: Facts


@dataclass(frozen=True)
class Section:
    """A heading and what is below it; ``kind`` is ``plain``, ``warning``, or ``guarantee`` or ``outside`` (of it)."""

    key: str
    title: str
    parts: tuple[Part, ...]
    kind: str = "plain"


Part = str | Items | Code | Facts | Folded | Table | Figure | Section


@dataclass(frozen=True)
class Page:
    """A whole page, before it is HTML or Markdown."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    closing: str = ""

    def figures(self) -> tuple[Figure, ...]:
        """Return all figures of the page, in order."""
        return tuple(part for section in self.sections for part in _parts(section) if isinstance(part, Figure))


def reworded(part: Any, words: Callable[[str], str]) -> Any:
    """Return a page, or a part of one, with all of its texts put through ``words``; figures and commands stay.

    >>> reworded(Items(("one", "two")), str.upper)
    Items(texts=('ONE', 'TWO'))
    """
    if isinstance(part, str):
        return words(part)
    if isinstance(part, tuple):
        return tuple(reworded(one, words) for one in part)
    if isinstance(part, Figure | Code) or not is_dataclass(part) or isinstance(part, type):
        return part
    told = {one.name: getattr(part, one.name) for one in fields(part) if one.name not in ("key", "kind")}
    return replace(part, **{name: reworded(value, words) for name, value in told.items()})


def _parts(section: Section) -> Iterator[Part]:
    for part in section.parts:
        if isinstance(part, Section):
            yield from _parts(part)
        else:
            yield part
