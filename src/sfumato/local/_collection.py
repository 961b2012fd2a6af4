"""A collection is what a server holds: the reports of every user, what they cost, and the public graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.graph._subgraph import adjacency
from sfumato.privacy.events import Event, GaussianEvent, PureEvent
from sfumato.randomizers._gaussian import Gaussian
from sfumato.randomizers._randomizer import Estimate, Randomizer, Reports
from sfumato.randomizers._values import Floats, to_csr
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.noise.coins import SecretWords
    from sfumato.randomizers._questions import Questions

FEATURES, LABELS = "feature-reports", "label-reports"
USERS, ANSWERED = "users", "answered"
"""Of a collection from devices: the public id of each user (-1 without a report), and which parts its report has (bits)."""


def asked_reports(asked: Questions, public: PublicFacts) -> tuple[Release, ...]:
    """List what users send, in order, each with the event that describes its randomization."""
    found: list[Release] = []
    features, labels = asked.features(public), asked.labels(public)
    if features is not None:
        width = features.layout.count * (2 if features.layout.of else 1)
        draws = public.num_features if features.delta else 0
        found.append(Release(FEATURES, _event(features), (public.num_nodes, width), draws))
    if labels is not None:
        found.append(Release(LABELS, PureEvent(labels.realized_epsilon), (public.num_nodes,), 0))
    return tuple(found)


def _event(randomizer: Randomizer) -> Event:
    if isinstance(randomizer, Gaussian):
        return GaussianEvent(randomizer.noise_multiplier)
    return PureEvent(randomizer.total_epsilon)


def packed(reports: Reports) -> NDArray[np.integer]:
    """Pack reports into one integer array [n, k]: indices first, then values."""
    if reports.indices is None:
        return reports.values
    return np.hstack((reports.indices.astype(np.int32), reports.values.astype(np.int32)))


def unpacked(array: NDArray[np.integer], randomizer: Randomizer) -> Reports:
    """Load the reports that :func:`packed` wrote."""
    m = randomizer.layout.count
    return Reports(array[:, m:], array[:, :m]) if randomizer.layout.of else Reports(array)


@dataclass(frozen=True, eq=False)
class Collection:
    """A collection is what the server holds: the public topology and roles, and the reports.

    All that follows is post-processing.

    ``adjacency`` is CSR float32 of ones, symmetric, without self-loops. ``features`` estimates the rows, with public
    standard deviations ``feature_noise`` [d] (zero in the clear), or is None where nothing was asked. ``labels`` int64 [n]
    is the output index of each report, -1 where there is none; ``transition`` [C, R] holds P(report | label).
    ``num_features`` is d, asked for or not.

    ``train_mask`` and ``val_mask`` bool [n] mark the users of these roles who reported a label.
    """

    adjacency: sp.csr_matrix
    features: Estimate | None
    feature_noise: Floats | None
    labels: NDArray[np.int64]
    train_mask: NDArray[np.bool_]
    val_mask: NDArray[np.bool_]
    transition: Floats
    num_features: int = 0

    @property
    def reports(self) -> tuple[sp.csr_matrix, NDArray[np.int64], NDArray[np.bool_], Floats]:
        """Return the label reports on the topology, as smoothing takes them."""
        return self.adjacency, self.labels, self.known, self.transition

    @property
    def known(self) -> NDArray[np.bool_]:
        """Tell whose label was reported, bool [n]."""
        return self.labels >= 0

    @property
    def num_classes(self) -> int:
        """Return C, the number of classes."""
        return len(self.transition)


def encode(asked: Questions, graph: Graph, public: PublicFacts, source: SecretWords) -> dict[str, NDArray[Any]]:
    """Ask every user once: the only function of this family that reads a graph's features and labels privately."""
    found: dict[str, NDArray[Any]] = {}
    features, labels = asked.features(public), asked.labels(public)
    if features is not None:
        found[FEATURES] = packed(features.encode(_rows(graph), source))
    if labels is not None:
        answers = np.full(graph.num_nodes, -1, np.int32)
        asked_of = _asked(graph)
        answers[asked_of] = labels.encode(_labels(graph)[asked_of], source).values[:, 0]
        found[LABELS] = answers
    return found


def received(asked: Questions, graph: Graph, public: PublicFacts, reports: dict[str, NDArray[Any]]) -> Collection:
    """Build what the server holds from the reports. Of ``graph`` it reads topology, roles and what is asked in the clear."""
    features, labels = asked.features(public), asked.labels(public)
    estimate, noise = None, None
    if features is not None:
        estimate = estimated(features, reports)
        noise = np.sqrt(features.variance())
    elif asked.epsilon_x is None:
        rows = to_csr(_rows(graph))
        estimate, noise = Estimate(rows, np.zeros(rows.shape[1])), np.zeros(rows.shape[1])
    if labels is None:
        answers, transition = np.where(_asked(graph), _labels(graph), -1), np.eye(public.num_classes)
    else:
        answers, transition = reports[LABELS].astype(np.int64), labels.transition
    reported = answers >= 0
    train, val = graph.train_mask & reported, graph.val_mask & reported
    return Collection(topology(graph), estimate, noise, answers, train, val, transition, public.num_features)


def estimated(features: Randomizer, reports: Mapping[str, NDArray[Any]]) -> Estimate:
    """Estimate the feature rows of all users from reports."""
    given = unpacked(reports[FEATURES], features)
    if USERS not in reports:
        return features.estimate(given)
    answered = (reports[ANSWERED] & 1).astype(bool)
    named = Reports(given.values, given.indices, reports[USERS])
    return features.estimate(named.take(np.flatnonzero(answered))).spread(answered, features.neutral)


def topology(graph: Graph) -> sp.csr_matrix:
    """Return the public graph as a symmetric 0/1 matrix without self-loops, float32 [n, n]."""
    arcs = adjacency(graph)
    either = arcs.maximum(arcs.T) if graph.directed else arcs
    return sp.csr_matrix(either - sp.diags(either.diagonal()), dtype=np.float32)


def _asked(graph: Graph) -> NDArray[np.bool_]:
    return (graph.train_mask | graph.val_mask) & (_labels(graph) >= 0)


def _labels(graph: Graph) -> NDArray[np.int64]:
    if graph.y is None:
        raise DataError(f"Expected graph {graph.name!r} to have labels, got none. Name a label column.")
    return graph.y


def _rows(graph: Graph) -> Any:
    if graph.x is None:
        raise DataError(f"Expected graph {graph.name!r} to have features, got none. Ask for none with epsilon_x=0.")
    return graph.x
