"""A collection says what is asked of every user, what the server then holds, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.errors import DataError
from sfumato.graph.subgraph import adjacency
from sfumato.noise.coins import SecretWords
from sfumato.privacy.events import Event, GaussianEvent, PureEvent
from sfumato.randomizers.collision import Collision
from sfumato.randomizers.direction import Direction
from sfumato.randomizers.gaussian import Gaussian
from sfumato.randomizers.laplace import Laplace
from sfumato.randomizers.multibit import MultiBit, OneBit
from sfumato.randomizers.pgc import PGC
from sfumato.randomizers.piecewise import Piecewise
from sfumato.randomizers.randomized_response import RandomizedResponse
from sfumato.randomizers.randomizer import Estimate, Randomizer, Reports
from sfumato.randomizers.subset import SubsetSelection
from sfumato.randomizers.values import Floats, to_csr
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph, PublicFacts

MECHANISMS = ("multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "pgc", "collision", "direction")
LABEL_MECHANISMS = ("subset", "randomized-response")
FEATURES, LABELS = "feature-reports", "label-reports"


@dataclass(frozen=True)
class Questions:
    r"""What a collection asks, all of it public: how each user randomizes features and label.

    Args:
        epsilon_x: budget of a user's features; 0 asks for none, None reads them in the clear (no privacy).
        epsilon_y: budget of the label of a user in the training or validation role; None reads it in the clear.
        mechanism: randomizer of the features, one of ``MECHANISMS``; for "pgc", "piecewise" and "laplace" see ``per_feature``.
        label_mechanism: "subset" (subset selection, the better one below about epsilon 2) or "randomized-response". Both tell
            little about one of more than about 30 classes: local hashing would tell more, and no method asks by it yet.
        paper_rule: number m of multi-bit as printed, floor(epsilon / 2.18), in place of the best.
        per_feature: spend ``epsilon_x`` on *every* feature (the convention of PGC's paper): d times as much a user.
        low: public lower end of every feature; values outside are clipped on the device.
        high: public upper end.
        cap: public number of non-zero features above which a device drops some ("collision", "direction").
        delta: failure probability, for "gaussian" alone.

    **Formal guarantee.** A user's reports are :math:`(\epsilon, \delta)`-indistinguishable for any two values of the
    features and label, with epsilon the sum over both: see ``reports``.

    Raises:
        InputError: a setting is out of range.
    """

    epsilon_x: float | None = 1.0
    epsilon_y: float | None = 1.0
    mechanism: str = "multi-bit"
    label_mechanism: str = "subset"
    paper_rule: bool = False
    per_feature: bool = False
    low: float = 0.0
    high: float = 1.0
    cap: int = 32
    delta: float = 1e-10

    def __post_init__(self) -> None:
        for name in ("epsilon_x", "epsilon_y"):
            value = getattr(self, name)
            if value is not None:
                least = name == "epsilon_y"
                check_real("For values in the clear use None.", low=0, open_low=least, high=1e4, **{name: value})
        check_choice(MECHANISMS, mechanism=self.mechanism)
        check_choice(LABEL_MECHANISMS, label_mechanism=self.label_mechanism)
        check_real(low=-1e6, high=1e6, low_end=self.low)
        check_real(high_end=self.high)
        check_real(low=0, high=1, open_low=True, open_high=True, delta=self.delta)
        if not self.high > self.low:
            raise fail("high", self.high, f"to be above low = {self.low}", "Name the public range of the features.")
        check_int(low=1, cap=self.cap)
        if self.per_feature and self.mechanism not in ("pgc", "piecewise", "laplace"):
            raise fail("per_feature", True, "with pgc, piecewise or laplace", f"Drop it for {self.mechanism}.")
        if self.mechanism == "pgc" and not self.per_feature:
            raise fail("mechanism", "pgc", "with per_feature=True, its only form", "Its total is d times epsilon_x.")

    def features(self, public: PublicFacts) -> Randomizer | None:
        """Return the randomizer of feature rows; None where nothing is randomized."""
        return _features(self, public.num_features) if self.epsilon_x else None

    def labels(self, public: PublicFacts) -> Any:
        """Return the randomizer of labels; None where they are read in the clear."""
        if self.epsilon_y is None:
            return None
        kind = SubsetSelection if self.label_mechanism == "subset" else RandomizedResponse
        return kind(public.num_classes, self.epsilon_y)

    def reports(self, public: PublicFacts) -> tuple[Release, ...]:
        """List what users send, in order, each with the event that describes its randomization."""
        found: list[Release] = []
        features, labels = self.features(public), self.labels(public)
        if features is not None:
            width = report_width(features, public.num_features)
            draws = public.num_features if features.delta else 0
            found.append(Release(FEATURES, _event(features), (public.num_nodes, width), draws))
        if labels is not None:
            found.append(Release(LABELS, PureEvent(labels.realized_epsilon), (public.num_nodes,), 0))
        return tuple(found)


@lru_cache(maxsize=8)
def _features(asked: Questions, d: int) -> Randomizer:
    epsilon, range_ = float(asked.epsilon_x or 0.0), (asked.low, asked.high)
    match asked.mechanism:
        case "multi-bit":
            return MultiBit(d, epsilon, *range_, rule="paper" if asked.paper_rule else "best")
        case "one-bit":
            return OneBit(d, epsilon, *range_)
        case "collision":
            return Collision(d, epsilon, min(asked.cap, d))
        case "direction":
            return Direction(d, epsilon, norm=math.sqrt(min(asked.cap, d)) * max(abs(asked.low), abs(asked.high)))
        case "gaussian":
            return Gaussian(d, epsilon, *range_, delta=asked.delta)
        case "pgc":
            return PGC(d, epsilon, *range_)
        case "laplace":
            return Laplace(d, epsilon * (d if asked.per_feature else 1), *range_)
        case _:
            if asked.per_feature:
                return Piecewise(d, epsilon * d, *range_, sampled=d)
            return Piecewise(d, epsilon, *range_)


def _event(randomizer: Randomizer) -> Event:
    if isinstance(randomizer, Gaussian):
        return GaussianEvent(randomizer.noise_multiplier)
    return PureEvent(randomizer.total_epsilon)


def report_width(randomizer: Randomizer, num_features: int) -> int:
    """Count the integers in one report."""
    return len(randomizer.encode(np.zeros((1, num_features)), SecretWords(bytes(32))).key(0))


def packed(reports: Reports) -> NDArray[np.integer]:
    """Pack reports into one integer array [n, k]: indices first, then values."""
    if reports.indices is None:
        return reports.values
    return np.hstack((reports.indices.astype(np.int32), reports.values.astype(np.int32)))


def unpacked(array: NDArray[np.integer], randomizer: Randomizer) -> Reports:
    """Load the reports that :func:`packed` wrote."""
    m = getattr(randomizer, "m", None)
    if m is None or array.shape[1] != 2 * m:
        return Reports(array)
    return Reports(array[:, m:], array[:, :m])


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
    def known(self) -> NDArray[np.bool_]:
        """Tell whose label was reported, bool [n]."""
        return self.labels >= 0

    @property
    def num_classes(self) -> int:
        """Return C, the number of classes."""
        return len(self.transition)


def encode(asked: Questions, graph: Graph, public: PublicFacts, source: SecretWords) -> dict[str, NDArray[Any]]:
    """Ask every user once: the only function of this family that reads a graph's features and labels privately.

    Args:
        asked: how each user randomizes.
        graph: the private values.
        public: facts of the graph, from which the randomizers are built.
        source: secret randomness of the users.

    Raises:
        DataError: the graph lacks features or labels that are asked for.

    Returns:
        Integer reports by release name; what is read in the clear is not among them.
    """
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
    """Build what the server holds from the reports. Of ``graph`` it reads topology, roles and what is asked in the clear.

    Args:
        asked: how each user randomized.
        graph: public topology and roles.
        public: facts of the graph, from which the randomizers are built.
        reports: the reports as :func:`encode` returned them.

    Raises:
        DataError: the graph lacks features or labels that are asked in the clear.
    """
    features, labels = asked.features(public), asked.labels(public)
    estimate, noise = None, None
    if features is not None:
        estimate = features.estimate(unpacked(reports[FEATURES], features))
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
