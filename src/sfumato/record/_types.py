"""What a certificate says of types of edges: which of them are protected, and which are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CAVEAT = (
    "A record is one edge of one type. Two nodes that edges of k protected types link are k records: each alone is protected at "
    "this epsilon, and all of them together at up to k times as much."
)
"""The caveat of a run that tells types of edges apart."""


def suffix(names: Sequence[str] | None, public: Sequence[str] | None) -> str:
    """Return what is added to the words of what is protected, by the types of edges and those that are public.

    >>> suffix(("friend", "call", "school"), ("school",))
    ', of one type (friend, call) while edges of other types are public (school)'
    """
    if not names:
        return ""
    kept = [name for name in names if name not in (public or ())]
    told = f" while edges of other types are public ({', '.join(public)})" if public else ""
    return f", of one type ({', '.join(kept)}){told}"


def of_facts(facts: Mapping[str, Any]) -> str:
    """Return the same from public facts in the form that certificates hold."""
    return suffix(facts.get("edge_types"), facts.get("public_types"))
