"""Whether a claim holds: epsilon and delta against the events, budget and accounting that the certificate states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ._documents import differences
from ._epsilon import SAMPLER_TAU, epsilon_bracket
from ._units import unit_rules
from .events import KINDS, KNOWN_EVENTS, leaves, simple_events

TOLERANCE = 1.001
NULLS = {"epsilon": None, "delta": None}
Bracket = tuple[float | None, float | None]


def claim_faults(certificate: dict[str, Any]) -> tuple[list[str], Bracket]:
    """Check the claim against the events; return problems and the bracket of epsilon."""
    claim, budget, accounting = certificate["claim"], certificate["budget"], certificate["accounting"]
    events = [release["event"] for release in certificate["releases"]]
    if certificate["unit"]["name"] == "none":
        spent = {"delta_sampler": accounting["delta_sampler"]}
        stated = {"claim": claim, "budget": budget, "accounting": spent, "releases": events}
        wanted = {"claim": NULLS, "budget": NULLS, "accounting": {"delta_sampler": 0.0}, "releases": []}
        faults = [f"{text[1:]} under unit none" for text in differences(stated, wanted, "")]
        return [f"certificate.json: {text}" for text in faults], (None, None)
    local = unit_rules(certificate).reported
    numbers = [("claim", claim), *([] if local and budget == NULLS else [("budget", budget)])]  # local: limit or none
    faults = [f"{field}.{key}: expected a number, got null" for field, values in numbers for key in claim
              if values[key] is None]  # fmt: skip
    kinds = {event["type"] for event in leaves(events)}
    methods = ("none", "gaussian", "pld") if not kinds else ("gaussian", "pld") if kinds == {"gaussian"} else ("pld",)
    if kinds and all(kind in KINDS and KINDS[kind].pure for kind in kinds):
        methods = ("sum", "pld")
    methods = ("renyi",) if "selection" in kinds else ("sum",) if local else methods
    if accounting["method"] not in methods:
        faults.append(f"accounting.method: {accounting['method']} does not fit the events")
    for index, event in enumerate(events):
        strange = sorted({one["type"] for one in leaves([event])} - KNOWN_EVENTS)
        faults += [f"releases[{index}].event.type: {kind} cannot be verified here" for kind in strange]
    bracket: Bracket = (None, None)
    if not any(fault.endswith("got null") for fault in faults) and kinds <= KNOWN_EVENTS:
        found, bracket = _number_faults(certificate)
        faults += found
    return [f"certificate.json: {fault}" for fault in faults], bracket


def _number_faults(certificate: dict[str, Any]) -> tuple[list[str], tuple[float, float]]:
    claim, releases = certificate["claim"], certificate["releases"]
    epsilon, stated = claim["epsilon"], certificate["accounting"]["delta_sampler"]
    faults = [
        f"claim.{key}: {claim[key]:.9g} exceeds budget.{key}, which is {limit}"
        for key, limit in certificate["budget"].items()
        if limit is not None and claim[key] > limit * (1 + 1e-9)
    ]
    draws = sum(r["affected_coordinates"] * times for r in releases for _, times in simple_events([r["event"]]))
    sampler = (1 + math.exp(min(epsilon, 700.0))) * SAMPLER_TAU * min(draws, 10**300)
    if not math.isclose(stated, sampler, rel_tol=1e-9):
        faults.append(f"accounting.delta_sampler: expected {sampler:.12g}, got {stated}")
    low, high = epsilon_bracket([release["event"] for release in releases], claim["delta"] - sampler)
    return [*faults, *(f"claim.epsilon: {text}" for text in bracket_faults(epsilon, low, high))], (low, high)


def bracket_faults(epsilon: float, low: float, high: float) -> Iterator[str]:
    """Yield a problem for an epsilon that is below its bracket, or not near its upper end."""
    if low > epsilon:
        yield f"{epsilon:.9g} is too small: the cost is at least {low:.9g}"
    elif high > TOLERANCE * epsilon:
        yield f"{epsilon:.9g} is not confirmed: the bound is {high:.9g}"
