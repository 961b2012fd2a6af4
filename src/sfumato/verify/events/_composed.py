"""A tree of events. Part of the verifier."""

from __future__ import annotations

from ._kind import Kind

KIND = Kind({"events": {"type": "array", "items": {"$ref": "#/$defs/event"}}, "count": "count"})
