"""What all events have in common: their fields are checked, written and read by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sfumato._validate import check_choice, check_int, check_real, fail

if TYPE_CHECKING:
    from sfumato.privacy._pairs import Pair

MOST = 2**53  # counts beyond it are not exact numbers in a file
SAMPLER = ("devroye1986nonuniform", "dwork2014algorithmic")
"""What is cited for noise that is rounded to a grid."""
_positive, _count = partial(check_real, low=0, open_low=True), partial(check_int, low=1, high=MOST)
_CHECKS: Mapping[str, Callable[..., Any]] = {
    "noise_multiplier": _positive,
    "epsilon": _positive,
    "rho": _positive,
    "failure": partial(check_real, low=0, high=1, open_low=True, open_high=True),
    "sampling_prob": partial(check_real, low=0, high=1, open_low=True),
    "count": _count,
    "steps": _count,
    "occurrences": _count,
    "num_outcomes": partial(check_int, low=2),
}
"""What a field of this name must be, in every event that has one."""


@dataclass(frozen=True)
class Event:
    """What one mechanism did: the fields of a frozen dataclass, its ``type`` in files, and all that is known of it.

    ``mechanism`` names it in tables, and ``citations`` are keys of ``report/references.bib``.
    """

    type: ClassVar[str]
    mechanism: ClassVar[str] = ""
    citations: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if "type" in vars(cls):
            KINDS[cls.type] = cls

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.name in _CHECKS:
                _CHECKS[one.name](**{one.name: getattr(self, one.name)})

    def pair(self) -> Pair | None:
        """Return the dominating pair of one release, with its proof; None if only Renyi divergences are known."""
        return None

    def pure(self) -> Fraction | None:
        """Return the exact epsilon of one release at delta 0; None unless a kind of event states one."""
        return None

    def fails(self) -> Fraction:
        """Return the probability that one release breaks what :meth:`pair` promises; it adds to delta."""
        return Fraction(0)

    def describe(self) -> str:
        """Say in plain words what one release is."""
        raise NotImplementedError

    def words(self) -> str:
        """Say in plain words what was done, and how often."""
        count = getattr(self, "count", 1)
        return self.describe() if count == 1 else f"{count} times: {self.describe()}"

    def repeats(self) -> int:
        """Return how many releases the event stands for."""
        return int(getattr(self, "count", 1))

    def flat(self) -> Iterator[tuple[Event, int]]:
        """Yield the simple events of this one, and how often the count of each is repeated."""
        yield self, 1

    def leaves(self) -> Iterator[Event]:
        """Yield the simple events of this one, those of candidates included."""
        yield self

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {"type": self.type, **{one.name: _plain(getattr(self, one.name)) for one in fields(self)}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read back the fields that :meth:`to_dict` wrote."""
        return cls(**values)


KINDS: dict[str, type[Event]] = {}
"""Every kind of event, by its type in files."""


def _plain(value: Any) -> Any:
    """Events, and tuples of them, as JSON writes them."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.to_dict() if isinstance(value, Event) else value


def shown(value: float) -> str:
    """Return a number as it is told in words."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sequence(name: str, given: Any) -> tuple[Event, ...]:
    """Return events as a tuple; refuse anything else."""
    try:
        found = tuple(given)
    except TypeError:
        raise fail(name, given, "to be a sequence of privacy events") from None
    for event in found:
        if not isinstance(event, Event):
            raise fail(name, event, "to hold privacy events only")
    return found


def flatten(events: Iterable[Event]) -> Iterator[tuple[Event, int]]:
    """Yield each simple event of a tree of events, with the number of times that its own count is repeated.

    Raises:
        InputError: the tree holds something that is not an event.

    >>> from sfumato.privacy.events import ComposedEvent, PureEvent
    >>> [(e.type, times) for e, times in flatten([ComposedEvent((PureEvent(0.1, 2),), count=3)])]
    [('pure', 3)]
    """
    for event in events:
        if not isinstance(event, Event):
            raise fail("events", event, "to hold privacy events only")
        yield from event.flat()


def leaves(events: Sequence[Event]) -> Iterator[Event]:
    """Yield every simple event of a tree, with those of all candidates of a selection.

    >>> from sfumato.privacy.events import GaussianEvent, PureEvent, SelectionEvent
    >>> [event.type for event in leaves([SelectionEvent(((GaussianEvent(5.0), PureEvent(0.1)),), "poisson", 10)])]
    ['gaussian', 'pure']
    """
    for event, _ in flatten(events):
        yield from event.leaves()


def failures(events: Iterable[Event]) -> Fraction:
    """Return the probability that any release of a tree of events fails, at most: failures add up.

    >>> from sfumato.privacy.events import ApproximateEvent, PureEvent
    >>> float(failures([ApproximateEvent(0.1, 0.25, count=2), PureEvent(0.1)]))
    0.5
    """
    return sum((times * event.repeats() * event.fails() for event, times in flatten(events)), Fraction(0))


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """Read back what :meth:`Event.to_dict` wrote.

    Raises:
        InputError: the type of an event is not known, or a value is outside its range.

    >>> event_from_dict({'type': 'gaussian', 'noise_multiplier': 2.0, 'count': 1})
    GaussianEvent(noise_multiplier=2.0, count=1)
    """
    fields = {key: value for key, value in values.items() if key != "type"}
    return KINDS[check_choice(tuple(KINDS), type=values.get("type"))].from_dict(fields)
