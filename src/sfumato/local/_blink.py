"""Blink learns classes from public features and labels and private neighbor lists, and uses links only where they help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields, fail, one_of, real
from sfumato.errors import DataError, UnsupportedUnitError
from sfumato.local._collection import ANSWERED, topology
from sfumato.local._controls import BESIDE_LINKS, REPORTED
from sfumato.local._denoising import RULES, Denoised, beliefs, denoise
from sfumato.local._method import AskingMethod, coins
from sfumato.method.card import Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.noise.exact import round_up
from sfumato.privacy.calibration import pure_cost
from sfumato.privacy.events import PureEvent
from sfumato.privacy.units import LinkLevel, Unit
from sfumato.randomizers._links import LinkReports, NeighborLists
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.noise.coins import SecretWords

DEGREES, BITS = "degree-reports", "link-reports"
_CERTAIN = 0.999


@dataclass(frozen=True, eq=False)
class LinkFit:
    """A link fit holds log-probabilities float32 [n, C] of the learner that validation chose, and of all learners by name."""

    chosen: str
    scores: Mapping[str, NDArray[np.float32]]

    def predict(self) -> NDArray[np.int64]:
        """Return the most probable class of every user, int64 [n]."""
        return self.scores[self.chosen].argmax(axis=1)


@dataclass(frozen=True)
class Blink(AskingMethod):
    r"""Blink learns from links that users randomize: an MLP, block-model beliefs and a GCN compete on the validation labels.

    1. ``mlp``: features alone; needs no report.
    2. ``beliefs``: the MLP's probabilities updated by all claims (:func:`~sfumato.local._denoising.beliefs`).
    3. ``gcn``: two layers on the posterior link weights, whose prior within and between classes is guided by 2.

    Another learner replaces the MLP only if on the validation labels it is right more often by more than two standard errors:
    :math:`w - l > 2 \sqrt{w + l}`, where w counts the users that only the other has right, and l those that only the MLP has
    right. So it falls below what features alone give only where this comparison errs by chance.

    **Formal guarantee.** That of :class:`~sfumato.randomizers._links.NeighborLists`: epsilon-LDP of one bit of one list, and
    2 epsilon of a relationship that both ends report. Features, labels and roles are public. All but ``collect`` is
    post-processing. ``calibrate`` claims the exact sum over both reports, rounded upward, under
    :class:`~sfumato.privacy.units.LinkLevel`.

    Weights: the log-probabilities of the chosen learner, under its name, float32 [n, C], which are also the
    predictions.

    Args:
        epsilon: budget of one bit of one list.
        degree_share: share of epsilon for the degree.
        rule: which pairs the GCN sees, "expected" or "hard" (:func:`~sfumato.local._denoising.denoise`).
        width: hidden width of both networks.
        epochs: full-batch epochs; the one of least validation loss is kept.
        learning_rate: step size of Adam, in (0, 10].
        weight_decay: the weight decay of Adam.
        dropout: share of hidden units that are dropped in training.

    Raises:
        InputError: a setting is out of range.

    >>> Blink(epsilon=5.0).describe()
    'one bit of one neighbor list: epsilon 5; a relationship, which both ends report: epsilon 10'

    Source: Zhu, Tan and Xiao (2023), Blink; the beliefs and the choice are this package's.
    """

    epsilon: float = 4.0
    degree_share: float = 0.1
    rule: str = "expected"
    width: int = 16
    epochs: int = 300
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    dropout: float = 0.5
    card: ClassVar[Card] = Card(
        name="blink",
        summary="neighbor lists randomized by each user",
        options={"epsilon": "epsilon"},
        units=("link",),
        citations=("zhu2023blink",),
        audience=REPORTED,
        controls=BESIDE_LINKS,
    )

    def __post_init__(self) -> None:
        _ = self.lists
        check_fields(self, rule=one_of(*RULES), width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)
        check_fields(self, weight_decay=real(0), dropout=real(0, 1, below=True))

    @property
    def unit(self) -> Unit:
        """Return the unit: one bit of one neighbor list."""
        return LinkLevel()

    @property
    def shares(self) -> dict[str, Any]:
        """Return what a relationship costs, which both of its ends report."""
        return {"relationship_epsilon": self.lists.relationship_epsilon}

    @property
    def lists(self) -> NeighborLists:
        """Return the randomizer of neighbor lists that is in use."""
        return NeighborLists(self.epsilon, self.degree_share)

    def describe(self) -> str:
        """Describe both prices in words: that of one bit, and that of a relationship."""
        return self.lists.describe()

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float = 1.0) -> tuple[Release, ...]:
        """List what users send: a degree each, and packed bits each.

        ``unit`` must be :attr:`unit`, and ``public`` gives the number of nodes. ``epsilon`` sets the noise, so
        ``noise_multiplier`` is not read.

        Raises:
            UnsupportedUnitError: the unit is another.
            InputError: the graph is directed.
        """
        if unit != self.unit:
            raise UnsupportedUnitError(f"Method {self.name!r} has no proof under {unit}. Use {self.unit}.")
        if public.directed:
            raise fail("directed", True, "to be False: both ends of a link report it", "Declare the graph undirected.")
        n, lists = public.num_nodes, self.lists
        return (
            Release(DEGREES, PureEvent(float(lists.degree_epsilon)), (n,), 0),
            Release(BITS, PureEvent(lists.bits_epsilon), (n, -(-n // 8)), 0),
        )

    def _claim(self, releases: tuple[Release, ...]) -> tuple[float, float]:
        cost = pure_cost([release.event for release in releases])
        assert cost is not None
        return round_up(cost), 0.0

    def check(self, graph: Graph) -> None:
        """Refuse a graph that :meth:`fit` cannot learn from, before anyone is asked."""
        self._labeled(graph)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Ask every user, unless devices were asked already, then learn from what was received."""
        for release in plan.releases:
            session.charge(release.name)
        if session.reports is None:
            asked = self.collect(graph, coins(session))
            sent: Arrays = {DEGREES: asked.degrees, BITS: asked.bits}
        else:
            sent = dict(session.reports)
        reported = sent[ANSWERED] > 0 if ANSWERED in sent else None
        fit = self.fit(LinkReports(sent[DEGREES], sent[BITS]), graph, session.seed, reported)
        return Outcome({fit.chosen: fit.scores[fit.chosen]}, sent)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Return log-probabilities [n, C] of the learner that was chosen."""
        (found,) = weights.values()
        return np.asarray(found)

    def collect(self, graph: Graph, source: SecretWords) -> LinkReports:
        """Ask every user once: the only call that reads links.

        Args:
            graph: undirected, with the private links.
            source: secret randomness of the users.

        Raises:
            InputError: the graph is directed.
        """
        if graph.directed:
            raise fail("graph", graph.name, "to be undirected", "Both ends of a link report it; declare it undirected.")
        return self.lists.encode(topology(graph), source)

    def denoise(self, reports: LinkReports, groups: NDArray[np.integer] | None = None) -> Denoised:
        """List the links that the server believes in, given public guesses of classes (``groups``)."""
        return denoise(reports, self.lists, groups, self.rule)

    def fit(
        self, reports: LinkReports, graph: Graph, seed: int = 0, reported: NDArray[np.bool_] | None = None
    ) -> LinkFit:
        """Train from reports. Of ``graph`` this reads features, labels of training and validation, and roles, never its links.

        Args:
            reports: the reports as :meth:`collect` returned them.
            graph: public features, labels and roles.
            seed: public seed of the networks.
            reported: who sent a list, bool [n]; None if all did. Of the others nothing is known but their features: what
                users say of them is not used either, since there is no second claim to weigh it with.

        Raises:
            DataError: the graph has no features, or no labeled training or validation users.
        """
        train, validation = self._labeled(graph)
        task, truth = _Task(self, graph, train, validation, seed), np.asarray(graph.y)
        scores = {"mlp": task.learn("mlp", sp.csr_matrix((graph.num_nodes,) * 2, dtype=np.float32))}
        start = scores["mlp"].astype(np.float64)
        one_hot = np.eye(graph.num_classes)[truth[train]]
        start[train] = np.log(_CERTAIN * one_hot + (1 - _CERTAIN) / graph.num_classes)
        rows = np.arange(len(reports)) if reported is None else np.flatnonzero(reported)
        heard = reports.among(rows)
        start[rows] = beliefs(heard, self.lists, start[rows], train[rows])
        scores["beliefs"] = start.astype(np.float32)
        links = self.denoise(heard, scores["beliefs"].argmax(axis=1)[rows]).links.tocoo()
        links = sp.csr_matrix((links.data, (rows[links.row], rows[links.col])), shape=(len(reports),) * 2)
        scores["gcn"] = task.learn("gcn", links)
        right = {name: (rows.argmax(axis=1) == truth)[validation] for name, rows in scores.items()}
        return LinkFit(choose(right), scores)

    def _labeled(self, graph: Graph) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Who is labeled in training, and in validation."""
        if graph.x is None or graph.y is None:
            raise DataError(f"Expected graph {graph.name!r} to have public features and labels. Name their columns.")
        train, validation = graph.train_mask & (graph.y >= 0), graph.val_mask & (graph.y >= 0)
        if not train.any() or not validation.any():
            raise DataError(
                f"Expected graph {graph.name!r} to have labeled training and validation users. Check roles."
            )
        return train, validation


