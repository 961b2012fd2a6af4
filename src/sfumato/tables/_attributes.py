"""Nodes, edges and attributes of NetworkX become two Arrow tables, which the rules of all tables read."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._optional import require
from sfumato.errors import DataError
from sfumato.graph._unique import leave_out

if TYPE_CHECKING:
    import networkx as nx


KEY = "key"
"""The name by which the keys of a multigraph are read as an attribute."""


def names_of(facts: Iterable[dict[Any, Any]]) -> list[str]:
    """Return the names of the attributes of nodes or edges, in the order in which they come, trimmed as those of columns are."""
    return list(dict.fromkeys(str(key).strip() for one in facts for key in one))


def node_table(g: nx.Graph, attributes: Iterable[str], every: Iterable[str] = ()) -> tuple[Any, str]:
    """Return nodes and some of their attributes as a table, and the name of its column of ids."""
    pa = require("pyarrow")
    import pyarrow.types as pt

    if not len(g):
        raise DataError("Expected g to have at least one node, got an empty graph. Add nodes first.")
    every = [*every]
    wanted = list(dict.fromkeys((*attributes, *every)))
    ids = unused("id", wanted)
    facts = [facts for _, facts in g.nodes(data=True)]
    columns = {ids: pa.chunked_array([_ids(list(g.nodes()))])}
    there = names_of(facts)
    lacking = next((name for name in wanted if name not in there), None)
    if lacking is not None:
        raise DataError(f"Expected nodes to have the attribute {lacking!r}, got none with it. Check its name.")
    for name in sorted(wanted, key=there.index):
        columns[name] = one_kind(_values(facts, name), name)
        if name in every and pt.is_nested(columns[name].type):
            raise DataError(
                f"Expected the attribute {name!r} to hold one value a node, got lists or the like. If it is a vector of "
                f"features, name it alone: features={name!r}; else {leave_out(name)}."
            )
    return pa.table(columns), ids


def edge_table(g: nx.Graph, ids: Any, read: Sequence[str | None]) -> tuple[Any, tuple[str, str]]:
    """Return edges as a table with some attributes, ends named by the ids of the nodes, and the names of its columns of ends."""
    pa = require("pyarrow")
    at = {node: row for row, node in enumerate(g.nodes())}
    rows = np.array([(at[u], at[v]) for u, v, *_ in g.edges()], dtype=np.int64).reshape(-1, 2)
    source = unused("source", read)
    target = unused("target", read)
    columns = {name: ids.take(pa.array(rows[:, side])) for side, name in enumerate((source, target))}
    for name in filter(None, read):
        facts = [facts for *_, facts in g.edges(data=True)]
        if name == KEY and g.is_multigraph() and KEY not in names_of(facts):
            facts = [{KEY: key} for *_, key in g.edges(keys=True)]
        columns[name] = one_kind(_values(facts, name), name)
    return pa.table(columns), (source, target)


def one_kind(values: Sequence[Any], name: str) -> Any:
    """Return the values of an attribute as a column."""
    pa = require("pyarrow")
    try:
        return pa.chunked_array([pa.array(values, from_pandas=True)])
    except (TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException):  # their words quote values
        raise DataError(
            f"Expected the attribute {name!r} to hold values of one kind: all text, or all booleans, or all 64-bit numbers. "
            f"Convert the others, or {leave_out(name)}."
        ) from None


def unused(name: str, others: Iterable[str | None]) -> str:
    """Return a name for a column that no other has."""
    taken = {*others}
    while name in taken:
        name += "_"
    return name


def _values(facts: Sequence[dict[Any, Any]], name: str) -> list[Any]:
    """An attribute of every node or edge, None where it has none."""
    spelled = {key for one in facts for key in one if str(key).strip() == name}
    if len(spelled) > 1:
        raise DataError(
            f"Expected every attribute to have a name of its own, got {name!r} in {len(spelled)} ways that differ by white "
            "space. Rename one of them."
        )
    key = next(iter(spelled), name)
    return [one.get(key) for one in facts]


def _ids(nodes: list[Any]) -> Any:
    """Nodes as a column of ids: numbers where all are, else text."""
    pa = require("pyarrow")
    if all(isinstance(node, int | float | np.integer | np.floating) and not isinstance(node, bool) for node in nodes):
        whole = [int(node) if _whole(node) else node for node in nodes]
        if not all(isinstance(node, int) for node in whole):
            return pa.array([float(node) for node in nodes], pa.float64())  # which the rule for ids refuses
        if all(-(2**63) <= node < 2**63 for node in whole):
            return pa.array(whole, pa.int64())
        nodes = whole
    texts = [str(_plain(node)) for node in nodes]
    try:
        return pa.array(texts, pa.large_string())
    except ValueError:
        raise DataError("Expected nodes of g to be text that UTF-8 has, got others. Relabel them.") from None


def _plain(node: Any) -> Any:
    """A node that has one spelling: text, a number, a UUID, or a tuple of these. Sets and objects have another each time."""
    if isinstance(node, str):
        return str.__str__(node)
    if isinstance(node, int | float | np.integer | np.floating) and not isinstance(node, bool):
        return int(node) if _whole(node) else float(node)
    if isinstance(node, uuid.UUID):
        return str(node)
    if isinstance(node, tuple):
        return tuple(_plain(part) for part in node)
    kind = "a boolean" if isinstance(node, bool | np.bool_) else type(node).__name__
    raise DataError(
        f"Expected nodes of g to be numbers, text or tuples of these, got {kind}. Relabel them: networkx.relabel_nodes."
    )


def _whole(node: Any) -> bool:
    from sfumato.tables._whole import EXACT  # which needs Arrow, and a graph is written without it

    if isinstance(node, int | np.integer):
        return True
    return bool(np.isfinite(node)) and float(node).is_integer() and abs(node) < EXACT
