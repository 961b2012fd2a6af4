"""Whether the ledger and the spec say what the certificate says: both repeat parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ._claim import NULLS
from ._documents import differences, plain
from ._facts import CATEGORIES

if TYPE_CHECKING:
    from ._rules import Certificate, Rules


def ledger_faults(entries: list[dict[str, Any]], certificate: Certificate) -> Iterator[str]:
    """Yield a problem for releases that were not planned, and for a plan that is not that of the certificate."""
    plan, made = entries[0]["plan"], [entry["release"] for entry in entries[1:]]
    if len(made) != len(plan["releases"]):
        yield f"ledger.jsonl: {len(made)} releases were made, but {len(plan['releases'])} were planned"
    for line, pair in enumerate(zip(made, plan["releases"], strict=False), start=2):
        yield from (
            f"ledger.jsonl line {line}: {text} (compared with its plan)" for text in differences(*pair, "release")
        )
    stated = {**certificate, "delta_sampler": certificate["accounting"]["delta_sampler"]}
    for field in sorted({*plan, "arrival", "population", "history"} & {*plan, *stated}):
        found = differences(stated.get(field), plan.get(field), "accounting." * (field == "delta_sampler") + field)
        yield from (f"certificate.json: {text} (compared with ledger.jsonl)" for text in found)
    if certificate["ledger_head"] != entries[-1]["hash"]:
        yield "certificate.json: ledger_head: is not the hash of the ledger's last line"


def spec_faults(spec: dict[str, Any], certificate: Certificate) -> Iterator[str]:
    """Yield a problem for each field of spec.json that differs from the certificate, because predicting trusts the spec."""
    public = certificate["public_facts"]
    stated = {
        "method": certificate["method"],
        "settings": certificate["settings"],
        "unit": certificate["unit"],
        "budget": None if certificate["budget"] == NULLS else certificate["budget"],
        "public": {**public, "assumed": certificate["assumed_public"]},
    }
    for field, value in stated.items():
        yield from (
            f"spec.json: {text} (compared with certificate.json)" for text in differences(spec[field], value, field)
        )


def graph_faults(spec: dict[str, Any], certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem if the graph in the ``spec`` does not fit the method or the public facts of the ``certificate``."""
    graph, public = spec.get("graph"), certificate["public_facts"]
    if (graph is not None) != rules.on_graph:
        learns = "learns from one" if rules.on_graph else "learns from none"
        yield f"spec.json: graph: does not fit method {plain(certificate['method'])}, which {learns}"
    elif graph is not None:
        for field, size in (("num_nodes", graph["num_nodes"]), ("num_classes", len(graph["classes"]))):
            if size != public[field]:
                yield f"spec.json: graph.{field.replace('num_c', 'c')}: {size} differs from public_facts.{field}"
        if len(graph["feature_names"]) not in (0, public["num_features"]):
            yield f"spec.json: graph.feature_names: expected {public['num_features']} names or none"
        yield from _column_faults(graph["feature_names"], certificate["assumed_public"])
        yield from _range_faults(graph["feature_names"], graph.get("ranges"))


def _range_faults(names: list[str], ranges: list[dict[str, Any]] | None) -> Iterator[str]:
    """Yield a problem for ``ranges`` that are not those of some columns of numbers, each once, in the order of the columns."""
    if ranges is None:
        return
    places = {name: place for place, name in enumerate(names)}
    found = [places.get(one["name"], -1) for one in ranges]
    if not found or found[0] < 0 or any(later <= one for one, later in pairwise(found)):
        yield "spec.json: graph.ranges: expected some of feature_names, each once and in their order"
    for one in ranges:
        low, high = one["min"], one["max"]
        if (low is None and high is None) or (low is not None and high is not None and low > high):
            yield f"spec.json: graph.ranges: expected ends of {plain(one['name'])} with min at most max, or one of them"


def _column_faults(names: list[str], facts: list[str]) -> Iterator[str]:
    """Yield a problem for a column whose categories are said to be read off the data, if no feature is named COLUMN=CATEGORY."""
    columns = {name[:end] for name in names for end, sign in enumerate(name) if sign == "="}
    for index, fact in enumerate(facts):
        if names and fact.startswith(CATEGORIES) and fact.removeprefix(CATEGORIES) not in columns:
            yield f"certificate.json: assumed_public[{index}]: {plain(fact)} contradicts spec.json, graph.feature_names"
