"""Numbers and mechanisms in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sfumato.errors import InputError
from sfumato.privacy.events import event_from_dict
from sfumato.privacy.units import short_words
from sfumato.record._shown import delta_up, round_up

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
ROLES = {
    "method": "method",
    "floor": "floor: graph-free",
    "ceiling": "ceiling: no privacy",
    "label-control": "label-only control",
    "no-information": "control: features that tell nothing",
}
ACCOUNTING = {
    "gaussian": "closed form of the Gaussian mechanism",
    "pld": "privacy loss distributions",
    "renyi": "Renyi divergences",
    "sum": "sum of the epsilons of all parts",
    "none": "none",
}
IMAGE_ROLES = {"method": "method", "floor": "floor: answered images alone", "ceiling": "ceiling: true labels"}
AXES = {
    "epsilon": "epsilon",
    "num_hops": "hops",
    "depth": "depth",
    "max_degree": "degree cap",
    "epsilon_x": "epsilon of features",
    "epsilon_y": "epsilon of labels",
    "steps_x": "hops of features",
    "steps_y": "hops of labels",
    "student_noise_rate": "guess of the noise rate",
    "student_removal": "share of labels removed",
}


def clean(text: object) -> str:
    r"""Return a value as one line of text that every format can hold: control characters become spaces."""
    return _CONTROL.sub(" ", str(text))


def capital(word: str) -> str:
    """Return a word as it begins a sentence."""
    return word[:1].upper() + word[1:]


def percent(fraction: float | None) -> str:
    """Return a fraction as percent with one decimal."""
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def interval(low: float | None, high: float | None) -> str:
    """Return a 95 % interval of fractions, in percent."""
    return "-" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def plain(value: Any) -> str:
    """Return a setting or budget as it was written; a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_words(settings: Mapping[str, Any]) -> str:
    """Return the settings of a method in one line."""
    return ", ".join(f"{key} {'default' if value is None else plain(value)}" for key, value in settings.items())


def unit_words(unit: str) -> str:
    """Return what a unit protects, by its command-line word; a parameter is shown beside it."""
    word, colon, _ = unit.partition(":")
    return short_words()[word] + (f" ({unit})" if colon else "")


def claim_words(claim: Mapping[str, float | None]) -> str:
    """Return epsilon, never rounded down, and delta, in words."""
    epsilon, delta = claim["epsilon"], claim["delta"]
    if epsilon is None or delta is None:
        return "no guarantee"
    return f"epsilon = {round_up(epsilon)}, delta = {delta_up(delta)}"


def event_words(event: Mapping[str, Any]) -> str:
    """Return what a mechanism did, from the JSON form of its event; an unknown event is shown as it is."""
    try:
        return event_from_dict(event).words()
    except (InputError, TypeError):
        return ", ".join(f"{key} {value}" for key, value in sorted(event.items()))
