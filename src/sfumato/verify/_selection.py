"""Tuned runs: a single selection. Each candidate must keep the rules of a run with the candidate's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._documents import canonical, plain
from ._kinds import Planned
from ._releases import Tensors, output_faults, release_faults
from ._units import public_parts, unit_rules
from .events import leaves, simple_events

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

Event = dict[str, Any]


def is_tuned(certificate: Certificate) -> bool:
    return any(event["type"] == "selection" for event in leaves(one["event"] for one in certificate["releases"]))


def selection_faults(certificate: Certificate, rules: Rules, released: Tensors, weights: Tensors) -> Iterator[str]:
    where, releases, candidates = "certificate.json: ", certificate["releases"], certificate["candidates"]
    found = [(release["name"], release["event"]["type"], release["shape"]) for release in releases]
    if not rules.on_graph:
        yield f"{where}releases: expected no selection, since {certificate['method']} has none"
        return
    if found != [("tuned", "selection", [1])] or unit_rules(certificate).reported:
        yield f"{where}releases: expected one selection, named tuned, of shape [1], and nothing beside it"
        return
    yield from (f"{where}{text}" for text in _unscored(certificate, rules))
    if releases[0]["visible_to"] != Planned.seen_by:
        yield f"{where}releases[0].visible_to: expected {Planned.seen_by!r}, got {plain(repr(releases[0]['visible_to']))}"
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
    draws, strange = 0, False
    for index, (candidate, events) in enumerate(zip(candidates, trials, strict=True)):
        alone = {**certificate, "settings": candidate["settings"]}
        faults = list(_trial_faults(alone, rules, candidate["method"], events, certificate["settings"]))
        if not faults:
            alone["releases"] = _trial_releases(alone, rules, events)
            faults = [*release_faults(alone, rules), *rules.faults(alone)]
            draws = max(draws, _draws(alone))
        yield from (f"{where}candidates[{index}]: {fault.removeprefix(where)}" for fault in faults)
        strange = strange or bool(faults)
        if known[index] == own and not faults:
            yield from output_faults(alone, rules, released, weights)
    charged = releases[0]["affected_coordinates"]
    if not strange and charged != draws:
        yield f"{where}releases[0].affected_coordinates: expected {draws}, the draws of one trial, got {charged}"


def _unscored(certificate: Certificate, rules: Rules) -> Iterator[str]:
    """Yield why no score can choose among settings: the count of right classes that a trial releases, moved by 1 at most."""
    unit, method = certificate["unit"]["name"], certificate["method"]
    if unit_rules(certificate).many:
        yield f"unit.name: {unit} admits no selection, since one record may change the score by more than 1"
    if rules.scores_pairs or certificate["public_facts"].get("target") is not None:
        learned = "pairs of nodes" if rules.scores_pairs else f"targets of kind {certificate['public_facts']['target']}"
        yield f"releases: {method} admits no selection, since it scores {learned}, and trials are compared by right classes"
    own = [one.name for one in rules.releases(certificate) if one.seen_by != Planned.seen_by]
    if own:
        yield f"releases: {method} admits no selection, since a score would tell others of {own[0]}, which is for its node alone"


def _scores(certificate: Certificate) -> int:
    return int("labels" not in public_parts(certificate))


def _draws(alone: Certificate) -> int:
    """Return how many draws of noise a record can touch in a trial; the draw that ends it counts too."""
    touched = ((one["affected_coordinates"], simple_events([one["event"]])) for one in alone["releases"])
    spent: int = sum(size * times for size, runs in touched for _, times in runs)
    return 1 + _scores(alone) + spent


def _trial_faults(
    alone: Certificate, rules: Rules, method: str, events: list[Event], chosen: dict[str, Any]
) -> Iterator[str]:
    """Yield a problem for settings that are not the method's, or events that are not one for each release and the score.

    Candidates have the limits of the claim that the ``chosen`` settings have: all trials are scored, whichever is chosen.
    """
    if method != alone["method"]:
        yield f"method: expected {alone['method']}, got {plain(method)}"
    strange = list(rules.setting_faults(alone))
    yield from strange
    if strange:
        return  # releases follow from the settings
    if rules.caveats(alone) != rules.caveats({**alone, "settings": chosen}):
        yield "settings: expected a candidate with the limits of the claim that the chosen one has, since scores of all count"
    expected = [*(one.name for one in rules.releases(alone)), *["score"] * _scores(alone)]
    if len(events) != len(expected):
        yield f"events: expected {len(expected)}, of {expected}, as method and settings imply, got {len(events)}"
    elif expected and expected[-1] == "score" and (events[-1]["type"], events[-1].get("count")) != ("gaussian", 1):
        yield "events: expected the last one to be one Gaussian release, of the score"


def _trial_releases(alone: Certificate, rules: Rules, events: list[Event]) -> list[dict[str, Any]]:
    """Return the events of a trial as the releases that they belong to, in the sizes that its settings imply."""
    return [
        {"name": one.name, "event": event, "shape": one.shape, "affected_coordinates": one.affected or 0}
        for one, event in zip(rules.releases(alone), events, strict=False)
    ]
