"""Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.privacy.events._event import SAMPLER, Event, shown

if TYPE_CHECKING:
    from sfumato.privacy._pairs import Pair


@dataclass(frozen=True)
class GaussianEvent(Event):
    """``count`` Gaussian releases with the same noise multiplier (standard deviation / L2 sensitivity).

    Raises:
        InputError: ``noise_multiplier`` is not positive, or ``count`` is not an integer from 1 to 2^53.

    >>> GaussianEvent(noise_multiplier=2.0, count=3).count
    3
    """

    noise_multiplier: float
    count: int = 1
    type: ClassVar[str] = "gaussian"
    mechanism: ClassVar[str] = "Gaussian noise"
    citations: ClassVar[tuple[str, ...]] = SAMPLER

    def pair(self) -> Pair:
        """A Gaussian that moved by one over the noise multiplier of its deviations."""
        from sfumato.privacy._pairs import Revealed

        return Revealed(1 / self.noise_multiplier)

    def describe(self) -> str:
        return f"Gaussian noise, standard deviation {shown(self.noise_multiplier)} times the L2 sensitivity"
