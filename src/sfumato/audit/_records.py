r"""Attacks on trained weights: records with a feature of their own, found again by what was learned from that feature.

Of each canary (:func:`~sfumato.audit._canaries.record_canaries`) the attacker knows the record. He scores it:

* *answer*: the log-odds that the model gives the canary's label, against its best (for replaced records: its other) rival. Where
  labels are private this reads the weights and the canary's own features alone.
* *column*: the length of the weights that read the canary's column, and its entry in a mean of all rows. Nothing but the canary
  and noise moves them.

Weights were trained on all canaries together, so scores of one fit depend on each other. Bounds come from estimators that hold
under any dependence (:mod:`~sfumato.audit._one_run`). Several fits count as one run with the canaries of all of them: fits are
independent, and each coin enters one of them only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sfumato.audit._canaries import Canaries
    from sfumato.method._plan import Fitted

ANSWER, COLUMN = "answer", "column"


@dataclass
class RecordScores:
    """Scores of canaries over many fits, by attack."""

    members: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)
    others: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, fitted: Fitted, canaries: Canaries, coins: NDArray[np.bool_]) -> None:
        """Score the canaries of one fit."""
        found: dict[str, NDArray[np.float64] | None]
        found = {ANSWER: answers(fitted, canaries), COLUMN: columns(fitted, canaries), **means(fitted, canaries)}
        for name, scores in found.items():
            if scores is not None:
                self.members.setdefault(name, []).append(scores[coins])
                self.others.setdefault(name, []).append(scores[~coins])


def answers(fitted: Fitted, canaries: Canaries) -> NDArray[np.float64]:
    """Compute the log-odds of each canary's label against its strongest rival, float64 [m]."""
    graph, out = canaries.graph, canaries.without
    assert graph.y is not None
    assert out.y is not None
    rows = np.log(np.maximum(fitted.predict_proba(graph)[canaries.nodes].astype(np.float64), 1e-30))
    own = rows[np.arange(len(rows)), graph.y[canaries.nodes]]
    other = out.y[canaries.nodes]
    rivals = rows.copy()
    rivals[np.arange(len(rows)), graph.y[canaries.nodes]] = -np.inf
    best = np.where(other >= 0, rows[np.arange(len(rows)), other], rivals.max(axis=1))
    return np.asarray(own - best, np.float64)


def columns(fitted: Fitted, canaries: Canaries) -> NDArray[np.float64] | None:
    """Compute the length of the weights that read each canary's own column, float64 [m]; None if no weights read columns."""
    features, classes, count = canaries.graph.num_features, canaries.graph.num_classes, len(canaries)
    own = [
        array[:, -count:].astype(np.float64)
        for array in fitted.weights.values()
        if array.ndim == 2 and array.shape[1] in (features, features + classes) and features > count
    ]
    return np.sqrt(np.square(np.concatenate(own)).sum(axis=0)) if own else None


def means(fitted: Fitted, canaries: Canaries) -> dict[str, NDArray[np.float64]]:
    """Return the entry of each canary's own column in every vector over columns, such as a center, by name, float64 [m]."""
    features, count = canaries.graph.num_features, len(canaries)
    vectors = {name: array for name, array in fitted.weights.items() if array.shape == (features,) and features > count}
    return {f"{COLUMN} of {name}": array[-count:].astype(np.float64) for name, array in vectors.items()}
