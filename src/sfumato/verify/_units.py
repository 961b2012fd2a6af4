"""The units of privacy as a certificate writes them. **A new unit is one entry of** :data:`UNITS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._documents import round_up
from ._values import case_faults

Unit = dict[str, Any]
Certificate = dict[str, Any]


_OTHER_END = "Each end of an undirected edge owns its own arc: the other end's record of it is not protected."


def _none(_: Any) -> list[str]:
    return []


@dataclass(frozen=True)
class UnitRules:
    """The rules of a unit: what the verifier knows of it.

    ``fields`` are kinds of the relation and of every parameter (``_values.py``), ``trust`` names the sentences of a certificate
    (``_sentences.py``), and ``public`` which of features, labels and arcs are not protected. So many ``rows`` of noisy sums
    along arcs can change with a record; None where nothing bounds them. It holds at most so many ``edges``, where it holds
    edges alone; else None. ``many`` says that a record may hold many nodes, so
    that it can change any number of counted ones. ``cells`` is how many cells there are, where a record is one of them; else 0.
    """

    fields: Mapping[str, str]
    trust: str
    protects: Callable[[Unit], str]
    public: Callable[[Unit], tuple[str, ...]] = lambda _: ()
    rows: Callable[[Unit], int | None] = lambda _: None
    edges: Callable[[Unit], int | None] = lambda _: None
    caveats: Callable[[Certificate], list[str]] = _none
    verdict: Callable[[float], list[str]] = _none
    many: bool = False
    cells: Callable[[Certificate], int] = lambda _: 0

    @property
    def reported(self) -> bool:
        """Whether users trust nobody and send reports."""
        return self.trust in ("local", "link", "servers")


def unit_rules(certificate: Certificate) -> UnitRules:
    return UNITS[certificate["unit"]["name"]]


def edges_in(certificate: Certificate) -> int | None:
    """Return the most edges that a record holds where it holds edges and nothing else; else None.

    >>> edges_in({"unit": {"name": "person", "relation": "add-remove", "edges": 5, "directed": False}})
    5
    """
    return unit_rules(certificate).edges(certificate["unit"])


def owns_arcs(certificate: Certificate) -> bool:
    """Return whether a record is one node with the arcs that it owns, so that arcs of others are not protected.

    >>> owns_arcs({"unit": {"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": None}})
    True
    """
    return bool(certificate["unit"].get("arcs") == "owned")


def no_arc_change(certificate: Certificate) -> float | None:
    """Return the ``arc_change`` of a release that reads no arcs: 0 under owned arcs, else None."""
    return 0.0 if owns_arcs(certificate) else None


def public_parts(certificate: Certificate) -> tuple[str, ...]:
    """Return which of features, labels and arcs the unit leaves unprotected.

    >>> public_parts({"unit": {"name": "edge", "relation": "add-remove", "directed": False}})
    ('features', 'labels')
    """
    return unit_rules(certificate).public(certificate["unit"])


def unit_form_faults(unit: Unit) -> Iterator[str]:
    """Return a problem for a unit that is not known, or that has other parameters than its own.

    >>> list(unit_form_faults({"name": "record", "relation": "remove"}))
    ["certificate.json: unit.relation: expected one of add-remove, replace, got 'remove'"]
    """
    return case_faults(unit, {name: rules.fields for name, rules in UNITS.items()}, "certificate.json: unit")


def _edge(unit: Unit) -> str:
    return "the presence of any one " + ("directed arc" if unit["directed"] else "undirected edge")


def _half_an_edge(certificate: Certificate) -> list[str]:
    if not certificate["unit"]["directed"] or certificate["public_facts"]["directed"]:
        return []
    return [
        "The graph is undirected and the unit is one arc, half of an edge: for a whole undirected edge epsilon is "
        "larger (Gaussian noise: sensitivity sqrt 2; Laplace noise and randomized response: epsilon doubles). This is the "
        "published convention, not the honest default."
    ]


def _person(unit: Unit) -> str:
    return f"any one person: all edges that the person owns, at most {unit['edges']}"


def _of_person(certificate: Certificate) -> list[str]:
    unit = certificate["unit"]
    return [
        "A person's record is the rows of the edge table that name this person, of which the graph holds at most "
        f"{unit['edges']} edges. Rows that name others are not part of it, even if they tell of this person."
    ]


def _accounts(unit: Unit) -> str:
    cap = "" if unit["max_out_degree"] is None else f" (at most {unit['max_out_degree']} of each)"
    owned = f"all nodes that the person owns, at most {unit['nodes']}"
    return f"any one person: the features, the labels and the out-arcs{cap} of {owned}"


def _of_accounts(certificate: Certificate) -> list[str]:
    return [
        "Which nodes belong to one person is public, as are node ids: it decides how much each node counts, and who trains. Do "
        "not claim this for data in which that is a secret.",
        "A node's label may still be inferred from what other nodes' records say about it.",
        *[_OTHER_END] * (not certificate["public_facts"]["directed"]),
    ]


def _node(unit: Unit) -> str:
    if unit["arcs"] == "incident":
        return "any one node: its features, its label and every arc in or out of it"
    cap = unit["max_out_degree"]
    return f"any one node: its features, its label and the {f'(at most {cap}) ' if cap else ''}out-arcs it owns"


def _owned_rows(unit: Unit) -> int | None:
    """Those of a node's arcs; of two lists of them where a record is replaced."""
    if unit["arcs"] == "incident" or unit["max_out_degree"] is None:
        return None
    rows: int = unit["max_out_degree"] * (1 + (unit["relation"] == "replace"))
    return rows


