"""Privacy events: what a mechanism did, as data; :mod:`sfumato.privacy.accounting` analyses them.

An event holds everything that accounting needs and nothing else. The meaning of a class never changes: new behavior gets a
new class. A noise multiplier is noise scale over sensitivity *under the event's own relation*. So the relation is part of
the event, and no accountant doubles the sensitivity again. Only if an event has a field ``relation`` is the factor 2 of a
replaced record in the relation, not in the multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from sfumato._validate import check_choice, check_int, check_real, fail

RULES = ("logarithmic", "geometric", "poisson")
_RELATIONS = ("add-remove", "replace")
MOST = 2**53  # counts beyond it are not exact numbers in a file
_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class GaussianEvent:
    """``count`` Gaussian releases with the same noise multiplier (standard deviation / L2 sensitivity).

    Raises:
        InputError: ``noise_multiplier`` is not positive, or ``count`` is not a whole number from 1 to 2^53.

    >>> GaussianEvent(noise_multiplier=2.0, count=3).count
    3
    """

    noise_multiplier: float
    count: int = 1
    type: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class PoissonGaussianEvent:
    """``steps`` Gaussian releases, each on a Poisson sample that holds a record with ``sampling_prob``.

    ``relation="add-remove"``: a record contributes a vector of norm at most C or nothing. ``"replace"``: it
    contributes one of two vectors of norm at most C. ``noise_multiplier`` is standard deviation / C in both cases.

    Raises:
        InputError: a value is outside its range, or the relation is not known.

    >>> PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000).relation
    'add-remove'
    """

    sampling_prob: float
    noise_multiplier: float
    steps: int
    relation: str = "add-remove"
    type: ClassVar[str] = "poisson-gaussian"

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, sampling_prob=self.sampling_prob)
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, high=MOST, steps=self.steps)
        check_choice(_RELATIONS, relation=self.relation)


@dataclass(frozen=True)
class RepeatedGaussianEvent:
    """``steps`` Gaussian releases on Poisson samples of *terms*, where a record reaches at most ``occurrences`` terms.

    Each term has norm at most C and is drawn by its own coin with ``sampling_prob``. So k ~ Binomial(occurrences,
    sampling_prob) terms of a record enter a release. ``noise_multiplier`` z is standard deviation / C.

    * ``relation="add-remove"``: the terms vanish. The pair is sum_k P(k) N(k, z^2) against N(0, z^2).
    * ``relation="replace"``: each term is exchanged for another of norm at most C. The pair (k, N(2 k, z^2)) against
      (k, N(0, z^2)), with k revealed, dominates.

    Raises:
        InputError: a value is outside its range, or the relation is not known.

    >>> RepeatedGaussianEvent(sampling_prob=0.01, occurrences=11, noise_multiplier=4.0, steps=100).occurrences
    11
    """

    sampling_prob: float
    occurrences: int
    noise_multiplier: float
    steps: int
    relation: str = "add-remove"
    type: ClassVar[str] = "repeated-gaussian"

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, sampling_prob=self.sampling_prob)
        check_int(low=1, high=MOST, occurrences=self.occurrences)
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, high=MOST, steps=self.steps)
        check_choice(_RELATIONS, relation=self.relation)


@dataclass(frozen=True)
class LaplaceEvent:
    """``count`` Laplace releases with the same noise multiplier (scale b / L1 sensitivity): each 1 / multiplier pure DP.

    A vector release is dominated by the release of a single coordinate that moves by the whole L1 sensitivity. Proof:
    exchanging coordinates one after another is a chain whose trade-off functions compose to that of the summed shift,
    because likelihood ratios of a log-concave location family are monotone.

    Raises:
        InputError: ``noise_multiplier`` is not positive, or ``count`` is not a whole number from 1 to 2^53.

    >>> LaplaceEvent(noise_multiplier=2.0).count
    1
    """

    noise_multiplier: float
    count: int = 1
    type: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class RandomizedResponseEvent:
    """``count`` reports by randomized response over ``num_outcomes`` values, each ``epsilon`` pure DP under replace.

    The true value is sent with probability e^epsilon / (e^epsilon + num_outcomes - 1), and all others equally often.

    Raises:
        InputError: a value is outside its range; there are at least two outcomes.

    >>> RandomizedResponseEvent(epsilon=1.0, num_outcomes=4).num_outcomes
    4
    """

    epsilon: float
    num_outcomes: int = 2
    count: int = 1
    type: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, epsilon=self.epsilon)
        check_int(low=2, num_outcomes=self.num_outcomes)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class ExponentialEvent:
    """``count`` draws of the exponential mechanism, each ``epsilon`` pure DP *and* of bounded range ``epsilon``.

    A draw takes candidate r with probability proportional to exp(epsilon u(r) / (2 Delta)), where Delta is the sensitivity
    of the utility u. (The 2 is not needed where all utilities move the same way.) One-shot Gumbel top-k is ``count = k``
    (Durfee and Rogers 2019, lemma 4.2): it adds Gumbel noise of scale 2 Delta / epsilon to every utility and releases the
    k largest in order.

    Raises:
        InputError: ``epsilon`` is not positive, or ``count`` is not a whole number from 1 to 2^53.

    >>> ExponentialEvent(epsilon=0.5, count=10).count
    10
    """

    epsilon: float
    count: int = 1
    type: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, epsilon=self.epsilon)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class PureEvent:
    """``count`` mechanisms, each ``epsilon`` pure DP and otherwise unknown.

    Raises:
        InputError: ``epsilon`` is not positive, or ``count`` is not a whole number from 1 to 2^53.

    >>> PureEvent(epsilon=0.1).epsilon
    0.1
    """

    epsilon: float
    count: int = 1
    type: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, epsilon=self.epsilon)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class ZCDPEvent:
    """``count`` mechanisms, each ``rho`` zero-concentrated DP: Renyi divergence at most rho alpha at every order alpha.

    A vector of discrete Gaussians of integer sensitivity Delta and parameter sigma has rho = Delta^2 / (2 sigma^2)
    (Canonne, Kamath and Steinke 2020, theorem 4). It has no closed form in (epsilon, delta).

    Raises:
        InputError: ``rho`` is not positive, or ``count`` is not a whole number from 1 to 2^53.

    >>> ZCDPEvent(rho=0.5).rho
    0.5
    """

    rho: float
    count: int = 1
    type: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, rho=self.rho)
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class ComposedEvent:
    """``count`` rounds of the same events, one after another; later ones may look at the answers of earlier ones.

    The events may be composed themselves, so that they form a tree. What each node of the tree *is* must be fixed before
    data; :mod:`sfumato.privacy.filters` is for parameters that are chosen on the way.

    Raises:
        InputError: ``events`` holds something else than events, or ``count`` is not a whole number from 1 to 2^53.

    >>> len(list(flatten([ComposedEvent((GaussianEvent(2.0), PureEvent(0.1)), count=3)])))
    2
    """

    events: tuple[Event, ...]
    count: int = 1
    type: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", _sequence("events", self.events))
        for event in self.events:
            if not isinstance(event, EVENTS):
                raise fail("events", event, "to hold privacy events only")
        check_int(low=1, high=MOST, count=self.count)


@dataclass(frozen=True)
class SelectionEvent:
    """The best of a random number of trials: each draws a candidate uniformly, runs it, and scores it.

    Only the output of the best trial leaves. :mod:`sfumato.privacy.selection` has the rules and the proof.

    Args:
        candidates: for each candidate, the events of one trial of it, those of its score included.
        rule: the law of the number of trials: ``logarithmic``, ``geometric`` or ``poisson``.
        mean_trials: the mean of that law, in (1, 10000].

    Raises:
        InputError: there is no candidate, a candidate holds something else than events, or the rule is not valid.

    >>> event = SelectionEvent(((GaussianEvent(5.0),), (GaussianEvent(7.1, 2),)), "logarithmic", 10)
    >>> repeats(event), event_from_dict(event_to_dict(event)) == event
    (10, True)
    """

    candidates: tuple[tuple[Event, ...], ...]
    rule: str
    mean_trials: float
    type: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        listed = tuple(_sequence("candidates", one) for one in _sequence("candidates", self.candidates))
        object.__setattr__(self, "candidates", listed)
        if not self.candidates:
            raise fail("candidates", self.candidates, "to hold at least one candidate")
        for events in self.candidates:
            for event in events:
                if not isinstance(event, EVENTS):
                    raise fail("candidates", event, "to hold tuples of privacy events only")
        check_rule(self.rule, self.mean_trials)


Event = (
    GaussianEvent
    | PoissonGaussianEvent
    | RepeatedGaussianEvent
    | LaplaceEvent
    | RandomizedResponseEvent
    | ExponentialEvent
    | PureEvent
    | ZCDPEvent
    | ComposedEvent
    | SelectionEvent
)
EVENTS: tuple[type, ...] = Event.__args__
_BY_TYPE: dict[str, Any] = {cls.type: cls for cls in Event.__args__}


def _sequence(name: str, given: Any) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except TypeError:
        raise fail(name, given, "to be a sequence of privacy events") from None


def check_rule(rule: str, mean_trials: float) -> None:
    """Refuse an unknown rule of selection, or a mean number of trials outside (1, 10000].

    Raises:
        InputError: the rule is not known, or the mean is outside its range.

    >>> check_rule("logarithmic", 10)
    """
    check_choice(RULES, rule=rule)
    remedy = "For a single trial, train without tuning."
    check_real(remedy, low=1, high=_MOST_TRIALS, open_low=True, mean_trials=mean_trials)


def flatten(events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """Yield each simple event of a tree of events, with the number of times that its own count is repeated.

    Raises:
        InputError: the tree holds something that is not an event.

    >>> [(e.type, times) for e, times in flatten([ComposedEvent((PureEvent(0.1, 2),), count=3)])]
    [('pure', 3)]
    """
    for event in events:
        if isinstance(event, ComposedEvent):
            for inner, times in flatten(event.events):
                yield inner, times * event.count
        elif isinstance(event, EVENTS):
            yield event, 1
        else:
            raise fail("events", event, "to hold privacy events only")


def leaves(events: Sequence[Event]) -> Iterator[Event]:
    """Yield every simple event of a tree, with those of all candidates of a selection.

    >>> [event.type for event in leaves([SelectionEvent(((GaussianEvent(5.0), PureEvent(0.1)),), "poisson", 10)])]
    ['gaussian', 'pure']
    """
    for event, _ in flatten(events):
        if isinstance(event, SelectionEvent):
            for candidate in event.candidates:
                yield from leaves(candidate)
        else:
            yield event


def repeats(event: Event) -> int:
    """Return how many releases an event stands for; for a selection, the mean number of trials, rounded up.

    >>> repeats(PoissonGaussianEvent(0.01, 4.0, steps=100)), repeats(GaussianEvent(2.0, count=3))
    (100, 3)
    """
    if isinstance(event, (PoissonGaussianEvent, RepeatedGaussianEvent)):
        return event.steps
    if isinstance(event, ComposedEvent):
        return event.count * sum(repeats(inner) for inner in event.events)
    if isinstance(event, SelectionEvent):
        return math.ceil(event.mean_trials)
    return event.count


def event_to_dict(event: Event) -> dict[str, Any]:
    """Write an event as JSON-ready values.

    >>> event_to_dict(GaussianEvent(2.0))
    {'type': 'gaussian', 'noise_multiplier': 2.0, 'count': 1}
    """
    if isinstance(event, ComposedEvent):
        return {"type": event.type, "events": [event_to_dict(inner) for inner in event.events], "count": event.count}
    if isinstance(event, SelectionEvent):
        candidates = [[event_to_dict(inner) for inner in events] for events in event.candidates]
        return {"type": event.type, "candidates": candidates, "rule": event.rule, "mean_trials": event.mean_trials}
    return {"type": event.type, **asdict(event)}


def event_from_dict(values: dict[str, Any]) -> Event:
    """Read back what :func:`event_to_dict` wrote.

    Raises:
        InputError: the type of an event is not known, or a value is outside its range.

    >>> event_from_dict({'type': 'gaussian', 'noise_multiplier': 2.0, 'count': 1})
    GaussianEvent(noise_multiplier=2.0, count=1)
    """
    fields = {key: value for key, value in values.items() if key != "type"}
    if "events" in fields:
        fields["events"] = tuple(event_from_dict(inner) for inner in fields["events"])
    if "candidates" in fields:
        fields["candidates"] = tuple(tuple(map(event_from_dict, events)) for events in fields["candidates"])
    made: Event = _BY_TYPE[check_choice(tuple(_BY_TYPE), type=values.get("type"))](**fields)
    return made
