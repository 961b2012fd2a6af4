r"""Label messages make a noisy histogram of the neighbors' labels, which a linear head reads.

1. *Messages.* A training node sends the code of its label; class c has the code :math:`s\,(e_c - 1/C)` of norm 1, a
   corner of a simplex. (A one-hot row of norm 1 spends part of its allowance on the number of neighbors, which tells
   classes apart less well.) Where features are public, any other node sends the mean code under a posterior: at first of
   a graph-free model, later of the head.
2. *Hop*, routed (:mod:`~sfumato.bounded.routing`) and perturbed: :math:`H^{(k)} = A^\top M^{(k)} + \sigma N(0, I)`, and
   H is the mean of the first k hops: its noise has standard deviation :math:`\sigma / \sqrt k`. Known labels are sent
   again each time, so dividing the budget over hops loses nothing of them, and the other messages get better.
3. *Head.* Multinomial logistic regression on H in units of its noise, on its direction shrunk by that noise,
   :math:`H_v / \sqrt{\|H_v\|^2 + (C - 1) \sigma^2 / k}`, and on the graph-free posterior (at node level: on twice that
   direction and the node's own normalized features).
4. *Choice*, where labels are public: head or graph-free model, whichever predicts more validation labels right.

A node's label is never part of its own row, directly or by way of others, so rows of training and of other nodes follow
one law.

**Formal guarantee.**

* *Edge level.* Roles, labels and features are public; arcs enter through K Gaussian releases of sensitivity 1
  (:func:`~sfumato.bounded.routing.routed_sensitivity`); messages, heads and the choice are post-processing of them. They are
  spent whatever is kept. For undirected
  edges messages flow one way: from training nodes to all others, and among them toward the later one in a public order.
  The head learns on the ``learner_share`` of training nodes that come last in it.
* *Node level, owned arcs.* One hop. Training nodes send, to nodes in other roles and to the learners alone, and divide
  the message among the arcs that carry it: sensitivity 1 for any number of arcs (2 if records are replaced). The label
  is part of the message, so the release protects it with the arcs. The head is trained by full-batch DP-SGD on released
  rows and own features of all training nodes; both releases compose, their noise split by
  :mod:`~sfumato.privacy.splitting`.
* *Prediction* reads released rows, weights and the node's own features: nothing is spent.

Rows of early training nodes (edge level), and of training nodes that are no learners (node level), hold few or no
messages: predictions for them lean on features. Their labels are what the method learned from, so where labels are
public ``sfumato predict`` returns these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum
from sfumato.bounded.degree import by_destination, cap_out_degree
from sfumato.bounded.kernels import UNIT
from sfumato.bounded.routing import (
    needs_one_way,
    one_way,
    outward,
    public_order,
    routed_coordinates,
    routed_sensitivity,
    share,
    to_receivers,
)
from sfumato.central._codes import simplex
from sfumato.central._learning import (
    labeled,
    load_weights,
    network_arrays,
    num_parameters,
    sgd_event,
    train,
)
from sfumato.central.arrivals import LabelInference, softmax
from sfumato.central.graph_free import GraphFree, grown
from sfumato.central.linear import Matrix, apply, beside, centered_rows, chosen, plain, zero_head
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Origin, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.noise.keys import new_key
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.splitting import MOST_SGD_NOISE, SGD_WEIGHT, Part, balance
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.noise.keys import Key
    from sfumato.privacy.units import Unit

_EDGE_SHARE, _NODE_SHARE = 0.5, 0.1
_PRIOR, _MOST_TREE_WORK = GraphFree(), 10_000_000


@dataclass(frozen=True)
class LabelMessages(CuratorMethod):
    r"""Label messages release noisy histograms of the neighbors' labels and train a linear head on them.

    With :math:`M^{(k)}` the messages of hop k, rows of norm at most 1, the release is
    :math:`H^{(k)} = A^\top M^{(k)} + \sigma N(0, I)`. Here A keeps only the arcs of the routed hop (at node level it also divides
    a message among the arcs that carry it), and :math:`\sigma` is the noise multiplier times the sensitivity of that hop. The
    module gives the steps in full.

    **Formal guarantee.** At edge level K Gaussian releases of sensitivity 1. At node level with owned arcs one Gaussian
    release of sensitivity 1 (2 if records are replaced), and one DP-SGD run for the head. Other units are refused. The module
    says under which conditions.

    Shapes: each release is int64 [num_nodes, num_classes]; one message of norm 1 is
    :data:`~sfumato.bounded.kernels.UNIT` in these steps. Predictions are float32 [num_nodes, num_classes]. Weights at edge level
    are those of the graph-free model (``prior.``) and, if messages were kept, of the head.

    Args:
        num_hops: K, at most 1000; default 3, at node level 1.
        learner_share: share of the training nodes whose rows train the head; default 0.5 of undirected edges, 0.1 at
            node level, and all of them for single arcs or without privacy.
        epochs: full-batch steps of each head.
        learning_rate: step size of Adam for the heads.
        l2_clip_norm: clip of an example's gradient (private labels only).

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.privacy.units import NodeLevel
    >>> LabelMessages().shared(NodeLevel())
    0.1
    """

    num_hops: int | None = None
    learner_share: float | None = None
    epochs: int = 100
    learning_rate: float = 0.05
    l2_clip_norm: float = 1.0
    card: ClassVar[Card] = Card(
        name="label-messages",
        summary="noisy histograms of the neighbors' labels",
        options={"hops": "num_hops"},
        defaults={"hops": "3, node level 1"},
        units=("edge", "node"),
        candidates=({"learner_share": 0.05}, {"learner_share": 0.1}, {"learner_share": 0.2}),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
    )

    def __post_init__(self) -> None:
        if self.num_hops is not None:
            check_int(low=1, high=1000, num_hops=self.num_hops)
        if self.learner_share is not None:
            check_real(low=0, high=1, open_low=True, learner_share=self.learner_share)
        check_int(low=1, epochs=self.epochs)
        check_real(low=0, high=10, open_low=True, learning_rate=self.learning_rate)
        check_real(low=0, open_low=True, l2_clip_norm=self.l2_clip_norm)

    def shared(self, unit: Unit) -> float:
        """Return the share of training nodes whose rows train the head (the learners)."""
        if "labels" not in unit.public:
            return self.learner_share or _NODE_SHARE
        return self.learner_share or (_EDGE_SHARE if needs_one_way(unit) else 1.0)

    def hops(self, unit: Unit) -> int:
        """Return K, the number of hops under a unit.

        Raises:
            InputError: more than one hop is asked for at node level.
        """
        if "features" not in unit.public and self.num_hops not in (None, 1):
            raise fail("num_hops", self.num_hops, "to be 1 at node level", "Later hops would read protected features.")
        return self.num_hops or (3 if "features" in unit.public else 1)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List K aggregations; at node level one aggregation and the head.

        ``unit``, ``public`` and ``noise_multiplier`` are those of :meth:`~sfumato.method.contract.Method.releases`.
        """
        routed_sensitivity(unit)
        shape, gaussian = (public.num_nodes, public.num_classes), GaussianEvent(noise_multiplier)
        touched = routed_coordinates(unit, *shape)
        hops = tuple(Release(f"aggregate/{k + 1}", gaussian, shape, touched) for k in range(self.hops(unit)))
        if "labels" in unit.public:
            return hops
        with torch.device("meta"):
            size = num_parameters(_private_head(public))
        sgd = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=max(public.num_train, 1))
        parts = (Part(gaussian), Part(sgd, SGD_WEIGHT))
        noise = min(balance(parts, noise_multiplier)[1], MOST_SGD_NOISE)
        return *hops, Release("head", parts[1].at(noise), (size,), size)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Run hops and heads in turn.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        return (self._run_edge if "labels" in plan.unit.public else self._run_node)(plan, graph, session)

    def _run_edge(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Prior; then K times a hop and a head, whose posterior the nodes without a known label send next; the choice."""
        assert graph.y is not None
        assert graph.roles is not None
        released, arcs = {}, Arcs(*graph.transpose())
        sends = graph.train_mask & (graph.y >= 0)
        rank = public_order(sends, session.seed)
        arcs = one_way(arcs, rank) if needs_one_way(plan.unit) else outward(arcs, sends)
        learner = self.learners(plan.unit, sends, rank)
        public = plan.public
        prior = _PRIOR.best(public, graph, _PRIOR.trained(public, graph, session))
        posterior = own = _posterior(public, prior, graph)
        learning = graph.with_roles(np.where(sends & ~learner, 3, graph.roles).astype(np.uint8))
        for hop in range(self.hops(plan.unit)):
            messages = _codes(graph, posterior @ simplex(plan.public.num_classes))
            routed = Routed(arcs, messages, np.ones(graph.num_nodes, np.bool_))
            released[f"aggregate/{hop + 1}"] = release_hop(plan, session, hop, routed)
            head, inputs = _head(plan), _inputs(plan, released, own)
            mean, scale = _moments(inputs[learner])
            standard = ((inputs - mean) / scale).astype(np.float32)
            train(self, plan, session, "head", head, learning, plain(standard))
            _unscale(head, mean, scale)
            posterior = softmax(apply(head, inputs))
        alone = _PRIOR.best(public, graph, [prior, *grown(public, graph, session, _MOST_TREE_WORK)])
        y, _, val = labeled(graph)
        right = [
            np.count_nonzero(scores[val].argmax(axis=1) == y[val].numpy())
            for scores in (posterior, _PRIOR.apply(public, alone, graph))
        ]
        kept, weights = (prior, network_arrays("head", head)) if right[0] >= right[1] else (alone, {})
        return Outcome({**{f"prior.{name}": part for name, part in kept.items()}, **weights}, released)

    def _run_node(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """One hop over arcs that training nodes own and that lead to receivers; other rows are not released, and zero."""
        released = {"aggregate/1": release_hop(plan, session, 0, self.routed(plan, graph, session))}
        head = _head(plan)
        train(self, plan, session, "head", head, graph, chosen(_inputs(plan, released, centered_rows(graph, {}))))
        return Outcome(network_arrays("head", head), released)

    def routed(self, plan: Planned, graph: Graph, session: Session) -> Routed:
        """Return the messages of one hop at node level: owned arcs of training nodes to receivers, each with its share.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        sends = graph.train_mask
        receives = ~sends | self.learners(plan.unit, sends, public_order(sends, session.seed))
        owned = to_receivers(graph.indptr, graph.indices, sends, receives)
        if plan.unit.max_out_degree is not None:
            owned = cap_out_degree(*owned, plan.unit.max_out_degree, session.key)
        messages = _codes(graph, np.zeros((graph.num_nodes, plan.public.num_classes), np.float32))
        return Routed(Arcs(*by_destination(*owned)), share(messages, np.diff(owned[0])), receives)

    def inductive(self, origin: Origin) -> LabelInference:
        """Return the hops of another graph, with its own labels, for a trained head; ``origin`` is the trained model."""
        return LabelInference(self, origin, self)

    def before_messages(self, plan: Planned, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute class probabilities of every node from its features alone, by the graph-free model or a head on empty rows.

        ``plan``, ``weights`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        if "labels" not in plan.unit.public:
            empty = np.zeros((graph.num_nodes, plan.public.num_classes), np.int64)
            return softmax(self.scores(plan, weights, {"aggregate/1": empty}, graph))
        return _posterior(plan.public, _prior(weights), graph)

    def learners(self, unit: Unit, sends: NDArray[np.bool_], rank: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the senders whose rows train the head, bool [num_nodes]: the last ones in the public order.

        Args:
            unit: the unit of privacy.
            sends: which nodes send.
            rank: the public order.
        """
        count = np.count_nonzero(sends)
        return sends & (rank >= count - np.ceil(self.shared(unit) * count))

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the head to released rows and the nodes' own features, or the graph-free model if messages were not kept.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        public = "labels" in plan.unit.public
        if public and not any(name.startswith("head.") for name in weights):
            return _PRIOR.apply(plan.public, _prior(weights), graph)
        head = _head(plan)
        load_weights(head, weights, "head")
        own = _posterior(plan.public, _prior(weights), graph) if public else centered_rows(graph, {})
        return apply(head, _inputs(plan, released, own))


def _codes(graph: Graph, messages: NDArray[np.float32]) -> NDArray[np.float32]:
    """Messages in which labeled training nodes send the codes of their labels."""
    assert graph.y is not None
    known = np.flatnonzero(graph.train_mask & (graph.y >= 0))
    messages[known] = simplex(messages.shape[1])[graph.y[known]]
    return messages


class Routed(NamedTuple):
    """What one hop sends: arcs by destination, messages [num_nodes, C], and which nodes receive, bool [num_nodes]."""

    arcs: Arcs
    messages: NDArray[np.float32]
    receives: NDArray[np.bool_]


def release_hop(plan: Planned, session: Session, hop: int, routed: Routed) -> NDArray[np.int64]:
    """Charge a hop, then compute it; rows of nodes that do not receive are not released, and zero.

    Args:
        plan: has the release ``aggregate/`` and the number of the hop, from 1.
        session: ledger and secret key.
        hop: the number of the hop, from 0.
        routed: what it sends.
    """
    if not plan.unit.private:
        return sum_hop(routed, 0.0, new_key())
    name = f"aggregate/{hop + 1}"
    key = session.charge(name)
    session.bind(name, routed.messages, routed.arcs.offsets, routed.arcs.sources)
    return sum_hop(routed, _stddev(plan), key)


def sum_hop(routed: Routed, noise_stddev: float, key: Key) -> NDArray[np.int64]:
    """Compute a noisy hop that was charged; rows of nodes that do not receive are zero.

    Args:
        routed: what it sends.
        noise_stddev: standard deviation of the noise in units of a full row.
        key: the key of the release.
    """
    sums = noisy_neighborhood_sum(routed.arcs, routed.messages, noise_stddev, key)
    sums[~routed.receives] = 0
    return sums


def _stddev(plan: Planned) -> float:
    """Noise of one coordinate of one release; 0 without privacy."""
    if not plan.unit.private:
        return 0.0
    event = plan.event("aggregate/1")
    assert isinstance(event, GaussianEvent)
    return event.noise_multiplier * routed_sensitivity(plan.unit)


def _inputs(plan: Planned, released: Arrays, own: Matrix) -> Matrix:
    """What the head reads of every node: the mean of noisy hops (their noise averages out), or the last exact one.

    Beside it stands what a node tells by its ``own``: graph-free posterior if labels are public, normalized features otherwise.
    """
    noise = _stddev(plan) / np.sqrt(len(released))
    sums = np.mean(list(released.values()), axis=0) if noise else released[f"aggregate/{len(released)}"]
    sums = sums / UNIT
    sums -= sums.mean(axis=1, keepdims=True)
    direction = directions(sums, noise)
    if "labels" not in plan.unit.public:
        return beside(2 * direction, own)
    return np.hstack([sums / (noise or 1.0), direction, np.log(own)]).astype(np.float32)


def directions(sums: NDArray[np.float64], noise_stddev: float) -> NDArray[np.float64]:
    """Return rows divided by their length, which counts the noise twice so that faint rows stay short.

    Args:
        sums: rows of mean 0, [n, C].
        noise_stddev: standard deviation of their noise.

    >>> directions(np.array([[3.0, -3.0]]), 0.0).round(3).tolist(), directions(np.zeros((1, 2)), 0.0).tolist()
    ([[0.707, -0.707]], [[0.0, 0.0]])
    """
    length = np.sqrt(np.square(sums).sum(axis=1, keepdims=True) + (sums.shape[1] - 1) * noise_stddev**2)
    return np.divide(sums, length, out=np.zeros_like(sums), where=length > 0)


def _posterior(public: PublicFacts, prior: Arrays, graph: Graph) -> NDArray[np.float32]:
    """Class probabilities of every node by the graph-free model, kept away from 0."""
    return np.maximum(softmax(_PRIOR.apply(public, prior, graph)), 1e-6)


def _prior(weights: Arrays) -> Arrays:
    """Weights of the graph-free model."""
    return {name.removeprefix("prior."): part for name, part in weights.items() if name.startswith("prior.")}


def _head(plan: Planned) -> nn.Linear:
    """Build the head: logistic regression on what a run plans."""
    if "labels" not in plan.unit.public:
        return _private_head(plan.public)
    return zero_head(3 * plan.public.num_classes, plan.public.num_classes)


def _private_head(public: PublicFacts) -> nn.Linear:
    return zero_head(public.num_classes + public.num_features, public.num_classes)


def _moments(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and scale of columns; a column that is flat here would be blown up elsewhere, and keeps scale 1."""
    deviation = rows.std(axis=0, dtype=np.float64)
    return rows.mean(axis=0, dtype=np.float64), np.where(deviation > 1e-3, deviation, 1.0)


def _unscale(head: nn.Linear, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
    """Let a head that learned on standardized inputs read them as they are."""
    with torch.no_grad():
        head.weight.div_(torch.from_numpy(scale))
        head.bias.sub_((head.weight.double() @ torch.from_numpy(mean)).float())
