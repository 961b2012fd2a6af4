"""A rehearsal of `sfumato daily`: the edges of a graph come in random order, and what each form would reach is measured.

Each edge comes on a day of its own, drawn evenly; a share of them goes again on a later day. Rows of the table, each within one
budget for all days:

* *one release without a past*: label messages on the graph of the last day, once;
* *staggered*: the refreshes that are asked for, so that there is a fresh model every day;
* *every row every day*: as many refreshes as days, and perhaps again with deletions that count;
* *naive splitting*: counts of the whole graph every day, each with Gaussian noise for its share of the budget; the last day's;
* *no graph*: features alone.

The first seed also looks at a quarter and at half of the days. Labels are public, and accuracies are no part of any guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._history import NEVER, Reader, Stream, noisy_day
from sfumato.central._daily import DailyMessages, ToldGraph
from sfumato.central._graph_free import GraphFree
from sfumato.central._labels import LabelMessages
from sfumato.graph._graph import Graph
from sfumato.noise.keys import new_key
from sfumato.privacy import accounting
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.units import EdgeLevel
from sfumato.scoring._scores import Summary

if TYPE_CHECKING:
    from sfumato.bounded._refreshes import Ints

ONCE, NAIVE, ALONE = "one release without a past", "naive splitting, last day", "no graph"


@dataclass(frozen=True)
class Rehearsal:
    """What is rehearsed: ``days``, forms by name, the ``budget`` of the whole history, and the share of edges that go again."""

    days: int
    forms: dict[str, DailyMessages]
    budget: Budget
    gone: float = 0.05

    def accuracies(
        self, graph: Graph, seed: int, told: Callable[[str], None] = print
    ) -> Iterator[tuple[str, int, float]]:
        """Yield the name of each row, the day, and the accuracy on test nodes, for one seed of split and order of edges."""
        graph = graph.with_split(seed=seed, labeled=True) if graph.roles is None else graph
        ends, came, gone = drawn_history(graph, self.days, self.gone, seed)
        there = gone == NEVER
        last = with_edges(graph, ends[:, there])
        split = accounting.epsilon([GaussianEvent(self._naive)], self.budget.delta)
        for name, method, budget in (
            (ONCE, LabelMessages(), self.budget),
            (NAIVE, DailyMessages(days=1, refreshes=1, noise="sums"), Budget(split, self.budget.delta)),
            (ALONE, GraphFree(), self.budget),
        ):
            yield name, self.days, self._fitted(method, last, budget, seed)
        for name, form in self.forms.items():
            told(f"seed {seed}: {name}")
            looked = {self.days, *((self.days // 4, self.days // 2) if not seed else ())}
            yield from ((name, *one) for one in self._days(form, graph, (ends, came, gone), seed, looked))

    def table(self, graph: Graph, seeds: int, told: Callable[[str], None] = print) -> list[tuple[str, int, Summary]]:
        """Return name, day and accuracy over seeds of every row."""
        found: dict[tuple[str, int], list[float]] = {}
        for seed in range(seeds):
            for name, day, one in self.accuracies(graph, seed, told):
                found.setdefault((name, day), []).append(one)
        return [(*key, Summary.of(values)) for key, values in found.items()]

    @property
    def _naive(self) -> float:
        """The noise multiplier of one of as many Gaussian releases as there are days."""
        return gaussian_noise_multiplier(self.budget.epsilon, self.budget.delta) * math.sqrt(self.days)

    def _fitted(
        self, method: LabelMessages | DailyMessages | GraphFree, graph: Graph, budget: Budget, seed: int
    ) -> float:
        unit = EdgeLevel(directed=graph.directed)
        plan = method.calibrate(budget, unit, graph.public_facts(unit, assume_public=True))
        return _accuracy(plan.fit(graph, seed=seed).predict(graph), graph)

    def _days(
        self, method: DailyMessages, graph: Graph, edges: tuple[Ints, Ints, Ints], seed: int, looked: set[int]
    ) -> Iterator[tuple[int, float]]:
        """Release all days, and score models of the days that are looked at."""
        unit, (ends, came, gone) = EdgeLevel(directed=graph.directed), edges
        public = graph.public_facts(unit, assume_public=True)
        plan = method.calibrate(self.budget, unit, public)
        chosen = plan.method
        assert isinstance(chosen, DailyMessages)
        form, phases, copies = chosen.form(plan), chosen.phases(graph), 1 if graph.directed else 2
        arcs = ends if graph.directed else np.hstack([ends, ends[::-1]])
        history = chosen.history(unit, graph, arcs[0], arcs[1], np.tile(came, copies), np.tile(gone, copies))
        stream = Stream.of(history, chosen.schedule, phases, graph.num_classes)
        reader, key = Reader(np.zeros((graph.num_nodes, graph.num_classes))), new_key()
        for day in range(1, self.days + 1):
            reader.add(*noisy_day(stream, day, form, key), form)
            if day in looked:
                own = {one.name: getattr(graph, one.name) for one in fields(Graph)}
                told = ToldGraph(**own, told=reader.read(chosen.schedule.done(phases, day), form))
                fitted = replace(chosen, day=day).calibrate(self.budget, unit, public).fit(told, seed=seed)
                yield day, _accuracy(fitted.predict(told), graph)


def drawn_history(graph: Graph, days: int, gone: float, seed: int) -> tuple[Ints, Ints, Ints]:
    """Draw the day on which each edge of a graph comes, and for a share of them the day on which it goes.

    ``days`` are those of the history, ``gone`` is the share, and ``seed`` decides all.

    >>> path = Graph.from_edges([0, 1], [1, 2], 3, directed=False)
    >>> ends, came, gone = drawn_history(path, 9, 1.0, 0)
    >>> ends.tolist(), bool((came <= gone).all()), bool((gone <= 9).all())
    ([[0, 1], [1, 2]], True, True)
    """
    coins = np.random.default_rng(seed)
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = sources != graph.indices if graph.directed else sources < graph.indices
    ends = np.stack([sources[kept], graph.indices[kept]]).astype(np.int64)
    came = np.asarray(coins.integers(1, days + 1, ends.shape[1]), np.int64)
    left = np.where(coins.random(ends.shape[1]) < gone, coins.integers(came, days + 1), NEVER)
    return ends, came, left


def with_edges(graph: Graph, ends: Ints) -> Graph:
    """Return the nodes of a graph with other edges, int64 [2, m]."""
    alone = Graph.from_edges(ends[0], ends[1], graph.num_nodes, directed=graph.directed)
    return replace(graph, indptr=alone.indptr, indices=alone.indices, merged=alone.merged, _checked=())


def _accuracy(said: NDArray[np.integer], graph: Graph) -> float:
    tested = graph.test_mask & (graph.y >= 0) if graph.y is not None else graph.test_mask
    return float((said == graph.y)[tested].mean())
