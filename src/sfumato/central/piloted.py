r"""Piloted label messages: a small charged pilot says whether the budget goes to messages or to features.

No fixed split of a node-level budget serves all graphs: messages need most of it on a dense social network, and cost
accuracy where features say more. So the split is learned privately. All releases are Gaussian; the share of
:math:`\mu^2` of each is in brackets.

1. *Features* [0.155 with their center]: 150 steps of a graph-free linear head (:mod:`~sfumato.central.linear`). Its weights
   after 50 steps are kept too.
2. *Pilot hop* [0.035] of label messages to all receivers, as in :mod:`~sfumato.central.labels`.
3. *Test* [0.025]: one noisy sum of three numbers for each node in training or validation: were the first weights right,
   were the last, and the product of the row's direction with the code of the node's class (0 if the node does not receive).
4. *Choice*, a function of these releases: :func:`~sfumato.central.forecast.forecast` says what messages and features would
   reach together, at a correlation below the measured one: less the noise of the test, and twice what chance alone gives
   rows that say nothing (:math:`1 / \sqrt{(C - 1) m}` for m receivers). Features alone are taken to reach that of the last
   weights plus 1.2 times their gain over the first: twice what they gained on graphs that the rule of
   :mod:`~sfumato.central.auto` lets pass.
5. *Rest* [0.785]: either features train on, or a second hop gets 94 % of it, and a head on features and messages, which
   starts at a fixed weight of messages, the other 6 %.

**Formal guarantee.** The first four steps are an adaptive composition of Gaussian releases. The last one is, for each of
the two choices, a composition of Gaussian releases with the same :math:`\sum_i \mu_i^2 = \mu_{rest}^2`. The choice reads
earlier releases alone; so whatever they are, the rest is :math:`\mu_{rest}`-GDP given them, and the whole run is
:math:`\mu`-GDP with :math:`\mu^2` the sum over its releases, by adaptive composition (Dong, Roth and Su 2022, corollary 3.3).
In the ledger the rest is one Gaussian event, ``aggregate/2``; its matrix is zero if features won. In step 3 a record is one
row of norm at most 1, of the three numbers that read its features and label, weighed by
:math:`w_1^2 + w_2^2 + w_3^2 = 1`. Rows of other nodes do not read the record but through earlier releases.

What chose constants: docs/decisions/0018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato._validate import fail
from sfumato.bounded.aggregation import normalize_rows
from sfumato.bounded.grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded.kernels import UNIT
from sfumato.bounded.routing import routed_arc_change, routed_coordinates, routed_sensitivity
from sfumato.central._learning import train_charged
from sfumato.central._rows import Matrix, beside, centered_rows
from sfumato.central.counts import directions
from sfumato.central.forecast import forecast
from sfumato.central.labels import LabelMessages
from sfumato.central.linear import (
    apply,
    center_release,
    chosen,
    find_center,
    full_batch,
    zero_head,
)
from sfumato.central.shares import release_hop, simplex, sum_hop
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn.weights import load_weights, network_arrays, num_parameters
from sfumato.noise.keys import derive_key
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.splitting import MOST_SGD_NOISE
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

_CENTER, _ALONE, _PILOT, _REST = 0.015, 0.14, 0.035, 0.785
TEST = (0.005, 0.005, 0.015)
"""Shares of mu^2 that the three numbers of the test have."""
_HOP_PART, _EARLY, _STEPS, _LAST_STEPS = 0.94, 50, 150, 50
_CHANCE, _BEYOND = 2.0, 1.2
_FIRST_CODE, _SLOWER = 2.5, 5
MOST_NOISE = MOST_SGD_NOISE * float(np.sqrt(_REST * (1 - _HOP_PART) / _LAST_STEPS))
"""Largest noise multiplier of the whole run for which the last steps can add what they are charged (records removed)."""


FEATURES_CHOSEN = (
    "Messages are not used: the charged test said that features alone would reach more, and they got the rest of the budget. "
    "What the test of messages cost stays spent."
)
"""What a run says whose charged test chose features."""


@dataclass(frozen=True)
class PilotedMessages(LabelMessages):
    r"""Piloted messages choose between label messages and features by a charged pilot; for node level with owned arcs.

    The scores of node v are :math:`W (2 d_v, \tilde x_v) + b`, with :math:`d_v` the direction of its released rows (W ignores it
    if features won) and :math:`\tilde x_v` its centered features. The module gives the steps.

    **Formal guarantee.** Node level with owned arcs, by adaptive composition of Gaussian releases; the module proves it.
    Without privacy it is :class:`~sfumato.central.labels.LabelMessages`. Other units are refused.

    Shapes: each aggregate is int64 [num_nodes, num_classes] in steps of 1 / 32767; the test is int64 [1, 3]. Predictions are
    float32 [num_nodes, num_classes].

    Settings are those of :class:`~sfumato.central.labels.LabelMessages`.

    Errors: ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.graph.graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=20000, num_train=15000, num_features=400, num_classes=6, directed=False)
    >>> plan = PilotedMessages().calibrate(Budget(2.0, 1e-5), NodeLevel(), facts)
    >>> [release.name for release in plan.releases], round(plan.epsilon, 2)
    (['center', 'head', 'aggregate/1', 'test', 'aggregate/2'], 2.0)
    """

    card: ClassVar[Card] = Card(
        name="piloted-messages",
        summary="label messages or features, as a charged pilot says (node level)",
        units=("node",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
        reads_weights=True,
        notes=(
            "Constants of the method were chosen on Rutgers89, UCSC68, Cornell5, Cora-ML, Citeseer, Amazon Computers and "
            "co-author CS.",
        ),
    )

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List center, head, pilot hop and test, and the rest under the name of the second hop.

        ``unit``, ``public`` and ``noise_multiplier`` are those of :meth:`~sfumato.method.contract.Method.releases`.
        """
        routed_sensitivity(unit)
        group_sensitivity(unit)
        self.hops(unit)
        with torch.device("meta"):
            size = num_parameters(zero_head(public.num_classes + public.num_features, public.num_classes))
        shape = (public.num_nodes, public.num_classes)
        touched, still, moved = routed_coordinates(unit, *shape), unit.no_arc_change, routed_arc_change(unit)
        return (
            *center_release(unit, public, _CENTER, noise_multiplier),
            Release("head", full_batch(unit, _ALONE, _STEPS, noise_multiplier), (size,), size, arc_change=still),
            Release("aggregate/1", _gaussian(_PILOT, noise_multiplier), shape, touched, arc_change=moved),
            Release("test", _gaussian(sum(TEST), noise_multiplier), (1, len(TEST)), len(TEST), arc_change=still),
            Release(
                "aggregate/2",
                _gaussian(_REST, noise_multiplier),
                shape,
                touched + max(self.epochs, _LAST_STEPS) * size,
                arc_change=moved,
            ),
        )

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise for a budget, as every method does.

        ``budget``, ``unit`` and ``public`` are those of :meth:`~sfumato.method.contract.Method.calibrate`.

        Raises:
            InputError: the budget is so small that a step in the rest would need more noise than DP-SGD can add.
        """
        plan = super().calibrate(budget, unit, public)
        if unit.private and max(event.noise_multiplier for event in self._rests(plan)) > MOST_SGD_NOISE:
            expected = f"to leave the last steps a noise multiplier of at most {MOST_SGD_NOISE:g}"
            raise fail("budget", budget, expected, "Raise epsilon or delta, or take method linear.")
        return plan

    def _rests(self, plan: Planned) -> tuple[PoissonGaussianEvent, PoissonGaussianEvent]:
        """The steps in the rest: all of it for features, or those after a second hop."""
        rest = _rest(plan, 1.0)
        return full_batch(plan.unit, 1.0, self.epochs, rest), full_batch(plan.unit, 1 - _HOP_PART, _LAST_STEPS, rest)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Run features, pilot, test and the rest; without privacy run label messages.

        ``plan``, ``graph`` and ``session`` are those of :meth:`~sfumato.method.contract.Method.run`.
        """
        if not plan.unit.private:
            return super().run(plan, graph, session)
        classes = plan.public.num_classes
        center, head = find_center(plan, graph, session), _head(plan)
        own = centered_rows(graph, center)
        alone = beside(np.zeros((graph.num_nodes, classes)), own)
        answers = [apply(one, alone).argmax(axis=1) for one in self._alone(plan, graph, session, head, alone)]
        routed = self.routed(plan, graph, session)
        pilot = release_hop(plan, session, routed)
        test = self._test(plan, graph, session, answers, pilot, routed.receives)
        scored = graph.train_mask | graph.val_mask
        counts = int(np.count_nonzero(scored)), int(np.count_nonzero(scored & routed.receives))
        pays = messages_pay(plan, test, pilot[routed.receives], counts)
        released = {"aggregate/1": pilot, "aggregate/2": np.zeros_like(pilot), "test": test}
        key = session.charge("aggregate/2")
        if pays:
            session.bind("aggregate/2", routed.messages, *routed.arcs.arrays)
            noise = _rest(plan, _HOP_PART) * routed_sensitivity(plan.unit)
            released["aggregate/2"] = sum_hop(routed, noise, derive_key(key, "hop"))
            _weigh_messages(head, _FIRST_CODE * simplex(classes))
            inputs = beside(2 * _direction(plan, released), own)
            event = self._rests(plan)[1]
            slower = replace(self, learning_rate=self.learning_rate / _SLOWER)
            read = train_charged(
                slower, event, derive_key(key, "head"), head, graph, chosen(inputs), session.watch.stage("head")
            )
            session.bind("aggregate/2/head", np.frombuffer(read, np.uint8))
        else:
            event = self._rests(plan)[0]
            read = train_charged(self, event, key, head, graph, chosen(alone), session.watch.stage("head"))
            session.bind("aggregate/2", np.frombuffer(read, np.uint8))
            _weigh_messages(head, np.zeros((classes, classes)))
        return Outcome({**center, **network_arrays("head", head)}, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the head to released rows and the nodes' own features.

        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        if not plan.unit.private:
            return super().scores(plan, weights, released, graph)
        head = _head(plan)
        load_weights(head, weights, "head")
        return apply(head, beside(2 * _direction(plan, released), centered_rows(graph, weights)))

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say where the charged test chose features.

        ``plan``, ``weights`` and ``released`` are those of :meth:`~sfumato.method.contract.Method.scores`.
        """
        if not plan.unit.private or "aggregate/2" not in released:
            return super().unused(plan, weights, released)
        return () if released["aggregate/2"].any() else (FEATURES_CHOSEN,)

    def _alone(
        self, plan: Planned, graph: Graph, session: Session, head: nn.Linear, inputs: Matrix
    ) -> tuple[nn.Linear, nn.Linear]:
        """Train the head on features alone; return it as it was after a third of the steps, and as it is."""
        event, classes, early = plan.event("head"), plan.public.num_classes, _head(plan)
        assert isinstance(event, PoissonGaussianEvent)
        told = session.watch.stage("head")

        def keep(step: int, steps: int) -> None:
            if step == _EARLY:
                early.load_state_dict(head.state_dict())
            if told is not None:
                told(step, steps)

        key = session.charge("head")
        read = train_charged(self, event, key, head, graph, chosen(inputs), keep)
        session.bind("head", np.frombuffer(read, np.uint8))
        for one in (early, head):
            _weigh_messages(one, np.zeros((classes, classes)))
        return early, head

    def _test(
        self,
        plan: Planned,
        graph: Graph,
        session: Session,
        answers: list[NDArray[np.int64]],
        pilot: NDArray[np.int64],
        receives: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Release the sum of three numbers for each labeled node in training or validation."""
        assert graph.y is not None
        nodes = np.flatnonzero((graph.train_mask | graph.val_mask) & (graph.y >= 0))
        y = graph.y[nodes]
        known = normalize_rows(_centered(pilot[nodes])) * simplex(plan.public.num_classes)[y]
        products = np.where(receives[nodes], known.sum(axis=1), 0.0)
        numbers = np.stack([*(answer[nodes] == y for answer in answers), products], axis=1) * _weights()
        rows: NDArray[np.float32] = numbers.astype(np.float32)
        event = plan.event("test")
        assert isinstance(event, GaussianEvent)
        key = session.charge("test")
        session.bind("test", rows)
        noise = event.noise_multiplier * group_sensitivity(plan.unit)
        return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key)