def choose(right: Mapping[str, NDArray[np.bool_]]) -> str:
    """Choose the learner from who is right on each validation user; the first is kept unless it is clearly beaten."""
    first = next(iter(right))
    best = max(right, key=lambda name: int(right[name].sum()))
    wins, losses = int((right[best] & ~right[first]).sum()), int((right[first] & ~right[best]).sum())
    return best if wins - losses > 2 * (wins + losses) ** 0.5 else first


@dataclass(frozen=True, eq=False)
class _Task:
    """One public classification task, to be learned on several graphs."""

    settings: Blink
    graph: Graph
    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    seed: int

    def learn(self, backbone: str, links: Any) -> NDArray[np.float32]:
        """Log-probabilities at the epoch of least validation loss."""
        import torch
        from torch.nn import functional

        from sfumato.nn._gnn import GNN
        from sfumato.nn._models import SparseRows
        from sfumato.nn._topology import Topology
        from sfumato.nn._training import Adam

        torch.manual_seed(self.seed)
        with_, graph, around = self.settings, self.graph, Topology(links)
        rows = SparseRows(sp.csr_matrix(graph.x, dtype=np.float32))
        model = GNN(
            backbone, graph.num_features, with_.width, graph.num_classes, dropout=with_.dropout, activation="relu"
        )
        optimizer = Adam(model.parameters(), with_.learning_rate, with_.weight_decay)
        train, validation = (torch.from_numpy(np.flatnonzero(mask)) for mask in (self.train, self.validation))
        targets = torch.from_numpy(np.maximum(np.asarray(graph.y), 0))
        least, kept = np.inf, np.empty(0, np.float32)
        for _ in range(with_.epochs):
            model.train()
            functional.cross_entropy(model(rows, around)[train], targets[train]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                scores = functional.log_softmax(model(rows, around), dim=1)
            loss = float(functional.nll_loss(scores[validation], targets[validation]))
            if loss < least:
                least, kept = loss, scores.numpy()
        return kept
