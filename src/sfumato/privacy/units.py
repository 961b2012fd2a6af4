"""Privacy units: what one record is, and therefore what neighbouring data sets differ in.

A unit is a value that travels: every sensitivity in :mod:`sfumato.bounded` is a function of it, and an
operation without a proof for a unit raises. ``public`` names what may be read freely under the unit
(table in DESIGN section 5); everything else is protected.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Literal

from sfumato._validate import check_choice, check_int, fail

_EDGE_PUBLIC = ("node_ids", "roles", "features", "labels")
_NODE_PUBLIC = ("node_ids", "roles")
_LOCAL_SPLIT = (0.50, 0.25, 0.25)  # train, val, test where a graph has no roles: users of the first two report


@dataclass(frozen=True)
class NoPrivacy:
    """No guarantee: everything is read in the clear. For ceilings and debugging.

    >>> NoPrivacy().describe()
    'nothing: this run carries no privacy guarantee'
    """

    name: ClassVar[str] = "none"
    relation: ClassVar[str] = "none"
    public: ClassVar[tuple[str, ...]] = (*_EDGE_PUBLIC, "arcs")

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "nothing: this run carries no privacy guarantee"


@dataclass(frozen=True)
class EdgeLevel:
    """One edge: neighbouring graphs differ in one arc (``directed``) or one undirected edge, that is two arcs.

    **Formal guarantee.** Relation add/remove. Node ids, roles, features and labels are public.

    >>> EdgeLevel(directed=False).arcs_per_record
    2
    """

    directed: bool
    name: ClassVar[str] = "edge"
    relation: ClassVar[str] = "add-remove"
    public: ClassVar[tuple[str, ...]] = _EDGE_PUBLIC

    def __post_init__(self) -> None:
        if not isinstance(self.directed, bool):
            raise fail("directed", self.directed, "to be True (one arc) or False (one undirected edge)")

    @property
    def arcs_per_record(self) -> int:
        """How many arcs one record holds."""
        return 1 if self.directed else 2

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "the presence of any one directed arc" if self.directed else "the presence of any one undirected edge"


@dataclass(frozen=True)
class NodeLevel:
    """One node's record: its features, its label and arcs; neighbouring graphs differ in one record being emptied.

    ``arcs="owned"``: the record holds the out-arcs the node owns, capped at ``max_out_degree``; arcs that others
    own and that point at it stay. ``arcs="incident"``: every arc in or out goes with it (no bounded hop exists).
    ``relation="remove"`` empties a record, ``"replace"`` exchanges it for another.

    **Formal guarantee.** Node ids and roles are public; features, labels and arcs are protected.

    >>> NodeLevel(max_out_degree=100).describe()
    'any one node: its features, its label and the (at most 100) out-arcs it owns'
    """

    max_out_degree: int | None = None
    arcs: Literal["owned", "incident"] = "owned"
    relation: Literal["remove", "replace"] = "remove"
    name: ClassVar[str] = "node"
    public: ClassVar[tuple[str, ...]] = _NODE_PUBLIC

    def __post_init__(self) -> None:
        check_choice(("owned", "incident"), arcs=self.arcs)
        check_choice(("remove", "replace"), relation=self.relation)
        if self.max_out_degree is not None:
            check_int(low=1, max_out_degree=self.max_out_degree)

    def describe(self) -> str:
        """Say in plain words what is protected."""
        if self.arcs == "incident":
            return "any one node: its features, its label and every arc in or out of it"
        cap = f"(at most {self.max_out_degree}) " if self.max_out_degree is not None else ""
        return f"any one node: its features, its label and the {cap}out-arcs it owns"


@dataclass(frozen=True)
class RecordLevel:
    """One row of a table without links.

    >>> RecordLevel().relation
    'add-remove'
    """

    relation: Literal["add-remove", "replace"] = "add-remove"
    name: ClassVar[str] = "record"
    public: ClassVar[tuple[str, ...]] = _NODE_PUBLIC

    def __post_init__(self) -> None:
        check_choice(("add-remove", "replace"), relation=self.relation)

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "any one record"


@dataclass(frozen=True)
class LocalLevel:
    """What one user keeps from everyone, the server too: neighbours differ in one user's features, label, or both.

    A field that is False is public. Ids, roles and links are public, and so is who reports a label.

    **Formal guarantee.** Relation replace: one user's values become any others.

    Raises:
        InputError: nothing is kept; use :class:`NoPrivacy`.

    >>> LocalLevel(features=False).describe()
    "one user's label, from everyone, the server too"
    """

    features: bool = True
    labels: bool = True
    name: ClassVar[str] = "local"
    relation: ClassVar[str] = "replace"
    split: ClassVar[tuple[float, ...]] = _LOCAL_SPLIT

    def __post_init__(self) -> None:
        for name in ("features", "labels"):
            if not isinstance(getattr(self, name), bool):
                raise fail(name, getattr(self, name), "to be True (kept) or False (public)")
        if not (self.features or self.labels):
            raise fail("features", False, "to be True where labels is False", "For values in the clear use NoPrivacy.")

    @property
    def public(self) -> tuple[str, ...]:
        """What may be read freely."""
        kept = {"features": self.features, "labels": self.labels}
        return tuple(name for name in NoPrivacy.public if not kept.get(name))

    def describe(self) -> str:
        """Say in plain words what is protected."""
        kept = "features and label" if self.features and self.labels else "features" if self.features else "label"
        return f"one user's {kept}, from everyone, the server too"


@dataclass(frozen=True)
class LinkLevel:
    """What one user keeps of its links from everyone, the server too: neighbors differ in one bit of one neighbor list.

    Ids, roles, features and labels are public. Each of two linked users keeps a list of its own, so their relationship
    is a bit of either list.

    **Formal guarantee.** Relation replace: one bit of one list is the other one. At epsilon, a relationship that both
    ends report is protected at 2 epsilon, and lists that differ in k bits at k epsilon.

    >>> LinkLevel().describe().split("; ")[1]
    'a relationship that both ends report costs twice the epsilon'
    """

    name: ClassVar[str] = "link"
    relation: ClassVar[str] = "replace"
    public: ClassVar[tuple[str, ...]] = _EDGE_PUBLIC
    split: ClassVar[tuple[float, ...]] = _LOCAL_SPLIT

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return (
            "one bit of one user's neighbor list, from everyone, the server too; a relationship that both ends report costs "
            "twice the epsilon"
        )


Unit = NoPrivacy | EdgeLevel | NodeLevel | RecordLevel | LocalLevel | LinkLevel
_BY_NAME: dict[str, type] = {
    cls.name: cls for cls in (NoPrivacy, EdgeLevel, NodeLevel, RecordLevel, LocalLevel, LinkLevel)
}

WORDS = ("none", "arc", "edge", "node", "record", "local", "link")
LOCAL_UNITS = (LocalLevel, LinkLevel)
"""Units of users who trust nobody."""


def unit_named(word: str, directed: bool, max_degree: int | None) -> Unit:
    """A unit by its command-line word, for a graph of declared direction.

    >>> unit_named("edge", False, None)
    EdgeLevel(directed=False)
    """
    units: dict[str, Unit] = {
        "none": NoPrivacy(),
        "arc": EdgeLevel(directed=True),
        "edge": EdgeLevel(directed=directed),
        "node": NodeLevel(max_out_degree=max_degree),
        "record": RecordLevel(),
        "local": LocalLevel(),
        "link": LinkLevel(),
    }
    return units[check_choice(WORDS, unit=word)]


def unit_to_dict(unit: Unit) -> dict[str, Any]:
    """Write a unit as JSON-ready values, the form that certificates hold.

    >>> unit_to_dict(EdgeLevel(directed=True))
    {'name': 'edge', 'relation': 'add-remove', 'directed': True}
    """
    return {"name": unit.name, "relation": unit.relation, **asdict(unit)}


def unit_from_dict(values: dict[str, Any]) -> Unit:
    """Read back what :func:`unit_to_dict` wrote.

    >>> unit_from_dict({'name': 'edge', 'relation': 'add-remove', 'directed': True})
    EdgeLevel(directed=True)
    """
    fields = {key: value for key, value in values.items() if key != "name"}
    cls = _BY_NAME[check_choice(tuple(_BY_NAME), unit=values.get("name"))]
    if "relation" not in {field.name for field in dataclass_fields(cls)}:
        fields.pop("relation", None)
    return cls(**fields)
