"""Privacy units: what a record is, and so in what neighboring data sets differ.

A unit is a value that is passed along: every sensitivity in :mod:`sfumato.bounded` is a function of it, and an
operation without a proof for a unit raises an error. ``public`` names what may be read freely under the unit
(table in DESIGN section 5); everything else is protected. A new unit is a class here and a line of ``UNITS``: its words,
help, reports and tables follow. The units of users who trust nobody are in ``_user_units``, those of many records at once in
``_class_units``, those of a person with many rows in ``_person_units``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Literal

from sfumato._validate import check_choice, check_int, fail, nearest
from sfumato.errors import InputError
from sfumato.privacy._class_units import ClassLevel as ClassLevel
from sfumato.privacy._class_units import SubclassLevel as SubclassLevel
from sfumato.privacy._person_units import PersonLevel as PersonLevel
from sfumato.privacy._person_units import PersonNodesLevel as PersonNodesLevel
from sfumato.privacy._unit import EDGE_PUBLIC, HALF, INFERRED, OTHER_END
from sfumato.privacy._unit import Declared as Declared
from sfumato.privacy._unit import Unit as Unit
from sfumato.privacy._user_units import LinkLevel as LinkLevel
from sfumato.privacy._user_units import LocalLevel as LocalLevel
from sfumato.privacy._user_units import ServersLevel as ServersLevel

_NODE_PUBLIC = ("node_ids", "roles")


@dataclass(frozen=True)
class NoPrivacy(Unit):
    """No guarantee at all: everything is read in the clear. Use it for upper limits of accuracy and for debugging.

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
    """The unit is an edge: neighboring graphs differ in one arc, or in one undirected edge, which is two arcs.

    **Formal guarantee.** Relation add/remove. Node ids, roles, features and labels are public.

    Args:
        directed: True if a record is one arc, False if it is one undirected edge.

    Raises:
        InputError: ``directed`` is not a bool.

    >>> EdgeLevel(directed=False).arcs_per_record
    2
    """

    directed: bool
    name: ClassVar[str] = "edge"
    words: ClassVar[Mapping[str, str]] = {"arc": "one directed arc", "edge": "one edge"}
    weighed: ClassVar[str] = ", and its weight"
    in_window: ClassVar[str] = "one edge"
    of_windows: ClassVar[str] = (
        "A record is one edge in one window of time. An edge that is there in k windows is k records, and costs up to k "
        "times the epsilon through all releases. An edge whose time is moved to another window is two records."
    )
    relation: ClassVar[str] = "add-remove"
    public: ClassVar[tuple[str, ...]] = EDGE_PUBLIC

    def __post_init__(self) -> None:
        if not isinstance(self.directed, bool):
            raise fail("directed", self.directed, "to be True (one arc) or False (one undirected edge)")

    @property
    def arcs_per_record(self) -> int:
        """How many arcs a record holds: 1 or 2."""
        return 1 if self.directed else 2

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return "the presence of any one directed arc" if self.directed else "the presence of any one undirected edge"

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> EdgeLevel:
        """Return the unit that a word names: ``arc`` is one arc, ``edge`` an edge of a graph of the declared direction."""
        return cls(directed=word == "arc" or declared.directed)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Return two forms: one arc, and one undirected edge."""
        return {"arc": (cls(directed=True),), "undirected edge": (cls(directed=False),)}

    def check_fit(self, directed: bool) -> None:
        """Refuse undirected edges of a directed graph.

        Raises:
            InputError: the unit is one undirected edge, and the graph is declared directed.
        """
        if directed and not self.directed:
            expected = "to be EdgeLevel(directed=True) for a graph declared directed"
            raise fail("unit", self, expected, "Its edges are single arcs.")

    def caveats(self, directed: bool) -> list[str]:
        """Say that the claim is about half of an undirected edge, if the graph is undirected and the unit is one arc."""
        if directed or not self.directed:
            return []
        return [HALF]


@dataclass(frozen=True)
class NodeLevel(Unit):
    """The unit is a node: its features, its label and its arcs. Neighboring graphs differ in the record of one node.

    ``arcs="owned"``: the record holds the out-arcs that the node owns, capped at ``max_out_degree``. Arcs that others own and
    that point at the node stay. ``arcs="incident"``: every arc in or out belongs to the record, so that a hop has a bounded
    sensitivity only where weights of messages follow a bound on degrees: a public one (:mod:`~sfumato.bounded._promise`), or one
    that is found with noise (:mod:`~sfumato.bounded._found_bound`).
    ``relation="remove"`` empties a record; ``"replace"`` exchanges it for another.

    **Formal guarantee.** Node ids and roles are public; features, labels and arcs are protected.

    Raises:
        InputError: a word is not known, or ``max_out_degree`` is below 1.

    >>> NodeLevel(max_out_degree=100).describe()
    'any one node: its features, its label and the (at most 100) out-arcs it owns'
    """

    max_out_degree: int | None = None
    arcs: Literal["owned", "incident"] = "owned"
    relation: Literal["remove", "replace"] = "remove"
    name: ClassVar[str] = "node"
    weighed: ClassVar[str] = ", and their weights"
    words: ClassVar[Mapping[str, str]] = {
        "node": "one node: its features, its label and the arcs it owns",
        "node-incident": "one node: its features, its label and every arc in or out of it",
    }
    takes_max_degree: ClassVar[tuple[str, ...]] = ("node",)
    arc_words: ClassVar[Mapping[str, str]] = {"owned": "node", "incident": "node-incident"}
    takes_promise: ClassVar[tuple[str, ...]] = ("node-incident",)
    public: ClassVar[tuple[str, ...]] = _NODE_PUBLIC

    def __post_init__(self) -> None:
        check_choice(("owned", "incident"), arcs=self.arcs)
        check_choice(("remove", "replace"), relation=self.relation)
        if self.max_out_degree is not None:
            check_int(low=1, max_out_degree=self.max_out_degree)

    @property
    def no_arc_change(self) -> float | None:
        """The ``arc_change`` of a release that reads no arcs: 0 for owned arcs, None for incident ones."""
        return 0.0 if self.arcs == "owned" else None

    def check_fit(self, directed: bool) -> None:
        """Refuse a cap on the arcs that a node owns where every arc in or out is protected: no proof would read it.

        Raises:
            InputError: ``arcs`` is ``"incident"``, and ``max_out_degree`` is a number.
        """
        if self.arcs == "incident" and self.max_out_degree is not None:
            expected = "to be None where arcs='incident'"
            raise fail(
                "max_out_degree",
                self.max_out_degree,
                expected,
                "Promise the degrees of the graph (max_degree) instead.",
            )

    def describe(self) -> str:
        """Say in plain words what is protected."""
        if self.arcs == "incident":
            return "any one node: its features, its label and every arc in or out of it"
        cap = f"(at most {self.max_out_degree}) " if self.max_out_degree is not None else ""
        return f"any one node: its features, its label and the {cap}out-arcs it owns"

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> NodeLevel:
        """Return the unit of owned arcs, at most as many as the declared bound, or that of all incident arcs."""
        return cls(arcs="incident") if word == "node-incident" else cls(max_out_degree=declared.max_degree)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Return owned and incident arcs, each under both relations."""
        return {
            "node, owned arcs": (cls(100), cls(100, relation="replace")),
            "node, incident arcs": (cls(arcs="incident"), cls(arcs="incident", relation="replace")),
        }

    def caveats(self, directed: bool) -> list[str]:
        """Say what the records of other nodes still reveal about a node."""
        return [INFERRED] if directed or self.arcs == "incident" else [INFERRED, OTHER_END]


