"""This module fixes what a run charges and in which order; it is the same for every family.

**Formal guarantee.** Whatever stops a run, and whenever, its ledgers charge at least what it has drawn. *Proof.* Each step is on
disk before the next begins:

0. A run that can be repeated, and is repeated for the first time, begins the ledger of the data set if it is new
   (:meth:`Spending.begin_shared`), and charges nothing there yet. So later attempts, which begin none, stop if it is lost.
1. A run that can be repeated binds its private state to its plan and its data (:meth:`Spending.of_state`). So a repetition draws
   the same noise, or stops.
2. :meth:`Spending.begin` makes the file of the run's own ledger, empty and for this run alone. A run that finds another's
   file there stops, and is charged nothing.
3. :meth:`Spending.reserve` charges the whole claim to the ledger of the data set.
4. :meth:`Spending.open` opens the run's own ledger. It refuses a ledger that lacks what an earlier attempt computed.
5. Before a release is charged there, the ledger of the data set says that the claim is spent, with a *mark*
   (:mod:`sfumato.record._dataset_ledger`). Whoever draws under this claim again must show the same mark.
6. The release is drawn.

For nodes that arrive later, step 3 writes that they arrived, and step 5 is part of it: nobody draws for them again. A model of a
history of edges draws nothing: step 3 finds the history charged, and step 5 was taken for each day.
A stop between two steps leaves something charged that was not drawn, and never the reverse. Nothing here knows what a run
computes: plans, data and states come as plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato._validate import fail
from sfumato.privacy.units import Unit, unit_to_dict
from sfumato.record._claims import FIRST_NOISE, Claim, new_run
from sfumato.record.ledger import Ledger, Release, new_ledger_file

if TYPE_CHECKING:
    from sfumato.record._arrivals import Arrival
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._resume import FitState


@dataclass(frozen=True)
class PlanEntry:
    """A plan entry is what a run will charge, fixed before any data is read; it opens the run's ledger.

    The claim is None without privacy; its delta includes that of the noise sampler. ``arrival`` is of nodes that arrived after a
    run whose claim covers this; ``population`` is what the ledger says of the population that is charged; ``history`` is the name
    under which a history of edges was charged when it began, which covers every model of it.
    """

    method: str
    unit: Unit
    releases: tuple[Release, ...]
    epsilon: float | None
    delta: float | None
    delta_sampler: float
    _: KW_ONLY
    arrival: Arrival | None = None
    population: Mapping[str, Any] | None = None
    history: str | None = None

    def charged_to(
        self, dataset_ledger: DatasetLedger | None, history: str | None = None, *, window: str | None = None
    ) -> Self:
        """Return the entry of a run that is charged to a ledger: of a population it says which one, and which window of time."""
        if dataset_ledger is None or self.delta is None:
            return self
        stated = dataset_ledger.stated(self.delta, unit_to_dict(self.unit), window)
        return replace(self, population=stated, history=history or dataset_ledger.history)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry without releases, which the ledger adds."""
        return {
            "method": self.method,
            "unit": unit_to_dict(self.unit),
            "claim": {"epsilon": self.epsilon, "delta": self.delta},
            "delta_sampler": self.delta_sampler,
            **({} if self.arrival is None else {"arrival": self.arrival.to_dict()}),
            **({} if self.population is None else {"population": dict(self.population)}),
            **({} if self.history is None else {"history": self.history}),
        }

    @property
    def head(self) -> str:
        """Compute the hash of the first entry of the run's ledger."""
        return Ledger(self.to_dict(), self.releases).head


