"""A plan is complete before any data is seen: it holds noise, events, releases, and the epsilon they cost.

``Plan.fit`` is the only call that touches private data; it writes each release to the ledger before computing it and ends
with a certificate. ``Fitted`` predicts from what was released, so that predicting never spends again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._threads import are_said, computing, one_if_few
from sfumato._validate import check_int, fail
from sfumato.errors import InputError, LedgerError, UnsupportedUnitError
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.graph._splits import DEFAULT_FRACTIONS
from sfumato.graph._targets import answers, answers_among, probabilities
from sfumato.method import _checks as checks
from sfumato.method._answers import Answers
from sfumato.method._derived import check_derived
from sfumato.method._engine import PlanEntry
from sfumato.method._graph_key import GraphKey, id_lines
from sfumato.method._identity import Identity
from sfumato.method._opening import open_session, warn_of_repeated
from sfumato.method._rows import ALONE
from sfumato.method._summaries import ShownFit, ShownPlan, described, statement
from sfumato.method.contract import Accuracies, Arrays, Method, Origin, Planned, Progress, Watch
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import SelectionEvent
from sfumato.privacy.promises import Caveat, implausible
from sfumato.privacy.units import Unit, unit_from_dict, unit_to_dict
from sfumato.record._certificate import MOST_ORIGINS, Certificate, certify, round_up, total_draws
from sfumato.record._claims import new_run
from sfumato.record._release_folder import StoredRun, write_release
from sfumato.record._stopped import noting_charges
from sfumato.record.ledger import Ledger, Release

if TYPE_CHECKING:
    from sfumato.record._collected import Collected
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._deployment import Deployment
    from sfumato.record._resume import FitState

_CACHE = "cache/"
_ADD_UP = "Fit once, or pass dataset_ledger=, so that a fit that would cost more is refused."


@dataclass(frozen=True, repr=False)
class Plan(ShownPlan, Planned):
    """A plan says what will run, fixed before data: every release with its event, the noise, and what it all costs.

    ``epsilon`` and ``delta`` are the claim; both are None without privacy.

    Raises:
        InputError: a number of the plan has a form that no certificate holds, or the facts are those of another unit.
        UnsupportedUnitError: the method's card does not name the unit.
        UnsupportedTargetError: the method does not learn such targets.
    """

    def __post_init__(self) -> None:
        public = checks.under(self.unit, self.public)
        if self.unit.private and self.unit.name not in self.method.card.units:
            raise UnsupportedUnitError(
                f"Method {self.method.name!r} has no proof under unit {self.unit.name}. Use one of its units: "
                f"{', '.join(self.method.card.units) or 'none'}."
            )
        checks.check_target(self.method, self.unit, public)
        object.__setattr__(self, "public", checks.as_read(self.method, public))
        for method in (self.method, *self.method.choices):
            checks.check_settings(method)
        checks.check_sizes(self.releases)
        self.method.check_noise([release.event for release in self.releases], self.unit)

    @property
    def delta_sampler(self) -> float:
        """Compute the noise sampler's share of delta.

        It is (1 + e^epsilon) tau A, where A counts the draws that one record can touch.
        """
        draws = total_draws(self.releases)
        if self.epsilon is None or not draws:
            return 0.0
        return float((1 + np.exp(self.epsilon)) * SAMPLER_TAU * draws)

    @property
    def entry(self) -> PlanEntry:
        """Return what the ledger says of the plan."""
        claim = (self.epsilon, self.delta, self.delta_sampler)
        return PlanEntry(self.method.name, self.unit, self.releases, *claim, arrival=self.method.arrival)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """List what is implausible about the plan, from public facts alone; certificates hold what no method adds."""
        claim, method = {"epsilon": self.epsilon, "delta": self.delta}, self.method
        learns, links = method.origin is None, method.card.reads_links
        found = implausible(self.unit, claim, self.public.to_dict(), method.settings, learns, links)
        return *found, *method.doubts(self)

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"{self.method.name}: no privacy."
        lines = [
            f"{self.method.name} protects {described(self)} ({self.unit.relation}).",
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
        measure: bool = False,
        collected: Collected | None = None,
        deployment: Deployment | None = None,
        threads: int | None = None,
    ) -> Fitted:
        """Train on private data, spending exactly this plan.

        Args:
            graph: must agree with the public facts that the plan was calibrated for; without roles it is split 75/10/15 (seed
                0; units local and link 50/25/25) over node ids, or over labeled nodes where labels are public.
            seed: public seed of initialization; noise and sampling coins always come from the operating system.
            ledger: a new file for the ledger, written as releases happen; None keeps it in memory until ``save``.
            progress: a function, called with (stage, done, total).
            dataset_ledger: where the whole claim is reserved before the first release. Without it a second fit of a plan warns.
            state: makes the fit resumable: the same call with the state taken up again
                (``FitState.open``) gives the same bits and is charged once.
            measure: gap, progap and mlp also keep the accuracy on training and validation nodes after every step. It reads
                true labels: evaluation outside the guarantee, on which neither model nor certificate depends.
            collected: reports that devices sent, to learn from in place of asking. The graph needs no value they tell of.
            deployment: who publishes the model, and why; its certificate says so.
            threads: how many threads compute; None leaves their number as it is, if somebody has set it. Else graphs with fewer
                than 2^19 entries of features take one, and so does a Torch that was imported before Sfumato: its threads spin.

        Raises:
            InputError: the seed is no integer from 0 to 2^32 - 1, or the number of threads none from 1 on; accuracies
                cannot be measured, the record does not fit the claim, or the plan was changed after it was calibrated.
            DataError: the graph contradicts the plan's public facts.
            SfumatoError: training diverged. What it released is charged.
            BudgetExceededError: the data set's ledger has less left than the plan costs.
            LedgerError: a resumed fit does not repeat what the stopped one did.

        Whatever stops it carries a note (``__notes__``) of what the ledgers on disk are charged.
        """
        given = checks.check_graph(graph)
        graph = self.method.view(given)
        seed = check_int(low=0, high=2**32 - 1, seed=seed)
        threads = None if threads is None else check_int(low=1, threads=threads)
        checks.check_measured(graph, measure)
        if graph.roles is None:
            graph = graph.with_split(self.unit.split or DEFAULT_FRACTIONS, labeled="labels" in self.unit.public)
        checks.check_collected(self.unit, collected)
        if deployment is not None:
            deployment.check(self.delta)
        self.check(graph, labeled=collected is None or graph.y is not None)
        check_derived(self)
        history = None if dataset_ledger is None else dataset_ledger.history
        run = history or (new_run() if state is None else state.run)
        shared = None if dataset_ledger is None else dataset_ledger.path
        begun = state is not None and state.bound("plan")
        if self.epsilon and dataset_ledger is None and state is None and collected is None:
            warn_of_repeated(given, self.entry.head, self.epsilon, _ADD_UP)
        watch = Watch(progress, accuracies={} if measure else None)
        with computing(threads or (None if are_said() else one_if_few(graph.num_nodes, graph.num_features))):
            with noting_charges(ledger if begun else None, shared, run):  # a file that is there may be another run's
                entry = self.entry.charged_to(dataset_ledger, window=graph.window)
                session = open_session(self, entry, graph, seed, ledger, dataset_ledger, state, run, watch)
            session = replace(session, reports=None if collected is None else collected.reports)
            with noting_charges(ledger, shared, run):
                outcome = self.method.run(self, graph, session)
                checks.check_converged(outcome.weights, spent=bool(self.releases))
        ran, origin = outcome.chosen or self, self.method.origin
        key = replace(GraphKey.of(graph), identity=Identity.of(graph, self.method.told_by(self.unit)))
        if origin is not None and not key.classes:
            key = replace(key, classes=origin.graph.classes)
        return Fitted(
            replace(self, method=ran.method),
            ran,
            outcome.weights,
            outcome.released,
            certify(statement(self, outcome, session.ledger, collected, deployment)),
            session.ledger,
            key,
            session.watch.curves,
            session.watch.accuracies or {},
            None if collected is None else collected.content,
        )

    def check(self, graph: Graph, *, labeled: bool = True) -> None:
        """Refuse a graph that contradicts the public facts this plan was calibrated for, or has nothing to learn.

        Args:
            graph: what is learned from.
            labeled: whether the graph has the labels; reports of devices may tell of them instead.

        Raises:
            DataError: the graph has no training nodes, too few labels, or other public facts than the plan.
        """
        facts = graph.public_facts(
            self.unit, assume_public=True
        )  # the plan says what it assumes, and is compared below
        checks.check_names(graph, self.public.assumed)
        learns, card, known = self.method.origin is None, self.method.card, checks.what_it_reads(self.method, facts)
        if not learns:
            self.method.check(graph)
            checks.check_same(self.public, checks.as_inferred(self.public, known), labels=card.reads_labels)
            return
        if card.reads_labels and card.learns:
            checks.check_learnable(graph, self.unit, labeled=labeled)
        checks.check_same(self.public, known, labels=card.reads_labels)
        if graph.y is not None or not (card.reads_labels and card.learns):
            self.method.check(graph)


@dataclass(frozen=True, repr=False)
class Fitted(Answers, ShownFit):
    """A fitted model is a trained model with its released aggregates and its certificate.

    ``ran`` is what the weights come from: the plan, or after a selection that of the candidate that it chose.
    ``predict`` and ``predict_proba`` answer for the graph that was fitted, from cached releases and the nodes' own
    features: they never read arcs. For another graph see :meth:`calibrate_inference`.

    ``certificate`` and ``ledger`` are those of the run, ``released`` holds its aggregates by name, ``graph_key`` identifies the
    graph, ``curves`` and ``accuracies`` (of :meth:`Plan.fit`) are outside the guarantee, and ``collection`` is a closed file.
    """

    plan: Plan
    ran: Planned
    weights: Arrays
    released: Arrays
    certificate: Certificate
    ledger: Ledger
    graph_key: GraphKey
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    accuracies: Accuracies = field(default_factory=dict)
    collection: bytes | None = None

    def predict_proba(self, graph: Graph) -> NDArray[np.float32]:
        """Compute probabilities of the classes, or of each label, float32 [num_nodes, num_classes]; this spends nothing.

        Raises:
            InputError: the graph has other node ids, so that its arcs would have to be read, which needs a new plan; or it
                has other feature columns; or the target is a number.
        """
        return probabilities(self.plan.public.target, self._scores(graph))

    def predict(self, graph: Graph) -> NDArray[Any]:
        """Return the class of every node, its labels (0 or 1) [num_nodes, num_labels], or its number; this spends nothing."""
        return answers(self.plan.public.target, self.plan.public.target_range, self._scores(graph))

    def told(self, graph: Graph, nodes: NDArray[np.integer]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return what is predicted for some nodes, and with which probabilities: rows of ``predict`` and ``predict_proba``.

        Scores are computed once, and nothing else of all nodes. ``nodes`` are row numbers; a number has no probabilities.
        """
        return answers_among(self.plan.public.target, self.plan.public.target_range, self._scores(graph), nodes)

    def _scores(self, graph: Graph) -> NDArray[np.float32]:
        asked = self.as_fitted(graph)
        return asked.back(self.ran.method.scores(self.ran, self.weights, self.released, asked.graph))

    def calibrate_inference(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan for the private aggregation of *another* graph with this model.

        It holds the charge before it is spent; ``plan.fit(other)`` gives a :class:`Fitted` for that graph. No weight changes.

        Args:
            budget: the most that may be spent on the other graph; None without privacy.
            unit: the unit of privacy, which must be that of training.
            public: what may be known of the other graph under this unit.

        Raises:
            InputError: the method has no inductive form, or the run does not use messages; the unit is another; or ``public``
                does not fit the model.
        """
        checks.check_asked(budget, unit, public)
        if self.ran.method.drops_messages(self.ran, self.weights):
            raise InputError(
                f"This run does not use messages: those of another graph would be paid for nothing. {ALONE}"
            )
        origins = self.origins()
        inference = self.plan.method.inductive(Origin(self.weights, self.graph_key, origins))
        public = checks.as_inferred(self.plan.public, public)
        if unit != self.plan.unit:
            remedy = "Weights trained under another unit would be certified for more than they protect."
            raise fail("unit", unit, f"to be the unit of training, {self.plan.unit}", remedy)
        checks.check_as_trained(self.plan.public, checks.as_read(self.plan.method, public))
        if len(origins) > MOST_ORIGINS:
            remedy = "Infer with the model that was trained, not with one that was inferred."
            raise fail("builds_on", len(origins), f"to hold at most {MOST_ORIGINS} runs", remedy)
        plan: Plan = inference.calibrate(budget, unit, public)
        return plan

    def origins(self) -> tuple[dict[str, Any], ...]:
        """Return the certified runs that an inference with these weights builds on, this run last."""
        claim = {"epsilon": self.certificate.epsilon, "delta": self.certificate.delta}
        return (*self.certificate.values["composition"]["builds_on"], {"ledger_head": self.ledger.head, **claim})

    def save(self, directory: str | Path, *, sign_key: Path | None = None, ids_of: Graph | None = None) -> Path:
        """Write a run folder: ``release/`` with weights, releases, ledger, certificate and manifest.

        Releases for the node itself go to ``own/`` beside it, which must not leave as a whole. Without privacy nothing was
        released, so what prediction needs is kept with the weights.

        Args:
            directory: the run folder. It is new or empty, or holds nothing but this run's own ledger.
            sign_key: private key that signs the release; None leaves it unsigned.
            ids_of: the fitted graph, whose node ids leave with the release so that rows can be matched; None keeps them.

        Raises:
            InputError: folder, key or ids are of another kind, or rows for single nodes were not loaded.
        """
        plan = self.plan
        spec = {
            "format": 1,
            "method": plan.method.name,
            "settings": plan.method.settings,
            "unit": unit_to_dict(plan.unit),
            "budget": asdict(plan.budget) if plan.budget else None,
            "public": plan.public.to_dict(),
            "graph": self.graph_key.to_dict(),
        }
        private = plan.epsilon is not None
        cached = {} if private else {_CACHE + name: array for name, array in self.released.items()}
        theirs = checks.check_own((*plan.releases, *self.ran.releases) if private else (), self.released)
        return write_release(
            Path(directory),
            self.certificate,
            self.ledger,
            json.loads(json.dumps(spec)),
            {**self.weights, **cached},
            {name: array for name, array in self.released.items() if private and name not in theirs},
            sign_key,
            {name: array for name, array in self.released.items() if name in theirs},
            self.collection,
            None if ids_of is None else checks.check_ids(id_lines(ids_of), self.graph_key),
            None if self.graph_key.identity is None else self.graph_key.identity.to_dict(),
        )

    @classmethod
    def from_stored(cls, stored: StoredRun, method: Method) -> Fitted:
        """Load what :meth:`save` wrote.

        Raises:
            LedgerError: the stored ledger or spec does not agree with the certificate and the plan.
        """
        spec, certificate = stored.spec, Certificate(stored.certificate)
        checks.check_spec(spec, stored.certificate)
        entries = [json.loads(line) for line in stored.ledger_text.splitlines()]
        plan_entry = entries[0]["plan"]
        releases = tuple(Release.from_dict(release) for release in plan_entry["releases"])
        unit = unit_from_dict(spec["unit"])
        public = PublicFacts(**_tuples(spec["public"]), unit=unit)
        budget = Budget(**spec["budget"]) if spec["budget"] else None
        plan = Plan(method, unit, budget, public, releases, certificate.epsilon, certificate.delta)
        ledger = Ledger({k: v for k, v in plan_entry.items() if k != "releases"}, releases).charge_all()
        if ledger.head != entries[-1]["hash"]:
            raise LedgerError("The stored ledger does not hold exactly the planned releases. See `sfumato verify`.")
        cached = {k.removeprefix(_CACHE): v for k, v in stored.weights.items() if k.startswith(_CACHE)}
        weights = {k: v for k, v in stored.weights.items() if not k.startswith(_CACHE)}
        return cls(
            plan,
            _ran(plan, stored.certificate),
            weights,
            {**stored.released, **cached},
            certificate,
            ledger,
            GraphKey.from_dict(spec["graph"], stored.identity),
            collection=stored.collection,
        )


def _ran(plan: Plan, certificate: Mapping[str, Any]) -> Planned:
    """What the weights of a stored run come from: its plan, or after a selection that of the chosen candidate."""
    events = [release.event for release in plan.releases]
    if not events or not isinstance(events[0], SelectionEvent):
        return plan
    stated = [candidate["settings"] for candidate in certificate["candidates"]]
    charged = events[0].candidates[stated.index(certificate["settings"])]
    sketch = plan.method.releases(plan.unit, plan.public, 1.0)  # the event of a score may follow theirs
    releases = tuple(replace(release, event=event) for release, event in zip(sketch, charged, strict=False))
    return Planned(plan.method, plan.unit, plan.budget, plan.public, releases, None, None)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
