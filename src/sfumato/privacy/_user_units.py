"""Privacy units of users who trust nobody: each user randomizes its own data before anyone sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sfumato._validate import fail
from sfumato.privacy._unit import EDGE_PUBLIC, Trust, Unit

_SPLIT = (0.50, 0.25, 0.25)  # users of the first two parts, training and validation, report a label


@dataclass(frozen=True)
class LocalLevel(Unit):
    """The unit is what a user keeps from everyone, even the server: the user's features, the label, or both.

    A field that is False is public. Ids, roles and links are public, and so is who reports a label.

    **Formal guarantee.** Relation replace: the values of one user become any others.

    Raises:
        InputError: nothing is kept; use :class:`~sfumato.privacy.units.NoPrivacy`.

    >>> LocalLevel(features=False).describe()
    "one user's label, from everyone, the server too"
    """

    features: bool = True
    labels: bool = True
    name: ClassVar[str] = "local"
    words: ClassVar[Mapping[str, str]] = {"local": "one user's features and label, from everyone, the server too"}
    trust: ClassVar[Trust] = "local"
    needs_schema: ClassVar[bool] = False
    budget: ClassVar[tuple[str, ...]] = ("epsilon_x", "epsilon_y")
    relation: ClassVar[str] = "replace"
    split: ClassVar[tuple[float, ...] | None] = _SPLIT

    def __post_init__(self) -> None:
        for name in ("features", "labels"):
            if not isinstance(getattr(self, name), bool):
                raise fail(name, getattr(self, name), "to be True (kept) or False (public)")
        if not (self.features or self.labels):
            raise fail("features", False, "to be True where labels is False", "For values in the clear use NoPrivacy.")

    @property
    def public(self) -> tuple[str, ...]:
        kept = {"features": self.features, "labels": self.labels}
        return tuple(name for name in (*EDGE_PUBLIC, "arcs") if not kept.get(name))

    def describe(self) -> str:
        kept = "features and label" if self.features and self.labels else "features" if self.features else "label"
        return f"one user's {kept}, from everyone, the server too"


@dataclass(frozen=True)
class LinkLevel(Unit):
    """The unit is one bit of one user's neighbor list, which the user keeps from everyone, even the server.

    Ids, roles, features and labels are public. Each of two linked users keeps a list, so their relationship is a bit of both
    lists.

    **Formal guarantee.** Relation replace: a single bit of a single list changes. At epsilon, a relationship that both
    ends report is protected at 2 epsilon, and lists that differ in k bits at k epsilon.

    >>> LinkLevel().describe().split("; ")[1]
    'a relationship that both ends report costs twice the epsilon'
    """

    name: ClassVar[str] = "link"
    words: ClassVar[Mapping[str, str]] = {"link": "one bit of one user's neighbor list, from everyone, the server too"}
    trust: ClassVar[Trust] = "link"
    needs_schema: ClassVar[bool] = False
    budget: ClassVar[tuple[str, ...]] = ("epsilon",)
    relation: ClassVar[str] = "replace"
    public: ClassVar[tuple[str, ...]] = EDGE_PUBLIC
    split: ClassVar[tuple[float, ...] | None] = _SPLIT

    def describe(self) -> str:
        return (
            "one bit of one user's neighbor list, from everyone, the server too; a relationship that both ends report costs "
            "twice the epsilon"
        )


@dataclass(frozen=True)
class ServersLevel(Unit):
    """The unit is one user's label, which is split between two servers that do not collude: neither sees it, nor anybody else.

    Ids, roles and links are public, and so is who reports a label. If both servers collude nothing is kept.

    **Formal guarantee.** Relation replace: the label of one user becomes any other.

    >>> ServersLevel().describe()
    "one user's label, from everyone, and from either of two servers that do not collude"
    """

    name: ClassVar[str] = "servers"
    words: ClassVar[Mapping[str, str]] = {
        "servers": "one user's label, from everyone, and from either of two servers that do not collude"
    }
    trust: ClassVar[Trust] = "servers"
    needs_schema: ClassVar[bool] = False
    budget: ClassVar[tuple[str, ...]] = ("epsilon_y",)
    relation: ClassVar[str] = "replace"
    public: ClassVar[tuple[str, ...]] = ("node_ids", "roles", "features", "arcs")
    split: ClassVar[tuple[float, ...] | None] = _SPLIT

    def describe(self) -> str:
        return self.words["servers"]
