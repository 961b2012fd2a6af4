"""The recommended local method smooths label reports under three priors and adds graph networks on feature reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from sfumato._validate import setting
from sfumato.local._controls import CHOSEN, REPORTED, beside_hybrid
from sfumato.local._dendrogram import CommunityTrees
from sfumato.local._label_only import HEAT_KERNEL
from sfumato.local._lpgnn import LPGNN
from sfumato.local._method import LocalMethod
from sfumato.local._smoothing import WalkKernelRidge
from sfumato.method.card import Card
from sfumato.randomizers._questions import NOT_ASKED, Questions

if TYPE_CHECKING:
    from sfumato.local._collection import Collection
    from sfumato.local._heat import Floats
    from sfumato.method.contract import Arrays, Session

_FLOOR = 0.01  # added to probabilities before their logarithm, so that no expert has a veto
_TINY = np.float32(1e-37)
_SMOOTHINGS = (HEAT_KERNEL, CommunityTrees(), WalkKernelRidge())
_TYPICAL, _SPREAD = np.array([0.5, 0.5, 0.2]), 0.5
_STEPS = (0, 8)
_TYPICAL_BESIDE, _SPREAD_BESIDE = np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.25, 0.25])  # their product, the networks


@dataclass(frozen=True)
class Hybrid(LocalMethod):
    r"""The hybrid multiplies label reports under three priors with feature reports in two networks, weighed by the reports.

    Experts on labels: :class:`~sfumato.local._smoothing.HeatKernelRidge` (near nodes are alike),
    :class:`~sfumato.local._dendrogram.CommunityTrees` (members of a community are) and
    :class:`~sfumato.local._smoothing.WalkKernelRidge` (nodes with the same neighbors are). With :math:`p_e` what an expert
    says of a node without its own report,

    .. math:: p \propto \prod_e (p_e + 0.01)^{w_e},

    where w maximizes the likelihood of all reports, :math:`\sum_v \log (p_v T)_{r_v}`, under a Gaussian prior (0.5, 0.5
    and 0.2, standard deviation 0.5; w >= 0).

    Where features are asked for, GraphSAGE learns from the training reports, on feature reports as they are and after 8
    hops, with forward correction, and stops by validation reports. These then weigh the two networks and the product
    above, under a prior of 0 and 1 (standard deviations 0.25 and 0.5): what networks do not show to be worth is not used.
    At small budgets that is all of it: ``epsilon_x=0`` asks nobody for features and is the default.

    ``mechanism`` is "collision" by default: features are sets, entries above 0 are members. For numeric columns take
    "multi-bit".

    **Formal guarantee.** That of its :class:`~sfumato.randomizers._questions.Questions`: all else is post-processing.

    Weights: ``probabilities`` float32 [n, C], which are the predictions, and ``exponents`` float32 [experts].

    Settings are those of :class:`~sfumato.randomizers._questions.Questions`; ``epsilon_x`` is 0 by default.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under any unit but its own.

    >>> Hybrid(epsilon_y=0.5).name
    'hybrid'
    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = Hybrid(epsilon_y=0.5)
    >>> method.calibrate(None, method.unit, facts).epsilon
    0.5

    Source: product of experts, Hinton (2002); forward correction, Patrini et al. (2017).
    """

    epsilon_x: float | None = 0.0
    mechanism: str = setting("collision", unless=NOT_ASKED)
    card: ClassVar[Card] = Card(
        name="hybrid",
        summary="labels, and features if asked for, randomized by each user (a published form with --preset)",
        words=("lpgnn",),
        options={
            "epsilon_x": "epsilon_x",
            "epsilon_y": "epsilon_y",
            "mechanism": "mechanism",
            "delta": "delta",
            "preset": "",
        },
        units=("local",),
        citations=("kondor2002diffusion",),
        audience=REPORTED,
        controls=beside_hybrid(tuple(field.name for field in fields(Questions))),
        notes=(CHOSEN,),
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> LocalMethod:
        """Build the method that a command line names; with a preset this is the published network."""
        if options.get("preset") is not None:
            return LPGNN.from_options(options, dataset)
        return cls(**cls._spent(cls._asked(options)))

    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Let every expert learn, then weigh them; arguments as in :meth:`LocalMethod.learn`."""
        known, val = collection.known, collection.val_mask
        smoothed = [smoothing.fit(*collection.reports) for smoothing in _SMOOTHINGS]
        full = np.stack([_log(one.probabilities) for one in smoothed])
        held_out = np.stack([_log(one.held_out) for one in smoothed])
        likelihood = collection.transition.T[collection.labels]  # of unknown nodes too, where it is not read
        exponents = _weigh(held_out[:, known], likelihood[known], _TYPICAL, _SPREAD)
        if collection.features is not None:
            networks = np.stack([self._network(steps, collection, num_classes, session) for steps in _STEPS])
            product = log_softmax(np.tensordot(exponents, held_out, 1), axis=1)
            experts = np.stack((product[val], *networks[:, val]))
            first, *rest = _weigh(experts, likelihood[val], _TYPICAL_BESIDE, _SPREAD_BESIDE)
            full, exponents = np.concatenate((full, networks)), np.array([*first * exponents, *rest])
        probabilities = softmax(np.tensordot(exponents, full, 1), axis=1)
        return {"probabilities": probabilities.astype(np.float32), "exponents": exponents.astype(np.float32)}

    def held_out(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Take out of the product what each expert on labels says, and put in what it says without the node's own report.

        Arguments are those of :meth:`LocalMethod.held_out`.
        """
        smoothed = [smoothing.fit(*collection.reports) for smoothing in _SMOOTHINGS]
        change = np.stack([_log(one.held_out) - _log(one.probabilities) for one in smoothed])
        exponents = weights["exponents"][: len(smoothed)].astype(np.float64)
        product = np.log(np.maximum(weights["probabilities"], _TINY))
        return (product + np.tensordot(exponents, change, 1)).astype(np.float32)

    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Return the logarithms of the stored probabilities, float32 [n, C]."""
        return np.log(np.maximum(weights["probabilities"], np.float32(1e-12)))

    def _network(self, steps: int, collection: Collection, num_classes: int, session: Session) -> Floats:
        asked = {field.name: getattr(self, field.name) for field in fields(Questions)}
        network = LPGNN(**asked, steps_x=steps, loss="forward", epochs=200, patience=20)
        return _log(np.exp(network.predict(network.learn(collection, num_classes, session), collection)))


def _log(probabilities: Floats) -> Floats:
    return np.log(probabilities + _FLOOR)


def _weigh(logs: Floats, likelihood: Floats, typical: Floats, spread: Floats | float) -> Floats:
    """Exponents [experts] for log-probabilities [experts, n, C], from the likelihood [n, C] of reports that no expert read."""

    def loss(exponents: Floats) -> tuple[float, Floats]:
        mixed = softmax(np.tensordot(exponents, logs, 1), axis=1)
        joint = mixed * likelihood
        seen = joint.sum(axis=1, keepdims=True) + 1e-300
        slope = np.tensordot(logs, joint / seen - mixed, 2)
        away = (exponents - typical) / spread
        return float((away**2).sum() / 2 - np.log(seen).sum()), away / spread - slope

    return np.asarray(minimize(loss, typical, jac=True, method="L-BFGS-B", bounds=[(0, 5)] * len(logs)).x)
