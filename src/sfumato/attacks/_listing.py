"""The listing names every attack on a fitted model for the command line; an attack is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.attacks._attack import Attack

_HOMES = {
    "membership": "membership:ShadowMembership",
    "membership-lira": "ratios:LiRA",
    "membership-rmia": "ratios:RMIA",
    "membership-confidence": "membership:Confidence",
    "links": "links:Links",
    "links-influence": "influence:Influence",
    "degree": "degree:Degree",
    "attributes": "attributes:Attributes",
    "graph": "graphs:WholeGraph",
}


class _Classes(Mapping[str, "type[Attack]"]):
    """The class of each attack, imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Attack]:
        module, _, attack = _HOMES[name].partition(":")
        found: type[Attack] = getattr(import_module(f"sfumato.attacks._{module}"), attack)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


ATTACKS: Mapping[str, type[Attack]] = _Classes()
