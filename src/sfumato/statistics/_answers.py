"""Answers of a run of statistics: its estimates in words, each with an interval. Post-processing alone.

*Intervals* come from the laws of the noise of the raw counts (:mod:`~sfumato.statistics._laws`), so they hold whatever the graph
is. Where agreement moves an estimate out of its interval, the interval is stretched to it, so that numbers add up and it
holds at least as often. None reaches beyond what a graph can have. Quantiles hold with at least their chance. What is computed
from many counts at once (assortativity, conductance) has an interval from noise that is drawn again, and is marked as
approximate; where noise hides the counts, it is the whole range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_kind, check_real
from sfumato.statistics._answer import Answer as Answer
from sfumato.statistics._estimates import Estimates
from sfumato.statistics._laws import Law, share_interval, sum_bound
from sfumato.statistics._statistics import WIDEST
from sfumato.statistics._words import answer_lines

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted

Counts = NDArray[np.int64]
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_DRAWS, _HIDDEN = 2000, 5.0  # of a sum below so many deviations of its noise nothing is said
_CELLS, _TOPS, _ABOVE = 1 << 22, 10, (10, 100, 1000)


@dataclass(frozen=True)
class Described(Estimates):
    """A described graph is what a run of statistics says about it: numbers with intervals, and estimates that agree.

    ``answers`` has every number with its interval, and ``print`` shows them. ``num_edges``, ``mixing`` (int64 [groups, groups],
    in the order of ``groups``), ``per_node``, ``degree_counts()`` and ``sequence("degrees")`` are the estimates behind them, as
    arrays. All of it is post-processing of released counts, so it spends nothing.

    Args:
        fitted: the run, fitted or loaded.
        confidence: the chance with which each interval holds, of itself.

    Raises:
        InputError: the run has no statistics, or the confidence is outside (0, 1).
    """

    confidence: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(low=0, high=1, open_low=True, open_high=True, confidence=self.confidence)
        check_kind(float, confidence=float(self.confidence))

    def __str__(self) -> str:
        """Return a table of all answers."""
        return "\n".join(answer_lines(self.answers, self.confidence, self.fitted.plan))

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Return all answers, in the order of the statistics."""
        return (
            *(*self._edges(), *self._mixing(), *self._degrees(), *self._shapes(), *self._mutual(), *self._weights()),
            *(*self._node_degrees(), *self._group_sizes()),
        )

    def _edges(self) -> Iterator[Answer]:
        found = self.raw("edges")
        if found is None:
            return
        law = Law.of([self.scale("edges")])
        kind, pairs = ("arcs", 1) if self.directed else ("edges", 2)
        one = self._count("edges", f"number of {kind}", float(found[0]), law, self.num_edges, self.most_edges)
        yield one
        n = self.num_nodes
        for what, factor in (("mean degree", pairs / n), ("density", pairs / (n * max(1, n - 1)))):
            yield _times(one, f"{what} ({'out' if self.directed else 'all'})" if self.directed else what, factor)

    def _mixing(self) -> Iterator[Answer]:
        found, table = self.raw("mixing"), self.mixing
        if found is None or table is None:
            return
        law, names, ends = Law.of([self.scale("mixing")]), self.groups, self.pairs
        for place, (one, other) in enumerate(zip(*ends, strict=True)):
            if self.used_pairs[place]:
                what = f"{names[one]} {'to' if self.directed else 'and'} {names[other]}"
                pair = self._count(
                    "mixing", what, float(found[place]), law, float(table[one, other]), self.room[one, other]
                )
                yield replace(pair, groups=(names[one], names[other]))
        if len(names) > 2:
            of = partial(_assortativity, directed=self.directed)
            yield from self._redrawn("assortativity by group", np.ones(len(found)), of, -1)
        for group, name in enumerate(names):
            if not self.directed and self.has_nodes(group) and len(names) > 2:
                part = f"conductance of {name}"
                parts = (ends[0] == group).astype(np.float64) + (ends[1] == group)
                yield from self._redrawn(part, parts, partial(_conductance, group=group), 0)

    def _degrees(self) -> Iterator[Answer]:
        for name in ("degrees", "out-degrees", "in-degrees"):
            if self.raw(name) is None:
                continue
            rows = len(self.fitted.released[name])
            for group in range(rows):
                if rows > 1 and not self.has_nodes(group):
                    continue
                of = f" of {self.groups[group]}" if rows > 1 else ""
                yield from self._degrees_of(name, group, of)

    def _degrees_of(self, name: str, group: int, of: str) -> Iterator[Answer]:
        ends, scale = self.method.ends(self.fitted.plan), self.scale(name)
        below, sequence = self.raw_row(name, group), self.sequence(name, group)
        size, word = len(sequence), name.removesuffix("s")
        one, two = Law.of([scale]), Law.of([scale, scale])
        surely, perhaps = self._bounds_below(below, scale)
        first = np.append(0, ends + 1)  # of the degrees that are counted from one end to the next
        last_of = np.append(ends, self.most_degree)
        for share in QUANTILES:
            place = share * size
            value = float(sequence[min(size - 1, max(0, math.ceil(place) - 1))]) if size else 0.0
            # a degree is kept if its count may reach the place, and that of the degree before it may stay below
            reach, short = np.append(perhaps >= place, True), np.append(True, surely < place)
            kept = np.flatnonzero(reach & short)
            low, high = (float(first[kept[0]]), float(last_of[kept[-1]])) if len(kept) else (value, value)
            what = f"{share:.0%} quantile of {word}s{of}"
            yield _stretched(Answer(name, what, value, low, high, self.confidence))
        if not of and self.raw("edges") is None and len(ends) == last_of[-1]:  # each degree has its count
            sums = float(len(ends) * size - below.sum()), sum_bound(scale, len(ends), (1 - self.confidence) / 2)
            low, high = (min(max(sums[0] + side * sums[1], 0), len(ends) * size) / size for side in (-1, 1))
            value = float(sequence.sum()) / size
            yield _stretched(Answer(name, f"mean {word}", value, low, high, self.confidence))
        for end in _ABOVE:
            at = int(np.searchsorted(ends, end))
            if at < len(ends) and ends[at] == end and size:
                more = self._count(name, "", size - below[at], one, float((sequence > end).sum()), size)
                yield _times(more, f"share of nodes{of} of {word} above {end}", 1 / size)
        last = -1
        for end in [0, *(2**power for power in range(40))]:
            at = int(np.searchsorted(ends, end))
            if at >= len(ends) or (last >= 0 and ends[at] <= last):
                break
            if ends[at] != end:
                continue
            value = float(((sequence > last) & (sequence <= end)).sum())
            before = 0.0 if last < 0 else below[int(np.searchsorted(ends, last))]
            what = f"nodes{of} of {word} {end}" if end == last + 1 else f"nodes{of} of {word} {last + 1} to {end}"
            found = self._count(name, what, below[at] - before, one if last < 0 else two, value, size)
            yield replace(found, groups=(self.groups[group],) if of else (), span=(last + 1, end))
            last = end
        most = int(ends[-1]) + 1
        if 0 <= last < most:  # the rest, so that all nodes are in one row
            what = f"nodes{of} of {word} {last + 1}" + (f" to {most}" if most > last + 1 else "")
            raw = size - below[int(np.searchsorted(ends, last))]
            found = self._count(name, what, raw, one, float((sequence > last).sum()), size)
            yield replace(found, groups=(self.groups[group],) if of else (), span=(last + 1, most))

    def _bounds_below(
        self, below: NDArray[np.float64], scale: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds from below and from above on the number of nodes of degree at most each end, each for one end at a time.

        Numbers grow with the end, so the mean over ends up to one is at most its number, and that over ends from one on at
        least: of end i the next i / 4 are taken (a power of two), whose noise is less. Each fails with half the chance.
        """
        at, most, failure = np.arange(len(below)), len(below), (1 - self.confidence) / 2
        widths = 2 ** np.floor(np.log2(np.maximum(1, at // 4))).astype(np.int64)
        sums, law = np.append(0.0, np.cumsum(below)), Law.of([scale]).interval(self.confidence)
        surely, perhaps = below - law[1], below - law[0]
        for width in np.unique(widths)[1:].tolist():
            bound = sum_bound(scale, width, failure) / width
            here = at[(widths == width)]
            surely[here] = (sums[here + 1] - sums[here + 1 - width]) / width - bound
            here = here[here + width <= most]
            perhaps[here] = (sums[here + width] - sums[here]) / width + bound
        return surely, perhaps

    def _node_degrees(self) -> Iterator[Answer]:
        """The nodes of largest noisy degree. Their intervals hold for all nodes at once, since the noise chose these."""
        found = self.raw("node-degrees")
        if found is None:
            return
        law = Law.of([self.scale("node-degrees")])
        less, more, _ = law.interval(1 - (1 - self.confidence) / found.shape[1])
        most = float(self.num_nodes - 1)
        for row, word in zip(found, ("out-degree", "in-degree") if self.directed else ("degree",), strict=True):
            for place, node in enumerate(np.argsort(-row, kind="stable")[:_TOPS].tolist(), 1):
                low, high = (min(max(float(row[node]) - side, 0.0), most) for side in (more, less))
                what = f"{word} of node {node} (row of the node table, from 0), number {place} by {word}"
                yield Answer("node-degrees", what, min(max(float(row[node]), low), high), low, high, self.confidence)

    def _group_sizes(self) -> Iterator[Answer]:
        found, best = self.raw("groups"), self.sizes
        if found is None or best is None:
            return
        law, most = Law.of([self.scale("groups")]), float(self.num_nodes)
        for name, raw, value in zip(self.groups, found.tolist(), best.tolist(), strict=True):
            yield replace(self._count("groups", f"nodes of {name}", raw, law, float(value), most), groups=(name,))

    def _shapes(self) -> Iterator[Answer]:
        words = {
            "triangles": "triangles",
            "wedges": "wedges (pairs of edges at a node)",
            "stars": "stars of three edges",
        }
        for name, what in words.items():
            found = self.fitted.released.get(name)
            if found is None:
                continue
            scale = self.scale(name)
            if scale > WIDEST:
                yield Answer(name, what, None, None, None, self.confidence)
                continue
            for group, value in enumerate(found.tolist()):
                if len(found) == 1 or self.has_nodes(group):
                    within = f" within {self.groups[group]}" if len(found) > 1 else ""
                    if name == "triangles":
                        most = math.comb(self._size(name, group), 3)
                    else:
                        most = self.num_nodes * math.comb(self.most_degree, 2 if name == "wedges" else 3)
                    yield self._count(name, what + within, value, Law.of([scale]), None, float(most))
        closed, wedges = self.raw("triangles"), self.raw("wedges")
        if closed is not None and wedges is not None and len(closed) == 1:
            scales = 3 * self.scale("triangles"), self.scale("wedges")
            above, below = 3 * float(closed[0]), float(wedges[0])
            low, high = share_interval(above, below, *scales, self.confidence)
            low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
            value = min(max(above / below, low), high) if below > 0 else (low + high) / 2
            yield Answer("triangles", "clustering (share of wedges that are closed)", value, low, high, self.confidence)

    def _mutual(self) -> Iterator[Answer]:
        found = self.raw("mutual")
        if found is not None:
            what = "pairs of nodes with arcs in both directions"
            yield self._count(
                "mutual", what, float(found[0]), Law.of([self.scale("mutual")]), None, self.most_edges / 2
            )

    def _weights(self) -> Iterator[Answer]:
        from sfumato.graph._weights import FULL

        bound = self.fitted.plan.public.max_weight
        for name in ("weight", "weights"):
            found = self.raw(name)
            if found is None or bound is None:
                continue
            law = Law.of([self.scale(name)])
            if name == "weight":
                what = f"sum of the weights, each clipped to {bound:g}"
                yield _times(self._count(name, "", float(found[0]), law), what, bound / FULL)
                continue
            ends = np.linspace(0, bound, len(found) + 1)
            for place, value in enumerate(found.tolist()):
                last = place == len(found) - 1
                until = f"or more (clipped to {bound:g})" if last else f"to below {ends[place + 1]:g}"
                what = f"{'arcs' if self.directed else 'edges'} of weight {ends[place]:g} {until}"
                yield self._count(name, what, value, law)

    def _count(
        self, statistic: str, what: str, raw: float, law: Law, value: float | None = None, most: float = math.inf
    ) -> Answer:
        """An integer count from 0 to ``most``: the interval of the raw count, stretched to the estimate if need be."""
        less, more, coverage = law.interval(self.confidence)
        low, high = (min(max(0.0, float(raw - side)), most) for side in (more, less))
        best = min(max(raw, low), high) if value is None else value
        return Answer(statistic, what, best, min(low, best), max(high, best), coverage, count=True)

    @property
    def _raw_pairs(self) -> NDArray[np.float64]:
        """Released pairs of groups, which no agreement has moved: sums of them have no bias."""
        found = self.raw("mixing")
        assert found is not None
        return found * self.used_pairs

    @cached_property
    def _tables_again(self) -> NDArray[np.float64]:
        """Tables of pairs of groups with noise that is drawn again, float64 [draws, groups, groups]."""
        size, ends = len(self.groups), self.pairs
        count = min(_DRAWS, max(_DRAWS // 20, _CELLS // size**2))
        draws = np.random.default_rng(0).laplace(
            0, self.scale("mixing"), (count, len(ends[0]))
        )  # public: of what was released
        tables = np.zeros((count, size, size))
        tables[:, ends[0], ends[1]] = (self._raw_pairs + draws) * self.used_pairs
        if not self.directed:
            tables[:, ends[1], ends[0]] = tables[:, ends[0], ends[1]]
        return tables

    def _redrawn(self, what: str, parts: NDArray[np.float64], of: Any, least: float) -> Iterator[Answer]:
        """A number of all pairs of groups, from ``least`` to 1, with an interval from noise that is drawn again.

        Noise is added to the released counts. ``parts`` says how often each pair is counted in what the number is a share of.
        """
        assert self.mixing is not None
        with np.errstate(all="ignore"):
            value, shown = float(of(self.mixing.astype(np.float64))), float(of(self.table_of(self._raw_pairs)))
        scale, used = self.scale("mixing"), parts * self.used_pairs
        hidden = self._raw_pairs @ used < _HIDDEN * scale * math.sqrt(2 * float(used @ used))
        if hidden or not math.isfinite(value):
            value = min(max(value, least), 1.0) if math.isfinite(value) else (1 + least) / 2
            yield Answer("mixing", what, value, least, 1.0, 1.0)
            return
        if not scale:
            yield Answer("mixing", what, value, value, value, 1.0)
            return
        with np.errstate(all="ignore"):
            moved = np.atleast_1d(of(self._tables_again)) - shown
        moved = moved[np.isfinite(moved)]
        ends = np.quantile(moved, [(1 + self.confidence) / 2, (1 - self.confidence) / 2])
        low, high = (min(max(shown - float(end), least), 1.0) for end in ends)
        yield _stretched(Answer("mixing", what, value, low, high, self.confidence, exact=False))


def describe(fitted: Fitted, confidence: float = 0.95) -> Described:
    """Return what a run of statistics says about its graph, with intervals; it spends nothing.

    Args:
        fitted: the run, from ``fit`` or :func:`sfumato.load`.
        confidence: the chance with which each interval holds its number, of itself. It covers the noise of the mechanism and
            nothing else.

    Raises:
        InputError: the run has no statistics, or the confidence is outside (0, 1).

    >>> import sfumato as sf
    >>> graph, unit = sf.graph.campus(300, seed=0), sf.EdgeLevel(directed=False)
    >>> plan = sf.Statistics("edges").calibrate(sf.Budget(1.0, 0.0), unit, graph.public_facts(unit))
    >>> number = describe(plan.fit(graph)).answers[0]
    >>> number.what, number.high - number.low <= 7, round(number.coverage, 2)
    ('number of edges', True, 0.95)
    """
    return Described(fitted, confidence)


def _stretched(one: Answer) -> Answer:
    """The same with an interval that holds its estimate too."""
    assert one.value is not None
    assert one.low is not None
    assert one.high is not None
    return replace(one, low=min(one.low, one.value), high=max(one.high, one.value))


def _times(one: Answer, what: str, factor: float) -> Answer:
    assert one.value is not None
    assert one.low is not None
    assert one.high is not None
    value, low, high = (end * factor for end in (one.value, one.low, one.high))
    return replace(one, what=what, value=value, low=low, high=high, count=False)


def _assortativity(tables: NDArray[np.float64], directed: bool) -> Any:
    """Of each table of pairs of groups, [..., groups, groups]; not a number where there are no edges."""
    ends = tables if directed else _ends(tables)
    shares = ends / ends.sum(axis=(-2, -1), keepdims=True)
    expected = (shares.sum(axis=-2) * shares.sum(axis=-1)).sum(axis=-1)
    return (np.trace(shares, axis1=-2, axis2=-1) - expected) / (1 - expected)


def _conductance(tables: NDArray[np.float64], group: int) -> Any:
    """The share of the ends of edges of a group that leave it, over the smaller of both sides, of each table."""
    ends = _ends(tables)
    own, every = ends[..., group, :].sum(axis=-1), ends.sum(axis=(-2, -1))
    return (own - ends[..., group, group]) / np.minimum(own, every - own)


def _ends(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ends of undirected edges: an edge within a group has both there."""
    return tables * (1 + np.eye(tables.shape[-1]))


def names(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return the statistics that answers come from, each once and in their order."""
    return tuple(dict.fromkeys(one.statistic for one in answers))
