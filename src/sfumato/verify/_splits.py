"""Whether noise is split between releases by the constants of the method."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._rules import Certificate


def split_faults(certificate: Certificate, shares: Mapping[str, float], first: str) -> Iterator[str]:
    """Yield a problem for each noise multiplier that does not follow from the ``first`` one and the public split.

    That noise was drawn cannot be seen; but a method that splits a budget by a constant rule never states noise of another
    split. ``shares`` are the parts, by name, of the squares of what Gaussian releases, and full batches of DP-SGD in all their
    steps, move in units of noise.
    """
    events = {release["name"]: release["event"] for release in certificate["releases"]}
    if first not in events or "noise_multiplier" not in events[first]:
        return  # no privacy, or named as a wrong release
    double = 2 if certificate["unit"]["relation"] == "replace" else 1

    def factor(name: str) -> float:
        steps = events[name].get("steps")
        return math.sqrt(1 / shares[name]) if steps is None else math.sqrt(steps / shares[name]) * double

    whole = events[first]["noise_multiplier"] / factor(first)
    for index, release in enumerate(certificate["releases"]):
        name, noise = release["name"], release["event"].get("noise_multiplier")
        if name not in shares or noise is None:
            continue
        expected = whole * factor(name)
        if not math.isclose(noise, expected, rel_tol=1e-9):
            yield (
                f"certificate.json: releases[{index}].event.noise_multiplier: expected {expected:.9g}, as the noise of the "
                f"{first} says, got {noise:.9g}"
            )
