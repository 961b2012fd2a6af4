"""What options that name a graph say together, and `sfumato datasets`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._options import Options, named_source, of
from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON
from sfumato.errors import InputError

_COUNTS = ("nodes", "arcs", "features", "classes")
_OF_EDGES = ("edge_weight", "max_weight", "edge_type", "edge_types", "public_types", "recency")
_OF_RUN = ("split", "text_features", "image_size", *_OF_EDGES, "min_class_size")

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.privacy.promises import Caveat
    from sfumato.privacy.units import Unit


def unscaled(graph: Graph, unit: Unit) -> tuple[Caveat, ...]:
    """Name the columns of numbers without a declared range if features are protected. Names are public; values are not read."""
    from sfumato.graph._declared import ranges_of, some, undeclared
    from sfumato.privacy.promises import Caveat

    found = ranges_of(undeclared(graph, unit)) if unit.private else []
    if not found:
        return ()
    text = (
        f"No range is declared for {some(found)}. These numbers are used as they are, since protected features give no scale: "
        "large ones drown other columns. Declare min and max in the schema, if they are known without this data: "
        f"[columns.{found[0]}] min = 0, max = 100. Numbers are then cut to this range and scaled to 0 to 1."
    )
    return (Caveat("range-undeclared", text),)


def complete_dataset(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the data sets whose names begin like this, with a remark."""
    from sfumato.datasets._listing import KNOWN

    return ((row.name, row.note) for row in KNOWN if row.name.startswith(incomplete))


def datasets(
    name: str | None = typer.Argument(
        None,
        help="Say where the files of this data set come from, what they must be called, and which of them are there.",
        autocompletion=complete_dataset,
    ),
    data_dir: Path | None = of("data_dir"),
    as_json: bool = JSON,
) -> None:
    """List the named data sets and those whose files are there, or say where the files of one come from."""
    from sfumato.datasets._listing import list_datasets
    from sfumato.datasets._origins import told_of

    if name is not None:
        told = told_of(name, data_dir)
        typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))
        return
    rows = list_datasets(data_dir)
    if as_json:
        typer.echo(json.dumps({"datasets": [asdict(row) for row in rows]}))
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    for column in _COUNTS:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("files")
    for row in rows:
        counts = (row.num_nodes, row.num_arcs, row.num_features, row.num_classes)
        table.add_row(row.name, *(_count(count) for count in counts), "yes" if row.present else "-")
    screen = plain_console()
    screen.print(table)
    for row in rows:
        if row.note:
            screen.print(f"{row.name}: {row.note}", highlight=False, soft_wrap=True)
    typer.echo("`sfumato datasets NAME` says where the files of one come from.")


def _lines(told: dict[str, Any]) -> Iterator[str]:
    counts = [f"{_count(told[f'num_{what}'])} {what}" for what in _COUNTS if told[f"num_{what}"] is not None]
    known = "; ".join(filter(None, (", ".join(counts), told["note"])))
    yield f"{told['name']}: {known or 'found in the folder, and nothing is known of it here'}."
    if told["address"]:
        yield f"From {told['address']}. {told['remark']}".rstrip()
        yield "Files below --data-dir:"
    for one in told["files"]:
        absent = "missing" if one["needed"] else "missing, so that there are no features"
        there = {None: "", True: "there", False: absent}[one["present"]]
        known = {None: "SHA-256", True: "with the known SHA-256", False: "but not with the known SHA-256"}[
            one["is_known"]
        ]
        yield f"  {one['path']}: " + ", ".join(filter(None, (there, one["sha256"] and f"{known} {one['sha256']}")))
    if any(one["sha256"] for one in told["files"]):
        yield "A SHA-256 is that of the file that was tested; for a .gz, that of the unpacked file."


def in_place_of(stored: Source, named: dict[str, Any], context: typer.Context) -> Source:
    """Return the source of a run, with what the command line names in place of it.

    The environment names a folder of data sets only where the run does not.
    """
    values = {name: value for name, value in named.items() if value not in (None, ())}
    origin = context.get_parameter_source("data_dir")
    if stored.data_dir is not None and origin is not None and origin.name == "ENVIRONMENT":
        del values["data_dir"]
    return replace(stored, **values)


def kept_of_run(options: Options) -> dict[str, Any]:
    """Return a source that options name, with encoder of texts and split as its run has them, if they are of this data set.

    Tables declare a public split themselves. Their columns ``text`` and ``drop`` are those that are named, or those of the run.
    """
    from sfumato.evaluation._source import Source

    here = {name: value for name, value in named_source(options).items() if name not in _OF_RUN}
    try:
        kept = Source.of_run(options.run)
    except InputError:
        return {**here, "split": Source.split}
    same = kept.dataset == options.dataset and (options.dataset or kept.split != "public")
    drawn: dict[str, Any] = {"split": kept.split, "labeled": kept.labeled} if same else {"split": Source.split}
    if options.graph is not None:
        return {**here, **drawn}
    taken = {name: getattr(kept, name) for name in ("text_features", "image_size")}
    if options.dataset is None:
        taken |= {name: here[name] or getattr(kept, name) for name in ("text", "drop")}
        taken |= {name: getattr(kept, name) for name in (*_OF_EDGES, "id_column", "ends")}
    return {**here, **drawn, **taken}


def _count(value: Any) -> str:
    return "?" if value is None else f"{value:,}"
