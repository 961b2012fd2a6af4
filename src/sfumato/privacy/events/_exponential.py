"""The exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._bounded_losses import Bounded


@dataclass(frozen=True)
class ExponentialEvent(Event):
    """``count`` draws of the exponential mechanism, each ``epsilon`` pure DP *and* of bounded range ``epsilon``.

    A draw takes candidate r with probability proportional to exp(epsilon u(r) / (2 Delta)), where Delta is the sensitivity
    of the utility u. (The 2 is not needed where all utilities move the same way.) One-shot Gumbel top-k is ``count = k``
    (Durfee and Rogers 2019, lemma 4.2): it adds Gumbel noise of scale 2 Delta / epsilon to every utility and releases the
    k largest in order.

    Raises:
        InputError: ``epsilon`` is not positive, or ``count`` is not an integer from 1 to 2^53.

    >>> ExponentialEvent(epsilon=0.5, count=10).count
    10
    """

    epsilon: float
    count: int = 1
    type: ClassVar[str] = "exponential"
    citations: ClassVar[tuple[str, ...]] = ("mcsherry2007mechanism", "durfee2019practical")

    def pair(self) -> Bounded:
        """A mechanism of bounded range: its loss lies in [t - epsilon, t] for some t in [0, epsilon].

        Such a pair is dominated by the two-point one of that t, with the hockey-stick divergence at order a
        (1 - e^(t - epsilon)) (1 - e^(a - t)) / (1 - e^-epsilon). Its largest value, at t = (epsilon + a) / 2, is
        (1 - e^((a - epsilon) / 2))^2 / (1 - e^-epsilon) (Dong, Durfee and Rogers 2020): convex in e^a, hence the
        divergence of one pair (Zhu, Dong and Wang 2022), with P(L > a) = (1 - e^((a - epsilon) / 2)) / (1 - e^-epsilon).

        Renyi: log E_Q e^(sL) is 0 at s = 0 and s = 1, and its second derivative, a variance over a range of epsilon, is at
        most epsilon^2 / 4; so it is at most s (s - 1) epsilon^2 / 8, and rho = epsilon^2 / 8 (Cesar and Rogers 2021).
        """
        from sfumato.privacy._bounded_losses import Bounded

        return Bounded(self.epsilon, (), -1 / math.expm1(-self.epsilon), self.epsilon * self.epsilon / 8)

    def pure(self) -> Fraction:
        return Fraction(self.epsilon)

    def describe(self) -> str:
        return f"exponential mechanism, epsilon {shown(self.epsilon)}"
