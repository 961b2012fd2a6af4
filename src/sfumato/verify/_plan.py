"""Whether a certificate says what its ledger and spec, its unit, its method and its tensors say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._arrivals import arrival_faults
from ._copies import graph_faults, ledger_faults, spec_faults
from ._documents import form_faults, forms, plain
from ._facts import edge_weight_faults, fact_faults, origin_faults, target_faults
from ._population import population_faults
from ._releases import Tensors, output_faults, release_faults
from ._selection import is_tuned, selection_faults
from ._types import type_faults
from ._words import words_faults

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

Entries = list[dict[str, Any]]


def unfit(certificate: Certificate, rules: Rules | None) -> list[str]:
    """Return why the rules of the method cannot be applied: no such method or proof, or facts and settings of another form."""
    method, unit, where = plain(certificate["method"]), certificate["unit"]["name"], "certificate.json: "
    if rules is None:
        return [f"{where}method: {method} is not known here, so who may see what cannot be verified"]
    strange = [
        f"{where}{text}" for text in form_faults(certificate["public_facts"], forms()[rules.facts], "public_facts")
    ]
    if unit not in rules.audience and unit != "none":
        strange.append(f"{where}unit.name: {method} has no proof under unit {unit}")
    return strange or list(rules.setting_faults(certificate))


def copied_faults(certificate: Certificate, spec: dict[str, Any] | None, entries: Entries | None) -> Iterator[str]:
    """Yield a problem if ledger, spec and candidates do not repeat the ``certificate``; None is a file that cannot be read."""
    if entries is not None:
        yield from ledger_faults(entries, certificate)
    if spec is not None:
        yield from spec_faults(spec, certificate)
    tuned = is_tuned(certificate)
    if tuned != ("candidates" in certificate):
        yield f"certificate.json: candidates: {'is missing' if tuned else 'not expected, since no selection was charged'}"


def method_faults(
    certificate: Certificate, rules: Rules, spec: dict[str, Any] | None, released: Tensors, weights: Tensors
) -> Iterator[str]:
    """Yield a problem for everything that does not follow from unit, method, settings and public facts."""
    if certificate["format"] < rules.since:
        said = (
            f"expected {rules.since}, in which method {plain(certificate['method'])} began, got {certificate['format']}"
        )
        yield f"certificate.json: format: {said}"
    if spec is not None:
        yield from graph_faults(spec, certificate, rules)
    yield from words_faults(certificate, rules)
    yield from origin_faults(certificate, rules)
    yield from arrival_faults(certificate, rules)
    yield from population_faults(certificate)
    if rules.on_graph:
        yield from fact_faults(certificate)
        yield from target_faults(certificate, rules)
        yield from edge_weight_faults(certificate, rules)
        yield from type_faults(certificate, rules)
    yield from rules.faults(certificate)
    if not is_tuned(certificate):
        yield from release_faults(certificate, rules)
        yield from output_faults(certificate, rules, released, weights)
    elif "candidates" in certificate:
        yield from selection_faults(certificate, rules, released, weights)
