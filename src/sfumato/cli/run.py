"""Commands on a finished run folder: predict, evaluate, verify."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli import data, local
from sfumato.cli.output import tell
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph
    from sfumato.method.fitted import Fitted

RUN = typer.Argument(..., help="A run folder.")
JSON = typer.Option(False, "--json", help="One JSON object on standard output.")


def predict(
    run: Path = RUN,
    dataset: str | None = data.DATASET,
    data_dir: Path | None = data.DATA_DIR,
    nodes: Path | None = data.NODES,
    edges: Path | None = data.EDGES,
    label: str | None = data.LABEL,
    schema: Path | None = data.SCHEMA,
    directed: bool | None = data.DIRECTED,
    out: Path | None = typer.Option(None, "--out", help="CSV to write (default: predictions.csv in the run folder)."),
    epsilon: float | None = typer.Option(None, "--epsilon", help="Budget for reading ANOTHER private graph."),
    delta: float | None = typer.Option(None, "--delta", help="Its delta."),
    new_run: Path | None = typer.Option(None, "--new-run", help="Run folder for that other graph's own release."),
    as_json: bool = JSON,
) -> None:
    """Predict every node's class. On the graph of the run this spends nothing; another graph is a new, charged release."""
    from sfumato.catalog import load

    fitted = load(run)
    given = any(value is not None for value in (dataset, nodes, edges))
    source = (
        data.Source(dataset, _text(data_dir), _text(nodes), _text(edges), label, _text(schema), directed).check(
            labeled=False
        )
        if given
        else data.Source.of_run(run)
    )
    graph = source.with_roles(source.load(), 0)
    if given and not as_json and _same_graph(fitted, graph) and fitted.plan.unit.name != "local":
        typer.echo("These are the node ids of the run: its cached releases are used, the edges are not read.", err=True)
    out = out or run / "predictions.csv"
    if out.exists():
        raise InputError(f"Expected out to be a new file, got {str(out)!r}, which exists. Name another with --out.")
    if not _same_graph(fitted, graph):
        fitted = _infer(fitted, graph, epsilon, delta, new_run, as_json)
    elif epsilon is not None or new_run is not None:
        raise InputError("Expected --epsilon and --new-run only for another graph: predicting on this one is free.")
    probabilities = fitted.predict_proba(graph)
    _write_predictions(out, graph, fitted.graph_key.classes, probabilities)
    if as_json:
        spent = fitted.certificate.epsilon if given and new_run else 0.0
        typer.echo(json.dumps({"out": str(out), "nodes": graph.num_nodes, "epsilon_spent": spent}))
    else:
        typer.echo(f"Wrote {graph.num_nodes:,} predictions to {out}.")
        never = fitted.plan.method.who_may_see(fitted.plan.unit)
        if never["the node itself"]:
            typer.echo("Each line may be shown to its own node only: it reads that node's features.", err=True)


def _same_graph(fitted: Fitted, graph: Graph) -> bool:
    from sfumato.method.method import GraphKey

    return GraphKey.of(graph).ids_digest == fitted.graph_key.ids_digest


def _infer(
    fitted: Fitted, graph: Graph, epsilon: float | None, delta: float | None, new_run: Path | None, quiet: bool
) -> Fitted:
    from sfumato.privacy.budget import Budget
    from sfumato.record.release_folder import check_new_folder

    if fitted.plan.unit.name in local.OF_UNIT:
        raise InputError(
            f"These node ids are not those of the run: {fitted.plan.method.name!r} is a local method, which has no private "
            "inference on another graph. Collect again: sfumato train on that graph."
        )
    private = fitted.plan.epsilon is not None
    if private and (epsilon is None or delta is None or new_run is None):
        raise InputError(
            "These node ids are not those of the run: aggregating another private graph spends budget. "
            "Pass --epsilon, --delta and --new-run DIR to plan, charge and keep that release."
        )
    if not private and (epsilon is not None or delta is not None):
        raise InputError("Expected no --epsilon or --delta for a run without privacy. Drop them.")
    asked = Budget(epsilon, delta) if epsilon is not None and delta is not None else None
    plan = fitted.calibrate_inference(asked, fitted.plan.unit, graph.public_facts(fitted.plan.unit))
    tell(plan.caveats)
    if new_run is not None:
        check_new_folder(new_run)
    if not quiet:
        typer.echo(str(plan), err=True)
    inferred = plan.fit(graph)
    if new_run is not None:
        inferred.save(new_run)
    return inferred


def _write_predictions(out: Path, graph: Graph, classes: tuple[str, ...], probabilities: object) -> None:
    import numpy as np

    table = np.asarray(probabilities)
    ids = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist()
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["node", "predicted", *(f"p({name})" for name in classes)])
        for node, best, row in zip(ids, table.argmax(1), table, strict=True):
            writer.writerow([node, classes[best], *(f"{value:.6f}" for value in row)])
    partial.replace(out)


def evaluate(run: Path = RUN, as_json: bool = JSON) -> None:
    """Score a run on its test nodes again. Reads true labels: outside the guarantee."""
    from sfumato.catalog import load
    from sfumato.evaluation.scores import majority_share, score

    fitted = load(run)
    source = data.Source.of_run(run)
    graph = source.with_roles(source.load(), 0)
    accuracy, macro_f1 = score(fitted, graph)
    most_frequent = majority_share(graph)
    result = {
        "method": fitted.plan.method.name,
        "test_accuracy": accuracy,
        "test_macro_f1": macro_f1,
        "majority": most_frequent,
        "evaluation_private": False,
    }
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(
            f"Test accuracy {100 * accuracy:.1f} %, macro-F1 {100 * macro_f1:.1f} % "
            f"(most frequent class: {100 * most_frequent:.1f} %). Not covered by the guarantee."
        )


def verify(
    run: Path = RUN,
    public_key: Path | None = typer.Option(None, "--public-key", help="The run must be signed by this Ed25519 key."),
    as_json: bool = JSON,
) -> None:
    """Check a run without trusting it: files, ledger, signature, and epsilon derived anew."""
    from sfumato import verify as verifier

    try:
        result = verifier.verify(run, public_key)
    except verifier.VerifyInputError as error:
        raise InputError(str(error)) from error
    if as_json:
        typer.echo(
            json.dumps({"valid": result.valid, "problems": list(result.problems), "caveats": list(result.caveats)})
        )
    else:
        typer.echo(verifier.describe(run, result))
    raise typer.Exit(0 if result.valid else 1)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
