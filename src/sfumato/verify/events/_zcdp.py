"""A mechanism of which a zero-concentrated rho is known: it cannot be verified here. Part of the verifier."""

from __future__ import annotations

from ._kind import Kind

KIND = Kind({"rho": "positive", "count": "count"})
