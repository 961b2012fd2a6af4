r"""The reference is the ceiling: what networks reach that read features, arcs and their neighbors' labels in the clear.

Decoupled networks learn on sums over neighbors that are taken once, so they are fast:

* *smoothed*: an MLP on features, whose scores are spread by personalized PageRank; the best of them where labels are few;
* *features*: an MLP on the node's features alone;
* *neighborhoods*: an MLP on the node's features, on mean features one and two hops away, on degrees, and on histograms of the
  training labels one and two hops away;
* *wiring*: the same, and the node's row of the adjacency matrix (on graphs of at most 500,000 arcs);
* *trees*: randomized trees on whom a node links to, as its coordinates along the first 150 directions of the adjacency matrix,
  both ways on directed graphs, and on degrees (on such graphs, for classes). Pages that copy each other share neighbors, which no
  mean over neighbors tells.

The network with the best validation accuracy is kept; the mean of their log-probabilities is a further candidate.

A node's own label is never part of its row: arcs to itself are left out, and what returns after two hops is subtracted,
:math:`P Q Y - \mathrm{diag}(P Q) Y` for hops P and Q and labels Y. So rows of training nodes and of others follow one law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._optional import require
from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields
from sfumato.central._learning import Features, labeled, loss_of, train_on
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._facts import labeled_mask
from sfumato.method.card import Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._decoupled import Blocks, Smoothed
from sfumato.nn._models import SparseRows
from sfumato.nn._weights import seeded

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release

_PATIENCE, _WEIGHT_DECAY = 50, 5e-4
_SHORT = 256  # columns of features that are summed over neighbors; wider ones are projected on their first directions
_WORK, _MOST_STEPS = 2e7, 10  # what spreading scores may cost an epoch, in products
_MOST_ARCS = 500_000
_DIRECTIONS, _TREES = 150, 200  # of the adjacency matrix, and how many trees read them
Rows = Tensor | SparseRows


@dataclass(frozen=True)
class Reference(CuratorMethod):
    """The best of a few decoupled networks, and trees, by validation accuracy, is the ceiling. It refuses every privacy unit.

    It predicts the nodes of the graph that it learned from. Scores are log-probabilities, float32 [num_nodes, num_classes]; of
    targets that are no classes they are the scores of the networks, and the least loss chooses in place of accuracy.

    **Formal guarantee.** None: training reads every arc, feature and label in the clear.

    Args:
        width: number of units in the hidden layer.
        epochs: most full-batch steps of each network; it stops after 50 without a better validation accuracy.
        learning_rate: step size of Adam, in (0, 10].

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but none.

    Raises:
        InputError: a setting is out of range.

    >>> Reference().name
    'reference'

    Source: Klicpera et al. (2019), Predict then Propagate, equation 4; Frasca et al. (2020), SIGN, equation 4.
    """

    width: int = 64
    epochs: int = 300
    learning_rate: float = 0.01
    card: ClassVar[Card] = Card(
        name="reference", summary="the best of a few graph networks, without privacy", targets=("multilabel", "number")
    )

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List no release, since there is none under privacy.

        Raises:
            UnsupportedUnitError: always. Nothing is asked for under unit none.
        """
        raise UnsupportedUnitError(
            f"Method 'reference' reads everything in the clear and has no proof under unit {unit.name!r}. "
            "Use unit none (no guarantee), or a private method such as label-messages."
        )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train the networks and keep the best scores."""
        hops, x, found = directions(graph), _unit_rows(graph), []
        if x.shape[1]:
            steps = int(min(_MOST_STEPS, max(2, _WORK // max(len(graph.indices) * graph.num_classes, 1))))
            rows, hop = _rows(x), SparseRows(symmetric(hops[0]))
            make = partial(Smoothed, x.shape[1], self.width, graph.num_classes, steps=steps)
            found.append(self._fit("smoothed", make, lambda ids: (rows, hop, ids), graph, session))
            found.append(self._fit_blocks("features", [Features(graph).x], graph, session))
        blocks = [Features(graph).x, neighborhoods(graph, hops, x)]
        found.append(self._fit_blocks("neighborhoods", blocks, graph, session))
        if len(graph.indices) <= _MOST_ARCS:
            found.append(self._fit_blocks("wiring", [*blocks, *map(_mean, hops)], graph, session))
            if graph.targets is None:
                found.append(grown(graph, hops, session))
        found.append(torch.stack(found).mean(0))
        y, _, val = labeled(graph)
        loss = loss_of(graph)

        def merit(scores: Tensor) -> float:
            if loss is not None:
                return -float(loss.mean(scores[val], y[val])) if len(val) else 0.0
            return int((scores[val].argmax(1) == y[val]).sum())

        best = max(found, key=merit)
        return Outcome({"scores": best.numpy()}, {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Return the stored scores."""
        return np.asarray(weights["scores"], np.float32)

    def _fit_blocks(self, stage: str, blocks: list[Any], graph: Graph, session: Session) -> Tensor:
        make = partial(Blocks, [block.shape[1] for block in blocks], self.width, graph.num_classes)
        return self._fit(stage, make, lambda ids: tuple(_rows(block[ids]) for block in blocks), graph, session)

    def _fit(
        self,
        stage: str,
        make: Callable[[], nn.Module],
        inputs: Callable[[NDArray[np.integer]], tuple[Any, ...]],
        graph: Graph,
        session: Session,
    ) -> Tensor:
        """Train one network on what ``inputs`` gives for its nodes, and compute its log-probabilities of all nodes."""
        _, ids, val = labeled(graph)
        seen, held_out = inputs(ids), inputs(val)
        with seeded(session.seed):
            network = make()
            session.watch.curves[stage] = train_on(
                network, graph, ids, lambda: network(*seen), val, lambda: network(*held_out), epochs=self.epochs,
                learning_rate=self.learning_rate, weight_decay=_WEIGHT_DECAY, patience=_PATIENCE,
                progress=session.watch.stage(stage),
            )  # fmt: skip
        with torch.no_grad():
            scores: Tensor = network(*inputs(np.arange(graph.num_nodes)))
            return torch.log_softmax(scores, 1) if graph.targets is None else scores


