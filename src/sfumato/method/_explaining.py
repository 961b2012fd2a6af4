r"""What moved a prediction: exact Shapley values over released rows and over the node's own features.

Parts are the columns of the node table and the released rows of each hop. With :math:`s_c(S)` the scores of the node where all
parts outside of S are zero, and :math:`v_c(S) = s_c(S) - \frac{1}{C} \sum_k s_k(S)` the log-odds of class c against the mean
class, the amount of part i is its Shapley value (Shapley, 1953)

.. math:: \phi_{ic} = \sum_{S \not\ni i} \frac{|S|! (P - |S| - 1)!}{P!} (v_c(S \cup i) - v_c(S)).

Amounts and baseline :math:`v_c(\emptyset)` add up to the log-odds of the prediction. Of a linear head
:math:`s = W z + b` they are :math:`\sum_{j \in i} (W_{cj} - \bar W_j) z_j`; of others every subset is
computed. Nothing is sampled.

**Guarantee.** All of it is computed from what ``predict`` reads: the release and the features of this node. The baseline is
zero, and never a mean over rows. So an explanation is post-processing, for whoever may see the prediction of the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._blocks import rows_of
from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._targets import MULTILABEL, NUMBER, probabilities

if TYPE_CHECKING:
    from sfumato.method._rows import ReleasedRows
    from sfumato.method.contract import Arrays

MOST_PARTS = 12
"""With more parts there would be too many subsets."""
FEATURES = "own features"
_HOP = "aggregate/"


@runtime_checkable
class LinearHead(Protocol):
    """A method whose scores may be W z + b: the rows z [n, F], W [C, F] and b [C], or None if a run has another model."""

    def linear_head(self, weights: Arrays, graph: Graph) -> tuple[Any, NDArray[Any], NDArray[Any]] | None: ...


@dataclass(frozen=True)
class Explanation:
    """An explanation says by how much each part moved the log-odds of each class, for one node.

    Args:
        node: the id of the node.
        classes: the names of the classes.
        probabilities: what the model predicts, [C].
        parts: the names of the parts, the one that moved the most probable class most first.
        values: what stands in each part: a cell as it was encoded, or nothing for a row.
        amounts: Shapley values in units of log-odds, [P, C].
        baseline: log-odds with every part zero, [C].
        how: how the amounts were found, and what zero means.

    >>> import numpy as np
    >>> amounts = np.array([[0.5, -0.5]])
    >>> found = Explanation("ann", ("a", "b"), np.array([0.73, 0.27]), ("dorm",), ("north",), amounts, np.zeros(2), "")
    >>> found.told, found.log_odds.tolist()
    ('a', [0.5, -0.5])
    """

    node: Any
    classes: tuple[str, ...]
    probabilities: NDArray[np.floating]
    parts: tuple[str, ...]
    values: tuple[str, ...]
    amounts: NDArray[np.float64]
    baseline: NDArray[np.float64]
    how: str

    @property
    def told(self) -> str:
        """The most probable class, by which parts are ordered."""
        return self.classes[int(self.probabilities.argmax())]

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """The log-odds of the prediction, [C]: the baseline and all amounts."""
        total: NDArray[np.float64] = self.baseline + self.amounts.sum(axis=0)
        return total

    def columns(self) -> dict[str, Any]:
        """Return a table by name of the column: a line for the baseline, one for each part, with an amount for each class."""
        table = np.vstack([self.baseline, self.amounts])
        found = {"node": (self.node,) * len(table), "part": ("baseline", *self.parts), "value": ("", *self.values)}
        return found | {f"log_odds({name})": table[:, at] for at, name in enumerate(self.classes)}

    def frame(self) -> Any:
        """Return the table of :meth:`columns` as a frame of pandas.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return require("pandas").DataFrame({name: list(column) for name, column in self.columns().items()})


_PUBLIC_LINKS = (
    "Predictions read links of these types in the clear, which are in no release. Protect all types, or leave them out."
)


def explained(fitted: ReleasedRows, graph: Graph, row: int) -> Explanation:
    """Explain what a run predicts for the node in a row of its graph.

    Raises:
        InputError: the graph is another, or predictions of the method read more than a node's own features and released rows.
    """
    method, kind = fitted.ran.method, fitted.plan.public.target
    if not method.card.explains:
        raise fail(
            "method",
            method.name,
            "to predict a node from its own features and its released rows alone, to tell what moved it",
            "Train label-messages, gap, mlp or linear.",
        )
    if kind == NUMBER:
        raise fail("target", kind, "to be classes or labels", "A number has no log-odds to divide.")
    if fitted.plan.public.public_types and not fitted.predicts_alone:
        told = "to tell what moved it"
        raise fail("public_types", ", ".join(fitted.plan.public.public_types), f"to be none, {told}", _PUBLIC_LINKS)
    asked = fitted.as_fitted(graph)
    at, centered = int(asked.fitted_rows[row]), kind != MULTILABEL
    own = _own(asked.graph, at)
    columns = _columns(fitted.graph_key.feature_names, len(own))
    linear = None
    if isinstance(method, LinearHead) and fitted.predicts_alone:
        linear = method.linear_head(fitted.weights, _graph_of(own[None]))
    if linear is not None:
        names, amounts, baseline = tuple(columns), *_of_line(linear, columns, centered)
        zero = "a node with the features of the released center" if "center" in fitted.weights else _EMPTY
        how = f"Exact Shapley values of a linear model, in closed form. The baseline is {zero}."
    else:
        names, amounts, baseline = _of_subsets(fitted, own, at, columns, centered)
        how = f"Exact Shapley values by all {2 ** len(names):,} subsets of parts. A part that is left out is zero."
        if FEATURES in names and len(columns) > 1:
            how += f" Own features are one part: {len(columns):,} columns have too many subsets."
    found = probabilities(kind, (baseline + amounts.sum(axis=0))[None])[0]
    classes = tuple(fitted.graph_key.classes)
    first = np.argsort(-np.abs(amounts[:, int(found.argmax())]), kind="stable")
    values = tuple(
        _value(fitted.graph_key.feature_names, own, columns[name]) if name in columns else "" for name in names
    )
    node = row if graph.node_ids is None else graph.node_ids[row : row + 1].tolist()[0]
    return Explanation(
        node,
        classes,
        found,
        tuple(names[one] for one in first),
        tuple(values[one] for one in first),
        amounts[first],
        baseline,
        how,
    )


