"""Whether what a certificate calls public is public: facts of a graph, facts read off data, and runs that weights come from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._caveats import ROLES
from ._documents import plain
from ._units import public_parts, unit_rules

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

_COUNTS = {"num_arcs": "arcs", "untrained_classes": "labels"}  # where these are public
CATEGORIES = "categories of column "
"""How a fact about a column begins: its name follows."""
DEGREES = "degrees"
_TRAIN = {"curator": 0.75, "local": 0.5, "servers": 0.5}
"""The share of training nodes that is drawn where nobody asks for another, by trust model."""
_UNSAID = 2
"""The last format in which a run need not say how roles were made, nor count arcs that are public, and may name an idle cap."""


def fact_faults(certificate: Certificate) -> Iterator[str]:
    """Yield a problem for facts of a graph that contradict the unit or each other, or that are not public under the unit."""
    unit, facts, where = certificate["unit"], certificate["public_facts"], "certificate.json: "
    if unit["name"] == "person" and facts["directed"] != unit["directed"]:
        yield f"{where}unit.directed: expected {str(facts['directed']).lower()}, as public_facts.directed"
    if unit["name"] == "edge" and facts["directed"] and not unit["directed"]:
        yield f"{where}unit.directed: expected true, since public_facts.directed is true"
    yield from _owner_faults(unit, facts.get("edges_per_person"), f"{where}public_facts.edges_per_person: ")
    yield from _account_faults(unit, facts, f"{where}public_facts.")
    if unit.get("arcs") == "incident" and unit["max_out_degree"] is not None and certificate["format"] > _UNSAID:
        yield f"{where}unit.max_out_degree: expected null, since no proof for incident arcs reads a cap"
    nodes = facts["num_nodes"]
    most = {"num_train": nodes, "max_degree": nodes, "mean_degree": facts["max_degree"] or nodes, "num_arcs": nodes**2,
            "untrained_classes": facts["num_classes"]}  # fmt: skip
    for name, limit in most.items():
        if (facts.get(name) or 0) > limit:
            yield f"{where}public_facts.{name}: {facts[name]} exceeds {limit}, the most that the other facts admit"
    pixels = facts.get("image_shape")
    if pixels is not None and (len(pixels) != 3 or math.prod(pixels) != facts["num_features"]):
        yield f"{where}public_facts.image_shape: expected three numbers whose product is num_features, {facts['num_features']}"
    for name, part in _COUNTS.items():
        if name in facts and part not in public_parts(certificate):
            yield f"{where}public_facts.{name}: is protected under unit {unit['name']}"
    elsewhere = "collection" in certificate or certificate["composition"]["builds_on"]  # newcomers do not count theirs
    due = "arcs" in public_parts(certificate) and not elsewhere and certificate["format"] > _UNSAID
    if due and "num_arcs" not in facts:
        yield f"{where}public_facts.num_arcs: is missing, though arcs are public under unit {unit['name']}"
    yield from _assumed_faults(certificate)
    yield from _split_faults(certificate)


def _owner_faults(unit: dict[str, Any], kept: int | None, where: str) -> Iterator[str]:
    """Yield a problem for a bound on a person's edges that is not that of the unit, or under a unit that it breaks.

    Where one row is taken out, another of the same person may come in: a record is then more than one edge.
    """
    if unit["name"] == "person" and kept != unit["edges"]:
        yield f"{where}expected {unit['edges']}, the most edges of a person, got {kept}"
    if unit["name"] not in ("person", "none") and kept is not None:
        yield f"{where}not expected under unit {plain(unit['name'])}: where one row is taken out, another may come in"


def _account_faults(unit: dict[str, Any], facts: dict[str, Any], where: str) -> Iterator[str]:
    """Yield a problem for counts of persons who own nodes that contradict the unit, or each other."""
    names = ("nodes_per_person", "num_persons", "train_persons")
    if unit["name"] != "person-nodes":
        yield from (f"{where}{name}: not expected under unit {plain(unit['name'])}" for name in names if name in facts)
        return
    if missing := [name for name in names if name not in facts]:
        yield f"{where}{missing[0]}: is missing, though a record is all nodes of a person"
        return
    most, persons, learned = (facts[name] for name in names)
    if most != unit["nodes"]:
        yield f"{where}nodes_per_person: expected {unit['nodes']}, the most nodes of a person, got {most}"
    for count, owners, name in (
        (facts["num_nodes"], persons, "num_persons"),
        (facts["num_train"], learned, "train_persons"),
    ):
        if not owners <= count <= most * owners:
            yield f"{where}{name}: {owners} persons of at most {most} nodes each cannot own {count}"
    if learned > persons:
        yield f"{where}train_persons: {learned} exceeds num_persons, {persons}"


def _split_faults(certificate: Certificate) -> Iterator[str]:
    """Yield a problem for training nodes that no draw over all ids gives, where labels are protected.

    Roles that were given may count any number; then the certificate says that they are assumed public. Those of a collection are
    recomputed elsewhere. A graph without classes, to which a model is applied, has no training nodes. Format 2 says nothing.
    """
    facts, where = certificate["public_facts"], "certificate.json: public_facts."
    split, train, named = facts.get("split"), facts["num_train"], certificate["assumed_public"]
    if "labels" in public_parts(certificate) or ROLES in named or "collection" in certificate:
        if split is not None:
            yield f"{where}split: expected none, unless roles were drawn over all ids because labels are protected"
        return
    if split is not None and (len(split) != 3 or sum(split) > 1 + 1e-9):
        yield f"{where}split: expected three shares of at most 1 together"
        return
    if split is None and certificate["format"] <= _UNSAID:
        return
    share, nodes = split[0] if split else _TRAIN[unit_rules(certificate).trust], facts["num_nodes"]
    counted = "num_train"
    if "num_persons" in facts:  # roles are drawn over persons
        counted, nodes, train = "train_persons", facts["num_persons"], facts.get("train_persons")
    drawn = min(math.floor(share * nodes + 0.5 + 1e-9), nodes)
    if train != drawn and (train or not certificate["composition"]["builds_on"]):
        yield (
            f"{where}{counted}: expected {drawn}, as a draw over all ids gives, got {train}: labels are protected, and "
            "assumed_public does not say that roles were given"
        )


def target_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for a target that the method does not learn, or whose range does not fit it.

    A range can only be known without the data, or read off public labels: no fact that is assumed public may be one.
    """
    facts, where = certificate["public_facts"], "certificate.json: public_facts."
    target, limits = facts.get("target"), facts.get("target_range")
    if target is not None and target not in rules.targets:
        yield f"{where}target: method {plain(certificate['method'])} learns no target of kind {target}"
    if (limits is not None) != (target == "number"):
        yield f"{where}target_range: expected with target number, and with no other"
    elif limits is not None and not (len(limits) == 2 and limits[0] < limits[1]):
        yield f"{where}target_range: expected two numbers, the smaller one first"
    if target == "number" and facts["num_classes"] != 1:
        yield f"{where}num_classes: expected 1, since one number is learned, got {facts['num_classes']}"
    if target is not None and "untrained_classes" in facts:
        yield f"{where}untrained_classes: expected none, since no class is learned"


