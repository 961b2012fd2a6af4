"""Events one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sfumato.privacy.events._event import Event, event_from_dict, flatten, sequence


@dataclass(frozen=True)
class ComposedEvent(Event):
    """``count`` rounds of the same events, one after another; later ones may look at the answers of earlier ones.

    The events may be composed themselves, so that they form a tree. What each node of the tree *is* must be fixed before
    data; :mod:`sfumato.privacy._filters` is for parameters that are chosen on the way.

    Raises:
        InputError: ``events`` holds something else than events, or ``count`` is not an integer from 1 to 2^53.

    >>> from sfumato.privacy.events import GaussianEvent, PureEvent
    >>> len(list(flatten([ComposedEvent((GaussianEvent(2.0), PureEvent(0.1)), count=3)])))
    2
    """

    events: tuple[Event, ...]
    count: int = 1
    type: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", sequence("events", self.events))
        super().__post_init__()

    def describe(self) -> str:
        return "; then ".join(inner.words() for inner in self.events)

    def repeats(self) -> int:
        return self.count * sum(inner.repeats() for inner in self.events)

    def flat(self) -> Iterator[tuple[Event, int]]:
        for inner, times in flatten(self.events):
            yield inner, times * self.count

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "events": tuple(map(event_from_dict, values["events"]))})
