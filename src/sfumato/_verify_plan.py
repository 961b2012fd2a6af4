"""Whether the parts of a release agree with each other: spec, certificate, public facts, weights.

Part of the verifier, so it imports the standard library alone. Every function yields problems as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

_SPEC = {"format", "method", "settings", "unit", "budget", "public", "noise_multiplier", "graph"}
_GRAPH = {"name", "num_nodes", "ids_digest", "classes", "feature_names"}
_NETWORKS = {"encoder", "classifier", "network"}
_DEFAULT_EPOCHS = 10
KNOWN_METHODS = ("gap", "mlp", "sage")


def spec_faults(spec: Any, certificate: dict[str, Any]) -> Iterator[str]:
    """Fields of spec.json that are strange or say something else than the certificate: predicting trusts the spec.

    >>> list(spec_faults([], {}))
    ['spec.json: expected an object with the fields budget, format, graph, method, noise_multiplier, public, settings, unit']
    """
    if not isinstance(spec, dict) or set(spec) != _SPEC:
        yield "spec.json: expected an object with the fields " + ", ".join(sorted(_SPEC))
        return
    nothing = {"epsilon": None, "delta": None}
    public = spec["public"] if isinstance(spec["public"], dict) else {}
    stated = {
        "format": certificate["format"],
        "method": certificate["method"],
        "settings": certificate["settings"],
        "unit": certificate["unit"],
        "budget": None if certificate["budget"] == nothing else certificate["budget"],
        "public": {**certificate["public_facts"], "assumed": certificate["assumed_public"]},
    }
    for field, value in stated.items():
        if spec[field] != value:
            yield f"spec.json: {field}: differs from certificate.json"
    if not isinstance(spec["graph"], dict) or set(spec["graph"]) != _GRAPH:
        yield "spec.json: graph: expected an object with the fields " + ", ".join(sorted(_GRAPH))
    elif spec["graph"]["num_nodes"] != public.get("num_nodes"):
        yield "spec.json: graph.num_nodes: differs from public.num_nodes"
    noises = [release["event"]["noise_multiplier"] for release in certificate["releases"]]
    if noises and spec["noise_multiplier"] not in noises:
        yield "spec.json: noise_multiplier: is that of no release"


def words_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Plain words that say something else than the unit they describe."""
    if certificate["protects"] != _protects(certificate["unit"]):
        yield "certificate.json: protects: does not describe the unit"
    if certificate["trust_model"] != "trusted curator":
        yield "certificate.json: trust_model: expected trusted curator"


def _protects(unit: dict[str, Any]) -> str:
    if unit["name"] == "none":
        return "nothing: this run carries no privacy guarantee"
    if unit["name"] == "edge":
        return "the presence of any one " + ("directed arc" if unit.get("directed") else "undirected edge")
    if unit["name"] == "record":
        return "any one record"
    if unit.get("arcs") == "incident":
        return "any one node: its features, its label and every arc in or out of it"
    cap = unit.get("max_out_degree")
    return f"any one node: its features, its label and the {f'(at most {cap}) ' if cap else ''}out-arcs it owns"


def sampling_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Sampling probabilities and steps that do not follow from the settings and the public number of training nodes."""
    settings, num_train = certificate["settings"], certificate["public_facts"].get("num_train")
    for index, release in enumerate(certificate["releases"]):
        event = release["event"]
        if event["type"] == "gaussian":
            continue
        where = f"certificate.json: releases[{index}].event."
        size, epochs = settings.get("batch_size"), settings.get("epochs") or _DEFAULT_EPOCHS
        if not all(isinstance(value, int) and value > 0 for value in (size, num_train, epochs)):
            yield f"{where}sampling_prob: settings and public facts do not say how it was chosen"
            continue
        batch = min(size, num_train)
        if event["sampling_prob"] != batch / num_train:
            yield f"{where}sampling_prob: expected {batch} / {num_train}, got {event['sampling_prob']:.9g}"
        if event["steps"] != max(1, epochs * num_train // batch):
            yield f"{where}steps: expected {max(1, epochs * num_train // batch)}, got {event['steps']}"


def weights_faults(shapes: dict[str, list[int]], certificate: dict[str, Any]) -> Iterator[str]:
    """Weights that belong to no network, or whose number is not what was charged."""
    private = certificate["unit"]["name"] != "none"
    for name in shapes:
        if private and name.split(".")[0] not in _NETWORKS:
            yield f"model.safetensors: {name!r} belongs to no network"
    for release in certificate["releases"]:
        found = sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(release["name"] + "."))
        if release["event"]["type"] != "gaussian" and found != math.prod(release["shape"]):
            yield f"model.safetensors: {release['name']}: expected {math.prod(release['shape'])} numbers, got {found}"
