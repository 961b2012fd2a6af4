r"""Label messages under promised degrees: hops that protect a node with every arc in or out of it.

Training nodes send their class, and all other nodes receive (:mod:`~sfumato.bounded.promise`). In this order:

1. *Features.* Center and head of :mod:`~sfumato.central.linear`, with a share f of :math:`\mu^2`.
2. *Pairs.* One noisy matrix of the classes at both ends of arcs between training nodes, with 5 %. It says what a neighbor's class
   says about one's own, and how many arcs there are (:mod:`~sfumato.central.compatibility`).
3. *Test.* How many training and validation nodes the head has right, after a third of its steps and at the end; 1 %.
4. *The rest* goes to the hop, or to more steps for the head if a forecast
   (:func:`~sfumato.central.compatibility.forecast`) says that rows and features together would stay below features alone at the
   whole budget: the accuracy at the end, and :math:`0.55 \log(1 / f)` times what the later steps added.
5. *Prediction.* The head's log probabilities, and the log-likelihood of the node's row.

f is :math:`30 z \sqrt F / n` between 0.1 and 0.5, with z the noise multiplier of the whole budget, F features and n training
nodes: noise moves the head by about that much.

**Formal guarantee** (:class:`~sfumato.privacy.units.NodeLevel` with ``arcs="incident"``). Center, head, pairs, test and rest are
Gaussian events of sensitivity 1 (2 if records are replaced), adaptively composed: which of two the rest is follows from
earlier releases, and both have the same event.

* *A training node is removed.* Its features and label leave center, head and test, its arcs to training nodes leave the pairs,
  and its copies leave the rows.
* *Another node is removed.* Center, head and pairs never read it; a validation node leaves the test. Rows of others move by at
  most 1 together.
* *Its own row* goes to the node itself alone, as its prediction does (joint differential privacy). So rows are not in
  ``release/``: whoever held all of them could see a receiver by its own row, which nothing bounds.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded.grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded.kernels import UNIT
from sfumato.bounded.promise import (
    GRID,
    MOST_STDDEV,
    copies_to,
    noisy,
    pair_sums,
    pair_weights,
    promised_sensitivity,
    rounding_slack,
    row_sums,
)
from sfumato.central._learning import load_weights, network_arrays, num_parameters, train, train_charged
from sfumato.central.arrivals import softmax
from sfumato.central.compatibility import Expected, Law, expected_rows, find_law, forecast, log_likelihood
from sfumato.central.linear import (
    Matrix,
    apply,
    center_release,
    centered_rows,
    chosen,
    find_center,
    full_batch,
    plain,
    zero_head,
)
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph.bounds import most_arcs
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.noise.keys import new_key
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.splitting import MOST_SGD_NOISE
from sfumato.record.ledger import OWN, Release

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

_PAIRS, _TEST, _CENTER, _LEAST, _MOST, _SLOPE = 0.05, 0.01, 0.02, 0.1, 0.5, 30.0
_BEYOND, _PART = 0.55, np.sqrt(0.5) * (1 - 2.0**-20)
_LEAST_PROBABILITY = 1e-9
_HOP = "aggregate/1"


@dataclass(frozen=True)
class PromisedMessages(CuratorMethod):
    r"""Promised messages send labels with weights by public bounds on degrees, so that incident arcs are protected.

    The scores of node v are :math:`\log p(y \mid x_v) + \log p(H_v \mid y)`: the head's, and those of its own noisy row. The
    module gives the steps.

    **Formal guarantee.** Node level with incident arcs, by adaptive composition of Gaussian releases; the module proves it.
    Rows and predictions are for their own node alone. Other units are refused.

    Shapes: the rows are int64 [num_nodes, num_classes], the pairs int64 [num_classes, num_classes], in steps of 1 /
    :data:`~sfumato.bounded.promise.GRID`. Predictions are float32 [num_nodes, num_classes].

    Errors: ``calibrate`` raises UnsupportedUnitError under every other unit, and where no bound on degrees is public.

    Args:
        epochs: full-batch steps of the head, and again where the rest goes to it.
        learning_rate: step size of Adam.
        l2_clip_norm: clip of an example's gradient.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph.graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(20000, 15000, 400, 6, directed=False, max_degree=1500)
    >>> plan = PromisedMessages().calibrate(Budget(4.0, 1e-5), NodeLevel(arcs="incident"), facts)
    >>> [(release.name, release.visible_to) for release in plan.releases][1:]
    [('head', 'anyone'), ('pairs', 'anyone'), ('aggregate/1', 'the node itself')]
    """

    epochs: int = 100
    learning_rate: float = 0.05
    l2_clip_norm: float = 1.0
    card: ClassVar[Card] = Card(
        name="promised-messages",
        summary="label messages under promised degrees (node level, incident arcs)",
        units=("node",),
        audience=Audience(
            ("weights", "noisy pairs of classes"),
            never=("sums before noise",),
            own=("its noisy row of neighbors' classes",),
        ),
        notes=("Constants of the method were chosen on Rutgers89, UCSC68, Cornell5, Cora-ML and Amazon Computers.",),
    )

    def __post_init__(self) -> None:
        check_int(low=1, epochs=self.epochs)
        check_real(low=0, high=10, open_low=True, learning_rate=self.learning_rate)
        check_real(low=0, open_low=True, l2_clip_norm=self.l2_clip_norm)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List center, head, pairs, and the rest under the name of the hop.

        ``unit``, ``public`` and ``noise_multiplier`` are those of :meth:`~sfumato.method.contract.Method.releases`.
        """
        promised_sensitivity(unit)
        check_promised(public)
        with torch.device("meta"):
            size = num_parameters(zero_head(public.num_features, public.num_classes))
        features, classes, nodes = features_share(public, noise_multiplier), public.num_classes, public.num_nodes
        centers = center_release(unit, public, _CENTER * features, noise_multiplier)
        head = full_batch(unit, features * (1 - _CENTER * len(centers)), self.epochs, noise_multiplier)
        rest = _gaussian(1 - features - _PAIRS - _TEST, noise_multiplier)
        return (
            *centers,
            Release("head", head, (size,), size),
            Release("pairs", _gaussian(_PAIRS, noise_multiplier), (classes, classes), classes**2),
            Release("test", _gaussian(_TEST, noise_multiplier), (1, 2), 2),
            Release(_HOP, rest, (nodes, classes), nodes * classes + self.epochs * size, OWN),
        )

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise for a budget, as every method does.

        ``budget``, ``unit`` and ``public`` are those of :meth:`~sfumato.method.contract.Method.calibrate`.

        Raises:
            InputError: the budget is so small that a release would need more noise than can be drawn.
        """
        plan = super().calibrate(budget, unit, public)
        if unit.private:
            noise = GRID * max(_noise(plan, "pairs"), _code(public) * _noise(plan, _HOP))
            if noise >= MOST_STDDEV or self._last_steps(plan).noise_multiplier > MOST_SGD_NOISE:
                raise fail("budget", budget, "to need less noise than can be drawn", "Raise epsilon or delta.")
        return plan

    def check(self, graph: Graph) -> None:
        """Refuse a graph without public bounds on degrees, or with bounds so large that rounding takes half of every copy.

        Raises:
            InputError: there are no bounds, or they are too large.
        """
        if graph.degree_bounds is not None or graph.max_degree is not None:
            rounding_slack(bounds_of(graph))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train on features, release pairs, and spend the rest on the hop or on features.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        head, center = zero_head(plan.public.num_features, plan.public.num_classes), find_center(plan, graph, session)
        inputs = centered_rows(graph, center)
        bounds = bounds_of(graph) if plan.unit.private else most_arcs(graph.indptr, graph.indices)
        classes = np.where(graph.train_mask, -1 if graph.y is None else graph.y, -1)
        if not plan.unit.private:
            train(self, plan, session, "head", head, graph, plain(inputs))
            pairs = _release_pairs(plan, graph, session, classes, bounds)
            hop = _release_hop(plan, graph, session, classes, bounds)
            return Outcome({**center, **network_arrays("head", head), **_kept(bounds)}, {"pairs": pairs, _HOP: hop})
        answers = self._head(plan, graph, session, head, inputs)
        pairs = _release_pairs(plan, graph, session, classes, bounds)
        test = _release_test(plan, graph, session, answers)
        if _hop_pays(plan, pairs, test, bounds, graph):
            hop = _release_hop(plan, graph, session, classes, bounds)
        else:
            hop = np.zeros((graph.num_nodes, plan.public.num_classes), np.int64)
            key, event, told = session.charge(_HOP), self._last_steps(plan), session.watch.stage("head")
            read = train_charged(self, event, key, head, graph, chosen(inputs), told)
            session.bind(_HOP, np.frombuffer(read, np.uint8))
        weights = {**center, **network_arrays("head", head), **_kept(bounds)}
        return Outcome(weights, {"pairs": pairs, "test": test, _HOP: hop})

    def _head(
        self, plan: Planned, graph: Graph, session: Session, head: nn.Linear, inputs: Matrix
    ) -> list[NDArray[np.int64]]:
        """Train the head; return its answers after a third of the steps, and at the end."""
        event, told, answers = plan.event("head"), session.watch.stage("head"), []
        assert isinstance(event, PoissonGaussianEvent)

        def keep(step: int, steps: int) -> None:
            if step == max(steps // 3, 1):
                answers.append(apply(deepcopy(head).float(), inputs).argmax(axis=1))
            if told is not None:
                told(step, steps)

        key = session.charge("head")
        read = train_charged(self, event, key, head, graph, chosen(inputs), keep)
        session.bind("head", np.frombuffer(read, np.uint8))
        return [*answers, apply(head, inputs).argmax(axis=1)]

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Add the log probabilities of the head and, where the hop was released, the log-likelihood of rows.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.

        Raises:
            InputError: the rows are not there.
        """
        if _HOP not in released:
            raise InputError(
                "Expected the folder own/ beside release/, which holds each node's row, got none. Put it there."
            )
        head, hop = zero_head(plan.public.num_features, plan.public.num_classes), released[_HOP]
        load_weights(head, weights, "head")
        found = np.log(np.maximum(softmax(apply(head, centered_rows(graph, weights))), _LEAST_PROBABILITY))
        receives = np.flatnonzero(~graph.train_mask)
        if hop.any():
            bounds = weights["bounds"].astype(np.int64)
            law, expected = _found(plan, released["pairs"], bounds, graph.train_mask)
            own = Expected(expected.weight, expected.totals[receives])
            rows = hop[receives] / (GRID * plan.public.num_classes)
            found[receives] += log_likelihood(rows, _row_stddev(plan), law, own, bounds[receives])
        return found.astype(np.float32)

    def _last_steps(self, plan: Planned) -> PoissonGaussianEvent:
        """The steps of the head that take the rest where the hop does not pay."""
        return full_batch(plan.unit, 1.0, self.epochs, _event(plan, _HOP).noise_multiplier)


