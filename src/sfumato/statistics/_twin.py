"""A synthetic twin of a graph, made of what a run of statistics released and of what is public. It spends nothing.

At edge level nodes, features and labels are public, so the twin has them as they are; its edges are new. At node level they are
protected: the twin has as many nodes, none of which stands for one of the graph, and labels that are dealt at random, so many of
each as was released. It has no features then.

1. *Edges between groups* are as many as the run estimates, to one: groups are the classes, as in the run.
2. *Degrees* are those of the estimated sequence. Where the degree of every single node was released, a node that has many edges
   has many in the twin; else degrees are dealt at random, the larger ones to groups with more edges.
3. *Triangles* come from cliques within groups (:mod:`~sfumato.statistics._cliques`), as many as the run estimates, if the
   degrees and the edges within groups allow it.
4. The other edges are wired at random between the groups (:mod:`~sfumato.statistics._wiring`).

What no statistic holds is not kept: which nodes are neighbors, communities within groups, how features and edges go together
beyond the groups, weights, and of directed graphs triangles and arcs in both directions.

**Formal guarantee.** The twin is a function of the release, of public facts of the nodes, and of a public seed, so it inherits
the claim of the run whole. The arcs of the graph that is given are dropped before anything is read, and where labels are
protected no graph is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.errors import InputError
from sfumato.graph._arcs import nothing_merged, pack_arcs, pack_edges
from sfumato.loops._triangles import triangles
from sfumato.method._graph_key import GraphKey
from sfumato.statistics._cliques import cliques, edges_of, thinned
from sfumato.statistics._counts import Counted
from sfumato.statistics._degrees import degrees_of
from sfumato.statistics._estimates import Estimates
from sfumato.statistics._wiring import Pairs, Whole, stubs_of, wire

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

_STEPS, _HALVES, _SPARE, _NEAR = 6, 10, 1.2, 0.002


def twin(run: Fitted | Estimates, nodes: Graph | None = None, seed: int = 0) -> Graph:
    r"""Make a graph with new edges, and where these are protected with new nodes, from released statistics alone.

    With m(g, h) the estimated number of edges between two groups and d(v) that of the edges of a node, scaled so that the sum
    over each group is :math:`\sum_h m(g, h)` with edges within counted twice, the twin has exactly m(g, h) edges there,
    and node v has d(v) of all edges but for a few. Cliques within groups add triangles until it has as many as were estimated.

    **Formal guarantee.** Post-processing of the run, so the claim of the run covers the twin: arcs of ``nodes`` are not read.

    Shapes: arrays of the twin are those of ``nodes``; ``indptr`` and ``indices`` are new.

    Args:
        run: a run of :class:`~sfumato.statistics._statistics.Statistics`, fitted or loaded, or its description.
        nodes: at edge level the same nodes in the same order, with their labels; whatever arcs it has are dropped first, and the
            twin has directions if the run has. None at node level, where nodes are made up.
        seed: a public seed.

    Raises:
        InputError: the run has no number of edges, or at node level no sizes of groups; or the nodes or their labels are not
            those of the run.

    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> from sfumato.graph._synthetic import campus
    >>> from sfumato.statistics._statistics import Statistics
    >>> graph, unit = campus(600), EdgeLevel(directed=False)
    >>> run = Statistics("edges,mixing,degrees").calibrate(Budget(10.0, 0.0), unit, graph.public_facts(unit)).fit(graph)
    >>> abs(twin(run, graph).num_edges - graph.num_edges) < 30
    True

    Source: Karrer and Newman (2011) for blocks and degrees; Seshadhri, Kolda and Pinar (2012) for triangles.
    """
    found = run if isinstance(run, Estimates) else Estimates(run)
    return Twin.of(found, nodes, check_int(low=0, seed=seed)).graph


def without_arcs(nodes: Graph) -> Graph:
    """Return the nodes with what is public of them under units of edges: no arcs, and nothing that was counted on them."""
    return nodes.changed(
        indptr=np.zeros(nodes.num_nodes + 1, np.int64),
        indices=np.empty(0, np.int32),
        weights=None,
        types=None,
        degree_bounds=None,
        max_degree=None,
        mean_degree=None,
        merged=nothing_merged(),
        outside={},
    )


@dataclass(frozen=True, eq=False)
class Twin:
    """What a twin is made of, and the twin."""

    run: Estimates
    nodes: Graph
    seed: int
    groups: Whole
    table: Whole

    @classmethod
    def of(cls, run: Estimates, nodes: Graph | None, seed: int) -> Twin:
        """Check that the nodes are those of the run, or make some up, and take from the run how many edges lead where."""
        public = made_up(run, nodes, seed) if protects_nodes(run) else _checked(run, nodes)
        groups = Counted(public).groups
        if run.num_edges is None:
            raise InputError(
                "Expected a run that knows how many edges there are, got none of edges, mixing and degrees. Release one of "
                "them: sfumato describe --stats edges,mixing,degrees,triangles"
            )
        if run.mixing is None:
            groups = np.zeros(public.num_nodes, np.int64)
        table = np.array([[run.num_edges]]) if run.mixing is None else run.mixing
        return cls(run, public, seed, groups, table)

    @property
    def pairs(self) -> Pairs:
        return Pairs(self.nodes.num_nodes, self.run.directed)

    @cached_property
    def graph(self) -> Graph:
        """The twin itself."""
        source, target = self.pairs.ends(self._keys)
        pack = pack_arcs if self.run.directed else pack_edges
        indptr, indices, _ = pack(source, target, self.nodes.num_nodes, "error")
        return self.nodes.changed(indptr=indptr, indices=indices, name=f"{self.nodes.name}-twin")

    @cached_property
    def _keys(self) -> Whole:
        made, run = np.random.default_rng([self.seed, 0]), self.run
        dealt = stubs_of(self.table, directed=run.directed)
        if run.directed:
            leaving = degrees_of(run, made, self.groups, dealt.sum(axis=1), "out-degrees")
            entering = degrees_of(run, made, self.groups, dealt.sum(axis=0), "in-degrees")
            return wire(made, self.groups, self.table, leaving, entering)
        degrees = degrees_of(run, made, self.groups, dealt.sum(axis=1), "degrees")
        wanted = run.raw("triangles")
        if wanted is None or (len(wanted) > 1 and len(wanted) != len(self.table)):
            return wire(made, self.groups, self.table, degrees)
        return self._with_triangles(degrees, np.maximum(wanted, 0))

    def _with_triangles(self, degrees: Whole, wanted: NDArray[np.float64]) -> Whole:
        """Wire with so many cliques that triangles are as many as wanted, of each group if they were counted by groups.

        A few cliques more than are needed are chosen, in a random order. Of these as many as should do are kept, the whole graph
        is wired and counted, and what is missing or too much then changes how many are kept.
        """
        kinds = self.groups if len(wanted) > 1 else np.zeros(len(self.groups), np.int64)
        near = np.maximum(_NEAR * wanted, self.run.scale("triangles") / 4)
        chosen, aim = np.empty((2, 0), np.int64), np.zeros(len(wanted))
        best, least = np.empty(0, np.int64), np.inf
        for step in range(_STEPS):
            kept = thinned(np.random.default_rng([self.seed, 3]), chosen, kinds, aim)
            keys = self._wired(degrees, kept)
            indptr, indices, _ = pack_edges(*self.pairs.ends(keys), self.nodes.num_nodes, "error")
            excess = triangles(indptr, indices, kinds, len(wanted)) - wanted
            miss = float(np.abs(excess).sum())
            best, least = (keys, miss) if miss < least else (best, least)
            aim = np.maximum(aim - excess, 0)
            if ((np.abs(excess) <= near) | ((aim == 0) & (excess >= 0))).all():
                break
            if not step:
                chosen = self._chosen(degrees, _SPARE * aim)
        return best

    def _chosen(self, degrees: Whole, wanted: NDArray[np.float64]) -> Whole:
        """Choose cliques with at least so many triangles, if there may be so many: the least share of nodes, by bisection."""
        low, high = np.zeros(len(wanted)), np.ones(len(wanted))
        for _ in range(_HALVES):
            middle = (low + high) / 2
            closed = self._cliques(degrees, middle)[1]
            low, high = np.where(closed < wanted, middle, low), np.where(closed < wanted, high, middle)
        return self._cliques(degrees, high)[0]

    def _cliques(self, degrees: Whole, shares: NDArray[np.float64]) -> tuple[Whole, Whole]:
        """Cliques of these shares of nodes, whose randomness is the same for all shares."""
        whole = shares if len(shares) > 1 else np.repeat(shares, len(self.table))
        made = np.random.default_rng([self.seed, 1])
        members, closed = cliques(made, self.groups, degrees, np.diag(self.table).copy(), whole)
        return members, closed if len(shares) > 1 else closed.sum(keepdims=True)

    def _wired(self, degrees: Whole, members: Whole) -> Whole:
        """Wire the edges of cliques, and all others at random."""
        taken = edges_of(members, len(degrees))
        one, other = self.pairs.ends(taken)
        within = np.bincount(self.groups[one], minlength=len(self.table))
        rest = degrees - np.bincount(one, minlength=len(degrees)) - np.bincount(other, minlength=len(degrees))
        made = np.random.default_rng([self.seed, 2])
        return np.concatenate([taken, wire(made, self.groups, self.table - np.diag(within), rest, taken=taken)])


def protects_nodes(run: Estimates) -> bool:
    """Whether features and labels are protected, so that a twin may not have those of the graph."""
    return not {"labels", "features", "node_ids"} <= {*run.fitted.plan.unit.public}


def _checked(run: Estimates, nodes: Graph | None) -> Graph:
    """Return the public nodes without arcs, if they are those of the run."""
    if nodes is None:
        raise InputError("Expected the nodes of the run, which are public at edge level, got none. Pass them as nodes.")
    public = without_arcs(nodes).changed(directed=run.directed)  # a table of nodes alone does not say it
    key, sizes = run.fitted.graph_key, run.public_sizes
    if GraphKey.of(public).ids_digest != key.ids_digest or public.classes != key.classes:
        raise InputError(
            "Expected the nodes of the run, in its order and with its classes, got others. Read the same node table, with "
            "the same label column."
        )
    if sizes is not None and (np.bincount(Counted(public).groups, minlength=len(sizes)) != sizes).any():
        raise InputError("Expected as many nodes of each class as in the run, got others. Read the same labels.")
    return public


def made_up(run: Estimates, nodes: Graph | None, seed: int) -> Graph:
    """Return as many nodes as there are, with labels dealt at random by the released sizes of groups; no graph is read."""
    from sfumato.graph._graph import Graph

    if nodes is not None:
        raise InputError(
            f"Expected no nodes, since features and labels are protected when the unit is {run.fitted.plan.unit.describe()}, got "
            "a graph. Leave it out: nodes of the twin are made up."
        )
    classes, labels = run.fitted.graph_key.classes, None
    if run.sizes is not None:
        labels = np.repeat(np.append(np.arange(len(classes)), -1), run.sizes)
        np.random.default_rng([seed, 4]).shuffle(labels)
    elif run.mixing is not None:
        raise InputError(
            "Expected a run that released how many nodes each group has, since it released edges by groups, got none. Release "
            "it too: sfumato describe --stats edges,mixing,degrees,groups"
        )
    named: dict[str, Any] = {} if labels is None else {"y": labels, "classes": classes}
    none = np.empty(0, np.int64)
    return Graph.from_edges(none, none, run.num_nodes, directed=run.directed, name=run.fitted.graph_key.name, **named)