def messages_pay(plan: Planned, test: NDArray[np.int64], rows: NDArray[np.int64], counts: tuple[int, int]) -> bool:
    """Return whether the rest goes to messages; reads releases and public facts alone.

    Args:
        plan: what was fixed before data.
        test: the released test, int64 [1, 3].
        rows: the released rows of the pilot hop, for nodes that receive.
        counts: public numbers of nodes: in training or validation, and those of them that receive.
    """
    classes = plan.public.num_classes
    first, second, product = (test[0] / UNIT / _weights() / np.maximum([counts[0], counts[0], counts[1]], 1)).tolist()
    event = plan.event("test")
    assert isinstance(event, GaussianEvent)
    noise = event.noise_multiplier * group_sensitivity(plan.unit) / _weights()[2] / max(counts[1], 1)
    chance = float(1 / np.sqrt(max((classes - 1) * counts[1], 1)))  # of a correlation of rows that say nothing
    doubt = float(np.hypot(noise, _CHANCE * chance))
    second = min(max(second, 1 / classes), 0.99)
    alone = min(second + _BEYOND * max(second - max(first, 0.0), 0.0), 0.99)
    correlation = product - doubt
    if correlation <= 0 or len(rows) == 0:
        return False
    pilot, rest = _precision(plan, "aggregate/1"), _precision(plan, "aggregate/2")
    later = float(1 / np.sqrt(pilot + rest))
    return forecast(_centered(rows), pilot**-0.5, correlation, later_stddev=later, accuracy=second) > alone


