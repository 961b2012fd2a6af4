"""A PyTorch Geometric ``HeteroData`` becomes one graph: its types of nodes are features, and its types of edges are types."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph._graph import Graph
from sfumato.tables import _tensors

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

_REVERSED = "rev_"
"""How ``ToUndirected`` names the copy of a type that leads back."""


def from_hetero(
    data: HeteroData,
    directed: bool,
    *,
    label: str | None = None,
    public_types: Sequence[str] = (),
    classes: Sequence[str] = (),
    self_loops: str = "remove",
    name: str = "graph",
) -> Graph:
    """Read a ``HeteroData`` as a graph with types of edges.

    Nodes of all types are one list, in the order of ``data.node_types``. Their features are columns ``type=NAME`` and, side by
    side, those of each type (zero for nodes of other types), sparse. Labels and masks are those of one type of nodes; all
    others have no label and no role. The types of ``data.edge_types`` are named ``relation``, or ``source>relation>target`` where
    the relation alone is not unique; they count as declared, also those without edges, and ``public_types`` are no secret.
    A type ``rev_...`` that leads back along another one is the same record once more: it is left out with a warning where
    edges are undirected, and refused where they are directed.

    Args:
        data: the graph.
        directed: whether edges of all types have a direction.
        label: the type of nodes whose ``y`` and masks are read; None takes the only one with ``y``.
        public_types: names of types of edges that are not protected.
        classes: names of the classes.
        self_loops: "remove" (and count), "keep" or "error".
        name: the name of the graph.

    Raises:
        DataError: a type has no number of nodes, or its arrays do not fit.
        InputError: ``label`` names no type with labels, or several have some and none is named.
    """
    kinds = [str(one) for one in data.node_types]
    counts = {one: _count(data[one], one) for one in kinds}
    starts = dict(zip(kinds, np.concatenate([[0], np.cumsum([counts[one] for one in kinds])]).tolist(), strict=False))
    total = sum(counts.values())
    labeled = [one for one in kinds if getattr(data[one], "y", None) is not None]
    if label is None and len(labeled) > 1:
        raise InputError(
            f"Expected labels of one type of nodes, got those of {', '.join(labeled)}. Name one with label."
        )
    if label is not None and label not in labeled:
        raise InputError(
            f"Expected label to be a type of nodes with y, got {label!r}. Take one of {', '.join(labeled)}."
        )
    chosen = label or (labeled[0] if labeled else None)
    fields: dict[str, Any] = {"classes": classes, "name": name}
    if chosen is not None:
        own = slice(starts[chosen], starts[chosen] + counts[chosen])
        y = _tensors.dense(data[chosen].y, f"{chosen}.y")
        fields["y"] = np.full(total, -1, np.int64)
        fields["y"][own] = y[:, 0] if y.ndim == 2 else y
        roles = _tensors.roles(data[chosen], counts[chosen])
        if roles is not None:
            fields["roles"] = np.full(total, 3, np.uint8)
            fields["roles"][own] = roles
    x, names = _features(data, kinds, counts)
    ends, codes, types = _edges(data, starts, counts, directed)
    return Graph.from_edges(
        *ends, total, directed=directed, self_loops=self_loops, x=x, feature_names=names, edge_type=codes, edge_types=types,
        public_types=tuple(public_types), assumed_public=("num_features",), **fields,
    )  # fmt: skip


def _count(store: Any, name: str) -> int:
    found = store.num_nodes
    if found is None:
        raise DataError(f"Expected the number of nodes of type {name!r}, got none. Set data[{name!r}].num_nodes.")
    return int(found)


def _features(data: Any, kinds: list[str], counts: dict[str, int]) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    types = sp.block_diag([np.ones((counts[one], 1), np.float32) for one in kinds])
    parts, names = [], [f"type={one}" for one in kinds]
    for one in kinds:
        x = _tensors.features(getattr(data[one], "x", None))
        part = sp.csr_matrix((counts[one], 0), dtype=np.float32) if x is None else sp.csr_matrix(x, dtype=np.float32)
        if part.shape[0] != counts[one]:
            raise DataError(
                f"Expected features of {counts[one]} nodes of type {one!r}, got {part.shape[0]}. Correct x."
            )
        parts.append(part)
        names += [f"{one}[{column}]" for column in range(part.shape[1])]
    return sp.csr_matrix(sp.hstack([types, sp.block_diag(parts)]), dtype=np.float32), tuple(names)


def _edges(
    data: Any, starts: dict[str, int], counts: dict[str, int], directed: bool
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, tuple[str, ...]]:
    """The ends of all edges, the number of the type of each, and the names of the types."""
    there = [tuple(map(str, one)) for one in data.edge_types]
    back = [one for one in there if _is_reverse(one, there)]
    if back and directed:
        raise DataError(
            f"Expected each type of edges once, got {back[0][1]!r}, which leads back along another: one edge would be two "
            "records. Delete it (del data[type]), or declare directed=False."
        )
    if back:
        told = ", ".join(one[1] for one in back)
        warnings.warn(f"Not read: {told}. Edges are undirected: these lead back along other types.", DroppedWarning, 3)
    kept = [one for one in there if one not in back]
    if not kept:
        raise DataError("Expected data to have edges of some type, got none. Add edge_index to a type.")
    alone = [relation for _, relation, _ in kept]
    names = tuple(one[1] if alone.count(one[1]) == 1 else ">".join(one) for one in kept)
    parts, codes = [], []
    for code, (source, relation, target) in enumerate(kept):
        ends = _tensors.dense(data[source, relation, target].edge_index, f"{relation}.edge_index")
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise DataError(
                f"Expected edge_index of shape [2, num_arcs] for {relation!r}, got {ends.shape}. Transpose it."
            )
        for side, kind in enumerate((source, target)):
            if ends.shape[1] and not 0 <= ends[side].min() <= ends[side].max() < counts[kind]:
                raise DataError(
                    f"Expected ends of {relation!r} among the nodes of type {kind!r}, got others. Correct them."
                )
        parts.append(ends.astype(np.int64) + np.array([[starts[source]], [starts[target]]]))
        codes.append(np.full(ends.shape[1], code, np.int64))
    whole = np.concatenate(parts, axis=1)
    return (whole[0], whole[1]), np.concatenate(codes), names


def _is_reverse(one: tuple[str, ...], there: list[tuple[str, ...]]) -> bool:
    source, relation, target = one
    return relation.startswith(_REVERSED) and (target, relation.removeprefix(_REVERSED), source) in there
