"""Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import SAMPLER, Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._bounded_losses import Bounded


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """``count`` Laplace releases with the same noise multiplier (scale b / L1 sensitivity): each 1 / multiplier pure DP.

    A vector release is dominated by the release of a single coordinate that moves by the whole L1 sensitivity. Proof:
    exchanging coordinates one after another is a chain whose trade-off functions compose to that of the summed shift,
    because likelihood ratios of a log-concave location family are monotone.

    Raises:
        InputError: ``noise_multiplier`` is not positive, or ``count`` is not an integer from 1 to 2^53.

    >>> LaplaceEvent(noise_multiplier=2.0).count
    1
    """

    noise_multiplier: float
    count: int = 1
    type: ClassVar[str] = "laplace"
    mechanism: ClassVar[str] = "Laplace noise"
    citations: ClassVar[tuple[str, ...]] = ("dwork2006calibrating", *SAMPLER)

    def pair(self) -> Bounded:
        """Laplace laws of scale z a distance 1 apart: P(L <= l) = e^((l - 1/z) / 2) / 2 for -1/z <= l < 1/z."""
        from sfumato.noise.exact import round_up
        from sfumato.privacy._bounded_losses import Bounded

        top = round_up(self.pure())
        return Bounded(top, ((top, 0.5), (-top, math.exp(-top) / 2)), 0.5)

    def pure(self) -> Fraction:
        return 1 / Fraction(self.noise_multiplier)

    def describe(self) -> str:
        return f"Laplace noise, scale {shown(self.noise_multiplier)} times the L1 sensitivity"
