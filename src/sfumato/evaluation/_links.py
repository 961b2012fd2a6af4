"""How well links that were held out are found again, beside controls. Scores read these links: outside the guarantee.

Whether a pair of nodes is held out is a public draw for the pair (:func:`~sfumato.bounded._pairs.public_draws`), which reads no
edge. So the guarantee of a fit on the other pairs covers all edges: one of a held-out pair is never read in training.
Where a split by time made the graph, the pairs that are first linked from a day on are held out (:mod:`sfumato.graph._later`).

In a graph of two sides pairs without a link are pairs across, and paths of three edges stand in place of common neighbors, which
a user and an item never have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.bounded._pairs import drawn, edges_among
from sfumato.bounded._routing import kept
from sfumato.bounded.aggregation import Arcs
from sfumato.central._evidence import cosines, public_rows
from sfumato.evaluation._outcome import Scored
from sfumato.evaluation._ranking import MEASURES, Lists, lists_of
from sfumato.evaluation._request import Prepared, on_graph
from sfumato.evaluation._verdict import Ranked, verdict_on_pairs
from sfumato.graph._arcs import owners, pack_edges
from sfumato.graph._sides import Sides, check_apart, check_sides
from sfumato.graph._subgraph import adjacency
from sfumato.nn._metrics import area_by_row
from sfumato.privacy.units import NoPrivacy
from sfumato.scoring._scores import Summary, graph_gain_recovered

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.graph._later import Later
    from sfumato.method._plan import Fitted, Plan
    from sfumato.method.contract import Method, Progress
    from sfumato.scoring._groups import Groups

Pairs = NDArray[np.int64]
Scorer = Callable[[Pairs], NDArray[np.float64]]
HELD_OUT = 0.1
RUN, FLOOR, CEILING, NEIGHBORS = (
    "this run",
    "floor: public likeness, no edge",
    "ceiling: the same, no privacy",
    "common neighbors (Adamic-Adar), no privacy",
)
PATHS, DEGREES, NOISY_DEGREES = (
    "items alike by their users, no privacy",
    "popularity: degrees, no privacy",
    "popularity: released degrees",
)
LINKS_ALONE, IN_CLEAR, OF_LINKS = (
    "floor: links alone, no feature",
    "ceiling: features in the clear",
    "common neighbors (Adamic-Adar)",
)
"""Titles beside a run that takes links as public and features as private."""
_FEWEST, _CHUNK, _ROWS, _SCORED = 5, 1 << 14, 64, 1 << 20
AUC, PRECISION = "auc", "average_precision"
SCORES = (AUC, PRECISION, *MEASURES)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A graph without the edges of held-out pairs, these edges (row numbers), and as many pairs that are no edges.

    Of more than 2^20 such edges every k-th is among the ``links`` that AUC and average precision are made of; ``missing``
    holds both arcs of all of them.
    """

    graph: Graph
    links: Pairs
    others: Pairs
    missing: Arcs
    sides: Sides | None = None

    def lists(self, seed: int) -> Lists:
        """Return the lists of some nodes, in which held-out links are looked for."""
        return lists_of(self.graph, self.missing, seed, self.sides)

    def score(self, scorer: Scorer) -> tuple[float, float]:
        """Return AUC and average precision of what ``scorer`` says about both kinds of pairs."""
        return self.measured(scorer)[0]

    def measured(self, scorer: Scorer) -> tuple[tuple[float, float], Ranked]:
        """Return AUC and average precision of a ``scorer``, and for comparisons an id of each pair and the AUC by pair."""
        from sfumato.nn._metrics import auc, average_precision

        links, others = scorer(self.links), scorer(self.others)
        there = np.arange(len(links) + len(others)) < len(links)
        source, target = np.hstack([self.links, self.others])
        rows = area_by_row(there, np.concatenate([links, others]))
        return (auc(links, others), average_precision(links, others)), (source * self.graph.num_nodes + target, rows)


