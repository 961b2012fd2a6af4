r"""Groups that nodes choose by their own arcs, and one row of features a group: sums of these rows by class.

**Groups.** Each training node is the center of a group. A node outside the training role splits itself evenly among the
training nodes that it owns an arc to, :math:`w_{vu} = 1 / d_v`, with :math:`d_v` their number; one without such an arc is in no
group. Which nodes are training nodes is public, so :math:`w_{vu}` reads the record of v alone. With rows :math:`x_v` of norm at
most 1 and P the projection onto the unit ball,

.. math:: T_c = \sum_{u : y_u = c} P \Big( x_u + \sum_v w_{vu} x_v \Big).

A center without a label adds nothing. So features of nodes without a label count for the class of the nodes they point at.

**Formal guarantee** of :func:`noisy_linked_sums`: a Gaussian event whose noise multiplier is the noise over
:func:`linked_sensitivity`, for one node with the arcs that it owns. The row of a node has to read its own record, public facts
and earlier releases only.

**Proof.** Let the record of u be emptied. If u is a training node, it has no label then: its group's row, of norm at most 1,
becomes zero. Its weights were none, since centers do not join other groups, and weights of others stay: they read roles, not
labels. If u is none, the rows :math:`w_{uk} x_u` leave the groups k. Projection onto a convex set makes no distance longer, so
group k moves by at most :math:`w_{uk}`, and all of them together by at most :math:`\sum_k w_{uk} \le 1`, whichever classes they
add to. A record that is replaced is one that is emptied and one that is filled: 2.

*Alone.* Without joining, each center is a group by itself, and no arc is read. Then the first half of the proof is all of it,
and holds for incident arcs as well.

*Incident arcs* have no such bound with joining: if u vanishes with every arc that points at it, the weights of all that point
at u change, and so do other groups (``tests/soundness/test_linked_sums.py`` counts it).

*Rounding.* :math:`w_{vu} x_v` is put on a grid of :math:`2^{-36}`, toward zero, so it grows no longer, and sums over a group are
exact in int64. The projection is computed to within 2 steps a coordinate: at most :math:`4 \sqrt D` steps a group and pair of
graphs, for at most as many groups as there are centers. The sums are rounded once more, to steps of 1 / 32767: less than one step
of difference a coordinate. :func:`linked_sensitivity` adds both.

*One arc of another owner* that points at the record: for d = 0 it brings a row of norm 1; for d >= 1 one group gains
:math:`1 / (d + 1)`, and d groups lose :math:`1 / d - 1 / (d + 1)` each, together :math:`2 / (d + 1) \le 1`. So it moves the sums
by at most 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.bounded._grouping import group_sensitivity
from sfumato.errors import UnsupportedUnitError
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._witness import witnessed
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import NodeLevel, Unit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

_ONE, _SLACK, _CENTERS = 2.0**36, 1 - 2.0**-20, 512


def check_linked(unit: Unit) -> None:
    """Refuse a unit under which groups that nodes choose have no bound.

    >>> check_linked(NodeLevel())
    """
    if type(unit) is not NodeLevel or unit.arcs != "owned":
        raise UnsupportedUnitError(
            f"Groups that nodes choose by their arcs have no proof when the unit is {unit.describe()}: one record could move "
            "the choices of others. Use NodeLevel(arcs='owned'), or groups='hashed'."
        )


def linked_sensitivity(unit: Unit, num_centers: int, num_columns: int, num_classes: int) -> float:
    """Return the L2 sensitivity of all sums together, in units of a full row, with what rounding adds.

    Under incident arcs it holds for groups without joining alone (:func:`check_linked`).

    >>> round(linked_sensitivity(NodeLevel(), 1000, 100, 5), 4)
    1.0007
    """
    rows = 1 + 4 * max(num_centers, 1) * math.sqrt(num_columns) / _ONE
    return rows * group_sensitivity(unit) + 1.01 * math.sqrt(num_columns * num_classes) / INT16_ONE


def linked_arc_change(unit: Unit) -> float:
    """Return how far one arc of another owner that points at the record moves the sums, over their sensitivity.

    >>> linked_arc_change(NodeLevel()), linked_arc_change(NodeLevel(relation="replace"))
    (1.0, 0.5)
    """
    return 0.5 if unit.relation == "replace" else 1.0


def linked_sums(graph: Graph, rows: Any, num_classes: int, *, join: bool = True) -> NDArray[np.int64]:
    """Sum the rows of groups by the class of their center, int64 [num_classes, columns] in steps of 1 / 32767. Not private.

    Args:
        graph: the private data.
        rows: a row for each node, dense or sparse; longer ones are scaled to norm 1.
        num_classes: how many classes there are.
        join: whether other nodes join centers; else each center is alone.

    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([1, 1], [0, 2], 3, directed=True, x=np.eye(3), y=[0, -1, 1], roles=[0, 2, 0])
    >>> (linked_sums(graph, np.eye(3) / 2, 2) / 32767).round(2).tolist()
    [[0.5, 0.25, 0.0], [0.0, 0.25, 0.5]]
    """
    centers = np.flatnonzero(graph.train_mask)
    senders = _senders(graph, centers, join)
    divisors = np.asarray(senders.sum(axis=0)).ravel()
    messages = _on_grid(rows, divisors)
    labels = np.full(len(centers), -1) if graph.y is None else graph.y[centers]
    sums = np.zeros((num_classes, messages.shape[1]), np.int64)
    for start in range(0, len(centers), _CENTERS):
        part: Any = senders[start : start + _CENTERS] @ messages
        shown = _projected(part.toarray() if sp.issparse(part) else part)
        own = labels[start : start + _CENTERS]
        for c in np.unique(own[own >= 0]):
            sums[c] += shown[own == c].sum(axis=0)
    return np.rint(sums * (INT16_ONE / _ONE)).astype(np.int64)


def noisy_linked_sums(
    graph: Graph, rows: Any, num_classes: int, noise_stddev: float, key: Key, *, join: bool = True
) -> tuple[NDArray[np.int64], bytes]:
    """Release the sums with noise on every entry, and return a secret MAC of them beside it; the module has the guarantee.

    ``noise_stddev`` is in units of a full row; 0 protects nothing.
    """
    sums = linked_sums(graph, rows, num_classes, join=join)
    read = operand_mac(key, sums)
    if noise_stddev:
        stddev = noise_stddev * INT16_ONE
        noise = rounded_gaussian(derive_key(key, read), stddev, 0, sums.size)
        return witnessed(sums + noise.reshape(sums.shape), stddev, lambda: sums), read
    return sums, read


def _senders(graph: Graph, centers: NDArray[np.int64], join: bool = True) -> sp.csr_matrix:
    """Who is in whose group, int64 [num_centers, num_nodes]: the center itself, and others that own an arc to it."""
    place = np.full(graph.num_nodes, -1)
    place[centers] = np.arange(len(centers))
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    joins = join & (place[owner] < 0) & (place[graph.indices] >= 0)
    at = np.r_[np.arange(len(centers)), place[graph.indices[joins]]]
    who = np.r_[centers, owner[joins]]
    return sp.csr_matrix((np.ones(len(at), np.int64), (at, who)), shape=(len(centers), graph.num_nodes))


def _on_grid(rows: Any, divisors: NDArray[np.int64]) -> Any:
    """Each row over its divisor, as integers of norm at most 2^36 / divisor."""
    whole: Any = rows.astype(np.float64)
    squares = whole.multiply(whole).sum(axis=1) if sp.issparse(whole) else np.square(whole).sum(axis=1)
    norms = np.sqrt(np.asarray(squares).ravel())
    scale = _ONE * _SLACK / (np.maximum(norms, 1) * np.maximum(divisors, 1))
    if not sp.issparse(whole):
        return np.trunc(whole * scale[:, None]).astype(np.int64)
    whole = whole.tocsr()
    data = np.trunc(whole.data * np.repeat(scale, np.diff(whole.indptr))).astype(np.int64)
    return sp.csr_matrix((data, whole.indices, whole.indptr), whole.shape)


def _projected(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each row of integers, shortened to norm 2^36 if it is longer."""
    whole = sums.astype(np.float64)
    norms = np.sqrt(np.square(whole).sum(axis=1, keepdims=True))
    short: NDArray[np.int64] = np.trunc(whole * np.minimum(1, _ONE / np.maximum(norms, 1))).astype(np.int64)
    return short