def _gaussian(part: float, noise_multiplier: float) -> GaussianEvent:
    """One release with a part of the mu^2 of a Gaussian release."""
    return GaussianEvent(float(noise_multiplier / np.sqrt(part)))


def _rest(plan: Planned, part: float) -> float:
    """Noise multiplier of a release that takes a part of the rest."""
    event = plan.event("aggregate/2")
    assert isinstance(event, GaussianEvent)
    return float(event.noise_multiplier / np.sqrt(part))


def _weights() -> NDArray[np.float64]:
    """Weights of the three numbers of the test, of norm 1 (a rounding below it)."""
    return np.sqrt(np.array(TEST) / sum(TEST)) * (1 - 2.0**-20)


def _precision(plan: Planned, name: str) -> float:
    """One over the noise variance of a hop."""
    event = plan.event(name)
    assert isinstance(event, GaussianEvent)
    noise = _rest(plan, _HOP_PART) if name == "aggregate/2" else event.noise_multiplier
    return float((noise * routed_sensitivity(plan.unit)) ** -2)


def _direction(plan: Planned, released: Arrays) -> NDArray[np.float64]:
    """Directions of the mean of the hops, each weighed by its precision, and shrunk by the noise of the mean."""
    names = [name for name in sorted(released) if name.startswith("aggregate/")]
    precisions = np.array([_precision(plan, name) for name in names])
    sums = sum(part * released[name] for part, name in zip(precisions, names, strict=True)) / precisions.sum()
    return directions(_centered(sums), float(1 / np.sqrt(precisions.sum())))


def _centered(sums: NDArray[np.floating] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums in units of a full row, each row with mean 0."""
    rows: NDArray[np.float64] = sums / UNIT
    return rows - rows.mean(axis=1, keepdims=True)


def _head(plan: Planned) -> nn.Linear:
    return zero_head(plan.public.num_classes + plan.public.num_features, plan.public.num_classes)


def _weigh_messages(head: nn.Linear, weights: NDArray[np.floating]) -> None:
    """Set the weights of messages in a head that reads them first."""
    with torch.no_grad():
        head.weight[:, : weights.shape[1]] = torch.from_numpy(np.asarray(weights, np.float32))