@dataclass(frozen=True)
class Spending:
    """A spending follows one run from the plan to the noise, with what earlier attempts left.

    ``run`` is a random name, under which the data set is charged once. ``mark`` says what the first noise is drawn from:
    random, or pseudo-random to all who lack the key. ``resumed`` tells whether an earlier attempt may have begun the run's own
    ledger, which must hold the releases that it ``computed``. ``begins`` tells whether no attempt may have been charged, so that
    a ledger of the data set which is not there is new, and not lost.
    """

    planned: PlanEntry
    dataset_ledger: DatasetLedger | None = None
    run: str = field(default_factory=new_run)
    mark: str = field(default_factory=new_run)
    _: KW_ONLY
    resumed: bool = False
    begins: bool = True
    computed: tuple[str, ...] = ()

    @classmethod
    def of_state(
        cls,
        planned: PlanEntry,
        dataset_ledger: DatasetLedger | None,
        state: FitState,
        terms: Mapping[str, Any],
        data: Mapping[str, bytes],
    ) -> Spending:
        """Build the spending of a run that can be repeated, and bind the run's state to plan, terms and data first."""
        resumed = state.bound("plan")
        state.bind_plan({"plan": planned.head, "method": planned.method, **terms})
        for name, mac in data.items():
            state.bind(name, mac)
        computed = tuple(release.name for release in planned.releases if state.bound(release.name))
        mark = state.mark("plan", *data)
        return cls(planned, dataset_ledger, state.run, mark, resumed=resumed, begins=False, computed=computed)

    def begin(self, path: Path | None, dataset: Mapping[str, Any]) -> Ledger:
        """Charge the whole claim to the ledger of the data set, and open the run's own ledger. A failure leaves no empty file."""
        folder = None if path is None else path.parent.parent
        if path is None or self.computed or (self.resumed and path.exists()):
            self.reserve(dataset, folder)
            return self.open(path)
        with new_ledger_file(path):
            self.reserve(dataset, folder)
            return replace(self, resumed=True).open(path)

    def begin_shared(self, dataset: Mapping[str, Any]) -> None:
        """Begin the ledger of the data set if it is new, before anything says that this run may be charged there."""
        planned = self.planned
        if self.dataset_ledger is not None and planned.epsilon is not None and planned.arrival is None:
            self.dataset_ledger.begin(self._claim(), unit=unit_to_dict(planned.unit), dataset=dataset)

    def _claim(self) -> Claim:
        planned = self.planned
        assert planned.epsilon is not None
        assert planned.delta is not None
        return Claim.of(self.run, planned.method, planned.epsilon, planned.delta, planned.releases, planned.head)

    def reserve(self, dataset: Mapping[str, Any], folder: Path | None = None) -> None:
        """Charge the whole claim to the ledger of the data set, once a run. An arrival is covered by the claim of its run.

        Args:
            dataset: name, ids and cells of the graph.
            folder: where the run is kept, which the ledger remembers.
        """
        if self.dataset_ledger is None:
            return
        planned = self.planned
        if planned.epsilon is None or planned.delta is None:
            path = str(self.dataset_ledger.path)
            raise fail("dataset_ledger", path, "to be None without privacy", "Nothing is claimed.")
        claim = self._claim()
        charged: dict[str, Any] = {"unit": unit_to_dict(planned.unit), "dataset": dataset, "folder": folder}
        charged["stated"] = planned.population
        if planned.arrival is not None:
            self.dataset_ledger.cover(claim, planned.arrival, **charged)
        else:
            begins = self.begins and planned.history is None
            self.dataset_ledger.reserve(claim, mark=self.mark, begins=begins, **charged)

    def open(self, path: Path | None) -> Ledger:
        """Open the run's own ledger, in memory or in a file. Each charge there spends the claim first."""
        planned = self.planned
        return Ledger(planned.to_dict(), planned.releases, path, self.resumed, self.computed, self.spend)

    def spend(self, what: str = FIRST_NOISE, mark: str | None = None) -> None:
        """Say in the data set's ledger what the first noise, or that of a release, is drawn from; a mark is accepted again."""
        planned = self.planned
        before = planned.arrival is not None or planned.history is not None  # spent with another line
        if self.dataset_ledger is not None and not before:
            self.dataset_ledger.spend(self.run, mark or self.mark, what)
