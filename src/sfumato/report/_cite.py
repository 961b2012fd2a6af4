"""BibTeX of what a run used: its method, mechanisms, accounting and data. The works stand in ``references.bib``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.catalog import CARDS, GRAPH_CARDS
from sfumato.datasets._listing import card_of
from sfumato.privacy.events import KINDS

_SOFTWARE = """@misc{sfumato,
  author = {{The Sfumato developers}},
  title = {Sfumato: Differentially Private Learning on Graphs},
  note = {Software, version %s},
}
"""
_ACCOUNTING: dict[str, tuple[str, ...]] = {
    "gaussian": ("balle2018improving", "dong2022gaussian"),
    "pld": ("koskela2020computing", "doroshenko2022connect"),
    "renyi": ("mironov2017renyi", "canonne2020discrete"),
    "sum": (),
    "none": (),
}


def citations(certificate: Mapping[str, Any], dataset: str) -> str:
    """Return BibTeX of the works that a run rests on, the library first; each work appears once.

    Args:
        certificate: values of the run's certificate: method, releases, accounting, version.
        dataset: the name of the run's graph.

    >>> none = {"method": "sage", "releases": [], "accounting": {"method": "none"}, "version": "0.1.0"}
    >>> citations(none, "facebook100/Duke14").count("@")
    3
    """
    keys = dict.fromkeys(_used(certificate, dataset))
    return "\n".join([_SOFTWARE % certificate["version"], *(references()[key] for key in keys)])


@cache
def references() -> dict[str, str]:
    """Return every entry of ``references.bib`` by its key, in order."""
    text = Path(__file__).with_name("references.bib").read_text(encoding="utf-8")
    return {entry[1]: entry[0] for entry in re.finditer(r"^@\w+\{(\w+),\n(?:  .*\n)+\}\n", text, re.MULTILINE)}


def _used(certificate: Mapping[str, Any], dataset: str) -> Iterator[str]:
    head = CARDS.get(certificate["method"]) or GRAPH_CARDS.get(certificate["method"])
    yield from head.citations if head else ()
    for release in certificate["releases"]:
        yield from _event(release["event"])
    if certificate["releases"]:
        yield from _ACCOUNTING.get(certificate["accounting"]["method"], ())
    card, item = card_of(dataset)
    yield from card.cites.get(item, card.cites.get("", ())) if card else ()


def _event(event: Mapping[str, Any]) -> Iterator[str]:
    for inner in (*event.get("events", ()), *(one for trial in event.get("candidates", ()) for one in trial)):
        yield from _event(inner)
    kind = KINDS.get(event["type"])
    yield from kind.citations if kind else ()
