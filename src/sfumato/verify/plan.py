"""Whether the parts of a release agree: certificate, ledger, spec, and tensors.

Part of the verifier: it needs the standard library and the other ``_verify_*.py``. Every function takes documents
whose form was checked, and yields problems as text that names file and field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from . import pate
from .caveats import stated
from .claim import NULLS
from .documents import differences, plain
from .epsilon import leaves, simple_events
from .local import DEGREES, LINKS, LOCAL_UNITS, REPORTS, unit_faults
from .methods import (
    aggregate_width,
    is_count,
    network_shapes,
    private_epochs,
    release_names,
    settings_faults,
    touched_rows,
)
from .reports import link_faults, report_faults
from .words import origin_faults, words_faults

_ARRAYS = ("aggregate/", *REPORTS)


def disagreements(
    certificate: dict[str, Any],
    spec: dict[str, Any] | None,
    entries: list[dict[str, Any]] | None,
    released: dict[str, list[int]] | None,
    weights: dict[str, list[int]] | None,
) -> Iterator[str]:
    """Everything below but the claim; None stands for a file that cannot be read, which is a problem already."""
    if entries is not None:
        yield from _ledger_faults(entries, certificate)
    if spec is not None:
        yield from _spec_faults(spec, certificate)
    if certificate["method"] == pate.METHOD:
        yield from _pate_faults(certificate, released, weights)
        return
    yield from words_faults(certificate)
    yield from settings_faults(certificate)
    yield from origin_faults(certificate)
    tuned = any(event["type"] == "selection" for event in leaves(one["event"] for one in certificate["releases"]))
    yield from (_selection_faults if tuned else _output_faults)(certificate, released, weights)


def _pate_faults(
    certificate: dict[str, Any], released: dict[str, list[int]] | None, weights: dict[str, list[int]] | None
) -> Iterator[str]:
    """PATE, of which settings and public facts imply all else: fields, tensors and networks."""
    implied = pate.implied(certificate)
    implied["caveats"] = [*implied["caveats"], *stated(certificate)]
    for field, value in implied.items():
        found = differences(certificate[field], value, field)
        yield from (f"certificate.json: {text} (compared with what the settings imply)" for text in found)
    strange = list(pate.settings_faults(certificate))
    yield from strange
    if strange:
        return  # sizes follow from the settings
    if released is not None:
        yield from _tensor_faults("releases", released, pate.released_shapes(certificate))
    if weights is not None:
        yield from _tensor_faults("model", weights, pate.network_shapes(certificate))


def _tensor_faults(file: str, tensors: dict[str, list[int]], expected: dict[str, list[int]]) -> Iterator[str]:
    """Tensors of ``model`` or ``releases`` that are not exactly those of the settings."""
    where = f"{file}.safetensors: "
    for name in sorted(tensors.keys() | expected.keys()):
        if name not in expected:
            yield f"{where}{plain(name)}: belongs to no {'network of this method' if file == 'model' else 'release'}"
        elif name not in tensors:
            yield f"{where}{name}: is missing"
        elif tensors[name] != expected[name]:
            got = plain(repr(tensors[name]))
            yield f"{where}{name}: expected shape {expected[name]}, as the settings say, got {got}"


def _output_faults(
    certificate: dict[str, Any], released: dict[str, list[int]] | None, weights: dict[str, list[int]] | None
) -> Iterator[str]:
    """Releases, tensors and weights that are not those of the method."""
    yield from _release_faults(certificate)
    if released is not None:
        yield from _released_faults(released, certificate)
    if weights is not None and certificate["unit"]["name"] != "none":
        yield from _weights_faults(weights, certificate)


def _selection_faults(
    certificate: dict[str, Any], released: dict[str, list[int]] | None, weights: dict[str, list[int]] | None
) -> Iterator[str]:
    """A tuned run: one selection, in which a candidate releases what the settings and the tensors say."""
    releases, where = certificate["releases"], "certificate.json: releases"
    if [(release["name"], release["event"]["type"]) for release in releases] != [("tuned", "selection")]:
        yield f"{where}: expected one selection, named tuned, and nothing beside it"
        return
    names, scored = release_names(certificate), ["score"] * (certificate["unit"]["name"] != "edge")
    fitting = [
        list(_candidate_faults(certificate, names, events, released, weights))
        for events in releases[0]["event"]["candidates"]
        if len(events) == len(names) + len(scored)
        and all((event["type"], event.get("count")) == ("gaussian", 1) for event in events[len(names) :])
    ]
    if not fitting:
        yield f"{where}[0].event.candidates: none has events for {[*names, *scored]}, as method and settings imply"
    else:
        yield from (f"{fault} (of the candidate that fits best)" for fault in min(fitting, key=len))


def _candidate_faults(
    certificate: dict[str, Any],
    names: list[str],
    events: list[dict[str, Any]],
    released: dict[str, list[int]] | None,
    weights: dict[str, list[int]] | None,
) -> Iterator[str]:
    """Hold the outputs against one candidate, as if it had been the plan; an event beyond the names is its score's."""
    touched = touched_rows(certificate) or 0
    plan, draws = [], 1 + len(events) - len(names)
    for name, event in zip(names, events[: len(names)], strict=True):
        size = sum(_size(shape) for key, shape in (weights or {}).items() if key.startswith(name + "."))
        shape = (released or {}).get(name, []) if name.startswith("aggregate/") else [size]
        affected = (
            min(touched, shape[0]) * _size(shape[1:]) if name.startswith("aggregate/") and shape else _size(shape)
        )
        plan.append({"name": name, "event": event, "shape": shape, "affected_coordinates": affected})
        draws += sum(affected * times for _, times in simple_events([event]))
    yield from _output_faults({**certificate, "releases": plan}, released, weights)
    if certificate["releases"][0]["affected_coordinates"] < draws:
        yield f"certificate.json: releases[0].affected_coordinates: expected at least {draws}, the draws of one trial"


