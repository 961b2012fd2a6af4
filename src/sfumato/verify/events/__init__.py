"""Events as a certificate writes them: trees of mechanisms, and what they are for the accountant.

**A new event is a file of this folder, and its type in** :data:`_NAMES`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._gaussian import Gaussian

if TYPE_CHECKING:
    from ._kind import Event, Kind

_NAMES = (
    "gaussian", "poisson-gaussian", "repeated-gaussian", "laplace", "randomized-response", "exponential", "pure", "zcdp",
    "approximate", "composed", "selection",
)  # fmt: skip
KINDS: dict[str, Kind] = {name: import_module(f"._{name.replace('-', '_')}", __name__).KIND for name in _NAMES}
KNOWN_EVENTS = {name for name, kind in KINDS.items() if kind.part} | {"selection"}


def form() -> dict[str, Any]:
    """Return the form of all events in the JSON Schema."""
    return {"type": "object", "required": ["type"], "oneOf": [kind.form(name) for name, kind in KINDS.items()]}


def simple_events(events: Iterable[Event], times: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield each simple event of a tree, and how often it runs (its own count or steps included).

    >>> laplace = {"type": "laplace", "noise_multiplier": 2.0, "count": 3}
    >>> [n for _, n in simple_events([{"type": "composed", "events": [laplace], "count": 5}])]
    [15]
    """
    for event in events:
        rounds = times * math.ceil(event.get("steps") or event.get("count") or event["mean_trials"])
        if event["type"] == "composed":
            yield from simple_events(event["events"], rounds)
        else:
            yield event, rounds


def failures(events: Iterable[Event]) -> Fraction:
    """Return the probability that any release fails, at most, exactly.

    >>> failing = {"type": "approximate", "epsilon": 0.1, "failure": 0.25, "count": 2}
    >>> float(failures([failing, {"type": "pure", "epsilon": 0.1, "count": 3}]))
    0.5
    """
    found = Fraction(0)
    for event, times in simple_events(events):
        kind = KINDS.get(event["type"])
        if kind is not None and kind.fails:
            found += times * Fraction(event[kind.fails])
    return found


def leaves(events: Iterable[Event]) -> Iterator[Event]:
    """Yield every simple event, a selection before the events of all its candidates.

    >>> [event["type"] for event in leaves([{"type": "pure", "epsilon": 0.1, "count": 3}])]
    ['pure']
    """
    for event, _ in simple_events(events):
        yield event
        for candidate in event.get("candidates", ()):
            yield from leaves(candidate)


def parts_of(events: list[Event]) -> tuple[float, list[Any]]:
    """Return the mu of all plain Gaussians together, and everything else.

    >>> parts_of([{"type": "gaussian", "noise_multiplier": 2.0, "count": 4}])
    (1.0, [])
    """
    steps: Counter[tuple[Any, ...]] = Counter()
    for event, times in simple_events(events):
        kind = KINDS.get(event["type"])
        if kind is None or kind.part is None:
            raise ValueError(event["type"])
        steps[kind.part(event)] += times
    parts = [key[0](*key[1:], count) for key, count in steps.items()]
    mu = math.hypot(*(math.sqrt(part.steps) * part.mu for part in parts if isinstance(part, Gaussian)))
    return mu, [part for part in parts if not isinstance(part, Gaussian)]
