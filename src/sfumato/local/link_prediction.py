"""Link prediction finds, from feature reports, which edges of a public graph are missing, by a variational auto-encoder.

Edges, public here, are split by a seed over the upper triangle: 85 % are the training graph (the only arcs that any
convolution sees), 5 % decide when to stop, and 10 % are told apart from as many pairs without an edge.

Source: Sajadmanesh and Gatica-Perez (2020), When Differential Privacy Meets Graph Neural Networks, table 2.3 of the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import scipy.stats
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.graph.graph import Graph, PublicFacts
from sfumato.local import collection
from sfumato.local._heat import normalized_adjacency
from sfumato.local.collection import FEATURES
from sfumato.noise.coins import SecretWords
from sfumato.privacy.units import LocalLevel, NoPrivacy, Unit
from sfumato.randomizers.questions import Questions
from sfumato.randomizers.values import Floats, to_csr

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.nn.models import SparseRows

Pairs = NDArray[np.int64]
_VALIDATION, _TEST = 0.05, 0.10
_FEWEST_EDGES = 20


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """An edge split holds edges in three parts, and test pairs without an edge: [2, m], the smaller id first.

    ``train``, ``validation`` and ``test`` are edges, ``test_non_edges`` are pairs without an edge, all below ``num_nodes``.
    """

    num_nodes: int
    train: Pairs
    validation: Pairs
    test: Pairs
    test_non_edges: Pairs

    @property
    def training_graph(self) -> sp.csr_matrix:
        """Return the training edges alone as a symmetric float32 matrix."""
        ones = np.ones(self.train.shape[1], np.float32)
        half = sp.csr_matrix((ones, tuple(self.train)), shape=(self.num_nodes, self.num_nodes))
        return sp.csr_matrix(half + half.T)


def split_edges(graph: Graph, seed: int = 0) -> EdgeSplit:
    """Split the edges 85/5/10 at random; loops and the direction of arcs do not count.

    Raises:
        InputError: the graph has fewer than 20 edges.

    >>> from sfumato.graph.synthetic import stochastic_block_model
    >>> split = split_edges(stochastic_block_model(100, 2, mean_degree=4))
    >>> split.train.shape[1] > 8 * split.test.shape[1], split.test.shape == split.test_non_edges.shape
    (True, True)
    """
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    edges = sp.triu(collection.topology(graph), k=1).tocoo()
    if edges.nnz < _FEWEST_EDGES:
        raise fail("graph", edges.nnz, f"to have at least {_FEWEST_EDGES} edges to split", "Bring a larger graph.")
    pairs = np.stack((edges.row, edges.col)).astype(np.int64)[:, generator.permutation(edges.nnz)]
    validation, test = round(_VALIDATION * edges.nnz), round(_TEST * edges.nnz)
    parts = np.split(pairs, [validation, validation + test], axis=1)
    absent = non_edges(generator, graph.num_nodes, pairs, test)
    return EdgeSplit(graph.num_nodes, parts[2], parts[0], parts[1], absent)


def non_edges(generator: np.random.Generator, num_nodes: int, edges: Pairs, count: int) -> Pairs:
    """Draw pairs of two nodes that are not edges, [2, count], the smaller node first.

    Args:
        generator: source of public randomness.
        num_nodes: number of nodes.
        edges: pairs to avoid, [2, m].
        count: how many pairs to draw.

    Raises:
        InputError: every pair of nodes is an edge.

    >>> non_edges(np.random.default_rng(0), 3, np.array([[0, 0], [1, 2]]), 2).tolist()
    [[1, 1], [2, 2]]
    """
    taken = np.sort(edges[0] * num_nodes + edges[1])
    if 2 * taken.size >= num_nodes * (num_nodes - 1):
        raise fail("graph", f"{taken.size} edges", "to leave some pair of nodes without an edge", "It is complete.")
    found = np.empty((2, 0), np.int64)
    while found.shape[1] < count:
        pairs = generator.integers(num_nodes, size=(2, 2 * count))
        pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
        keys = pairs[0] * num_nodes + pairs[1]
        place = np.minimum(np.searchsorted(taken, keys), taken.size - 1)
        found = np.hstack((found, pairs[:, taken[place] != keys]))
    return found[:, :count]


@dataclass(frozen=True)
class LinkResult:
    """A link result holds scores on the test pairs, the epochs it took, and what a user spent (None where read in the clear).

    ``auc`` and ``average_precision`` score the test pairs, ``epochs`` counts passes, ``epsilon_per_feature`` and
    ``epsilon_total`` are what a user spent on each feature and on all.
    """

    auc: float
    average_precision: float
    epochs: int
    epsilon_per_feature: float | None
    epsilon_total: float | None


@dataclass(frozen=True)
class LinkPrediction:
    r"""Link prediction trains a variational graph auto-encoder on reports of every feature.

    Args:
        epsilon_x: budget of *each single feature*; None reads features in the clear (no privacy).
        mechanism: "pgc", "piecewise" or "laplace".
        low, high: public range of the features.
        learning_rate, weight_decay: of Adam; published weight decay 0.01 for Cora and Citeseer, 0.001 for Twitch.
        max_epochs: most epochs of training; published 500.

    **Formal guarantee.** :math:`d\,\epsilon_x`-local for the d features of a user together: everything after the reports is
    post-processing. The edges are public by assumption: nothing is claimed about them.

    Cost: the reports as one dense float32 [n, d], and O(n d hidden) an epoch.

    Raises:
        InputError: a setting is out of range.

    ``low`` and ``high`` clip the features on the device; ``learning_rate`` and ``weight_decay`` are settings of Adam.

    >>> LinkPrediction(epsilon_x=5.0).asked.mechanism
    'pgc'
    """

    epsilon_x: float | None = 1.0
    mechanism: str = "pgc"
    low: float = 0.0
    high: float = 1.0
    learning_rate: float = 0.01
    weight_decay: float = 0.01
    max_epochs: int = 500

    def __post_init__(self) -> None:
        if self.epsilon_x is not None:
            check_real("For values in the clear use None.", low=0, open_low=True, epsilon_x=self.epsilon_x)
        check_real(low=0, open_low=True, learning_rate=self.learning_rate)
        check_real(low=0, weight_decay=self.weight_decay)
        check_int(low=1, max_epochs=self.max_epochs)
        _ = self.asked

    @property
    def asked(self) -> Questions:
        """Return what users are asked: features alone, each with its own budget."""
        return Questions(self.epsilon_x, None, mechanism=self.mechanism, per_feature=True, low=self.low, high=self.high)

    @property
    def unit(self) -> Unit:
        """Return what is protected: a user's features, unless they are read in the clear."""
        return NoPrivacy() if self.epsilon_x is None else LocalLevel(features=True, labels=False)

    def fit(self, graph: Graph, seed: int = 0, source: SecretWords | None = None) -> LinkResult:
        """Split the edges, ask every user once, train, and score the held-out edges.

        Args:
            graph: private features and public edges.
            seed: public seed of the split and of the network.
            source: the users' secret randomness; None takes fresh randomness from the operating system.
        """
        import torch

        from sfumato.nn.models import SparseRows
        from sfumato.nn.vgae import VGAE, log_odds, train_vgae

        split = split_edges(graph, seed)
        x, total = received_rows(self.asked, graph, source or SecretWords())
        generator = np.random.default_rng([seed, 1])

        def absent(count: int) -> Tensor:
            return torch.from_numpy(non_edges(generator, graph.num_nodes, split.train, count))

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, step = VGAE(graph.num_features), SparseRows(normalized_adjacency(split.training_graph))
            epochs = train_vgae(
                model, x, step, torch.from_numpy(split.train), torch.from_numpy(split.validation), absent,
                learning_rate=self.learning_rate, weight_decay=self.weight_decay, max_epochs=self.max_epochs,
            )  # fmt: skip
            with torch.no_grad():
                codes = model(x, step)
            scores = [log_odds(codes, torch.from_numpy(pairs)).numpy() for pairs in (split.test, split.test_non_edges)]
        return LinkResult(auc(*scores), average_precision(*scores), epochs, self.epsilon_x, total)


