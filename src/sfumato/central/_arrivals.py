r"""Trained label messages reach nodes that were not there in training: nodes that arrive later, and those of another graph.

**Nodes that arrive later.** Batch 0 is the trained graph; batch b = 1, 2, ... holds the nodes of the b-th arrival. A node is in
one batch, and which one is public. The pair {u, v} belongs to release max(batch u, batch v): the first one at which both are
there. Release b reads pairs of class b and no others (:class:`~sfumato.tables._newcomers.Newcomers`), and holds rows of nodes of
batch b alone. Known nodes send what is public by then: their public label, or the posterior that earlier releases give
(edge level). Among newcomers, messages flow one way in a public order; newcomers send posteriors, at first without messages.

**Formal guarantee, edge level.** If release b alone is (epsilon, delta)-DP for every b, all releases together are
(epsilon, delta)-DP, for neighbors that differ in one edge between any nodes that ever arrive: *an edge pays once*.
*Proof* (adaptive parallel composition). Let D and D' differ in e = {u, v}, and c be the class of e, a function of ids and
batches. Releases before c read neither e nor anything that depends on it: their joint law is the same under D and D'. Given
their outcome t, release c is a mechanism whose code, messages and order are functions of t and of public facts, applied to
edges of class c, which differ in e: its outcomes are (epsilon, delta)-close. Later releases are functions of earlier outcomes,
of public facts, of other edges (equal in D and D') and of fresh noise: post-processing. Mixing over t keeps (epsilon, delta). It
does not matter that batches are chosen after earlier releases: along every course of events exactly one release reads e. It
does matter that they are not chosen by looking at edges otherwise, and that no node arrives twice. ∎

Release b is that of the training run (:mod:`~sfumato.central._counts`), with the same noise multiplier. For one edge, at most
one row changes by one message of L1 norm at most 1 (the row of a newcomer; between two newcomers, of the later one): the
sensitivity is :func:`~sfumato.bounded._counting.count_sensitivity`, 1. So release b costs at most what the run claimed, and the
claim covers it.

**Formal guarantee, node level.** There is no such disjointness: an arc from a known node to a newcomer is part of the known
node's record, which paid before. One hop is released from the training nodes' shared labels along their new arcs, of sensitivity
1 (2 if records are replaced), at a budget of its own, and *adds up* with earlier costs of the same records: it is charged to the
ledger of the trained data set.

**Another graph** pays like training, less the head: counts (node level: one hop) among its nodes, with its own labels
(:class:`LabelInference`). Without labels there is nothing to send: :func:`graph_free`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.bounded._incoming import owned, regrouped
from sfumato.bounded._routing import (
    public_order,
    receiving,
)
from sfumato.bounded._typed_shares import typed_arc_change
from sfumato.bounded.aggregation import Arcs
from sfumato.central._counts import NAME, Counter, Kinds, one_hot, stored_weight
from sfumato.central._shares import release_hop, route
from sfumato.central._typed import routed_along, routed_counts
from sfumato.central._typed_pilot import WEIGHTS, TypedPilot
from sfumato.errors import InputError
from sfumato.graph._targets import probabilities, softmax
from sfumato.method._derived import derived
from sfumato.method._graph_key import GraphKey
from sfumato.method._inference import Inference
from sfumato.method._plan import Fitted, Plan
from sfumato.method._rows import ALONE
from sfumato.method.contract import Arrays, Method, Origin, Planned, Session
from sfumato.privacy.events import PureEvent
from sfumato.record._arrivals import Arrival, marks
from sfumato.record._release_folder import released_digest
from sfumato.tables._newcomers import Newcomers, node_names

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release


class LabelHead(Protocol):
    """A label head is what inference asks of the method that was trained."""

    def hops(self, unit: Unit) -> int: ...
    def before_messages(self, plan: Planned, weights: Arrays, graph: Graph) -> NDArray[np.float32]: ...


class _Heard(NamedTuple):
    """Who sends what to whom: ``lists`` of arcs by owner over all nodes, receivers first; ``sends`` are the training nodes.

    ``rows`` are messages that are fixed: those of nodes that are ``first`` in the public order.
    """

    lists: Arcs
    rows: NDArray[np.float32]
    first: NDArray[np.bool_]
    sends: NDArray[np.bool_]


@dataclass(frozen=True)
class LabelInference(Inference):
    """Trained label messages release the counts or the hop of another private graph, with its own labels; no weight changes.

    **Formal guarantee.** Edge level: one Laplace release of L1 sensitivity 1, or a Gaussian one of L2 sensitivity 1. Node level,
    owned arcs: one Gaussian release of sensitivity 1 (2 if records are replaced). All are about the *new* graph. ``head`` is the
    method again.
    """

    head: LabelHead

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        if not public.num_train:
            raise InputError(
                "Expected another graph with labels, of which label messages are made, got none. Predict from features alone, "
                "which reads no edge and costs nothing: sfumato.central._arrivals.graph_free."
            )
        return super().calibrate(budget, unit, public)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the counts or the hop; there is no head to train."""
        weighed = public.edge_types is not None and "labels" not in unit.public
        known = (
            replace(public, edge_types=None) if weighed else public
        )  # one hop of weighed arcs, and no block for each type
        found = tuple(one for one in self.base.releases(unit, known, noise_multiplier) if one.name == "aggregate/1")
        return (
            tuple(replace(one, arc_change=typed_arc_change(unit, weighed=True)) for one in found) if weighed else found
        )

    def aggregate(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        heard = self._heard(plan, graph)
        return (self._edges if "labels" in plan.unit.public else self._nodes)(plan, graph, session, heard)

    def _heard(self, plan: Planned, graph: Graph) -> _Heard:
        """Labeled training nodes come first and send their labels."""
        rows, known = one_hot(graph, plan.public.num_classes)
        return _Heard(owned(graph), rows, known, graph.train_mask)

    def _edges(self, plan: Planned, graph: Graph, session: Session, heard: _Heard) -> Arrays:
        """Counts. Receivers that are not first send the posterior of what they heard."""
        count, rank = graph.num_nodes, public_order(heard.first, session.seed)
        if plan.public.edge_types is None:
            arcs: Arcs | Kinds = routed_along(plan, regrouped(heard.lists), heard.first, rank)
        else:
            arcs = routed_counts(plan, graph, heard.first, rank)
        counter = Counter(plan, session, arcs, heard.first)
        counts = counter.of_known(heard.rows)
        if self.head.hops(plan.unit) == 1:
            return {NAME: counts[:count]}
        rows, rest = np.zeros_like(heard.rows), np.flatnonzero(~heard.first[:count])
        rows[rest] = softmax(self.scores(plan, self.model.weights, {NAME: counts[:count]}, graph))[rest]
        return {NAME: np.hstack([counts, counter.of_others(rows)])[:count]}

    def _nodes(self, plan: Planned, graph: Graph, session: Session, heard: _Heard) -> Arrays:
        """One hop over arcs that training nodes own, to nodes in other roles; other rows are not released, and zero."""
        receives = ~heard.sends & (np.arange(len(heard.sends)) < graph.num_nodes)
        if WEIGHTS in self.model.weights:
            sent = TypedPilot(plan, graph, session, receives).routed(self.model.weights[WEIGHTS][0])
        else:
            sent = route(plan, session, receiving(heard.lists, heard.sends, receives), heard.rows, receives)
        return {NAME: release_hop(plan, session, sent)[: graph.num_nodes]}


@dataclass(frozen=True)
class ArrivalInference(LabelInference):
    """Trained label messages reach nodes that arrived later; neither weights nor rows of known nodes change.

    ``runs`` are the trained run, then earlier arrivals in order; ``nodes`` are marks of the ids that arrive.
    """

    runs: tuple[Fitted, ...]
    nodes: tuple[str, ...]

    @property
    def arrival(self) -> Arrival | None:
        """Return the nodes that arrive, at edge level, where the claim of the run covers them; None elsewhere."""
        trained = self.runs[0]
        if not trained.plan.unit.private or "labels" not in trained.plan.unit.public:
            return None
        before = tuple(Arrival.from_dict(run.certificate.values["arrival"]) for run in self.runs[1:])
        return Arrival(released_digest(trained.released), trained.ledger.entries[0]["hash"], self.nodes, before)

    def data_set(self, graph: Graph) -> GraphKey:
        """Return the key of the trained graph, to whose ledger arrivals belong."""
        return self.model.graph

    def check(self, graph: Graph) -> None:
        """Refuse other newcomers than planned for, and newcomers to other graphs than those of the runs."""
        super().check(graph)
        if not isinstance(graph, Newcomers) or marks(node_names(graph)) != self.nodes:
            raise InputError("Expected the newcomers that were planned for, got others. Calibrate with their ids.")
        keys = [run.graph_key for run in self.runs]
        if len(keys) != len(graph.known) or not all(map(GraphKey.has_ids_of, keys, graph.known)):
            raise InputError(
                "Expected newcomers to the graphs of these runs, in their order, got others. Join them to the trained graph and "
                "to all earlier arrivals."
            )

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Take the noise of the trained run (edge level), or find one for a budget (node level)."""
        trained = self.runs[0]
        if not unit.private or "labels" not in unit.public:
            return super(LabelInference, self).calibrate(budget, unit, public)
        if budget is not None:
            remedy = "An edge pays once, in the run or here: the noise is that of the run."
            raise fail("budget", budget, "to be None for nodes that arrive later at edge level", remedy)
        paid, allowed = trained.ran.event(NAME), trained.plan.budget
        assert allowed is not None
        epsilon = paid.epsilon if isinstance(paid, PureEvent) else trained.plan.epsilon
        releases = tuple(replace(release, event=paid) for release in self.releases(unit, public, 1.0))
        return derived(Plan(self, unit, allowed, public, releases, epsilon, allowed.delta))

    def calibrated_again(self, plan: Planned) -> Plan:
        """Return the plan again: at edge level without the budget, which is that of the run."""
        pays = not plan.unit.private or "labels" not in plan.unit.public
        return self.calibrate(plan.budget if pays else None, plan.unit, plan.public)

    def _heard(self, plan: Planned, graph: Graph) -> _Heard:
        """Known nodes come first: edge level, with labels or weighed posteriors; node level, only those that trained."""
        assert isinstance(graph, Newcomers)
        classes, trained = plan.public.num_classes, graph.known[0]
        labels, labeled = one_hot(trained, classes)
        parts = [np.zeros((graph.num_nodes, classes), np.float32), labels]
        parts += [np.zeros((known.num_nodes, classes), np.float32) for known in graph.known[1:]]
        if "labels" in plan.unit.public:
            weight = np.float32(stored_weight(self.model.weights))
            said = [weight * run.predict_proba(known) for run, known in zip(self.runs, graph.known, strict=True)]
            parts[1:] = [np.where(labeled[:, None], labels, said[0]), *said[1:]]
        rows = np.concatenate(parts)
        sends = np.zeros(len(rows), np.bool_)
        sends[graph.num_nodes :][: trained.num_nodes] = trained.train_mask
        reach = Arcs(graph.reach_indptr, graph.reach_indices)
        return _Heard(reach, rows, np.arange(len(rows)) >= graph.num_nodes, sends)


def arriving_after(trained: Fitted) -> LabelInference:
    """Return what releases rows of nodes that arrive after a run; InputError says why a run has nothing of the kind."""
    if "arrival" in trained.certificate.values:
        raise InputError("Expected the run that was trained first, got one of its arrivals. Pass the trained run.")
    inference, known = _label_inference(trained), _inductive(trained)
    pays = "labels" not in trained.plan.unit.public
    if pays and inference is not None and trained.predicts_alone:
        raise InputError(
            f"This run does not use messages: those of nodes that arrive would be paid for nothing. {ALONE}"
        )
    if trained.plan.public.max_weight is not None:
        raise InputError(
            "Expected a run without weights of edges for nodes that arrive later, got one that learned from weights: edges of "
            "arrivals have none. Predict the grown graph as another graph, which is charged."
        )
    if trained.plan.public.edges_per_person is not None:
        raise InputError(
            "Expected a run whose edges have no owners for nodes that arrive later, got one of unit person: who owns edges of "
            "arrivals may own edges of the run as well, and would pay twice. Predict the grown graph as another graph, which is "
            "charged."
        )
    if trained.plan.public.edge_types is not None:
        raise InputError(
            "Expected a run without types of edges for nodes that arrive later, got one that learned from types: edges of "
            "arrivals have none. Predict the grown graph as another graph, which is charged."
        )
    if "window" in (trained.certificate.values.get("population") or {}):
        raise InputError(
            "Expected a run that read the edges of all times for nodes that arrive later, got one that is charged to a window of "
            "time: edges of arrivals have no time. Train on a table with these nodes, and name their window."
        )
    if inference is None:
        raise InputError(
            f"Method {trained.plan.method.name!r} has no release for nodes that arrive later: only label-messages has, and "
            "methods that predict from features alone need none. "
            + (
                "Train on the grown graph, which costs as a new run: this method has no inference on another graph either."
                if known is None
                else "Predict the grown graph as another graph, which is charged."
            )
        )
    return inference


def calibrate_arrival(
    runs: Sequence[Fitted], names: Sequence[str], public: PublicFacts, budget: Budget | None = None
) -> Plan:
    """Make a plan for nodes that arrive after a run; ``plan.fit(newcomers)`` gives a Fitted for them.

    A node arrives once, so fit the plan once: a second fit would read the same edges again. A ``dataset_ledger`` refuses it.

    Args:
        runs: the trained run, then earlier arrivals in order.
        names: ids of the nodes that arrive (:func:`~sfumato.tables._newcomers.node_names`).
        public: what may be known of them (:meth:`~sfumato.tables._newcomers.Newcomers.public_facts`).
        budget: the most that may be spent at node level; None at edge level, where an edge pays once.

    Raises:
        InputError: the method has no release for nodes that arrive later, or uses no messages at node level; the first run is
            an arrival; or the budget does not fit the unit.
    """
    inference = arriving_after(runs[0])
    arriving = ArrivalInference(inference.base, inference.model, inference.head, (*runs,), marks(names))
    return arriving.calibrate(budget, runs[0].plan.unit, public)


def graph_free(fitted: Fitted, graph: Graph) -> NDArray[np.float32]:
    """Compute class probabilities of any nodes from their features alone. It spends nothing, and reads no edge and no label.

    At node level a row may be shown to its own node alone, since it reads the features of that node.
    """
    method, plan, inference = fitted.ran.method, fitted.ran, _label_inference(fitted)
    if not (inference or method.predicts_alone(plan.unit)) or plan.unit.trust != "curator":
        raise InputError(
            f"Method {method.name!r} cannot predict without a graph. Aggregate that graph, which is charged."
        )
    graph = fitted.graph_key.in_columns(graph)
    fitted.graph_key.check_columns(graph)
    if inference is not None:
        return inference.head.before_messages(plan, fitted.weights, graph)
    return probabilities(plan.public.target, method.scores(plan, fitted.weights, {}, graph))


def reads_features_alone(fitted: Fitted, graph: Graph) -> bool:
    """Say whether :func:`graph_free` is all that a run has for a graph: it predicts nodes alone, or has no labels to send."""
    if fitted.predicts_alone:
        return fitted.plan.unit.trust == "curator"
    return graph.y is None and _label_inference(fitted) is not None


def _label_inference(fitted: Fitted) -> LabelInference | None:
    if fitted.plan.method.predicts_alone(fitted.plan.unit) or fitted.plan.unit.trust != "curator":
        return None
    found = _inductive(fitted)
    return found if isinstance(found, LabelInference) else None


def _inductive(fitted: Fitted) -> Method | None:
    """The private inference of a run on another graph; None if there is none."""
    try:
        return fitted.plan.method.inductive(Origin(fitted.weights, fitted.graph_key, fitted.origins()))
    except InputError:
        return None
