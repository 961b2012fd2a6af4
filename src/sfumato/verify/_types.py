"""Types of edges: which a certificate says are protected, and which are public. The verifier's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._documents import plain
from ._units import public_parts

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

CAVEAT = (
    "A record is one edge of one type. Two nodes that edges of k protected types link are k records: each alone is protected at "
    "this epsilon, and all of them together at up to k times as much."
)


def protected_types(facts: Mapping[str, Any]) -> list[str]:
    """Return the types of edges that are records, in their order.

    >>> protected_types({"edge_types": ["friend", "school"], "public_types": ["school"]}), protected_types({})
    (['friend'], [])
    """
    return [name for name in facts.get("edge_types", ()) if name not in facts.get("public_types", ())]


def suffix(certificate: Certificate) -> str:
    """Return what a certificate adds to the words of what is protected."""
    facts = certificate["public_facts"]
    if "edge_types" not in facts or certificate["unit"]["name"] == "none":
        return ""
    if "labels" not in public_parts(certificate):
        return f", of all types ({', '.join(facts['edge_types'])})"
    public = facts.get("public_types")
    told = f" while edges of other types are public ({', '.join(public)})" if public else ""
    return f", of one type ({', '.join(protected_types(facts))}){told}"


def type_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for types of edges that the method does not tell apart, and for lists that name no types."""
    facts, where = certificate["public_facts"], "certificate.json: public_facts."
    names, public = facts.get("edge_types"), facts.get("public_types")
    if names is None:
        if public is not None:
            yield f"{where}public_types: expected edge_types beside it"
        return
    if certificate["unit"]["name"] not in rules.reads_types or "arrival" in certificate:
        said = f"method {plain(certificate['method'])} does not tell types of edges apart here"
        yield f"{where}edge_types: expected none, since {said}"
    if len(names) < 2 or len(set(names)) < len(names):
        yield f"{where}edge_types: expected two different names or more"
    for other in ("max_weight", "edges_per_person"):
        if other in facts:
            yield f"{where}{other}: expected none beside edge_types, since no bound is proved for both"
    if public is not None and not (rules.reads_public_types and _labels_are_public(certificate)):
        yield f"{where}public_types: expected none under this unit and method, which protect the arcs of all types"
    if public is not None and not (0 < len(public) < len(names) and [n for n in names if n in public] == public):
        yield f"{where}public_types: expected some of edge_types, in their order, and not all"


def _labels_are_public(certificate: Certificate) -> bool:
    return certificate["unit"]["name"] == "none" or "labels" in public_parts(certificate)