def edge_weight_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for a bound of weights of edges, if the method of these ``rules`` reads no weights, or of an arrival."""
    if "max_weight" in certificate["public_facts"] and (not rules.reads_weights or "arrival" in certificate):
        said = f"expected none, since method {plain(certificate['method'])} reads no weights of edges here"
        yield f"certificate.json: public_facts.max_weight: {said}"


def _assumed_faults(certificate: Certificate) -> Iterator[str]:
    """Yield a problem for wrong facts read off protected data."""
    unit, facts, public = certificate["unit"]["name"], certificate["assumed_public"], certificate["public_facts"]
    columns = sum(fact.startswith(CATEGORIES) for fact in facts)
    if columns > public["num_features"]:
        said = f"names {columns} columns, but public_facts.num_features is {public['num_features']}"
        yield f"certificate.json: assumed_public: {said}"
    for index, fact in enumerate(facts):
        where = f"certificate.json: assumed_public[{index}]: {plain(fact)} "
        told = public_parts(certificate)
        if {"features", "labels"} <= {*told} or (fact == ROLES and "labels" in told):
            yield f"{where}is not protected under unit {unit}"
        elif fact in facts[:index]:
            yield f"{where}appears twice"
        elif fact == ROLES:
            continue
        elif fact == DEGREES:
            if not public.get("degree_bounds"):
                yield f"{where}contradicts public_facts, where no degree_bounds are public"
        elif fact not in ("num_features", "classes") and not fact.startswith(CATEGORIES):
            yield f"{where}is no fact that is read off data"
        elif not public["num_classes" if fact == "classes" else "num_features"]:
            about = "num_classes" if fact == "classes" else "num_features"
            yield f"{where}contradicts public_facts.{about}, which is 0"


def origin_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for runs that the weights cannot come from."""
    origins, where = certificate["composition"]["builds_on"], "certificate.json: composition.builds_on"
    if origins and not rules.inductive:
        yield f"{where}: expected none, since {certificate['method']} takes no weights from another run"
    for index, run in enumerate(origins):
        for field in ("epsilon", "delta"):
            if certificate["unit"]["name"] != "none" and not run[field]:
                said = "weights cannot come from a run that cost nothing"
                yield f"{where}[{index}].{field}: expected a number > 0, got {run[field]}: {said}"