def grown(graph: Graph, hops: list[sp.csr_matrix], session: Session) -> Tensor:
    """Fit randomized trees on singular vectors of the adjacency matrix and degrees; return log-probabilities of all nodes."""
    (y, ids, _), told = labeled(graph), session.watch.stage("trees")
    most = min(_DIRECTIONS, graph.num_nodes)
    decompose = require("sklearn.utils.extmath").randomized_svd
    left, values, right = decompose(hops[0].astype(np.float64), most, n_iter=4, random_state=0)
    sides = [left * values, right.T * values] if graph.directed else [left * values]
    rows = np.hstack([*sides, *(np.log1p(np.asarray(hop.sum(1))) for hop in hops)])
    trees = require("sklearn.ensemble").ExtraTreesClassifier(0, warm_start=True, random_state=session.seed)
    for number in range(_TREES // 8, _TREES + 1, _TREES // 8):
        trees.set_params(n_estimators=number).fit(rows[ids], y[ids].numpy())
        if told is not None:
            told(number, _TREES)
    chances = np.zeros((graph.num_nodes, graph.num_classes))
    chances[:, trees.classes_] = trees.predict_proba(rows)
    smoothed = (_TREES * chances + 1) / (_TREES + graph.num_classes)  # a class without a vote may yet be right
    return torch.from_numpy(np.log(smoothed).astype(np.float32))


def directions(graph: Graph) -> list[sp.csr_matrix]:
    """Return the adjacency matrix without arcs from a node to itself; of a directed graph also its transpose."""
    ones = np.ones(len(graph.indices), np.float32)
    adjacency = sp.csr_matrix((ones, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))
    adjacency = sp.csr_matrix(adjacency - sp.diags(adjacency.diagonal()), dtype=np.float32)
    adjacency.eliminate_zeros()
    return [adjacency, sp.csr_matrix(adjacency.T)] if graph.directed else [adjacency]


def symmetric(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Compute the hop with both directions of each arc, self-loops, and a root of either degree as divisor."""
    both = sp.csr_matrix(adjacency.maximum(adjacency.T) + sp.eye(adjacency.shape[0], dtype=np.float32))
    scale = sp.diags(1 / np.sqrt(np.asarray(both.sum(1)).ravel()))
    return sp.csr_matrix(scale @ both @ scale, dtype=np.float32)


def neighborhoods(graph: Graph, hops: list[sp.csr_matrix], x: Any) -> NDArray[np.float32]:
    """Describe every node by what is around it: sums of features, degrees, and histograms of training labels."""
    near = _short(x)
    degrees = np.log1p(np.hstack([np.asarray(hop.sum(1)) for hop in hops]))
    features = [around for hop in map(_mean, hops) for around in (hop @ near, hop @ (hop @ near))]
    rows = np.hstack([*features, degrees, label_histograms(graph, hops)])
    return ((rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-3)).astype(np.float32)


def label_histograms(graph: Graph, hops: list[sp.csr_matrix]) -> NDArray[np.float64]:
    """Compute histograms of the training labels one and two hops away; a node's own label is part of none of its columns.

    Of targets that are no classes these are sums and means around the mean of the training nodes.
    """
    known = graph.train_mask & labeled_mask(graph)
    labels = np.zeros((graph.num_nodes, graph.num_classes))
    if graph.targets is not None:
        values = graph.targets.scaled[known]
        labels[known] = np.nan_to_num(values - np.nanmean(values, axis=0))
    else:
        assert graph.y is not None
        labels[known] = -1 / graph.num_classes
        labels[np.flatnonzero(known), graph.y[known]] += 1
    columns = []
    for hop in hops:
        counts = hop @ labels
        columns += [counts, counts / np.maximum(hop @ known.astype(np.float64), 1)[:, None]]
    for first, second in product(map(_mean, hops), repeat=2):
        returned = np.asarray(first.multiply(second.T).sum(1))
        columns.append(first @ (second @ labels) - returned * labels)
    return np.hstack(columns)


def _mean(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    degrees = np.asarray(adjacency.sum(1)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.maximum(degrees, 1)) @ adjacency, dtype=np.float32)


def _unit_rows(graph: Graph) -> Any:
    """Feature rows of norm 1; sparse ones of which more than a tenth is there are dense, which is faster."""
    if graph.x is None:
        return np.zeros((graph.num_nodes, 0), np.float32)
    rows: Any = graph.x.astype(np.float64)
    square = rows.multiply(rows) if sp.issparse(rows) else rows**2
    scale = sp.diags(1 / np.maximum(np.sqrt(np.asarray(square.sum(1)).ravel()), 1e-12))
    scaled = scale @ rows
    if sp.issparse(scaled) and 10 * scaled.nnz > np.prod(scaled.shape):
        scaled = scaled.toarray()
    return sp.csr_matrix(scaled, dtype=np.float32) if sp.issparse(scaled) else scaled.astype(np.float32)


def _short(x: Any) -> NDArray[np.float32]:
    """Rows with at most 256 columns: wide ones are projected on the first directions of the matrix."""
    if x.shape[1] <= _SHORT:
        return x.toarray() if sp.issparse(x) else x
    left, values, _ = require("sklearn.utils.extmath").randomized_svd(x, _SHORT, n_iter=2, random_state=0)
    return np.asarray(left * values, np.float32)


def _rows(x: Any) -> Rows:
    return SparseRows(x) if sp.issparse(x) else torch.from_numpy(np.ascontiguousarray(x, np.float32))
