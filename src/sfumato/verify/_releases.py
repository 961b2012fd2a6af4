"""Whether releases, released tensors and weights are those that the rules of the method plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._collection import tensors
from ._documents import plain
from ._kinds import OwnRows
from ._tensors import Stored, read_tensors

if TYPE_CHECKING:
    from ._kinds import Shape
    from ._rules import Certificate, Rules

OWN_ROWS = "own/rows.safetensors"
_SALT = [4]
Tensors = Mapping[str, Stored] | None
"""Of one file; None stands for a file that cannot be read, which is a problem already."""


def release_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield a problem for releases that the method does not plan, and for events and sizes that public facts do not imply."""
    planned = {one.name: one for one in rules.releases(certificate)}
    names = [release["name"] for release in certificate["releases"]]
    if names != [*planned]:
        yield f"certificate.json: releases: expected {[*planned] or 'none'}, got {plain(repr(names))}"
    for index, release in enumerate(certificate["releases"]):
        where = f"certificate.json: releases[{index}]."
        if certificate["unit"]["relation"] == "replace" and release["event"].get("relation", "replace") != "replace":
            yield f"{where}event.relation: expected replace, the unit's, got {release['event']['relation']}"
        if release["name"] in planned:
            yield from planned[release["name"]].faults(where, release)


def output_faults(certificate: Certificate, rules: Rules, released: Tensors, weights: Tensors) -> Iterator[str]:
    """Yield a problem for released tensors that were not charged, and for weights that do not fit the method's networks."""
    if released is not None:
        yield from _released_faults(certificate, rules, released)
    if weights is not None and certificate["unit"]["name"] != "none":
        found = list(_weights_faults(weights, rules.networks(certificate, weights)))
        yield from found or (f"model.safetensors: {text}" for text in rules.weight_faults(certificate, weights))


def _released_faults(certificate: Certificate, rules: Rules, released: Mapping[str, Stored]) -> Iterator[str]:
    planned = {one.name: one for one in rules.releases(certificate)}
    charged: dict[str, Shape] = {**tensors(certificate)}
    for release in certificate["releases"]:
        charged |= planned[release["name"]].tensors(release) if release["name"] in planned else {}
    for name in sorted(charged.keys() | released.keys()):
        where = f"releases.safetensors: {plain(name)}: "
        if name not in released:
            yield f"{where}the tensor of this release is missing"
        elif name not in charged:
            yield f"{where}this tensor belongs to no release"
        elif not _fits(released[name].shape, charged[name]):
            found, stated = plain(repr(released[name].shape)), plain(repr(charged[name]))
            yield f"{where}has shape {found}, but was charged with {stated}"


def _fits(shape: list[int], charged: Shape) -> bool:
    """Return whether a shape is the charged one, in which null stands for any number."""
    return len(shape) == len(charged) and all(b is None or a == b for a, b in zip(shape, charged, strict=True))


def _weights_faults(weights: Mapping[str, Stored], expected: dict[str, list[int]]) -> Iterator[str]:
    for name in sorted(weights.keys() | expected.keys()):
        where = f"model.safetensors: {plain(name)}: "
        if name not in expected:
            yield f"{where}belongs to no network of this method"
        elif name not in weights:
            yield f"{where}is missing"
        elif weights[name].shape != expected[name]:
            yield f"{where}expected shape {expected[name]}, as the settings say, got {plain(repr(weights[name].shape))}"


def own_faults(release: Path, certificate: Certificate, rules: Rules, spec: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for rows of single nodes beside the release that are not those of a digest, or for a wrong digest.

    The file of rows may be missing: whoever checks a release should not have it.
    """
    planned = {one.name: one for one in rules.releases(certificate) if isinstance(one, OwnRows)}
    digest, path = spec.get("own"), release.parent / OWN_ROWS
    if (digest is not None) != bool(planned):
        yield f"spec.json: own: {'is missing' if planned else 'not expected, since no release is for single nodes'}"
    if path.exists() and not planned:
        yield f"{OWN_ROWS}: no release is for single nodes; remove it"
    if digest is None or not planned or not path.exists():
        return
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        yield f"{OWN_ROWS}: its SHA-256 differs from the one in spec.json"
        return
    problems: list[str] = []
    stored = read_tensors(path, problems) or {}
    yield from (f"own/{text}" for text in problems)
    expected = {**{name: one.shape for name, one in planned.items()}, "salt": _SALT}
    found = {name: one.shape for name, one in stored.items()}
    if not problems and (found != expected or any(one.dtype != "I64" for one in stored.values())):
        yield f"{OWN_ROWS}: expected integers of shapes {plain(repr(expected))}, got {plain(repr(found))}"
