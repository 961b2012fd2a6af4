"""The privacy units of persons who own many rows, of the edge table or of the node table: all of these rows are one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sfumato._validate import check_int, fail
from sfumato.privacy._unit import EDGE_PUBLIC, INFERRED, OTHER_END, Declared, Unit


@dataclass(frozen=True)
class PersonLevel(Unit):
    r"""The unit is a person: all edges that one person owns, at most ``edges`` of them.

    A column of the edge table says who owns a row, such as the patient of a referral or the subscriber of a call. Two graphs are
    neighbors if all rows of one person are in one table and none of them in the other. Where a person owns more than ``edges``
    distinct edges, the reader keeps so many by a keyed choice that reads this person's rows alone
    (:mod:`sfumato.tables._persons`), and an edge is in the graph if anybody's rows hold it. So neighboring graphs differ in at
    most ``edges`` edges, all of which are in the same one of the two.

    **Formal guarantee.** Relation add/remove. Node ids, roles, features and labels are public: if persons are nodes as well,
    what the node table says of them is not protected. Who owns edges, how many, and which, is protected.

    Args:
        edges: the most edges that one person adds to the graph.
        directed: True if an edge is one arc, False if it is undirected, and so two arcs.

    Raises:
        InputError: ``edges`` is below 1, or ``directed`` is not a bool.

    >>> PersonLevel(5, directed=False).describe()
    'any one person: all edges that the person owns, at most 5'
    """

    edges: int
    directed: bool
    name: ClassVar[str] = "person"
    words: ClassVar[Mapping[str, str]] = {"person": "one person: all edges that the person owns"}
    node_words: ClassVar[Mapping[str, str]] = {"person": "person-nodes"}
    weighed: ClassVar[str] = ", and their weights"
    in_window: ClassVar[str] = "the set of edges of one person"
    of_windows: ClassVar[str] = (
        "A record is all edges of one person in one window of time. A person with edges in k windows is k records, and "
        "costs up to k times the epsilon through all releases. Moving an edge to another window changes two records."
    )
    relation: ClassVar[str] = "add-remove"
    public: ClassVar[tuple[str, ...]] = EDGE_PUBLIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", int(check_int(low=1, edges=self.edges)))
        if not isinstance(self.directed, bool):
            raise fail("directed", self.directed, "to be True (edges are single arcs) or False (undirected edges)")

    @property
    def edges_per_person(self) -> int:
        """The most edges of one person that a reader keeps: ``edges``."""
        return self.edges

    @property
    def arcs_per_record(self) -> int:
        """How many arcs a record holds at most."""
        return self.edges * (1 if self.directed else 2)

    def describe(self) -> str:
        """Say in plain words what is protected."""
        return f"any one person: all edges that the person owns, at most {self.edges}"

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> PersonLevel:
        """Return the unit with the declared bound; 1 where none is declared, which no graph without a bound admits."""
        return cls(declared.edges_per_person or 1, directed=declared.directed)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Return the form of undirected edges; that of arcs is for graphs that are declared directed."""
        return {"person": (cls(5, directed=False),)}

    def check_fit(self, directed: bool) -> None:
        """Refuse a graph of another direction: what a person's edges move depends on how many arcs each of them is.

        Raises:
            InputError: the graph is declared directed and the unit is not, or the other way round.
        """
        if directed != self.directed:
            expected = f"to be PersonLevel(directed={directed}) for a graph declared {'' if directed else 'un'}directed"
            raise fail(
                "unit",
                self,
                expected,
                "Each of its edges is one arc." if directed else "Each of its edges is two arcs.",
            )

    def caveats(self, directed: bool) -> list[str]:
        """Say which rows are a person's own."""
        return [
            "A person's record is the rows of the edge table that name this person, of which the graph holds at most "
            f"{self.edges} edges. Rows that name others are not part of it, even if they tell of this person."
        ]


@dataclass(frozen=True)
class PersonNodesLevel(Unit):
    r"""The unit is a person who is many nodes, at most ``nodes`` of them: their features, their labels and the arcs they own.

    A column of the node table says who owns a row, such as the customer of an account or the patient of a stay. Two graphs are
    neighbors if the records of *all* nodes of one person are empty in one of them, and nothing else differs. Where a person
    has more than ``nodes``, the reader keeps so many by a keyed choice that reads this person's ids alone
    (:mod:`sfumato.graph._owned`).

    **Formal guarantee.** Relation remove. Node ids, roles, and *which nodes belong to one person* are public. Features, labels
    and owned arcs of all nodes of one person are protected together.

    Args:
        nodes: the most nodes of one person.
        max_out_degree: the most arcs that each node owns; None where no method reads arcs.

    Raises:
        InputError: a number is below 1.

    >>> PersonNodesLevel(3).describe()
    'any one person: the features, the labels and the out-arcs of all nodes that the person owns, at most 3'
    """

    nodes: int
    max_out_degree: int | None = None
    name: ClassVar[str] = "person-nodes"
    words: ClassVar[Mapping[str, str]] = {"person-nodes": "one person: all nodes that the person owns"}
    takes_max_degree: ClassVar[tuple[str, ...]] = ("person-nodes",)
    weighed: ClassVar[str] = ", and their weights"
    relation: ClassVar[str] = "remove"
    public: ClassVar[tuple[str, ...]] = ("node_ids", "roles", "owners")

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", int(check_int(low=1, nodes=self.nodes)))
        if self.max_out_degree is not None:
            check_int(low=1, max_out_degree=self.max_out_degree)

    @property
    def nodes_per_person(self) -> int:
        """The most nodes of one person that a reader keeps: ``nodes``."""
        return self.nodes

    def describe(self) -> str:
        """Say in plain words what is protected."""
        cap = "" if self.max_out_degree is None else f" (at most {self.max_out_degree} of each)"
        owned = f"all nodes that the person owns, at most {self.nodes}"
        return f"any one person: the features, the labels and the out-arcs{cap} of {owned}"

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> PersonNodesLevel:
        """Return the unit with the declared bounds; 1 node where none is declared, which no graph without owners admits."""
        return cls(declared.nodes_per_person or 1, declared.max_degree)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Return the one form."""
        return {"person-nodes": (cls(3, 100),)}

    def caveats(self, directed: bool) -> list[str]:
        """Say that owners are public, and what the records of other persons still reveal."""
        return [OWNERS, INFERRED] if directed else [OWNERS, INFERRED, OTHER_END]


OWNERS = (
    "Which nodes belong to one person is public, as are node ids: it decides how much each node counts, and who trains. Do not "
    "claim this for data in which that is a secret."
)
