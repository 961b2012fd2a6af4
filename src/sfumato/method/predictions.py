"""What a finished run predicts for each node of its graph, where the answer comes from, and what was decided by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato._optional import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def joined(names: Iterable[str]) -> str:
    """Join names of classes in one cell of a table; one that holds a semicolon or a quote is quoted, as in CSV.

    >>> joined(["no", "semi; colon"])
    'no; "semi; colon"'
    """
    return "; ".join(
        '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ';"') else name for name in names
    )


@dataclass(frozen=True)
class Predictions:
    """Predictions hold one answer for each node. They are post-processing of what was released.

    Args:
        nodes: the ids of the nodes, in the order of the rows.
        classes: the names of the classes.
        probabilities: the model's probabilities, float32 [n, C].
        roles: the role of each node in the run; empty where none is known.
        known: the label of each node where labels are public, else empty.
        returned: whether a node is answered by its known label, bool [n].
        told: what each node is told, where that is not the most probable class.
        sets: which classes are in the set of each node, bool [n, C]; None if no coverage was asked for.
        chosen: which nodes are chosen by a threshold or as the top, bool [n]; None if neither was asked for.
        ranks: the place of each node from 1 on, 0 for those that are not ranked; None if no top was asked for.
        facts: numbers about what was decided, by name.
        notes: the same in words, with what they assume.

    >>> import numpy as np
    >>> found = Predictions(("ann",), ("a", "b"), np.array([[0.25, 0.75]]), ("test",), ("",), np.array([False]))
    >>> found.answer(0)
    ('b', 'model')
    """

    nodes: tuple[Any, ...]
    classes: tuple[str, ...]
    probabilities: NDArray[np.floating]
    roles: tuple[str, ...]
    known: tuple[str, ...]
    returned: NDArray[np.bool_]
    told: tuple[str, ...] = ()
    sets: NDArray[np.bool_] | None = None
    chosen: NDArray[np.bool_] | None = None
    ranks: NDArray[np.int64] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def answer(self, row: int) -> tuple[str, str]:
        """Return the class that a node is told, and its source: ``model``, or ``known`` for a known label."""
        if self.returned[row]:
            return self.known[row], "known"
        if self.told:
            return self.told[row], "model"
        return self.classes[int(self.probabilities[row].argmax())], "model"

    def set_of(self, row: int) -> tuple[str, ...]:
        """Return the names of the classes in the set of a node; none if no coverage was asked for."""
        if self.sets is None:
            return ()
        return tuple(name for name, there in zip(self.classes, self.sets[row].tolist(), strict=True) if there)

    def columns(self) -> dict[str, Any]:
        """Return what tables say of the nodes, by the name of the column; every column has an entry for each node."""
        rows = range(len(self.nodes))
        told, sources = zip(*map(self.answer, rows), strict=True) if self.nodes else ((), ())
        found: dict[str, Any] = {"node": self.nodes, "predicted": told}
        found |= {f"p({name})": self.probabilities[:, at] for at, name in enumerate(self.classes)}
        found |= {"role": self.roles, "known_label": self.known, "source": sources}
        if self.sets is not None:
            found["set"] = tuple(joined(self.set_of(row)) for row in rows)
        if self.ranks is not None:
            found["rank"] = tuple(rank or None for rank in self.ranks.tolist())
        if self.chosen is not None:
            found["chosen"] = self.chosen
        return found

    def frame(self) -> Any:
        """Return the table of predictions as a frame of pandas, with ids and names of classes.

        Its columns are those of the file that `sfumato predict` writes.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = require("pandas")
        found = pandas.DataFrame({name: list(column) for name, column in self.columns().items()})
        return found.astype({"rank": "Int64"}) if "rank" in found else found
