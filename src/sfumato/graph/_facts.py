"""Public facts of a data set: what a plan may be calibrated with, before any private data is read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from sfumato._validate import check_kind, fail
from sfumato.errors import InputError
from sfumato.graph._checks import check_promises
from sfumato.graph._declared import check_declared
from sfumato.graph._dropped import tell_outside
from sfumato.graph._splits import DEFAULT_FRACTIONS, digest_of_roles, split_sizes
from sfumato.graph._targets import RANGE
from sfumato.graph._unique import NAMES, RARE_CLASSES, check_texts

Ranges: TypeAlias = tuple[tuple[str, float | None, float | None], ...]
"""Columns of numbers with their declared ends: name, min and max. Numbers were clipped, and with both ends scaled to [0, 1]."""

ROLES = "roles"
"""The fact that roles were given, and not drawn over ids: whoever gave them may have looked at labels."""
_WHERE_KNOWN = (
    "num_arcs",
    "untrained_classes",
    "degree_bounds",
    "image_shape",
    "target",
    "target_range",
    "max_weight",
    "edge_types",
    "public_types",
    "split",
    "edges_per_person",
    "nodes_per_person",
    "num_persons",
    "train_persons",
)
_OF_LABELS = ("classes", RANGE, NAMES, RARE_CLASSES)
_NEEDS = {"num_arcs": ("arcs",), "untrained_classes": ("labels", "roles")}
"""What has to be public under a unit for a fact to be public: a fact that is missing here is public under every unit."""


@dataclass(frozen=True)
class PublicFacts:
    """Public facts are what calibration may know about a graph, since they are public under one privacy unit.

    ``num_nodes``, ``num_features`` and ``num_classes`` are counts, and ``directed`` is declared. ``max_degree`` and
    ``mean_degree`` are promises of a schema, or None. ``degree_bounds`` says whether every node has a public bound of its
    own.

    ``num_train`` counts train roles, which are public if roles are fixed over public ids. Where labels are protected
    ``split`` holds the fractions by which they were drawn over all ids, if not by the usual ones of the unit; and roles that
    were given are in ``assumed``, since labels may have decided them. ``num_arcs`` is there where arcs are public,
    ``untrained_classes`` (classes without a labeled training node) where labels and roles are. ``image_shape`` is the form of
    images whose pixels are the features: channels, height and width; None for other features. ``assumed`` names the facts
    that were read off protected data because no schema declared them. ``target`` is ``multilabel`` or ``number`` where no
    class is learned, and None otherwise: ``num_classes`` then counts labels, or is 1; ``target_range`` holds the limits of a
    number. ``max_weight`` is the declared bound of the edges' weights, if there are any that a method reads, and
    ``edges_per_person`` that of the edges that one person owns, if a reader kept no more of anybody.
    ``edge_types`` are the declared types of edges, if there are several and a method reads them, and ``public_types`` those of
    them whose edges are no secret. Where persons own nodes, ``nodes_per_person`` is the bound, ``num_persons`` counts them, and
    ``train_persons`` those with a training node.

    ``unit`` is the privacy unit under which these facts are public, which certificates name elsewhere: no plan of another unit
    takes them. Facts that are written by hand may leave it out; then they hold only what every unit makes public, and the graph
    that is fitted must have the same.
    """

    num_nodes: int
    num_train: int
    num_features: int
    num_classes: int
    directed: bool
    max_degree: int | None = None
    mean_degree: float | None = None
    num_arcs: int | None = None
    untrained_classes: int | None = None
    assumed: tuple[str, ...] = ()
    degree_bounds: bool = False
    image_shape: tuple[int, int, int] | None = None
    target: str | None = None
    target_range: tuple[float, float] | None = None
    max_weight: float | None = None
    edge_types: tuple[str, ...] | None = None
    public_types: tuple[str, ...] | None = None
    split: tuple[float, ...] | None = None
    edges_per_person: int | None = None
    nodes_per_person: int | None = None
    num_persons: int | None = None
    train_persons: int | None = None
    unit: Any = None

    def __post_init__(self) -> None:
        check_promises(self.num_nodes, self.max_degree, self.mean_degree)
        told = () if self.unit is None else _public_parts(self.unit)
        for name, parts in _NEEDS.items():
            if getattr(self, name) is not None and not {*parts} <= {*told}:
                under = "without a unit" if self.unit is None else f"under {self.unit}"
                raise InputError(
                    f"Expected public facts without {name} {under}: it is public only where {' and '.join(parts)} are. Use "
                    "graph.public_facts(unit), which leaves it out there."
                )

    @property
    def num_learned(self) -> int:
        """How many records DP-SGD draws from: persons who own training nodes, or training nodes; at least 1."""
        return max(self.num_train if self.train_persons is None else self.train_persons, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that certificates keep; facts that only some data sets have are there only where they are known."""
        return {
            name: list(value) if isinstance(value, tuple) and name != "assumed" else value
            for name, value in ((one.name, getattr(self, one.name)) for one in fields(self) if one.name != "unit")
            if (value is not None and value is not False) or name not in _WHERE_KNOWN
        }


