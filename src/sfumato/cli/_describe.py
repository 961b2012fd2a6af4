"""`sfumato data describe`: what two tables are read as, who may know it under each unit, and a schema to start from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from sfumato._optional import check_installed
from sfumato.cli._options import of
from sfumato.cli._table import JSON, one_or_more
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.tables._cells import ReadColumn
    from sfumato.tables._outline import Outline

Columns: TypeAlias = "tuple[str, Sequence[ReadColumn]]"
"""The place of a table, and what its columns were taken for."""

_WORDS = {"node_ids": "ids", "roles": "roles", "features": "features", "labels": "labels", "arcs": "edges"}
"""The parts of the data in plain words, as the ``public`` of units names them."""


def describe(
    nodes: Path = typer.Argument(..., metavar="NODES", help="The table of nodes, as CSV or Parquet."),
    edges: Path = typer.Argument(..., metavar="EDGES", help="The table of edges, as CSV or Parquet."),
    label: list[str] | None = of("label"),
    schema: Path | None = of("schema"),
    directed: bool | None = of("directed"),
    drop: list[str] | None = of("drop"),
    edge_weight: str | None = of("edge_weight"),
    max_weight: float | None = of("max_weight"),
    edge_type: str | None = of("edge_type"),
    edge_types: list[str] | None = of("edge_types"),
    public_types: list[str] | None = of("public_types"),
    write_schema: Path | None = typer.Option(
        None,
        "--write-schema",
        help="A new file for a schema to start from. It holds names and kinds of columns, and no value.",
    ),
    from_data: bool = typer.Option(
        False,
        "--from-data",
        help="With --write-schema: also write classes and categories that are read off the data, marked as such.",
    ),
    as_json: bool = JSON,
) -> None:
    """Say what two tables are read as, a line for each column, and what is public or private under each unit.

    Nothing is trained, no budget is needed, and nothing leaves this machine. The output is for the owner of the data: it counts
    missing cells and edges, which are private.
    """
    from sfumato.evaluation._source import Source

    check_installed("duckdb", "pyarrow", "numba")
    from sfumato.graph._schema import Schema
    from sfumato.graph._types import declared_types
    from sfumato.graph._weights import declared_weight
    from sfumato.tables._cells import numbers
    from sfumato.tables._outline import Outline, schema_text
    from sfumato.tables._tables import FileTable

    if from_data and write_schema is None:
        raise InputError("Expected --from-data with --write-schema FILE, got none. Name the file.")
    if write_schema is not None and write_schema.exists():
        raise InputError(
            f"Expected --write-schema to be a new file, got {str(write_schema)!r}, which exists. Name another."
        )
    source = Source(
        nodes=str(nodes), edges=str(edges), label=one_or_more(label), schema=None if schema is None else str(schema),
        directed=directed, edge_weight=edge_weight, max_weight=max_weight, drop=tuple(drop or ()),
        edge_type=edge_type, edge_types=tuple(edge_types or ()), public_types=tuple(public_types or ()),
    ).check(labeled=False)  # fmt: skip
    told: list[Columns] = []
    graph = source.load(told=kept(told))
    outline = Outline(told, graph)
    declared = Schema.read(schema)
    if write_schema is not None:
        weight = declared_weight(edge_weight, max_weight, declared.edges)
        types = declared_types(edge_type, edge_types, public_types, declared.edges)
        table = FileTable(nodes)
        text = schema_text(
            outline, declared, weight, types, drop=source.drop, from_data=from_data,
            numbers=lambda name: numbers(table.column(name)),
        )  # fmt: skip
        write_page(write_schema, text)
    if as_json:
        units = [{"units": words, "public": public, "private": private} for words, public, private in _by_unit()]
        told_of = {**outline.to_dict(), "units": units, "assumed_public": list(graph.assumed_public)}
        typer.echo(json.dumps({**told_of, "schema": None if write_schema is None else str(write_schema)}))
        return
    for text in (
        *outline.lines(),
        "",
        *_who_may_know(outline),
        *_undeclared(graph, labeled=source.label or declared.label),
    ):
        typer.echo(text)
    if write_schema is not None:
        typer.echo(f"Wrote a schema to start from to {write_schema}.", err=True)


def _by_unit() -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield words of units with the parts of the data that are public and private under them, as the units themselves say."""
    from sfumato.privacy.units import UNITS

    groups: dict[tuple[str, ...], list[str]] = {}
    for unit in UNITS:
        for public in {forms[0].public for forms in unit.forms().values()}:
            groups.setdefault(tuple(part for part in _WORDS if part in public), []).extend(unit.spelled())
    for public, words in groups.items():
        yield words, [*public], [part for part in _WORDS if part not in public]


def _who_may_know(outline: Outline) -> Iterator[str]:
    """Yield for units of one kind which columns are public and private."""
    columns = outline.of(_WORDS)

    def named(parts: list[str]) -> str:
        there = [f"{_WORDS[part]} ({', '.join(columns[part])})" for part in parts if columns[part]]
        return ", ".join(there) or "nothing"

    yield "What anybody may know (public) and what is protected (private):"
    for words, public, private in _by_unit():
        yield f"  --unit {', '.join(words)}"
        yield f"    public: {named(public)}"
        yield f"    private: {named(private)}"


def _undeclared(graph: Graph, *, labeled: Any) -> Iterator[str]:
    """Yield what is assumed public where it is protected, and what to do next."""
    from sfumato.graph._schema import CATEGORIES
    from sfumato.graph._unique import NAMES, RARE, RARE_CLASSES, TEXTS

    facts = [
        fact.replace(RARE, CATEGORIES)
        for fact in graph.assumed_public
        if fact not in (NAMES, RARE_CLASSES) and not fact.startswith(TEXTS)
    ]  # the reader has warned
    if facts:
        yield ""
        yield f"No schema declares: {', '.join(facts)}."
        yield (
            "Where features or labels are private, this is read off the data and listed in the certificate as assumed public. "
            "Declare what is known without the data: --write-schema FILE writes a schema to start from."
        )
    if not labeled:
        yield ""
        yield "No label is named: every column of the node table is a feature. Name the one to learn with --label COLUMN."


def kept(told: list[Columns]) -> Callable[[str, Sequence[ReadColumn]], None]:
    """Return what a reader tells its tables to: they are put into a list."""
    return lambda place, columns: told.append((place, columns))


def tell_columns(told: list[Columns], graph: Graph, public: Sequence[str]) -> None:
    """Print on standard error what tables were read as, without what is protected under a unit."""
    from sfumato.tables._outline import Outline

    if told:
        print(*Outline(told, graph).lines(public), sep="\n", file=sys.stderr)
