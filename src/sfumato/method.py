"""The contract of every method: construct with what is public, ``calibrate`` to a plan, ``fit`` on a graph, predict.

A :class:`Plan` is complete before any data is seen: noise, events, releases, and the epsilon they cost. ``fit`` is the
only call that touches private data; it writes each release to the ledger before computing it and ends with a
certificate. A :class:`Fitted` keeps weights and released aggregates, so predicting never spends again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato import __version__
from sfumato._validate import fail
from sfumato.errors import DataError, InputError, LedgerError, UnsupportedUnitError
from sfumato.graph.graph import Graph, PublicFacts
from sfumato.graph.splits import DEFAULT_FRACTIONS
from sfumato.privacy import accounting
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import calibrate, effective_delta, gaussian_noise_multiplier
from sfumato.privacy.certificate import Certificate, certify, round_up, total_draws
from sfumato.privacy.dataset_ledger import Claim, DatasetLedger, new_run
from sfumato.privacy.events import Event, GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.ledger import Ledger, Release, canonical_json
from sfumato.privacy.noise import SAMPLER_TAU, Key, derive_key, new_key, operand_mac
from sfumato.privacy.release_folder import StoredRun, write_release
from sfumato.privacy.resume import FitState
from sfumato.privacy.splitting import MOST_SGD_NOISE
from sfumato.privacy.units import LOCAL_UNITS, EdgeLevel, NoPrivacy, Unit, unit_from_dict, unit_to_dict

Arrays = dict[str, NDArray[Any]]
_CACHE = "cache/"
Progress = Callable[[str, int, int], None]


class Method(Protocol):
    """What a method file provides; everything else is shared.

    ``name`` is its command-line name. ``releases`` lists what would leave at a noise multiplier, in order, and raises
    :class:`~sfumato.errors.UnsupportedUnitError` for a unit without proof. ``run`` trains; ``scores`` predicts from
    weights, releases and features alone.
    """

    name: ClassVar[str]

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]: ...

    def run(self, plan: Plan, graph: Graph, session: Session) -> tuple[Arrays, Arrays]: ...

    def scores(self, plan: Plan, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]: ...

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]: ...


@dataclass
class Session:
    """What one fit holds: its ledger, its secret key, a public seed for initialization, and where progress goes.

    ``state`` is there if the fit can be resumed. ``chosen`` is set by a method that picks another: the run becomes its.
    """

    ledger: Ledger
    key: Key
    seed: int
    report: Progress | None = None
    curves: dict[str, list[float]] = field(default_factory=dict)
    state: FitState | None = None
    chosen: Method | None = None

    def charge(self, name: str) -> Key:
        """Charge the next planned release and return its own key; nothing of it may be computed before."""
        self.ledger.charge(name)
        return derive_key(self.key, name)

    def bind(self, name: str, *operand: NDArray[Any]) -> None:
        """Tell what a charged release reads; a resumed fit that reads something else stops here."""
        if self.state is not None:
            self.state.bind(name, operand_mac(derive_key(self.key, "resume"), *operand))

    def progress(self, stage: str) -> Callable[[int, int], None] | None:
        """A callback (done, total) for one stage of the work."""
        report = self.report
        return None if report is None else lambda done, total: report(stage, done, total)


@dataclass(frozen=True)
class Plan:
    """What will run, fixed before data: every release with its event, the noise, and what it costs.

    ``epsilon`` and ``delta`` are the claim; None without privacy.
    """

    method: Method
    unit: Unit
    budget: Budget | None
    public: PublicFacts
    releases: tuple[Release, ...]
    epsilon: float | None
    delta: float | None

    def event(self, name: str) -> Event:
        """The event of one planned release."""
        return next(release.event for release in self.releases if release.name == name)

    @property
    def delta_sampler(self) -> float:
        """The noise sampler's share of delta: (1 + e^epsilon) tau A, A counting the draws one record can touch."""
        draws = total_draws(self.releases)
        if self.epsilon is None or not draws:
            return 0.0
        return float((1 + np.exp(self.epsilon)) * SAMPLER_TAU * draws)

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.method.name}: no privacy."
        lines = [
            f"{self.method.name} protects {self.unit.describe()} ({self.unit.relation}).",
            f"Cost: epsilon = {round_up(self.epsilon)}, delta = {self.delta:.3g}.",
        ]
        lines += [f"  releases {r.name} {list(r.shape)} to {r.visible_to}: {r.event}" for r in self.releases]
        return "\n".join(lines)

    def fit(
        self,
        graph: Graph,
        *,
        seed: int = 0,
        ledger: Path | None = None,
        progress: Progress | None = None,
        dataset_ledger: DatasetLedger | None = None,
        state: FitState | None = None,
    ) -> Fitted:
        """Train on private data, spending exactly this plan.

        Args:
            graph: must agree with the public facts that the plan was calibrated for; without roles it is split
                75/10/15 over node ids (seed 0), under units local and link 50/25/25.
            seed: public seed of initialization; noise and sampling coins always come from the operating system.
            ledger: a new file for the ledger, written as releases happen; None keeps it in memory until ``save``.
            progress: called with (stage, done, total).
            dataset_ledger: where the whole claim is reserved before the first release.
            state: makes the fit resumable: the same call with the state taken up again
                (``FitState.open``) gives the same bits and is charged once.

        Raises:
            DataError: the graph contradicts the plan's public facts.
            BudgetExceededError: the data set's ledger has less left than the plan costs.
            LedgerError: a resumed fit does not repeat what the stopped one did.
        """
        graph = graph if graph.roles is not None else graph.with_split(getattr(self.unit, "split", DEFAULT_FRACTIONS))
        self.check(graph)
        entry = {
            "method": self.method.name,
            "unit": unit_to_dict(self.unit),
            "claim": {"epsilon": self.epsilon, "delta": self.delta},
            "delta_sampler": self.delta_sampler,
        }
        session = self._open(Ledger(entry, self.releases), graph, seed, ledger, dataset_ledger, state)
        session.report = progress
        weights, released = self.method.run(self, graph, session)
        plan = self if session.chosen is None else replace(self, method=session.chosen)
        key = GraphKey.of(graph)
        if not key.classes:
            key = replace(key, classes=self.method.trained_on.classes)  # type: ignore[attr-defined]
        certificate = certify(
            session.ledger,
            version=__version__,
            settings=settings_of(plan.method),
            unit=self.unit,
            budget=asdict(self.budget) if self.budget else None,
            accounting="none" if self.epsilon is None else _accountant(self.unit, self.releases),
            public_facts={k: v for k, v in asdict(self.public).items() if k != "assumed"},
            assumed_public=self.public.assumed,
            who_may_see=plan.method.who_may_see(self.unit),
            builds_on=getattr(self.method, "builds_on", ()),
            notes=getattr(self.method, "notes", ()),
        )
        return Fitted(plan, weights, released, certificate, session.ledger, key, session.curves)

    def _open(
        self,
        planned: Ledger,
        graph: Graph,
        seed: int,
        path: Path | None,
        dataset_ledger: DatasetLedger | None,
        state: FitState | None,
    ) -> Session:
        """Bind the state, reserve the claim, open the ledger: in this order, so that a kill never leaves less charged."""
        key, resume, identity = new_key(), False, GraphKey.of(graph)
        if state is not None:
            if path is None:
                raise fail("ledger", None, "to name a file for a resumable fit", "What it charged must outlive it.")
            key, resume = state.key, state.bound("plan")
            weights = getattr(self.method, "weights", {})
            names = np.frombuffer(canonical_json(sorted(weights)).encode(), np.uint8)
            state.bind_plan(
                {
                    "plan": planned.head,
                    "method": self.method.name,
                    "settings": settings_of(self.method),
                    "weights": operand_mac(
                        derive_key(key, "resume"), names, *(weights[name] for name in sorted(weights))
                    ).hex(),
                    "seed": seed,
                    "public": asdict(self.public),
                }
            )
            state.bind("graph", _graph_mac(graph, identity, key))
        if dataset_ledger is not None:
            if self.epsilon is None or self.delta is None:
                raise fail(
                    "dataset_ledger", str(dataset_ledger.path), "to be None without privacy", "Nothing is claimed."
                )
            run = state.run if state is not None else new_run()
            claim = Claim.of(run, self.method.name, self.epsilon, self.delta, self.releases, planned.head)
            dataset = {"name": identity.name, "ids_digest": identity.ids_digest}
            dataset_ledger.reserve(claim, unit=unit_to_dict(self.unit), dataset=dataset)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        opened = Ledger(planned.plan, self.releases, path, resume=resume)
        lost = [r.name for r in self.releases if state and state.bound(r.name) and r.name not in opened.recorded]
        if lost:
            raise LedgerError(
                f"The ledger {path} lacks the release {lost[0]!r}, which was computed: it was cut. Restore it."
            )
        return Session(opened, key, seed, state=state)

    def check(self, graph: Graph) -> None:
        """Refuse a graph that contradicts the public facts this plan was calibrated for, or has nothing to learn."""
        facts = graph.public_facts(self.unit)
        learns = not hasattr(self.method, "base")
        for name in ("num_nodes", "num_features", "directed", *(("num_train", "num_classes") if learns else ())):
            planned, found = getattr(self.public, name), getattr(facts, name)
            if planned != found:
                raise DataError(
                    f"Expected a graph with {name}={planned} as the plan was calibrated for, got {found}. "
                    "Calibrate with this graph's public_facts(unit)."
                )
        if not learns:
            return
        if not graph.train_mask.any():
            raise DataError(
                f"Expected graph {graph.name!r} to have nodes in the training role, got none. Check the roles."
            )
        if graph.y is None or graph.num_classes < 2:
            raise DataError(f"Expected graph {graph.name!r} to have labels of at least 2 classes. Name a label column.")
        labeled = int((graph.train_mask & (graph.y >= 0)).sum())
        if labeled < 2 and "labels" in self.unit.public:
            raise DataError(
                f"Expected at least two labeled training nodes, got {labeled}. Check the label column and roles."
            )
        getattr(self.method, "check", lambda graph: None)(graph)


