r"""Label messages make a noisy histogram of the neighbors' labels, which a linear head reads.

*Edge level* (labels and features are public):

1. *Prior.* A graph-free model (:mod:`~sfumato.central._graph_free`).
2. *Counts* (:mod:`~sfumato.central._counts`). Each edge is read once, with Laplace noise (or Gaussian, where squares of mu add
   up): S counts the neighbors' known labels, T sums what the head then thinks of the others.
3. *Head.* Multinomial logistic regression on what S holds of each class beyond its share of the known nodes, as a number, a
   direction and a rate, and on the posterior of the prior (:func:`~sfumato.central._counts.count_inputs`). It learns on the
   rows of the ``learner_share`` of training nodes that come last in a public order; validation labels choose the weight at
   which T is added to S.
4. *Choice*: the head or a graph-free model, whichever has the smaller log-loss on validation labels.

*Node level, owned arcs*: one hop of labels that owners share among their arcs (:mod:`~sfumato.central._shares`), to nodes in
other roles and to the learners alone. The head reads twice the direction of H shrunk by its noise,
:math:`H_v / \sqrt{\|H_v\|^2 + (C - 1) \sigma^2}`, and the node's own normalized features.

A node's label is never part of its own row, directly or by way of others, so rows of training and of other nodes follow
one law.

**Formal guarantee.**

* *Edge level.* Roles, labels and features are public; edges enter through one Laplace release of L1 sensitivity 1, which is
  epsilon-DP (delta is 0: the noise is exact), or one Gaussian release of L2 sensitivity 1. Heads, weight and choice are
  post-processing of it and of public data. It is spent whatever is kept.
* *Node level, owned arcs.* One Gaussian release of sensitivity 1 for any number of arcs (2 if records are replaced). The label
  is part of the message, so the release protects it with the arcs. The head is trained by full-batch DP-SGD on released
  rows and own features of all training nodes; both releases compose, their noise split by
  :mod:`~sfumato.privacy._splitting`.
* *Prediction* reads released rows, weights and the node's own features: nothing is spent.

Rows of early training nodes (edge level), and of training nodes that are no learners (node level), hold few or no
messages: predictions for them lean on features. Their labels are what the method learned from, so where labels are
public ``sfumato predict`` returns these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks, rows_of
from sfumato._validate import (
    ABOVE_0,
    AT_LEAST_1,
    PRIVATE_LABELS,
    STEP_SIZE,
    check_fields,
    fail,
    integer,
    one_of,
    optional,
    real,
    setting,
)
from sfumato.bounded._routing import (
    needs_one_way,
    public_order,
    routed_arc_change,
    routed_coordinates,
    routed_sensitivity,
)
from sfumato.central._arrivals import LabelInference
from sfumato.central._counts import (
    WEIGHTS,
    Counter,
    best_weight,
    class_shares,
    counts_release,
    least_noise,
    one_hot,
    reading_arrays,
    stored_shares,
    stored_weight,
)
from sfumato.central._graph_free import GraphFree, grown, of_all_rows, unused_features
from sfumato.central._rows import (
    MOST_HELD_OUT,
    MOST_LEARNED,
    Labeled,
    centered_rows,
    drawn,
    features_of,
    head_scores,
    labeled_nodes,
)
from sfumato.central._shares import Routed, release_hop, share_inputs, shared_labels
from sfumato.central._typed import learn_weighing_types, read_counts, routed_counts, thoughts_by, with_public
from sfumato.graph._targets import softmax
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Origin, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.method.hops import side_by_side
from sfumato.nn._numpy_networks import log_loss
from sfumato.privacy._splitting import MOST_SGD_NOISE, SGD_WEIGHT, Part, balance
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

MESSAGES_DROPPED = (
    "Messages are not used: features alone had the smaller log-loss on validation nodes. What the release of messages cost stays "
    "spent."
)
"""What a run says that read messages and kept a model without them."""
_EDGE_SHARE, _NODE_SHARE = 0.5, 0.1
PRIOR, MOST_TREE_WORK = GraphFree(), 10_000_000
Rows = NDArray[np.int64] | slice


@dataclass(frozen=True)
class LabelMessages(CuratorMethod):
    """Label messages release noisy histograms of the neighbors' labels and train a linear head on them.

    The module gives the steps.

    **Formal guarantee.** At edge level one Laplace release of L1 sensitivity 1, or one Gaussian release of L2 sensitivity 1. At
    node level with owned arcs one Gaussian release of sensitivity 1 (2 if records are replaced), and one DP-SGD run for the
    head. Other units are refused. The module says under which conditions.

    Shapes: the release is int64 [num_nodes, 2 num_classes], at node level or with one hop [num_nodes, num_classes]; one
    message of norm 1 is :data:`~sfumato.loops.kernels.INT16_ONE` in these steps. Predictions are float32 [num_nodes,
    num_classes].
    Weights at edge level are those of the graph-free model (``prior.``) and, if messages were kept, of the head.

    Args:
        num_hops: 2 (default at edge level) also sends what is thought of nodes without a known label; 1 sends labels alone.
        learner_share: share of the training nodes whose rows train the head; default 0.5 of undirected edges, 0.1 at
            node level, and all of them for single arcs or without privacy.
        epochs: full-batch steps of each head.
        learning_rate: step size of Adam for the heads.
        l2_clip_norm: clip of an example's gradient (private labels only).
        noise: that of counts (public labels only): ``laplace`` (default); ``gaussian``; or ``auto``, the one with the smaller
            deviation at the mu of the budget, which is right where squares of mu add up.

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
    l2_clip_norm: float = setting(1.0, PRIVATE_LABELS)
    noise: str | None = setting(None, {"labels": ("public",), "unit": ("private",)})
    card: ClassVar[Card] = Card(
        name="label-messages",
        summary="noisy histograms of the neighbors' labels",
        options={"hops": "num_hops"},
        defaults={"hops": "2, node level 1"},
        units=("edge", "person", "node"),
        candidates=({"learner_share": 0.05}, {"learner_share": 0.1}, {"learner_share": 0.2}),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
        explains=True,
        reads_weights=True,
        reads_types=("labels",),
        reads_public_types=True,
        notes=(
            "Constants of the method were chosen on Rutgers89, Cornell5, BU10, UCSC68, Duke14, Cora-ML, Citeseer, co-author "
            "CS and Amazon Computers.",
        ),
    )

    def __post_init__(self) -> None:
        check_fields(self, num_hops=optional(integer(1, 2)), learner_share=optional(real(0, 1, above=True)))
        check_fields(self, epochs=AT_LEAST_1, learning_rate=STEP_SIZE, l2_clip_norm=ABOVE_0)
        check_fields(self, noise=optional(one_of("laplace", "gaussian", "auto")))

    def charged_to(self, composition: str) -> LabelMessages:
        """Return the method with the noise of counts that costs a ledger of this rule least, unless the noise was chosen."""
        return replace(self, noise="auto") if composition == "gdp" and self.noise is None else self

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Choose the noise of counts for a budget where it is to be chosen, and find how much, before any data is seen.

        ``budget``, ``unit`` and ``public`` are those of :meth:`~sfumato.method.curator.CuratorMethod.calibrate`.
        """
        if self.noise != "auto" and (self.noise is None or "labels" in unit.public):
            return super().calibrate(budget, unit, public)
        law = None  # where labels are protected there are no counts, whose noise a certificate would name
        if budget is not None and unit.private and "labels" in unit.public:
            law, budget = least_noise(budget)
        return replace(self, noise=law).calibrate(budget, unit, public)

    def shared(self, unit: Unit) -> float:
        """Return the share of training nodes whose rows train the head (the learners)."""
        if "labels" not in unit.public:
            return self.learner_share or _NODE_SHARE
        return self.learner_share or (_EDGE_SHARE if needs_one_way(unit) else 1.0)

    def hops(self, unit: Unit) -> int:
        """Return the number of hops under a unit.

        Raises:
            InputError: more than one hop is asked for at node level.
        """
        if "features" not in unit.public and self.num_hops not in (None, 1):
            raise fail("num_hops", self.num_hops, "to be 1 at node level", "Later hops would read protected features.")
        return self.num_hops or (2 if "features" in unit.public else 1)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the counts, or at node level the hop and the head."""
        hops = self.hops(unit)
        if "labels" in unit.public:
            return (counts_release(unit, public, hops, noise_multiplier, self.noise == "gaussian"),)
        from sfumato.central._learning import sgd_event
        from sfumato.nn._weights import num_parameters

        routed_sensitivity(unit)
        shape, gaussian = (public.num_nodes, public.num_classes), GaussianEvent(noise_multiplier)
        arc_change = routed_arc_change(unit)
        hop = Release("aggregate/1", gaussian, shape, routed_coordinates(unit, *shape), arc_change=arc_change)
        size = num_parameters(_private_head(public))
        sgd = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=max(public.num_train, 1))
        parts = (Part(gaussian), Part(sgd, SGD_WEIGHT))
        noise = min(balance(parts, noise_multiplier)[1], MOST_SGD_NOISE)
        return hop, Release("head", parts[1].at(noise), (size,), size, arc_change=unit.no_arc_change)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Release messages and train the head."""
        return (self._run_edge if "labels" in plan.unit.public else self._run_node)(plan, graph, session)

    def _run_edge(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Prior, counts of known labels, head, what others are thought to be, and the choice."""
        public, (rows, known) = plan.public, one_hot(graph, plan.public.num_classes)
        prior = PRIOR.best(public, graph, PRIOR.trained(public, graph, session))
        own, rank = posterior(public, prior, graph), public_order(known, session.seed)
        counter = Counter(plan, session, routed_counts(plan, graph, known, rank), known)
        told, shares = counter.of_known(rows), class_shares(rows, known)
        counts = with_public(plan, graph, told)
        y, ids, val = labeled_nodes(graph)
        learners, val = ids[self.learners(plan.unit, known, rank)[ids]], drawn(val, MOST_HELD_OUT)
        ids = drawn(learners, MOST_LEARNED, session.seed)
        del rows, rank

        def first(at: Rows) -> NDArray[np.float32]:
            return read_counts(plan, rows_of(counts, at), rows_of(own, at), 0, shares)

        examples = (first(ids), y[ids]), (first(val), y[val])
        weights = learn_weighing_types(plan, self, session, *examples) | reading_arrays(shares)
        del examples
        if self.hops(plan.unit) == 2:
            thoughts = thoughts_by(plan, weights, own, shares)
            told = side_by_side(told, counter.of_others(thoughts(counts)))
            counts = with_public(plan, graph, told, thoughts)
            inputs = {w: read_counts(plan, rows_of(counts, val), rows_of(own, val), w, shares) for w in WEIGHTS}
            seen = {w: softmax(head_scores(weights, rows)) for w, rows in inputs.items()}
            weights |= reading_arrays(shares, best_weight(seen, y[val]))
        scores = head_scores(weights, _inputs(plan, rows_of(counts, val), rows_of(own, val), weights))
        return Outcome(kept_model(public, graph, session, prior, weights, (scores, val)), {"aggregate/1": told})

    def _run_node(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """One hop over arcs that training nodes own and that lead to receivers; other rows are not released, and zero."""
        from sfumato.central import _learning
        from sfumato.central._heads import chosen
        from sfumato.nn._weights import network_arrays

        released = {"aggregate/1": release_hop(plan, session, self.routed(plan, graph, session))}
        inputs = share_inputs(plan, released, centered_rows(graph, {}))
        head = _private_head(plan.public)
        _learning.train(self, plan, session, "head", head, graph, chosen(inputs))
        return Outcome(network_arrays("head", head), released)

    def routed(self, plan: Planned, graph: Graph, session: Session) -> Routed:
        """Return the messages of one hop at node level: owned arcs of training nodes to receivers, each with its share.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        return shared_labels(plan, graph, session, self._receivers(plan, graph, session))

    def _receivers(self, plan: Planned, graph: Graph, session: Session) -> NDArray[np.bool_]:
        """The nodes whose rows a hop at node level releases: those that do not train, and learners, bool [num_nodes]."""
        sends = graph.train_mask
        return ~sends | self.learners(plan.unit, sends, public_order(sends, session.seed))

    def drops_messages(self, plan: Planned, weights: Arrays) -> bool:
        """Return whether a graph-free model was kept (edge level)."""
        return "labels" in plan.unit.public and not any(name.startswith("head.") for name in weights)

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say where messages were not kept, and where features say nothing (edge level)."""
        if "labels" not in plan.unit.public:
            return ()
        return (
            *((MESSAGES_DROPPED,) * self.drops_messages(plan, weights)),
            *unused_features(plan.public, stored_prior(weights)),
        )

    def linear_head(self, weights: Arrays, graph: Graph) -> tuple[Any, NDArray[Any], NDArray[Any]] | None:
        """Return the linear model among ``weights`` of a run that dropped messages; arguments are those of the graph-free one."""
        return PRIOR.linear_head(stored_prior(weights), graph)

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
        return posterior(plan.public, stored_prior(weights), graph)

    def learners(self, unit: Unit, sends: NDArray[np.bool_], rank: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the senders whose rows train the head under a ``unit``, bool [num_nodes]: the last ones in the public order.

        ``sends`` says which nodes send, and ``rank`` is the public order.
        """
        count = np.count_nonzero(sends)
        return sends & (rank >= count - np.ceil(self.shared(unit) * count))

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the head to released rows and the nodes' own features, or the graph-free model if messages were not kept."""
        if "labels" not in plan.unit.public:
            inputs = share_inputs(plan, released, centered_rows(graph, {}))
        elif not self.drops_messages(plan, weights):
            own = posterior(plan.public, stored_prior(weights), graph)
            counts = self._counts(plan, weights, released, graph, own)
            return in_blocks(
                lambda first, last: head_scores(weights, _inputs(plan, counts[first:last], own[first:last], weights)),
                len(own),
                read=(counts, own),
            )
        else:
            return PRIOR.apply(plan.public, stored_prior(weights), graph)
        return head_scores(weights, inputs)

    def rows(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Return what a head reads of all nodes at edge level, kept or not, float32 [num_nodes, 4 num_classes + 1].

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`scores`.
        """
        own = posterior(plan.public, stored_prior(weights), graph)
        shares = class_shares(*one_hot(graph, graph.num_classes))
        counts = self._counts(plan, weights, released, graph, own)
        return read_counts(plan, counts, own, stored_weight(weights), shares)

    def _counts(
        self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph, own: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Released counts, and beside them those of public types of edges."""
        return with_public(
            plan, graph, released["aggregate/1"], thoughts_by(plan, weights, own, stored_shares(weights))
        )


def _inputs(plan: Planned, counts: NDArray[np.int64], own: NDArray[np.float32], weights: Arrays) -> NDArray[np.float32]:
    return read_counts(plan, counts, own, stored_weight(weights), stored_shares(weights))


def kept_model(
    public: PublicFacts, graph: Graph, session: Session, prior: Arrays, head: Arrays, told: Labeled
) -> Arrays:
    """Return the prior with the head, or a graph-free model alone if it has the smaller log-loss on some validation nodes.

    ``told`` are the scores of the head for these nodes, and their numbers.
    """
    scores, val = told
    kept = prior
    if len(val):
        y, _, _ = labeled_nodes(graph)
        alone = PRIOR.best(public, graph, [prior, *grown(public, graph, session, MOST_TREE_WORK)])
        without = PRIOR.scorer(public, alone)(rows_of(features_of(graph), val))
        if log_loss(without, y[val]) < log_loss(scores, y[val]):
            kept, head = alone, {}
    return {**{f"prior.{name}": part for name, part in kept.items()}, **head}


def posterior(public: PublicFacts, prior: Arrays, graph: Graph) -> NDArray[np.float32]:
    """Class probabilities of every node by the graph-free model, kept away from 0."""
    scores = PRIOR.scorer(public, prior)
    return of_all_rows(lambda rows: np.maximum(softmax(scores(rows)), 1e-6), features_of(graph))


def stored_prior(weights: Arrays) -> Arrays:
    """The graph-free model among the weights of a run at edge level."""
    return {name.removeprefix("prior."): part for name, part in weights.items() if name.startswith("prior.")}


def _private_head(public: PublicFacts) -> Any:
    """The head that DP-SGD trains; the charge counts its parameters."""
    from sfumato.central._heads import zero_head

    return zero_head(public.num_classes + public.num_features, public.num_classes)