def check_promised(public: PublicFacts) -> None:
    """Refuse public facts without any bound on degrees.

    Args:
        public: ``max_degree`` and ``degree_bounds`` are read.

    Raises:
        UnsupportedUnitError: nothing bounds how many arcs a node has.
    """
    if public.max_degree is None and not public.degree_bounds:
        raise UnsupportedUnitError(
            "One hop has no bounded sensitivity when every arc of a node is protected and nothing bounds how many there are. "
            "Promise a bound (--max-degree, or max_degree in the schema), declare public bounds (--public-degrees, or "
            "degree_column), or take linear."
        )


def features_share(public: PublicFacts, noise_multiplier: float) -> float:
    r"""Return the share of :math:`\mu^2` that features have: more of it, the more noise moves the head.

    Args:
        public: numbers of features and of training nodes.
        noise_multiplier: z of the whole budget.

    >>> from sfumato.graph.graph import PublicFacts
    >>> features_share(PublicFacts(20000, 15000, 400, 6, directed=False), 1.0)
    0.1
    """
    needed = _SLOPE * noise_multiplier * float(np.sqrt(public.num_features)) / max(public.num_train, 1)
    return min(max(needed, _LEAST), _MOST)


def bounds_of(graph: Graph) -> NDArray[np.int64]:
    """Return the public bound on the arcs out and in of each node: its own, or the promise for everybody.

    Args:
        graph: its ``degree_bounds`` or ``max_degree`` is read.

    Raises:
        InputError: the graph has neither.
    """
    if graph.degree_bounds is not None:
        return np.asarray(graph.degree_bounds, np.int64)
    if graph.max_degree is None:
        raise InputError("Expected a graph with max_degree or degree_bounds, got neither. Read it with its schema.")
    return np.full(graph.num_nodes, graph.max_degree, np.int64)


