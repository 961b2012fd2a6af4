"""Mechanisms that are pure but for a small probability of failure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._bounded_losses import Bounded


@dataclass(frozen=True)
class ApproximateEvent(Event):
    r"""``count`` mechanisms, each pure of ``epsilon`` but on a set of outcomes of probability at most ``failure``.

    For any two neighboring data sets there is a set B of outcomes that each of them gives with probability at least 1 -
    failure, and on B the probabilities differ by factors of at most :math:`e^\epsilon`. Mechanisms that follow may rest on B:
    they need to keep their own promise only after an outcome of B. *Composition.* All outcomes within their sets B have the joint
    law of pure mechanisms; the rest has at most the sum of the failures. So failures add to delta, and the remainder is
    composed as mechanisms of pure epsilon.

    Raises:
        InputError: ``epsilon`` is not positive, ``failure`` is outside (0, 1), or ``count`` is not an integer from 1 to 2^53.

    >>> ApproximateEvent(epsilon=0.1, failure=1e-9).words()
    'a mechanism of pure epsilon 0.1, but for a failure of probability 1e-09'

    Source: Nissim, Raskhodnikova and Smith (2007), Smooth Sensitivity and Sampling; Karwa, Raskhodnikova, Smith and Yaroslavtsev
    (2011), Private Analysis of Graph Structure, section 4.
    """

    epsilon: float
    failure: float
    count: int = 1
    type: ClassVar[str] = "approximate"
    mechanism: ClassVar[str] = "discrete Laplace noise with a margin"
    citations: ClassVar[tuple[str, ...]] = ("karwa2011private",)

    def pair(self) -> Bounded:
        """Binary randomized response, which dominates what is pure; the failure is paid for beside it."""
        from sfumato.privacy._bounded_losses import randomized_response

        return randomized_response(self.epsilon)

    def fails(self) -> Fraction:
        """Return the probability that one release is not pure."""
        return Fraction(self.failure)

    def describe(self) -> str:
        return (
            f"a mechanism of pure epsilon {shown(self.epsilon)}, but for a failure of probability {shown(self.failure)}"
        )
