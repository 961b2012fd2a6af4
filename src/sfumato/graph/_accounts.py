r"""Persons who are several nodes: roles that all nodes of one person share, and the bound (:mod:`sfumato.graph._owned`).

In a graph ``cells`` are the numbers of persons, and ``nodes_per_person`` is the bound of the nodes of each.

Roles are drawn over persons, so that no person trains a model whose accuracy is measured on other nodes of the same person. They
follow from owners, which are public under :class:`~sfumato.privacy.units.PersonNodesLevel`. Under another unit owners are no
public fact, and such roles count as given.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.errors import DataError, InputError
from sfumato.graph._checks import check_cells
from sfumato.graph._splits import random_roles


def roles_of_persons(
    persons: NDArray[np.int64], among: NDArray[np.bool_], fractions: tuple[float, ...], seed: int
) -> NDArray[np.uint8]:
    """Draw roles over persons, in the order of their first nodes: uint8 [num_nodes]; all nodes of one person have the same.

    ``among`` marks the nodes that are to have a role, and the others get 3, as in :func:`~sfumato.graph._splits.random_roles`.

    >>> roles = roles_of_persons(np.array([5, 2, 5, 2]), np.ones(4, bool), (0.5, 0.0, 0.5), 0)
    >>> bool((roles[:2] == roles[2:]).all()), sorted(roles.tolist())
    (True, [0, 0, 2, 2])
    """
    roles = np.full(len(persons), 3, np.uint8)
    _, first, number = np.unique(persons[among], return_index=True, return_inverse=True)
    order = np.argsort(first)
    drawn = np.empty(len(order), np.uint8)
    drawn[order] = random_roles(len(order), fractions, seed)
    roles[among] = drawn[number]
    return roles


def drawn_roles(graph: Any, among: NDArray[np.bool_], fractions: tuple[float, ...], seed: int) -> NDArray[np.uint8]:
    """Draw roles over the nodes that ``among`` marks; by person where nodes have owners."""
    if graph.nodes_per_person is None or graph.cells is None:
        return random_roles(among, fractions, seed)
    return roles_of_persons(graph.cells, among, fractions, seed)


def checked_persons(graph: Any) -> dict[str, Any]:
    """Return cells and the bound of the nodes of a person as a graph holds them.

    Raises:
        DataError: cells do not fit, a person owns more nodes than the bound, or a node has no owner.
        InputError: the bound is below 1.
    """
    cells, most = check_cells(graph.cells, graph.num_nodes), graph.nodes_per_person
    if most is None:
        return {"cells": cells}
    most = int(check_int(low=1, nodes_per_person=most))
    if cells is None or (cells < 0).any():
        raise DataError(
            "Expected the person who owns each node as cells of a graph with nodes_per_person, got none of some nodes. Use "
            "sf.graph.of_persons(graph, person, nodes_per_person), which takes names."
        )
    if len(cells) and np.unique(cells, return_counts=True)[1].max() > most:
        raise DataError(
            f"Expected at most {most} nodes of each person, as nodes_per_person says, got more of one. Use "
            "sf.graph.of_persons(graph, person, nodes_per_person), which keeps so many by a choice that reads this person's ids "
            "alone."
        )
    return {"cells": cells, "nodes_per_person": most}


def owners_digest(graph: Any) -> str:
    """Return what tells which nodes of a graph belong to one person, however persons are numbered."""
    if graph.cells is None:
        return ""
    _, first, number = np.unique(graph.cells, return_index=True, return_inverse=True)
    return hashlib.sha256(np.ascontiguousarray(first[number], "<i8").data).hexdigest()


def declared_accounts(column: str | None, edges: int | None, nodes: int | None, schema: Any) -> tuple[str, int] | None:
    """Return the column of the owners of nodes and their public bound; None where nodes have no owners.

    ``column`` and the bounds, of ``edges`` and of ``nodes``, are those that were asked for, and ``schema`` says the same.
    """
    for name, asked, said in (("person", column, schema.person), ("nodes_per_person", nodes, schema.nodes_per_person)):
        if asked is not None and said is not None and asked != said and (name != "person" or edges is None):
            raise InputError(f"Expected one {name}, got {asked!r} beside {said!r} in the schema. Correct one of them.")
    most = nodes if nodes is not None else schema.nodes_per_person
    if most is None:
        return None
    if edges is not None or (schema.edges is not None and schema.edges.person is not None):
        raise InputError(
            "Expected owners of edges or owners of nodes, got bounds for both: no method has a proof for what one person changes "
            "by both. Drop edges_per_person (--edges-per-person), so that a person owns the arcs of its nodes; or drop "
            "nodes_per_person (--nodes-per-person), and the node table is public."
        )
    column = column if column is not None else schema.person
    if column is None:
        raise InputError(
            "Expected person beside nodes_per_person, got the bound alone. Name the column of the node table that says who owns "
            "a node: person='customer' (--person customer)."
        )
    return column, int(check_int(low=1, nodes_per_person=most))
