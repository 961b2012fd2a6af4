"""Two servers open noisy class counts of public cells, and nobody sees a single report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_real
from sfumato.errors import DataError, UnsupportedUnitError
from sfumato.local._cells import cells_of, kernels
from sfumato.local._collection import topology
from sfumato.local._drop import Z
from sfumato.local._method import AskingMethod
from sfumato.local._opened import smoothed
from sfumato.local._smoothed import Cache, for_last
from sfumato.method.card import CEILING, Audience, Card, Control
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.noise._geometric import replaced_scale, zero_sum_laplace
from sfumato.noise.coins import SecretWords
from sfumato.noise.exact import round_up
from sfumato.noise.keys import derive_key, operand_mac
from sfumato.privacy.calibration import pure_cost
from sfumato.privacy.events import PureEvent
from sfumato.privacy.units import ServersLevel, Unit
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts

COUNTS = "cell-counts"
SERVERS = ("first server", "second server")
_SIZE = 32.0  # users of a cell, times epsilon
_MOST_CELLS = 8000  # a matrix with a row for each is decomposed
LEAST_EPSILON = 1e-3
_CACHE: Cache = {}


@dataclass(frozen=True)
class SharedCounts(AskingMethod):
    r"""Shared counts: every user splits its label between two servers, which open noisy class counts of public cells alone.

    The topology and who is asked (training and validation users with a label) give a partition into cells of at most
    :math:`32 / \epsilon` users (:mod:`~sfumato.local._cells`). Each server adds up the shares of a cell and adds noise of its
    own, and only sums of both are read; :mod:`~sfumato.local._opened` smooths them to classes of all nodes. This run simulates
    users and servers: the sum of all shares is the exact count, so it is computed as such, and the noise of both is drawn.

    **Formal guarantee.** Every user is in one cell, and a replaced label moves two counts of it by 1: L1 sensitivity 2 of all
    opened counts together. Each server's noise is :math:`P(x) \propto e^{-\epsilon \|x\|_1 / 2}` on vectors that sum to zero
    (:func:`~sfumato.noise._geometric.zero_sum_laplace`): epsilon-DP, delta 0, toward everyone who reads the counts, and toward
    either server, which knows its own noise and not the other's. If both collude nothing is claimed.
    Proof and protocol: decision note 0048.

    Released: int64 [n, 1 + C], for each node its cell (-1 for those who are not asked) and the opened counts of that cell.
    Weights: ``probabilities`` float32 [n, C], which are the predictions.

    Args:
        epsilon_y: budget of a user's label.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = SharedCounts(epsilon_y=0.5)
    >>> method.calibrate(None, method.unit, facts).epsilon
    0.5
    """

    epsilon_y: float = 1.0
    card: ClassVar[Card] = Card(
        name="shared-counts",
        summary="labels split between two servers that do not collude, and open noisy counts of public cells",
        options={"epsilon_y": "epsilon_y"},
        units=("servers",),
        audience=Audience(("opened counts", "weights")),
        controls=(
            Control(
                "local",
                "control: reports that trust no server, same epsilon",
                "hybrid",
                {"epsilon_x": 0.0},
                keeps=("epsilon_y",),
            ),
            CEILING,
        ),
        notes=(
            "The size of cells and the calibration were set with test labels of npz/cora_ml, planetoid/cora and citeseer, "
            "lastfm_asia, facebook100/Simmons81, Reed98 and Caltech36, musae/wiki_chameleon and twitch_ENGB, directed/polblogs "
            "and email-Eu-core in view, on seeds 100 to 105. So on these data sets this certificate is a demonstration.",
        ),
    )

    def __post_init__(self) -> None:
        check_real("1 is a common choice.", low=LEAST_EPSILON, high=100, epsilon_y=self.epsilon_y)

    @property
    def unit(self) -> Unit:
        """Return the unit: one user's label, which no single server sees."""
        return ServersLevel()

    @property
    def size(self) -> int:
        """Return the most users in a cell."""
        return max(1, round(_SIZE / self.epsilon_y))

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float = 1.0) -> tuple[Release, ...]:
        """List what is opened: for every node the counts of its cell. ``epsilon_y`` sets the noise, no multiplier is read.

        Raises:
            UnsupportedUnitError: the unit is another.
        """
        if unit != self.unit:
            raise UnsupportedUnitError(f"Method {self.name!r} has no proof under {unit}. Use {self.unit}.")
        return (Release(COUNTS, PureEvent(float(self.epsilon_y)), (public.num_nodes, 1 + public.num_classes), 0),)

    def _claim(self, releases: tuple[Release, ...]) -> tuple[float, float]:
        cost = pure_cost([release.event for release in releases])
        assert cost is not None
        return round_up(cost), 0.0

    def check(self, graph: Graph) -> None:
        """Refuse a graph in which too few users have a label to report, before anyone is asked."""
        if graph.y is None or int(_asked(graph).sum()) < 2:
            raise DataError(
                "Expected at least 2 users with a label in the training and validation roles, got fewer. Split 50/25/25, or name "
                "roles that leave some."
            )
        users, (_, component) = _asked(graph), sp.csgraph.connected_components(topology(graph), directed=False)
        together = np.bincount(component[users]) > 1  # who is alone shares a cell
        self._check_number(int(users.sum()) // self.size + int(together.sum()))

    def check_counts(self, opened: NDArray[np.integer]) -> None:
        """Refuse more cells than can be smoothed; ``opened`` is what :meth:`opened` returns."""
        self._check_number(len(np.unique(opened[opened[:, 1:].sum(axis=1) > 0, 0])))

    def _check_number(self, count: int) -> None:
        if count > _MOST_CELLS:
            raise DataError(
                f"Expected at most about {_MOST_CELLS:,} cells, got {count:,}, for an epsilon at which a cell should have "
                f"{self.size} users: smoothing them would not fit into memory. Choose a smaller epsilon with larger cells, or "
                "take lpgnn."
            )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Split every label, open the counts of both servers unless they were opened already, and smooth them."""
        for release in plan.releases:
            session.charge(release.name)
        found: Arrays = {} if session.reports is None else dict(session.reports)
        if COUNTS not in found:
            found[COUNTS] = self.opened(graph, plan.public.num_classes, session.key)
        return Outcome({"probabilities": self.learned(graph, found[COUNTS])}, found)

    def opened(self, graph: Graph, num_classes: int, key: bytes, servers: int = 2) -> NDArray[np.int64]:
        """Return what both servers open: the only call that reads labels. Shape [n, 1 + C].

        Args:
            graph: public topology and roles, and the labels of those who are asked.
            num_classes: C, which is public.
            key: secret; either server's noise has a key of its own, which also reads what is counted, so that a key serves once.
            servers: how many add noise: 2, or 1 for a curator who is trusted, in comparisons.
        """
        asked = _asked(graph)
        cells = cells_of(topology(graph), asked, self.size)
        counts = np.zeros((1 + int(cells.max()), num_classes), np.int64)
        assert graph.y is not None
        np.add.at(counts, (cells[asked], graph.y[asked]), 1)
        for server in SERVERS[:servers]:
            own = SecretWords(derive_key(derive_key(key, server), operand_mac(key, counts)))
            counts = counts + zero_sum_laplace(own, replaced_scale(self.epsilon_y), *counts.shape)
        rows = np.where(asked[:, None], counts[cells], 0)
        return np.concatenate((cells[:, None], rows), axis=1)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Return the logarithms of the stored probabilities, float32 [n, C]."""
        return np.log(np.maximum(weights["probabilities"], np.float32(1e-12)))

    def learned(self, graph: Graph, opened: NDArray[np.integer], servers: int = 2) -> NDArray[np.float32]:
        """Smooth what was opened to class probabilities of all nodes, float32 [n, C]: of ``graph`` this reads the topology.

        ``opened`` is what :meth:`opened` returned with so many ``servers``.
        """
        cells, counts = opened[:, 0], _of_cells(opened)
        variance = servers * zero_sum_variance(float(replaced_scale(self.epsilon_y)), counts.shape[1])
        found = for_last(_CACHE, sp.csr_matrix(topology(graph)), kernels)
        return smoothed(found, cells, counts, variance).astype(np.float32)

    def validation(self, graph: Graph, opened: NDArray[np.integer]) -> tuple[float, float, float]:
        r"""Estimate how well users are predicted from the cells of others, without bias from noise, and its 95 % interval.

        A third of the cells is held out at a time (every third number). In a cell of n users of whom :math:`m_c` are predicted as
        c, let :math:`Z_c` be the counts; the estimate is :math:`\sum m_c Z_c / n` over all cells, divided by all who were
        counted: how often the class of one who was counted is that predicted for a random user of the cell. That is the
        accuracy at those who were counted, if predictions within a cell are alike, or agree with classes by chance there. It
        may lie outside [0, 1].

        The interval is of the noise of both servers alone. Each third is predicted from the others, so errors of thirds are
        correlated: their standard deviations are added up, which bounds that of the sum.
        """
        counts, cells = _of_cells(opened), opened[:, 0]
        num_classes, total = counts.shape[1], counts.sum()
        free = (
            2 * zero_sum_variance(float(replaced_scale(self.epsilon_y)), num_classes) * num_classes / (num_classes - 1)
        )
        mean = half = 0.0
        for third in range(3):
            held = np.flatnonzero((cells >= 0) & (cells % 3 == third) & (opened[:, 1:].sum(axis=1) > 0))
            rest, votes = opened.copy(), np.zeros_like(counts)
            rest[held, 1:] = 0  # as if nobody had answered there
            np.add.at(votes, (cells[held], self.learned(graph, rest)[held].argmax(axis=1)), 1)
            inside = np.unique(cells[held])
            votes = votes[inside] / votes[inside].sum(axis=1, keepdims=True)
            mean += float((votes * counts[inside]).sum() / total)
            half += Z / total * math.sqrt(free * max(0.0, float((votes**2).sum() - len(inside) / num_classes)))
        return mean, min(max(mean - half, 0.0), 1.0), min(max(mean + half, 0.0), 1.0)


def _of_cells(opened: NDArray[np.integer]) -> NDArray[np.float64]:
    """The counts of each cell, [m, C]."""
    cells = opened[:, 0]
    counts = np.zeros((1 + int(cells.max()), opened.shape[1] - 1))
    counts[cells[cells >= 0]] = opened[cells >= 0, 1:]
    return counts


def zero_sum_variance(scale: float, columns: int) -> float:
    r"""Compute the variance of one entry of :func:`~sfumato.noise._geometric.zero_sum_laplace`.

    With the characteristic function :math:`\phi` of one discrete Laplace draw it is
    :math:`-\int \phi'' \phi^{C-1} / \int \phi^C` over a period; sums over an even grid converge exponentially.

    >>> round(zero_sum_variance(4.0, 2), 3), round(zero_sum_variance(4.0, 7), 2)
    (7.835, 22.11)
    """
    p = np.exp(-1 / scale)
    count = 1 << math.ceil(math.log2(64 * scale * math.sqrt(columns) + 64))
    angle = 2 * np.pi * np.arange(count) / count
    one = 1 / (1 - 2 * p * np.cos(angle) + p * p)
    bent = 2 * p * np.cos(angle) * one**2 - 8 * p * p * np.sin(angle) ** 2 * one**3
    rest = (one * (1 - p) ** 2) ** (columns - 1)
    return float((bent * rest).sum() / (one * rest).sum())


def _asked(graph: Graph) -> NDArray[np.bool_]:
    """Who is asked: users in the training and validation roles who have a label to report, which is public."""
    if graph.y is None:
        raise DataError(f"Expected graph {graph.name!r} to have labels, got none. Name a label column.")
    return (graph.train_mask | graph.val_mask) & (graph.y >= 0)
