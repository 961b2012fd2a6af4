r"""A graph is split into groups by public ids, and every arc between two groups is deleted, so a record reaches one group only.

**Groups.** Node v is in group :math:`g(v) = \mathrm{SHA256}(\text{seed}, \text{id of } v) \bmod K`. Ids, seed and K are public,
and no other node takes part. So the groups are the same for neighboring graphs. *Even* groups, as published: training nodes in
the order of such numbers are cut into K parts whose sizes differ by one at most. Roles are public, too.

**Cut.** An arc (u, v) with :math:`g(u) \ne g(v)` is deleted before anything is computed from arcs: degrees count the arcs that
are left. Directed arcs are read both ways inside a group.

**Claim** for :class:`~sfumato.privacy.units.NodeLevel`, for incident and for owned arcs. Let :math:`f_k` be a function of what
group k holds: its nodes' features, labels and roles, and the arcs that are left inside it. If the record of v changes, then
only :math:`f_{g(v)}` may change. *Proof:* v's features and label are in group g(v). Each arc that changes has v as one end.
It is deleted in both graphs, or its other end is in g(v) as well. Roles and groups are public.

**Two relations.** Let :math:`\|f_k\| \le C`.

* ``replace``: the sum of all :math:`f_k` changes by at most 2 C (triangle inequality).
* ``remove``: one record becomes empty. That alone also gives 2 C: what the other nodes of its group give changes too. So each
  group that holds an *absent* node is left out: it gives zero. A node is absent here if it has no label, no feature but zeros,
  and no arc of its own inside its group. The record that was emptied is absent, whether it lost all its arcs or the
  arcs that it owned. So on that side :math:`f_{g(v)} = 0`, and on the other side its norm is at most C: the sum changes by at
  most C. If another node of the group is absent, both sides are zero.

Which nodes are absent, and so which groups are left out, is private. A graph may have absent nodes that nobody removed: each
costs its whole group. With ``replace`` no group is left out, and an empty record is a record like any other.

Source: splits of a graph, Igamberdiev and Habernal (2022), section 4.4, which cuts neither the messages nor the normalization.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.errors import UnsupportedUnitError
from sfumato.privacy.units import NodeLevel, Unit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

Ids = NDArray[Any]


def check_groups(unit: Unit) -> None:
    """Refuse a unit whose record may reach more than one group.

    >>> check_groups(NodeLevel(arcs="incident"))
    """
    if type(unit) is not NodeLevel:
        raise UnsupportedUnitError(
            f"Groups of a split graph have no proof when the unit is {unit.describe()}: a record has to lie in one group. "
            "Use NodeLevel."
        )


def group_numbers(node_ids: Ids, num_groups: int, seed: int) -> NDArray[np.int64]:
    """Return the group of each node, a function of its own public id and the public seed.

    >>> group_numbers(np.arange(8), 4, seed=0).tolist()
    [2, 0, 2, 0, 0, 2, 2, 3]
    """
    num_groups, seed = check_int(low=1, num_groups=num_groups), check_int(low=0, seed=seed)
    start = hashlib.sha256(f"group split, seed {seed}, node ".encode())

    def word(node: object) -> int:
        digest = start.copy()
        digest.update(str(node).encode())
        return int.from_bytes(digest.digest()[:8], "little") % num_groups

    return np.fromiter(map(word, node_ids.tolist()), np.int64, len(node_ids))


def even_groups(node_ids: Ids, train: NDArray[np.bool_], num_groups: int, seed: int) -> NDArray[np.int64]:
    """Return the groups of all nodes if training nodes are cut into equal parts: a function of public ids and roles.

    >>> even_groups(np.arange(6), np.array([True] * 5 + [False]), 2, seed=0).tolist()
    [0, 1, 1, 0, 0, 0]
    """
    groups, ids = group_numbers(node_ids, num_groups, seed), np.flatnonzero(train)
    shuffled = ids[np.argsort(group_numbers(node_ids[ids], 2**63, seed), kind="stable")]
    sizes = len(ids) // num_groups + (np.arange(num_groups) < len(ids) % num_groups)
    groups[shuffled] = np.repeat(np.arange(num_groups), sizes)
    return groups


@dataclass(frozen=True)
class Split:
    """A split graph has its nodes in order of their groups. All but ``rows``, ``hop``, ``targets`` and ``left_out`` is public.

    Group k has the places ``offsets[k]`` to ``offsets[k + 1]``, at which ``order`` names the nodes. ``rows`` is what the first
    layer reads: features, summed over a node and its neighbors inside the group. ``hop`` is the normalized adjacency inside
    groups with self-loops, block-diagonal and symmetric; the identity if features alone are summed. ``targets`` holds classes
    of training nodes, -1 for others and for missing labels, ``shares`` one over the number of training nodes of each group, and
    ``left_out`` marks the groups that hold an absent node.

    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([0], [1], 4, directed=False, x=np.eye(4), y=[0, 1, 0, 1], roles=[0, 0, 0, 2])
    >>> split = split_graph(graph, 2, seed=0)
    >>> split.num_groups, split.targets.tolist()
    (2, [0, 1, 0, -1])
    """

    order: NDArray[np.int64]
    offsets: NDArray[np.int64]
    rows: sp.csr_matrix
    hop: sp.csr_matrix
    targets: NDArray[np.int64]
    shares: NDArray[np.float64]
    left_out: NDArray[np.bool_]

    @property
    def num_groups(self) -> int:
        """Return how many groups there are, empty ones too."""
        return len(self.shares)


def split_graph(graph: Graph, num_groups: int, seed: int, *, second_hop: bool = True, even: bool = False) -> Split:
    """Cut a graph into groups.

    **Formal guarantee.** What the result holds of one group is a function of the records of that group alone (top of this
    file). Without ``second_hop``, ``hop`` is the identity. ``even`` groups hold equal numbers of training nodes.

    >>> from sfumato.graph._graph import Graph
    >>> path = Graph.from_edges([0, 1], [1, 2], 3, directed=False, x=np.eye(3), y=[0, 1, 1], roles=[0, 0, 0])
    >>> split_graph(path, 1, seed=0).hop.toarray().round(3).tolist()[0]
    [0.5, 0.408, 0.0]
    """
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    groups = even_groups(ids, graph.train_mask, num_groups, seed) if even else group_numbers(ids, num_groups, seed)
    order = np.argsort(groups, kind="stable")
    offsets = np.searchsorted(groups[order], np.arange(num_groups + 1)).astype(np.int64)
    inside = _arcs_inside(graph, groups, order)
    hop = _normalized(inside)
    own = unit_rows(graph)[order]
    rows = sp.csr_matrix(hop @ own)
    rows.sort_indices()
    y, train = (graph.y if graph.y is not None else np.full(graph.num_nodes, -1)), graph.train_mask
    empty = (y[order] < 0) & (np.diff(own.indptr) == 0) & (np.diff(inside.indptr) == 0)
    left_out, trained = (_counts(part, offsets) for part in (empty, train[order]))
    return Split(
        order,
        offsets,
        rows,
        hop if second_hop else sp.csr_matrix(sp.eye(graph.num_nodes)),
        np.where(train, y, -1)[order],
        1 / np.maximum(trained, 1),
        left_out > 0,
    )


def unit_rows(graph: Graph) -> sp.csr_matrix:
    """Return the nodes' own features scaled to norm 1, float64 in sparse form without zeros; each row reads its node alone.

    >>> from sfumato.graph._graph import Graph
    >>> unit_rows(Graph.from_edges([0], [1], 2, directed=False, x=[[3.0, 4.0], [0.0, 0.0]])).toarray().tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    x: Any = graph.x if graph.x is not None else np.zeros((graph.num_nodes, 0))
    rows = sp.csr_matrix(x, dtype=np.float64, copy=True)  # the graph keeps its own as it is
    rows.sum_duplicates()
    rows.eliminate_zeros()
    norms = np.sqrt(sp.csr_matrix((rows.data**2, rows.indices, rows.indptr), rows.shape) @ np.ones(rows.shape[1]))
    rows.data = rows.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(rows.indptr))
    return rows


def _arcs_inside(graph: Graph, groups: NDArray[np.int64], order: NDArray[np.int64]) -> sp.csr_matrix:
    """Arcs as their owners have them, between nodes of one group, without arcs from a node to itself; places as numbers."""
    place = np.empty(graph.num_nodes, np.int64)
    place[order] = np.arange(graph.num_nodes)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = (groups[owner] == groups[graph.indices]) & (owner != graph.indices)
    ends = place[owner[kept]], place[graph.indices[kept]]
    return sp.csr_matrix((np.ones(len(ends[0])), ends), shape=(graph.num_nodes,) * 2)


def _normalized(inside: sp.csr_matrix) -> sp.csr_matrix:
    """Self-loops and symmetric normalization, by degrees inside the group."""
    both = sp.csr_matrix(inside.maximum(inside.T) + sp.eye(inside.shape[0]))
    both.sort_indices()
    degrees = np.diff(both.indptr)
    owner = np.repeat(np.arange(len(degrees)), degrees)
    both.data = 1 / np.sqrt((degrees[owner] * degrees[both.indices]).astype(np.float64))
    return both


def _counts(marks: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.diff(np.r_[0, np.cumsum(marks)][offsets])
    return counts
