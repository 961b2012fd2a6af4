"""Attacks on code that counts the records it holds: two data sets in which nearly all records are empty.

A divisor has to be public. One that counts the records that are there doubles where a second record joins a first: weights,
which are mostly noise over that divisor, become shorter. Among many records the same fault is hard to see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.audit._thresholds import audit_runs
from sfumato.graph._subgraph import dense_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.audit._evidence import Evidence
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan


def two_records(graph: Graph) -> tuple[Graph, Graph]:
    """Return two neighboring data sets without arcs: all training records are empty but two, or but one."""
    assert graph.y is not None
    labels, rows = graph.y, dense_rows(graph)
    bare = replace(
        graph,
        indptr=np.zeros(graph.num_nodes + 1, np.int64),
        indices=np.zeros(0, np.int32),
        degree_bounds=None,
        weights=None,
        types=None,
    )
    trained = np.flatnonzero(graph.train_mask & (labels >= 0))

    def kept(count: int) -> Graph:
        gone = graph.train_mask.copy()
        gone[trained[:count]] = False
        return replace(bare, x=np.where(gone[:, None], 0, rows).astype(np.float32), y=np.where(gone, -1, labels))

    return kept(2), kept(1)


def audit_two_records(
    plan: Plan,
    worlds: tuple[Graph, Graph],
    *,
    fits: int,
    confidence: float,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Return the epsilon that the lengths of weights rule out, half of which were trained with one record more.

    **Formal guarantee.** If training is (epsilon, delta)-DP at the delta of the plan, the bound exceeds epsilon with probability
    at most 1 - ``confidence``: fits draw keys of their own, so lengths are independent.
    """
    found: list[list[float]] = [[], []]
    for number in range(fits):
        for scores, world in zip(found, worlds, strict=True):
            scores.append(-_length(plan.fit(world, seed=seed)))
        if progress is not None:
            progress(number + 1, fits)
    members, others = (np.array(scores) for scores in found)
    knowledge = "every record but the canary, and weights"
    return audit_runs(
        members, others, name="second of two records, length of weights", knowledge=knowledge, delta=plan.delta or 0.0,
        confidence=confidence,
    )  # fmt: skip


def _length(fitted: Fitted) -> float:
    weights: list[NDArray[np.float64]] = [array.astype(np.float64).ravel() for array in fitted.weights.values()]
    return float(np.linalg.norm(np.concatenate(weights)))
