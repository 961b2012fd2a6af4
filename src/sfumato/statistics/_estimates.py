"""Estimates from the releases of a run of statistics, which agree with each other. Post-processing alone.

Edges by groups add up to the number of edges; numbers of nodes by degree add up to the number of nodes, and degrees to twice the
number of edges (of a group: to the ends of its edges) where both are released. No number is negative, and counts are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._statistics import most_degree
from sfumato.errors import InputError
from sfumato.statistics._histogram import middles, sequence_of, smoothed
from sfumato.statistics._statistics import WIDEST, Statistics, group_sizes
from sfumato.statistics._wiring import capacities, with_room

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Estimates:
    """What a run of statistics estimates of its graph.

    Args:
        fitted: the run, fitted or loaded.

    Raises:
        InputError: the run has no statistics.
    """

    fitted: Fitted

    def __post_init__(self) -> None:
        if not isinstance(self.fitted.plan.method, Statistics):
            raise InputError(f"Expected a run of statistics, got one of {self.fitted.plan.method.name!r}.")

    @property
    def method(self) -> Statistics:
        method = self.fitted.plan.method
        assert isinstance(method, Statistics)
        return method

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups; the last one holds nodes without a label."""
        classes = self.fitted.graph_key.classes
        return (*classes, "(none)") if classes else ("all",)

    @property
    def num_nodes(self) -> int:
        return self.fitted.plan.public.num_nodes

    @property
    def directed(self) -> bool:
        return self.fitted.plan.public.directed

    def raw(self, name: str) -> NDArray[np.float64] | None:
        """Return a released count as it is, float64; None if it is not there."""
        found = self.fitted.released.get(name)
        return None if found is None or self.scale(name) > WIDEST else found.astype(np.float64)

    def scale(self, name: str) -> float:
        """Return the scale of the noise of a released count."""
        return float(self.method.scale(self.fitted.plan, name, self.fitted.released))

    @property
    def most_degree(self) -> int:
        """The largest degree that a node may have, as far as is public."""
        return min(most_degree(self.fitted.plan.unit, self.fitted.plan.public), max(0, self.num_nodes - 1))

    @property
    def most_edges(self) -> int:
        """The largest number of edges that there may be, as far as is public."""
        return self.num_nodes * self.most_degree // (1 if self.directed else 2)

    @cached_property
    def num_edges(self) -> int | None:
        """The estimated number of edges; None if nothing tells of it."""
        most = self.most_edges
        for name in ("edges", "mixing", "out-degrees", "degrees"):
            found = self.raw(name)
            if found is None:
                continue
            if name in ("edges", "mixing"):
                value = float(found.sum())
            else:
                sums = self.sequence(name).sum()
                value = sums / (1 if self.directed else 2)
            return int(min(max(round(value), 0), most))
        return None

    @cached_property
    def mixing(self) -> Counts | None:
        """The estimated number of edges between each two groups, int64 [groups, groups].

        Of an undirected graph both halves hold the same number, and an edge within a group counts once.
        """
        found = self.raw("mixing")
        if found is None:
            return None
        used = self.used_pairs
        total = self.num_edges if self.num_edges is not None else round(max(0.0, found[used].sum()))
        values = np.zeros(len(found))
        values[used] = _onto(found[used], float(total))
        table: Counts = self.table_of(_whole(values, total))
        return table if self.sizes is None else with_room(table, self.sizes, directed=self.directed)

    @property
    def per_node(self) -> NDArray[np.float64] | None:
        r"""The mean number of edges of a node of one group to nodes of another, float64 [groups, groups]: a contact matrix.

        An edge within a group counts for both of its ends, and an arc for the node that it leaves. It is None without
        ``mixing``, or where the sizes of groups are neither public nor released; a group without nodes has zeros.
        """
        if self.mixing is None or self.sizes is None:
            return None
        ends = self.mixing if self.directed else self.mixing + np.diag(np.diag(self.mixing))
        found: NDArray[np.float64] = ends / np.maximum(self.sizes, 1)[:, None]
        return found

    @property
    def room(self) -> NDArray[np.float64]:
        """The largest number of edges between each two groups, as far as is public, float64 [groups, groups]."""
        if self.public_sizes is None:
            return np.full((len(self.groups),) * 2, float(self.most_edges))
        found: NDArray[np.float64] = capacities(self.public_sizes, directed=self.directed).astype(np.float64)
        return found

    def degree_counts(self, name: str = "degrees", group: int = 0) -> Counts:
        """Return the estimated number of nodes of each degree, int64 [most + 1], of one group if they were counted by group."""
        return np.bincount(self.sequence(name, group)).astype(np.int64)

    @cached_property
    def pairs(self) -> tuple[Counts, Counts]:
        size = len(self.groups)
        if self.directed:
            rows, columns = np.divmod(np.arange(size * size), size)
            return rows, columns
        return np.triu_indices(size)

    @cached_property
    def used_pairs(self) -> NDArray[np.bool_]:
        """Pairs of groups that may have edges: nodes without a label may be known not to be there."""
        there = np.array([self.has_nodes(group) for group in range(len(self.groups))])
        return np.asarray(there[self.pairs[0]] & there[self.pairs[1]])

    def table_of(self, values: NDArray[Any]) -> Any:
        table = np.zeros((len(self.groups),) * 2, values.dtype)
        table[self.pairs] = values
        if not self.directed:
            table.T[self.pairs] = values
        return table

    def has_nodes(self, group: int) -> bool:
        """Whether a group may have nodes, as far as is public."""
        return self.public_sizes is None or bool(self.public_sizes[group])

    @cached_property
    def public_sizes(self) -> Counts | None:
        """The number of nodes of each group, int64 [groups], if it is public."""
        return group_sizes(self.fitted.weights)

    @cached_property
    def sizes(self) -> Counts | None:
        """The number of nodes of each group, int64 [groups]: as it is public, or else as ``groups`` was released."""
        found = self.raw("groups")
        if self.public_sizes is not None or found is None:
            return self.public_sizes
        return _whole(_onto(found, float(self.num_nodes)), self.num_nodes)

    def raw_row(self, name: str, group: int) -> NDArray[np.float64]:
        found = self.raw(name)
        assert found is not None
        row: NDArray[np.float64] = found[group]
        return row

    def _size(self, name: str, group: int) -> int:
        """The number of nodes of a group, or of all."""
        rows = len(self.fitted.released[name])
        if rows == 1:
            return self.num_nodes
        assert self.public_sizes is not None
        return int(self.public_sizes[group])  # degrees are counted by groups only where these are public

    def sequence(self, name: str, group: int = 0) -> Counts:
        """Return the estimated degrees of all nodes in ascending order, int64."""
        degrees = middles(self.method.ends(self.fitted.plan))
        row, size, total = self.raw_row(name, group), self._size(name, group), self._total(name, group)
        scale = self.scale(name)
        below = smoothed(row, scale, size, degrees, total) if scale else np.append(row, size)
        return sequence_of(below, degrees, total)

    def _total(self, name: str, group: int) -> int | None:
        """The sum of the degrees of a group, or of all nodes, if edges or pairs of groups were released."""
        if len(self.fitted.released[name]) == 1:
            known = any(self.raw(one) is not None for one in ("edges", "mixing"))
            return None if not known or self.num_edges is None else self.num_edges * (1 if self.directed else 2)
        if self.mixing is None:
            return None
        table = self.mixing if self.directed else self.mixing + np.diag(np.diag(self.mixing))
        return int((table[:, group] if name == "in-degrees" else table[group]).sum())


def _onto(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the nearest numbers from 0 on with this sum."""
    if total <= 0:
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    found: NDArray[np.float64] = np.maximum(values - excess[last], 0)
    return found


def _whole(values: NDArray[np.float64], total: int) -> Counts:
    """Round numbers to integers with this sum: those that lose most by rounding down are rounded up."""
    down = np.floor(values).astype(np.int64)
    missing = int(total - down.sum())
    if missing > 0:
        down[np.argsort(-(values - down), kind="stable")[:missing]] += 1
    return down
