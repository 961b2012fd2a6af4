"""A fitted model answers with ids and labels, and with what is decided from its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_kind
from sfumato.errors import DataError, InputError
from sfumato.graph._facts import labeled_mask
from sfumato.graph._graph import Graph
from sfumato.graph._splits import DEFAULT_FRACTIONS
from sfumato.graph._targets import MULTILABEL, NUMBER
from sfumato.method._deciding import decide
from sfumato.method._decisions import Decision
from sfumato.method._rows import ReleasedRows
from sfumato.method.predictions import Predictions, joined
from sfumato.scoring._detail import RUN, evaluated
from sfumato.scoring._groups import Groups

if TYPE_CHECKING:
    from sfumato.method._choosing import NoisyCounts
    from sfumato.method._explaining import Explanation

_NO_DECISION = Decision()


@runtime_checkable
class _Counting(Protocol):
    """What calibrates sets: a run of its own, that counts the probabilities of another."""

    trained: Any

    def noisy(self, released: Any, epsilon: float) -> NoisyCounts: ...


class Answers(ReleasedRows):
    """Answers of a fitted model, with ids and labels in place of numbers."""

    if TYPE_CHECKING:
        collection: bytes | None

        @property
        def unused(self) -> tuple[str, ...]: ...
        def predict(self, graph: Graph) -> NDArray[Any]: ...
        def predict_proba(self, graph: Graph) -> NDArray[np.float32]: ...

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes, in the order of the columns of ``predict_proba``."""
        return np.array(self.graph_key.classes)

    def has_roles(self, graph: Graph) -> bool:
        """Return whether the roles of a ``graph`` are those of the fit, as far as the run knows."""
        known = self.graph_key.identity
        if graph.roles is None or known is None or not known.roles:
            return graph.roles is not None and bool(graph.train_mask.sum() == self.plan.public.num_train)
        rows = known.rows(graph)
        return rows is not None and known.has_roles(graph.roles[rows])

    def predictions(self, graph: Graph, calibration: Answers | None = None, **asked: Any) -> Predictions:
        """Return what is predicted for every node, with ids and labels; this spends nothing.

        The audience of answers is in the certificate: where features are protected, each is for its own node alone. ``asked``
        are fields of :class:`~sfumato.method._decisions.Decision`, which say what else is decided: ``coverage``, ``each_class``,
        ``positive``, ``threshold``, ``top_share``, ``top_count``, ``class_weight``.

        ``graph`` is the one that was fitted, with its roles; without any it is split as ``fit`` does. ``calibration`` is
        what calibrates sets where labels are protected: the fitted plan of
        :func:`~sfumato.central._set_calibration.calibrate_sets`.

        Raises:
            InputError: the graph is another, the run cannot decide what is asked, or ``calibration`` is not of this run.
        """
        decision = Decision(**asked)
        counts = None if calibration is None else self._counts_of(calibration)
        graph = self._with_roles(graph)
        return predictions_of(self, graph, None, decision, counts)

    def _counts_of(self, calibration: Any) -> NoisyCounts:
        """The counts that were released for this run."""
        counting = calibration.plan.method if isinstance(calibration, Answers) else None
        if not isinstance(counting, _Counting) or not self._is_run(counting.trained):
            raise InputError(
                "Expected calibration to be sf.calibrate_sets(fitted, budget).fit(graph), made for this run, got something else. "
                "Where labels are public, leave it out: sets cost nothing."
            )
        return counting.noisy(calibration.released, calibration.certificate.epsilon)

    def explain(self, graph: Graph, node: Any) -> Explanation:
        """Return which own features and released rows moved what is predicted for a ``node``, by its id; this spends nothing.

        It is for whoever may see the prediction of this node. :mod:`~sfumato.method._explaining` has the formula. The model is
        explained, also where a training node is told its known label.

        Raises:
            InputError: the ``graph`` is not the fitted one, it has no such node, or the method mixes nodes when it predicts.
        """
        from sfumato.method._explaining import explained, row_of

        return explained(self, graph, row_of(graph, node))

    def evaluate(
        self,
        graph: Graph,
        *,
        by: Sequence[Any] | NDArray[Any] | Groups | None = None,
        floor: Answers | None = None,
    ) -> dict[str, Any]:
        """Score the test nodes, as ``sfumato evaluate --json`` does.

        It reads true labels, and ``detail`` reads degrees. So it is evaluation, outside the guarantee, except for the scores of a
        unit that leaves labels public. Nothing of a release depends on it, and nothing is charged.

        Args:
            graph: the one that was fitted, with its labels and roles; without roles it is split as ``fit`` does.
            by: the group of each node, such as a column of the table of nodes: ``detail`` then has scores by group.
            floor: a model without the graph, such as one that ``sfumato train --save-floor`` saved, to stand beside.

        Returns:
            ``test_scores`` by name, ``without_information`` (those of one answer for all), ``control_scores`` (of the floor), of
            classes ``detail`` (scores by class and degree, confusion, reliability, lift), ``unused``, ``method`` and ``target``.

        Raises:
            InputError: the graph is another or has other roles, ``by`` is no value for each node, or the run learned from reports
                alone.
            DataError: no node has a label, or no test node.

        >>> from sfumato.central._labels import LabelMessages
        >>> from sfumato.graph._synthetic import campus
        >>> from sfumato.privacy.budget import Budget
        >>> from sfumato.privacy.units import EdgeLevel
        >>> graph, unit = campus(200), EdgeLevel(directed=False)
        >>> plan = LabelMessages().calibrate(Budget(4.0, 1e-6), unit, graph.public_facts(unit))
        >>> found = plan.fit(graph).evaluate(graph)
        >>> found["test_scores"]["accuracy"] > found["without_information"]["accuracy"]
        True
        """
        if self.collection is not None and graph.y is None:
            raise InputError(
                "Expected a run with true labels to score it by, got one on a collection, whose reports alone are known."
            )
        if floor is not None:
            check_kind(Answers, "Pass a fitted model, such as plan.fit(graph) or sf.load(folder).", floor=floor)
        graph = self._with_roles(graph)
        if not labeled_mask(graph).any():
            raise DataError(
                f"Expected graph {graph.name!r} to have a label to score by, got none. Read it with its labels."
            )
        self.check_fitted(graph)
        if not self._is_elsewhere() and not self.has_roles(graph):
            raise InputError(
                "Expected the graph with the roles that were fitted, got others: its test nodes may have been trained on. Pass "
                "graph.with_split(...) or graph.with_roles(...) as for fit."
            )
        if by is not None and not isinstance(by, Groups):
            by = Groups.of(str(getattr(by, "name", None) or "group"), np.asarray(by))
        beside: dict[str, Answers] = {} if floor is None else {"floor": floor}
        return {
            "method": self.plan.method.name,
            **evaluated({RUN: self, **beside}, graph, by),
            "unused": list(self.unused),
            "evaluation_private": False,
        }

    def _is_run(self, other: Any) -> bool:
        """Whether another fitted model learned and released the same as this one, as one that was loaded has."""
        pairs = ((self.weights, other.weights), (self.released, other.released))
        alike = (
            one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one) for one, two in pairs
        )
        return other is self or all(alike)

    def _is_elsewhere(self) -> bool:
        """Whether another graph is answered for than the one that was learned from."""
        return self.plan.method.origin is not None or bool(self.certificate.values["composition"]["builds_on"])

    def _with_roles(self, graph: Graph) -> Graph:
        """The graph with its own roles, or with those that ``fit`` gives it."""
        check_kind(Graph, "Make one with sf.graph.from_frames or sf.graph.read_csv.", graph=graph)
        if graph.roles is not None:
            return graph
        found = self.as_fitted(graph)
        split = self.plan.unit.split or DEFAULT_FRACTIONS
        roles = found.graph.with_split(split, labeled="labels" in self.plan.unit.public).roles
        assert roles is not None
        return graph.with_roles(found.back(roles))


