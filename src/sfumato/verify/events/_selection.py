"""The best of a random number of trials, which Renyi divergences bound. Part of the verifier."""

from __future__ import annotations

from ._kind import Kind

_TRIALS = {"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/event"}}}
_MEAN = {"title": "a number in (1, 10000]", "type": "number", "exclusiveMinimum": 1, "maximum": 10000}
KIND = Kind({"candidates": _TRIALS, "rule": {"enum": ["logarithmic", "geometric", "poisson"]}, "mean_trials": _MEAN})
