"""Mechanisms of which nothing but a pure epsilon is known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._bounded_losses import Bounded


@dataclass(frozen=True)
class PureEvent(Event):
    """``count`` mechanisms, each ``epsilon`` pure DP and otherwise unknown.

    Raises:
        InputError: ``epsilon`` is not positive, or ``count`` is not an integer from 1 to 2^53.

    >>> PureEvent(epsilon=0.1).epsilon
    0.1
    """

    epsilon: float
    count: int = 1
    type: ClassVar[str] = "pure"
    mechanism: ClassVar[str] = "discrete Laplace noise"

    def pair(self) -> Bounded:
        """Binary randomized response, which dominates every mechanism of this epsilon."""
        from sfumato.privacy._bounded_losses import randomized_response

        return randomized_response(self.epsilon)

    def pure(self) -> Fraction:
        return Fraction(self.epsilon)

    def describe(self) -> str:
        return f"a mechanism of pure epsilon {shown(self.epsilon)}"
