r"""The auditor fits a method for real and attacks what leaves: an epsilon that the claim is certainly above, or is refuted by.

1. *Promises* (:mod:`~sfumato.audit._promises`): what is wrong whatever epsilon is.
2. *Hops* (:mod:`~sfumato.audit._likelihood`): canary edges or nodes, the likelihood ratio of what aggregations release.
3. *Records* (:mod:`~sfumato.audit._records`): canary records, found again in trained weights. *Pairs*
   (:mod:`~sfumato.audit._one_pair`): whether two nodes are joined, in released edges.
4. *Classes* (:mod:`~sfumato.audit._classes`): training again with other images of a class.
5. *Few records* (:mod:`~sfumato.audit._two_records`): the length of weights that were trained on one record or two.
6. *Transcripts* (:mod:`~sfumato.audit._transcripts`): the likelihood ratio of all noisy sums of a run, those of every training
   step included, on two data sets that differ in one record. *Sampled* (:mod:`~sfumato.audit._sampled`): the same where each step
   draws its records.
7. *Statistics* (:mod:`~sfumato.audit._statistics`): the likelihood ratio of all counts, on two graphs that differ in a record.

Noise and coins of the fits come from the operating system, as always. The risk 1 - confidence is divided equally among the
attacks, whose number follows from the plan alone. Bounds on one release refute its event in the ledger as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.audit._canaries import Canaries, edge_canaries, flip, node_canaries, owned_by, record_canaries
from sfumato.audit._classes import audit_cell
from sfumato.audit._evidence import Audit
from sfumato.audit._hops import REPLAYS
from sfumato.audit._likelihood import ALL, HopScores
from sfumato.audit._one_pair import EDGES, audit_pair
from sfumato.audit._promises import broken_promises, broken_repetition
from sfumato.audit._records import RecordScores
from sfumato.audit._sampled import audit_sampled
from sfumato.audit._statistics import audit_statistics
from sfumato.audit._transcripts import audit_transcripts
from sfumato.audit._two_records import audit_two_records, two_records
from sfumato.audit._verdicts import Attack, hop_verdict, record_verdicts
from sfumato.audit._worst import pairs
from sfumato.bounded._routing import can_route, needs_one_way
from sfumato.errors import DataError, InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.statistics._statistics import Statistics

if TYPE_CHECKING:
    from sfumato.audit._evidence import Evidence
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan
    from sfumato.method.contract import Listed, Progress
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

_CLASSES, _FEATURES, _PIXELS = 3, 8, (1, 16, 16)
_EDGE_NODES, _NODE_CANARIES, _RECORDS, _FEW, _MOST_ARCS = 20_000, 1_500, 200, 300, 60
_RUNS = 4000  # of statistics, on each of two graphs
_TRANSCRIPTS, _PAIRS, _SAMPLED, _RUNS_OF_A_FIT = (
    8000,
    10_000,
    2000,
    20,
)  # runs on each of two data sets, or a number for each fit
_FITS = {"hops": 8, "records": 4, "cells": 20, "few": 60}

ATTACKS = ("hops", "records", "pairs", "cells", "few", "transcripts", "sampled")
"""The attacks of an audit, by what they read."""
Told = Callable[[int, int], None]


def audit(
    method: Listed,
    unit: Unit,
    budget: Budget,
    *,
    graph: Graph | None = None,
    confidence: float = 0.999,
    fits: int | None = None,
    size: float = 1.0,
    seed: int = 0,
    attacks: Sequence[str] = (),
    progress: Progress | None = None,
) -> Audit:
    """Fit a method several times, attack what leaves, and return what that proves against its claim.

    **Formal guarantee.** If the method keeps its claim, and each release the event that the ledger states for it, the result is
    flagged by a bound with probability at most 1 - ``confidence``, and so often at most a bound exceeds the true epsilon. Three
    promises are statistical: that no entry is without noise, that no noise comes twice, and that no release comes twice. Each
    test of one flags an honest method with probability at most 1e-6 (:mod:`~sfumato.audit._promises`). All other
    promises are checked exactly.

    ``attacks`` are those of :data:`ATTACKS` to try, without any all that there are for the method: of fewer, each has more of the
    risk. The result also names planned releases that no attack of this audit read, and the largest bound that it could have
    given.
    """
    for attack_name in attacks:
        check_choice(ATTACKS, attacks=attack_name)
    check_real(low=0.5, high=1, open_low=True, open_high=True, confidence=confidence)
    check_real(low=0, open_low=True, size=size)
    check_int(low=0, high=2**32 - 1, seed=seed)
    if fits is not None:
        check_int("Some promises compare two fits.", low=2, fits=fits)
    if unit.trust != "curator" or not unit.private:
        raise fail(
            "unit", unit, "to be protected by a trusted curator", "Use sfumato.audit._reports for what users send."
        )
    check_planted(unit)
    if isinstance(method, Statistics):
        told = None if progress is None else partial(progress, "statistics")
        runs = max(8, int(size * _RUNS))
        return audit_statistics(method, unit, budget, runs=runs, confidence=confidence, told=told)
    audited = _Audited(method, unit, budget, graph, size, seed, progress)
    broken = list(dict.fromkeys(audited.promises()))
    plan = audited.plan
    stages = [getattr(audited, name) for name in ATTACKS if name in (attacks or ATTACKS)]
    tried: list[Attack] = [attack for stage in stages for attack in stage(fits)]
    one = 1 - (1 - confidence) / max(len(tried), 1)
    evidence = []
    for attack in tried:
        found, sentence = attack(one)
        evidence.append(found)
        broken += [sentence] * bool(sentence)
    delta = 0.0 if plan.delta is None else plan.delta
    claim = (plan.method.name, unit.describe(), plan.epsilon, delta, confidence)
    return Audit(*claim, tuple(evidence), tuple(broken), audited.untested())


def check_planted(unit: Unit) -> None:
    """Refuse persons who own edges: the edges that audits plant are single ones, each a small part of such a record.

    Raises:
        InputError: a record is all edges of a person.
    """
    if unit.edges_per_person is not None:
        raise InputError(
            f"Expected a unit whose record an audit plants, got {unit.name}, all edges of one person: audits plant single "
            "edges, and a bound for one edge says little of all edges of a person. Audit the same method with --unit edge, "
            "which shows whether its noise is that of its claim, and compare the noise of this run by sfumato verify. Whole "
            "persons are planted by the tests of this library: python -m pytest -m audit tests/audit/test_persons.py."
        )


class _Audited:
    """One method under audit: its plans, its fits, and what attacks find in them."""

    def __init__(
        self,
        method: Listed,
        unit: Unit,
        budget: Budget,
        graph: Graph | None,
        size: float,
        seed: int,
        progress: Progress | None,
    ) -> None:
        self.method, self.unit, self.budget, self.graph, self.size, self.seed = method, unit, budget, graph, size, seed
        self.progress, self.coins = progress, np.random.default_rng(seed)
        self.read: set[str] = set()
        self.edges = "features" in unit.public
        self.owned = not self.edges and can_route(unit)
        self.cellular = unit.partition == "classes" and unit.relation == "replace"
        self.plan = self.planned(self.small())
        self.recorded = "labels" not in unit.public and not unit.partition and bool(self.plan.releases)

    def planned(self, graph: Graph) -> Plan:
        """The plan for a graph, from its public facts."""
        plan: Plan = self.method.calibrate(self.budget, self.unit, graph.public_facts(self.unit, assume_public=True))
        return plan

    def small(self, num_nodes: int = _FEW) -> Graph:
        """Return the given graph, or a random one; of pixels if the method learns from images."""
        if self.graph is not None:
            return self.split(self.graph)
        made = self.made(num_nodes, 10, _FEATURES)
        if not self.edges:
            made = replace(made, max_degree=_MOST_ARCS)
        try:
            self.planned(made)
        except (InputError, DataError):
            made = self.made(num_nodes, 10, math.prod(_PIXELS))
            x = np.asarray(made.x)
            made = replace(made, x=(x - x.min()) / np.ptp(x), max_degree=_MOST_ARCS, image_shape=_PIXELS)
        return made

    def made(self, num_nodes: int, mean_degree: int, num_features: int) -> Graph:
        """Return a random graph with roles."""
        return self.split(
            stochastic_block_model(
                num_nodes, _CLASSES, mean_degree=mean_degree, num_features=num_features, seed=self.seed
            )
        )

    def split(self, graph: Graph) -> Graph:
        """Return a graph with roles."""
        if self.unit.nodes_per_person is not None:  # each node is a person, beside the one who is planted
            graph = replace(graph, **owned_by(np.arange(graph.num_nodes), self.unit.nodes_per_person))
        return graph if graph.roles is not None else graph.with_split(seed=self.seed)

    def declared(self, graph: Graph) -> Graph:
        """Return a graph in which a record of the unit is one arc, or one undirected edge."""
        return graph if needs_one_way(self.unit) else replace(graph, directed=True)

    def promises(self) -> Iterator[str]:
        """Sentences about promises that are broken."""
        canaries = self.canaries(_FEW // 4)
        every = np.ones(len(canaries), bool)
        other = every.copy()
        other[: max(1, len(other) // 2)] = False
        graph, neighbor = canaries.world(every), canaries.world(other)
        plan = self.planned(graph)
        if not plan.releases:
            return
        told = self.told("promises")
        fits = []
        for number, data in enumerate((graph, graph, neighbor)):
            fits.append((plan.fit(data, seed=self.seed), data))
            told(number + 1, 5)
        yield from broken_promises(fits, self.seed)
        yield from broken_repetition(plan, graph, neighbor, self.seed)
        told(5, 5)

    def canaries(self, count: int) -> Canaries:
        """Canaries of the unit in a small graph: edges, nodes with arcs, or records."""
        if self.edges:
            return edge_canaries(self.declared(self.small()), seed=self.seed, most=count)
        if self.owned and self._sums(self.plan):
            return self.nodes(count)
        return record_canaries(self.small(), self.unit, count, seed=self.seed)

    def nodes(self, count: int) -> Canaries:
        """Canary nodes with arcs of their own, beside a graph."""
        base = self.made(_FEW, 4, _FEATURES) if self.graph is None else self.split(self.graph)
        return node_canaries(replace(base, directed=True), self.unit, count, seed=self.seed)

    def hops(self, fits: int | None) -> list[Attack]:
        """Attacks on noisy sums, by hop and kind of canary."""
        if not self._sums(self.plan):
            return []
        if self.edges:
            number = max(_FEW, int(_EDGE_NODES * self.size))
            base = self.made(number, 4, _FEATURES) if self.graph is None else self.split(self.graph)
            canaries = edge_canaries(self.declared(base), seed=self.seed)
        elif self.owned:
            canaries = self.nodes(max(12, int(_NODE_CANARIES * self.size)))
        else:
            return []
        scores, plan, names = HopScores(), self.planned(canaries.graph), self._sums(self.plan)
        for fitted, coins in self.fitted(plan, canaries, fits or _FITS["hops"], "hops"):
            scores.add(fitted, canaries, coins, self.seed)
        wanted = [*names, *([ALL] if len(names) > 1 else [])]
        keys = [(name, str(kind)) for name in wanted for kind in np.unique(canaries.kinds)]
        return [partial(hop_verdict, plan, scores, key) for key in keys]

    def records(self, fits: int | None) -> list[Attack]:
        """Attacks on trained weights."""
        if not self.recorded:
            return []
        canaries = record_canaries(self.small(), self.unit, max(12, int(_RECORDS * self.size)), seed=self.seed)
        scores, plan = RecordScores(), self.planned(canaries.graph)
        for fitted, coins in self.fitted(plan, canaries, fits or _FITS["records"], "records"):
            scores.add(fitted, canaries, coins)
        return record_verdicts(plan, scores)

    def pairs(self, fits: int | None) -> list[Attack]:
        """Attacks on released edges."""
        if not self.edges or all(release.name != EDGES for release in self.plan.releases):
            return []
        runs = max(2, int(self.size * (_PAIRS if fits is None else fits * _RUNS_OF_A_FIT)))
        told, directed = self.told("one pair"), not needs_one_way(self.unit)
        how: dict[str, Any] = {"runs": runs, "directed": directed, "seed": self.seed, "told": told}
        return [lambda one: (audit_pair(self.method, self.unit, self.budget, confidence=one, **how), "")]

    def cells(self, fits: int | None) -> list[Attack]:
        """Attacks on class-level methods by training again with other images of a class."""
        if not self.cellular:
            return []
        told, graph = self.told("cells"), self.small()
        told(0, 1)
        return [lambda one: (audit_cell(self.plan, graph, fits=fits or _FITS["cells"], confidence=one), "")]

    def few(self, fits: int | None) -> list[Attack]:
        """Attacks on weights that were trained on one or two records, which show a divisor that counts records."""
        sampled = [release for release in self.plan.releases if isinstance(release.event, PoissonGaussianEvent)]
        if not self.recorded or self.unit.relation == "replace" or not sampled:
            return []
        worlds, told = two_records(self.small()), self.told("few records")
        settings: dict[str, Any] = {"fits": fits or _FITS["few"], "seed": self.seed, "progress": told}
        return [lambda one: (audit_two_records(self.planned(worlds[0]), worlds, confidence=one, **settings), "")]

    def transcripts(self, fits: int | None) -> list[Attack]:
        """Attacks on all noisy sums of a run on two small data sets."""
        runs = max(2, int(self.size * (_TRANSCRIPTS if fits is None else fits * _RUNS_OF_A_FIT)))
        if next(pairs(self.method, self.unit, self.budget), None) is None:
            return []
        told, given = self.told("transcripts"), (self.method, self.unit, self.budget)

        def attack(one: float) -> tuple[Evidence, str]:
            found, names, sentence = audit_transcripts(*given, runs=runs, confidence=one, seed=self.seed, told=told)
            self.read |= names
            return found, sentence

        return [attack]

    def sampled(self, fits: int | None) -> list[Attack]:
        """Attacks on all noisy sums of a run whose steps read a random sample, on two small data sets."""
        if next(pairs(self.method, self.unit, self.budget, sampled=True), None) is None:
            return []
        runs = max(2, int(self.size * (_SAMPLED if fits is None else fits * _RUNS_OF_A_FIT)))
        how: dict[str, Any] = {"runs": runs, "seed": self.seed, "told": self.told("sampled")}
        return [lambda one: (audit_sampled(self.method, self.unit, self.budget, confidence=one, **how), "")]

    def fitted(
        self, plan: Plan, canaries: Canaries, fits: int, stage: str
    ) -> Iterator[tuple[Fitted, NDArray[np.bool_]]]:
        """Fit worlds with fresh coins."""
        told = self.told(stage)
        for number in range(fits):
            coins = flip(len(canaries), self.coins)
            yield plan.fit(canaries.world(coins), seed=self.seed), coins
            told(number + 1, fits)

    def untested(self) -> tuple[str, ...]:
        """Names of planned releases that no attack reads."""
        read = set(self.read)
        if self.edges or self.owned:
            read |= set(self._sums(self.plan))
        if self.edges:
            read.add(EDGES)
        if self.cellular:
            read.add("network")
        if self.recorded:
            read.add("center")
            read |= {one.name for one in self.plan.releases if isinstance(one.event, PoissonGaussianEvent)}
        return tuple(release.name for release in self.plan.releases if release.name not in read)

    def told(self, stage: str) -> Told:
        """Report progress of a stage."""
        report = self.progress
        return lambda done, total: None if report is None else report(stage, done, total)

    @staticmethod
    def _sums(plan: Plan) -> list[str]:
        """Names of the noisy sums whose operand the auditor can compute."""
        if plan.method.name not in REPLAYS:
            return []
        return [release.name for release in plan.releases if release.name.startswith("aggregate/")]