def _ledger_faults(entries: list[dict[str, Any]], certificate: dict[str, Any]) -> Iterator[str]:
    """Releases that were not planned, or plans that are not those of the certificate."""
    plan, made = entries[0]["plan"], [entry["release"] for entry in entries[1:]]
    if len(made) != len(plan["releases"]):
        yield f"ledger.jsonl: {len(made)} releases were made, but {len(plan['releases'])} were planned"
    for line, pair in enumerate(zip(made, plan["releases"], strict=False), start=2):
        yield from (
            f"ledger.jsonl line {line}: {text} (compared with its plan)" for text in differences(*pair, "release")
        )
    stated = {**certificate, "delta_sampler": certificate["accounting"]["delta_sampler"]}
    for field in plan:
        found = differences(stated[field], plan[field], "accounting." * (field == "delta_sampler") + field)
        yield from (f"certificate.json: {text} (compared with ledger.jsonl)" for text in found)
    if certificate["ledger_head"] != entries[-1]["hash"]:
        yield "certificate.json: ledger_head: is not the hash of the ledger's last line"


def _spec_faults(spec: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """Fields of spec.json that say something else than the certificate: predicting trusts the spec."""
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
    graph = spec.get("graph")
    if (graph is None) != (certificate["method"] == pate.METHOD):
        yield f"spec.json: graph: does not fit method {plain(certificate['method'])}: all but {pate.METHOD} learn from one"
    if graph is None or certificate["method"] == pate.METHOD:
        return
    for field, size in (("num_nodes", graph["num_nodes"]), ("num_classes", len(graph["classes"]))):
        if size != public[field]:
            yield f"spec.json: graph.{field.replace('num_c', 'c')}: {size} differs from public_facts.{field}"
    if len(graph["feature_names"]) not in (0, public["num_features"]):
        yield f"spec.json: graph.feature_names: expected {public['num_features']} names or none"


def _release_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Releases that are not those of the method, and sizes or sampling that do not follow from what is public."""
    unit, releases, public = certificate["unit"], certificate["releases"], certificate["public_facts"]
    if unit["name"] == "edge" and public["directed"] and not unit["directed"]:
        yield "certificate.json: unit.directed: expected true, since public_facts.directed is true"
    if public["num_train"] > public["num_nodes"]:
        yield f"certificate.json: public_facts.num_train: {public['num_train']} exceeds num_nodes"
    if unit["name"] in LOCAL_UNITS:
        yield from unit_faults(certificate)
    names, expected = [release["name"] for release in releases], release_names(certificate)
    if names != expected:
        yield f"certificate.json: releases: expected {expected or 'none'}, got {plain(repr(names))}"
    for index, release in enumerate(releases):
        where, event, shape = f"certificate.json: releases[{index}].", release["event"], release["shape"]
        if unit["relation"] == "replace" and event.get("relation") == "add-remove":
            yield f"{where}event.relation: expected replace, the unit's, got add-remove"
        if release["name"] in (DEGREES, LINKS):
            yield from link_faults(where, release, certificate)
        elif release["name"] in REPORTS:
            yield from report_faults(where, release, certificate)
        elif release["name"].startswith("aggregate/"):
            yield from _aggregate_faults(where, release, certificate)
        elif release["affected_coordinates"] != _size(shape):
            got = release["affected_coordinates"]
            yield f"{where}affected_coordinates: expected {_size(shape)}, all of them, got {got}"
        elif release["name"] in expected:
            yield from _sampling_faults(f"{where}event.", event, certificate)


def _size(shape: list[int]) -> int:
    return min(math.prod(shape), 2**64)


def _aggregate_faults(where: str, release: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """One hop: Gaussian, of shape [nodes, width], in which one record touches a known number of rows."""
    event, shape = release["event"], release["shape"]
    if event["type"] != "gaussian" or event["count"] != 1:
        yield f"{where}event: expected one Gaussian release"
    rows = touched_rows(certificate)
    if rows is None:
        yield f"{where}name: an aggregate has no bounded sensitivity under this unit"
        return
    expected = [certificate["public_facts"]["num_nodes"], aggregate_width(certificate)]
    if shape != expected:
        yield f"{where}shape: expected nodes and width, {plain(repr(expected))}, got {plain(repr(shape))}"
        return
    touched = min(rows, shape[0]) * shape[1]
    if release["affected_coordinates"] != touched:
        yield f"{where}affected_coordinates: expected {touched}, got {release['affected_coordinates']}"


def _sampling_faults(where: str, event: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """DP-SGD: sampling probability and steps follow from the settings and the public number of training nodes."""
    rows = max(certificate["public_facts"]["num_train"], 1)
    size, epochs = certificate["settings"].get("batch_size", rows), private_epochs(certificate)
    if event["type"] != "poisson-gaussian":
        yield f"{where}type: expected poisson-gaussian, got {event['type']}"
    elif not is_count(size) or not is_count(epochs):
        yield f"{where}sampling_prob: the settings do not say how it was chosen"
    else:
        batch = min(size, rows)
        for field, value in (("sampling_prob", batch / rows), ("steps", max(1, epochs * rows // batch))):
            if event[field] != value:
                yield f"{where}{field}: expected {value:.9g} as batch_size, epochs and num_train say, got {event[field]:.9g}"


def _released_faults(released: dict[str, list[int]], certificate: dict[str, Any]) -> Iterator[str]:
    """Aggregates or reports that are missing, of another size than was charged, or that were not charged."""
    charged = {r["name"]: r["shape"] for r in certificate["releases"] if r["name"].startswith(_ARRAYS)}
    for name in sorted(charged.keys() | released.keys()):
        where = f"releases.safetensors: {plain(name)}: "
        if name not in released:
            yield f"{where}the tensor of this release is missing"
        elif name not in charged:
            yield f"{where}this tensor belongs to no release"
        elif released[name] != charged[name]:
            yield f"{where}has shape {plain(repr(released[name]))}, but was charged with {plain(repr(charged[name]))}"


def _weights_faults(weights: dict[str, list[int]], certificate: dict[str, Any]) -> Iterator[str]:
    """Weights that are not those of the method's networks, or whose number is not what was charged."""
    if any(settings_faults(certificate)):
        return  # a problem already, and sizes follow from the settings
    yield from _tensor_faults("model", weights, network_shapes(certificate, weights))
    for release in certificate["releases"]:
        name, expected = release["name"], _size(release["shape"])
        found = sum(_size(shape) for key, shape in weights.items() if key.startswith(name + "."))
        if found != expected and not name.startswith(_ARRAYS):
            yield f"model.safetensors: {plain(name)}: expected {expected} numbers, got {found}"
