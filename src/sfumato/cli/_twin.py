"""`sfumato twin`: a graph that may be given away, made of a release of statistics alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import whole_folder, write_json
from sfumato._optional import LIGHT, check_installed
from sfumato._validate import check_choice, fail
from sfumato.cli._newest import run_of
from sfumato.cli._options import of
from sfumato.cli._table import JSON
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.evaluation._kept import check_outside, write_page

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


def twin(
    run: Path = typer.Argument(..., help="The folder of a run of statistics, or a ledger: its newest run."),
    out: Path = typer.Option(..., "--out", help="The folder to create: both tables, README.txt and twin.json."),
    nodes: Path | None = typer.Option(
        None, "--nodes", help="The table of nodes (default: that of the run). No table of edges is read."
    ),
    label: str | None = typer.Option(None, "--label", help="Its column of classes (default: that of the run)."),
    schema: Path | None = of("schema"),
    dataset: str | None = typer.Option(
        None, "--dataset", help="A named data set, whose arcs are dropped (default: that of the run)."
    ),
    data_dir: Path | None = of("data_dir"),
    kind: str = typer.Option("csv", "--format", help="csv or parquet."),
    features: bool = typer.Option(False, "--features", help="Write the features, which are public, to the nodes too."),
    seed: int = typer.Option(0, "--seed", help="A public seed: the same seed gives the same twin."),
    confidence: float = typer.Option(
        0.95, "--confidence", help="Of the intervals that numbers of the twin are compared with."
    ),
    as_json: bool = JSON,
) -> None:
    """Make a synthetic graph that may be given away, from the statistics that a run released. This spends nothing.

    Nodes and labels are those of the graph where they are public, as at edge level; at node level they are made up, as many of
    each group as was released. All edges are drawn anew. README.txt says what the
    twin inherits of the claim, and compares its numbers with the released ones. Private data is not read: to compare the twin
    with the graph itself would spend a budget of its own, with another `sfumato describe`.
    """
    check_installed(*LIGHT, *(("pyarrow",) if kind == "parquet" else ()))
    from sfumato.catalog import load
    from sfumato.statistics._estimates import Estimates
    from sfumato.statistics._likeness import claim, likeness, page
    from sfumato.statistics._twin import protects_nodes
    from sfumato.statistics._twin import twin as made_of
    from sfumato.tables._writing import FORMATS, write_tables

    check_choice(FORMATS, format=kind)
    check_outside(out)
    if out.exists():
        raise fail("out", str(out), "to be a new folder", "Name another.")
    folder = run_of(run)
    verified(folder)  # the twin inherits its claim
    fitted = load(folder)
    named = {
        "--nodes": nodes,
        "--label": label,
        "--schema": schema,
        "--dataset": dataset,
        "--features": features or None,
    }
    if protects_nodes(Estimates(fitted)):
        given = next((name for name, value in named.items() if value is not None), None)
        if given is not None:
            raise InputError(
                f"Expected no {given} with a run that protects nodes with their labels and features, got one. Drop it: nodes of "
                "the twin are made up."
            )
        found = None
    else:
        found = _nodes_of(folder, nodes, label, schema, dataset, data_dir, features=features)
    made = made_of(fitted, found, seed)
    compared = likeness(fitted, made, confidence)
    told = {**claim(fitted, seed), "nodes": made.num_nodes, "edges": made.num_edges}
    with whole_folder(out) as partial:
        write_tables(partial, made, kind, features=features)
        write_page(partial / "README.txt", page(fitted, made, compared, seed))
        write_json(partial / "twin.json", {**told, "numbers": [one.to_dict() for one in compared]})
    kept = sum(one.kept is True for one in compared)
    if as_json:
        typer.echo(json.dumps({**told, "kept": kept, "compared": len(compared), "out": str(out)}))
        return
    typer.echo(
        f"Wrote a twin of {made.num_nodes:,} nodes and {made.num_edges:,} {'arcs' if made.directed else 'edges'} to {out}."
    )
    typer.echo(f"{kept} of {len(compared)} numbers lie in the released intervals: see {out / 'README.txt'}.")


def _nodes_of(
    run: Path,
    nodes: Path | None,
    label: str | None,
    schema: Path | None,
    dataset: str | None,
    data_dir: Path | None,
    *,
    features: bool,
) -> Graph:
    """Read the nodes that are named, or those of the run, without a table of edges where there is a table of nodes."""
    from sfumato.evaluation._source import Source
    from sfumato.statistics._twin import without_arcs
    from sfumato.tables._io import read_alone

    if nodes is not None and dataset is not None:
        raise InputError("Expected --nodes or --dataset, got both. Drop one.")
    if (label is not None or schema is not None) and nodes is None:
        raise InputError("Expected --label and --schema with --nodes only. Drop them, or name --nodes.")
    try:
        stored: Source | None = Source.of_run(run)
    except InputError:
        if nodes is None and dataset is None:
            raise
        stored = None
    if nodes is not None:
        named = label or (stored.label if stored is not None else None)
        declared = schema or (stored.schema if stored is not None else None)
    elif dataset is not None:
        where = str(data_dir) if data_dir is not None else None
        return without_arcs(Source(dataset=dataset, data_dir=where).check().load())
    else:
        assert stored is not None
        if stored.nodes is None:
            return without_arcs(stored.load())
        nodes, named, declared = Path(stored.nodes), stored.label, stored.schema
    if isinstance(named, list):
        raise InputError("Expected a run whose nodes have one class each, got several labels. Leave them out.")
    return read_alone(nodes, label=named, schema=None if declared is None else str(declared), features=features)
