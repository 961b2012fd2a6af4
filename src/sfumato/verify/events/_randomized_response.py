"""Randomized response. Part of the verifier."""

from __future__ import annotations

from .._losses import Symmetric
from ._kind import Kind

_OUTCOMES = {"title": "an integer >= 2", "type": "integer", "minimum": 2, "maximum": 2**53}
KIND = Kind(
    {"epsilon": "positive", "num_outcomes": _OUTCOMES, "count": "count"},
    lambda event: (Symmetric, event["epsilon"], event["num_outcomes"]),
    pure=True,
)