def row_of(graph: Graph, node: Any) -> int:
    """Return the row of a node by its id; the words of an id stand for it.

    Raises:
        InputError: no node has this id.
    """
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    found = np.flatnonzero(ids.astype(str) == str(node))
    if len(found) != 1:
        raise InputError(f"Expected the id of a node of the run, got {str(node)!r}. Ids are those of the node table.")
    return int(found[0])


_EMPTY = "a node whose features are all zero"


def _own(graph: Graph, row: int) -> NDArray[np.float32]:
    """The features of one node."""
    stored = graph.stored_x
    if stored is None:
        return np.zeros(0, np.float32)
    found: Any = rows_of(stored, np.array([row]))
    return np.asarray(found.toarray() if sp.issparse(found) else found, np.float32).ravel()


def _columns(names: tuple[str, ...], width: int) -> dict[str, list[int]]:
    """The features of each column of the table: a column of words has one for each word."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(names or [f"feature {one}" for one in range(width)]):
        found.setdefault(name.partition("=")[0], []).append(at)
    return found


def _value(names: tuple[str, ...], own: NDArray[np.float32], features: list[int]) -> str:
    """What stands in a column: its words, or its number as the model reads it."""
    if names and "=" in names[features[0]]:
        return "; ".join(names[one].partition("=")[2] for one in features if own[one])
    return f"{own[features[0]]:.4g}"


def _graph_of(x: NDArray[np.float32]) -> Graph:
    none = np.zeros(0, np.int64)
    return Graph.from_edges(none, none, len(x), directed=True, x=x if x.shape[1] else None)


def _against_mean(scores: NDArray[Any], centered: bool) -> NDArray[np.float64]:
    wide = scores.astype(np.float64)
    return wide - wide.mean(axis=-1, keepdims=True) if centered else wide


def _of_line(
    linear: tuple[Any, NDArray[Any], NDArray[Any]], columns: dict[str, list[int]], centered: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Amounts [P, C] and baseline [C] of a linear head."""
    rows, weight, bias = linear
    row = np.asarray(rows.toarray() if sp.issparse(rows) else rows, np.float64)[0]
    each = row[:, None] * _against_mean(weight.T, centered)
    amounts = np.array([each[features].sum(axis=0) for features in columns.values()]).reshape(-1, len(bias))
    return amounts, _against_mean(bias, centered)


def _of_subsets(
    fitted: ReleasedRows, own: NDArray[np.float32], row: int, columns: dict[str, list[int]], centered: bool
) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.float64]]:
    """Names, amounts [P, C] and baseline [C] of any model, by its scores for every subset of parts."""
    ran = fitted.ran
    rows = {name: array[row] for name, array in fitted.released.items() if name.startswith(_HOP)}
    hops = () if fitted.predicts_alone else tuple(rows)
    blocks = columns if len(columns) + len(hops) <= MOST_PARTS else {FEATURES: list(range(len(own)))}
    named = [f"hop {name.removeprefix(_HOP)}, released row" for name in hops] if len(hops) > 1 else ["released row"]
    names = (*blocks, *named[: len(hops)])
    count = len(names)
    there = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 == 1
    x = np.tile(own, (len(there), 1))
    for part, features in enumerate(blocks.values()):
        x[np.ix_(~there[:, part], features)] = 0
    released = {name: np.tile(array, (len(there), 1)) for name, array in rows.items()}
    for part, name in enumerate(hops, len(blocks)):
        released[name][~there[:, part]] = 0
    others = {name: array for name, array in fitted.released.items() if name not in rows}
    scores = ran.method.scores(ran, fitted.weights, {**others, **released}, _graph_of(x))
    values, sizes = _against_mean(scores, centered), there.sum(axis=1)
    amounts = np.zeros((count, values.shape[1]))
    for part in range(count):
        without = np.flatnonzero(~there[:, part])
        weights = np.array([factorial(k) * factorial(count - 1 - k) / factorial(count) for k in range(count)])
        gains = values[without | (1 << part)] - values[without]
        amounts[part] = weights[sizes[without]] @ gains
    return names, amounts, values[0]