def public_facts(graph: Any, unit: Any, *, assume_public: bool = False) -> PublicFacts:
    check_texts(graph, unit.public)
    check_kind(bool, assume_public=assume_public)
    if not assume_public:
        check_declared(graph, unit)
    tell_outside(graph, unit.public)
    protected = [
        fact for fact in graph.assumed_public if ("labels" if fact in _OF_LABELS else "features") not in unit.public
    ]
    usual, split = unit.split or DEFAULT_FRACTIONS, None
    train = split_sizes(int(among(graph, "labels" in unit.public).sum()), usual)[0]
    if graph.roles is not None and "labels" not in unit.public:
        said = None if graph.drawn is None else graph.drawn[0]
        by_owners = graph.nodes_per_person is not None and "owners" not in unit.public
        if by_owners and unit.private and "labels" not in unit.public:
            raise InputError(
                f"Expected unit person for a table with at most {graph.nodes_per_person} nodes of each person, got {unit.name}: "
                "which nodes are in it depends on who owns them, and that is protected here. Use unit person, or read the table "
                "without person and nodes_per_person."
            )
        drawn = isinstance(said, str) and said == digest_of_roles(graph.roles) and not by_owners
        split = graph.drawn[1] if drawn and graph.drawn[1] != usual else None
        protected += [] if drawn else [ROLES]
    return PublicFacts(
        num_nodes=graph.num_nodes,
        num_train=train if graph.roles is None else int(graph.train_mask.sum()),
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        directed=graph.directed,
        max_degree=graph.max_degree,
        mean_degree=graph.mean_degree,
        num_arcs=graph.num_arcs if _told("num_arcs", unit) else None,
        untrained_classes=_untrained_classes(graph) if _told("untrained_classes", unit) else None,
        assumed=tuple(protected),
        degree_bounds=graph.degree_bounds is not None,
        image_shape=graph.image_shape,
        target=None if graph.targets is None else graph.targets.kind,
        target_range=None if graph.targets is None else graph.targets.limits,
        max_weight=None if graph.weights is None else graph.weights.bound,
        edge_types=None if graph.types is None else graph.types.names,
        public_types=None if graph.types is None else graph.types.public or None,
        split=split,
        edges_per_person=graph.edges_per_person,
        **_of_persons(graph, unit),
        unit=unit,
    )


def _of_persons(graph: Any, unit: Any) -> dict[str, int]:
    """The facts of the persons who own nodes, under the unit to which they matter."""
    if "owners" not in unit.public or graph.nodes_per_person is None:
        return {}
    everyone = len(np.unique(graph.cells))
    learned = split_sizes(everyone)[0] if graph.roles is None else len(np.unique(graph.cells[graph.train_mask]))
    return {"nodes_per_person": graph.nodes_per_person, "num_persons": everyone, "train_persons": learned}


def among(graph: Any, labeled: bool) -> np.ndarray:
    """Mark the nodes that a split of ``graph`` is drawn over, those with a label if ``labeled``; all, if none has one."""
    known = labeled_mask(graph) if labeled else np.zeros(graph.num_nodes, dtype=bool)
    return known if known.any() else ~known


def labeled_mask(graph: Any) -> np.ndarray:
    """Mark the nodes of ``graph`` with a label or target: bool [num_nodes]."""
    if graph.targets is not None:
        known: np.ndarray = graph.targets.known
        return known
    return np.zeros(graph.num_nodes, dtype=bool) if graph.y is None else graph.y >= 0


def by_ids(graph: Any, roles: np.ndarray, fractions: tuple[float, ...] | None = None) -> Any:
    """Return ``graph`` with ``roles`` that follow from its ids alone, and so are public wherever ids are.

    ``fractions`` are the shares of all nodes that a draw over ids gave the roles to; None if they follow in another way.
    """
    return graph.changed(roles=roles, drawn=(digest_of_roles(roles), fractions))


def _public_parts(given: Any) -> tuple[str, ...]:
    parts = getattr(given, "public", None)
    if not isinstance(parts, tuple):
        raise fail("unit", type(given).__name__, "to be a unit such as sf.EdgeLevel(directed=False), or None")
    return parts


def _told(fact: str, unit: Any) -> bool:
    return {*_NEEDS[fact]} <= {*unit.public}


def _untrained_classes(graph: Any) -> int | None:
    if graph.y is None or graph.roles is None:
        return None
    return graph.num_classes - int(np.count_nonzero(np.bincount(graph.y[graph.train_mask & (graph.y >= 0)])))