def _release_pairs(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], bounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    key = session.charge("pairs") if plan.unit.private else new_key()
    pairs = pair_weights(graph.indptr, graph.indices, graph.train_mask, bounds, directed=graph.directed)
    sums = pair_sums(pairs, classes, plan.public.num_classes)
    session.bind("pairs", sums)
    return noisy(sums, GRID * _noise(plan, "pairs"), key)


def _release_hop(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], bounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    key, receives = session.charge(_HOP) if plan.unit.private else new_key(), ~graph.train_mask
    sums = row_sums(
        copies_to(graph.indptr, graph.indices, classes, receives, bounds), graph.num_nodes, plan.public.num_classes
    )
    session.bind(_HOP, sums)
    hop = noisy(sums, GRID * _code(plan.public) * _noise(plan, _HOP), key)
    hop[~receives] = 0
    return hop


def _release_test(plan: Planned, graph: Graph, session: Session, answers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Release how many training and validation nodes each of two answers has right."""
    assert graph.y is not None
    key, nodes = session.charge("test"), np.flatnonzero((graph.train_mask | graph.val_mask) & (graph.y >= 0))
    right = np.stack([answer[nodes] == graph.y[nodes] for answer in answers], axis=1)
    rows: NDArray[np.float32] = (right * _PART).astype(np.float32)
    session.bind("test", rows)
    noise = _event(plan, "test").noise_multiplier * group_sensitivity(plan.unit)
    return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key)


def _hop_pays(
    plan: Planned, pairs: NDArray[np.int64], test: NDArray[np.int64], bounds: NDArray[np.int64], graph: Graph
) -> bool:
    """Whether the rest goes to the hop; reads releases, roles and public facts alone."""
    law, expected = _found(plan, pairs, bounds, graph.train_mask)
    receives, tested = ~graph.train_mask, np.count_nonzero(graph.train_mask | graph.val_mask)
    if not law.known or not receives.any():
        return False
    first, second = np.clip(test[0] / UNIT / _PART / max(tested, 1), 1 / plan.public.num_classes, 0.99).tolist()
    whole = _event(plan, "pairs").noise_multiplier * float(np.sqrt(_PAIRS))
    beyond = -_BEYOND * float(np.log(features_share(plan.public, whole)))
    alone = min(second + beyond * max(second - first, 0.0), 0.99)
    own = Expected(expected.weight, expected.totals[receives])
    return forecast(law, own, bounds[receives], _row_stddev(plan), second) > alone


def _found(
    plan: Planned, pairs: NDArray[np.int64], bounds: NDArray[np.int64], sends: NDArray[np.bool_]
) -> tuple[Law, Expected]:
    """What the pairs say of classes, and of the rows to come."""
    law = find_law(pairs / GRID, _noise(plan, "pairs"), directed=plan.public.directed)
    return law, expected_rows(law, bounds, sends)


def _event(plan: Planned, name: str) -> GaussianEvent:
    event = plan.event(name)
    assert isinstance(event, GaussianEvent)
    return event


def _noise(plan: Planned, name: str) -> float:
    """Standard deviation of one release, in copies of weight 1; 0 without privacy."""
    if not plan.unit.private:
        return 0.0
    return _event(plan, name).noise_multiplier * promised_sensitivity(plan.unit)


def _code(public: PublicFacts) -> float:
    """The norm of the code of a class (:func:`~sfumato.bounded.promise.row_sums`)."""
    return float(np.sqrt(public.num_classes * (public.num_classes - 1)))


def _kept(bounds: NDArray[np.int64]) -> Arrays:
    """Public bounds as they are kept with the weights, which are float32: exact up to 2^24, and larger ones are refused."""
    return {"bounds": bounds.astype(np.float32)}


def _row_stddev(plan: Planned) -> float:
    """Standard deviation of an entry of a row of mean 0, in copies of weight 1."""
    return _noise(plan, _HOP) * _code(plan.public) / plan.public.num_classes


def _gaussian(part: float, noise_multiplier: float) -> GaussianEvent:
    """One release with a part of the mu^2 of a Gaussian release."""
    return GaussianEvent(float(noise_multiplier / np.sqrt(part)))