def predictions_of(
    fitted: Answers,
    graph: Graph,
    probabilities: NDArray[np.float32] | None = None,
    decision: Decision = _NO_DECISION,
    calibration: NoisyCounts | None = None,
) -> Predictions:
    """Predict every node of a graph; of another predictor than the model ``probabilities`` are given.

    ``calibration`` are released counts that calibrate sets; None where labels are public, or no sets are asked for.
    """
    from sfumato.graph._checks import ROLES

    classes, kind = tuple(fitted.graph_key.classes), fitted.plan.public.target
    elsewhere = fitted._is_elsewhere()
    decision.check(
        fitted.plan.unit,
        kind,
        classes,
        elsewhere=elsewhere or probabilities is not None,
        calibrated=calibration is not None,
    )
    told: tuple[str, ...] = ()
    if kind == NUMBER:
        classes, table = (), np.empty((graph.num_nodes, 0), np.float32)
        told = tuple(f"{value:.6g}" for value in fitted.predict(graph).tolist())
    else:
        table = fitted.predict_proba(graph) if probabilities is None else probabilities
    if kind == MULTILABEL:
        told = tuple(_joined(classes, row) for row in table > 0.5)
    roles = known = ("",) * graph.num_nodes
    if not elsewhere and graph.roles is not None and fitted.has_roles(graph):
        roles = tuple(ROLES[role] for role in graph.roles)
    if "labels" in fitted.plan.unit.public and graph.y is not None:
        known = tuple(graph.classes[label] if label >= 0 else "" for label in graph.y)
    if "labels" in fitted.plan.unit.public and graph.targets is not None:
        values = graph.targets.values
        known = tuple(_joined(classes, row == 1) if classes else f"{row[0]:.6g}" for row in values)
        known = tuple(text if there else "" for text, there in zip(known, graph.targets.known, strict=True))
    answered = fitted.plan.method.card.returns_known
    returned = np.array(
        [answered and role == "train" and label != "" for role, label in zip(roles, known, strict=True)]
    )
    nodes = tuple(range(graph.num_nodes)) if graph.node_ids is None else tuple(graph.node_ids.tolist())
    unit = fitted.plan.unit
    counts = not unit.private or "features" in unit.public
    return decide(
        Predictions(nodes, classes, table, roles, known, returned, told),
        decision,
        counts=counts,
        calibration=calibration,
    )


def _joined(labels: tuple[str, ...], there: NDArray[np.bool_]) -> str:
    """The labels that a node has, in one cell of a table."""
    return joined(name for name, one in zip(labels, there.tolist(), strict=True) if one) or "none"
