r"""Sub-graphs of training nodes whose arcs are so few that one record reaches a bounded number of them.

A training node (a *root*) gives one term to each step of DP-SGD: the gradient of its own loss, clipped to C. With L layers the
term reads the sub-graph of all nodes that send to it over at most L arcs.

**Sampling.** First each owner keeps at most d of its own arcs (:func:`~sfumato.bounded._degree.cap_out_degree`), then each node
reads at most m of the arcs that reach it: those with the smallest words :math:`\mathrm{PRF}_{k'}(\text{target}, \text{sender})`.
Both read the secret key and one node's list alone.

**Claim** for ``NodeLevel(arcs="owned")``. If the record of v becomes empty, at most

.. math:: R = 1 + d + \dots + d^L

terms change; if it becomes another record, at most :math:`1 + 2 (d + \dots + d^L)`. *Proof.* Let G be the graph after the first
cap. The lists of other owners are the same in both, so both have the same arcs but those of v. Let :math:`B_l` be the nodes
that v reaches over at most l arcs in either graph: a walk from v leaves it by at most d arcs (by 2 d in both together), and
leaves every other node by at most d, so :math:`|B_L| \le R`. By induction on l, what a node outside :math:`B_l` computes in l
layers is the same in both. For l = 0 it is the node's own row. In layer l it reads its own value and those of its senders,
of layer l - 1. Without v among its senders in either graph, its list of arcs is the same; so is the sample that it reads,
although that sample may depend on all of the list; and no sender is in :math:`B_{l - 1}`, or the node would be in :math:`B_l`.
A term reads in addition the root's own label, and v is in :math:`B_L`.

**How far a step moves.** The term of v itself *vanishes* if its record becomes empty: v stays a root, but without a label its
loss is zero (:func:`~sfumato.bounded._gradients.clipped_gradient_sum`), so a vector of norm at most C is taken away. The other
terms of :math:`B_L` do not vanish: their roots and labels stay, with a neighbor less. Each is *replaced* by another vector of
norm at most C, which is 2 C away at most. Each root is drawn by a coin of its own, which reads nothing of the record. So if b of
one and k of at most R - 1 roots are drawn, the clipped sum moves by at most (2 k + b) C: a
:class:`~sfumato.privacy.events.RepeatedGaussianEvent` of R occurrences with relation ``leave``. If v becomes another record, its
own term is replaced as well, and the relation is ``replace``. Neither number can be smaller: with the worst first weights a
network of two layers moves a step by all of (2 R - 1) C, and of 2 R C (``tests/soundness/test_subgraphs.py``). (The second cap
bounds the size of sub-graphs. It is not needed for the claim.)

**Incident arcs** have no proof: if v leaves, all u with an arc to v may keep another arc in its place.

Source: Daigavane et al. (2021), Node-level differentially private graph neural networks, algorithm 1. Their sample bounds how
often a node occurs by a choice that looks at other nodes' lists, so that a removal may move further samples; this one does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sfumato._validate import check_int
from sfumato.bounded._degree import by_destination, cap_out_degree
from sfumato.bounded.aggregation import Arcs
from sfumato.errors import UnsupportedUnitError
from sfumato.noise.keys import Key, derive_key
from sfumato.privacy.units import NodeLevel, Unit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

_LAYERS = 8


def occurrences(unit: Unit, max_arcs: int, num_layers: int) -> int:
    """Return R, the number of terms that one record can change, for :func:`read_arcs` with the same ``max_arcs``.

    >>> occurrences(NodeLevel(max_out_degree=100), 3, 2), occurrences(NodeLevel(max_out_degree=100, relation="replace"), 3, 1)
    (13, 7)
    """
    check_int(low=1, max_arcs=max_arcs)
    check_int(low=1, high=_LAYERS, num_layers=num_layers)
    if type(unit) is not NodeLevel or unit.arcs != "owned":
        raise UnsupportedUnitError(
            f"Sub-graphs have no proof when the unit is {unit.describe()}: nothing bounds how many a record reaches. "
            "Use NodeLevel(arcs='owned', max_out_degree=D)."
        )
    reached = sum(int(max_arcs) ** layer for layer in range(1, num_layers + 1))
    return 1 + int(reached) * (2 if unit.relation == "replace" else 1)


def arc_terms(max_arcs: int, num_layers: int) -> int:
    r"""Return how many more terms a record can change for each arc that another owner has to it, and that vanishes with it.

    **Formal guarantee.** If k other owners lose their arcs to v, and v's record becomes empty or another one, at most
    :math:`R + k (1 + d + \dots + d^{L - 1})` terms change. *Proof.* An owner u above the cap keeps an arc to some
    :math:`w_u` in place of that to v; else it keeps one less. So let :math:`S_l` be all that v reaches over at most l arcs,
    and each :math:`w_u` over at most l - 1, in either graph. As in the module, what a node outside :math:`S_l` computes in l
    layers is the same in both: its list of senders differs only if it is v, a target of v or one of the :math:`w_u`, and none
    of its senders is in :math:`S_{l - 1}`. In both graphs together u owns an arc more, but the one to v leads to what v reaches
    anyway. So every node but v leaves by at most d further arcs, and :math:`S_L` has at most as many nodes as stated.

    >>> arc_terms(3, 1), arc_terms(3, 2)
    (1, 4)
    """
    return sum(max_arcs**layer for layer in range(num_layers))


def read_arcs(graph: Graph, max_arcs: int, max_in_arcs: int, key: Key) -> Arcs:
    """Return the arcs that sub-graphs are made of, by destination and without arcs from a node to itself.

    Each owner keeps at most ``max_arcs`` (d), arcs to itself among them; each node reads at most ``max_in_arcs`` (m).

    >>> from sfumato.graph._graph import Graph
    >>> star = Graph.from_edges([1, 2, 3], [0, 0, 0], 4, directed=False)
    >>> np.diff(read_arcs(star, 1, 2, bytes(32)).offsets).tolist()[0]  # of three leaves that all send to node 0
    2
    """
    check_int(low=1, max_in_arcs=max_in_arcs)
    offsets, senders = by_destination(*cap_out_degree(graph.indptr, graph.indices, max_arcs, key))
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(offsets))
    others = senders != owner
    counts = np.bincount(owner[others], minlength=graph.num_nodes)
    lists = np.concatenate([[0], np.cumsum(counts)]), senders[others]
    return Arcs(*cap_out_degree(*lists, max_in_arcs, derive_key(key, "in-arcs")))


def subgraph_rows(own: sp.csr_matrix, arcs: Arcs, num_layers: int) -> sp.csr_matrix:
    r"""Return :math:`[x, M x, \dots, M^L x]`, where M averages over a node and those that send to it.

    **Formal guarantee.** A row reads the sub-graph of its node alone: the products of sparse matrices are made row by row.

    >>> arcs = Arcs(np.array([0, 1, 1]), np.array([1], np.int32))  # node 1 sends to node 0
    >>> subgraph_rows(sp.csr_matrix([[1.0], [3.0]]), arcs, 1).toarray().tolist()
    [[1.0, 2.0], [3.0, 3.0]]
    """
    counts = np.diff(arcs.offsets)
    adjacency = sp.csr_matrix((np.ones(len(arcs.sources)), arcs.sources, arcs.offsets), shape=(arcs.num_nodes,) * 2)
    both = sp.csr_matrix(adjacency + sp.eye(arcs.num_nodes))
    both.sort_indices()
    parts = [own.astype(np.float64)]
    for _ in range(num_layers):
        summed = sp.csr_matrix(both @ parts[-1])
        summed.sort_indices()
        summed.data = summed.data / np.repeat(counts + 1.0, np.diff(summed.indptr))
        parts.append(summed)
    return sp.csr_matrix(sp.hstack(parts))
