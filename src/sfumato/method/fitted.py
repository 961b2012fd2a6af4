"""A trained model with its released aggregates and certificate, so that predicting never spends again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import InputError, LedgerError
from sfumato.graph.graph import Graph, PublicFacts
from sfumato.method.method import Arrays, GraphKey, Method, settings_of
from sfumato.method.plan import Plan, make_plan
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Unit, unit_from_dict, unit_to_dict
from sfumato.record.certificate import MOST_ORIGINS, Certificate
from sfumato.record.ledger import Ledger, Release
from sfumato.record.release_folder import StoredRun, write_release

_CACHE = "cache/"


@dataclass(frozen=True)
class Fitted:
    """A trained model with its released aggregates and certificate.

    ``predict`` and ``predict_proba`` answer for the graph that was fitted, from cached releases and the nodes' own
    features: they never read arcs. For another graph see :meth:`calibrate_inference`.
    """

    plan: Plan
    weights: Arrays
    released: Arrays
    certificate: Certificate
    ledger: Ledger
    graph_key: GraphKey
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def predict_proba(self, graph: Graph) -> NDArray[np.float32]:
        """Class probabilities of every node of the fitted graph, float32 [num_nodes, num_classes]; spends nothing.

        Raises:
            InputError: another graph (other node ids), whose arcs would be read: that is a new plan.
        """
        key = GraphKey.of(graph)
        if (key.num_nodes, key.ids_digest) != (self.graph_key.num_nodes, self.graph_key.ids_digest):
            raise InputError(
                f"Expected the fitted graph ({self.graph_key.num_nodes} nodes), got {graph.name!r} with other node ids. "
                "Predicting on another private graph spends budget: use calibrate_inference(budget, unit, public).fit(graph)."
            )
        self._check_features(key, graph)
        scores = self.plan.method.scores(self.plan, self.weights, self.released, graph)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, graph: Graph) -> NDArray[np.int64]:
        """Most probable class of every node, int64 [num_nodes]."""
        return self.predict_proba(graph).argmax(axis=1)

    def calibrate_inference(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Plan the private aggregation of *another* graph with this model; its charge is in the plan before it is spent.

        ``plan.fit(other)`` gives a :class:`Fitted` for that graph; no weight changes.

        Raises:
            InputError: the method has no inductive form, or ``public`` has other numbers of features or classes.
        """
        inductive = getattr(self.plan.method, "inductive", None)
        if inductive is None:
            raise InputError(f"Method {self.plan.method.name!r} has no private inference on another graph.")
        if public.num_classes == 0:
            public = replace(public, num_classes=self.plan.public.num_classes)
        if unit != self.plan.unit:
            raise fail(
                "unit",
                unit,
                f"to be the unit of training, {self.plan.unit}",
                "Weights trained under another unit would be certified for more than they protect.",
            )
        for name in ("num_features", "num_classes"):
            trained, found = getattr(self.plan.public, name), getattr(public, name)
            if trained != found:
                raise fail(f"public.{name}", found, f"to be {trained} as in training", "Read both with one schema.")
        origin = self._origin()
        if len(origin) > MOST_ORIGINS:
            remedy = "Infer with the model that was trained, not with one that was inferred."
            raise fail("builds_on", len(origin), f"to hold at most {MOST_ORIGINS} runs", remedy)
        return make_plan(inductive(self.weights, self.graph_key, origin), budget, unit, public)

    def _origin(self) -> tuple[dict[str, Any], ...]:
        """For the certificate of an inference: the runs its weights come from."""
        claim = {"epsilon": self.certificate.epsilon, "delta": self.certificate.delta}
        return (*self.certificate.values["composition"]["builds_on"], {"ledger_head": self.ledger.head, **claim})

    def _check_features(self, key: GraphKey, graph: Graph) -> None:
        if graph.num_features != self.plan.public.num_features or key.feature_names != self.graph_key.feature_names:
            raise InputError(
                f"Expected the {self.plan.public.num_features} feature columns that the model was trained with, got "
                f"{graph.num_features} or other names. Read both tables with one schema."
            )

    def save(self, directory: str | Path, *, sign_key: Path | None = None) -> Path:
        """Write a run folder: ``release/`` with weights, releases, ledger, certificate, manifest.

        Without privacy nothing was released: what prediction needs is kept with the weights.
        """
        plan = self.plan
        spec = {
            "format": 1,
            "method": plan.method.name,
            "settings": settings_of(plan.method),
            "unit": unit_to_dict(plan.unit),
            "budget": asdict(plan.budget) if plan.budget else None,
            "public": plan.public.to_dict(),
            "graph": asdict(self.graph_key),
        }
        private = plan.epsilon is not None
        cached = {} if private else {_CACHE + name: array for name, array in self.released.items()}
        return write_release(
            Path(directory),
            self.certificate,
            self.ledger,
            json.loads(json.dumps(spec)),
            {**self.weights, **cached},
            self.released if private else {},
            sign_key,
        )

    @classmethod
    def from_stored(cls, stored: StoredRun, method: Method) -> Fitted:
        """Rebuild what :meth:`save` wrote."""
        spec, certificate = stored.spec, Certificate(stored.certificate)
        _check_spec(spec, stored.certificate)
        entries = [json.loads(line) for line in stored.ledger_text.splitlines()]
        plan_entry = entries[0]["plan"]
        releases = tuple(Release.from_dict(release) for release in plan_entry["releases"])
        public = PublicFacts(**_tuples(spec["public"]))
        budget = Budget(**spec["budget"]) if spec["budget"] else None
        unit = unit_from_dict(spec["unit"])
        plan = Plan(method, unit, budget, public, releases, certificate.epsilon, certificate.delta)
        ledger = Ledger({k: v for k, v in plan_entry.items() if k != "releases"}, releases)
        for release in releases:
            ledger.charge(release.name)
        if ledger.head != entries[-1]["hash"]:
            raise LedgerError("The stored ledger does not hold exactly the planned releases. See `sfumato verify`.")
        cached = {k.removeprefix(_CACHE): v for k, v in stored.weights.items() if k.startswith(_CACHE)}
        weights = {k: v for k, v in stored.weights.items() if not k.startswith(_CACHE)}
        return cls(
            plan, weights, {**stored.released, **cached}, certificate, ledger, GraphKey(**_tuples(spec["graph"]))
        )


def _check_spec(spec: dict[str, Any], certificate: dict[str, Any]) -> None:
    """Refuse a spec that says something else than the certificate: unit and budget decide what predicting may read."""
    budget = certificate["budget"]
    stated = {
        "method": certificate["method"],
        "settings": certificate["settings"],
        "unit": certificate["unit"],
        "budget": budget if budget["epsilon"] is not None else None,
        "public": {**certificate["public_facts"], "assumed": certificate["assumed_public"]},
    }
    for name, value in stated.items():
        if spec[name] != value:
            raise LedgerError(f"Field {name!r} of spec.json differs from the certificate. See `sfumato verify`.")


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
