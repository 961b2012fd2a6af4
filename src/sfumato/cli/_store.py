"""`sfumato data`: tables that are larger than memory become a store, which `--graph` opens."""

from __future__ import annotations

import json
import time
from pathlib import Path

import typer

from sfumato._files import PARTIAL
from sfumato._optional import check_installed
from sfumato.cli import _describe as describe
from sfumato.cli._options import of
from sfumato.cli._output import stage_bars
from sfumato.cli._table import JSON, one_or_more
from sfumato.errors import DataError, MemoryLimitError

app = typer.Typer(help="Import and check stored graphs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Import and check stored graphs."""


app.command("describe")(describe.describe)


@app.command("import")
def import_store(
    nodes: Path = typer.Option(..., "--nodes", help="The table of nodes, as CSV or Parquet. Its ids are public."),
    edges: list[Path] = typer.Option(
        ..., "--edges", help="A table of edges, as CSV or Parquet. Each row is one edge. May be repeated."
    ),
    out: Path = typer.Option(..., "--out", help="A new folder for the stored graph."),
    label: list[str] | None = of("label"),
    schema: Path | None = of("schema"),
    directed: bool | None = of("directed"),
    drop: list[str] | None = of("drop"),
    memory_limit: str = typer.Option(
        "2GB",
        "--memory-limit",
        help="How much memory sorting may take, from 500MB on; about 100 bytes a node come on top.",
    ),
    as_json: bool = JSON,
) -> None:
    """Turn tables into a stored graph, without holding the edges in memory.

    `--graph STORE` then stands wherever `--dataset` does. The store appears once it is whole. If the import is stopped, the same
    command goes on after the last finished stage, which it keeps in a folder beside the store.
    """
    start = time.perf_counter()
    check_installed("duckdb", "pyarrow", "numba")
    from sfumato.graph._graph import Graph
    from sfumato.tables._importing import import_tables

    columns: list[describe.Columns] = []
    try:
        with stage_bars(as_json) as report:
            import_tables(
                nodes,
                edges,
                out,
                memory_limit=memory_limit,
                report=report,
                label=one_or_more(label),
                schema=schema,
                directed=directed,
                drop=tuple(drop or ()),
                told=describe.kept(columns),
            )
    except (KeyboardInterrupt, OSError, MemoryLimitError) as error:
        if out.with_name(out.name + PARTIAL).exists():
            error.add_note("The same command goes on after the last finished stage.")
        raise
    graph = Graph.load(out)
    describe.tell_columns([] if as_json else columns, graph, ())
    told = {
        "out": str(out),
        "nodes": graph.num_nodes,
        "arcs": graph.num_arcs,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "directed": graph.directed,
        "merged": graph.merged,
        "outside_schema": graph.outside,
        "assumed_public": list(graph.assumed_public),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        typer.echo(json.dumps(told))
        return
    merged = ", ".join(f"{count:,} {name.replace('_', '-')}" for name, count in graph.merged.items())
    kind = "directed" if graph.directed else "undirected"
    typer.echo(
        f"Wrote {graph.num_nodes:,} nodes and {graph.num_arcs:,} arcs ({kind}) to {out}. Merged or removed: {merged}. Counts of "
        "arcs are private."
    )


@app.command()
def check(
    graph: Path = typer.Argument(..., metavar="STORE", help="The folder of a stored graph."), as_json: bool = JSON
) -> None:
    """Read a stored graph from end to end, and compare it with the digests that were taken when it was written.

    Exit code 1: the folder is not as it was written.
    """
    from sfumato.graph._graph import Graph
    from sfumato.graph._storage import check_digests

    problems = []
    try:
        with stage_bars(as_json) as report:
            check_digests(graph, report)
        Graph.load(graph)
    except DataError as error:
        if not (graph / "graph.json").is_file():
            raise
        problems.append(str(error))
    if as_json:
        typer.echo(json.dumps({"graph": str(graph), "valid": not problems, "problems": problems}))
    else:
        typer.echo("\n".join(problems) or f"{graph} is as it was written.")
    raise typer.Exit(1 if problems else 0)
