"""Numbers and mechanisms in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
    r"""Return a value as one line of text that every format can hold: control characters become spaces.

    >>> clean("two\nlines")
    'two lines'
    """
    return _CONTROL.sub(" ", str(text))


def capital(word: str) -> str:
    """Return a word as it begins a sentence.

    >>> capital("accuracy"), capital("AUC")
    ('Accuracy', 'AUC')
    """
    return word[:1].upper() + word[1:]


def percent(fraction: float | None) -> str:
    """Return a fraction as percent with one decimal.

    >>> percent(0.6317), percent(None)
    ('63.2', '-')
    """
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def interval(low: float | None, high: float | None) -> str:
    """Return a 95 % interval of fractions, in percent.

    >>> interval(0.6, 0.652)
    '60.0 to 65.2'
    """
    return "-" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def plain(value: Any) -> str:
    """Return a setting or budget as it was written; a dash for none.

    >>> plain(4.0), plain(None), plain(False), plain(1e-7)
    ('4', '-', 'no', '1e-07')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_words(settings: Mapping[str, Any]) -> str:
    """Return the settings of a method in one line.

    >>> settings_words({"num_hops": None, "width": 16})
    'num_hops default, width 16'
    """
    return ", ".join(f"{key} {'default' if value is None else plain(value)}" for key, value in settings.items())


def unit_words(unit: str) -> str:
    """Return what a unit protects, by its command-line word; a parameter is shown beside it.

    >>> unit_words("arc")
    'one directed arc'
    """
    word, colon, _ = unit.partition(":")
    return short_words()[word] + (f" ({unit})" if colon else "")


def claim_words(claim: Mapping[str, float | None]) -> str:
    """Return epsilon, never rounded down, and delta, in words.

    >>> claim_words({"epsilon": 0.99999999, "delta": 1e-6})
    'epsilon = 1, delta = 1e-06'
    """
    epsilon, delta = claim["epsilon"], claim["delta"]
    if epsilon is None or delta is None:
        return "no guarantee"
    return f"epsilon = {round_up(epsilon)}, delta = {delta_up(delta)}"


def event_words(event: Mapping[str, Any]) -> str:
    """Return what a mechanism did, from the JSON form of its event; an unknown event is shown as it is.

    >>> event_words({"type": "gaussian", "noise_multiplier": 2.0, "count": 1})
    'Gaussian noise, standard deviation 2 times the L2 sensitivity'
    """
    kind = event.get("type")
    try:
        words = _WORDS[kind](event)
    except KeyError:
        return ", ".join(f"{key} {value}" for key, value in sorted(event.items()))
    count = event.get("count", 1)
    return words if count == 1 else f"{count} times: {words}"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _sampled(event: Mapping[str, Any]) -> str:
    terms = f", each record in at most {event['occurrences']} terms" if "occurrences" in event else ""
    return (
        f"DP-SGD, {event['steps']:,} steps on Poisson samples with probability {_number(event['sampling_prob'])}{terms}; "
        f"Gaussian noise, standard deviation {_number(event['noise_multiplier'])} times the clip norm"
    )


_WORDS: dict[Any, Any] = {
    "gaussian": lambda e: (
        f"Gaussian noise, standard deviation {_number(e['noise_multiplier'])} times the L2 sensitivity"
    ),
    "poisson-gaussian": _sampled,
    "repeated-gaussian": _sampled,
    "laplace": lambda e: f"Laplace noise, scale {_number(e['noise_multiplier'])} times the L1 sensitivity",
    "randomized-response": lambda e: (
        f"randomized response over {e['num_outcomes']} values, epsilon {_number(e['epsilon'])}"
    ),
    "exponential": lambda e: f"exponential mechanism, epsilon {_number(e['epsilon'])}",
    "pure": lambda e: f"a mechanism of pure epsilon {_number(e['epsilon'])}",
    "zcdp": lambda e: f"a mechanism of zero-concentrated rho {_number(e['rho'])}",
    "selection": lambda e: (
        f"the best of a secret number of trials ({e['rule']}, {_number(e['mean_trials'])} on average), each one of "
        f"{len(e['candidates'])} candidates: "
        + "; or ".join(", then ".join(map(event_words, candidate)) for candidate in e["candidates"])
    ),
    "composed": lambda e: "; then ".join(event_words(inner) for inner in e["events"]),
}
