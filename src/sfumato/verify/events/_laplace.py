"""Laplace noise. Part of the verifier."""

from __future__ import annotations

from .._losses import Symmetric
from ._kind import Kind

KIND = Kind(
    {"noise_multiplier": "positive", "count": "count"},
    lambda event: (Symmetric, 1 / event["noise_multiplier"], 0),
    pure=True,
)
