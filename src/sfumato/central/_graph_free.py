"""The floor where labels are public: the strongest of several models that read features and no graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._blocks import MOST_HELD, in_blocks, rows_of
from sfumato._optional import require
from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields
from sfumato.central._rows import MOST_HELD_OUT, MOST_LEARNED, Matrix, drawn, features_of, labeled_nodes
from sfumato.errors import UnsupportedUnitError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._numpy_networks import Hidden, Logistic, State, log_loss, train

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release

_PATIENCE = 6
_BATCH, _LEAST_BATCH, _LEAST_STEPS = 512, 32, 8
_ROWS_AT_ONCE = 1 << 16
_MOST_COLUMNS = 1000  # of trees
_ROUNDS, _AT_ONCE, _LEAVES = 100, 20, 31
_NODES = 2 * _LEAVES - 1
_MOST_KEPT, _LEAST_SHARED = 8, 10_000_000  # with less work threads take longer than one alone
_kept: dict[
    tuple[bytes, int, int], Arrays
] = {}  # a run, its floor and its ceiling grow the same trees from public rows
_MOST_SCORE = np.float32(1e30)  # features near the end of float32 give more, of which no softmax could be taken
_ABSENT = -30.0  # score of a class without a training node
_PARTS = {"feature": "feature_idx", "threshold": "num_threshold", "left": "left", "right": "right", "value": "value"}


@dataclass(frozen=True)
class GraphFree(CuratorMethod):
    """The best of three models of the nodes' own features, by validation log-loss, is the floor where labels are public.

    * ``linear``: multinomial logistic regression, stopped early;
    * ``network``: one hidden layer with dropout;
    * ``trees``: gradient-boosted trees of scikit-learn, where features are few (at most 1000 columns, and 100 million training
      nodes x columns x classes).

    Without validation labels the network is taken. Scores are float32 [num_nodes, num_classes].

    **Formal guarantee.** Arcs are never read, and features and labels are public at edge level: epsilon is 0. Units under
    which they are private are refused.

    Args:
        width: number of units in the hidden layer.
        epochs: most passes over the training nodes; training stops after 6 without a smaller validation log-loss.
        learning_rate: step size of Adam, in (0, 10].

    Errors: ``calibrate`` raises UnsupportedUnitError where features or labels are private.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> GraphFree().calibrate(Budget(1.0, 1e-6), EdgeLevel(directed=False), facts).epsilon
    0.0
    """

    width: int = 64
    epochs: int = 30
    learning_rate: float = 0.01
    card: ClassVar[Card] = Card(
        name="graph-free",
        summary="the best of linear model, network and trees, without the graph",
        units=("edge", "person"),
        audience=Audience(("weights",), predictions="predictions"),
        reads_links=False,
        explains=True,
    )

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List nothing: where features and labels are public, nothing that is read is private.

        Raises:
            UnsupportedUnitError: features or labels are private under the unit.
        """
        if not {"features", "labels"} <= set(unit.public):
            raise UnsupportedUnitError(
                f"Method 'graph-free' reads features and labels in the clear and has no proof under unit {unit.name!r}. "
                "Use mlp."
            )
        return ()

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train the models and keep the one with the least validation log-loss."""
        public = plan.public
        return Outcome(
            self.best(public, graph, [*self.trained(public, graph, session), *grown(public, graph, session)]), {}
        )

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the model that was kept to the nodes' own features."""
        return self.apply(plan.public, weights, graph)

    def linear_head(self, weights: Arrays, graph: Graph) -> tuple[Any, NDArray[Any], NDArray[Any]] | None:
        """Return the features of a ``graph`` and the linear model among ``weights``, or None if another was kept."""
        if "linear.weight" not in weights:
            return None
        return features_of(graph), weights["linear.weight"], weights["linear.bias"]

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say where features say nothing."""
        return unused_features(plan.public, weights)

    def trained(self, public: PublicFacts, graph: Graph, session: Session) -> tuple[Arrays, Arrays]:
        """Return the weights of the network and of the linear model; only for public labels.

        Args:
            public: facts of the graph.
            graph: its features, labels and roles are read.
            session: gives the seed, and is told of progress.
        """
        return self._trained("network", public, graph, session), self._trained("linear", public, graph, session)

    def best(self, public: PublicFacts, graph: Graph, found: Sequence[Arrays]) -> Arrays:
        """Return the weights, of those ``found``, with the least validation log-loss, and the first of equals.

        ``public`` and ``graph`` are those of :meth:`trained`.
        """
        y, _, val = labeled_nodes(graph)
        if not len(val):
            return found[0]
        val = drawn(val, MOST_HELD_OUT)
        rows = rows_of(features_of(graph), val)
        losses = [log_loss(self.scorer(public, one)(rows), y[val]) for one in found]
        return found[int(np.argmin(losses))]

    def apply(self, public: PublicFacts, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute the scores of every node by the model whose ``weights`` these are, [num_nodes, num_classes].

        Args:
            public: facts of the graph that it learned from.
            weights: one of those of :meth:`trained` and :func:`grown`.
            graph: its features are read.
        """
        return of_all_rows(self.scorer(public, weights), features_of(graph))

    def scorer(self, public: PublicFacts, weights: Arrays) -> Callable[[Matrix], NDArray[np.float32]]:
        """Return what computes the scores of some rows of features; ``public`` and ``weights`` are those of :meth:`apply`."""
        if "trees.value" in weights:
            trees = {name.removeprefix("trees."): part for name, part in weights.items()}
            return lambda rows: tree_scores(trees, _dense(rows))
        (name,) = {key.partition(".")[0] for key in weights}
        model = self._model(name, public)
        model.state = {part: weights[f"{name}.{part}"] for part in model.state}

        def scores(rows: Matrix) -> NDArray[np.float32]:
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.nan_to_num(model.scores(rows))
            return np.clip(found, -_MOST_SCORE, _MOST_SCORE)

        return scores

    def _model(self, name: str, public: PublicFacts, coins: np.random.Generator | None = None) -> Logistic | Hidden:
        if name == "linear":
            return Logistic(public.num_features, public.num_classes, coins)
        return Hidden(public.num_features, self.width, public.num_classes, coins)

    def _trained(self, name: str, public: PublicFacts, graph: Graph, session: Session) -> Arrays:
        (y, ids, val), coins = labeled_nodes(graph), np.random.default_rng(session.seed)
        ids, val, x = drawn(ids, MOST_LEARNED, session.seed), drawn(val, MOST_HELD_OUT), features_of(graph)
        scale = _scales(x, ids)
        scaled = bool((scale > 1).any())
        rows, taken = (_scaled(x[ids], scale), None) if scaled else (x, ids)
        if not scaled and x.shape[0] > MOST_LEARNED and len(ids) * x.shape[1] * 4 <= MOST_HELD:
            rows, taken = rows_of(x, ids), None  # read in order once, and not at random in every pass
        model = self._model(name, public, coins)
        session.watch.curves[name] = train(
            model,
            rows,
            y[ids],
            ids=taken,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            held_out=(_scaled(x[val], scale) if scaled else rows_of(x, val), y[val]),
            coins=coins,
            batch_size=min(_BATCH, max(_LEAST_BATCH, len(ids) // _LEAST_STEPS)),
            weight_decay=0.0 if name == "linear" else 5e-4,
            patience=_PATIENCE,
            progress=session.watch.stage(name),
        )
        return {f"{name}.{part}": array for part, array in _unscaled(model.state, scale).items()}


def _scales(x: Matrix, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """The largest number of each column among the rows that train, where it is beyond -1 to 1, as ages are; else 1."""
    most = np.ones(x.shape[1], np.float32)
    for part in np.array_split(ids, -(-len(ids) // _ROWS_AT_ONCE) or 1):
        if len(part):
            ends = (x[part].max(axis=0), -x[part].min(axis=0))
            most = np.maximum(most, np.maximum(*(np.ravel(end.toarray() if sp.issparse(end) else end) for end in ends)))
    return most


def _scaled(rows: Matrix, scale: NDArray[np.float32]) -> Matrix:
    return sp.csr_matrix(rows @ sp.diags(1 / scale), dtype=np.float32) if sp.issparse(rows) else rows / scale


def _unscaled(state: State, scale: NDArray[np.float32]) -> State:
    """The state of a model that reads rows as they are, for one that learned on scaled rows."""
    first = "maps.0.weight" if "maps.0.weight" in state else "weight"
    return {**state, first: state[first] / scale}


def unused_features(public: PublicFacts, weights: Arrays) -> tuple[str, ...]:
    """Say why a graph-free model gives all nodes the same probabilities: no features, zero weights, or trees without a split."""
    if not public.num_features:
        return ("Features are not used: the graph has none.",)
    if "trees.left" in weights:
        own = np.arange(_NODES, dtype=np.float32)
        empty = bool((weights["trees.left"] == own).all())
    else:
        empty = not weights.get("linear.weight", np.ones(1)).any()
    return ("Features are not used: no model found anything in them.",) * empty


def grown(public: PublicFacts, graph: Graph, session: Session, most_work: int = 100_000_000) -> list[Arrays]:
    """Fit trees, 20 rounds at a time, until they predict the validation labels no better."""
    work = public.num_train * public.num_features * public.num_classes
    if not 0 < public.num_features <= _MOST_COLUMNS or work > most_work:
        return []
    (y, ids, val), x = labeled_nodes(graph), _dense(features_of(graph))
    if not len(val) or len(np.unique(y[ids])) < 2:
        return []
    told, rows = session.watch.stage("trees"), (x[ids], y[ids], x[val], y[val])
    read = b"".join(hashlib.sha256(np.ascontiguousarray(part).data).digest() for part in rows)
    key = read, graph.num_classes, session.seed
    trees = _kept.get(key)
    if trees is None:
        require("sklearn.ensemble")  # whose threads are limited only once they are loaded
        with require("threadpoolctl").threadpool_limits(1 if work < _LEAST_SHARED else None, "openmp"):
            trees = _fitted_trees(*rows, graph.num_classes, session.seed, told)
        if len(_kept) == _MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = trees
    elif told is not None:
        told(_ROUNDS, _ROUNDS)
    return [{f"trees.{name}": part.copy() for name, part in trees.items()}]


def _fitted_trees(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    held_x: NDArray[np.float32],
    held_y: NDArray[np.int64],
    num_classes: int,
    seed: int,
    told: Callable[[int, int], None] | None,
) -> Arrays:
    model = require("sklearn.ensemble").HistGradientBoostingClassifier(
        learning_rate=0.1, max_leaf_nodes=_LEAVES, early_stopping=False, warm_start=True, random_state=seed
    )
    least, kept = np.inf, {}
    for rounds in range(_AT_ONCE, _ROUNDS + 1, _AT_ONCE):
        model.set_params(max_iter=rounds).fit(x, y)
        if told is not None:
            told(rounds, _ROUNDS)
        found = tree_arrays(model, num_classes)
        loss = log_loss(tree_scores(found, held_x), held_y)
        if loss >= least:
            break
        least, kept = loss, found
    return kept


def tree_arrays(model: Any, num_classes: int) -> Arrays:
    """Copy the trees of a fitted HistGradientBoostingClassifier into arrays, padded to 100 rounds of 61 nodes.

    A threshold is rounded down to float32, which no comparison with a float32 feature notices. A leaf is its own child.
    """
    present = np.asarray(model.classes_)[1:] if len(model.classes_) == 2 else np.asarray(model.classes_)
    own = np.arange(_NODES, dtype=np.float64)
    arrays: dict[str, NDArray[Any]] = {name: np.zeros((_ROUNDS, num_classes, _NODES)) for name in _PARTS}
    arrays["left"][:] = arrays["right"][:] = own
    for number, trees in enumerate(model._predictors):
        for label, tree in zip(present, trees, strict=True):
            nodes = tree.nodes
            for name, field in _PARTS.items():
                arrays[name][number, label, : len(nodes)] = nodes[field]
            leaf = np.flatnonzero(nodes["is_leaf"])
            for name in ("left", "right"):
                arrays[name][number, label, leaf] = leaf
            arrays["threshold"][number, label, leaf] = 0
    arrays["baseline"] = np.full(num_classes, _ABSENT)
    arrays["baseline"][model.classes_] = 0
    arrays["baseline"][present] = np.ravel(model._baseline_prediction)
    rounded = {name: part.astype(np.float32) for name, part in arrays.items()}
    high = rounded["threshold"] > arrays["threshold"]
    rounded["threshold"][high] = np.nextafter(rounded["threshold"][high], np.float32(-np.inf))
    return rounded


def tree_scores(arrays: Arrays, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the scores of rows: the baseline and the values of the leaves that they reach."""
    scores = np.tile(arrays["baseline"], (len(x), 1)).astype(np.float64)
    rows = np.arange(len(x))
    feature, left, right = (arrays[name].astype(np.int64) for name in ("feature", "left", "right"))
    for number, label in np.argwhere(arrays["value"].any(2)):
        at = np.zeros(len(x), np.int64)
        tree = number, label
        for _ in range(_NODES):
            low = x[rows, feature[tree][at]] <= arrays["threshold"][tree][at]
            below = np.where(low, left[tree][at], right[tree][at])
            if np.array_equal(below, at):
                break
            at = below
        scores[:, label] += arrays["value"][tree][at]
    return scores.astype(np.float32)


def of_all_rows(function: Callable[[Matrix], NDArray[Any]], x: Matrix) -> NDArray[Any]:
    """What a function of rows gives for all of them, of very many dense ones a part after the other."""
    if sp.issparse(x):
        return function(x)
    return in_blocks(lambda first, last: function(x[first:last]), len(x), read=(x,))


def _dense(x: Any) -> NDArray[np.float32]:
    return np.asarray(x.toarray() if sp.issparse(x) else x, np.float32)