@dataclass(frozen=True)
class GraphKey:
    """What identifies a graph for reusing its released aggregates, and lets features be lined up: all public."""

    name: str
    num_nodes: int
    ids_digest: str
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph) -> GraphKey:
        """The key of a graph, from its ids and names alone."""
        ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
        digest = hashlib.sha256("\n".join(map(str, ids.tolist())).encode()).hexdigest()
        return cls(graph.name, graph.num_nodes, digest, graph.classes, graph.feature_names)

    def check_columns(self, graph: Graph) -> None:
        """Refuse another graph whose feature columns (or classes, if labeled) are not those of training, in order."""
        for what in ("feature_names", "classes"):
            trained, found = getattr(self, what), getattr(graph, what)
            if trained != found and (found or what != "classes"):
                strange = next((name for name in found if name not in trained), f"{len(found)} in another order")
                raise InputError(
                    f"Expected graph {graph.name!r} to have the {len(trained)} {what} of training, got {strange!r}. "
                    "Read both tables with one schema."
                )


def _graph_mac(graph: Graph, identity: GraphKey, key: Key) -> bytes:
    """MAC of everything that a fit reads of a graph."""
    x: Any = graph.x
    columns = () if x is None else (x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)
    arrays = (graph.indptr, graph.indices, graph.y, graph.roles, *columns)
    text = np.frombuffer(repr(identity).encode(), np.uint8)
    return operand_mac(key, text, *(np.empty(0) if array is None else array for array in arrays))


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
        return make_plan(inductive(self.weights, self.graph_key, self._origin()), budget, unit, public)

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
            "public": asdict(plan.public),
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


