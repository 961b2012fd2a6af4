"""Privacy units that hold many records at once: all records of one class, or of one cell of a partition.

A data set is a function from public ids to records (x, y), some of them empty. Each record that is not empty lies in one cell.
Neighboring data sets agree at every id whose record lies in another cell in both; within one cell anything may change: which
ids hold records of this cell or none, how many, and what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from sfumato._validate import check_choice, check_int
from sfumato.privacy._unit import Declared, Partition, Unit

_PUBLIC = ("node_ids", "roles")
_RELATIONS = ("replace", "add-remove")
_CELLS = {
    "directions": "{} cells of each class, found by public random directions",
    "centroids": "{} cells of each class, found by public centroids",
    "declared": "{} cells that a public column declares",
}
_CAVEATS = {
    "directions": "A record that moves to another cell or class changes two cells, which costs more than the claim.",
    "centroids": "The centroids must be public: if they were fitted on protected records, such as by k-means on private "
    "images, the claim does not hold. A record that moves to another cell changes two cells, which costs more.",
    "declared": "Who is in which cell is not protected: if the cells were computed from protected records, such as by "
    "k-means on private images, what they tell about these records is not covered.",
}


@dataclass(frozen=True)
class ClassLevel(Unit):
    """The unit is a class: all records that have one label, however many there are.

    **Formal guarantee.** Neighboring data sets have the same records of every other label, at the same ids. Those of label k are
    exchanged for any others of label k, at ids that hold label k or none (``replace``); or one of the two data sets has no
    record of label k (``add-remove``). Ids, roles and the set of labels are public.

    Raises:
        InputError: the relation is neither ``replace`` nor ``add-remove``.

    >>> ClassLevel().describe()
    'all records of any one class'
    """

    relation: Literal["replace", "add-remove"] = "replace"
    name: ClassVar[str] = "class"
    needs_schema: ClassVar[bool] = False
    words: ClassVar[Mapping[str, str]] = {"class": "all records of one class"}
    public: ClassVar[tuple[str, ...]] = _PUBLIC

    def __post_init__(self) -> None:
        check_choice(_RELATIONS, relation=self.relation)

    def describe(self) -> str:
        return "all records of any one class"

    @property
    def partition(self) -> str:
        return "classes"

    def num_cells(self, num_classes: int) -> int:
        """Return the number of classes, which are the cells."""
        return num_classes

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        return {"class": (cls(), cls(relation="add-remove"))}

    def caveats(self, directed: bool) -> list[str]:
        """Say that names of classes are public, and what lies in two classes."""
        return [
            "A record that moves to another class changes two classes, which costs more than the claim. So does a person with "
            "records in two classes. That a class exists, and its name, are not protected."
        ]


@dataclass(frozen=True)
class SubclassLevel(Unit):
    """The unit is a cell of a partition: all records of one cell, however many there are.

    * ``partition="directions"``: a record's cell is its class and the largest of ``cells`` public random directions;
    * ``"centroids"``: its class and the nearest of ``cells`` public centroids of this class;
    * ``"declared"``: a public column says the cell of each id, and ``cells`` counts all of them. Who is in which cell is *not*
      protected. Where a cell is a user, this is user-level privacy.

    In the first two, the cell is a function of this record and public values alone: no other record moves it. k-means on
    protected records is not such a function, since one record moves the centroids, and so other records' cells.

    **Formal guarantee.** Neighboring data sets have the same records in every other cell, at the same ids. Those of one cell are
    exchanged for any others of this cell (``replace``), or one of the two data sets has none in it (``add-remove``).

    Args:
        cells: the number of cells of each class; of all cells if they are declared.
        partition: how the cell of a record is found.
        relation: how neighboring data sets differ.

    Raises:
        InputError: a word is not known, or ``cells`` is below 1.

    >>> SubclassLevel(50).describe()
    'all records of any one cell: 50 cells of each class, found by public random directions'
    """

    cells: int
    partition: Partition = "directions"
    relation: Literal["replace", "add-remove"] = "replace"
    name: ClassVar[str] = "subclass"
    needs_schema: ClassVar[bool] = False
    takes_cells: ClassVar[bool] = True
    words: ClassVar[Mapping[str, str]] = {"subclass": "all records of one cell of a class"}
    public: ClassVar[tuple[str, ...]] = _PUBLIC

    def __post_init__(self) -> None:
        check_int(low=1, cells=self.cells)
        check_choice(tuple(_CELLS), partition=self.partition)
        check_choice(_RELATIONS, relation=self.relation)

    def describe(self) -> str:
        return f"all records of any one cell: {_CELLS[self.partition].format(self.cells)}"

    def num_cells(self, num_classes: int) -> int:
        """Return how many cells all classes have together; ``num_classes`` is public."""
        return self.cells if self.partition == "declared" else self.cells * num_classes

    @classmethod
    def parse(cls, word: str, parameter: str | None, declared: Declared) -> SubclassLevel:
        return cls(declared.cells, declared.partition)

    @classmethod
    def forms(cls) -> Mapping[str, tuple[Unit, ...]]:
        return {"subclass": (cls(50), cls(50, relation="add-remove"))}

    def caveats(self, directed: bool) -> list[str]:
        """Say what the partition leaves unprotected, and that what all cells share may be learned."""
        return [
            _CAVEATS[self.partition],
            "What is common to many cells of a class may be learned: only what one cell adds is protected.",
        ]
