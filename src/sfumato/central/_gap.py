"""GAP trains graph neural networks with aggregation perturbation (Sajadmanesh et al., 2023, USENIX Security).

1. *Encoder*: an MLP pre-trained on features and labels (equations 4.3 to 4.5), rows normalized to norm 1.
2. *Aggregation*: K noisy neighbourhood sums, each on the normalized result of the one before (algorithm 5).
3. *Classifier*: one linear map a hop, combined, with a linear head (equations 4.10 to 4.12). It reads released rows and
   the node's own encoding, so a way to combine them (concatenation, sum, attention) has no part in the sensitivities.

**Formal guarantee.**

* *Edge level.* Features and labels are public; arcs enter only through K Gaussian releases, each with noise multiplier
  z and the sensitivity of :func:`~sfumato.bounded.aggregation.hop_sensitivity`: 1 for an arc, sqrt 2 for an undirected
  edge. (Theorem 2 and lemma 6 of the paper state sensitivity 1 "for an edge"; that is one arc.)
* *Node level, owned arcs.* Each owner keeps at most D arcs (:mod:`~sfumato.bounded._degree`); K Gaussian releases with
  sensitivity sqrt D, and encoder and classifier trained by DP-SGD (:mod:`~sfumato.bounded._gradients`), composed jointly;
  :mod:`~sfumato.privacy._splitting` gives each part its noise.
  Theorem 3 of the paper holds for this unit; for all incident arcs its degree bound is not stable and no claim is made.
* *Types of edges* (edge level, if asked for). Each hop sums the same messages over the arcs of each type, side by side, with
  the noise of one hop (:class:`~sfumato.method.hops.Aggregation`). The classifier reads the block of each type and their sum, as
  so many more hops; the sum is what is sent on.
* *Without encoder.* Hop 1 sends the sender's own features, normalized, instead of its encoding: the same sensitivities,
  in rows as wide as the features, and at node level nothing is spent on an encoder.
* *Prediction* reads released rows, weights, and the node's own features: nothing is spent.

Without private labels the epoch with the best validation accuracy is kept; with private labels the last iterate is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato._blocks import let_go, rows_of
from sfumato._validate import check_fields, fail, flag, integer, one_of, optional
from sfumato.bounded.aggregation import normalize_rows
from sfumato.central._learning import Features, NetworkMethod, of_all, sgd_event, train
from sfumato.method._inference import Inference
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Origin, Outcome, Planned, Session
from sfumato.method.hops import added_up, aggregate, aggregation_releases
from sfumato.nn._models import COMBINE, Encoder, MultiHopClassifier
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.privacy._splitting import SGD_WEIGHT, Part, balance
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit


@dataclass(frozen=True)
class GAP(NetworkMethod):
    r"""GAP trains a graph network on noisy sums over neighbors (aggregation perturbation).

    With :math:`h^{(0)}` the rows of the encoder, of norm 1, each hop k = 1, ..., K releases

    .. math:: s^{(k)}_v = \sum_{u \to v} h^{(k-1)}_u + N(0, \sigma^2 I), \qquad h^{(k)}_v = s^{(k)}_v / \|s^{(k)}_v\|,

    where :math:`\sigma` is the noise multiplier times the L2 sensitivity of that hop (that of hop 1 is larger if a record is
    replaced). The classifier reads :math:`h^{(0)}, \dots, h^{(K)}`. None takes the public default for the unit: 100 epochs
    full-batch, 10 by DP-SGD.

    **Formal guarantee.** At edge level K Gaussian releases. At node level with owned arcs the same, and one DP-SGD run each
    for the encoder, if there is one, and the classifier. The module says under which conditions, with the sensitivities.
    Other units are refused.

    Shapes: each release is int64 [num_nodes, width], or [num_nodes, num_features] without encoder; one message of norm 1
    is :data:`~sfumato.loops.kernels.INT16_ONE` in these steps. Predictions are float32 [num_nodes, num_classes].

    Args:
        num_hops: K, at most 1000; default 2 with privacy, 5 without.
        encoder: False aggregates the features themselves (the paper's ablation, figure 4.7).
        combine: how the classifier makes one row of all hops (equation 4.11): cat, sum or attention.
        by_type: True sums over the arcs of each type of edges by itself (edge level). That pays where noise is small beside the
            rows; where it is not, one sum over all edges, whatever their types, has less noise.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> plan = GAP(num_hops=3).calibrate(Budget(1.0, 1e-6), EdgeLevel(directed=False), facts)
    >>> len(plan.releases), round(plan.releases[0].event.noise_multiplier, 2)
    (3, 7.32)

    Source: Sajadmanesh et al. (2023), equations 4.3 to 4.12, algorithms 5 to 8.
    """

    num_hops: int | None = None
    encoder: bool = True
    combine: str = "cat"
    by_type: bool = False
    card: ClassVar[Card] = Card(
        name="gap",
        summary="graph network on noisy sums over neighbors",
        options={"hops": "num_hops"},
        defaults={"hops": "2, without privacy 5"},
        units=("edge", "person", "node"),
        targets=("multilabel", "number"),
        reads_weights=True,
        explains=True,
        candidates=({"num_hops": 1}, {"num_hops": 2}, {"num_hops": 3}),
        citations=("sajadmanesh2023gap",),
        audience=Audience(
            ("noisy aggregates", "weights"),
            never=("sums before noise",),
            never_of_nodes=("encodings of single nodes (hop 0)",),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, num_hops=optional(integer(1, 1000)))
        check_fields(self, encoder=flag("False aggregates the features themselves."), combine=one_of(*COMBINE))
        check_fields(self, by_type=flag("True tells types of edges apart."))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. What was the only way when the first runs were certified is not named."""
        usual = (("combine", "cat"), ("by_type", False))
        return {name: value for name, value in super().settings.items() if (name, value) not in usual}

    @property
    def reads_types(self) -> tuple[str, ...] | None:
        """Return that labels have to be public, if types of edges are told apart at all."""
        return ("labels",) if self.by_type else None

    def hops(self, unit: Unit) -> int:
        """Return K, the number of hops under a unit."""
        return self.num_hops or (2 if unit.private else 5)

    def message_width(self, public: PublicFacts) -> int:
        """Count the columns of what is aggregated: the encoder's width, or the number of features.

        Raises:
            InputError: there are no features, and no encoder to make columns.
        """
        if self.encoder:
            return self.width
        if public.num_features == 0:
            raise fail("encoder", False, "to be True for a graph without features", "There would be nothing to send.")
        return public.num_features

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List K aggregations at edge level; at node level the encoder (if there is one), K aggregations and the classifier."""
        hops = aggregation_releases(unit, public, self.hops(unit), self.message_width(public), noise_multiplier)
        if "labels" in unit.public:
            return hops
        with torch.device("meta"):
            networks = self._networks(self.hops(unit), public, batch_norm=False)
        sizes = [num_parameters(network) for network in networks if network is not None]
        sgd = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
        parts = (Part(GaussianEvent(noise_multiplier, len(hops))), *(Part(sgd, SGD_WEIGHT) for _ in sizes))
        event = parts[1].at(balance(parts, noise_multiplier)[1])
        *encoder, classifier = (
            Release(name, event, (size,), size, arc_change=unit.no_arc_change)
            for name, size in zip(("encoder", "classifier")[-len(sizes) :], sizes, strict=True)
        )
        return (*encoder, *hops, classifier)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Run algorithm 6, encoder, aggregation, classifier."""
        features = Features(graph)
        with seeded(session.seed):
            maps = self.hops(plan.unit) * _rows_of_hop(plan.public)
            encoder, classifier = self._networks(maps, plan.public, batch_norm="labels" in plan.unit.public)
        if encoder is not None:
            train(self, plan, session, "encoder", encoder, graph, features.rows)
        encoded = encode(encoder, features)
        released = aggregate(plan, graph, session, encoded, self.hops(plan.unit))
        hops = Hops(encoded, released)
        train(self, plan, session, "classifier", classifier, graph, hops.rows)
        weights = {} if encoder is None else network_arrays("encoder", encoder)
        return Outcome({**weights, **network_arrays("classifier", classifier)}, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Run algorithm 7, the classifier on stored aggregates and the nodes' own features."""
        encoder, classifier = self.trained(weights, plan.public)
        hops = Hops(encode(encoder, Features(graph)), released)
        return of_all(classifier, hops.rows, len(hops.encoded))

    def rows(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Tensor:
        """Return what the classifier reads of all nodes, float32 [num_nodes, K + 1, width].

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`scores`.
        """
        hops = Hops(encode(self.trained(weights, plan.public)[0], Features(graph)), released)
        return hops.rows(np.arange(len(hops.encoded)))

    def inductive(self, origin: Origin) -> GAPInference:
        """Return algorithm 8 for a trained encoder and classifier; ``origin`` is the trained model."""
        return GAPInference(self, origin)

    def trained(self, weights: Arrays, public: PublicFacts) -> tuple[Encoder | None, MultiHopClassifier]:
        """Build encoder (None without one) and classifier with stored weights."""
        maps = sum(key.startswith("classifier.base.") and key.endswith("weight") for key in weights) - 1
        networks = self._networks(maps, public, batch_norm="classifier.norm.weight" in weights)
        for network, prefix in zip(networks, ("encoder", "classifier"), strict=True):
            if network is not None:
                load_weights(network, weights, prefix)
        return networks

    def _networks(
        self, num_hops: int, public: PublicFacts, *, batch_norm: bool
    ) -> tuple[Encoder | None, MultiHopClassifier]:
        wide, classes = self.message_width(public), public.num_classes
        encoder = Encoder(public.num_features, self.width, classes, batch_norm=batch_norm) if self.encoder else None
        return encoder, MultiHopClassifier(
            num_hops, self.width, classes, batch_norm=batch_norm, input_width=wide, combine=self.combine
        )


@dataclass(frozen=True)
class GAPInference(Inference):
    """A trained GAP aggregates another private graph; no weight changes (algorithm 8).

    **Formal guarantee.** K Gaussian releases about the *new* graph. (The paper calls this free by parallel composition; that
    needs disjoint graphs, which is the caller's to know, so the charge is always shown.)
    """

    base: GAP

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        num_hops = (len(self.base.trained(self.model.weights, public)[1].base) - 1) // _rows_of_hop(public)
        return aggregation_releases(unit, public, num_hops, self.base.message_width(public), noise_multiplier)

    def aggregate(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        encoder, classifier = self.base.trained(self.model.weights, plan.public)
        num_hops = (len(classifier.base) - 1) // _rows_of_hop(plan.public)
        return aggregate(plan, graph, session, encode(encoder, Features(graph)), num_hops)


def _rows_of_hop(public: PublicFacts) -> int:
    """How many rows of a node a hop gives: one, or one for each type of edges and one for their sum."""
    return 1 if public.edge_types is None else len(public.edge_types) + 1


def encode(encoder: Encoder | None, features: Features) -> NDArray[np.float32]:
    """Compute equations 4.5 and 4.6 for all nodes: rows of norm 1. Without encoder these are the features, normalized."""
    if encoder is None:
        x: Any = features.x
        return normalize_rows(x.toarray() if sp.issparse(x) else x)
    encoder.eval()
    return normalize_rows(of_all(encoder.encode, features.rows, features.x.shape[0]))


class Hops:
    """Hops 0 to K side by side: of the nodes that are asked for, since of all nodes they are too many numbers to hold.

    Where edges have types, a hop is a row for each type, and one for their sum.
    """

    def __init__(self, encoded: NDArray[np.float32], released: Arrays) -> None:
        self.encoded, self.sums = encoded, [released[name] for name in sorted(released, key=_hop_number)]

    def rows(self, ids: NDArray[np.integer]) -> Tensor:
        """Return the hops of these nodes, [len(ids), K + 1, width], or more rows where edges have types."""
        width = self.encoded.shape[1]
        each = [one + (one > 1) for one in (sums.shape[1] // max(width, 1) for sums in self.sums)]
        hops = np.empty((len(ids), 1 + sum(each), width), np.float32)
        hops[:, 0], at = rows_of(self.encoded, ids), 1
        for sums, number in zip(self.sums, each, strict=True):
            found = rows_of(sums, ids)
            parts = np.split(found, sums.shape[1] // width, axis=1) if number > 1 else []
            for part in (*parts, added_up(found, width)):
                hops[:, at] = normalize_rows(part)
                at += 1
        for array in (self.encoded, *self.sums):
            let_go(array)
        return torch.from_numpy(hops)


def _hop_number(name: str) -> int:
    return int(name.rsplit("/", 1)[1])
