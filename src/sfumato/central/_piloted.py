r"""Piloted label messages: a small charged pilot says whether the budget goes to messages or to features.

No fixed split of a node-level budget serves all graphs: messages need most of it on a dense social network, and cost
accuracy where features say more. So the split is learned privately. All releases are Gaussian; the share of
:math:`\mu^2` of each is in brackets.

1. *Features* [0.155 with their center]: 150 steps of a graph-free linear head (:mod:`~sfumato.central._linear`). Its weights
   after 50 steps are kept too.
2. *Pilot hop* [0.035] of label messages to all receivers, as in :mod:`~sfumato.central._labels`.
3. *Test* [0.03]: one noisy sum of 3 + C numbers for each node in training or validation: the log-loss of the first weights and
   of the last, each cut at 5 and divided by 5; the product of the row's direction with the code of the node's class (0 if the
   node does not receive); and the one-hot row of its class.
4. *Choice*, a function of these releases: :func:`~sfumato.central._forecast.forecast` says what log-loss messages and features
   would reach together, at a correlation below the measured one: less the noise of the test, and twice what chance alone
   gives rows that say nothing. What the classes' shares alone explain of it is taken off first. Features alone are taken to
   reach the loss of the last weights less half of their gain over the first; no loss is above that of one answer for all.
5. *Rest* [0.75]: either features train on, or a second hop gets it.
6. *Last stage* [0.03]: a few numbers (:mod:`~sfumato.central._weighing`) weigh features and rows, by the labels of validation
   nodes and, if messages won, learners.

**Formal guarantee.** All steps but the rest are Gaussian releases. The rest is, for each of the two choices, a composition of
Gaussian releases with the same :math:`\sum_i \mu_i^2 = \mu_{rest}^2`. The choice reads earlier releases alone; so whatever they
are, the rest is :math:`\mu_{rest}`-GDP given them, and the whole run is :math:`\mu`-GDP with :math:`\mu^2` the sum over its
releases, by adaptive composition (Dong, Roth and Su 2022, corollary 3.3).
In the ledger the rest is one Gaussian event, ``aggregate/2``; its matrix is zero if features won. In step 3 a record is one
row of norm at most 1: the numbers read its features and label, each is at most 1 in size, the one-hot row has norm 1, and
their weights have :math:`w_1^2 + w_2^2 + w_3^2 + w_4^2 = 1`. Rows of other nodes do not read the record but through earlier
releases.

*Types of edges.* Where edges have types, the pilot is released for each of them, with up to four times its share, and one more
sum [0.01] says how much each type should weigh; the hop in the rest is one sum of weighed arcs
(:mod:`~sfumato.central._typed_pilot`). Both shares are taken from the rest, and all of it has the sensitivities of above. A
public rule reads edges without their types where noise would hide what each type says.

Runs that were saved before the last stage was there have a test of three numbers, and a head that reads directions of rows
beside features. They are still read.

What chose constants: docs/decisions/0018 and 0046.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import PRIVATE_LABELS, fail, setting
from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._routing import routed_arc_change, routed_coordinates, routed_sensitivity
from sfumato.bounded._typed_shares import typed_arc_change
from sfumato.bounded.aggregation import normalize_rows
from sfumato.central._counts import directions
from sfumato.central._forecast import MOST_LOSS, forecast
from sfumato.central._heads import CLIP, apply, head_size, train_further, train_head, zero_head
from sfumato.central._labels import LabelMessages
from sfumato.central._linear import center_release, find_center, full_batch
from sfumato.central._rows import beside, centered_rows, head_scores
from sfumato.central._shares import release_hop, simplex, sum_hop
from sfumato.central._typed_pilot import (
    SHARE,
    TYPES,
    WEIGHTS,
    TypedPilot,
    joined,
    pilot_share,
    tells_apart,
    typed_releases,
)
from sfumato.central._weighing import NUM_WEIGHTS, STEPS, evidence, learn_weights, weigh
from sfumato.graph._targets import softmax
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of, part_of
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn._weights import network_arrays
from sfumato.privacy._splitting import MOST_SGD_NOISE
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import PoissonGaussianEvent
    from sfumato.privacy.units import Unit

_CENTER, _ALONE, _PILOT, _REST, _LAST = 0.015, 0.14, 0.035, 0.75, 0.03
TEST = (0.005, 0.005, 0.015, 0.005)
"""Shares of mu^2 that two losses, the product and the one-hot row of the test have."""
_STEPS, _OLD_HOP_PART = 150, 0.94
_CHANCE, _BEYOND = 2.0, 0.5
MOST_NOISE = MOST_SGD_NOISE * float(np.sqrt(_ALONE / _STEPS))
"""Largest noise multiplier of the whole run for which DP-SGD can add what the head is charged (records removed)."""


FEATURES_CHOSEN = (
    "Messages are not used: the charged test said that features alone would reach more, and they got the rest of the budget. "
    "What the test of messages cost stays spent."
)
"""What a run says whose charged test chose features."""
TYPES_HIDDEN = (
    "Types of edges are not told apart: at this budget noise would hide what each of them says. Nodes are linked if an edge of "
    "any type links them."
)
"""What a run says that reads edges without their types by a public rule."""


@dataclass(frozen=True)
class PilotedMessages(LabelMessages):
    """Piloted messages choose between label messages and features by a charged pilot; for node level with owned arcs.

    The scores of node v are those of the last stage (:mod:`~sfumato.central._weighing`): a head's on its centered features,
    and what its released rows say, if messages won. Without privacy it is :class:`~sfumato.central._labels.LabelMessages`.

    Each aggregate is int64 [num_nodes, num_classes] in steps of 1 / 32767; the test is int64 [1, 3 + num_classes].

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=20000, num_train=15000, num_features=400, num_classes=6, directed=False)
    >>> plan = PilotedMessages().calibrate(Budget(2.0, 1e-5), NodeLevel(), facts)
    >>> [release.name for release in plan.releases], round(plan.epsilon, 2)
    (['center', 'head', 'aggregate/1', 'test', 'aggregate/2', 'last'], 2.0)
    """

    l2_clip_norm: float = setting(CLIP, PRIVATE_LABELS)
    card: ClassVar[Card] = Card(
        name="piloted-messages",
        summary="label messages or features, as a charged pilot says (node level)",
        units=("node",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
        returns_known=True,
        reads_weights=True,
        reads_types=(),
        notes=(
            "Constants of the method were chosen on Rutgers89, UCSC68, Cornell5, Cora-ML, Citeseer, Amazon Computers and "
            "co-author CS.",
        ),
    )

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List center, head, pilot hop and test, the rest under the name of the second hop, and the last stage."""
        routed_sensitivity(unit)
        group_sensitivity(unit)
        self.hops(unit)
        size = head_size(public.num_features, public.num_classes)
        shape, tested = (public.num_nodes, public.num_classes), len(TEST) - 1 + public.num_classes
        touched, still, moved = routed_coordinates(unit, *shape), unit.no_arc_change, routed_arc_change(unit)
        last, rest = NUM_WEIGHTS + public.num_classes, _REST
        pilot: tuple[Release, ...] = (
            Release("aggregate/1", part_of(_PILOT, noise_multiplier), shape, touched, arc_change=moved),
        )
        if public.edge_types is not None and tells_apart(unit, public, noise_multiplier):
            part, moved = pilot_share(_PILOT, len(public.edge_types)), typed_arc_change(unit, weighed=True)
            rest -= part - _PILOT + SHARE
            pilot = typed_releases(unit, public, part, noise_multiplier)
        return (
            *center_release(unit, public, _CENTER, noise_multiplier),
            Release("head", full_batch(unit, _ALONE, _STEPS, noise_multiplier), (size,), size, arc_change=still),
            *pilot,
            Release("test", part_of(sum(TEST), noise_multiplier), (1, tested), tested, arc_change=still),
            Release(
                "aggregate/2", part_of(rest, noise_multiplier), shape, touched + self.epochs * size, arc_change=moved
            ),
            Release("last", part_of(_LAST, noise_multiplier), (last,), STEPS * last, arc_change=still),
        )

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        plan = super().calibrate(budget, unit, public)
        if unit.private and self._more_steps(plan).noise_multiplier > MOST_SGD_NOISE:
            expected = f"to leave the last steps a noise multiplier of at most {MOST_SGD_NOISE:g}"
            raise fail("budget", budget, expected, "Raise epsilon or delta, or take method linear.")
        return plan

    def _more_steps(self, plan: Planned) -> PoissonGaussianEvent:
        """The steps in the rest where features won."""
        return full_batch(plan.unit, 1.0, self.epochs, multiplier_of(plan, "aggregate/2"))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        if not plan.unit.private:
            return super().run(plan, graph, session)
        center = find_center(plan, graph, session)
        head = zero_head(plan.public.num_features, plan.public.num_classes)
        own = centered_rows(graph, center)
        early = train_head(self, plan, session, head, graph, own)
        told, types, released = (apply(early, own), apply(head, own)), Arrays(), Arrays()
        if all(release.name != TYPES for release in plan.releases):
            routed = self.routed(plan, graph, session)
            released["aggregate/1"] = release_hop(plan, session, routed)
            pilot: Any = released["aggregate/1"]
        else:
            typed = TypedPilot(plan, graph, session, self._receivers(plan, graph, session))
            released["aggregate/1"] = typed.release()
            released[TYPES], types[WEIGHTS] = typed.weights(released["aggregate/1"])
            routed = typed.routed(types[WEIGHTS][0])
            pilot = joined(released["aggregate/1"], types[WEIGHTS])
        released["test"] = test = _release_test(plan, graph, session, told, pilot)
        shares = shares_of(plan, test)
        before = _precision(plan, "aggregate/1", 1 / _blocks(plan, released["aggregate/1"]))
        pays = messages_pay(plan, test, pilot, graph.train_mask | graph.val_mask, routed.receives, before)
        released["aggregate/2"] = np.zeros((graph.num_nodes, plan.public.num_classes), np.int64)
        key, read = session.charge("aggregate/2"), graph.val_mask
        if pays:
            read = read | (routed.receives & graph.train_mask)
            session.bind("aggregate/2", routed.messages, *routed.arcs.arrays)
            noise = multiplier_of(plan, "aggregate/2") * routed_sensitivity(plan.unit)
            released["aggregate/2"] = sum_hop(routed, noise, key)
        else:
            session.bind("aggregate/2", train_further(self, self._more_steps(plan), key, session, head, graph, own))
        weights = {**center, **network_arrays("head", head), **types}
        ids = np.flatnonzero(read)
        assert graph.y is not None
        noise = multiplier_of(plan, "last") * float(np.sqrt(STEPS)) * group_sensitivity(plan.unit)
        key = session.charge("last")
        seen = np.stack([part[ids] for part in _evidence(plan, weights, released, graph)], axis=2)
        last, mac = learn_weights(seen, graph.y[ids], shares, noise, key)
        if not pays:
            last["last.weight"][1:] = 0
        session.bind("last", np.frombuffer(mac, np.uint8))
        return Outcome({**weights, **last}, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Weigh what the head says of the nodes' own features, and released rows."""
        if not plan.unit.private:
            return super().scores(plan, weights, released, graph)
        if "last.weight" in weights:
            return weigh(weights, _evidence(plan, weights, released, graph))
        inputs = beside(
            2 * directions(*_mean_rows(plan, weights, released, _OLD_HOP_PART)), centered_rows(graph, weights)
        )
        return head_scores(weights, inputs)

    def drops_messages(self, plan: Planned, weights: Arrays) -> bool:
        """Return whether the charged test chose features; heads of early runs read the pilot all the same."""
        if not plan.unit.private:
            return super().drops_messages(plan, weights)
        return "last.weight" in weights and not weights["last.weight"][1:].any()

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        if not plan.unit.private or "aggregate/2" not in released:
            return super().unused(plan, weights, released)
        hidden = plan.public.edge_types is not None and TYPES not in released
        return (*((TYPES_HIDDEN,) * hidden), *((FEATURES_CHOSEN,) * (not released["aggregate/2"].any())))


def _release_test(
    plan: Planned,
    graph: Graph,
    session: Session,
    told: tuple[NDArray[np.float32], NDArray[np.float32]],
    pilot: NDArray[np.int64] | NDArray[np.float64],
) -> NDArray[np.int64]:
    """Release the sum of 3 + C numbers for each labeled node in training or validation."""
    assert graph.y is not None
    nodes, classes = np.flatnonzero((graph.train_mask | graph.val_mask) & (graph.y >= 0)), plan.public.num_classes
    y = graph.y[nodes]
    losses = [-np.log(np.maximum(softmax(one), np.exp(-MOST_LOSS)))[nodes, y] / MOST_LOSS for one in told]
    products = (normalize_rows(_centered(pilot)) @ simplex(classes).T)[nodes, y]
    numbers = np.column_stack([*losses, products, np.eye(classes)[y]])
    rows: NDArray[np.float32] = (np.clip(numbers, -1, 1) * _weights(classes)).astype(np.float32)
    key = session.charge("test")
    session.bind("test", rows)
    return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, _test_noise(plan), key)


