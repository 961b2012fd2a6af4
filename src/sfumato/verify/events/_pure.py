"""A mechanism of pure epsilon, which binary randomized response dominates. Part of the verifier."""

from __future__ import annotations

from .._losses import Symmetric
from ._kind import Kind

KIND = Kind({"epsilon": "positive", "count": "count"}, lambda event: (Symmetric, event["epsilon"], 2), pure=True)