def hold_out(graph: Graph, seed: int, sides: str | None = None) -> HeldOut:
    """Hold out a tenth of all pairs by a public draw, and delete their edges; ``sides`` declares those of a bipartite graph.

    Of a graph of the past, which a split by time made, its later links are held out, and nothing is deleted.
    """
    found = check_sides(graph, sides)
    if graph.later is not None:
        return _from_a_day_on(graph, graph.later, seed, found)
    arcs = Arcs(graph.indptr, graph.indices)
    held = drawn(arcs, "held out", HELD_OUT, seed)
    links, at, step = list[Pairs](), 0, max(1, -(-int(np.count_nonzero(held)) // (2 * _SCORED)))
    missing = kept(arcs, held)
    for pairs in edges_among(arcs, held):
        links.append(pairs[:, -at % step :: step])
        at += pairs.shape[1]
    scored = np.hstack([np.empty((2, 0), np.int64), *links])
    if scored.shape[1] < _FEWEST:
        raise fail("graph", graph.name, f"to have {_FEWEST} edges or more to hold out", "Bring a larger graph.")
    from sfumato.local._link_prediction import absent_pairs

    second = None if found is None else found.second
    others = absent_pairs(np.random.default_rng(seed), graph, scored.shape[1], second)
    rest = np.logical_not(held, out=held)
    left = kept(arcs, rest)
    weights = None if graph.weights is None else graph.weights.take(rest)
    types = None if graph.types is None else graph.types.take(rest)
    fewer = graph.changed(indptr=left.offsets, indices=left.sources, weights=weights, types=types)
    return HeldOut(fewer, scored, others, missing, found)


def _from_a_day_on(graph: Graph, later: Later, seed: int, sides: Sides | None) -> HeldOut:
    """Hold out the pairs that are first linked from a day on, beside pairs that are linked neither before nor after it."""
    from sfumato.local._link_prediction import non_edges

    links, second = later.pairs, None if sides is None else sides.second
    if links.shape[1] < _FEWEST:
        raise fail("split_by_time", later.split, f"to leave {_FEWEST} new links or more", "Take an earlier day.")
    if sides is not None:
        check_apart(sides, links)
    ends = np.hstack((np.stack((owners(graph.indptr), graph.indices.astype(np.int64))), links))
    known = np.stack((ends.min(axis=0), ends.max(axis=0)))
    others = non_edges(np.random.default_rng(seed), graph.num_nodes, known, links.shape[1], second)
    missing = Arcs(*pack_edges(links[0], links[1], graph.num_nodes)[:2])
    return HeldOut(graph.changed(later=None), links, others, missing, sides)


Measured = dict[str, Summary]
"""``SCORES`` of one way to score pairs, over seeds."""


@dataclass(frozen=True)
class LinkEvaluation(Scored):
    """The scores of a plan that learns links, beside its controls: by title, the run's own under ``RUN``.

    ``first`` is the fit that is kept, and ``areas`` are those of pairs by title and seed.
    """

    first: Fitted
    scores: dict[str, Measured]
    areas: dict[str, list[Ranked]]
    from_day: str | None = None  # COLUMN:DATE, where links from a day on were held out

    def to_dict(self, unit: str) -> dict[str, Any]:
        own = self.scores[RUN]
        floor, ceiling = (self._end(name) for name in ("floor", "ceiling"))
        low, high = (None if one is None else one.mean for one in (floor, ceiling))
        return {
            **super().to_dict(unit),
            "task": "link",
            **{f"test_{name}": found.to_dict() for name, found in own.items()},
            "floor": None if floor is None else floor.to_dict(),
            "ceiling": None if ceiling is None else ceiling.to_dict(),
            "graph_gain_recovered": graph_gain_recovered(own[AUC].mean, low, high),
            "verdict": self._verdict(),
            "controls": {
                title: {name: found.to_dict() for name, found in one.items()}
                for title, one in self.scores.items()
                if title != RUN
            },
            "held_out": HELD_OUT if self.from_day is None else self.from_day,
        }

    def _verdict(self) -> dict[str, Any] | None:
        floor, ceiling = (
            next((found for title, found in self.areas.items() if title.startswith(name)), ())
            for name in ("floor", "ceiling")
        )
        adds = "features add" if LINKS_ALONE in self.areas else "the graph adds"
        return verdict_on_pairs(self.areas[RUN], floor, ceiling, adds)

    def _end(self, name: str) -> Summary | None:
        return next((one[AUC] for title, one in self.scores.items() if title.startswith(name)), None)


class PreparedLinks(Prepared):
    """A request for a method that scores pairs of nodes. Each seed holds out other links; those from a day on stay."""

    scores_later = True

    @property
    def learned(self) -> Prepared:
        """The same with the graph of its first seed, from which the fit that is kept learns."""
        graph = self._first.graph
        return replace(self, graph=graph, plan=on_graph(self.plan, graph))

    @cached_property
    def _first(self) -> HeldOut:
        return hold_out(self.graph, self.request.seeds[0], self._sides)

    @property
    def _sides(self) -> str | None:
        sides: str | None = self.request.method.settings.get("sides")
        return sides

    def evaluate(self, first: Fitted | None = None, report: Progress | None = None) -> LinkEvaluation:
        """Score the first fit, those of further seeds, and the controls; ``report`` is told nothing."""
        assert first is not None
        request, found, areas = self.request, dict[str, list[tuple[float, ...]]](), dict[str, list[Ranked]]()
        for seed in request.seeds:
            held = self._first if seed == request.seeds[0] else hold_out(self.graph, seed, self._sides)
            lists = held.lists(seed)
            graph = request.source.with_roles(held.graph, seed)
            fitted = first if seed == request.seeds[0] else on_graph(self.plan, graph).fit(graph, seed=seed)
            for title, scorer in _scorers(fitted, graph, seed, held.sides, controls=request.controls):
                score, ranked = held.measured(scorer)
                found.setdefault(title, []).append((*score, *lists.measured(scorer)))
                areas.setdefault(title, []).append(ranked)
        scores = {
            title: {name: Summary.of(column) for name, column in zip(SCORES, zip(*rows, strict=True), strict=True)}
            for title, rows in found.items()
        }
        later = self.graph.later
        return LinkEvaluation(self.plan, first, scores, areas, None if later is None else later.split)

    def detail(self, _evaluation: Any, by: Groups | None = None) -> dict[str, Any]:
        """Return nothing more: links have no classes."""
        return {}


def _scorers(
    fitted: Fitted, graph: Graph, seed: int, sides: Sides | None, *, controls: bool
) -> list[tuple[str, Scorer]]:
    run = RUN, fitted.scorer(graph)
    from sfumato.local._link_prediction import LinkPrediction

    method = fitted.plan.method
    if isinstance(method, LinkPrediction):
        return _beside_public_links(fitted, replace(method, epsilon_x=None), graph, seed) if controls else [run]
    noisy = [(NOISY_DEGREES, _popular(fitted.embeddings(graph).sum(axis=1)))] if fitted.plan.unit.private else []
    if not controls:
        return [run, *noisy]
    rows, clear = public_rows(graph), _in_clear(method, graph, seed)
    near = NEIGHBORS, lambda pairs: adamic_adar(graph, pairs)
    if sides is not None:
        near = PATHS, lambda pairs: alike_items(graph, pairs, sides)
    return [
        (FLOOR, lambda pairs: cosines(rows, pairs)),
        run,
        (CEILING, clear.scorer(graph)),
        near,
        (DEGREES, _popular(np.diff(graph.indptr))),
        *noisy,
    ]


def _beside_public_links(fitted: Fitted, method: Method, graph: Graph, seed: int) -> list[tuple[str, Scorer]]:
    """The same beside a run whose links are public: the floor gives each node a column of its own for features."""
    alone = replace(graph, x=sp.eye(graph.num_nodes, dtype=np.float32, format="csr"), feature_names=(), ranges=())
    floor, clear = (_in_clear(method, one, seed) for one in (alone, graph))
    return [
        (LINKS_ALONE, floor.scorer(alone)),
        (RUN, fitted.scorer(graph)),
        (IN_CLEAR, clear.scorer(graph)),
        (OF_LINKS, lambda pairs: adamic_adar(graph, pairs)),
    ]


def _in_clear(method: Method, graph: Graph, seed: int) -> Fitted:
    plan: Plan = method.calibrate(None, NoPrivacy(), graph.public_facts(NoPrivacy()))
    return plan.fit(graph, seed=seed)


def _popular(degrees: NDArray[Any]) -> Scorer:
    """A scorer by the product of both degrees: in the list of one node, by the degree of the other."""
    logs = np.log1p(np.maximum(degrees, 0))
    return lambda pairs: np.asarray(logs[pairs[0]] + logs[pairs[1]], np.float64)


def adamic_adar(graph: Graph, pairs: Pairs) -> NDArray[np.float64]:
    """Return the sum over common neighbors of one over the log of their degree, float64 [m]. It reads edges: not private."""
    arcs = adjacency(graph).astype(np.float64)
    weighted = arcs.multiply(1 / np.log(np.maximum(np.diff(graph.indptr), 2))).tocsr()
    return _products(weighted, arcs, pairs)


def alike_items(graph: Graph, pairs: Pairs, sides: Sides) -> NDArray[np.float64]:
    """Return the sum of the cosines of the item of a pair and of those that its user has, float64 [m]: not private.

    The cosine of two items is that of their users, as in item-based recommenders: it counts paths of three edges. Users are who
    ask for suggestions; if both sides do, those of the second.
    """
    users = sides.second if sides.asks.all() else sides.asks
    pairs = np.where(users[pairs[0]], pairs, pairs[::-1])
    arcs = adjacency(graph).astype(np.float64)
    scaled = sp.diags(1 / np.sqrt(np.maximum(np.diff(graph.indptr), 1))) @ arcs
    nodes, at = np.unique(pairs[0], return_inverse=True)
    paths = [  # from the first node to its neighbors, to their other neighbors
        sp.csr_matrix(arcs[nodes[part : part + _ROWS]] @ scaled) for part in range(0, len(nodes), _ROWS)
    ]
    return _products(sp.vstack(paths).tocsr(), sp.csr_matrix(scaled), np.stack((at, pairs[1])))


def _products(left: sp.csr_matrix, right: sp.csr_matrix, pairs: Pairs) -> NDArray[np.float64]:
    """The inner product of a row on the left and one on the right, for each pair of rows [2, m]."""
    nodes, at = np.unique(pairs[0], return_inverse=True)
    if pairs.shape[1] < _ROWS * len(nodes):
        parts = [pairs[:, start : start + _CHUNK] for start in range(0, pairs.shape[1], _CHUNK)]
        return np.concatenate([np.asarray(left[u].multiply(right[v]).sum(axis=1)).ravel() for u, v in parts])
    found, turned = np.empty(pairs.shape[1]), right.T.tocsr()
    for start in range(0, len(nodes), _ROWS):  # whole lists: all products of a row at once
        rows = np.asarray((left[nodes[start : start + _ROWS]] @ turned).todense())
        asked = (at >= start) & (at < start + _ROWS)
        found[asked] = rows[at[asked] - start, pairs[1, asked]]
    return found
