r"""Persons who own several examples count once each: the mean of what their rows say, and never the sum.

Let :math:`n_p` be how many of the rows that are summed person p owns. Who owns which row is public
(:class:`~sfumato.privacy.units.PersonNodesLevel`), so :math:`n_p` is too. Where a row v of person p adds :math:`r_v`, of norm at
most C, the sum is

.. math:: S = \sum_p \frac{1}{n_p} \sum_{v \in p} r_v

**Claim.** If the records of all rows of one person become empty (each then adds zero), S moves by norm at most C.

*Proof.* No other person's rows change, since a row reads its own record, public facts and earlier releases. What p adds is
:math:`\frac{1}{n_p} \sum_{v \in p} r_v`, of norm at most :math:`\frac{1}{n_p} n_p C = C` by the triangle inequality, and becomes
zero. :math:`\square` Rows that all point one way reach C.

**Why not the plain sum.** It moves by up to m C, with m the bound on rows a person, so its noise is m times as large: N rows
count as N / m. The mean counts every person as one, and of N rows at most m are of one person, so there are at least N / m
persons. The mean never does worse, and where all persons own m rows both are the same.

**In integers.** A row of integers q of norm at most Q is divided toward zero, coordinate by coordinate, by :math:`n_p`. No
coordinate gets longer than :math:`|q_c| / n_p`, so the norm is at most :math:`Q / n_p`: the proof above holds for the integers
themselves (:func:`thinned`). DP-SGD sums the rows of all persons with the same :math:`n_p` exactly, and divides that sum as it
rounds to the grid of its noise. One person changes the sum of a single :math:`n_p`, by at most :math:`n_p C`, so the quotient by
at most C, and rounding by less than one step a coordinate, as for single rows (:mod:`~sfumato.bounded._gradients`).

**Sampling is by person.** One secret coin draws all rows of a person or none of them. Coins of single rows would draw some
of them with probability near :math:`m q`, which the accountant of q does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.privacy.units import Unit

Ints = NDArray[np.int64]


def owners_of(unit: Unit, graph: Graph, nodes: NDArray[np.integer]) -> Ints | None:
    """Return the person who owns each of some nodes, where a record is a person of many nodes; None under another unit.

    Raises:
        DataError: nobody owns the nodes of the graph, or persons may own more of them than the unit says.
    """
    if unit.nodes_per_person is None:
        return None
    if graph.cells is None or graph.nodes_per_person is None or graph.nodes_per_person > unit.nodes_per_person:
        raise DataError(
            f"Expected a graph of persons who own at most {unit.nodes_per_person} nodes each, got another. Use "
            "sf.graph.of_persons."
        )
    found: Ints = graph.cells[nodes]
    return found


def count_of(owners: Ints | None, rows: int) -> int:
    """Return how many records own so many rows, at least 1: persons, or the rows themselves where nobody else owns them.

    >>> count_of(np.array([4, 4, 9]), 3), count_of(None, 3)
    (2, 3)
    """
    return max(rows if owners is None else len(np.unique(owners)), 1)


def thinned(steps: NDArray[np.int16], owners: Ints) -> NDArray[np.int16]:
    """Divide the integers of each row toward zero by how many rows its person owns: int16 [num_rows, width].

    >>> thinned(np.array([[5], [-5], [5]], np.int16), np.array([1, 1, 2])).tolist()
    [[2], [-2], [5]]
    """
    _, number, counts = np.unique(owners, return_inverse=True, return_counts=True)
    wide = steps.astype(np.int64)  # a count may exceed what the type of the steps holds
    found: NDArray[np.int16] = (np.sign(wide) * (np.abs(wide) // counts[number][:, None])).astype(np.int16)
    return found


@dataclass(frozen=True)
class Persons:
    """The persons who own rows, and the rows of each.

    ``numbers`` are their public numbers [num_persons], ``counts`` how many rows each owns; their rows, one person after the
    other, are ``rows[starts[p] : starts[p] + counts[p]]``.
    """

    numbers: Ints
    counts: Ints
    rows: Ints
    starts: Ints

    @classmethod
    def of(cls, owners: Ints) -> Persons:
        """Group rows by the person who owns each, [num_rows]."""
        numbers, counts = np.unique(owners, return_counts=True)
        return cls(numbers, counts, np.argsort(owners, kind="stable"), np.cumsum(counts) - counts)

    def drawn(self, positions: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield each number of rows that drawn persons own, in ascending order, and the rows of those who own so many, sorted.

        >>> persons = Persons.of(np.array([7, 3, 7, 5]))
        >>> [(count, rows.tolist()) for count, rows in persons.drawn(np.array([0, 1, 2]))]
        [(1, [1, 3]), (2, [0, 2])]
        """
        for count in np.unique(self.counts[positions]).tolist():
            starts = self.starts[positions[self.counts[positions] == count]]
            yield count, np.sort(self.rows[(starts[:, None] + np.arange(count)).ravel()])
