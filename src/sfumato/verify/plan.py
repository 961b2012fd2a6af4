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
from .copies import ledger_faults, spec_faults
from .documents import canonical, differences, plain
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
        yield from ledger_faults(entries, certificate)
    if spec is not None:
        yield from spec_faults(spec, certificate)
    tuned = any(event["type"] == "selection" for event in leaves(one["event"] for one in certificate["releases"]))
    if tuned != ("candidates" in certificate):
        yield f"certificate.json: candidates: {'is missing' if tuned else 'not expected, since no selection was charged'}"
    if certificate["method"] == pate.METHOD:
        yield from _pate_faults(certificate, released, weights)
        return
    yield from words_faults(certificate)
    yield from settings_faults(certificate)
    yield from origin_faults(certificate)
    yield from _fact_faults(certificate)
    if not tuned:
        yield from _release_faults(certificate)
        yield from _output_faults(certificate, released, weights)
    elif "candidates" in certificate:
        yield from _selection_faults(certificate, released, weights)


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
    """Tensors and weights that are not those of the method."""
    if released is not None:
        yield from _released_faults(released, certificate)
    if weights is not None and certificate["unit"]["name"] != "none":
        yield from _weights_faults(weights, certificate)


def _selection_faults(
    certificate: dict[str, Any], released: dict[str, list[int]] | None, weights: dict[str, list[int]] | None
) -> Iterator[str]:
    """A tuned run: one selection, each candidate of which is held to the rules of a run with its settings alone."""
    where, releases, candidates = "certificate.json: ", certificate["releases"], certificate["candidates"]
    found = [(release["name"], release["event"]["type"], release["shape"]) for release in releases]
    if found != [("tuned", "selection", [1])] or certificate["unit"]["name"] in LOCAL_UNITS:
        yield f"{where}releases: expected one selection, named tuned, of shape [1], and nothing beside it"
        return
    if certificate["composition"]["builds_on"]:
        yield f"{where}composition.builds_on: expected none, since each trial of a selection trains its own weights"
    own = canonical({"method": certificate["method"], "settings": certificate["settings"]})
    known, trials = [canonical(one) for one in candidates], releases[0]["event"]["candidates"]
    if len({*known}) < max(len(known), 2):
        yield f"{where}candidates: expected at least two, all different"
    if own not in known:
        yield f"{where}settings: expected those of one of candidates"
    if len(trials) != len(known):
        yield f"{where}releases[0].event.candidates: expected {len(known)}, as in candidates, got {len(trials)}"
        return
    charged, draws, strange = releases[0]["affected_coordinates"], 0, False
    for index, (candidate, events) in enumerate(zip(candidates, trials, strict=True)):
        alone = {**certificate, "settings": candidate["settings"], "releases": []}
        faults = list(_trial_faults(alone, candidate["method"], events))
        if not faults:
            alone["releases"] = _trial_releases(alone, events)
            faults = list(_release_faults(alone))
            touched = ((one["affected_coordinates"], simple_events([one["event"]])) for one in alone["releases"])
            draws = max(draws, 1 + _scores(alone) + sum(size * n for size, runs in touched for _, n in runs))
        yield from (f"{where}candidates[{index}]: {fault.removeprefix(where)}" for fault in faults)
        strange = strange or bool(faults)
        if known[index] == own and not faults:
            yield from _output_faults(alone, released, weights)
    if not strange and charged != draws:
        yield f"{where}releases[0].affected_coordinates: expected {draws}, the draws of one trial, got {charged}"


def _scores(certificate: dict[str, Any]) -> int:
    """How many scores a trial releases: one, unless labels are public."""
    return int(certificate["unit"]["name"] != "edge")


def _trial_faults(alone: dict[str, Any], method: str, events: list[dict[str, Any]]) -> Iterator[str]:
    """A candidate that is no setting of the method, or whose events are not one for each release and for the score."""
    if method != alone["method"]:
        yield f"method: expected {alone['method']}, got {plain(method)}"
    strange = list(settings_faults(alone))
    yield from strange
    expected = [] if strange else [*release_names(alone), *["score"] * _scores(alone)]
    if not strange and len(events) != len(expected):
        yield f"events: expected {len(expected)}, of {expected}, as method and settings imply, got {len(events)}"
    elif expected and expected[-1] == "score" and (events[-1]["type"], events[-1].get("count")) != ("gaussian", 1):
        yield "events: expected the last one to be one Gaussian release, of the score"


def _trial_releases(alone: dict[str, Any], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a trial as the releases that they are of, in the sizes that its settings imply."""
    planned, weights, rows = [], network_shapes(alone), touched_rows(alone) or 0
    for name, event in zip(release_names(alone), events, strict=False):
        shape = [sum(_size(one) for key, one in weights.items() if key.startswith(f"{name}."))]
        affected = shape[0]
        if name.startswith("aggregate/"):
            shape = [alone["public_facts"]["num_nodes"], aggregate_width(alone)]
            affected = min(rows, shape[0]) * shape[1]
        planned.append({"name": name, "event": event, "shape": shape, "affected_coordinates": affected})
    return planned


def _fact_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Public facts that contradict the unit or each other."""
    unit, public = certificate["unit"], certificate["public_facts"]
    if unit["name"] == "edge" and public["directed"] and not unit["directed"]:
        yield "certificate.json: unit.directed: expected true, since public_facts.directed is true"
    if public["num_train"] > public["num_nodes"]:
        yield f"certificate.json: public_facts.num_train: {public['num_train']} exceeds num_nodes"
    if unit["name"] in LOCAL_UNITS:
        yield from unit_faults(certificate)


def _release_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Releases that are not those of the method, and sizes or sampling that do not follow from what is public."""
    unit, releases = certificate["unit"], certificate["releases"]
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
