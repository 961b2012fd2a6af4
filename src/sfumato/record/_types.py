"""What a certificate says of types of edges: which of them are protected, and which are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

CAVEAT = (
    "A record is one edge of one type. Two nodes that edges of k protected types link are k records: each alone is protected at "
    "this epsilon, and all of them together at up to k times as much."
)
"""The caveat of a run that tells types of edges apart, and protects single edges."""


def suffix(unit: Unit, names: Sequence[str] | None, public: Sequence[str] | None) -> str:
    """Return what is added to the words of what a unit protects, by the types of edges and those that are public.

    >>> from sfumato.privacy.units import EdgeLevel, NodeLevel
    >>> suffix(EdgeLevel(False), ("friend", "call", "school"), ("school",))
    ', of one type (friend, call) while edges of other types are public (school)'
    >>> suffix(NodeLevel(), ("friend", "call"), None)
    ', of all types (friend, call)'
    """
    if not names or not unit.private:
        return ""
    if "labels" not in unit.public:
        return f", of all types ({', '.join(names)})"
    kept = [name for name in names if name not in (public or ())]
    told = f" while edges of other types are public ({', '.join(public)})" if public else ""
    return f", of one type ({', '.join(kept)}){told}"


def of_facts(unit: Unit, facts: Mapping[str, Any]) -> str:
    """Return the same from public facts in the form that certificates hold."""
    return suffix(unit, facts.get("edge_types"), facts.get("public_types"))
