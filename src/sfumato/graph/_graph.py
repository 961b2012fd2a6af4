"""The graph that every method reads holds compressed arcs, features, labels, and a declared direction."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_int, check_kind, fail
from sfumato._window import Window
from sfumato.errors import DataError, InputError
from sfumato.graph._accounts import checked_persons, drawn_roles
from sfumato.graph._arcs import (
    check_arcs,
    check_node_ids_in_range,
    check_pointers,
    check_symmetric,
    count_loops,
    nothing_merged,
    owners,
    pack_arcs,
    pack_edges,
    transpose_arcs,
)
from sfumato.graph._bounds import check_degree_bounds, check_promise
from sfumato.graph._checks import (
    as_array,
    check_features,
    check_image_shape,
    check_labels,
    check_names,
    check_node_ids,
    check_promises,
    check_roles,
)
from sfumato.graph._declared import CLASSES
from sfumato.graph._facts import PublicFacts as PublicFacts
from sfumato.graph._facts import Ranges, among, by_ids, public_facts
from sfumato.graph._packed import Features, FeaturesHeld
from sfumato.graph._persons import check_unbounded, with_persons
from sfumato.graph._shown import ShownGraph
from sfumato.graph._splits import DEFAULT_FRACTIONS
from sfumato.graph._stored import loaded_fields, save_graph, stored_facts
from sfumato.graph._targets import RANGE, Targets
from sfumato.graph._types import EdgeTypes, check_alone, with_types
from sfumato.graph._unique import facts_of_classes
from sfumato.graph._weights import EdgeWeights, with_weights

if TYPE_CHECKING:
    from sfumato.graph._later import Later


@dataclass(frozen=True, eq=False, repr=False)
class Graph(ShownGraph, FeaturesHeld):
    """A graph is directed or undirected, holds its arcs in compressed form, and carries features, labels and roles of nodes.

    The targets of node ``v`` are ``indices[indptr[v]:indptr[v+1]]``, sorted and unique; ``v`` owns these arcs. An
    undirected graph stores both arcs of every edge. The direction is declared, never read off the data.

    Shapes: ``indptr`` int64 [num_nodes + 1]; ``indices`` int32 [num_arcs]; ``x`` float32 [num_nodes, num_features],
    dense or CSR; ``y`` int64 [num_nodes] with -1 for missing; ``roles`` uint8 [num_nodes] with 0 train, 1 val,
    2 test, 3 none, or None while not split; ``node_ids`` the original ids in row order, or None for 0..N-1.
    ``max_degree`` bounds the out-arcs and the in-arcs of every node, ``mean_degree`` is an estimate: both are public
    promises, at most the number of nodes. ``degree_bounds`` bounds the out-arcs and the in-arcs of each single node, int64
    [num_nodes], and is public; None if nothing of the kind is. ``assumed_public`` names what was read from the data although a
    schema could have declared it; classes that are not given are numbered from the labels and listed there, and where fewer
    than 10 nodes hold one of them, methods that protect labels refuse the graph. ``undeclared`` names classes, categories and
    ranges of a table that nobody declared or marked as read off the data: see :meth:`public_facts`. ``merged`` counts what
    construction merged or removed; ``outside`` counts, by column, values beyond the schema, which were clipped or taken as
    missing. Both are private, for evaluation only.

    Raises:
        DataError: a shape is wrong, an index is out of range, a value is not finite, an arc or id is repeated, a label is
            outside the classes, there are targets beside them, a reverse arc is missing, or has another weight.
        SchemaError: a node is above the promised ``max_degree``, or above its own of the ``degree_bounds``.
        InputError: a promise is above the number of nodes, or an argument is wrong. Messages name a place, never a value.

    ``directed`` declares the direction, ``feature_names`` name the columns of ``x``, and ``name`` names the graph in messages.
    ``image_shape`` says that the columns of ``x`` are the pixels of images: channels, height and width. ``cells`` declares the
    cell of each node for :class:`~sfumato.privacy.units.SubclassLevel`, such as its user: int64 [num_nodes], -1 for none, public.
    ``ranges`` are the declared ends of columns of numbers, by which these were clipped and scaled.
    ``targets`` stand in place of ``y`` where several labels of a node or a number are learned
    (:class:`~sfumato.graph._targets.Targets`); then ``classes`` are the names of their columns.
    ``weights`` are those of the edges, clipped to a public bound (:class:`~sfumato.graph._weights.EdgeWeights`), and ``types``
    say which of several kinds of links an arc stands for (:class:`~sfumato.graph._types.EdgeTypes`). ``drawn`` is a digest of the
    roles of ``with_split`` and their fractions. ``window`` says that the arcs are those of a window of time
    (:mod:`sfumato._window`), ``edges_per_person`` that at most so many of one person's were kept (:mod:`sfumato.graph._persons`),
    ``nodes_per_person`` that ``cells`` are persons of at most so many nodes (:mod:`sfumato.graph._owned`). ``later`` are links
    from a day on, which no method reads (:class:`~sfumato.graph._later.Later`); they are not saved.

    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, y=[0, 0, 1, 1])
    >>> graph
    Graph('graph', 4 nodes, 3 undirected edges, 0 features, 2 classes)
    >>> graph.indices.tolist()
    [1, 0, 2, 1, 3, 2]
    """

    indptr: np.ndarray
    indices: np.ndarray
    directed: bool
    x: Features = Features()  # noqa: RUF009 - a descriptor, not a value that graphs would share
    y: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    node_ids: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    roles: np.ndarray | None = None
    name: str = "graph"
    max_degree: int | None = None
    mean_degree: float | None = None
    assumed_public: tuple[str, ...] = ()
    merged: dict[str, int] = field(default_factory=nothing_merged)
    outside: dict[str, int] = field(default_factory=dict)
    degree_bounds: np.ndarray | None = None
    image_shape: tuple[int, int, int] | None = None
    cells: np.ndarray | None = None
    ranges: Ranges = ()
    targets: Targets | None = None
    weights: EdgeWeights | None = None
    types: EdgeTypes | None = None
    drawn: tuple[str, tuple[float, ...] | None] | None = None
    undeclared: tuple[str, ...] = ()
    window: str | None = None
    edges_per_person: int | None = None
    later: Later | None = None
    nodes_per_person: int | None = None
    _checked: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.directed, bool):
            raise fail("directed", self.directed, "to be True or False", "Declare the direction of the edges.")
        check_promises(np.size(self.indptr) - 1, self.max_degree, self.mean_degree)
        if not self._passed(0, 3):
            self._check_arrays()
        if not self._passed(0, 4):
            check_promise(self.max_degree, self.indptr, self.indices)
        if not self._passed(4, 6):
            x, node_ids = check_features(self.stored_x, self.num_nodes), check_node_ids(self.node_ids, self.num_nodes)
            self._set(x=x, node_ids=node_ids)
        if self.degree_bounds is not None and not (self._passed(0, 2) and self._passed(6, 7)):
            self._set(degree_bounds=check_degree_bounds(self.degree_bounds, self.indptr, self.indices))
        if self.weights is not None and not (self._passed(0, 3) and self._passed(7, 8)):
            self.weights.check(self.indptr, self.indices, directed=self.directed)
        if self.types is not None:
            self._check_types(self.types)
        if self.targets is not None:
            self._take_targets(self.targets)
        self._set(window=self.window and str(Window.parse(self.window)))
        if self.edges_per_person is not None:
            self._set(edges_per_person=check_int(low=1, edges_per_person=self.edges_per_person))
        self._set(**check_names(self.classes, self.feature_names, self.assumed_public, self.undeclared))
        self._set(y=check_labels(self.y, self.num_nodes, len(self.classes)))
        self._set(roles=check_roles(self.roles, self.num_nodes), **checked_persons(self))
        if self.y is not None and not self.classes:
            counts = np.bincount(self.y[self.y >= 0])
            self._set(classes=tuple(map(str, range(len(counts)))))
            read = facts_of_classes(self.classes, counts.tolist())
            more = {"assumed_public": (*self.assumed_public, *read), "undeclared": (*self.undeclared, CLASSES)}
            self._set(**{name: tuple(dict.fromkeys(values)) for name, values in more.items()})
        if self.feature_names and len(self.feature_names) != self.num_features:
            raise DataError(
                f"Expected one feature name a column of x ({self.num_features}), got {len(self.feature_names)}. "
                "Pass as many names as columns, or none."
            )
        self._set(_checked=self._arrays(), image_shape=check_image_shape(self.image_shape, self.num_features))

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _arrays(self) -> tuple[Any, ...]:
        features = self.stored_x, self.node_ids
        return (
            self.indptr,
            self.indices,
            self.directed,
            self.max_degree,
            *features,
            self.degree_bounds,
            self.weights,
            self.types,
        )

    def _passed(self, start: int, stop: int) -> bool:
        """Say whether these very arrays passed before, so that ``replace(graph, roles=...)`` stays cheap."""
        before = self._checked[start:stop]
        return len(before) == stop - start and all(map(operator.is_, before, self._arrays()[start:stop]))

    def _check_arrays(self) -> None:
        indptr, indices = check_arcs(self.indptr, self.indices)
        self._set(indptr=indptr, indices=indices)
        if not self.directed:
            check_symmetric(indptr, indices)

    def _check_types(self, types: EdgeTypes) -> None:
        check_alone(self.weights, self.edges_per_person)
        if not (self._passed(0, 3) and self._passed(8, 9)):
            types.check(self.indptr, self.indices, directed=self.directed)

    def _take_targets(self, targets: Targets) -> None:
        check_kind(Targets, targets=targets)
        if self.y is not None or self.classes not in ((), targets.names) or len(targets.values) != self.num_nodes:
            raise DataError(
                f"Expected targets for {self.num_nodes} nodes in place of y and classes, got {targets!r} beside them or for "
                "other nodes. Pass y, or targets."
            )
        assumed = (RANGE,) if targets.assumed and RANGE not in self.assumed_public else ()
        self._set(classes=targets.names, assumed_public=(*self.assumed_public, *assumed))

    @classmethod
    def from_edges(
        cls, source: Any, target: Any, num_nodes: int, *, directed: bool, self_loops: str = "remove", **fields: Any
    ) -> Graph:
        """Build a graph from an edge list, one row for each edge.

        ``source`` and ``target`` are integers in [0, num_nodes), shape [num_rows], and ``num_nodes`` is the number of nodes.
        ``directed`` declares whether a row is one arc or an undirected edge. Undirected: both arcs are stored, and a row beside
        its reverse is merged; ``merged`` counts it. ``self_loops`` is ``"remove"`` (and count), ``"keep"`` or ``"error"``;
        ``fields`` are the other fields of :class:`Graph`; ``edge_weight``, one number >= 0 a row, with the public ``max_weight``
        becomes its ``weights`` (rows of one edge add up, then they are clipped). Of ``person``, who owns each row, at most
        ``edges_per_person`` edges each are kept. ``edge_type``, a name or number of the public ``edge_types`` a row, becomes its
        ``types``; ``public_types`` are those of them that are no secret.

        >>> Graph.from_edges([0, 1, 1], [1, 0, 1], 2, directed=False).merged
        {'duplicates': 0, 'reversed': 1, 'self_loops': 1}
        """
        source, target, fields = with_persons(fields, source, target, num_nodes, directed=directed)
        pack = pack_edges if directed is False else pack_arcs
        indptr, indices, merged = pack(source, target, num_nodes, self_loops)
        fields = with_types(fields, (indptr, indices), (source, target), pairs=directed is False)
        fields = with_weights(fields, (indptr, indices), (source, target), pairs=directed is False)
        return cls.from_sorted(indptr, indices, directed=directed, merged=merged, **fields)

    @classmethod
    def from_sorted(cls, indptr: np.ndarray, indices: np.ndarray, *, directed: bool, **fields: Any) -> Graph:
        """Build a graph from arcs that are known to be sorted, unique and, if undirected, in pairs: nothing checks them.

        ``indptr``, ``indices``, ``directed`` and ``fields`` are those of :class:`Graph`, of its very types.

        >>> Graph.from_sorted(np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32), directed=False).num_edges
        1
        """
        return cls(indptr, indices, directed, _checked=(indptr, indices, directed), **fields)

    @classmethod
    def from_arcs(
        cls, source: Any, target: Any, num_nodes: int, *, directed: bool, self_loops: str = "remove", **fields: Any
    ) -> Graph:
        """Build a graph from arcs; if undirected, both arcs of every edge must be there.

        ``source``, ``target``, ``num_nodes``, ``directed``, ``self_loops`` and ``fields`` are those of :meth:`from_edges`.

        >>> Graph.from_arcs([0, 1], [1, 0], 2, directed=False).num_edges
        1
        """
        check_unbounded(fields)
        indptr, indices, merged = pack_arcs(source, target, num_nodes, self_loops)
        fields = with_types(fields, (indptr, indices), (source, target), pairs=False)
        fields = with_weights(fields, (indptr, indices), (source, target), pairs=False)
        return cls(indptr, indices, directed, merged=merged, **fields)

    @classmethod
    def from_csr(cls, indptr: Any, indices: Any, *, directed: bool, self_loops: str = "remove", **fields: Any) -> Graph:
        """Build a graph from compressed rows; targets may be unsorted or repeated.

        ``directed``, ``self_loops`` and the other fields are those of :meth:`from_edges`.

        Shapes: ``indptr`` [num_nodes + 1], ``indices`` [num_arcs].

        >>> Graph.from_csr([0, 2, 3, 4], [2, 1, 0, 0], directed=False).indices.tolist()
        [1, 2, 0, 0]
        """
        indices = as_array("indices", indices)
        indptr = check_pointers(indptr, indices.size)
        indices = check_node_ids_in_range("indices", indices, len(indptr) - 1)
        return cls.from_arcs(
            owners(indptr), indices, len(indptr) - 1, directed=directed, self_loops=self_loops, **fields
        )

    @property
    def num_nodes(self) -> int:
        """Count the nodes of the graph."""
        return len(self.indptr) - 1

    @property
    def num_arcs(self) -> int:
        """Count the stored arcs; an undirected edge counts twice."""
        return len(self.indices)

    @cached_property
    def num_edges(self) -> int:
        """Count the arcs if directed, and the undirected pairs (and kept self-loops) otherwise."""
        if self.directed:
            return self.num_arcs
        loops = count_loops(self.indptr, self.indices)
        return (self.num_arcs + loops) // 2

    @property
    def num_classes(self) -> int:
        """Count the classes, or the columns of the targets; 0 without labels."""
        return len(self.classes)

    @property
    def train_mask(self) -> np.ndarray:
        """Mark the nodes that train: bool [num_nodes]."""
        return self._mask(0)

    @property
    def val_mask(self) -> np.ndarray:
        """Mark the nodes that validate: bool [num_nodes]."""
        return self._mask(1)

    @property
    def test_mask(self) -> np.ndarray:
        """Mark the nodes that test: bool [num_nodes]."""
        return self._mask(2)

    def _mask(self, role: int) -> np.ndarray:
        if self.roles is None:
            raise InputError(
                f"Expected graph {self.name!r} to have roles, got None. Call graph.with_split() or with_roles() first."
            )
        mask: np.ndarray = self.roles == role
        return mask

    @cached_property
    def _transposed(self) -> tuple[np.ndarray, np.ndarray]:
        return transpose_arcs(self.indptr, self.indices)

    def transpose(self) -> tuple[np.ndarray, np.ndarray]:
        """Group arcs by destination, ``(indptr, indices)``; for an undirected graph these are the same arrays.

        >>> Graph.from_edges([0, 0], [1, 2], 3, directed=True).transpose()[1].tolist()
        [0, 0]
        """
        return self._transposed if self.directed else (self.indptr, self.indices)

    def with_roles(self, roles: Any) -> Graph:
        """Return the same graph with these roles: integers [num_nodes], 0 train, 1 val, 2 test, 3 none."""
        return self.changed(roles=roles, drawn=None)

    def with_split(
        self, fractions: Sequence[float] = DEFAULT_FRACTIONS, seed: int = 0, *, labeled: bool = False
    ) -> Graph:
        """Return the same graph with roles drawn at random over node ids; this reads nothing private.

        ``fractions`` and ``seed`` are those of :func:`~sfumato.graph._splits.random_roles`. ``labeled`` draws the roles over the
        nodes with a label, and gives the others none: only where who has a label is public.

        >>> graph = Graph.from_edges([0], [1], 20, directed=False).with_split(seed=1)
        >>> graph.train_mask.sum(), graph.test_mask.sum()
        (np.int64(15), np.int64(3))
        """
        roles = drawn_roles(self, among(self, labeled), tuple(fractions), seed)
        return self.with_roles(roles) if labeled else by_ids(self, roles, tuple(map(float, fractions)))

    def public_facts(self, unit: Any, *, assume_public: bool = False) -> PublicFacts:
        """Return what calibration may know under a privacy unit.

        A unit is anything with ``public``, a tuple of names, ``split`` and ``needs_schema``. Degrees appear only as promised;
        75 % of the nodes train where roles are not set yet, or the share in ``unit.split``. With ``assume_public``, what nobody
        declared is taken for public where it is protected, and listed; without, it is refused there.

        Raises:
            InputError: classes, categories or ranges are protected under the unit, and are not declared.

        >>> from types import SimpleNamespace
        >>> graph = Graph.from_edges([0], [1], 40, directed=False, y=[0, 1] * 20)
        >>> graph.public_facts(SimpleNamespace(public=("node_ids", "roles"), split=None), assume_public=True).assumed
        ('classes',)
        """
        return public_facts(self, unit, assume_public=assume_public)

    def save(self, directory: str | Path) -> Path:
        """Write the graph as .npy files and graph.json into a new directory, whole or not at all."""
        return save_graph(self, Path(directory))

    def stored_facts(self) -> dict[str, Any]:
        """Return what graph.json says beside the arrays."""
        return stored_facts(self)

    @classmethod
    def load(cls, directory: str | Path, mmap: bool = True) -> Graph:
        """Read the ``directory`` that :meth:`save` or :func:`~sfumato.tables._importing.import_tables` wrote.

        With ``mmap`` arrays stay on disk until they are read. Whatever a sensitivity rests on is checked: arcs are in order, none
        is there twice, promises and bounds on degrees hold, weights are clipped, types are declared. So are types, shapes and the
        columns of sparse features. Values of features, ids and the reverse of every arc are trusted as saved.

        Raises:
            DataError: a file is missing or damaged.
            SchemaError: a node has more arcs than graph.json promises.
        """
        fields, checked = loaded_fields(Path(directory), mmap)
        return cls(**fields, _checked=checked)
