"""Events as a certificate writes them: trees of mechanisms, and what they are for the accountant.

Part of the verifier: it needs the standard library, ``verify/_losses.py`` and ``verify/_repeated.py``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ._losses import Sampled, Symmetric
from ._repeated import Repeated

KNOWN_EVENTS = (
    "gaussian", "poisson-gaussian", "repeated-gaussian", "laplace", "randomized-response", "exponential", "pure", "selection",
)  # fmt: skip
_OUTCOMES = {"exponential": 1, "pure": 2}  # a pure mechanism is dominated by binary randomized response


def simple_events(events: Iterable[dict[str, Any]], times: int = 1) -> Iterator[tuple[dict[str, Any], int]]:
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


def leaves(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every simple event, a selection before the events of all its candidates.

    >>> [event["type"] for event in leaves([{"type": "pure", "epsilon": 0.1, "count": 3}])]
    ['pure']
    """
    for event, _ in simple_events(events):
        yield event
        for candidate in event.get("candidates", ()):
            yield from leaves(candidate)


def parts_of(events: list[dict[str, Any]]) -> tuple[float, list[Sampled | Repeated | Symmetric]]:
    """Return the mu of all plain Gaussians together, and everything else.

    >>> parts_of([{"type": "gaussian", "noise_multiplier": 2.0, "count": 4}])
    (1.0, [])
    """
    mu = 0.0
    steps: Counter[tuple[Any, ...]] = Counter()
    for event, times in simple_events(events):
        kind, replace = event["type"], event.get("relation") == "replace"
        if kind not in KNOWN_EVENTS or kind == "selection":
            raise ValueError(kind)
        terms = event.get("occurrences", 1)
        if kind == "gaussian" or event.get("sampling_prob") == 1:
            mu = math.hypot(mu, math.sqrt(times) * (1 + replace) * terms / event["noise_multiplier"])
        elif terms > 1:
            steps[Repeated, event["sampling_prob"], terms, event["noise_multiplier"], replace] += times
        elif "sampling_prob" in event:
            steps[Sampled, event["sampling_prob"], event["noise_multiplier"], replace] += times
        elif kind == "laplace":
            steps[Symmetric, 1 / event["noise_multiplier"], 0] += times
        else:
            steps[Symmetric, event["epsilon"], event.get("num_outcomes") or _OUTCOMES[kind]] += times
    return mu, [key[0](*key[1:], count) for key, count in steps.items()]
