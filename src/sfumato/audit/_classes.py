"""Audits of methods that hide a class or a cell of it, by training again and again with its images and with others.

The canary is a cell: a class, or a part of one. On one side it holds its images, on the other their negatives, under the
same label, which pull the network another way: about at a right angle, so that sqrt 2 of the proof's distance of 2 clip norms is
seen. Its score is how much more the network believes in this label on the mean image of the cell than on the mean of the
negatives. There are few cells in a data set, so that a single run can prove
little: of m canaries that are all told rightly, it certifies an epsilon of at most logit(0.05^(1 / m)) at 95 %, that is 1.05
for 10 classes. Many runs have no such limit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_int, fail
from sfumato.audit._evidence import CONFIDENCE
from sfumato.audit._thresholds import audit_runs
from sfumato.classlevel._class_dp import CellMethod

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.audit._evidence import Evidence
    from sfumato.audit._thresholds import Policy
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Plan


def audit_cell(
    plan: Plan,
    graph: Graph,
    *,
    cell: int = 0,
    fits: int = 100,
    confidence: float = CONFIDENCE,
    policy: Policy | None = None,
) -> Evidence:
    """Return the epsilon that networks rule out, half of which were trained with the images of a cell and half with others.

    **Formal guarantee.** Unit: one class, or one cell of a class, replaced. If training is (epsilon, delta)-DP at the delta
    of the plan, the bound exceeds epsilon with probability at most 1 - ``confidence``: fits are independent, since each
    draws its own key.
    """
    method = plan.method
    if not isinstance(method, CellMethod) or plan.delta is None:
        raise fail("plan", plan.method.card.name, "to be a private plan of class-dp or subclass-dp")
    if graph.x is None or graph.y is None:
        raise fail("graph", graph.name, "to hold images and their classes")
    fits = check_int(low=1, fits=fits)
    cells, _ = method.cells(plan.unit, graph)
    held = (cells == check_int(low=0, cell=cell)) & graph.train_mask
    if not held.any():
        raise fail("cell", cell, "to hold training images")
    pixels = np.array(graph.x)
    pixels[held] = 1 - pixels[held]
    other = replace(graph, x=pixels)
    if not np.array_equal(method.cells(plan.unit, other)[0][held], cells[held]):
        raise fail("cell", cell, "to hold the negatives of its images too", "Audit declared cells.")
    probes, label = np.stack([graph.x[held].mean(axis=0), pixels[held].mean(axis=0)]), int(graph.y[held][0])
    members, others = (_beliefs(plan, method, side, graph, probes, label, fits) for side in (graph, other))
    return audit_runs(
        members,
        others,
        name=f"canary cell {cell}, trained again",
        knowledge="all other images, both versions of the cell, and the weights",
        delta=plan.delta,
        confidence=confidence,
        policy=policy,
    )


def _beliefs(
    plan: Plan, method: CellMethod, trained_on: Graph, graph: Graph, probes: NDArray[np.float32], label: int, fits: int
) -> NDArray[np.float64]:
    """Train anew for each score: what the label gains from the second probe to the first."""
    asked = np.array(graph.x)
    asked[:2] = probes
    seen, found = replace(graph, x=asked), []
    for _ in range(fits):
        fitted = plan.fit(trained_on)
        scores = method.scores(fitted.ran, fitted.weights, fitted.released, seen)[:2].astype(float)
        beliefs = scores[:, label] - np.delete(scores, label, axis=1).mean(axis=1)
        found.append(beliefs[0] - beliefs[1])
    return np.array(found)
