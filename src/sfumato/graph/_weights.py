r"""Weights of edges: shares of a public bound, in whole steps, that are the same for both arcs of an edge.

An edge of weight a has the share :math:`w = \min(a, b) / b` of the public bound b, rounded to an integer number of steps
of :math:`2^{-15}`, so that sums over neighbors stay sums of integers. A record is one edge *with its weight*: rows that name
the same edge (if undirected, in either order) are one record, and their weights are added before they are clipped, as payments
between two people add up. So a further row of an edge changes one weight and no other record.

Weights may fade with age (``recency`` of the readers): a row of weight a and age t days counts as
:math:`a\,2^{-\max(t, 0) / h}`, where the half-life h and the day from which ages are counted are public. **Formal guarantee.**
The value of a row then follows from this row and public numbers alone, so what stands above holds as it is: one edge with all its
rows moves its own weight, by at most the bound, and no other. *Near miss:* were ages counted from the newest date of the table, a
row that goes would move the weights of all edges.

The bound is declared, never read off the data: the largest weight is a fact about one private edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._validate import check_real, fail
from sfumato.errors import DataError, InputError
from sfumato.graph._arcs import owners
from sfumato.graph._checks import as_array

FULL = 1 << 15
"""Whole steps of the share 1, the largest."""
CLIPPED = "edge weight"
"""The name in ``Graph.outside`` under which edges above the bound are counted."""
_UNDECLARED = (
    "Declare the largest weight that may count, from what is known without this data: max_weight=100 (--max-weight 100, or max "
    "under [edges] in the schema). Larger ones are clipped to it."
)


@dataclass(frozen=True, eq=False, repr=False)
class EdgeWeights:
    """Edge weights are shares of a public bound, one for each arc in the order of ``Graph.indices``.

    Shapes: ``steps`` uint16 [num_arcs], from 0 to 2^15, which is the share 1; ``bound`` is the weight that this stands for.

    Raises:
        InputError: the bound is no finite number above 0.

    >>> EdgeWeights.of(np.array([25.0, 50.0, 300.0]), 100.0)[0].steps.tolist()
    [8192, 16384, 32768]
    """

    steps: np.ndarray
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", check_bound(self.bound))

    def __repr__(self) -> str:
        return f"EdgeWeights({len(self.steps)} arcs, at most {self.bound:g})"

    @classmethod
    def of(cls, values: np.ndarray, bound: float) -> tuple[EdgeWeights, np.ndarray]:
        """Clip weights >= 0 to the bound and round them to steps; return them, and which were above it, bool [num_arcs].

        ``values`` are float64 [num_arcs], and ``bound`` is public.
        """
        shares = np.minimum(values, bound) / check_bound(bound)
        return cls(np.rint(shares * FULL).astype(np.uint16), bound), values > bound

    @property
    def values(self) -> np.ndarray:
        """Return the weights as they count, float32 [num_arcs]: at most the bound, rounded to steps."""
        values: np.ndarray = (self.steps * (self.bound / FULL)).astype(np.float32)
        return values

    def take(self, places: np.ndarray) -> EdgeWeights:
        """Return the weights of other arcs of the same graph; ``places`` are their numbers, or a mask."""
        return EdgeWeights(self.steps[places], self.bound)

    def check(self, indptr: np.ndarray, indices: np.ndarray, *, directed: bool) -> EdgeWeights:
        """Return these weights if they fit the arcs of a graph; if it is undirected, both arcs of an edge have the same one.

        Args:
            indptr: row pointers [num_nodes + 1].
            indices: targets of the arcs, [num_arcs].
            directed: whether every arc is an edge of its own.

        Raises:
            DataError: they do not fit.
        """
        check_steps(self.steps, len(indices))
        if not directed:
            reverse = self.steps[np.argsort(indices, kind="stable")]
            if (reverse != self.steps).any():
                raise DataError(
                    "Expected both arcs of every edge to have one weight because directed=False, got an arc with another one "
                    "than its reverse (which one is private). Declare directed=True, or pass one row an edge to "
                    "Graph.from_edges, which adds them."
                )
        return self


def check_steps(steps: np.ndarray, num_arcs: int) -> None:
    """Refuse weights that are not one for each of ``num_arcs`` arcs, uint16 from 0 to ``FULL``."""
    if steps.dtype != np.uint16 or steps.shape != (num_arcs,):
        raise DataError(
            f"Expected weights to be uint16 [{num_arcs}], one for each arc, got {steps.dtype} of shape {steps.shape}. Whatever "
            "builds a graph from the arcs of another has to take their weights along (weights.take), or drop them (weights=None)."
        )
    if num_arcs and int(steps.max()) > FULL:
        raise DataError(
            "Expected weights to be clipped to their public bound, got one above. Build them with EdgeWeights.of."
        )


def check_bound(bound: Any) -> float:
    """Return a public bound as a float above 0."""
    if bound is None:
        raise fail("max_weight", None, "to be declared beside edge weights", _UNDECLARED)
    return check_real(_UNDECLARED, low=1e-30, high=1e30, max_weight=bound)


def check_values(values: np.ndarray, column: str, place: str, number: Callable[[int], int] = int) -> np.ndarray:
    """Return weights as float64, and refuse those that are missing, negative or infinite. It tells the row, never the value."""
    found = as_array(column, values)
    if found.ndim != 1 or found.dtype.kind not in "iufb":
        raise DataError(
            f"Expected {column!r} of {place} to hold one number for each edge, got {found.dtype} of shape {found.shape}. Convert "
            "it, or name another column."
        )
    numbers = found.astype(np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        raise DataError(
            f"Expected every edge to have a finite weight >= 0, but row {number(int(wrong.argmax()))} of {place} has none in "
            f"{column!r}: it is missing, negative or infinite. Correct the row, or leave it out."
        )
    return numbers


def with_weights(
    fields: dict[str, Any], arcs: tuple[np.ndarray, np.ndarray], rows: tuple[Any, Any], *, pairs: bool
) -> dict[str, Any]:
    """Return fields of a graph in which ``edge_weight`` and ``max_weight``, if they are there, became its ``weights``."""
    rest = {name: value for name, value in fields.items() if name not in ("edge_weight", "max_weight")}
    given, bound = fields.get("edge_weight"), fields.get("max_weight")
    if given is None:
        if bound is not None:
            raise fail("max_weight", bound, "to stand beside edge weights", "Pass edge_weight, or drop max_weight.")
        return rest
    values, (indptr, indices) = check_values(given, "edge_weight", "the edges"), arcs
    source, target = (np.asarray(end, np.int64) for end in rows)
    if len(values) != len(source):
        raise DataError(f"Expected one weight for each of {len(source)} rows, got {len(values)}. Pass as many as rows.")
    totals = _totals(source, target, values, len(indptr) - 1, pairs=pairs)
    each = totals(owners(indptr), indices.astype(np.int64))
    weights, above = EdgeWeights.of(each, check_bound(bound))
    if above.any():
        edges = above & (owners(indptr) <= indices) if pairs else above
        rest["outside"] = {**rest.get("outside", {}), CLIPPED: int(edges.sum())}
    return {**rest, "weights": weights}


def _totals(source: np.ndarray, target: np.ndarray, values: np.ndarray, num_nodes: int, *, pairs: bool) -> Any:
    """A function from the ends of edges to the sum of the weights of their rows, in the order of the rows."""

    def key(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        first, last = (np.minimum(one, other), np.maximum(one, other)) if pairs else (one, other)
        numbers: np.ndarray = first * num_nodes + last
        return numbers

    known, place = np.unique(key(source, target), return_inverse=True)
    sums = np.bincount(place.ravel(), weights=values, minlength=len(known))
    return lambda one, other: sums[np.searchsorted(known, key(one, other))]


def declared_weight(column: str | None, bound: float | None, declared: Any) -> tuple[str, float] | None:
    """Return the column of the weights and their public bound; None where edges have none."""
    public = (None, None) if declared is None else (declared.weight, declared.max)
    for name, asked, said in (("edge_weight", column, public[0]), ("max_weight", bound, public[1])):
        if asked is not None and said is not None and asked != said:
            raise InputError(f"Expected one {name}, got {asked!r} beside {said!r} in the schema. Correct one of them.")
    column, bound = column if column is not None else public[0], bound if bound is not None else public[1]
    if column is None:
        if bound is not None:
            raise fail("max_weight", bound, "to stand beside edge weights", "Name their column, or drop max_weight.")
        return None
    return column, check_bound(bound)