def received_rows(asked: Questions, graph: Graph, source: SecretWords) -> tuple[Tensor | SparseRows, float | None]:
    """Ask for features and return their estimate, dense float32 [n, d], with the epsilon of a user.

    Rows that are read in the clear come sparse, and with None.

    Args:
        asked: how each user randomizes its features.
        graph: the private features.
        source: secret randomness of the users.
    """
    import torch

    from sfumato.nn.models import SparseRows

    public = PublicFacts(graph.num_nodes, 0, graph.num_features, graph.num_classes, graph.directed)
    features = asked.features(public)
    if features is None:
        return SparseRows(to_csr(collection._rows(graph)).astype(np.float32)), None
    reports = collection.encode(asked, graph, public, source)[FEATURES]
    estimate = features.estimate(collection.unpacked(reports, features))
    rows = estimate.sparse.astype(np.float32).toarray()
    rows += estimate.offset.astype(np.float32)
    return torch.from_numpy(rows), features.total_epsilon


def auc(present: Floats, absent: Floats) -> float:
    """Compute the chance that a score of an edge is above that of a pair without edge; ties count half.

    >>> auc(np.array([2.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    ranks = scipy.stats.rankdata(np.concatenate((present, absent)))[: len(present)]
    return float((ranks.mean() - (len(present) + 1) / 2) / len(absent))


def average_precision(present: Floats, absent: Floats) -> float:
    """Compute the mean, over edges, of the share of edges among the pairs scored as high or higher.

    >>> average_precision(np.array([2.0, 0.5]), np.array([1.0, 0.0]))
    0.8333333333333333
    """

    def above(scores: Floats) -> NDArray[Any]:
        return len(scores) - np.searchsorted(np.sort(scores), present, side="left")

    return float((above(present) / (above(present) + above(absent))).mean())
