r"""Training on a released matrix: how many losses read one node, and what is left of them when its record becomes empty.

**Setting.** There are M public roots among N public ids, and a matrix :math:`\Pi` [M, N] that an earlier release paid for,
such as approximate PageRank with noise. The loss of root w reads the label of w and the features of the ids in row w of
:math:`\Pi`.

**Trimming.** Node u is *read* by root w if entry (w, u) is not zero, or if u = w: the label of w enters the loss even if the
diagonal was trimmed. :func:`trim` drops entries until each id is read by at most R roots. It sees :math:`\Pi`, the roots and
R, so it is post-processing, and R is public. The largest entries of a column stay. The diagonal always stays: its root counts
anyway.

**Claim** for :class:`~sfumato.privacy.units.NodeLevel`, incident and owned arcs. Fix :math:`\Pi`. Let :math:`g_w`, of norm at
most C, be a function of what w's loss reads, and zero if one of the nodes that it reads is *absent*: without label and
without any feature but zeros. If the record of v becomes empty, at most R of the :math:`g_w` become zero, and all others
stay. *Proof:* (1) If v is not read by w, then w's loss reads the same features, the same label and the same marks of absence
in both graphs. (2) If v is read by w, then :math:`g_w = 0` on the side where v is empty, since an empty record is absent. (3)
At most R roots read v, on both sides: who is read depends on :math:`\Pi` alone. If v was absent before, nothing changes at
all.

With one coin of probability q for each root, this is a :class:`~sfumato.privacy.events.RepeatedGaussianEvent` of R
occurrences. Under ``replace`` nothing is left out, and each of the R terms is exchanged for another of norm at most C.

**Why arcs take no part in being absent.** A record that is emptied *with incident arcs* takes its neighbors' arcs away. If
"no arc" were needed to be absent, a neighbor without label and features would become absent, and with it each root that reads
the neighbor: more than R terms. (Groups of a split graph need it: there the neighbor lies in the same group,
:mod:`~sfumato.bounded._splits`.) The price: a node that has arcs, but neither label nor features, is taken for absent.

**Both releases together.** Neighboring graphs give :math:`\Pi` different laws: that is what the first event pays for. The
second event holds for every fixed :math:`\Pi`, whichever graph it came from. Adaptive composition needs no more than this.

Source: algorithm 9 of Zhang et al., DPAR, whose theorem 8 bounds the L1 norm of columns by tau instead. That bounds nothing:
each gradient is scaled to norm C after the entries were weighted, so an entry of 0.001 moves its root's gradient by as much
as one of 1 (``tests/soundness/test_occurrences.py`` counts it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.bounded._splits import Split, unit_rows
from sfumato.errors import UnsupportedUnitError
from sfumato.privacy.units import NodeLevel, Unit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

Ids = NDArray[np.int64]


def check_occurrences(unit: Unit) -> None:
    """Refuse a unit whose record is not one node.

    >>> check_occurrences(NodeLevel(arcs="incident"))
    """
    if type(unit) is not NodeLevel:
        raise UnsupportedUnitError(
            f"Training on a released matrix has no proof when the unit is {unit.describe()}: a bounded number of losses has to "
            "read a record. Use NodeLevel."
        )


def trim(matrix: sp.csr_matrix, roots: Ids, most: int) -> sp.csr_matrix:
    """Drop entries of a released matrix until each id is read by at most ``most`` roots, its own one included.

    Of equal entries those of earlier roots stay. With ``most`` 1 a root reads itself, and ids that are no roots are read once.

    >>> released = sp.csr_matrix([[0.5, 0.0, 0.2], [0.1, 0.4, 0.3]])
    >>> trim(released, np.array([0, 1]), most=1).toarray().tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.4, 0.3]]
    """
    check_int(low=1, most=most)
    if len(roots) != matrix.shape[0] or len(np.unique(roots)) != len(roots):
        raise fail("roots", roots, f"to be {matrix.shape[0]} different ids, one for each row")
    rows, columns, values = sp.find(matrix)
    own = roots[rows] == columns
    is_root = np.zeros(matrix.shape[1], np.int64)
    is_root[roots] = 1
    order = np.lexsort((rows, -np.abs(values), ~own, columns))
    rows, columns, values, own = rows[order], columns[order], values[order], own[order]
    starts = np.searchsorted(columns, columns)
    with_own = np.zeros(matrix.shape[1], np.int64)
    with_own[columns[own]] = 1
    place = np.arange(len(columns)) - starts + (is_root - with_own)[columns]
    kept = place < most
    return sp.csr_matrix((values[kept], (rows[kept], columns[kept])), shape=matrix.shape)


def readers(matrix: sp.csr_matrix, roots: Ids) -> Ids:
    """Count the roots that read each id, int64 [num_nodes]: those with an entry in its column, and the id's own root.

    >>> readers(sp.csr_matrix([[0.0, 0.0, 0.2], [0.1, 0.4, 0.3]]), np.array([0, 1])).tolist()
    [2, 1, 2]
    """
    rows, columns, _ = sp.find(matrix)
    others = columns[roots[rows] != columns]
    return np.bincount(np.r_[others, roots], minlength=matrix.shape[1])


def absent_nodes(graph: Graph) -> NDArray[np.bool_]:
    """Mark the nodes without label and without any feature but zeros, bool [num_nodes]; each mark reads its own record alone.

    >>> from sfumato.graph._graph import Graph
    >>> absent_nodes(Graph.from_edges([0], [1], 3, directed=False, x=[[1.0], [0.0], [0.0]], y=[-1, 0, -1])).tolist()
    [False, False, True]
    """
    own = unit_rows(graph)
    unlabeled = np.ones(graph.num_nodes, bool) if graph.y is None else graph.y < 0
    marks: NDArray[np.bool_] = unlabeled & (np.diff(own.indptr) == 0)
    return marks


def root_examples(graph: Graph, matrix: sp.csr_matrix, roots: Ids) -> Split:
    r"""Put each root and the ids of its row in a group of their own, as :mod:`~sfumato.bounded._split_gradients` takes them.

    The scores of root w become :math:`\sum_u \pi_{wu} \, \mathrm{ReLU}(x_u W_1 + b_1) W_2 + b_2`, with :math:`x_u` of norm 1. A
    node that several roots read is copied into the group of each.

    **Formal guarantee.** The group of root w holds what w's loss reads, and is left out if one of these nodes is absent.

    A row of the trimmed ``matrix`` without entries reads its root alone, with weight 1.

    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([0], [1], 3, directed=False, x=np.eye(3), y=[0, 1, 1])
    >>> groups = root_examples(graph, sp.csr_matrix([[0.0, 0.5, 0.5]]), np.array([0]))
    >>> groups.order.tolist(), groups.hop.toarray()[0].tolist(), groups.targets.tolist()
    ([0, 1, 2], [0.0, 0.5, 0.5], [0, -1, -1])
    """
    rows, columns, values = sp.find(matrix)
    alone = np.setdiff1d(np.arange(len(roots)), rows)
    rows, columns, values = np.r_[rows, alone], np.r_[columns, roots[alone]], np.r_[values, np.ones(len(alone))]
    own = roots[rows] == columns
    group = np.r_[np.arange(len(roots)), rows[~own]]
    order = np.argsort(group, kind="stable")  # a root comes first in its group
    nodes = np.r_[roots, columns[~own]][order]
    offsets = np.searchsorted(group[order], np.arange(len(roots) + 1))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = np.r_[offsets[rows[own]], place[len(roots) :]]
    weights, starts = np.r_[values[own], values[~own]], np.r_[offsets[rows[own]], offsets[rows[~own]]]
    hop = sp.csr_matrix((weights, (starts, at)), shape=(len(order),) * 2)
    hop.sort_indices()
    targets = np.full(len(order), -1, np.int64)
    if graph.y is not None:
        targets[offsets[:-1]] = graph.y[roots]
    left_out = np.bincount(group[order], absent_nodes(graph)[nodes], len(roots)) > 0
    features = sp.csr_matrix(unit_rows(graph)[nodes])
    return Split(nodes, offsets.astype(np.int64), features, hop, targets, np.ones(len(roots)), left_out)
