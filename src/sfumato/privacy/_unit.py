"""The base class of privacy units. A unit describes itself, so that no other code has to ask which unit it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

Trust = Literal["curator", "local", "link", "servers"]
Partition = Literal["directions", "centroids", "declared"]
EDGE_PUBLIC = ("node_ids", "roles", "features", "labels")
"""What may be read freely where arcs alone are protected."""
INFERRED = "A node's label may still be inferred from what other nodes' records say about it."
OTHER_END = "Each end of an undirected edge owns its own arc: the other end's record of it is not protected."
HALF = (
    "The graph is undirected and the unit is one arc, half of an edge: for a whole undirected edge epsilon is larger (Gaussian "
    "noise: sensitivity sqrt 2; Laplace noise and randomized response: epsilon doubles). This is the published convention, not "
    "the honest default."
)
_OWN_PREDICTIONS = "predictions that read the node's own features (joint DP)"


@dataclass(frozen=True)
class Declared:
    """Public facts about the data that a word alone does not hold.

    Args:
        directed: whether the graph is declared directed.
        max_degree: the promised bound on the arcs that a node owns; None for none.
        cells: the number of cells of each class, or of all cells if they are declared; 50 as first published.
        partition: how the cell of a record is found.
        edges_per_person: the most edges of a person that a reader kept; None where rows of edges have no owner.
        nodes_per_person: the most nodes of a person that a reader kept; None where nodes have no owner.

    >>> Declared(directed=False).max_degree is None
    True
    """

    directed: bool
    max_degree: int | None = None
    cells: int = 50
    partition: Partition = "directions"
    edges_per_person: int | None = None
    nodes_per_person: int | None = None


@dataclass(frozen=True)
class Unit(ABC):
    """The privacy unit: what a record is.

    Each unit is a frozen dataclass below this class and a line of the table ``units.UNITS``.

    Attributes:
        name: the name in certificates and ledgers.
        words: each word that names the unit on the command line, with a few words for tables that say what it protects.
        parameter: what follows the word after a colon, as help shows it, such as ``SIZE``; empty if nothing does.
        trust: who sees the values before noise: a trusted ``curator``; nobody, because users randomize their values
            (``local``) or their links (``link``); no single one of two ``servers`` that do not collude.
        private: whether anything is claimed.
        weighed: what is added to the words of what is protected where weights of edges count; empty if they never do.
        in_window: what a record is in one window of time; empty where records last through all windows.
        of_windows: the limit of the claim that follows for records in several windows.
        budget: the numbers that state a budget under this unit.
        takes_max_degree: the words of which a bound on the arcs of an owner is a part.
        arc_words: the word of each choice of arcs, by the word of ``--arcs``; empty for units without such a choice.
        node_words: the word of the same unit where rows of nodes, and not of edges, have owners, by its own word.
        takes_cells: whether the number of cells and how they are found are parts of the unit.
        takes_promise: the words under which such a bound is no part of the unit, but may be promised of the data.
        needs_schema: whether what is protected has to be declared, or said to be public: classes, categories and ranges. Devices
            are told them before they report, and where a record is a class, the set of classes is public.
        split: shares of training, validation and test nodes if a graph has no roles; None for those of the graph.

    >>> from sfumato.privacy.units import EdgeLevel
    >>> EdgeLevel(directed=False).trust, EdgeLevel(directed=False).budget
    ('curator', ('epsilon', 'delta'))
    """

    name: ClassVar[str]
    words: ClassVar[Mapping[str, str]]
    parameter: ClassVar[str] = ""
    trust: ClassVar[Trust] = "curator"
    private: ClassVar[bool] = True
    weighed: ClassVar[str] = ""
    in_window: ClassVar[str] = ""
    of_windows: ClassVar[str] = ""
    budget: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    takes_max_degree: ClassVar[tuple[str, ...]] = ()
    arc_words: ClassVar[Mapping[str, str]] = {}
    takes_promise: ClassVar[tuple[str, ...]] = ()
    node_words: ClassVar[Mapping[str, str]] = {}
    takes_cells: ClassVar[bool] = False
    needs_schema: ClassVar[bool] = True
    split: ClassVar[tuple[float, ...] | None] = None

    @property
    @abstractmethod
    def relation(self) -> str:
        """How neighboring data sets differ in one record."""

    @property
    @abstractmethod
    def public(self) -> tuple[str, ...]:
        """The parts of the data that may be read freely."""

    @property
    def max_out_degree(self) -> int | None:
        """The largest number of arcs of an owner that are read; None where there is no such bound."""
        return None

    @property
    def partition(self) -> str:
        """How records fall into cells, such as ``classes``; empty where a record is no cell."""
        return ""

    @property
    def edges_per_person(self) -> int | None:
        """The most edges of one person that a reader keeps, where a record is all edges of a person; else None."""
        return None

    @property
    def nodes_per_person(self) -> int | None:
        """The most nodes of one person that a reader keeps, where a record is all nodes of a person; else None."""
        return None

    def num_cells(self, num_classes: int) -> int:
        """Return the public number of cells of data with so many classes; 0 where a record is no cell.

        ``num_classes`` is public.
        """
        return 0

    @property
    def no_arc_change(self) -> float | None:
        """The ``arc_change`` of a release that reads no arcs: 0 where arcs of others may point at a record, else None."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Say in plain words what is protected."""

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> Unit:
        """Return the unit that a command-line word names.

        Args:
            word: one of ``words``.
            parameter: what followed it after a colon, never empty; None if nothing did.
            declared: public facts about the data.

        Raises:
            InputError: the parameter is missing or wrong.
        """
        return cls()

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        """Return the forms that tables of guarantees show, by title; units of one title differ in their relation."""
        return {cls.name: (cls(),)}

    @classmethod
    def spelled(cls) -> tuple[str, ...]:
        """Return the unit's words as help texts write them."""
        return tuple(word + (f":{cls.parameter}" if cls.parameter else "") for word in cls.words)

    def check_fit(self, directed: bool) -> None:
        """Refuse a graph whose declared direction contradicts the unit, and a unit that says what no claim reads.

        Raises:
            InputError: a record of this unit does not exist in such a graph, or a parameter binds nothing.
        """
        return

    def caveats(self, directed: bool) -> list[str]:
        """Return limits of the claim that follow from the unit alone, for the certificate of a graph of declared direction."""
        return []

    def audience(
        self,
        outputs: Sequence[str],
        *,
        predictions: str = "predictions for all nodes",
        never: Sequence[str] = (),
        never_of_nodes: Sequence[str] = (),
        own: Sequence[str] = (),
    ) -> dict[str, list[str]]:
        """Return who may see what of a run, for the certificate.

        A prediction reads the node's own features. If these are protected and not yet randomized, only that node may see the
        prediction.

        Args:
            outputs: what is released.
            predictions: how predictions are called where anyone may see them.
            never: what stays hidden beside the data.
            never_of_nodes: what stays hidden where single rows of features are protected.
            own: what is for the node itself alone, beside its prediction, where single rows are protected.

        >>> from sfumato.privacy.units import NodeLevel
        >>> NodeLevel().audience(["weights"])["the node itself"]
        ["predictions that read the node's own features (joint DP)"]
        """
        if not self.private:
            return {"anyone": [], "the node itself": [], "never": ["everything in this run"]}
        if self.trust == "curator" and "features" not in self.public:
            hidden = [*never, *never_of_nodes]
            return {"anyone": [*outputs], "the node itself": [*own, _OWN_PREDICTIONS], "never": hidden}
        return {"anyone": [*outputs, predictions], "the node itself": [], "never": [*never]}
