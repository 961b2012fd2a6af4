"""The best of a random number of trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sfumato._validate import check_choice, check_real, fail
from sfumato.privacy.events._event import Event, event_from_dict, leaves, sequence, shown

RULES = ("logarithmic", "geometric", "poisson")
_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class SelectionEvent(Event):
    """The best of a random number of trials: each draws a candidate uniformly, runs it, and scores it.

    Only the output of the best trial leaves. :mod:`sfumato.privacy._selection` has the rules and the proof.

    Args:
        candidates: for each candidate, the events of one trial of it, those of its score included.
        rule: the law of the number of trials: ``logarithmic``, ``geometric`` or ``poisson``.
        mean_trials: the mean of that law, in (1, 10000].

    Raises:
        InputError: there is no candidate, a candidate holds something else than events, or the rule is not valid.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> event = SelectionEvent(((GaussianEvent(5.0),), (GaussianEvent(7.1, 2),)), "logarithmic", 10)
    >>> event.repeats(), event_from_dict(event.to_dict()) == event
    (10, True)
    """

    candidates: tuple[tuple[Event, ...], ...]
    rule: str
    mean_trials: float
    type: ClassVar[str] = "selection"
    citations: ClassVar[tuple[str, ...]] = ("papernot2022hyperparameter",)

    def __post_init__(self) -> None:
        try:
            given = tuple(self.candidates)
        except TypeError:
            raise fail("candidates", self.candidates, "to be a sequence of privacy events") from None
        object.__setattr__(self, "candidates", tuple(sequence("candidates", one) for one in given))
        if not self.candidates:
            raise fail("candidates", self.candidates, "to hold at least one candidate")
        if any(one.fails() for candidate in self.candidates for one in leaves(candidate)):
            raise fail(
                "candidates", self.candidates, "to hold no event that may fail", "Selections have no proof for it."
            )
        check_rule(self.rule, self.mean_trials)

    def describe(self) -> str:
        candidates = "; or ".join(", then ".join(one.words() for one in events) for events in self.candidates)
        return (
            f"the best of a secret number of trials ({self.rule}, {shown(self.mean_trials)} on average), each one of "
            f"{len(self.candidates)} candidates: {candidates}"
        )

    def repeats(self) -> int:
        return math.ceil(self.mean_trials)

    def leaves(self) -> Iterator[Event]:
        for candidate in self.candidates:
            yield from leaves(candidate)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "candidates": tuple(tuple(map(event_from_dict, one)) for one in values["candidates"])})


def check_rule(rule: str, mean_trials: float) -> None:
    """Refuse an unknown rule of selection, or a mean number of trials outside (1, 10000].

    Raises:
        InputError: the rule is not known, or the mean is outside its range.

    >>> check_rule("logarithmic", 10)
    """
    check_choice(RULES, rule=rule)
    remedy = "For a single trial, train without tuning."
    check_real(remedy, low=1, high=_MOST_TRIALS, open_low=True, mean_trials=mean_trials)
