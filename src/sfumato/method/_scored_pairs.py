"""The part of a method's contract that is about pairs of nodes: their scores, released rows, and who finds the best others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.method._suggesting import CodeFinder, Finder, Scorer

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

Planned: TypeAlias = Any
Arrays: TypeAlias = Any
"""The contract has both, which stands above."""


class ScoredPairs:
    """Scores of pairs; by default a method scores nodes, and has a row of noisy sums for each."""

    name: str

    def pair_scorer(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Scorer:
        """Return what computes the score of each pair of nodes, float64 [m], from row numbers [2, m], where links were learned.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`scores`.

        Raises:
            InputError: the method scores nodes.
        """
        raise fail("method", self.name, "to score pairs of nodes", "Train link-messages or pgc with `task` link.")

    @property
    def rows_called(self) -> str:
        """Return how the audience names what :meth:`released_rows` gives."""
        return "noisy aggregates"

    def released_rows(self, plan: Planned, weights: Arrays, released: Arrays) -> NDArray[np.float32]:
        """Return the released row of each node, float32 [num_nodes, columns]: all noisy sums, side by side.

        ``plan``, ``weights`` and ``released`` are those of :meth:`scores`.

        Raises:
            InputError: the method releases no such rows.
        """
        from sfumato.loops.kernels import INT16_ONE

        of_nodes = [one.name for one in plan.releases if len(one.shape) == 2 and one.shape[0] == plan.public.num_nodes]
        rows = [released[name] / INT16_ONE for name in of_nodes if name in released]
        if not rows:
            raise fail("method", self.name, "to release a row for each node", "Train gap, progap or label-messages.")
        return np.hstack(rows).astype(np.float32)

    def finder(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Finder:
        """Return what finds the best others of nodes: by default, by released rows and scores of pairs. No edge is read.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`pair_scorer`.
        """
        codes = self.released_rows(plan, weights, released)
        return CodeFinder(codes, self.pair_scorer(plan, weights, released, graph))

    def own_scores(
        self, plan: Planned, released: Arrays, graph: Graph, node: int, neighbors: NDArray[np.integer]
    ) -> NDArray[np.float64] | None:
        """Return the score of every node for a viewer, ``node``, by the viewer's own ``neighbors``; None if none is made so.

        ``plan``, ``released`` and ``graph`` are those of :meth:`pair_scorer`.
        """
        return None
