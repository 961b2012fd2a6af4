"""A mechanism of pure epsilon but for outcomes of a small probability, which adds to delta. Part of the verifier."""

from __future__ import annotations

from .._losses import Symmetric
from ._kind import Kind

KIND = Kind(
    {"epsilon": "positive", "failure": "rate", "count": "count"},
    lambda event: (Symmetric, event["epsilon"], 2),
    fails="failure",
)
