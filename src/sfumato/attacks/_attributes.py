"""Attribute inference: one hidden feature of a node, from what leaves of the model, always beside imputation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sfumato._validate import SHARE, check_fields, check_int, fail, integer, one_of, optional
from sfumato.attacks._attack import Attack, Progress
from sfumato.attacks._node_rows import SIGHTS, WORDS, node_rows
from sfumato.attacks._pairs import dense
from sfumato.attacks._regression import regress
from sfumato.attacks._scores import Attacked, Scores
from sfumato.errors import InputError
from sfumato.graph._subgraph import adjacency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted


@dataclass(frozen=True)
class Attributes(Attack):
    """Attribute inference finds out whether nodes have one feature, of which the attacker knows all else.

    The model saw the feature; the attacker sees what leaves of the model and all other features, and knows the feature of a
    random share of the nodes. A ridge regression on both is the attack. **The baseline is imputation**: the same regression
    without the model. Olatunji, Hizber, Sihlovec and Khosla (2023) find that access to a graph network adds little to it.
    Measures are the AUC of what leaves alone, and with ``arcs`` that of an attacker who also knows all arcs: imputation from the
    node's other features, its neighbors' mean features, and the mean of the feature among neighbors for whom it is known.

    Columns of the same attribute (``dorm=1``, ``dorm=2``) are hidden together. At edge level features are public, so nothing
    of this is promised to be hidden.

    No ``column`` stands for the one with the most even halves. Of more than ``most`` nodes, a random part is taken.

    >>> Attributes().known, Attributes.name
    (0.5, 'attributes')

    Source: Olatunji, Hizber, Sihlovec and Khosla (2023), Does Black-box Attribute Inference Attacks on Graph Neural Networks
    Constitute Privacy Risk?, section 4.
    """

    column: int | None = None
    sees: str = "posteriors"
    known: float = 0.5
    arcs: bool = True
    most: int = 3000
    name: ClassVar[str] = "attributes"
    target: ClassVar[str] = "whether a node has a hidden feature"
    knowledge: ClassVar[str] = "all other features, and the hidden one of some nodes"
    summary: ClassVar[str] = "a hidden feature from what leaves and all other features"
    citations: ClassVar[tuple[str, ...]] = ("olatunji2023attribute",)

    def __post_init__(self) -> None:
        check_fields(self, column=optional(integer(0)), sees=one_of(*SIGHTS), known=SHARE, most=integer(20))

    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score nodes by the predicted feature."""
        coins = np.random.default_rng(check_int(low=0, high=2**32 - 1, seed=seed))
        if graph.num_features < 2:
            raise InputError(
                f"Expected a graph with two features or more, got {graph.num_features}. There is nothing to hide."
            )
        column = even_column(graph.x) if self.column is None else self.column
        hidden = _column(graph.x, column)
        nodes = coins.permutation(graph.num_nodes)[: self.most]
        known, asked = np.split(nodes, [round(self.known * len(nodes))])
        if any(len(np.unique(hidden[side])) < 2 for side in (known, asked)):
            raise fail("column", column, "to be 0 for some nodes and 1 for others", "Name another column.")
        x: Any = graph.x
        kept = np.flatnonzero(~same_attribute(graph, column))
        others, leaving = x[:, kept], node_rows(fitted, graph, self.sees)

        def scored(*tables: Any) -> Scores:
            near, far = (np.hstack([dense(rows[side]) for rows in tables]) for side in (known, asked))
            found, has = regress("ridge", near, hidden[known], far), hidden[asked] > 0
            return Scores(found[has], found[~has])

        measures = {
            "column": float(column),
            "share": float(hidden.mean()),
            "auc_model_alone": scored(leaving).auc().value,
        }
        if self.arcs:
            measures["auc_with_neighbors"] = scored(others, *neighbor_rows(graph, others, hidden, known)).auc().value
        if progress is not None:
            progress("nodes", len(asked), len(asked))
        words = f"{WORDS[self.sees]}, {self.knowledge.replace('some', str(len(known)))}"
        beside = {"imputation from other features": scored(others)}
        return Attacked(self.name, self.target, words, scored(leaving, others), beside, measures)


def same_attribute(graph: Graph, column: int) -> NDArray[np.bool_]:
    """Mark the columns that an attacker cannot know either: those of the same attribute, as ``dorm=1`` and ``dorm=2`` are.

    ``graph`` names its columns, or else each is an attribute of its own; ``column`` is the hidden one.
    """
    marks: NDArray[np.bool_] = np.arange(graph.num_features) == column
    if graph.feature_names and "=" in graph.feature_names[column]:
        start = graph.feature_names[column].partition("=")[0] + "="
        marks |= np.array([name.startswith(start) for name in graph.feature_names])
    return marks


def even_column(x: Any) -> int:
    """Find the column of zeros and ones whose halves are the most even."""
    sums = np.asarray(x.sum(0), np.float64).ravel()
    binary = _binary(x) & (sums > 0) & (sums < x.shape[0])
    if not binary.any():
        raise InputError(
            "Expected a column of zeros and ones among the features, got none. This attack infers such a column."
        )
    return int(np.where(binary, np.abs(sums / x.shape[0] - 0.5), np.inf).argmin())


def neighbor_rows(
    graph: Graph, others: Any, hidden: NDArray[np.float64], known: NDArray[np.int64]
) -> tuple[Any, NDArray[np.float64]]:
    """Compute means over neighbors: of all other features, and of the hidden one among neighbors for whom it is known.

    Without a neighbor of the kind the mean is that of all known nodes, or zeros. ``hidden`` is read of ``known`` alone.
    """
    arcs = adjacency(graph).astype(np.float64)
    both = sp.csr_matrix(arcs.maximum(arcs.T))
    both.setdiag(0)
    mean = sp.diags(1 / np.maximum(np.asarray(both.sum(1)).ravel(), 1)) @ both
    seen, there = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)
    seen[known], there[known] = hidden[known], 1
    count = both @ there
    return mean @ others, np.where(count > 0, (both @ seen) / np.maximum(count, 1), hidden[known].mean())[:, None]


def _column(x: Any, column: int) -> NDArray[np.float64]:
    if column >= x.shape[1] or not _binary(x[:, [column]])[0]:
        raise fail(
            "column", column, f"to be one of the {x.shape[1]} columns, of zeros and ones", "Name another column."
        )
    return dense(x[:, [column]]).ravel()


def _binary(x: Any) -> NDArray[np.bool_]:
    """Mark the columns that hold zeros and ones alone."""
    wrong = x != x * x if not sp.issparse(x) else x != x.multiply(x)
    marks: NDArray[np.bool_] = np.asarray(wrong.sum(0)).ravel() == 0
    return marks
