"""`sfumato text`: features of documents, and the public vocabulary of a public corpus."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._encoding import decoded
from sfumato._optional import check_installed
from sfumato.cli._options import of
from sfumato.cli._output import stage_bars
from sfumato.cli._table import JSON
from sfumato.errors import DataError, InputError
from sfumato.evaluation._kept import write_page

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.text._documents import Report

app = typer.Typer(help="Turn texts into features of nodes.", no_args_is_help=True, rich_markup_mode=None)
_NEEDED = ("sklearn", "duckdb", "pyarrow")


@app.callback()
def _root() -> None:
    """Turn texts into features of nodes."""


@app.command()
def features(
    dataset: str | None = of("dataset"),
    data_dir: Path | None = of("data_dir"),
    nodes: Path | None = of("nodes"),
    schema: Path | None = of("schema"),
    text: list[str] | None = of("text"),
    text_features: str = typer.Option("hashing", "--text-features", help=of("text_features").help),
    out: Path = typer.Option(..., "--out", help="A new file for the features. Its name ends in .npz."),
    as_json: bool = JSON,
) -> None:
    """Write the features of texts to a file, so that slow encoders run once.

    `sfumato train --text-features FILE.npz` reads it. The file holds one row for each node: keep it as private as the texts.
    """
    start = time.perf_counter()
    check_installed(*_NEEDED)
    from sfumato.text._encoders import check_new, encoder_named, save_features

    check_new(out)
    encoder_named(text_features)
    if (dataset is None) == (nodes is None):
        raise InputError("Expected either --dataset NAME or --nodes FILE --text COLUMN, got both or neither. Name one.")
    if dataset is not None and (text or schema):
        raise InputError(
            "Expected --text and --schema with --nodes only; a named data set knows its documents. Drop them."
        )
    with stage_bars(as_json) as report:
        graph = (
            _of_dataset(dataset, data_dir, text_features, report)
            if dataset is not None
            else _of_table(nodes, schema, tuple(text or ()), text_features, report)
        )
    save_features(out, graph, text_features)
    told = {
        "out": str(out),
        "text_features": text_features,
        "nodes": graph.num_nodes,
        "features": graph.num_features,
        "assumed_public": list(graph.assumed_public),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        typer.echo(json.dumps(told))
        return
    typer.echo(f"Wrote {graph.num_features:,} features of {graph.num_nodes:,} nodes ({text_features}) to {out}.")
    if graph.assumed_public:
        typer.echo(f"Assumed public, read from the texts: {'; '.join(graph.assumed_public)}.")


@app.command()
def vocabulary(
    corpus: Path = typer.Argument(..., help="A public corpus: a text file with one document in each line."),
    out: Path = typer.Option(..., "--out", help="A new file, with one word and its weight in each line."),
    as_json: bool = JSON,
) -> None:
    """Write the words of a public corpus with their inverse document frequencies.

    `--text-features tf-idf:FILE` and `bag-of-words:FILE` read it. Never make it of the private texts.
    """
    check_installed("sklearn")
    from sfumato.text._bags import inverse_frequencies

    if out.exists():
        raise InputError(f"Expected --out to be a new file, got {str(out)!r}, which exists. Name another file.")
    try:
        weights = inverse_frequencies(decoded(corpus.read_bytes()).splitlines())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no words, or no UTF-8 text"
        raise DataError(f"Expected {corpus} to hold a document in each line, got: {reason}. Check the path.") from None
    write_page(out, "".join(f"{word}\t{weight:.6f}\n" for word, weight in weights.items()))
    if as_json:
        typer.echo(json.dumps({"out": str(out), "words": len(weights)}))
    else:
        typer.echo(f"Wrote {len(weights):,} words with their weights to {out}.")


def _of_dataset(dataset: str, data_dir: Path | None, text_features: str, report: Report | None) -> Graph:
    from sfumato.datasets._loading import load_dataset

    return load_dataset(dataset, data_dir, text_features=text_features, report=report)


def _of_table(
    nodes: Path | None, schema: Path | None, text: tuple[str, ...], text_features: str, report: Report | None
) -> Graph:
    from sfumato.tables._io import read_texts

    if not text:
        raise InputError("Expected --text COLUMN beside --nodes, got none. Name a column that holds texts.")
    return read_texts(str(nodes), text, text_features, schema=schema, report=report)
