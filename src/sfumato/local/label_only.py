"""The control of every local method: labels alone, smoothed over the public graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, fail
from sfumato.local.collection import Collection
from sfumato.local.method import LocalMethod
from sfumato.local.smoothing import HeatKernelRidge, best_propagation
from sfumato.method.method import Arrays, Session

FORMS = ("heat-kernel", "propagation")
_LEAST = 1e-12


@dataclass(frozen=True)
class LabelOnly(LocalMethod):
    r"""Noisy labels smoothed over the graph (:mod:`~sfumato.local.smoothing`); features are never asked for.

    Args:
        form: "heat-kernel", the ridge, or "propagation", K hops or personalized PageRank; either chooses its settings on the
            reports alone.

    **Formal guarantee.** A user's label is :math:`\epsilon_y`-LDP, delta 0; features leave no device: epsilon 0.

    Weights: ``probabilities`` float32 [n, C], which are also the predictions.

    Raises:
        InputError: ``epsilon_x`` is not 0 (or None, without privacy), or another setting is out of range.

    >>> LabelOnly(epsilon_y=0.5).unit.describe()
    "one user's features and label, from everyone, the server too"
    """

    epsilon_x: float | None = 0.0
    form: str = "heat-kernel"
    name: ClassVar[str] = "label-only"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(FORMS, form=self.form)
        if self.epsilon_x:
            raise fail("epsilon_x", self.epsilon_x, "to be 0 for label-only, which asks for no features", "Drop it.")

    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Smooth the reported labels."""
        reports = collection.adjacency, collection.labels, collection.known, collection.transition
        if self.form == "heat-kernel":
            return {"probabilities": HeatKernelRidge().fit(*reports).probabilities.astype(np.float32)}
        scores = np.maximum(best_propagation(*reports), _LEAST)
        return {"probabilities": (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)}

    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Logarithms of the stored probabilities."""
        return np.log(np.maximum(weights["probabilities"], np.float32(_LEAST)))
