"""All edges that ever came in a history, and which changes may follow them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import fail
from sfumato.bounded._history import NEVER
from sfumato.errors import InputError
from sfumato.record._days import NOTHING, Changes

if TYPE_CHECKING:
    from sfumato.bounded._refreshes import Ints


@dataclass(frozen=True)
class Edges:
    """Edges by row number, ``ends`` int64 [2, m], and the days on which each ``came`` and is ``gone``, int64 [m]; private.

    >>> day = Changes(np.array([[0, 1], [1, 2]]), NOTHING.went)
    >>> edges = Edges.of([(1, day), (2, Changes(NOTHING.came, np.array([[1], [0]])))], 3, directed=False)
    >>> edges.came.tolist(), edges.gone.tolist() == [2, NEVER]
    ([1, 1], True)
    """

    num_nodes: int
    directed: bool
    ends: Ints
    came: Ints
    gone: Ints

    @classmethod
    def of(cls, journal: Iterable[tuple[int, Changes]], num_nodes: int, directed: bool) -> Edges:
        """Collect the edges of a journal."""
        days = list(journal)
        ends = np.hstack([NOTHING.came, *(one.came for _, one in days)])
        came = np.repeat([day for day, _ in days], [one.came.shape[1] for _, one in days]).astype(np.int64)
        found = cls(num_nodes, directed, ends, came, np.full(len(came), NEVER))
        codes = found._codes(ends)
        order = np.argsort(codes, kind="stable")
        for day, one in days:
            found.gone[order[np.searchsorted(codes[order], found._codes(one.went))]] = day
        return found

    def arcs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the arcs: where they start and end, and when they came and went; of undirected edges both."""
        copies = 1 if self.directed else 2
        starts, ends = self.ends if self.directed else np.hstack([self.ends, self.ends[::-1]])
        return starts, ends, np.tile(self.came, copies), np.tile(self.gone, copies)

    def same(self, one: Changes, other: Changes) -> bool:
        """Return whether two days hold the same edges, in any order and direction."""
        mine, theirs = ([set(self._codes(ends).tolist()) for ends in vars(each).values()] for each in (one, other))
        return mine == theirs

    def check(self, changes: Changes) -> None:
        """Refuse edges that do not follow from what came before; errors name rows of the table, for the operator alone.

        Raises:
            InputError: an edge came before, goes without being there, ends at no node, or is a loop.
        """
        known, there = set(self._codes(self.ends).tolist()), set(self._codes(self.ends[:, self.gone == NEVER]).tolist())
        for name, edges in vars(changes).items():
            if edges.size and not (edges.min() >= 0 and edges.max() < self.num_nodes):
                remedy = "Nodes are declared when a history begins; one without an edge costs nothing."
                raise fail(name, "another number", f"to be rows of the {self.num_nodes} nodes", remedy)
            for row, code in enumerate(self._codes(edges).tolist(), 1):
                if name == "came" and edges[0, row - 1] == edges[1, row - 1]:
                    raise _refused(row, "joins a node with itself", "Leave it out.")
                if name == "came" and code in known:
                    raise _refused(
                        row, "came before, or is there twice", "An edge comes once, and goes once: leave it out."
                    )
                if name == "went" and code not in there:
                    raise _refused(
                        row, "goes, but is not there", "An edge goes once, after it came: leave it out.", "--removed"
                    )
                (known.add if name == "came" else there.discard)(code)
                if name == "came":
                    there.add(code)

    def _codes(self, ends: Ints) -> Ints:
        """One number for each edge; of undirected ones both directions have the same."""
        source, target = ends if self.directed else (ends.min(axis=0), ends.max(axis=0))
        return np.asarray(source * self.num_nodes + target)


def _refused(row: int, what: str, remedy: str, table: str = "--edges") -> InputError:
    return InputError(f"Row {row} of {table} {what}. {remedy} Nothing was taken and nothing released.")
