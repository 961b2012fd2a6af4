"""Link prediction finds, from feature reports, which edges of a public graph are missing, by a variational auto-encoder.

Every user reports its features once. A network over the reports and the public edges gives each node a code, and a pair of
nodes the inner product of their codes as its score. Reports and codes are released: scoring pairs reads nothing else.

Source: Sajadmanesh and Gatica-Perez (2020), When Differential Privacy Meets Graph Neural Networks, table 2.3 of the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields, check_int, fail, real, setting
from sfumato.graph._arcs import count_loops, linked
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.local import _collection as collection
from sfumato.local._collection import encode, estimated
from sfumato.local._heat import normalized_adjacency
from sfumato.local._method import ReportingMethod
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn._metrics import auc, average_precision
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._questions import NOT_ASKED
from sfumato.randomizers._values import to_csr

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.method._plan import Plan
    from sfumato.method._suggesting import Scorer
    from sfumato.nn._models import SparseRows
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

Pairs = NDArray[np.int64]
_VALIDATION, _TEST = 0.05, 0.10
_FEWEST_EDGES = 20
CODES = "codes"
_CODES_SEEN = "codes of nodes (if every link may be known)"
EACH = ("pgc", "piecewise", "laplace")
"""Mechanisms that take a budget for every feature, as published; the others take one for all features of a user."""
LIMITS = (
    "Links are not protected: the server knows them all, and codes and scores were made to tell them. Show the release only to "
    "those who may know every link.",
    "No label is read, so none is randomized: there is no epsilon_y. Nothing is claimed about labels.",
)
"""What certificates say of links and labels."""


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """Edges in three parts, and test pairs without an edge: each [2, m], the smaller id first."""

    num_nodes: int
    train: Pairs
    validation: Pairs
    test: Pairs
    test_non_edges: Pairs

    @property
    def training_graph(self) -> sp.csr_matrix:
        """The training edges alone as a symmetric matrix."""
        ones = np.ones(self.train.shape[1], np.float32)
        half = sp.csr_matrix((ones, tuple(self.train)), shape=(self.num_nodes, self.num_nodes))
        return sp.csr_matrix(half + half.T)


def split_edges(graph: Graph, seed: int = 0, test_share: float = _TEST) -> EdgeSplit:
    """Split the edges 85/5/10 at random; loops and the direction of arcs do not count.

    >>> from sfumato.graph._synthetic import stochastic_block_model
    >>> split = split_edges(stochastic_block_model(100, 2, mean_degree=4))
    >>> split.train.shape[1] > 8 * split.test.shape[1], split.test.shape == split.test_non_edges.shape
    (True, True)
    """
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    edges = sp.triu(collection.topology(graph), k=1).tocoo()
    if edges.nnz < _FEWEST_EDGES:
        raise fail("graph", edges.nnz, f"to have at least {_FEWEST_EDGES} edges to split", "Bring a larger graph.")
    pairs = np.stack((edges.row, edges.col)).astype(np.int64)[:, generator.permutation(edges.nnz)]
    validation, test = round(_VALIDATION * edges.nnz), round(test_share * edges.nnz)
    parts = np.split(pairs, [validation, validation + test], axis=1)
    absent = non_edges(generator, graph.num_nodes, pairs, test)
    return EdgeSplit(graph.num_nodes, parts[2], parts[0], parts[1], absent)


def non_edges(
    generator: np.random.Generator,
    num_nodes: int,
    edges: Pairs,
    count: int,
    second: NDArray[np.bool_] | None = None,
) -> Pairs:
    """Draw pairs of two nodes that are not ``edges``, [2, count], the smaller node first.

    With ``second``, which marks the nodes of the second side, each pair joins both sides.

    >>> non_edges(np.random.default_rng(0), 3, np.array([[0, 0], [1, 2]]), 2).tolist()
    [[1, 1], [2, 2]]
    """
    taken = np.sort(edges[0] * num_nodes + edges[1])

    def there(pairs: Pairs) -> NDArray[np.bool_]:
        keys = pairs[0] * num_nodes + pairs[1]
        return np.asarray(taken[np.minimum(np.searchsorted(taken, keys), taken.size - 1)] == keys)

    return _apart(generator, num_nodes, (taken.size, there), count, second)


def absent_pairs(
    generator: np.random.Generator, graph: Graph, count: int, second: NDArray[np.bool_] | None = None
) -> Pairs:
    """Return :func:`non_edges` of an undirected graph, by searches in its rows: nothing is as long as the list of edges.

    >>> from sfumato.graph._graph import Graph
    >>> absent_pairs(np.random.default_rng(0), Graph.from_edges([0, 0], [1, 2], 3, directed=False), 2).tolist()
    [[1, 1], [2, 2]]
    """
    edges = (graph.num_arcs - count_loops(graph.indptr, graph.indices)) // 2
    return _apart(
        generator, graph.num_nodes, (edges, lambda pairs: linked(graph.indptr, graph.indices, pairs)), count, second
    )


def _apart(
    generator: np.random.Generator,
    num_nodes: int,
    edges: tuple[int, Callable[[Pairs], NDArray[np.bool_]]],
    count: int,
    second: NDArray[np.bool_] | None,
) -> Pairs:
    """Pairs that are none of so many edges, of which a function tells whether a pair is one."""
    taken, there = edges
    most = num_nodes * (num_nodes - 1) // 2 if second is None else int(second.sum()) * int((~second).sum())
    if taken >= most:
        raise fail("graph", f"{taken} edges", "to leave some pair of nodes without an edge", "It is complete.")
    found = np.empty((2, 0), np.int64)
    while found.shape[1] < count:
        pairs = generator.integers(num_nodes, size=(2, 2 * count))
        apart = pairs[0] != pairs[1] if second is None else second[pairs[0]] != second[pairs[1]]
        pairs = np.sort(pairs[:, apart], axis=0)
        found = np.hstack((found, pairs[:, ~there(pairs)]))
    return found[:, :count]


@dataclass(frozen=True)
class LinkPrediction(ReportingMethod):
    r"""Link prediction trains a variational graph auto-encoder on reports of features and on public edges.

    95 % of the edges are the training graph, the only arcs that any convolution sees. The others decide when to stop. A user's
    code is a row of 16 numbers; the score of a pair is :math:`z_u^\top z_v`, its log odds.

    **Formal guarantee.** That of its :class:`~sfumato.randomizers._questions.Questions`, for features: with ``per_feature``
    :math:`d\,\epsilon_x`-local for the d features of a user together. Codes and scores are post-processing of the reports and
    of public edges. Nothing is claimed about edges, which the server knows, nor about labels, which nobody is asked for and
    nothing reads.

    Cost: the reports as one dense float32 [n, d], and O(n d hidden) an epoch.

    Args:
        epsilon_y: must be None, since no label is asked for.
        per_feature: whether "pgc", "piecewise" and "laplace" spend ``epsilon_x`` on every feature; False with any other
            mechanism.
        learning_rate: step size of Adam.
        weight_decay: of Adam; published 0.01 for Cora and Citeseer, 0.001 for Twitch.
        max_epochs: most epochs of training; published 500.

    Weights: ``codes``, float32 [n, 16].

    Raises:
        InputError: a setting is out of range, a label is asked for, or no feature is.

    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(num_nodes=1000, num_train=500, num_features=10, num_classes=3, directed=False)
    >>> method = LinkPrediction(epsilon_x=0.5)
    >>> method.calibrate(None, method.unit, facts).epsilon
    5.0
    """

    epsilon_y: float | None = None
    mechanism: str = setting("pgc", unless=NOT_ASKED)
    per_feature: bool = setting(True, unless=NOT_ASKED)
    learning_rate: float = 0.01
    weight_decay: float = 0.01
    max_epochs: int = 500
    card: ClassVar[Card] = Card(
        name="pgc-links",
        summary="links from features that each user randomizes (pgc with --task link)",
        options={"epsilon_x": "epsilon_x", "mechanism": "mechanism", "delta": "delta"},
        units=("local",),
        citations=("sajadmanesh2020differential", "kipf2016variational"),
        audience=Audience(("reports", _CODES_SEEN), predictions="scores of all pairs (if every link may be known)"),
        controls=(),
        reads_labels=False,
        scores_pairs=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon_x == 0:
            raise fail(
                "epsilon_x", 0, "to be above 0, since links are told apart by features", "None reads them in the clear."
            )
        if self.epsilon_y is not None:
            raise fail("epsilon_y", self.epsilon_y, "to be None, since no label is asked for", "Drop it.")
        check_fields(self, learning_rate=STEP_SIZE, weight_decay=real(0), max_epochs=AT_LEAST_1)

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what is said of links and labels, where there is a claim."""
        return () if self.epsilon_x is None else LIMITS

    @property
    def rows_called(self) -> str:
        """Return how the audience names what :meth:`released_rows` gives."""
        return _CODES_SEEN

    @classmethod
    def from_options(cls, options: Mapping[str, Any], dataset: str = "") -> LinkPrediction:
        """Build the method that a command line names; ``pgc``, ``piecewise`` and ``laplace`` spend for each feature."""
        settings = {"mechanism": "pgc", **cls._asked(options)}
        return cls(**{"per_feature": settings["mechanism"] in EACH, **settings})

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan of the collection, which knows no label; arguments are those of :meth:`ReportingMethod.calibrate`."""
        unlabeled: dict[str, Any] = {"num_train": 0, "num_classes": 0, "untrained_classes": None}
        return super().calibrate(budget, unit, replace(public, **unlabeled, target=None, target_range=None))

    def check(self, graph: Graph) -> None:
        """Refuse a directed graph, whose links held out would be found among the others, or one with fewer than 20 edges.

        Raises:
            InputError: ``graph`` is such a graph.
        """
        if graph.directed:
            raise fail("directed", True, "to be False with link prediction", "Declare an undirected graph.")
        split_edges(graph, test_share=0.0)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Ask every user, unless devices were asked already, then learn a code of each from what was received."""
        reports = self._answers(plan, graph, session)
        rows = received_rows(self, graph, plan.public, reports)
        report = session.watch.stage("network")
        codes, _ = learn_codes(self, rows, split_edges(graph, session.seed, test_share=0.0), session.seed, report)
        return Outcome({CODES: codes}, reports)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Refuse to classify nodes.

        Raises:
            InputError: always.
        """
        raise fail("task", "node", f"to be link for method {self.name!r}", "Score pairs: `sfumato predict --pairs`.")

    def pair_scorer(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Scorer:
        """Return what computes the score of each pair from released codes; of the graph nothing is read."""
        codes = weights[CODES].astype(np.float64)
        return lambda pairs: np.asarray(np.einsum("mk,mk->m", codes[pairs[0]], codes[pairs[1]]))

    def validation_auc(self, weights: Arrays, graph: Graph, seed: int = 0) -> float:
        """Compute the AUC of the edges that decided when to stop, which no convolution saw, against pairs without an edge.

        Args:
            weights: the codes of a fit.
            graph: its public edges.
            seed: that of the fit.
        """
        split = split_edges(graph, seed, test_share=0.0)
        edges, codes = np.hstack((split.train, split.validation)), weights[CODES]
        others = non_edges(np.random.default_rng([seed, 2]), graph.num_nodes, edges, split.validation.shape[1])
        return auc(*((codes[pairs[0]] * codes[pairs[1]]).sum(1) for pairs in (split.validation, others)))

    def released_rows(self, plan: Planned, weights: Arrays, released: Arrays) -> NDArray[np.float32]:
        """Return the code of each node, float32 [num_nodes, 16]."""
        return weights[CODES]


def received_rows(
    method: LinkPrediction, graph: Graph, public: PublicFacts, reports: Mapping[str, NDArray[Any]]
) -> Tensor | SparseRows:
    """Return the estimate of all feature rows, dense float32 [n, d]; rows that are read in the clear come sparse."""
    import torch

    from sfumato.nn._models import SparseRows

    features = method.features(public)
    if features is None:
        return SparseRows(to_csr(collection._rows(graph)).astype(np.float32))
    estimate = estimated(features, reports)
    rows = estimate.sparse.astype(np.float32).toarray()
    rows += estimate.offset.astype(np.float32)
    if estimate.missing is not None:
        rows[estimate.missing] = estimate.neutral
    return torch.from_numpy(rows)


def learn_codes(
    method: LinkPrediction,
    rows: Tensor | SparseRows,
    split: EdgeSplit,
    seed: int,
    report: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.float32], int]:
    """Train on the training edges of a split; return the code of each node, float32 [n, 16], and the epochs it took."""
    import torch

    from sfumato.nn._models import SparseRows
    from sfumato.nn._vgae import VGAE, train_vgae

    generator = np.random.default_rng([seed, 1])

    def absent(count: int) -> Tensor:
        return torch.from_numpy(non_edges(generator, split.num_nodes, split.train, count))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, step = VGAE(rows.shape[1]), SparseRows(normalized_adjacency(split.training_graph))
        epochs = train_vgae(
            model, rows, step, torch.from_numpy(split.train), torch.from_numpy(split.validation), absent,
            learning_rate=method.learning_rate, weight_decay=method.weight_decay, max_epochs=method.max_epochs, report=report,
        )  # fmt: skip
        with torch.no_grad():
            return model(rows, step).numpy(), epochs


@dataclass(frozen=True)
class LinkResult:
    """AUC and average precision of the test pairs of an 85/5/10 split, and the epochs that training took."""

    auc: float
    average_precision: float
    epochs: int


def found_again(method: LinkPrediction, graph: Graph, seed: int = 0, source: SecretWords | None = None) -> LinkResult:
    """Split the edges 85/5/10 as published, ask every user once, train, and score the test edges. Nothing is released."""
    split, public = split_edges(graph, seed), PublicFacts(graph.num_nodes, 0, graph.num_features, 0, graph.directed)
    reports = encode(method, graph, public, source or SecretWords())
    codes, epochs = learn_codes(method, received_rows(method, graph, public, reports), split, seed)
    scores = [(codes[pairs[0]] * codes[pairs[1]]).sum(1) for pairs in (split.test, split.test_non_edges)]
    return LinkResult(auc(*scores), average_precision(*scores), epochs)
