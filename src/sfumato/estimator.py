"""A private node classifier with the habits of scikit-learn: node ids go in, classes come out."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._optional import require
from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.catalog import method_for
from sfumato.errors import InputError, NotFittedError
from sfumato.graph._declared import CLASSES
from sfumato.graph._unique import facts_of_classes
from sfumato.method._checks import check_graph
from sfumato.method._choosing import balanced
from sfumato.method._decisions import Decision
from sfumato.method._opening import warn_of_repeated
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Declared, Unit, unit_named
from sfumato.record._dataset_ledger import DatasetLedger

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._explaining import Explanation
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Method
    from sfumato.record._certificate import Certificate

_ADD_UP = (
    "Cross-validation and searches fit once for every fold. Fit once, or set ledger and total_epsilon, so that a fit that would "
    "cost more is refused."
)
_CALIBRATED = ("auto", "linear", "piloted-messages")  # for a charge, by validation nodes where labels are protected


@dataclass(eq=False, repr=False)
class PrivateGraphClassifier:
    """A private graph classifier learns from the nodes that ``fit`` names, and predicts for any node of its graph.

    **Formal guarantee.** That of the method under the unit, at (epsilon, delta): ``certificate_`` states it. Every call of
    ``fit`` is a release of its own: two fits cost the sum of both, so that cross-validation with k folds costs k fits. With
    ``ledger``, every fit is charged there, and one that would overspend is refused; without it, a second fit on one graph
    warns of what both cost. Which nodes train is public, as roles are.

    Methods of a trusted curator alone are meant: local methods state two epsilons.

    Args:
        graph: the whole graph, with ids, features and labels.
        method: the word of a method on the command line, such as ``auto`` or ``gap``, or a method with settings.
        unit: the word of a privacy unit, such as ``edge`` or ``node``, or a unit.
        epsilon: the most that one fit may spend.
        delta: the same for delta; a public number far below 1 / (number of records).
        ledger: the file of the data set's ledger, which every fit is charged to; None charges nothing but the certificate.
        total_epsilon: the most that all fits together may cost; a new ledger needs it.
        total_delta: the same for delta; None takes ten times that of the first fit, which must then be above 0.
        seed: public seed of initialization.
        class_weight: ``balanced`` predicts as if all classes were equally many, where labels are public; probabilities stay as
            they are.
        assume_public: whether classes, categories and ranges that nobody declared are taken for public where they are protected
            (:meth:`~sfumato.graph._graph.Graph.public_facts`).
        validation_fraction: share of the nodes of ``fit`` that choose and calibrate, drawn by ``seed``: where labels are public,
            and with auto, linear and piloted-messages; elsewhere none do.
        threads: how many threads of Torch and Numba compute a fit; None as :meth:`sfumato.method._plan.Plan.fit` says.

    After ``fit`` there are ``classes_`` (array of the classes), ``certificate_`` and ``fitted_``
    (:class:`~sfumato.method._plan.Fitted`, which can be saved).

    >>> from sfumato.graph._synthetic import campus
    >>> classifier = PrivateGraphClassifier(campus(300), epsilon=4.0)
    >>> nodes = np.arange(300)
    >>> classifier.fit(nodes[:200]).predict(nodes[200:]).shape
    (100,)
    >>> round(classifier.certificate_.epsilon, 6)
    4.0
    """

    _estimator_type = "classifier"

    graph: Graph
    method: str | Method = "auto"
    unit: str | Unit = "edge"
    epsilon: float = 1.0
    delta: float = 1e-6
    ledger: str | Path | None = None
    total_epsilon: float | None = None
    total_delta: float | None = None
    seed: int = 0
    class_weight: str | None = None
    assume_public: bool = False
    threads: int | None = None
    validation_fraction: float = 0.1
    classes_: NDArray[Any] = field(init=False)
    certificate_: Certificate = field(init=False)
    fitted_: Fitted = field(init=False)
    _graph: Graph = field(init=False)

    def fit(self, nodes: Any, y: Any = None) -> PrivateGraphClassifier:
        """Train on some nodes and their arcs. This spends (epsilon, delta), again at every call.

        Where labels are protected, choose the nodes without looking at labels: the certificate assumes that the choice is public.

        Args:
            nodes: ids of the training nodes, each once: [num_train] or [num_train, 1].
            y: their labels [num_train], by name or by the number in ``graph.y``, as ``classes_`` then are; None takes those of
                the graph. With ``y`` the other labels of the graph are not read.

        Raises:
            InputError: an id is not in the graph or stands twice, a label is of no class, or a parameter does not fit.
            BudgetExceededError: the ledger has less left than a fit costs. Nothing was released.
        """
        check_graph(self.graph)
        if self.graph.targets is not None:
            raise InputError(
                "Expected a graph with classes, got one with other targets. Use a plan: sf.GAP().calibrate(...).fit(graph)."
            )
        rows = _rows(nodes, self.graph)
        if len(set(rows.tolist())) < len(rows):
            raise InputError("Expected every training node once, got one twice. Remove the second.")
        graph, classes = (self.graph, np.array(self.graph.classes)) if y is None else self._labeled(rows, y)
        unit, method = self.unit, self.method
        if isinstance(unit, str):
            most: dict[str, Any] = {
                "edges_per_person": graph.edges_per_person,
                "nodes_per_person": graph.nodes_per_person,
            }
            unit = unit_named(unit, Declared(graph.directed, graph.max_degree, **most))
        graph = graph.with_roles(self._roles(rows, unit, method))
        if isinstance(method, str):
            method = method_for(method, {})
        Decision(class_weight=self.class_weight).check(unit, None, tuple(classes))
        budget = Budget(self.epsilon, self.delta) if unit.private else None
        ledger = None if self.ledger is None else DatasetLedger(Path(self.ledger), self.total_epsilon, self.total_delta)
        charged = method if ledger is None else method.charged_to(ledger.rule)
        plan = charged.calibrate(budget, unit, graph.public_facts(unit, assume_public=self.assume_public))
        if plan.epsilon and ledger is None:
            plan.check(graph)  # a fit that is refused is none
            warn_of_repeated(self.graph, type(self).__name__, plan.epsilon, _ADD_UP)
        self.fitted_ = plan.fit(graph, seed=self.seed, dataset_ledger=ledger, threads=self.threads)
        self.certificate_ = self.fitted_.certificate
        self.classes_, self._graph = classes, graph
        return self

    def predict_proba(self, nodes: Any) -> NDArray[np.float32]:
        """Compute the probabilities of the classes, [num_rows, num_classes]; this spends nothing.

        ``nodes`` are ids of any nodes of the graph, in any order. Who may see the answers is in ``certificate_``: where features
        are protected, an answer that reads a node's own features is for that node alone.

        Raises:
            NotFittedError: nothing was fitted.
            InputError: an id is not in the graph.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("Expected a fitted classifier, got one that was never fitted. Call fit(nodes) first.")
        return self.fitted_.predict_proba(self._graph)[_rows(nodes, self._graph)]

    def predict(self, nodes: Any) -> NDArray[Any]:
        """Return the class of every node in ``nodes``, one of ``classes_``; this spends nothing.

        It is the most probable one, or with ``class_weight`` the one that would be if all classes were equally many.
        """
        best = self._best(nodes)
        classes: NDArray[Any] = self.classes_[best]
        return classes

    def explain(self, node: Any) -> Explanation:
        """Return which own features and released rows moved what is predicted for one ``node``, by its id; this spends nothing.

        It is for whoever may see the prediction of this node, and speaks of the most probable class.

        Raises:
            NotFittedError: nothing was fitted.
            InputError: the id is not in the graph, or the method mixes nodes when it predicts.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("Expected a fitted classifier, got one that was never fitted. Call fit(nodes) first.")
        return self.fitted_.explain(self._graph, node)

    def _best(self, nodes: Any) -> NDArray[np.int64]:
        """The number of the class that each node is told."""
        found = self.predict_proba(nodes)
        if self.class_weight is None:
            best: NDArray[np.int64] = found.argmax(axis=1)
            return best
        assert self._graph.y is not None
        return balanced(found, self._graph.y[self._graph.train_mask & (self._graph.y >= 0)])

    def score(self, nodes: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of right predictions. It reads true labels, so it is outside the guarantee.

        Args:
            nodes: ids of nodes.
            y: their labels; None takes those of the graph and leaves out nodes without one.
            sample_weight: how much each node counts; None counts all the same.

        Raises:
            InputError: an id is not in the graph, no node has a label, or there are not as many labels or weights as nodes.
        """
        right, counted = self._right(nodes, y)
        weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        _check_length(right, sample_weight=weights)
        if not (weights * counted).sum() > 0:
            raise InputError("Expected a node with a label to score by, got none. Pass y.")
        return float(np.average(right, weights=weights * counted))

    def _right(self, nodes: Any, y: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which predictions are right, and which have a label beside them."""
        best = self._best(nodes)
        if y is not None:
            y = np.asarray(y)
            _check_length(best, y=y)
            return np.array(self._graph.classes)[best] == _named(y, self._graph.classes), np.ones(len(best), dtype=bool)
        if self.graph.y is None:
            raise InputError("Expected labels to score by, got none in the graph. Pass y.")
        known = self.graph.y[_rows(nodes, self.graph)]
        return np.array(self._graph.classes)[best] == np.array(self.graph.classes)[known], known >= 0

    def _roles(self, rows: NDArray[np.int64], unit: Unit, method: str | Method) -> NDArray[np.uint8]:
        """The roles of all nodes: some of the named ones are validation nodes where the method reads them."""
        share = check_real(low=0, high=1, open_high=True, validation_fraction=self.validation_fraction)
        seed = check_int(low=0, high=2**32 - 1, seed=self.seed)
        roles = np.full(self.graph.num_nodes, 3, dtype=np.uint8)
        roles[rows] = 0
        name = method if isinstance(method, str) else method.name
        if "labels" in unit.public or name in _CALIBRATED:
            held = int(share * len(rows))
            roles[np.random.default_rng(seed).choice(np.sort(rows), held, replace=False)] = 1
        return roles

    def _labeled(self, rows: NDArray[np.int64], y: Any) -> tuple[Graph, NDArray[Any]]:
        """The graph with these labels alone, and its classes, as numbers if the labels are."""
        y = np.asarray(y)
        _check_length(rows, y=y)
        declared = self.graph.classes
        names = list(declared) or np.unique(y).astype(str).tolist()
        classes, told = np.array(declared) if declared else np.unique(y), _named(y, declared)
        if declared and y.dtype.kind in "iu":
            if (told != y.astype(str)).any():
                classes = np.arange(len(names))
            elif all(name.lstrip("-").isdigit() for name in names):
                classes = classes.astype(y.dtype)
        if not set(told) <= set(names):
            remedy = "Pass their names, or the numbers in graph.y, which no name may be."
            raise InputError(f"Expected y to hold classes of the graph ({', '.join(names)}), got others. {remedy}")
        labels = np.full(self.graph.num_nodes, -1)
        labels[rows] = [names.index(name) for name in told]
        read = () if declared else facts_of_classes(names, np.bincount(labels[rows]).tolist())
        assumed = (*self.graph.assumed_public, *read)
        fields = {"y": labels, "classes": tuple(names), "assumed_public": assumed}
        undeclared = self.graph.undeclared if declared else (*self.graph.undeclared, CLASSES)
        return self.graph.changed(**fields, undeclared=undeclared), classes

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` changes nothing, since none of them is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> PrivateGraphClassifier:
        """Set some parameters; what was fitted stays as it is until the next ``fit``.

        Raises:
            InputError: there is no such parameter.
        """
        for name, value in params.items():
            check_choice(tuple(self.get_params()), parameter=name)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        shown = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __sklearn_clone__(self) -> PrivateGraphClassifier:
        return type(self)(**self.get_params())  # the graph is shared: it never changes

    def __sklearn_tags__(self) -> Any:
        utils = require("sklearn.utils")
        return utils.Tags(
            estimator_type="classifier",
            target_tags=utils.TargetTags(required=False),
            classifier_tags=utils.ClassifierTags(),
            input_tags=utils.InputTags(one_d_array=True, string=True, categorical=True),
            non_deterministic=True,
            no_validation=True,
        )


def _check_length(rows: NDArray[Any], **given: NDArray[Any]) -> None:
    """Refuse other than one label or weight for each node."""
    ((name, values),) = given.items()
    if values.shape != rows.shape:
        what = "label" if name == "y" else "weight"
        remedy = f"Pass as many {what}s as nodes."
        raise fail(name, values.shape, f"to be one {what} for each node, shape {rows.shape}", remedy)


def _named(y: NDArray[Any], names: Sequence[str]) -> NDArray[np.str_]:
    """The names of classes that labels mean: themselves, or where they are numbers that no name is, those at these places."""
    told: NDArray[np.str_] = y.astype(str)
    numbers = [str(number) for number in range(len(names))]
    if y.dtype.kind in "iu" and set(told.tolist()) <= set(numbers) and not set(names) & set(numbers):
        told = np.array(names)[y]
    return told


def _rows(nodes: Any, graph: Graph) -> NDArray[np.int64]:
    ids = np.asarray(nodes)
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1 or not len(ids):
        raise fail("nodes", ids.shape, "to be a list of node ids", "Pass ids, not features: the graph holds those.")
    known = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    texts, names = ids.astype(str), known.astype(str)
    order = np.argsort(names)
    rows: NDArray[np.int64] = order[np.minimum(np.searchsorted(names[order], texts), len(names) - 1)]
    absent = np.flatnonzero(names[rows] != texts)
    if len(absent):
        raise fail("nodes", texts[absent[0]].item(), "to be ids of the graph", "See graph.node_ids.")
    return rows
