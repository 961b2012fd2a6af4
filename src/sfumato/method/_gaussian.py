"""Gaussian releases of a plan: their parts of a budget, and their noise multipliers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy.events import GaussianEvent

if TYPE_CHECKING:
    from sfumato.method.contract import Planned


def part_of(part: float, noise_multiplier: float) -> GaussianEvent:
    """Return one Gaussian release with a part of the mu^2 of another."""
    return GaussianEvent(float(noise_multiplier / np.sqrt(part)))


def multiplier_of(plan: Planned, name: str) -> float:
    return plan.event_of(GaussianEvent, name).noise_multiplier
