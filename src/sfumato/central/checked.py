"""Checked label messages: where validation labels are public, messages are used only if they predict these better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.central._learning import Features, labeled, load_weights, network_arrays, seeded, train
from sfumato.central.arrivals import softmax
from sfumato.central.labels import LabelMessages
from sfumato.central.linear import apply_rows
from sfumato.errors import UnsupportedUnitError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn import models

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release

_ALONE = "alone"
_WIDTH = 64


@dataclass(frozen=True)
class CheckedMessages(LabelMessages):
    """Checked messages keep label messages or a network of features alone, whichever predicts more validation labels right.

    **Formal guarantee.** That of :class:`~sfumato.central.labels.LabelMessages` at edge level, which is spent in both cases.
    Features and labels are public there, and the network reads nothing else, so training it and comparing the two are
    post-processing. Units under which labels are private are refused.

    Scores are float32 [num_nodes, num_classes]. Settings are those of :class:`~sfumato.central.labels.LabelMessages`.

    Errors: ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> CheckedMessages().num_hops is None
    True
    """

    card: ClassVar[Card] = Card(
        name="checked-messages",
        summary="label messages or features, as public validation labels say (edge level)",
        units=("edge",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
    )

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the hops of label messages.

        ``unit``, ``public`` and ``noise_multiplier`` are those of :meth:`~sfumato.method.contract.Method.releases`.

        Raises:
            UnsupportedUnitError: labels are private under the unit.
        """
        if "labels" not in unit.public:
            raise UnsupportedUnitError(
                f"Method 'checked-messages' compares models on labels in the clear and has no proof under unit {unit.name!r}. "
                "Use piloted-messages, which pays for the comparison."
            )
        return super().releases(unit, public, noise_multiplier)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Run label messages, train the network, and keep one of them.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        told = super().run(plan, graph, session)
        with seeded(session.seed):
            network = _network(plan.public)
        train(self, plan, session, _ALONE, network, graph, Features(graph).rows)
        alone = network_arrays(_ALONE, network)
        y, _, val = labeled(graph)
        right = [
            np.count_nonzero(self.scores(plan, weights, told.released, graph)[val].argmax(axis=1) == y[val].numpy())
            for weights in (told.weights, alone)
        ]
        return told if right[0] >= right[1] else Outcome(alone, told.released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply what was kept: the head to released rows and features, or the network to features.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        if not _is_alone(weights):
            return super().scores(plan, weights, released, graph)
        network = _network(plan.public)
        load_weights(network, weights, _ALONE)
        return apply_rows(network, Features(graph).rows(None))

    def before_messages(self, plan: Planned, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute class probabilities of every node from its features alone.

        ``plan``, ``weights`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        if _is_alone(weights):
            return softmax(self.scores(plan, weights, {}, graph))
        return super().before_messages(plan, weights, graph)


def _is_alone(weights: Arrays) -> bool:
    return any(name.startswith(f"{_ALONE}.") for name in weights)


def _network(public: PublicFacts) -> models.MLP:
    return models.MLP((public.num_features, _WIDTH, public.num_classes), batch_norm=True)
