"""Whether a claim holds: epsilon and delta against the events, budget and accounting that the certificate states.

And what it costs with arcs that other nodes own: whether the ``prices`` follow from the releases. Where one arc moves a
Gaussian release by r times its sensitivity, k arcs and the record move it by 1 + k r times; of DP-SGD in which a record reaches
several terms, they reach 1 + k r times as many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._charges import draws_of
from ._documents import differences, plain
from ._epsilon import SAMPLER_TAU, epsilon_bracket
from ._units import owns_arcs, unit_rules
from .events import KINDS, KNOWN_EVENTS, leaves, simple_events

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

TOLERANCE = 1.001
NULLS = {"epsilon": None, "delta": None}
Bracket = tuple[float | None, float | None]
ARCS, MOST = [1, 5, 25], 30.0
_MOVED = ("gaussian", "repeated-gaussian")  # events with a price where arcs move them
_WITHOUT = 2  # the last format that may leave prices out


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
    draws = draws_of(releases)
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


def change_faults(certificate: Certificate, rules: Rules) -> Iterator[str]:
    planned = {one.name: one for one in rules.releases(certificate)} if owns_arcs(certificate) else {}
    for index, release in enumerate(certificate["releases"]):
        stated, one = release.get("arc_change"), planned.get(release["name"])
        if stated is None and one is not None and not one.must_state:
            continue
        known = None if one is None else one.arc_change
        fits = stated == known if stated is None or known is None else math.isclose(stated, known, rel_tol=1e-12)
        if not fits and (stated is not None or _are_due(certificate)):
            wanted = "none" if known is None else f"{known:.9g}, as unit and settings imply"
            found = "none" if stated is None else stated
            yield f"certificate.json: releases[{index}].arc_change: expected {wanted}, got {found}"


def _are_due(certificate: Certificate) -> bool:
    """Return whether what is known of arcs must be stated: from format 3 on, and in format 2 if any of it is."""
    stated = "prices" in certificate or any("arc_change" in release for release in certificate["releases"])
    return stated or bool(certificate["format"] > _WITHOUT)


def price_words(price: dict[str, Any]) -> str:
    """Return one price as a verdict prints it.

    >>> price_words({"arcs": 5, "epsilon": None})
    '5 arcs, epsilon above 30 or without a bound'
    """
    epsilon = f"above {MOST:g} or without a bound" if price["epsilon"] is None else f"{price['epsilon']:.9g}"
    return f"{price['arcs']} arc{'s' * (price['arcs'] > 1)}, epsilon {epsilon}"


def price_faults(certificate: Certificate) -> Iterator[str]:
    where, releases, claim = "certificate.json: prices", certificate["releases"], certificate["claim"]
    stated = certificate.get("prices")
    due = owns_arcs(certificate) and claim["epsilon"] is not None and all(map(_priced, releases))
    if due and stated is None and _are_due(certificate):
        yield f"{where}: is missing"
    if stated is None:
        return
    if not due:
        yield f"{where}: not expected, since none is known under this unit or for these releases"
    elif [one["arcs"] for one in stated] != ARCS:
        yield f"{where}: expected those of {ARCS} arcs, got {plain(repr([one['arcs'] for one in stated]))}"
    elif not any(release["arc_change"] for release in releases):
        for index, one in enumerate(stated):
            if one["epsilon"] != claim["epsilon"]:
                yield f"{where}[{index}].epsilon: expected that of the claim, which no arc moves, got {one['epsilon']}"
    else:
        for index, one in enumerate(stated):
            yield from (f"{where}[{index}].epsilon: {text}" for text in _price_faults(certificate, one))


def _priced(release: dict[str, Any]) -> bool:
    moves, shape = release.get("arc_change"), release["shape"]
    return moves == 0 or (moves is not None and release["event"]["type"] in _MOVED and None not in shape)


def _price_faults(certificate: Certificate, price: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for one price, at the delta that is left by a sampler whose share is that of the largest price."""
    draws, events = 0, []
    for release in certificate["releases"]:
        moves, event = release["arc_change"], release["event"]
        size = release["affected_coordinates"] + (math.prod(release["shape"]) if moves else 0)
        draws += sum(size * times for _, times in simple_events([event]))
        more = 1 + price["arcs"] * moves
        if event["type"] == "repeated-gaussian":
            events.append({**event, "occurrences": round(event["occurrences"] * more)})
        else:
            events.append({**event, "noise_multiplier": event["noise_multiplier"] / more} if moves else event)
    left = certificate["claim"]["delta"] - (1 + math.exp(MOST)) * SAMPLER_TAU * min(draws, 10**300)
    low, high = epsilon_bracket(events, left) if left > 0 else (math.inf, math.inf)
    epsilon = price["epsilon"]
    if epsilon is None:
        if high * TOLERANCE <= MOST:
            yield f"is null, expected about {high:.9g}"
    elif epsilon > MOST:
        yield f"{epsilon:.9g} is above {MOST:g}, where null is written"
    else:
        yield from bracket_faults(epsilon, low, high)
