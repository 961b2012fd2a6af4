"""A network of the user's own on noisy sums over neighbors, at node level: hops and training under one budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato._validate import check_fields, fail, integer
from sfumato.central._dpsgd import DPSGD, Rows
from sfumato.central._gap import Hops, encode
from sfumato.central._learning import Features, sgd_event
from sfumato.method.card import Audience, Card
from sfumato.method.hops import aggregate, aggregation_releases
from sfumato.privacy._splitting import SGD_WEIGHT, Part, balance
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit


@dataclass(frozen=True)
class PrivateTrainer(DPSGD):
    r"""A private trainer releases noisy sums over neighbors and trains a network of your own on them by DP-SGD, at node level.

    With :math:`h^{(0)}_v` the features of node v, scaled to norm 1, each hop k = 1, ..., K releases :math:`s^{(k)}`, noisy sums
    of :math:`h^{(k-1)}` over the arcs that lead to v, and :math:`h^{(k)}` are its rows, scaled to norm 1. The network reads
    :math:`(h^{(0)}_v, \dots, h^{(K)}_v)`, side by side, and is trained as :class:`~sfumato.central._dpsgd.DPSGD` trains it.

    **Formal guarantee.** At node level with owned arcs: K Gaussian releases with the sensitivity of
    :func:`~sfumato.bounded.aggregation.hop_sensitivity`, and one Poisson-sampled Gaussian run, composed jointly, as in GAP
    without encoder (:mod:`~sfumato.central._gap`). A row of the network is made of the node's own features and of what was
    released, so a record is one example. Other units are refused: at edge level training is free (``sfumato.pyg.PrivateHops``).

    Shapes: the network maps float [n, (K + 1) num_features] to scores [n, num_classes]; each hop is int64 [num_nodes,
    num_features]. Noise is added to each column, so few columns serve best.

    Args:
        num_hops: K, from 1 to 1000.

    Other arguments are those of :class:`~sfumato.central._dpsgd.DPSGD`.

    Raises:
        InputError: a setting is out of range. ``calibrate`` also raises it for a network without a proof, and
            UnsupportedUnitError under other units.

    >>> from torch import nn
    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> trainer = PrivateTrainer(nn.Linear(30, 3))
    >>> plan = trainer.calibrate(Budget(4.0, 1e-5), NodeLevel(max_out_degree=20), facts)
    >>> [release.name for release in plan.releases], round(plan.epsilon, 2)
    (['aggregate/1', 'aggregate/2', 'network'], 4.0)

    Source: Sajadmanesh et al. (2023), GAP, algorithms 5 and 6; Abadi et al. (2016), algorithm 1.
    """

    num_hops: int = 2
    card: ClassVar[Card] = Card(
        name="dpsgd-hops",
        summary="network of the user's own on noisy sums over neighbors",
        units=("node",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        controls=(),
        reads_weights=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, num_hops=integer(1, 1000))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings, with the number of hops."""
        return {**super().settings, "num_hops": self.num_hops}

    def width(self, public: PublicFacts) -> int:
        """Return how many numbers the network reads of a node.

        Raises:
            InputError: there are no features.
        """
        if not public.num_features:
            raise fail("num_features", 0, "to be 1 or more", "Without features there is nothing to send.")
        return (self.num_hops + 1) * public.num_features

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List K aggregations, and one DP-SGD run whose noise is that of a public rule."""
        hops = aggregation_releases(unit, public, self.num_hops, public.num_features, noise_multiplier)
        sgd = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
        parts = (Part(GaussianEvent(noise_multiplier, len(hops))), Part(sgd, SGD_WEIGHT))
        event = parts[1].at(balance(parts, noise_multiplier)[1])
        return (*hops, Release("network", event, (self.size,), self.size, arc_change=unit.no_arc_change))

    def inputs(self, plan: Planned, graph: Graph, session: Session) -> tuple[Rows, Arrays]:
        """Release the hops; return what the network reads of nodes, and the releases.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        encoded = encode(None, Features(graph))
        released = aggregate(plan, graph, session, encoded, self.num_hops)
        return _side_by_side(Hops(encoded, released)), released

    def reading(self, released: Arrays, graph: Graph) -> Rows:
        """Return what the network reads of nodes, from stored hops and the nodes' own features."""
        return _side_by_side(Hops(encode(None, Features(graph)), released))


def _side_by_side(hops: Hops) -> Rows:
    def rows(ids: Any) -> Tensor:
        return hops.rows(ids).flatten(1)

    return rows
