"""Mechanisms of which a zero-concentrated rho is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.privacy.events._event import Event, shown


@dataclass(frozen=True)
class ZCDPEvent(Event):
    """``count`` mechanisms, each ``rho`` zero-concentrated DP: Renyi divergence at most rho alpha at every order alpha.

    A vector of discrete Gaussians of integer sensitivity Delta and parameter sigma has rho = Delta^2 / (2 sigma^2)
    (Canonne, Kamath and Steinke 2020, theorem 4). It has no closed form in (epsilon, delta).

    Raises:
        InputError: ``rho`` is not positive, or ``count`` is not an integer from 1 to 2^53.

    >>> ZCDPEvent(rho=0.5).rho
    0.5
    """

    rho: float
    count: int = 1
    type: ClassVar[str] = "zcdp"
    citations: ClassVar[tuple[str, ...]] = ("bun2016concentrated", "canonne2020discrete")

    def describe(self) -> str:
        return f"a mechanism of zero-concentrated rho {shown(self.rho)}"