def make_plan(method: Method, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
    """Find the noise for a budget before any data is seen.

    Raises:
        InputError: a budget is missing, or given without privacy.
        UnsupportedUnitError: the method has no proof under this unit.
    """
    if isinstance(unit, NoPrivacy):
        if budget is not None:
            raise fail(
                "budget", budget, "to be None under NoPrivacy", "Choose a unit such as EdgeLevel to spend a budget."
            )
        return Plan(method, unit, None, public, (), None, None)
    if isinstance(unit, LOCAL_UNITS):
        raise UnsupportedUnitError(
            f"Method {method.name!r} has no proof under unit {unit.name}: it reads values before noise. Use sfumato.local."
        )
    if budget is None:
        raise fail("budget", None, f"to be a Budget(epsilon, delta) under {type(unit).__name__}")
    if isinstance(unit, EdgeLevel) and public.directed and not unit.directed:
        raise fail(
            "unit", unit, "to be EdgeLevel(directed=True) for a graph declared directed", "Its edges are single arcs."
        )
    sketch = method.releases(unit, public, 1.0)
    if not sketch:
        return Plan(method, unit, budget, public, (), 0.0, 0.0)
    delta = effective_delta(budget.delta, budget.epsilon, total_draws(sketch))
    gaussian = [r.event for r in sketch if isinstance(r.event, GaussianEvent) and r.event.noise_multiplier == 1]
    if len(gaussian) == len(sketch):
        noise = gaussian_noise_multiplier(budget.epsilon, delta, sum(event.count for event in gaussian))
    else:
        noise = calibrate(lambda z: [r.event for r in method.releases(unit, public, z)], budget.epsilon, delta)
    releases = method.releases(unit, public, noise)
    for release in releases:
        if isinstance(release.event, PoissonGaussianEvent) and release.event.noise_multiplier > MOST_SGD_NOISE:
            raise fail(
                "budget",
                budget,
                f"to leave DP-SGD ({release.name}) a noise multiplier of at most {MOST_SGD_NOISE:g}",
                "Raise epsilon or delta.",
            )
    epsilon = accounting.epsilon([release.event for release in releases], delta)
    return Plan(method, unit, budget, public, releases, epsilon, budget.delta)


def settings_of(method: Method) -> dict[str, Any]:
    """The public hyper-parameters of a method (of its ``base``, for inference with a trained one), JSON-ready."""
    settings: Any = getattr(method, "base", method)
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
        if isinstance(value, (int, float, str, bool, tuple, type(None)))
    }


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


def _accountant(unit: Unit, releases: Sequence[Release]) -> str:
    if isinstance(unit, LOCAL_UNITS):
        return "sum"
    kinds = {release.event.type for release in releases}
    return "renyi" if "selection" in kinds else "gaussian" if kinds <= {"gaussian"} else "pld"
