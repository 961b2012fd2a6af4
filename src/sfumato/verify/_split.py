"""What the verifier knows of method graph-split: a network trained on groups and what chose among its steps, or class sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from ._baselines import center, center_tensors, is_centered, split_faults
from ._kinds import Planned, Weights
from ._layers import two_layers
from ._rules import OWN, Known, Rules, Sizes, sizes
from ._units import no_arc_change

if TYPE_CHECKING:
    from ._rules import Audience, Certificate, Tensors

DECLARED = "Features and labels of validation nodes were declared public: nothing is promised about them."
_LEAST_CLIP = 1e-9
"""Below it gradients may leave the range of float64."""
_CENTER_SHARE, _SCALE_SHARE, _CHOICE_SHARE, _SCALE_STEPS = 0.1, 0.03, 0.05, 50


class GraphSplit(Rules):
    """The rules of method graph-split: two linear layers and perhaps a choice, or a center, class sums and a scale."""

    settings: ClassVar = {
        "num_groups": "count up to 536870912", "batch_size": "count", "steps": "count", "learning_rate": "positive up to 100",
        "optimizer": "one of adam, sgd", "width": "count", "dropout": "fraction", "second_hop": "flag",
        "l2_clip_norm": "positive up to 1000000000", "group_seed": "index",
    }  # fmt: skip
    optional: ClassVar = {"groups": "one of even, linked, alone", "checkpoints": "count", "public_validation": "flag"}
    audience: ClassVar[dict[str, Audience]] = {
        "node": {"anyone": ["weights"], "the node itself": OWN, "never": ["predictions that read neighbors"]}
    }

    def faults(self, certificate: Certificate) -> Iterator[str]:
        settings, unit = certificate["settings"], certificate["unit"]
        checkpoints, summed = settings.get("checkpoints", 0), _is_summed(certificate)
        if settings["l2_clip_norm"] < _LEAST_CLIP:
            yield f"certificate.json: settings.l2_clip_norm: expected at least {_LEAST_CLIP:g}"
        if checkpoints > settings.get("steps", checkpoints):
            yield f"certificate.json: settings.checkpoints: expected at most {settings['steps']}, the number of steps"
        if settings.get("public_validation") and not checkpoints:
            yield "certificate.json: settings.public_validation: expected false without checkpoints"
        if summed and checkpoints:
            yield "certificate.json: settings.checkpoints: expected none with linked groups or groups of one"
        if settings.get("groups") == "linked" and unit.get("arcs") == "incident":
            yield "certificate.json: unit.arcs: linked groups have no proof for incident arcs"
        if summed:
            shares = {"center": _CENTER_SHARE} if is_centered(certificate) else {}
            shares["scale"] = _SCALE_SHARE
            yield from split_faults(certificate, {**shares, "sums": 1 - sum(shares.values())}, "sums")
        elif _is_paid(certificate):
            yield from _choice_faults(certificate)

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        return {} if _is_summed(certificate) else two_layers(Known(certificate))

    def sgd(self, certificate: Certificate) -> tuple[float, int]:
        settings = certificate["settings"]
        return min(settings["batch_size"], settings["num_groups"]) / settings["num_groups"], settings["steps"]

    def releases(self, certificate: Certificate) -> list[Planned]:
        if certificate["unit"]["name"] == "none":
            return []
        still = no_arc_change(certificate)
        if not _is_summed(certificate):
            number = certificate["settings"].get("checkpoints", 0)
            paid = [Weights("choice", [number], number, arc_change=still)] if _is_paid(certificate) else []
            return [*super().releases(certificate), *paid]
        _, features, classes = sizes(certificate)
        moved: float | None = 0.5 if certificate["unit"]["relation"] == "replace" else 1.0
        moved = moved if certificate["settings"]["groups"] == "linked" else still
        sums = Weights("sums", [classes, features], classes * features, arc_change=moved)
        return [*center(certificate), sums, Weights("scale", [1], _SCALE_STEPS, arc_change=still)]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        if not _is_summed(certificate):
            paid = certificate["unit"]["name"] != "none" and _is_paid(certificate)
            choice: Tensors = {"choice": [certificate["settings"]["checkpoints"]]} if paid else {}
            return {**super().networks(certificate, found), **choice}
        _, features, classes = sizes(certificate)
        return {**center_tensors(certificate, found), "sums": [classes, features], "scale": [1]}

    def caveats(self, certificate: Certificate) -> list[str]:
        return [DECLARED] if certificate["settings"].get("public_validation") else []


def _is_summed(certificate: Certificate) -> bool:
    return bool(certificate["settings"].get("groups") in ("linked", "alone"))


def _is_paid(certificate: Certificate) -> bool:
    settings = certificate["settings"]
    return bool(settings.get("checkpoints")) and not settings.get("public_validation")


def _choice_faults(certificate: Certificate) -> Iterator[str]:
    """Yield a problem if the noise of the choice does not follow from that of the steps by the public rule."""
    events = {release["name"]: release["event"] for release in certificate["releases"]}
    network, choice = (events.get(name, {}) for name in ("network", "choice"))
    if "sampling_prob" not in network or "noise_multiplier" not in choice:
        return  # no privacy, or named as a wrong release
    part = network["sampling_prob"] / network["noise_multiplier"]
    whole = network["steps"] * part**2 * (4 if network.get("relation") == "replace" else 1)
    expected = math.sqrt((1 - _CHOICE_SHARE) / _CHOICE_SHARE / whole)
    if not math.isclose(choice["noise_multiplier"], expected, rel_tol=1e-9):
        yield f"certificate.json: releases[1].event.noise_multiplier: expected {expected:.9g}, as the noise of the steps says"
