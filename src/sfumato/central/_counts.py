r"""Counts of neighbors by class, released once: first the labels of known nodes, then what the others are thought to be.

Features and labels are public here, and a record is one edge. Every edge is read once:

1. *Known nodes* (labeled training nodes) send the one-hot row of their label to all others and, among undirected edges, to the
   known nodes that come later in a public order: :math:`S = A_1^\top Y + N_1`.
2. *The others* send class probabilities, computed from S, among each other: :math:`T = A_2^\top P(S) + N_2`.

A head reads :math:`S + w T` for a weight w that validation labels choose (:data:`WEIGHTS`; 0 leaves T out).

**Formal guarantee.** :math:`A_1` and :math:`A_2` are disjoint sets of edges by public facts
(:func:`~sfumato.bounded._counting.from_senders`), so S and T together are one release of L1 sensitivity 1 with discrete
Laplace noise of scale b: pure :math:`\epsilon = 1 / b`. It is charged as one, of shape [num_nodes, 2 num_classes]. With Gaussian
noise (:func:`~sfumato.bounded._counting.gaussian_counts`) it is one Gaussian event, of which an edge touches one row of one part.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import ROWS_AT_ONCE, in_blocks, let_go, spans
from sfumato.bounded._counting import count_sensitivity, from_senders, gaussian_counts, noisy_counts
from sfumato.bounded._routing import routed_coordinates
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.hops import side_by_side
from sfumato.noise.keys import derive_key, new_key
from sfumato.privacy._pure_gdp import less_noise, pure_epsilon
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, PureEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.bounded.aggregation import Arcs
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

NAME = "aggregate/1"
Kinds: TypeAlias = "dict[str, Arcs]"
"""The arcs of each type of edges, by its name."""
Noise = float | NDArray[np.float64]
"""A standard deviation of all rows, or one of each, [num_nodes, 1]."""
WEIGHTS = (0.25, 0.0, 0.125, 0.5, 1.0)
"""Candidates for w; the first is taken where there are no validation labels."""
_WEIGHT, _SHARES = "later.weight", "class.shares"


def counts_release(
    unit: Unit, public: PublicFacts, hops: int, noise_multiplier: float, gaussian: bool = False
) -> Release:
    """Describe the one release: S and, if there are two ``hops``, T beside it, each for every protected type of edges.

    Of Laplace noise, the usual, the noise multiplier is 1 / epsilon; of Gaussian noise it is the deviation over the sensitivity.
    """
    count_sensitivity(unit)
    nodes, classes = public.num_nodes, public.num_classes
    shape = (nodes, hops * max(len(protected_types(public)), 1) * classes)
    if gaussian:
        return Release(NAME, GaussianEvent(noise_multiplier), shape, routed_coordinates(unit, nodes, classes))
    return Release(NAME, PureEvent(1 / noise_multiplier), shape, 0)


def protected_types(public: PublicFacts) -> tuple[str, ...]:
    """Return the types of edges that are records, in their order; none where edges have no types."""
    return tuple(name for name in public.edge_types or () if name not in (public.public_types or ()))


def least_noise(budget: Budget) -> tuple[str, Budget]:
    """Return which noise leaves counts closest to the truth at the mu of a budget, and what of it that takes.

    For ledgers that add up squares of mu. Gaussian noise takes all of it; Laplace noise (at most an epsilon whose pure event has
    the same mu) wins if there is no delta, or at an epsilon in the tens.

    >>> from sfumato.privacy.budget import Budget
    >>> least_noise(Budget(1.0, 1e-6))[0], least_noise(Budget(1.0, 0.0))[0]
    ('gaussian', 'laplace')
    """
    if not budget.delta:
        return "laplace", budget
    mu = 1 / gaussian_noise_multiplier(budget.epsilon, budget.delta)
    law, _ = less_noise(mu)
    pure = min(budget.epsilon, pure_epsilon(mu))
    return law, budget if law == "gaussian" else replace(budget, epsilon=pure)


class Counter:
    """The two parts of one release over fixed arcs; it is charged when the counter is made. ``known`` nodes send in the first.

    Of a graph whose edges have types, ``arcs`` are those of each protected type, by its name: a part then holds the counts of
    every type side by side (:func:`~sfumato.bounded._incoming.incoming_of`).
    """

    def __init__(self, plan: Planned, session: Session, arcs: Arcs | Kinds, known: NDArray[np.bool_]) -> None:
        self._private, self._session, self._key = plan.unit.private, session, new_key()
        self._gaussian = plan.unit.private and isinstance(plan.event(NAME), GaussianEvent)
        self._noise = count_deviation(plan) if self._gaussian else laplace_scale(plan)
        kinds: Kinds = {"": arcs} if not isinstance(arcs, dict) else arcs
        self._parts = {
            name: {kind: from_senders(one, sends) for kind, one in kinds.items()}
            for name, sends in (("known", known), ("others", ~known))
        }
        if plan.unit.private:
            self._key = session.charge(NAME)

    def of_known(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return S, int64 [num_nodes, num_classes], for ``rows`` that were fixed before."""
        return self._part("known", NAME, rows)

    def of_others(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return T, int64 [num_nodes, num_classes]. ``rows`` may be computed from S."""
        return self._part("others", f"{NAME}/others", rows)

    def _part(self, name: str, bound: str, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        kinds = self._parts.pop(name)  # a part is released once
        if self._private:
            for kind, arcs in kinds.items():
                self._session.bind(f"{bound}/{kind}" if kind else bound, rows, *arcs.arrays)
        found = []
        for kind in list(kinds):
            key = derive_key(self._key, name, *((kind,) if kind else ()))  # each type has noise of its own
            arcs = kinds.pop(kind)
            if self._gaussian:
                found.append(gaussian_counts(arcs, rows, float(self._noise), key))
            else:
                found.append(noisy_counts(arcs, rows, self._noise, key))
        return found[0] if len(found) == 1 else side_by_side(*found)


def one_hot(graph: Graph, num_classes: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the rows that known nodes send, zero for all others, and which nodes these are: labeled training nodes."""
    known = np.zeros(graph.num_nodes, np.bool_) if graph.y is None else graph.train_mask & (graph.y >= 0)
    y = np.zeros(graph.num_nodes, np.int64) if graph.y is None else graph.y

    def block(first: int, last: int) -> NDArray[np.float32]:
        rows = np.zeros((last - first, num_classes), np.float32)
        there = np.flatnonzero(known[first:last])
        rows[there, y[first:last][there]] = 1
        return rows

    return in_blocks(block, graph.num_nodes), known


def count_inputs(
    plan: Planned,
    counts: NDArray[np.int64],
    own: NDArray[np.float32],
    weight: float,
    shares: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    r"""Return what the head reads of each node's row and of its class probabilities without messages, ``own``.

    With :math:`M = S + w T`, its row sums m, the shares :math:`\pi` of the classes and the noise's standard deviation
    :math:`\sigma` of an entry of M, these are the surplus over the shares, :math:`R = M - m \pi`, in units of the noise of S; its
    direction, shrunk by noise; the logarithm of the rate of each class over its share, which :math:`a = 2 + 2 \sigma^2` messages
    in proportion to the shares smooth; the root of m; and the logarithms of ``own``. Around the shares, and not around equal
    counts, a class of few nodes is seen: one of its messages is more than is expected.

    The result is [num_nodes, 4 num_classes + 1], or [num_nodes, 3 num_classes] without shares. ``counts`` are S, or S and T.
    """
    classes, noise = own.shape[1], count_deviation(plan)
    messages = counts[:, :classes] / INT16_ONE
    if counts.shape[1] > classes:
        messages += weight * (counts[:, classes:] / INT16_ONE)
    return message_inputs(messages, own, noise or 1.0, noise * np.sqrt(1 + weight**2), shares)


def message_inputs(
    messages: NDArray[np.float64],
    own: NDArray[np.float32],
    step: float,
    stddev: Noise,
    shares: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """Return what :func:`count_inputs` says of noisy counts M, [num_nodes, num_classes], and of probabilities ``own``.

    Surpluses are told in units of ``step``; ``stddev`` is that of the noise.
    """
    return np.hstack([*message_parts(messages, step, stddev, shares), np.log(own)]).astype(np.float32)


def message_parts(
    messages: NDArray[np.float64], step: float, stddev: Noise, shares: NDArray[np.float32] | None
) -> list[NDArray[np.float64]]:
    """Return what :func:`message_inputs` says of counts alone: surplus, direction and, with shares, rates and their root."""
    total, classes = messages.sum(axis=1, keepdims=True), messages.shape[1]
    center = np.full(classes, 1 / classes) if shares is None else shares.astype(np.float64)
    surplus = messages - total * center
    parts = [surplus / step, directions(surplus, stddev)]
    if shares is not None:
        prior, there = smoothing(stddev), np.maximum(total, 0)
        rates = (np.maximum(messages, 0) + prior * center) / (there + prior)
        parts += [np.log(rates / center), np.sqrt(there)]
    return parts


def smoothing(noise_stddev: Noise) -> Noise:
    """Return a, the number of messages in proportion to the shares that smooth a rate; more where noise is larger."""
    return 2.0 + 2.0 * noise_stddev**2


def class_shares(rows: NDArray[np.float32], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the share of each class among the known nodes, each class counted once more, so that none is 0."""
    counts = np.zeros(rows.shape[1])
    for first, last in spans(len(rows), ROWS_AT_ONCE):
        counts += rows[first:last][known[first:last]].sum(axis=0, dtype=np.float64)
        let_go(rows)
    return (((counts + 1).astype(np.float32)) / (np.count_nonzero(known) + rows.shape[1])).astype(np.float32)


def directions(sums: NDArray[np.float64], noise_stddev: Noise) -> NDArray[np.float64]:
    """Return rows of mean 0 divided by their length, which counts the noise twice so that faint rows stay short."""
    length = np.sqrt(np.square(sums).sum(axis=1, keepdims=True) + (sums.shape[1] - 1) * noise_stddev**2)
    return np.divide(sums, length, out=np.zeros_like(sums), where=length > 0)


def best_weight(found: dict[float, NDArray[np.float32]], labels: NDArray[np.int64]) -> float:
    """Return the weight whose probabilities have the smallest cross-entropy, or the first if there are no labels."""
    rows = np.arange(len(labels))
    return min(found, key=lambda weight: float(-np.log(np.maximum(found[weight][rows, labels], 1e-9)).sum()))


def reading_arrays(shares: NDArray[np.float32], weight: float | None = None) -> Arrays:
    """Return what the head's inputs depend on, as it is stored among the weights of the model."""
    return {_SHARES: shares} | ({} if weight is None else {_WEIGHT: np.array([weight], np.float32)})


def stored_weight(weights: Arrays) -> float:
    """Return the weight that a model holds; 0 if it has none, as where the head reads labels alone."""
    return float(weights[_WEIGHT][0]) if _WEIGHT in weights else 0.0


def stored_shares(weights: Arrays) -> NDArray[np.float32] | None:
    """Return the shares of the classes that a model holds; None in runs that were saved without them."""
    return weights.get(_SHARES)


def count_deviation(plan: Planned) -> float:
    """Return the standard deviation of the noise of one entry of counts, in units of a full row; 0 without privacy."""
    event = plan.event(NAME) if plan.unit.private else None
    if isinstance(event, GaussianEvent):
        return math.nextafter(event.noise_multiplier * count_sensitivity(plan.unit), math.inf)
    return float(laplace_scale(plan)) * math.sqrt(2)


def laplace_scale(
    plan: Planned, name: str = NAME, sensitivity: Callable[[Unit], float] = count_sensitivity
) -> Fraction:
    """Return the scale b of the noise of one entry of a pure release, in units of a full row; 0 without privacy."""
    if not plan.unit.private:
        return Fraction(0)
    return Fraction(sensitivity(plan.unit)) / Fraction(plan.event_of(PureEvent, name).epsilon)
