"""Two graphs that differ in one record, as bad as the unit allows: what the releases of statistics tell of it.

Statistics are released thousands of times on either graph, as any run releases them: by the method itself, with fresh keys. The
attacker knows both graphs and reads all releases. Every count has discrete Laplace noise of public scale around one of two known
values, so the sum of log-likelihood ratios is the strongest score. Releases are scored one by one, too: a bound on one of them
refutes its event in the ledger, even if the claim of the whole run still stands. That no noise comes twice is tested by signs:
of two independent noises they agree as often as a fair coin shows heads (:func:`shared`).

*The pair.* Under edges: two nodes that share all their neighbors, with and without the edge between them. Under nodes with all
arcs: a node among others that are all linked, with as many neighbors as are promised, and its emptied record.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.audit._evidence import Audit
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.bounded._routing import needs_one_way
from sfumato.graph._graph import Graph
from sfumato.graph._weights import FULL, EdgeWeights
from sfumato.method.contract import Session
from sfumato.noise.keys import new_key
from sfumato.record.ledger import Ledger
from sfumato.statistics._counts import Counted
from sfumato.statistics._statistics import WIDEST, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

Counts = dict[str, NDArray[np.int64]]
_KNOWS = "both graphs and all releases"
_NEIGHBORS = 12
_RISK = 1e-6  # that the signs of independent noises are called dependent


def audit_statistics(
    method: Statistics,
    unit: Unit,
    budget: Budget,
    *,
    runs: int = 4000,
    confidence: float = 0.999,
    told: Callable[[int, int], None] | None = None,
) -> Audit:
    """Release statistics of two neighboring graphs many times, and return the epsilon that this rules out.

    **Formal guarantee.** If the method keeps its claim, and each release the event that the ledger states for it, the result is
    flagged with probability at most 1 - ``confidence``, which the whole run and its releases share, and 1e-6 for signs.

    Args:
        method: which statistics.
        unit: the unit of privacy.
        budget: that the run claims to keep.
        runs: how often statistics are released on each of both graphs.
        confidence: of all bounds together.
        told: is told of progress.

    Raises:
        InputError: there are fewer than 8 runs, or the method refuses unit or budget.
    """
    check_int(low=8, runs=runs)
    first, second = pair_of(method, unit)
    plan = method.calibrate(budget, unit, first.public_facts(unit, assume_public=True))
    names = [release.name for release in plan.releases]
    scores, signs = np.zeros((2, runs, len(names))), np.zeros((2, runs, len(names)), np.int8)
    planned = plan.method
    assert isinstance(planned, Statistics)
    exact = [_exact(planned, plan, graph) for graph in (first, second)]
    for side, graph in enumerate((first, second)):
        for run in range(runs):
            released = _released(plan, graph)
            scores[side, run] = _ratios(planned, plan, released, exact)
            signs[side, run] = [np.sign((released[name] - exact[side][name]).flat[0]) for name in names]
            if told is not None and run % 100 == 0:
                told(side * runs + run, 2 * runs)
    one, delta = 1 - (1 - confidence) / (len(names) + 1), plan.delta or 0.0
    found, broken = [], [*shared(signs.reshape(2 * runs, -1), names)]
    how: dict[str, Any] = {"knowledge": _KNOWS, "confidence": one, "policy": Split()}
    for index, name in enumerate([*names, "all statistics together"]):
        members, others = scores.sum(axis=2) if index == len(names) else scores[:, :, index]
        bound = audit_runs(members, others, name=name, delta=delta, **how)
        found.append(bound)
        event: Any = plan.event(name) if index < len(names) else None
        if event is not None and bound.epsilon_lower_bound > event.epsilon:
            broken.append(f"Release {name!r} says more of one record than the ledger states ({event}).")
    return Audit(
        method.name,
        unit.describe(),
        plan.epsilon,
        delta,
        confidence,
        tuple(found),
        tuple(broken),
        untested(exact, names),
    )


def shared(signs: NDArray[np.int8], names: list[str]) -> Iterator[str]:
    """Yield a sentence for each two releases whose noises have the same sign, or opposite ones, more often than by chance.

    **Formal guarantee.** Each noise is symmetric, so if two are independent, their signs agree in half of the runs in which
    neither is 0, by a binomial law. An honest method gets a sentence with probability at most 1e-6, by Hoeffding's inequality
    for all pairs.

    >>> list(shared(np.array([[1, 1], [-1, -1]] * 50, np.int8), ["edges", "wedges"]))
    ['The noises of edges and wedges are not independent: together they tell more than the ledger states.']
    """
    pairs = [*combinations(range(len(names)), 2)]
    for one, other in pairs:
        product = signs[:, one].astype(np.int64) * signs[:, other]
        if product.sum() ** 2 > 2 * np.count_nonzero(product) * math.log(2 * len(pairs) / _RISK):
            both = f"{names[one]} and {names[other]}"
            yield f"The noises of {both} are not independent: together they tell more than the ledger states."


def untested(exact: list[Counts], names: list[str]) -> tuple[str, ...]:
    """Return the releases that both graphs give alike.

    >>> untested([{"edges": np.array([1])}, {"edges": np.array([1])}], ["edges"])
    ('edges',)
    """
    return tuple(name for name in names if np.array_equal(exact[0][name], exact[1][name]))


def pair_of(method: Statistics, unit: Unit) -> tuple[Graph, Graph]:
    """Return two neighboring graphs, the one with the record first."""
    directed = "labels" in unit.public and not needs_one_way(unit)
    size = _NEIGHBORS if "labels" in unit.public else _NEIGHBORS + 1
    arcs = set(permutations(range(size), 2))
    if "labels" in unit.public:  # the neighbors of both ends are not linked, so that no other degree is as large
        arcs = {(u, v) for u, v in arcs if min(u, v) < 2}
        less = arcs - ({(0, 1)} if directed else {(0, 1), (1, 0)})
        return _graph(method, arcs, size, directed), _graph(method, less, size, directed)
    whole = _graph(method, arcs, size, directed)
    less = {arc for arc in arcs if 0 not in arc}
    assert whole.y is not None
    emptied = _graph(method, less, size, directed)
    return whole, replace(emptied, y=np.where(np.arange(size) == 0, -1, whole.y))


def _graph(method: Statistics, arcs: set[tuple[int, int]], size: int, directed: bool) -> Graph:
    sources, targets = np.array(sorted(arcs)).T
    groups = (np.arange(size) == size - 1).astype(np.int64)  # of all but one node the same, for triangles within groups
    graph = Graph.from_edges(
        sources, targets, size, directed=directed, y=groups, classes=("0", "1"), max_degree=size - 1
    )
    names = method.stats
    if "weight" not in names:
        return graph
    return replace(graph, weights=EdgeWeights(np.full(len(graph.indices), FULL, np.uint16), 1.0))


def _exact(method: Statistics, plan: Plan, graph: Graph) -> Counts:
    counted = Counted(graph)
    planned = method.named(plan.unit, plan.public).planned(plan.unit, plan.public)
    return {name: method.exact(name, counted, plan).reshape(shape) for name, _, shape in planned}


def _released(plan: Plan, graph: Graph) -> Counts:
    ledger = Ledger(plan.entry.to_dict(), plan.releases)
    return plan.method.run(plan, graph, Session(ledger, new_key(), 0)).released


def _ratios(method: Statistics, plan: Plan, released: Counts, exact: list[Counts]) -> NDArray[np.float64]:
    """The log-likelihood ratio of each release, at the scale of its noise, which is public."""
    found = np.zeros(len(plan.releases))
    for index, name in enumerate(release.name for release in plan.releases):
        scale = method.scale(plan, name, released)
        if 0 < scale <= WIDEST:
            far, near = (np.abs(released[name] - one[name]).sum() for one in reversed(exact))
            found[index] = (far - near) / float(scale)
    return found
