"""The control of every local method uses labels alone, smoothed over the public graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, fail
from sfumato.local._controls import BESIDE_LABELS, CHOSEN, REPORTED
from sfumato.local._method import LocalMethod
from sfumato.local._propagation import best_propagation
from sfumato.local._smoothing import HeatKernelRidge
from sfumato.method.card import Card

if TYPE_CHECKING:
    from sfumato.local._collection import Collection
    from sfumato.method.contract import Arrays, Session

FORMS = ("heat-kernel", "propagation")
HEAT_KERNEL = HeatKernelRidge()
"""Shared by all methods that take it, since it keeps the kernels of the last graph (which is public)."""
_LEAST = 1e-12


@dataclass(frozen=True)
class LabelOnly(LocalMethod):
    r"""Label-only smooths noisy labels over the graph (:mod:`~sfumato.local._smoothing`); features are never asked for.

    Args:
        form: "heat-kernel", the ridge, or "propagation", K hops or personalized PageRank; either chooses its settings on the
            reports alone.

    **Formal guarantee.** A user's label is :math:`\epsilon_y`-LDP, delta 0; features leave no device: epsilon 0.

    Weights: ``probabilities`` float32 [n, C], which are also the predictions.

    Raises:
        InputError: ``epsilon_x`` is not 0 (or None, without privacy), or another setting is out of range.

    >>> LabelOnly(epsilon_y=0.5).unit.describe()
    "one user's features and label, from everyone, the server too"
    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = LabelOnly(epsilon_y=0.5)
    >>> method.calibrate(None, method.unit, facts).epsilon
    0.5
    """

    epsilon_x: float | None = 0.0
    form: str = "heat-kernel"
    card: ClassVar[Card] = Card(
        name="label-only",
        summary="labels randomized by each user, smoothed over the graph",
        options={"epsilon_x": "epsilon_x", "epsilon_y": "epsilon_y", "delta": "delta"},
        units=("local",),
        citations=("kondor2002diffusion",),
        audience=REPORTED,
        controls=BESIDE_LABELS,
        notes=(CHOSEN,),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(FORMS, form=self.form)
        if self.epsilon_x:
            raise fail("epsilon_x", self.epsilon_x, "to be 0 for label-only, which asks for no features", "Drop it.")

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> LabelOnly:
        """Build the method that a command line names; with labels in the clear nothing is asked, so nothing is private."""
        asked = cls._asked(options)
        if asked.get("epsilon_y", 0.0) is None:
            asked["epsilon_x"] = asked.get("epsilon_x") or None
        return cls(**cls._spent(asked))

    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Estimate the labels: smooth the reported ones; arguments as in :meth:`LocalMethod.learn`."""
        if self.form == "heat-kernel":
            return {"probabilities": HEAT_KERNEL.fit(*collection.reports).probabilities.astype(np.float32)}
        scores = np.maximum(best_propagation(*collection.reports), _LEAST)
        return {"probabilities": (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)}

    def held_out(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Compute labels smoothed without the report of each node itself; arguments as in :meth:`LocalMethod.held_out`."""
        if self.form == "propagation":
            known = collection.known & ~collection.val_mask
            scores = best_propagation(collection.adjacency, collection.labels, known, collection.transition)
        else:
            scores = HEAT_KERNEL.fit(*collection.reports).held_out
        return np.log(np.maximum(scores, _LEAST)).astype(np.float32)

    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Return the logarithms of the stored probabilities, float32 [n, C]."""
        return np.log(np.maximum(weights["probabilities"], np.float32(_LEAST)))
