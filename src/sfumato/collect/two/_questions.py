"""What each of two operators gives: the question as TOML, and the public tables that the cells of users follow from."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._encoding import decoded
from sfumato._validate import check_real
from sfumato.collect._checks import check_keys, utc
from sfumato.collect.two._agreement import Agreement, Partition, Party
from sfumato.errors import DataError, SchemaError
from sfumato.graph._graph import Graph
from sfumato.local._cells import cells_of
from sfumato.local._collection import topology
from sfumato.local._shared_counts import SharedCounts
from sfumato.tables._io import read_ends

_SOME = (Party("22" * 32, "33" * 32), Party("44" * 32, "55" * 32))
_NEEDED = ("collection", "purpose", "opens", "closes", "label")


def read_terms(path: Path) -> dict[str, Any]:
    """Read the question of two servers: the file of `collect init`, with a label of which classes and epsilon are given.

    ``least``, the fewest reports of a cell that is opened, may be given beside them.

    Raises:
        SchemaError: the file is no TOML, or asks for something else.
        InputError: a number is out of range.
    """
    try:
        values = tomllib.loads(decoded(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"Expected {path.name} to be TOML, got an error: {error}.") from error
    for name in ("features", "links", "upload"):
        if name in values:
            raise SchemaError(f"Expected a label alone with two servers, got {name!r} in {path.name}. Remove it.")
    check_keys(path.name, values, _NEEDED, ("least",))
    label = values["label"]
    if not isinstance(label, dict):
        raise SchemaError(f"Expected label to be a table, got {type(label).__name__}. Write [label].")
    check_keys("[label]", label, ("classes", "epsilon"), ())
    classes, epsilon = label["classes"], label["epsilon"]
    if not isinstance(classes, list) or not isinstance(epsilon, (int, float)):
        raise SchemaError("Expected label.classes as a list and label.epsilon as a number.")
    epsilon = check_real(epsilon=epsilon)
    texts = {name: values[name] for name in ("collection", "purpose")}
    times = {name: utc(values[name]) for name in ("opens", "closes")}
    terms = {**texts, **times, "classes": classes, "epsilon": epsilon, "least": values.get("least", 1)}
    Agreement(**{**terms, "classes": tuple(classes)}, parties=_SOME, partition="0" * 64, key="0" * 64)  # it checks them
    return terms


def public_cells(edges: Path, users: Sequence[str] | None, epsilon: float) -> Partition:
    """Put every user who is asked into one cell, from the public table of edges and who is asked alone.

    Cells are those of :class:`~sfumato.local._shared_counts.SharedCounts`; they do not depend on the order of rows or users.

    Args:
        edges: the table of links, as CSV or Parquet.
        users: who is asked; None asks everybody in the table. Users without a link are allowed.
        epsilon: that of the question, which sets how many users a cell has.

    Raises:
        DataError: fewer than two users are asked, or nobody of them has a link.
    """
    sources, targets = read_ends(edges)
    asked = set(users if users is not None else (*sources, *targets))
    linked = {*sources, *targets}
    if len(asked) < 2 or not asked & linked:
        raise DataError(
            f"Expected two users or more who are asked, some of them in {edges.name}, got {len(asked)} of whom "
            f"{len(asked & linked)} have a link. Name users there as in the list of who is asked."
        )
    ids = sorted(linked | asked)
    places = {one: place for place, one in enumerate(ids)}
    first, second = ([places[one] for one in ends] for ends in (sources, targets))
    graph = Graph.from_edges(first, second, len(ids), directed=False)
    chosen = np.array([one in asked for one in ids])
    cells = cells_of(topology(graph), chosen, SharedCounts(epsilon_y=epsilon).size)
    return Partition.of_rows([(one, int(cells[place])) for one, place in places.items() if one in asked])
