"""Learning from a closed collection: its reports become those of a local method, over a graph of public tables.

**Formal guarantee.** All of it is post-processing of the reports, so any number of trainings costs users nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.catalog import method_for
from sfumato.collect._graph import Tables, graph_of, ids_of
from sfumato.collect._wire import PARTS, public_id
from sfumato.errors import DataError, InputError
from sfumato.local._blink import BITS, DEGREES
from sfumato.local._collection import ANSWERED, FEATURES, LABELS, USERS, packed, received
from sfumato.local._drop import Agreement
from sfumato.local._link_prediction import LinkPrediction
from sfumato.local._method import LocalMethod
from sfumato.local._shared_counts import COUNTS, SharedCounts
from sfumato.noise.coins import SecretWords
from sfumato.record._collected import Collected

if TYPE_CHECKING:
    from sfumato.collect._closed import Closed
    from sfumato.collect._schema import Schema
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan

_WANTED = {
    "lpgnn": "features or a label",
    "label-only": "a label and no features",
    "pgc": "features and no label",
    "pgc-links": "features and no label",
    "blink": "links",
}


@dataclass(frozen=True)
class Training:
    plan: Plan
    graph: Graph
    collected: Collected

    def fit(self, **how: Any) -> Fitted:
        """Fit the plan on the reports; ``how`` are the other arguments of :meth:`~sfumato.method._plan.Plan.fit`."""
        return self.plan.fit(self.graph, collected=self.collected, **how)

    def validation(self, fitted: Fitted) -> tuple[float, float, float]:
        """Estimate the accuracy of a ``fitted`` model from validation reports alone, without bias, and its 95 % interval.

        Of links it is the AUC of the public edges that decided when to stop, without an interval; of counts of cells it is
        :meth:`~sfumato.local._shared_counts.SharedCounts.validation`.
        """
        method = fitted.plan.method
        if isinstance(method, LinkPrediction):
            return (method.validation_auc(fitted.weights, self.graph),) * 3
        if isinstance(method, SharedCounts):
            return method.validation(self.graph, fitted.released[COUNTS])
        if isinstance(method, LocalMethod):
            held = received(method, self.graph, fitted.plan.public, fitted.released)
            return method.validation(fitted.weights, held)
        assert self.graph.y is not None
        nodes = np.flatnonzero(self.graph.val_mask)
        right = float((fitted.predict(self.graph) == self.graph.y)[nodes].mean())
        return Agreement(np.eye(self.graph.num_classes)).accuracy(right, len(nodes))


def prepare(
    closed: Closed, tables: Tables, word: str, preset: str | None = None, settings: Sequence[str] = ()
) -> Training:
    """Make a training of a closed collection; nothing is asked of anyone."""
    if closed.schema.anonymous:
        raise DataError(
            "Expected reports that are tied to nodes of a graph, got an anonymous survey. `sfumato collect estimate` reads it."
        )
    method = method_of(word, closed.schema, preset, settings)
    graph = graph_of(closed, tables, labeled=method.card.reads_labels)
    plan: Plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    reports = collected(closed, graph)
    if not closed.schema.links:
        check_joined(graph, reports.reports[USERS] >= 0, "reported")
    return Training(plan, graph, reports)


def check_joined(graph: Graph, reported: NDArray[np.bool_], did: str) -> None:
    """Refuse links that join no two users who ``did`` so: the table most likely names users in another way."""
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    if (reported[sources] & reported[graph.indices]).any():
        return
    ids = ids_of(graph)
    linked = next((ids[place] for place in graph.indices[~reported[graph.indices]][:1]), None)
    of_table = "which has no edge" if linked is None else f"which names nodes such as {linked!r}"
    raise DataError(
        f"Expected an edge between two users who {did}, such as {ids[int(reported.argmax())]!r}, got none in the table of "
        f"edges, {of_table}. Name users there as the collection does."
    )


def method_of(word: str, asked: Schema, preset: str | None = None, settings: Sequence[str] = ()) -> Any:
    """Build the method that learns from what users were asked; budgets and randomizers are those of the schema.

    Other ``settings`` are words NAME=VALUE.
    """
    has = frozenset(asked.parts)
    fits = {
        "lpgnn": "links" not in has,
        "label-only": has == {"label"},
        "pgc": has == {"features"},
        "pgc-links": has == {"features"},
        "blink": "links" in has,
    }
    if word not in fits:
        why = "It learns from what two servers opened." if word == "shared-counts" else "Its users trust nobody."
        raise InputError(f"Expected one of {', '.join(fits)} with a collection, got {word!r}. {why}")
    if not fits[word]:
        raise InputError(
            f"Expected a collection that asks for {_WANTED[word]} with {word}, got one that asks for "
            f"{' and '.join(asked.parts)}. Take one of {', '.join(name for name, fit in fits.items() if fit)}."
        )
    fixed = {"degree_share": asked.links.degree_share} if asked.links else settings_of(asked)
    for name in (one.partition("=")[0].strip() for one in settings):
        if name in fixed:
            raise InputError(
                f"Expected no --set {name} with a collection: its schema fixes it, and devices answered by it. Drop it."
            )
    if asked.links:
        return replace(method_for("blink", {"epsilon": asked.links.epsilon, "set": settings}), **fixed)
    budgets = {name: math.inf if fixed[name] is None else fixed[name] for name in ("epsilon_x", "epsilon_y")}
    if preset is not None and not asked.features:
        raise InputError(f"Expected no `preset` with a collection without features, got {preset!r}. Drop it.")
    if preset is not None and word == "pgc-links":
        raise InputError(f"Expected no `preset` with `task` link, got {preset!r}. Drop it.")
    if word == "label-only":
        del budgets["epsilon_x"]
    return replace(method_for(word, {**budgets, "preset": preset, "set": settings}), **fixed)


def settings_of(asked: Schema) -> dict[str, Any]:
    """Return the settings of :class:`~sfumato.randomizers._questions.Questions` that a schema without links fixes."""
    settings: dict[str, Any] = {"epsilon_x": 0.0, "epsilon_y": None, "paper_rule": False, "low": 0.0, "high": 1.0}
    if asked.features:
        same = ("epsilon_x", "mechanism", "cap", "per_feature", "delta")
        settings |= {name: getattr(asked.features.questions, name) for name in same}
    if asked.label:
        settings |= {"epsilon_y": asked.label.epsilon, "label_mechanism": asked.label.mechanism}
    return settings


def collected(closed: Closed, graph: Graph) -> Collected:
    schema, places = closed.schema, {one: place for place, one in enumerate(ids_of(graph))}
    users, answered = np.full(graph.num_nodes, -1, np.int64), np.zeros(graph.num_nodes, np.uint8)
    given: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in schema.parts}
    for report in closed.reports:
        row = places[report.user]
        users[row] = public_id(schema, report.user)
        answered[row] = sum(1 << PARTS.index(name) for name in report.answers)
        for name, answer in report.answers.items():
            given[name][row] = answer
    found: dict[str, NDArray[Any]] = {USERS: users, ANSWERED: answered}
    if schema.features:
        found[FEATURES] = _rows(given["features"], graph.num_nodes, _empty(schema))
    if schema.label:
        found[LABELS] = np.full(graph.num_nodes, -1, np.int32)
        for row, (one,) in given["label"].items():
            found[LABELS][row] = one
    if schema.links:
        found |= _lists(given["links"], graph.num_nodes)
    facts = {
        "name": schema.collection,
        "sha256": closed.sha256,
        "schema": schema.sha256,
        "reports": len(closed.messages),
        "opens": schema.opens,
        "closes": schema.closes,
    }
    return Collected(found, facts, b"".join(closed.pieces()))


def _empty(asked: Schema) -> NDArray[np.integer]:
    """One report about features in the type and width of all; its numbers mean nothing."""
    assert asked.features is not None
    zeros = np.zeros((1, asked.features.num_features))
    return packed(asked.features.randomizer.encode(zeros, SecretWords(bytes(32))))


def _rows(answers: Mapping[int, tuple[int, ...]], count: int, like: NDArray[np.integer]) -> NDArray[Any]:
    rows = np.zeros((count, like.shape[1]), like.dtype)
    if answers:
        rows[list(answers)] = np.array(list(answers.values()))
    return rows


def _lists(answers: Mapping[int, tuple[int, ...]], count: int) -> dict[str, NDArray[Any]]:
    """Noisy degrees, and packed bits with a 0 about oneself."""
    degrees, bits = np.zeros(count, np.int64), np.zeros((count, -(-count // 8)), np.uint8)
    for row, (degree, *said) in answers.items():
        degrees[row] = degree
        bits[row] = np.packbits(np.insert(np.array(said, np.uint8), row, 0), bitorder="little")
    return {DEGREES: degrees, BITS: bits}
