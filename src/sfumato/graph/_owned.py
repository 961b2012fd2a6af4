r"""Persons who are several nodes: which nodes a graph keeps of each.

A row of a node table names the person who owns it: the customer of an account, the patient of a stay. With a public bound m, the
graph holds at most m nodes of each person. Let :math:`h(p, v)` be 64 bits of a fixed public hash of the words of person p and
of the id of node v. Of p's nodes those with the m smallest values stay; ids that collide are told apart by their order.

**Claim.** Which nodes of a person stay is a function of the ids of this person's own nodes alone.

*Proof.* :math:`h(p, v)` reads p and v, and the m smallest values are taken among the nodes of p. :math:`\square`

**Who owns which node is public** under :class:`~sfumato.privacy.units.PersonNodesLevel`, as ids are. So which nodes and arcs are
left out is the same in neighboring graphs, and so are roles: no node or arc of another person appears or vanishes with what one
person's rows *say*. An arc that another person owns and that leads to a node that is left out goes with that node: ids decide
it, and nothing that is protected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.errors import DataError
from sfumato.graph._persons import Words, mixed, numbered, words_of
from sfumato.graph._subgraph import induced

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


def kept_nodes(persons: NDArray[np.int64], words: Words, nodes: Words, most: int) -> NDArray[np.bool_]:
    """Mark the nodes that stay, at most ``most`` of each person: bool [num_nodes].

    Args:
        persons: number of the person who owns each node, [num_nodes]; equal numbers are one person.
        words: hash of each person, by number (:func:`~sfumato.graph._persons.words_of`).
        nodes: hash of each node's id, [num_nodes].
        most: the public bound.

    >>> nodes = words_of(["a", "b", "c"])
    >>> int(kept_nodes(np.zeros(3, np.int64), words_of(["ann"]), nodes, 2).sum())
    2
    """
    check_int(low=1, nodes_per_person=most)
    order = np.lexsort((nodes, mixed(words[persons] ^ mixed(nodes)), persons))
    owner = persons[order]
    begins = np.ones(len(order), bool)
    begins[1:] = owner[1:] != owner[:-1]
    place = np.arange(len(order))
    kept = np.zeros(len(order), bool)
    kept[order] = place - np.maximum.accumulate(np.where(begins, place, 0)) < most
    return kept


def of_persons(graph: Graph, person: Any, nodes_per_person: int) -> Graph:
    """Return a graph whose nodes are owned by persons, each of at most ``nodes_per_person`` nodes: the others are left out.

    Args:
        graph: the graph of all nodes. Roles that it has stay; those that :meth:`Graph.with_split` draws later are by person.
        person: who owns each node, a text or an integer, [num_nodes].
        nodes_per_person: the public bound, known without this data.

    Raises:
        DataError: there is not one person a node, or one is neither a text nor an integer.
        InputError: the bound is below 1.

    >>> from sfumato.graph._graph import Graph
    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False)
    >>> of_persons(graph, ["ann", "ann", "ann", "bob"], 2).num_nodes
    3
    """
    check_int(low=1, nodes_per_person=nodes_per_person)
    if np.ndim(person) != 1 or len(person) != graph.num_nodes:
        raise DataError(
            f"Expected one person a node ({graph.num_nodes}), got {np.shape(person)}. Name the owner of every node."
        )
    persons, names = numbered(person)
    ids = words_of(range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist())
    kept = np.flatnonzero(kept_nodes(persons, words_of(names), ids, nodes_per_person))
    part = graph if len(kept) == graph.num_nodes else induced(graph, kept)
    assert part is not None
    return part.changed(cells=persons[kept], nodes_per_person=nodes_per_person, drawn=None)
