"""What the verifier knows of a kind of event. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """The rules of a kind of event.

    ``fields`` are those beside the type: their definitions in the JSON Schema, by name or written out. ``part`` is what one
    release is for the accountant: a class and its arguments but for the number of releases; None for a tree or a choice of
    events, or for what cannot be verified here. ``pure`` events cost an epsilon without any delta, so that costs may be summed.
    ``fails`` names the field with the probability that one release is not what ``part`` says, which adds to delta.
    """

    fields: Mapping[str, str | dict[str, Any]]
    part: Callable[[Event], tuple[Any, ...]] | None = None
    pure: bool = False
    fails: str = ""

    def form(self, name: str) -> dict[str, Any]:
        fields = {key: {"$ref": f"#/$defs/{one}"} if isinstance(one, str) else one for key, one in self.fields.items()}
        return {
            "type": "object",
            "additionalProperties": False,
            "required": ["type", *fields],
            "properties": {"type": {"const": name}, **fields},
        }
