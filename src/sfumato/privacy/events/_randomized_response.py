"""Randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._bounded_losses import Bounded


@dataclass(frozen=True)
class RandomizedResponseEvent(Event):
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
    mechanism: ClassVar[str] = "randomized response of every pair"
    citations: ClassVar[tuple[str, ...]] = ("kairouz2016extremal",)

    def pair(self) -> Bounded:
        """Truth against another true value."""
        from sfumato.privacy._bounded_losses import randomized_response

        return randomized_response(self.epsilon, int(self.num_outcomes))

    def pure(self) -> Fraction:
        return Fraction(self.epsilon)

    def describe(self) -> str:
        return f"randomized response over {self.num_outcomes} values, epsilon {shown(self.epsilon)}"