@dataclass(frozen=True)
class RecordLevel(Unit):
    """The unit is one row of a table without links.

    Raises:
        InputError: the relation is neither ``add-remove`` nor ``replace``.

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
        """Return the unit under both relations."""
        return {"record": (cls(), cls(relation="replace"))}


UNITS: tuple[type[Unit], ...] = (
    NoPrivacy,
    EdgeLevel,
    NodeLevel,
    PersonLevel,
    PersonNodesLevel,
    LocalLevel,
    LinkLevel,
    ServersLevel,
    RecordLevel,
    ClassLevel,
    SubclassLevel,
)
"""Every unit there is."""


def short_words() -> dict[str, str]:
    """Return each command-line word of a unit with a few words that say what it protects, for tables.

    >>> short_words()["arc"]
    'one directed arc'
    """
    return {word: protected for unit in UNITS for word, protected in unit.words.items()}


def edges_in(unit: Unit) -> int | None:
    """Return the most edges that a record holds where it holds edges and nothing else; None under any other unit.

    >>> edges_in(EdgeLevel(directed=False)), edges_in(PersonLevel(5, directed=False)), edges_in(NodeLevel())
    (1, 5, None)
    """
    if type(unit) is EdgeLevel:
        return 1
    return unit.edges if type(unit) is PersonLevel else None


def class_named(name: object) -> type[Unit]:
    """Return the class of a unit by the name that certificates hold.

    Raises:
        InputError: no unit has this name.

    >>> class_named("edge")
    <class 'sfumato.privacy.units.EdgeLevel'>
    """
    classes = {unit.name: unit for unit in UNITS}
    return classes[check_choice(tuple(classes), unit=name)]


def check_own_name(unit: Unit) -> None:
    """Refuse a ``unit`` that bears the name of another: certificates and the verifier would take it for that one.

    Raises:
        InputError: its class is not the one that :data:`UNITS` holds under its name.

    >>> check_own_name(EdgeLevel(directed=False))
    """
    if type(unit) not in UNITS and unit.name in {kind.name for kind in UNITS}:
        raise InputError(
            f"Expected unit {unit.name!r} to be of the library's own class, got one of class {type(unit).__name__}, which bears "
            "the name of a unit whose proofs it may break. Use the unit itself, or give the new one a name of its own."
        )


_CHOOSE = (
    "A person who is one node is protected by node, one who is several nodes by person-nodes, a single friendship by edge, all "
    "rows of the edge table that name one owner by person."
)


def class_for(text: str) -> type[Unit]:
    """Return the class of a unit by its command-line word, or by ``word:parameter``.

    Raises:
        InputError: no unit has this word, or a parameter is empty or not expected.

    >>> class_for("arc").name
    'edge'
    """
    word, colon, parameter = text.partition(":")
    classes = {word: unit for unit in UNITS for word in unit.words}
    if word not in classes:
        check_choice(tuple(classes), "" if nearest(text, classes) else _CHOOSE, unit=text)
    unit = classes[word]
    if colon and not unit.parameter:
        raise fail("unit", text, f"to be {word!r} alone", "This unit takes nothing after its word.")
    if colon and not parameter:
        raise fail("unit", text, f"to be {word}:{unit.parameter}", "Write what follows the colon, or drop the colon.")
    return unit


def unit_named(text: str, declared: Declared) -> Unit:
    """Return the unit that a command-line word, or ``word:parameter``, names for data of which some facts are declared.

    Raises:
        InputError: no unit has this word, or its parameter is missing, wrong or not expected.

    >>> unit_named("edge", Declared(directed=False)), unit_named("person", Declared(directed=False, nodes_per_person=3))
    (EdgeLevel(directed=False), PersonNodesLevel(nodes=3, max_out_degree=None))
    """
    word, _, parameter = text.partition(":")
    unit = class_for(text)
    if declared.nodes_per_person is not None and word in unit.node_words:
        return unit_named(unit.node_words[word], declared)
    return unit.parse(word, parameter or None, declared)


def unit_to_dict(unit: Unit) -> dict[str, Any]:
    """Write a unit as JSON-ready values, the form that certificates hold.

    >>> unit_to_dict(EdgeLevel(directed=True))
    {'name': 'edge', 'relation': 'add-remove', 'directed': True}
    """
    return {"name": unit.name, "relation": unit.relation, **asdict(unit)}


def unit_from_dict(values: dict[str, Any]) -> Unit:
    """Read back what :func:`unit_to_dict` wrote.

    Raises:
        InputError: no unit has this name, or a value is not valid.

    >>> unit_from_dict({'name': 'edge', 'relation': 'add-remove', 'directed': True})
    EdgeLevel(directed=True)
    """
    fields = {key: value for key, value in values.items() if key != "name"}
    cls = class_named(values.get("name"))
    if "relation" not in {field.name for field in dataclass_fields(cls)}:
        fields.pop("relation", None)
    return cls(**fields)
