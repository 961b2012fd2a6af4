"""The catalogue of every numbered table and figure of the source documents, and how each is run: ``sources.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sfumato._validate import fail
from sfumato.experiments._runs import check_unique
from sfumato.experiments._tables import build, known, tables

SOURCES = Path(__file__).with_name("sources.toml")
MEASURED = ("measurement", "computation")
# What the kinds that report no number of their own say, unless the entry says more.
KINDS = {
    "measurement": None,
    "computation": None,
    "illustration": "A drawing that explains; it reports no measurement.",
    "data statistics": "It describes data and reports no measurement; `sfumato datasets` prints sizes.",
    "settings": "It lists hyperparameters and reports no measurement; specifications hold them.",
}


@dataclass(frozen=True)
class Entry:
    """A table or figure of a document, by the number it has there, with a title in words of ours.

    ``specs`` run it on data that are at hand, ``absent`` ones wait for data, and ``scripts`` run the rest, as typed after
    ``python``. ``pages`` are those of scripts under ``docs/results``; a specification's page has its name. ``why`` says what is
    not run or not recorded, and the reason.
    """

    number: str
    title: str
    kind: str = "measurement"
    specs: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    why: str | None = None

    def __post_init__(self) -> None:
        known("kind", self.kind, tuple(KINDS))
        if not (self.runs or self.reason):
            raise fail(self.number, self.title, "to name specs, scripts, or why it is not run")

    @property
    def measured(self) -> bool:
        """Whether it reports numbers that a run can give."""
        return self.kind in MEASURED

    @property
    def runs(self) -> tuple[str, ...]:
        return (*self.specs, *self.absent, *self.scripts)

    @property
    def reason(self) -> str | None:
        """What is missing and why, or that it reports no measurement; None if nothing is missing."""
        return self.why or KINDS[self.kind]


@dataclass(frozen=True)
class Document:
    """A source document with its tables and figures, in its order, and what else of it is run."""

    key: str
    citation: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        check_unique("number", [entry.number for entry in self.entries])

    @cached_property
    def specs(self) -> tuple[str, ...]:
        """The names of its specifications, each once."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in (*entry.specs, *entry.absent)))


def read_sources(path: Path = SOURCES) -> tuple[Document, ...]:
    """Read the catalogue of tables and figures."""
    documents = []
    for table in tables(str(path), "document", tomllib.loads(path.read_text(encoding="utf-8"))["document"]):
        where = f"{path.name}: {table.get('key')}"
        found = tables(where, "entry", table.pop("entry", []))
        entries = tuple(build(Entry, f"{where}, {entry.get('number')}", entry) for entry in found)
        documents.append(build(Document, where, table, entries=entries))
    return tuple(documents)
