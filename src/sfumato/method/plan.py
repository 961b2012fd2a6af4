"""A plan is complete before any data is seen: noise, events, releases, and the epsilon they cost.

``fit`` is the only call that touches private data; it writes each release to the ledger before computing it and ends with
a certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import __version__
from sfumato._validate import fail
from sfumato.errors import DataError, LedgerError, UnsupportedUnitError
from sfumato.graph.graph import Graph, PublicFacts
from sfumato.graph.splits import DEFAULT_FRACTIONS
from sfumato.method.method import GraphKey, Method, Progress, Session, settings_of
from sfumato.noise.keys import Key, derive_key, new_key, operand_mac
from sfumato.noise.rectangles import SAMPLER_TAU
from sfumato.privacy import accounting
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import calibrate, effective_delta, gaussian_noise_multiplier
from sfumato.privacy.events import Event, GaussianEvent, PoissonGaussianEvent
from sfumato.privacy.promises import Caveat, implausible, warn
from sfumato.privacy.splitting import MOST_SGD_NOISE
from sfumato.privacy.units import Unit, unit_to_dict
from sfumato.record.certificate import certify, round_up, total_draws
from sfumato.record.claims import Claim, new_run
from sfumato.record.dataset_ledger import DatasetLedger
from sfumato.record.ledger import Ledger, Release, canonical_json
from sfumato.record.resume import FitState
from sfumato.record.stopped import noting_charges

_LONGEST_NAME = 200
if TYPE_CHECKING:
    from sfumato.method.fitted import Fitted


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

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What is implausible about the plan, from public facts alone; its certificate says so too."""
        claim = {"epsilon": self.epsilon, "delta": self.delta}
        learns = not hasattr(self.method, "base")
        return implausible(
            self.method.name, self.unit, claim, asdict(self.public), settings_of(self.method), learns=learns
        )

    def warned(self) -> Plan:
        """The plan, once Python's warnings were told of its caveats."""
        warn(self.caveats)
        return self

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

        Whatever stops it carries a note (``__notes__``) of what the ledgers on disk are charged.
        """
        graph = graph if graph.roles is not None else graph.with_split(self.unit.split or DEFAULT_FRACTIONS)
        self.check(graph)
        entry = {
            "method": self.method.name,
            "unit": unit_to_dict(self.unit),
            "claim": {"epsilon": self.epsilon, "delta": self.delta},
            "delta_sampler": self.delta_sampler,
        }
        run = new_run() if state is None else state.run
        with noting_charges(ledger, None if dataset_ledger is None else dataset_ledger.path, run):
            session = self._open(Ledger(entry, self.releases), graph, seed, ledger, dataset_ledger, state, run)
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
            public_facts={k: v for k, v in self.public.to_dict().items() if k != "assumed"},
            assumed_public=self.public.assumed,
            who_may_see=plan.method.who_may_see(self.unit),
            builds_on=getattr(self.method, "builds_on", ()),
            candidates=self._candidates(),
        )
        from sfumato.method.fitted import Fitted  # which plans inference on other graphs

        return Fitted(plan, weights, released, certificate, session.ledger, key, session.curves)

    def _candidates(self) -> list[dict[str, Any]]:
        """What a charged selection chooses from."""
        if not self.releases:
            return []
        return [{"method": one.name, "settings": settings_of(one)} for one in getattr(self.method, "candidates", ())]

    def _open(
        self,
        planned: Ledger,
        graph: Graph,
        seed: int,
        path: Path | None,
        dataset_ledger: DatasetLedger | None,
        state: FitState | None,
        run: str,
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
                    "public": self.public.to_dict(),
                }
            )
            state.bind("graph", _graph_mac(graph, identity, key))
        spend, mark = None, new_run() if state is None else state.mark("plan", "graph")
        if dataset_ledger is not None:
            if self.epsilon is None or self.delta is None:
                raise fail(
                    "dataset_ledger", str(dataset_ledger.path), "to be None without privacy", "Nothing is claimed."
                )
            claim = Claim.of(run, self.method.name, self.epsilon, self.delta, self.releases, planned.head)
            dataset = {"name": identity.name, "ids_digest": identity.ids_digest}
            dataset_ledger.reserve(claim, unit=unit_to_dict(self.unit), dataset=dataset, mark=mark)
            spend = partial(dataset_ledger.spend, run)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        opened = Ledger(planned.plan, self.releases, path, resume=resume)
        lost = [r.name for r in self.releases if state and state.bound(r.name) and r.name not in opened.recorded]
        if lost:
            raise LedgerError(
                f"The ledger {path} lacks the release {lost[0]!r}, which was computed: it was cut. Restore it."
            )
        return Session(opened, key, seed, state=state, spend=spend, mark=mark)

    def check(self, graph: Graph) -> None:
        """Refuse a graph that contradicts the public facts this plan was calibrated for, or has nothing to learn."""
        facts = graph.public_facts(self.unit)
        for text in (graph.name, *graph.classes, *graph.feature_names, *self.public.assumed):
            if len(text) > _LONGEST_NAME or not text.isprintable():
                raise DataError(
                    f"Expected names of graph, classes and columns to have at most {_LONGEST_NAME} characters, all printable, "
                    f"since the release holds them; got {text[:20]!r}, of length {len(text)}. Rename it."
                )
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


def make_plan(method: Method, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
    """Find the noise for a budget before any data is seen; warn of what is implausible about the plan.

    Raises:
        InputError: a budget is missing, or given without privacy.
        UnsupportedUnitError: the method has no proof under this unit.
    """
    if not unit.private:
        if budget is not None:
            raise fail(
                "budget", budget, "to be None under NoPrivacy", "Choose a unit such as EdgeLevel to spend a budget."
            )
        return Plan(method, unit, None, public, (), None, None).warned()
    if unit.trust != "curator":
        raise UnsupportedUnitError(
            f"Method {method.name!r} has no proof under unit {unit.name}: it reads values before noise. Use sfumato.local."
        )
    if budget is None:
        raise fail("budget", None, f"to be a Budget(epsilon, delta) under {type(unit).__name__}")
    unit.check_direction(public.directed)
    sketch = method.releases(unit, public, 1.0)
    if not sketch:
        return Plan(method, unit, budget, public, (), 0.0, 0.0).warned()
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
    return Plan(method, unit, budget, public, releases, epsilon, budget.delta).warned()


def _graph_mac(graph: Graph, identity: GraphKey, key: Key) -> bytes:
    """MAC of everything that a fit reads of a graph."""
    x: Any = graph.x
    columns = () if x is None else (x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)
    arrays = (graph.indptr, graph.indices, graph.y, graph.roles, *columns)
    text = np.frombuffer(repr(identity).encode(), np.uint8)
    return operand_mac(key, text, *(np.empty(0) if array is None else array for array in arrays))


def _accountant(unit: Unit, releases: Sequence[Release]) -> str:
    if unit.trust != "curator":
        return "sum"
    kinds = {release.event.type for release in releases}
    return "renyi" if "selection" in kinds else "gaussian" if kinds <= {"gaussian"} else "pld"
