"""Nodes that arrived after a run, in the ledger of its data set: each release has its line, and no node arrives twice.

The claim of the run covers edges of a node that arrives once. Each folder of a run remembers what arrived in it, and the ledger
alone remembers it for all copies of the folder. So a release without a line could be a second one for the same edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ._documents import differences, one_line

if TYPE_CHECKING:
    from ._ledger_lines import Entry


class Late(Protocol):
    """A release for nodes that arrived after a run."""

    @property
    def folder(self) -> Path: ...
    @property
    def certificate(self) -> Entry: ...
    @property
    def release(self) -> str: ...


def arrival_faults(entry: Entry, certificate: Entry | None) -> Iterator[str]:
    """Yield a problem for a line whose release is missing (no ``certificate``), or is of other nodes or another run."""
    if certificate is None:
        yield (
            "the release for these nodes was not found below the run that they extend, so nothing says whose edges it reads. Put "
            "its folder back, or name the folder that holds it with --runs"
        )
    else:
        yield from differences(entry["arrival"], certificate["arrival"], "arrival")


def uncharged(late: Sequence[Late], taken: set[str], plans: set[str]) -> tuple[list[str], list[str]]:
    """Return the problems of releases that no line names, and of nodes that arrived twice; and releases of other ledgers.

    Args:
        late: all releases for nodes that arrived, in every copy of a run.
        taken: the digests of releases that lines name.
        plans: those of the runs of this ledger.
    """
    problems, aside, seen, done = list[str](), list[str](), dict[tuple[str, str], Path](), set[str]()
    for one in late:
        if one.release in done:
            continue
        done.add(one.release)
        arrival, name = one.certificate["arrival"], one_line(str(one.folder))
        if one.release not in taken:
            here = arrival["plan"] in plans
            text = f"{name}: this release for nodes that arrived is not charged in this ledger"
            (problems if here else aside).append(text + (", whose run it extends" if here else ": it is in no sum"))
        again = next((node for node in arrival["nodes"] if (arrival["extends"], node) in seen), None)
        if again is not None:
            first = one_line(str(seen[arrival["extends"], again]))
            problems.append(
                f"{name}: {again} arrived before, in {first}: its edges are read by two releases under one claim"
            )
        seen |= {(arrival["extends"], node): one.folder for node in arrival["nodes"]}
    return problems, aside