def _neighbors_tell(certificate: Certificate) -> list[str]:
    """Under incident arcs the second sentence is not true; runs that were made before this was seen hold it."""
    owned = certificate["unit"]["arcs"] == "owned" or _OTHER_END in certificate["caveats"]
    return [
        "A node's label may still be inferred from what other nodes' records say about it.",
        *[_OTHER_END] * (not certificate["public_facts"]["directed"] and owned),
    ]


def _local(unit: Unit) -> str:
    kept = " and ".join(word for word, held in (("features", unit["features"]), ("label", unit["labels"])) if held)
    return f"one user's {kept}, from everyone, the server too"


def _both_ends(certificate: Certificate) -> list[str]:
    epsilon = certificate["claim"]["epsilon"]
    if epsilon is None:
        return []
    return [
        f"epsilon = {round_up(epsilon)} is that of one bit of one list. A relationship that both of its ends report costs "
        f"epsilon = {round_up(2 * epsilon)}.",
        "A whole neighbor list costs epsilon for every bit in which it could differ: about how many links a user has is not "
        "hidden.",
    ]


_RELATIONS = "one of replace, add-remove"
_CELLS = {
    "directions": "{} cells of each class, found by public random directions",
    "centroids": "{} cells of each class, found by public centroids",
    "declared": "{} cells that a public column declares",
}
_OF_CELLS = {
    "directions": "A record that moves to another cell or class changes two cells, which costs more than the claim.",
    "centroids": "The centroids must be public: if they were fitted on protected records, such as by k-means on private "
    "images, the claim does not hold. A record that moves to another cell changes two cells, which costs more.",
    "declared": "Who is in which cell is not protected: if the cells were computed from protected records, such as by "
    "k-means on private images, what they tell about these records is not covered.",
}


def _cell(unit: Unit) -> str:
    return f"all records of any one cell: {_CELLS[unit['partition']].format(unit['cells'])}"


def _shared(certificate: Certificate) -> list[str]:
    return [
        _OF_CELLS[certificate["unit"]["partition"]],
        "What is common to many cells of a class may be learned: only what one cell adds is protected.",
    ]


def _two_classes(_: Certificate) -> list[str]:
    return [
        "A record that moves to another class changes two classes, which costs more than the claim. So does a person with "
        "records in two classes. That a class exists, and its name, are not protected."
    ]


def _num_cells(certificate: Certificate) -> int:
    unit, classes = certificate["unit"], certificate["public_facts"]["num_classes"]
    return int(unit["cells"] if unit["partition"] == "declared" else unit["cells"] * classes)


UNITS: dict[str, UnitRules] = {
    "none": UnitRules(
        {"relation": "one of none"}, "curator", lambda _: "nothing: this run carries no privacy guarantee",
        lambda _: ("features", "labels", "arcs")),
    "edge": UnitRules(
        {"relation": "one of add-remove", "directed": "flag"}, "curator", _edge,
        lambda _: ("features", "labels"), lambda unit: 1 if unit["directed"] else 2, caveats=_half_an_edge,
        edges=lambda _: 1),
    "person": UnitRules(
        {"relation": "one of add-remove", "edges": "count", "directed": "flag"}, "curator", _person,
        lambda _: ("features", "labels"), lambda unit: unit["edges"] * (1 if unit["directed"] else 2), caveats=_of_person,
        edges=lambda unit: unit["edges"]),
    "person-nodes": UnitRules(
        {"relation": "one of remove", "nodes": "count", "max_out_degree": "count or null"}, "curator", _accounts,
        caveats=_of_accounts, many=True),
    "node": UnitRules(
        {"relation": "one of remove, replace", "arcs": "one of owned, incident", "max_out_degree": "count or null"}, "curator",
        _node, rows=_owned_rows, caveats=_neighbors_tell),
    "record": UnitRules({"relation": "one of add-remove, replace"}, "curator", lambda _: "any one record"),
    "class": UnitRules(
        {"relation": _RELATIONS}, "curator", lambda _: "all records of any one class", many=True,
        caveats=_two_classes, cells=lambda certificate: certificate["public_facts"]["num_classes"]),
    "subclass": UnitRules(
        {"relation": _RELATIONS, "cells": "count", "partition": "one of directions, centroids, declared"}, "curator", _cell,
        many=True, caveats=_shared, cells=_num_cells),
    "local": UnitRules(
        {"relation": "one of replace", "features": "flag", "labels": "flag"}, "local", _local,
        lambda unit: ("arcs", *(part for part in ("features", "labels") if not unit[part]))),
    "servers": UnitRules(
        {"relation": "one of replace"}, "servers",
        lambda _: "one user's label, from everyone, and from either of two servers that do not collude",
        lambda _: ("features", "arcs")),
    "link": UnitRules(
        {"relation": "one of replace"}, "link",
        lambda _: "one bit of one user's neighbor list, from everyone, the server too; a relationship that both ends report "
        "costs twice the epsilon",
        lambda _: ("features", "labels"), caveats=_both_ends,
        verdict=lambda epsilon: [f"claim for a relationship that both ends report: epsilon {round_up(2 * epsilon)}"]),
}  # fmt: skip
