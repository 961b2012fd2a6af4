r"""Daily messages: label messages over edges that come and go, released day by day for a whole history under one budget.

Labels, features and roles are public (edge level). Known nodes (labeled training nodes) send the one-hot row of their label
along each of their edges, one way, as the first hop of :mod:`~sfumato.central._labels`. The counts of every row are
released on its own public days by :mod:`~sfumato.bounded._history`, which has the proof: a whole history of an edge, its
arrival and its deletion, costs what is claimed, once, whatever day it is. Heads are trained whenever one is asked for, on what
was released by then and on public data: post-processing.

**Forms.** ``increments`` have Laplace noise, ``sums`` have correlated Gaussian noise; ``auto`` takes the one whose counts have
the smaller deviation after the last refresh, a function of public settings (:func:`deviations`). With 12 refreshes in a year
increments win by far, with one a day sums do.

**Deletions.** An edge that goes after its row was refreshed stays counted (default), or is taken off at the next refresh
(``deletions``), for twice the noise of increments or a few percent more noise of sums.

A graph without days, as ``sfumato train`` gives, is a history in which every edge came on day 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields, fail, integer, one_of, optional, real
from sfumato.bounded._counting import count_sensitivity
from sfumato.bounded._encoder import MOST_REFRESHES, encoder
from sfumato.bounded._history import (
    NEVER,
    Form,
    History,
    Increments,
    Reader,
    Stream,
    Sums,
    deviation,
    increment_sensitivity,
    noisy_day,
)
from sfumato.bounded._incoming import incoming
from sfumato.bounded._refreshes import MOST_DAYS, Ints, Schedule, row_phases
from sfumato.bounded._routing import needs_one_way
from sfumato.central._counts import NAME, class_shares, message_inputs, one_hot, reading_arrays, stored_shares
from sfumato.central._graph_free import unused_features
from sfumato.central._labels import (
    MESSAGES_DROPPED,
    PRIOR,
    kept_model,
    posterior,
    stored_prior,
)
from sfumato.central._rows import MOST_HELD_OUT, MOST_LEARNED, drawn, head_scores, labeled_nodes, learn_head
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, PureEvent
from sfumato.record.ledger import Release
from sfumato.tables._newcomers import node_names

if TYPE_CHECKING:
    from sfumato.graph._graph import PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.noise.keys import Key
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit


MARKS = "history.marks"


@dataclass(frozen=True, eq=False, repr=False)
class ToldGraph(Graph):
    """Nodes with what was released of their history: a graph without edges, of which none is read again.

    ``told`` are counts by class in steps of 1 / 32767, int64 [num_nodes, num_classes]. ``marks`` are those of its days in the
    ledger of a history that is charged to one, 256 bits each, int64 [days, 4]; they go with the weights as :data:`MARKS`.
    """

    told: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    marks: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))


@dataclass(frozen=True)
class DailyMessages(CuratorMethod):
    """Daily messages release counts of the neighbors' labels day by day, a whole history under one budget.

    **Formal guarantee.** Edge level: one release for all days, pure of L1 sensitivity 1 (2 with ``deletions``), or Gaussian of
    the sensitivity of its encoder. The module says what neighbors are. Other units are refused.

    Shapes: the release is int64 [num_nodes, num_classes], counts through ``day`` in steps of
    :data:`~sfumato.loops.kernels.INT16_ONE`. Predictions are float32 [num_nodes, num_classes].

    Args:
        days: how many days the history has.
        refreshes: how often every row is released in that time, at most once a day.
        noise: ``increments``, ``sums``, or ``auto`` for the one with the smaller deviation on the last day.
        deletions: whether an edge that goes is taken off the counts, for more noise.
        day: through which day this run reads; None for the last.
        start: public seed of the days on which rows are refreshed and of the order of nodes.
        learner_share: share of the training nodes whose rows train the head.
        epochs: full-batch steps of the head.
        learning_rate: step size of Adam for the head.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> DailyMessages(refreshes=365).schedule
    Schedule(days=365, refreshes=365)
    """

    days: int = 365
    refreshes: int = 12
    noise: str = "auto"
    deletions: bool = False
    day: int | None = None
    start: int = 0
    learner_share: float = 0.5
    epochs: int = 100
    learning_rate: float = 0.05
    card: ClassVar[Card] = Card(
        name="daily-messages",
        summary="label messages of edges that come and go, under one budget for a whole history",
        units=("edge",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
    )

    def __post_init__(self) -> None:
        check_fields(self, days=integer(1, MOST_DAYS))
        check_fields(self, refreshes=integer(1, min(self.days, MOST_REFRESHES)))
        check_fields(self, noise=one_of("auto", "increments", "sums"), day=optional(integer(1, MOST_DAYS)))
        check_fields(self, start=integer(0, 2**32 - 1), learner_share=real(0, 1, above=True))
        check_fields(self, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)
        if not isinstance(self.deletions, bool):
            raise fail("deletions", self.deletions, "to be True or False")
        if self.noise == "sums" and self.last > self.days:
            remedy = "The noise of sums is found for a horizon: a longer history is a new one, which costs again."
            raise fail("day", self.day, f"to be at most {self.days}, the number of days", remedy)

    @property
    def schedule(self) -> Schedule:
        """Return the public days on which rows are refreshed."""
        return Schedule(self.days, self.refreshes)

    @property
    def last(self) -> int:
        """Return the day through which this run reads."""
        return self.day or self.days

    @property
    def limits(self) -> tuple[str, ...]:
        """Say what the claim covers over time."""
        stays = (
            "is taken off at the next refresh"
            if self.deletions
            else "stays counted, and what it told is protected still"
        )
        return (
            f"The claim covers a whole history of edges that come and go, of {self.days} days: on any day, all that was released "
            "of it until then, and every model that was trained on that, costs no more together. Neighboring histories differ in "
            "one edge, with the day on which it came and the day on which it went.",
            f"Rows are refreshed {self.refreshes} times, on public days. An edge that goes after a refresh told it {stays}. "
            "One secret key draws the noise of all days, and is kept until the last.",
        )  # fmt: skip

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Choose the form for a budget if none was, and find its noise before any data is seen.

        Args:
            budget: the most that a whole history may cost.
            unit: the unit of privacy.
            public: what may be known of the graph under this unit.

        Raises:
            UnsupportedUnitError: the unit is none of edges.
            InputError: the budget does not fit, or the day is beyond the horizon of sums.
        """
        if self.noise != "auto" or not unit.private or budget is None:
            return super().calibrate(budget, unit, public)
        found = deviations(self, budget)
        return replace(self, noise=min(found, key=lambda name: found[name])).calibrate(budget, unit, public)

    def grid_steps(self, unit: Unit) -> float:
        """Return how many steps noise of multiplier 1 has: the sensitivity of the encoder (``unit`` plays no part)."""
        return encoder(self.refreshes).norm(self.deletions)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the one release that all days are; none without privacy."""
        if not unit.private:
            return ()
        count_sensitivity(unit)
        shape = (public.num_nodes, public.num_classes)
        if self.noise == "sums":  # an edge is in one column of one row
            return (Release(NAME, GaussianEvent(noise_multiplier), shape, self.refreshes),)
        return (Release(NAME, PureEvent(1 / noise_multiplier), shape, 0),)

    def form(self, plan: Planned) -> Form:
        """Return the form of noise of a plan; without privacy, increments without noise."""
        if not plan.unit.private:
            return Increments(Fraction(0), self.deletions)
        event = plan.event(NAME)
        if isinstance(event, PureEvent):
            return Increments(Fraction(increment_sensitivity(self.deletions)) / Fraction(event.epsilon), self.deletions)
        assert isinstance(event, GaussianEvent)
        encode = encoder(self.refreshes)
        stddev = math.nextafter(event.noise_multiplier * encode.norm(self.deletions), math.inf)
        return Sums(encode, stddev, self.deletions)

    def phases(self, graph: Graph) -> Ints:
        """Return the public phase of each row in the schedule, from its node's id."""
        return row_phases(node_names(graph), self.start)

    def order(self, graph: Graph, known: NDArray[np.bool_]) -> Ints:
        """Return the public rank of every node: known ones first, each group by a hash of ids that the schedule does not use."""
        return np.argsort(np.lexsort((row_phases(node_names(graph), self.start + 2**32), ~known)))

    def history(self, unit: Unit, graph: Graph, sources: Ints, targets: Ints, came: Ints, gone: Ints) -> History:
        """Return which arcs carry a message, where they count, and when they came and went.

        **Formal guarantee.** Known nodes, labels and order are public, so one undirected edge, whose two arcs must both be
        given, is at most one arc here: that to the later node.

        Args:
            unit: the unit of privacy.
            graph: the nodes with labels and roles.
            sources: where each arc starts, and so on.
            targets: where it ends.
            came: the day on which it came.
            gone: the day on which it went.
        """
        assert graph.y is not None
        _, known = one_hot(graph, graph.num_classes)
        rank = self.order(graph, known)
        carries = rank[sources] < rank[targets] if needs_one_way(unit) else sources != targets
        kept = known[sources] & carries
        return History(targets[kept], graph.y[sources[kept]].astype(np.int64), came[kept], gone[kept])

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train a head on what was released of a history, or release one in which every edge came on day 1."""
        told = graph.told if isinstance(graph, ToldGraph) else None
        key = session.charge(NAME) if plan.unit.private else b""
        if told is None:
            arcs = incoming(graph)
            ends = np.repeat(np.arange(graph.num_nodes), np.diff(arcs.offsets))
            ones = np.ones(len(ends), np.int64)
            history = self.history(plan.unit, graph, arcs.sources.astype(np.int64), ends, ones, ones * NEVER)
            if plan.unit.private:
                session.bind(NAME, history.rows, history.classes)
            told = self._through(plan, graph, history, key or bytes(32))
        elif plan.unit.private:
            session.bind(NAME, told)
        outcome = self.learned(plan, graph, session, told)
        if isinstance(graph, ToldGraph) and len(graph.marks):
            return outcome._replace(weights={**outcome.weights, MARKS: graph.marks})
        return outcome

    def _through(self, plan: Planned, graph: Graph, history: History, key: Key) -> NDArray[np.int64]:
        """Release all days of a history, and read them."""
        form, phases = self.form(plan), self.phases(graph)
        stream = Stream.of(history, self.schedule, phases, plan.public.num_classes)
        reader = Reader(np.zeros((graph.num_nodes, plan.public.num_classes)))
        for day in range(1, self.last + 1):
            reader.add(*noisy_day(stream, day, form, key), form)
        return reader.read(self.schedule.done(phases, self.last), form)

    def learned(self, plan: Planned, graph: Graph, session: Session, told: NDArray[np.int64]) -> Outcome:
        """Train on released counts and public data: post-processing."""
        public, (rows, known) = plan.public, one_hot(graph, plan.public.num_classes)
        prior = PRIOR.best(public, graph, PRIOR.trained(public, graph, session))
        count, rank = np.count_nonzero(known), self.order(graph, known)
        y, ids, val = labeled_nodes(graph)
        learners = ids[(known & (rank >= count - math.ceil(self.learner_share * count)))[ids]]
        ids, val = drawn(learners, MOST_LEARNED, session.seed), drawn(val, MOST_HELD_OUT)
        shares = class_shares(rows, known)
        inputs = self._inputs(plan, graph, told, posterior(public, prior, graph), shares)
        examples = (inputs[ids], y[ids]), (inputs[val], y[val])
        head = learn_head(self, graph.num_classes, session, *examples) | reading_arrays(shares)
        seen = head_scores(head, inputs[val]), val
        return Outcome(kept_model(public, graph, session, prior, head, seen), {NAME: told})

    def _inputs(
        self, plan: Planned, graph: Graph, told: NDArray[np.int64], own: NDArray[np.float32], shares: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:  # fmt: skip
        form, done = self.form(plan), self.schedule.done(self.phases(graph), self.last)
        stddev = deviation(form, np.arange(int(done.max(initial=0)) + 1))[done][:, None]
        usual = float(np.median(stddev)) if len(stddev) else 0.0
        return message_inputs(told / INT16_ONE, own, usual or 1.0, stddev, shares)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the head to released rows and the nodes' own features, or the graph-free model if messages were not kept."""
        prior = stored_prior(weights)
        if self.drops_messages(plan, weights):
            return PRIOR.apply(plan.public, prior, graph)
        own = posterior(plan.public, prior, graph)
        return head_scores(weights, self._inputs(plan, graph, released[NAME], own, stored_shares(weights)))

    def drops_messages(self, plan: Planned, weights: Arrays) -> bool:
        """Return whether a graph-free model was kept."""
        return not any(name.startswith("head.") for name in weights)

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say where messages were not kept, and where features say nothing."""
        dropped = (MESSAGES_DROPPED,) * self.drops_messages(plan, weights)
        return (*dropped, *unused_features(plan.public, stored_prior(weights)))


def deviations(method: DailyMessages, budget: Budget) -> dict[str, float]:
    """Return the standard deviation of a count after the last refresh for each form of noise that a budget pays for.

    Args:
        method: whose days, refreshes and deletions count.
        budget: of a whole history; without a delta there are no sums.

    >>> from sfumato.privacy.budget import Budget
    >>> {name: round(one, 1) for name, one in deviations(DailyMessages(refreshes=365), Budget(2.0, 1e-6)).items()}
    {'increments': 11.5, 'sums': 3.7}
    """
    last = np.array([method.refreshes])
    scale = Fraction(increment_sensitivity(method.deletions)) / Fraction(budget.epsilon)
    found = {"increments": float(deviation(Increments(scale), last)[0])}
    if budget.delta:
        encode = encoder(method.refreshes)
        stddev = gaussian_noise_multiplier(budget.epsilon, budget.delta) * encode.norm(method.deletions)
        found["sums"] = float(deviation(Sums(encode, stddev), last)[0])
    return found
