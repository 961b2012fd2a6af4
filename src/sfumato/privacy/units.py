"""Privacy units: what one record is, and therefore what neighbouring data sets differ in.

A unit is a value that travels: every sensitivity in :mod:`sfumato.bounded` is a function of it, and an
operation without a proof for a unit raises. ``public`` names what may be read freely under the unit
(table in DESIGN section 5); everything else is protected. A new unit is a class here and a line of ``UNITS``: its words,
help, reports and tables follow. Those of users who trust nobody stand in ``_user_units``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Literal

from sfumato._validate import check_choice, check_int, fail
from sfumato.privacy._unit import EDGE_PUBLIC
from sfumato.privacy._unit import Declared as Declared
from sfumato.privacy._unit import Unit as Unit
from sfumato.privacy._user_units import LinkLevel as LinkLevel
from sfumato.privacy._user_units import LocalLevel as LocalLevel

_NODE_PUBLIC = ("node_ids", "roles")


@dataclass(frozen=True)
class NoPrivacy(Unit):
    """No guarantee: everything is read in the clear. For ceilings and debugging.

    >>> NoPrivacy().describe()
    'nothing: this run carries no privacy guarantee'
    """

    name: ClassVar[str] = "none"
    words: ClassVar[Mapping[str, str]] = {"none": "nothing: no privacy"}
    private: ClassVar[bool] = False
    budget: ClassVar[tuple[str, ...]] = ()
    relation: ClassVar[str] = "none"
    public: ClassVar[tuple[str, ...]] = (*EDGE_PUBLIC, "arcs")

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "nothing: this run carries no privacy guarantee"


@dataclass(frozen=True)
class EdgeLevel(Unit):
    """One edge: neighbouring graphs differ in one arc (``directed``) or one undirected edge, that is two arcs.

    **Formal guarantee.** Relation add/remove. Node ids, roles, features and labels are public.

    >>> EdgeLevel(directed=False).arcs_per_record
    2
    """

    directed: bool
    name: ClassVar[str] = "edge"
    words: ClassVar[Mapping[str, str]] = {"arc": "one directed arc", "edge": "one edge"}
    relation: ClassVar[str] = "add-remove"
    public: ClassVar[tuple[str, ...]] = EDGE_PUBLIC

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

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> EdgeLevel:
        """``arc``: one directed arc; ``edge``: an edge of a graph of declared direction."""
        return cls(directed=word == "arc" or declared.directed)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """One arc, and one undirected edge."""
        return {"arc": (cls(directed=True),), "undirected edge": (cls(directed=False),)}

    def check_direction(self, directed: bool) -> None:
        """Refuse undirected edges of a directed graph.

        Raises:
            InputError: the unit is one undirected edge, and the graph is declared directed.
        """
        if directed and not self.directed:
            expected = "to be EdgeLevel(directed=True) for a graph declared directed"
            raise fail("unit", self, expected, "Its edges are single arcs.")

    def caveats(self, directed: bool) -> list[str]:
        """Half of an undirected edge is protected better than all of it."""
        if directed or not self.directed:
            return []
        return [
            "The graph is undirected and the unit is one arc, half of an edge: for a whole undirected edge epsilon is "
            "larger (the sensitivity is sqrt 2). This is the published convention, not the honest default."
        ]


@dataclass(frozen=True)
class NodeLevel(Unit):
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
    words: ClassVar[Mapping[str, str]] = {"node": "one node: its features, its label and the arcs it owns"}
    takes_max_degree: ClassVar[bool] = True
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

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> NodeLevel:
        """Owned arcs, as many as are promised."""
        return cls(max_out_degree=declared.max_degree)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Owned and incident arcs, under both relations."""
        return {
            "node, owned arcs": (cls(100), cls(100, relation="replace")),
            "node, incident arcs": (cls(arcs="incident"), cls(arcs="incident", relation="replace")),
        }

    def caveats(self, directed: bool) -> list[str]:
        """What others' records still tell."""
        inferred = "A node's label may still be inferred from what other nodes' records say about it."
        other_end = "Each end of an undirected edge owns its own arc: the other end's record of it is not protected."
        return [inferred] if directed else [inferred, other_end]


@dataclass(frozen=True)
class RecordLevel(Unit):
    """One row of a table without links.

    >>> RecordLevel().relation
    'add-remove'
    """

    relation: Literal["add-remove", "replace"] = "add-remove"
    name: ClassVar[str] = "record"
    words: ClassVar[Mapping[str, str]] = {"record": "one record"}
    public: ClassVar[tuple[str, ...]] = _NODE_PUBLIC

    def __post_init__(self) -> None:
        check_choice(("add-remove", "replace"), relation=self.relation)

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "any one record"

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Both relations."""
        return {"record": (cls(), cls(relation="replace"))}


UNITS: tuple[type[Unit], ...] = (
    NoPrivacy,
    EdgeLevel,
    NodeLevel,
    LocalLevel,
    LinkLevel,
    RecordLevel,
)
"""Every unit there is."""


def short_words() -> dict[str, str]:
    """Each command-line word of a unit, and what it protects in the few words of a table.

    >>> short_words()["arc"]
    'one directed arc'
    """
    return {word: protected for unit in UNITS for word, protected in unit.words.items()}


def class_named(name: object) -> type[Unit]:
    """The class of a unit by its name in certificates.

    Raises:
        InputError: no unit has this name.

    >>> class_named("edge")
    <class 'sfumato.privacy.units.EdgeLevel'>
    """
    classes = {unit.name: unit for unit in UNITS}
    return classes[check_choice(tuple(classes), unit=name)]


def class_for(text: str) -> type[Unit]:
    """The class of a unit by its command-line word, or by ``word:parameter``.

    Raises:
        InputError: no unit has this word, or a parameter is empty or not expected.

    >>> class_for("arc").name
    'edge'
    """
    word, colon, parameter = text.partition(":")
    classes = {word: unit for unit in UNITS for word in unit.words}
    if word not in classes:
        check_choice(tuple(classes), unit=text)
    unit = classes[word]
    if colon and not unit.parameter:
        raise fail("unit", text, f"to be {word!r} alone", "This unit takes nothing after its word.")
    if colon and not parameter:
        raise fail("unit", text, f"to be {word}:{unit.parameter}", "Write what follows the colon, or drop the colon.")
    return unit


def unit_named(text: str, declared: Declared) -> Unit:
    """A unit by its command-line word, or by ``word:parameter``, for data of which some facts are declared.

    Raises:
        InputError: no unit has this word, or its parameter is missing, wrong or not expected.

    >>> unit_named("edge", Declared(directed=False))
    EdgeLevel(directed=False)
    """
    word, _, parameter = text.partition(":")
    return class_for(text).parse(word, parameter or None, declared)


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
    cls = class_named(values.get("name"))
    if "relation" not in {field.name for field in dataclass_fields(cls)}:
        fields.pop("relation", None)
    return cls(**fields)
