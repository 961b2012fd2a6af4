"""The exponential mechanism: losses in an interval of length epsilon. Part of the verifier."""

from __future__ import annotations

from .._losses import Symmetric
from ._kind import Kind

KIND = Kind({"epsilon": "positive", "count": "count"}, lambda event: (Symmetric, event["epsilon"], 1), pure=True)
