"""The options that name a graph, and `sfumato datasets`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._output import plain_console
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.privacy.promises import Caveat
    from sfumato.privacy.units import Unit

DATASET = typer.Option(
    None,
    "--dataset",
    help="The name of a data set, such as campus or facebook100/Berkeley13 (see `sfumato datasets`), or the path of a folder of "
    "images with one subfolder for each class.",
)
DATA_DIR = typer.Option(
    None,
    "--data-dir",
    envvar="SFUMATO_DATA",
    show_envvar=False,
    help="The folder that holds the files of named data sets (default: the environment variable SFUMATO_DATA).",
)
GRAPH = typer.Option(
    None,
    "--graph",
    help="A stored graph: the folder that `sfumato data import` or Graph.save wrote. It is opened, not read.",
)
NODES = typer.Option(None, "--nodes", help="The table of nodes, as CSV or Parquet.")
EDGES = typer.Option(None, "--edges", help="The table of edges, as CSV or Parquet. Each row is one edge.")
LABEL = typer.Option(None, "--label", help="The column of the node table that holds the classes to learn.")
LABELS = typer.Option(
    None,
    "--label",
    help="The column of the node table that holds the classes to learn, or the number, if the schema says so. Repeat it for "
    "several columns of 0 and 1, one for each label that a node may have.",
)
SCHEMA = typer.Option(
    None, "--schema", help="A public schema (TOML), which declares classes, categories, ranges, roles and degrees."
)
DIRECTED = typer.Option(
    None,
    "--directed/--undirected",
    help="Whether a row of the edge table is one arc or an undirected edge (default: as the schema says, else undirected).",
)
EDGE_WEIGHT = typer.Option(
    None,
    "--edge-weight",
    help="The column of the edge table that holds weights of at least 0 (default: as the schema says, else every edge counts the "
    "same). Rows of one edge are added.",
)
MAX_WEIGHT = typer.Option(
    None,
    "--max-weight",
    help="With --edge-weight: the weight that counts in full, such as 100. Larger ones are clipped to it. It is public: choose "
    "it without looking at the data.",
)
ASSUME_PUBLIC = typer.Option(
    False,
    "--assume-public",
    help="Where features or labels are protected, go on although no schema declares all ranges, categories and classes: what is "
    "read off the data may be known, and the certificate lists it. Numbers without a range are then used as they are.",
)
MIN_CLASS = typer.Option(
    None,
    "--min-class-size",
    help="Drop the classes of a named data set that have fewer nodes than this (default: the bound of the data set itself).",
)

DROP = typer.Option(None, "--drop", help="A column of the node or the edge table that is left out. May be repeated.")

TEXT = typer.Option(
    None,
    "--text",
    help="A column of the node table that holds texts, which --text-features turns into features. May be repeated.",
)
TEXT_FEATURES = typer.Option(
    None,
    "--text-features",
    help="How texts become features: hashing[:COLUMNS], bag-of-words:FILE, tf-idf:FILE, word-vectors:FILE, transformer:MODEL, "
    "sentence-transformer:MODEL, or the file that `sfumato text features` wrote. Files and models are public inputs.",
)
IMAGE_SIZE = typer.Option(
    None,
    "--image-size",
    help="WIDTHxHEIGHT in pixels, such as 60x70, to which the images of orl_faces or of a folder are scaled (default: their own "
    "size, which all have to share).",
)


def one_or_more(labels: list[str] | None) -> str | list[str] | None:
    """Return the column that ``--label`` names, or the columns; None for none.

    >>> one_or_more(["year"]), one_or_more(["hiking", "chess"])
    ('year', ['hiking', 'chess'])
    """
    found = list(dict.fromkeys(labels or ()))
    return found[0] if len(found) == 1 else found or None


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


def datasets(
    data_dir: Path | None = DATA_DIR,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on standard output."),
) -> None:
    """List the named data sets and whether their files are there."""
    from sfumato.datasets._listing import list_datasets

    rows = list_datasets(data_dir)
    if as_json:
        typer.echo(json.dumps({"datasets": [asdict(row) for row in rows]}))
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    for column in ("nodes", "arcs", "features", "classes"):
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


def in_place_of(stored: Source, named: dict[str, Any], context: typer.Context) -> Source:
    """Return the source of a run, with what the command line names in place of it.

    The environment names a folder of data sets only where the run does not.
    """
    values = {name: value for name, value in named.items() if value is not None}
    origin = context.get_parameter_source("data_dir")
    if stored.data_dir is not None and origin is not None and origin.name == "ENVIRONMENT":
        del values["data_dir"]
    return replace(stored, **values)


def kept_of_run(run: Path, dataset: str | None, text: Any, drop: Any, graph: Path | None) -> dict[str, Any]:
    """Return the encoder of texts and the split of a run, as far as its folder still says them and they are of this data set.

    Tables declare a public split themselves. Their columns ``text`` and ``drop`` are those that are named, or those of the run.
    """
    from sfumato.evaluation._source import Source

    named = {"text": tuple(text or ()), "drop": tuple(drop or ())}
    try:
        kept = Source.of_run(run)
    except InputError:
        return {"split": Source.split, **named}
    same = kept.dataset == dataset and (dataset or kept.split != "public")
    drawn: dict[str, Any] = {"split": kept.split, "labeled": kept.labeled} if same else {"split": Source.split}
    if graph is not None:
        return {**drawn, **named}
    of_tables = {} if dataset else {name: named[name] or getattr(kept, name) for name in named}
    same_names = ("edge_weight", "max_weight", "id_column", "ends")
    weights = {} if dataset else {name: getattr(kept, name) for name in same_names}
    encoder = {"text_features": kept.text_features, "image_size": kept.image_size}
    return {**drawn, **named, **of_tables, **weights, **encoder}


def _count(value: Any) -> str:
    return "?" if value is None else f"{value:,}"
