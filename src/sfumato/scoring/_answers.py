"""What a fitted model says of labeled nodes, node by node: what paired comparisons and tables by class and group start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.graph._facts import labeled_mask
from sfumato.graph._targets import CLASS, NUMBER
from sfumato.nn._metrics import area_by_row

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

LEAST_CHANCE = 1e-9
"""The least probability of which a logarithm is taken, as in :func:`sfumato.nn._metrics.class_scores`."""
_SAME = 1e-6
LOSSES = ("log_loss", "squared_error")
"""What is measured node by node and is better if it is less."""


class Predictor(Protocol):
    """Any object that predicts a class, labels or a number for every node of a graph."""

    def predict(self, graph: Graph) -> NDArray[Any]: ...
    def predict_proba(self, graph: Graph) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Answers:
    """What one fit says of some labeled nodes of its split.

    ``nodes`` are row numbers [m]. ``truth`` and ``told`` are classes [m] or targets [m, k], ``chances`` probabilities [m, k].
    """

    kind: str
    nodes: NDArray[np.int64]
    truth: NDArray[Any]
    told: NDArray[Any]
    chances: NDArray[np.floating]

    def among(self, mask: NDArray[np.bool_]) -> Answers:
        """Return the answers for those of the nodes that a mask over the whole graph marks."""
        at = mask[self.nodes]
        return Answers(self.kind, self.nodes[at], self.truth[at], self.told[at], self.chances[at])

    def ranked(self, labels: Sequence[int]) -> NDArray[np.float64]:
        """Return values of the nodes whose mean is the area under the ROC curve, of some classes each against the rest."""
        areas = [area_by_row(self.truth == label, self.chances[:, label]) for label in labels]
        shares: NDArray[np.float64] = np.mean(areas, axis=0)
        return shares

    @cached_property
    def each(self) -> dict[str, NDArray[np.float64]]:
        """Measure every node: of classes whether it is right, and the log-loss; else the log-loss, or the squared error."""
        if self.kind == CLASS:
            true = self.chances[np.arange(len(self.truth)), self.truth]
            return {"accuracy": (self.told == self.truth).astype(np.float64), "log_loss": _surprise(true)}
        if self.kind == NUMBER:
            return {"squared_error": np.square(self.told.astype(np.float64) - self.truth[:, 0])}
        known = ~np.isnan(self.truth)
        true = np.where(self.truth == 1, self.chances, 1 - self.chances)
        return {"log_loss": (_surprise(true) * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)}


def alike_words(
    told: NDArray[np.integer], chances: NDArray[np.floating], classes: Sequence[str], which: str = ""
) -> tuple[str, ...]:
    """Say where all nodes are told the same class, and where they even have the same probabilities."""
    if len(told) < 2 or (told != told[0]).any():
        return ()
    same = bool(np.ptp(chances, axis=0).max() < _SAME)
    rest = (
        "and they have the same probabilities: nothing tells them apart"
        if same
        else "they differ in their probabilities alone"
    )
    return (f"All {len(told):,} nodes{which} are told the same class, {classes[int(told[0])]!r}: {rest}.",)


def mean_loss(answers: Answers) -> float:
    """Return the mean of what is better if it is less: the log-loss, or of numbers the squared error."""
    (loss,) = (values for name, values in answers.each.items() if name in LOSSES)
    return float(loss.mean())


def answers_of(fitted: Predictor, graph: Graph, among: NDArray[np.bool_] | None = None) -> Answers:
    """Return what a fitted model says of the labeled nodes of a graph, or of some of them. It reads true labels."""
    asked = labeled_mask(graph) if among is None else labeled_mask(graph) & among
    nodes = np.flatnonzero(asked)
    kind = CLASS if graph.targets is None else graph.targets.kind
    truth = graph.y if graph.targets is None else graph.targets.values
    assert truth is not None
    if hasattr(fitted, "told"):  # a model of this package, which computes both from the same scores
        told, chances = fitted.told(graph, nodes)
    else:
        told = fitted.predict(graph)[nodes]
        chances = np.empty((len(nodes), 0), np.float32) if kind == NUMBER else fitted.predict_proba(graph)[nodes]
    return Answers(kind, nodes, truth[nodes], told, chances)


def _surprise(chances: NDArray[np.floating]) -> NDArray[np.float64]:
    return -np.log(np.maximum(chances.astype(np.float64), LEAST_CHANCE))
