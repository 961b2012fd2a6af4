"""The recommended local method smooths label reports widely and adds graph networks on feature reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from sfumato.local.collection import Collection, Questions
from sfumato.local.controls import CHOSEN_ON_CORA, REPORTED, beside_hybrid
from sfumato.local.dendrogram import CommunityTrees
from sfumato.local.lpgnn import LPGNN
from sfumato.local.method import LocalMethod
from sfumato.local.smoothing import HeatKernelRidge
from sfumato.method.card import Card

if TYPE_CHECKING:
    from sfumato.local._heat import Floats
    from sfumato.method.contract import Arrays, Session

_FLOOR = 0.01  # added to probabilities before their logarithm, so that no expert has a veto
_STEPS = (0, 8)
_TYPICAL_SMOOTHING, _TYPICAL_NETWORK, _SPREAD = 0.7, 0.1, 0.5


@dataclass(frozen=True)
class Hybrid(LocalMethod):
    r"""The hybrid multiplies label reports under two priors with feature reports in two networks, weighed by validation reports.

    Experts: the product of :class:`~sfumato.local.smoothing.HeatKernelRidge` and
    :class:`~sfumato.local.dendrogram.CommunityTrees`; and, where features are asked for, GraphSAGE on feature reports as
    they are and after 8 hops, trained with forward correction and stopped on validation reports. With :math:`p_e` what an
    expert says without a node's own report,

    .. math:: p \propto \prod_e (p_e + 0.01)^{w_e},

    where w maximizes the likelihood of the validation reports, :math:`\sum_v \log (p_v T)_{r_v}`, under a weak Gaussian
    prior (0.7 for smoothing, 0.1 for a network, standard deviation 0.5; w >= 0). Features are worth their
    epsilon only where networks get weight: with ``epsilon_x=0`` nobody is asked for them.

    ``mechanism`` is "collision" by default: features are sets, entries above 0 are members. For numeric columns take
    "multi-bit".

    **Formal guarantee.** That of its :class:`~sfumato.local.collection.Questions`: all else is post-processing.

    Weights: ``probabilities`` float32 [n, C], which are the predictions, and ``exponents`` float32 [experts].

    Settings are those of :class:`~sfumato.local.collection.Questions`.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under any unit but its own.

    >>> Hybrid(epsilon_x=0.0, epsilon_y=0.5).name
    'hybrid'
    >>> from sfumato.graph.graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = Hybrid(epsilon_x=0.0, epsilon_y=0.5)
    >>> method.calibrate(None, method.unit, facts).epsilon
    0.5

    Source: product of experts, Hinton (2002); forward correction, Patrini et al. (2017).
    """

    mechanism: str = "collision"
    card: ClassVar[Card] = Card(
        name="hybrid",
        summary="features and labels randomized by each user (a published form with --preset)",
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
        notes=(CHOSEN_ON_CORA,),
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> LocalMethod:
        """Build the method that a command line names; with a preset this is the published network."""
        if options.get("preset") is not None:
            return LPGNN.from_options(options, dataset)
        return cls(**cls._asked(options))

    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Let every expert learn, then weigh them; arguments as in :meth:`LocalMethod.learn`."""
        reports = collection.adjacency, collection.labels, collection.known, collection.transition
        smoothed = [model.fit(*reports) for model in (HeatKernelRidge(), CommunityTrees())]
        full = [sum(_log(one.probabilities) for one in smoothed)]
        held_out = [sum(_log(one.held_out) for one in smoothed)]
        for steps in _STEPS if collection.features is not None else ():
            network = self._network(steps)
            weights = network.learn(collection, num_classes, session)
            full.append(_log(np.exp(network.predict(weights, collection))))
            held_out.append(full[-1])
        val = collection.val_mask
        likelihood = collection.transition[:, collection.labels[val]].T
        exponents = _weigh(np.stack(held_out)[:, val], likelihood)
        probabilities = softmax(np.tensordot(exponents, np.stack(full), 1), axis=1)
        return {"probabilities": probabilities.astype(np.float32), "exponents": exponents.astype(np.float32)}

    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Return the logarithms of the stored probabilities, float32 [n, C]."""
        return np.log(np.maximum(weights["probabilities"], np.float32(1e-12)))

    def _network(self, steps: int) -> LPGNN:
        asked = {field.name: getattr(self, field.name) for field in fields(Questions)}
        return LPGNN(**asked, steps_x=steps, loss="forward", epochs=200, patience=20)


def _log(probabilities: Floats) -> Floats:
    return np.log(probabilities + _FLOOR)


def _weigh(logs: Floats, likelihood: Floats) -> Floats:
    """Exponents [experts] for log-probabilities [experts, n, C], from the likelihood [n, C] of validation reports."""
    typical = np.full(len(logs), _TYPICAL_NETWORK)
    typical[0] = _TYPICAL_SMOOTHING

    def loss(exponents: Floats) -> float:
        mixed = log_softmax(np.tensordot(exponents, logs, 1), axis=1)
        seen = np.log((np.exp(mixed) * likelihood).sum(axis=1) + 1e-300).sum()
        return float(((exponents - typical) ** 2).sum() / (2 * _SPREAD**2) - seen)

    return np.asarray(minimize(loss, typical, method="L-BFGS-B", bounds=[(0, 5)] * len(logs)).x)