def shares_of(plan: Planned, test: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the shares of the classes that a released test tells; counts below their noise are taken for as much."""
    weight = _weights(plan.public.num_classes)[-1]
    counts = np.maximum(test[0, len(TEST) - 1 :] / INT16_ONE, max(_test_noise(plan), 1.0)) / weight
    return np.asarray(counts / counts.sum(), np.float64)


def messages_pay(
    plan: Planned,
    test: NDArray[np.int64],
    pilot: NDArray[np.int64] | NDArray[np.float64],
    scored: NDArray[np.bool_],
    receives: NDArray[np.bool_],
    before: float,
) -> bool:
    """Return whether the rest goes to messages; reads releases and public facts alone.

    ``before`` is one over the variance of the noise of the rows of the ``pilot``.
    """
    classes, shares, both = plan.public.num_classes, shares_of(plan, test), scored & receives
    numbers = test[0] / INT16_ONE / _weights(classes)
    nodes, most = max(int(np.count_nonzero(scored)), 1), max(int(np.count_nonzero(both)), 1)
    entropy = -float(shares @ np.log(shares))  # the loss of one answer for all, which the last stage can always give
    early, late = np.clip(numbers[:2] * MOST_LOSS / nodes, 0.01, max(entropy, 0.01)).tolist()
    alone = max(late - _BEYOND * max(early - late, 0.0), 0.01)
    mean = shares @ simplex(classes)
    explained = float(
        normalize_rows(_centered(pilot[both])).sum(axis=0) @ mean
    )  # by the shares alone, whatever rows say
    noise = _test_noise(plan) / _weights(classes)[2] / most
    chance = float(np.sqrt((1 - mean @ mean) / ((classes - 1) * most)))  # of a correlation of rows that say nothing
    correlation = (float(numbers[2]) - explained) / most - float(np.hypot(noise, _CHANCE * chance))
    if correlation <= 0:
        return False
    rest = _precision(plan, "aggregate/2")
    later, rows = float(1 / np.sqrt(before + rest)), _centered(pilot[receives])
    told = forecast(rows, before**-0.5, correlation, later_stddev=later, loss=late, shares=shares)
    return told < alone


def _weights(classes: int) -> NDArray[np.float64]:
    """Weights of the numbers of the test, of norm 1 (a rounding below it) where one entry counts of the one-hot row."""
    parts = np.sqrt(np.array(TEST) / sum(TEST)) * (1 - 2.0**-20)
    return np.concatenate([parts[:-1], np.full(classes, parts[-1])])


def _test_noise(plan: Planned) -> float:
    return multiplier_of(plan, "test") * group_sensitivity(plan.unit)


def _precision(plan: Planned, name: str, part: float = 1.0) -> float:
    """One over the noise variance of a hop of which there is a ``part``, or of a pilot of whose blocks one is."""
    return part * (multiplier_of(plan, name) * routed_sensitivity(plan.unit)) ** -2


def _blocks(plan: Planned, pilot: NDArray[np.int64]) -> int:
    """How many types of edges a pilot tells apart: 1 where edges have none, and in a hop of another graph."""
    return pilot.shape[1] // plan.public.num_classes


def _mean_rows(
    plan: Planned, weights: Arrays, released: Arrays, hop_part: float = 1.0
) -> tuple[NDArray[np.float64], float]:
    """The mean of the hops, each weighed by its precision, every row with mean 0; and the standard deviation of its noise."""
    names = [name for name in sorted(released) if name.startswith("aggregate/")]
    blocks = _blocks(plan, released["aggregate/1"])
    parts = {"aggregate/1": 1 / blocks, "aggregate/2": hop_part}
    precisions = np.array([_precision(plan, name, parts[name]) for name in names])
    rows = {**released, **({"aggregate/1": joined(released["aggregate/1"], weights[WEIGHTS])} if blocks > 1 else {})}
    sums = sum(part * rows[name] for part, name in zip(precisions, names, strict=True)) / precisions.sum()
    return _centered(sums), float(1 / np.sqrt(precisions.sum()))


def _evidence(plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Iterator[NDArray[np.float64]]:
    """What the last stage weighs: nothing of rows if features won."""
    rows, noise = _mean_rows(plan, weights, released)
    if "aggregate/2" in released and not released["aggregate/2"].any():
        rows = np.zeros_like(rows)
    heard = np.asarray(rows.any(axis=1))  # every row that was released has noise, and no other
    return evidence(head_scores(weights, centered_rows(graph, weights)), rows, noise, heard)


def _centered(sums: NDArray[np.floating] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums in units of a full row, each row with mean 0."""
    rows: NDArray[np.float64] = sums / INT16_ONE
    return rows - rows.mean(axis=1, keepdims=True)
