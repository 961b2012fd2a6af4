"""`sfumato predict`: what a finished run predicts, as a table, for its own graph, another graph, or nodes that arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato.cli import _data as data
from sfumato.cli import _decided as decided
from sfumato.cli import _options as options
from sfumato.cli._arrivals import Arriving, check_trained, predict_newcomers, source_of
from sfumato.cli._calibrating import charged_counts, stored_counts
from sfumato.cli._collected import graph_of_run
from sfumato.cli._inferred import infer
from sfumato.cli._output import free_file, readers
from sfumato.cli._pairs import Rows, answer_rows
from sfumato.cli._predictions import Writer
from sfumato.errors import InputError
from sfumato.evaluation._source import Source
from sfumato.method.decisions import Decision
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

RUN = typer.Argument(..., help="The folder of a run.")
_OF_TRAINING = {
    True: "Training nodes have their known label (source: known): the model's own answers for them lean on features.",
    False: "Lines of training nodes lean on features. Their own labels are private, and are not in this file.",
}
_CACHED = (
    "This is the graph of the run, as far as its node ids and public values tell: cached releases answer, no edge is read. If it "
    "is another graph with the same ids, name --new-run DIR with --epsilon and --delta: it is then charged."
)


def predict(
    context: typer.Context,
    run: Path = RUN,
    dataset: str | None = data.DATASET,
    data_dir: Path | None = data.DATA_DIR,
    graph: Path | None = data.GRAPH,
    nodes: Path | None = data.NODES,
    edges: Path | None = data.EDGES,
    label: list[str] | None = data.LABELS,
    schema: Path | None = data.SCHEMA,
    directed: bool | None = data.DIRECTED,
    drop: list[str] | None = data.DROP,
    text: list[str] | None = data.TEXT,
    out: Path | None = typer.Option(
        None, "--out", help="The CSV file to write (default: predictions.csv in the run folder)."
    ),
    pairs: Path | None = typer.Option(
        None, "--pairs", help="Score links: a CSV file of node pairs (a header, then two columns of node ids)."
    ),
    top: int | None = typer.Option(
        None,
        "--top",
        help="Score links: write for each node so many others with the best scores, linked already or not.",
    ),
    embeddings: Path | None = typer.Option(
        None, "--embeddings", help="Write the released row of each node to this new CSV file, for other tools."
    ),
    force: bool = typer.Option(False, "--force", help="Replace the file, if this command wrote it."),
    epsilon: float | None = typer.Option(
        None,
        "--epsilon",
        help="The privacy budget for reading ANOTHER private graph, or for the first --coverage where labels are protected.",
    ),
    delta: float | None = typer.Option(
        None, "--delta", help="The failure probability for reading that other graph, such as 1e-7."
    ),
    new_run: Path | None = typer.Option(
        None,
        "--new-run",
        help="A new run folder, for that other graph. Its ledger is written there before the first release.",
    ),
    new_nodes: Path | None = typer.Option(
        None,
        "--new-nodes",
        help="The table of nodes that arrived after the run, with the columns of its own. They alone are predicted.",
    ),
    new_edges: Path | None = typer.Option(
        None,
        "--new-edges",
        help="The table of their edges, to each other and to nodes that were there before. Each row has a new end.",
    ),
    coverage: float | None = decided.COVERAGE,
    each_class: bool = decided.EACH_CLASS,
    positive: str | None = decided.POSITIVE,
    threshold: str | None = decided.THRESHOLD,
    top_share: float | None = decided.TOP_SHARE,
    top_count: int | None = decided.TOP_COUNT,
    class_weight: str | None = decided.CLASS_WEIGHT,
    sign_key: Path | None = options.SIGN_KEY,
    ledger: Path | None = options.LEDGER,
    total_epsilon: float | None = options.TOTAL_EPSILON,
    total_delta: float | None = options.TOTAL_DELTA,
    composition: str | None = options.COMPOSITION,
    as_json: bool = options.JSON,
) -> None:
    """Predict the class (or labels, or number) of every node, score links (--pairs, --top), or write rows (--embeddings).

    On the graph of the run this spends nothing. Another graph is a new release, which is charged. Nodes that arrived later
    (--new-nodes, --new-edges) cost nothing more at edge level, since each edge pays once; at node level they are charged.

    Each line of the file ends with the node's role, with its known label where labels are public, and with the source of the
    prediction: model, or known for a training node that label messages answer by its known label, since their own answer
    leans on features.

    --coverage adds a column set, --threshold a column chosen, --top-share or --top-count the columns rank and chosen, and
    --class-weight changes what is predicted. None of it spends. Sets assume that new nodes are exchangeable with the validation
    nodes: drawn at random with them.

    The command says who may see the file, as the certificate does. At edge level anyone may: features and labels, which stand in
    it, are public there. At node level each line is for its own node alone, and the file must not be published.
    """
    check_installed(*LIGHT)
    from sfumato.catalog import PAIR_METHODS, load
    from sfumato.central._arrivals import graph_free, reads_features_alone

    fitted = load(run)
    check_trained(run)
    writer = Writer(Decision(coverage, each_class, positive, threshold, top_share, top_count, class_weight))
    protected = coverage is not None and "labels" not in fitted.plan.unit.public
    writer.calibration = stored_counts(run, fitted) if protected else None
    away = new_nodes is not None or new_edges is not None or new_run is not None
    pays = protected and writer.calibration is None and epsilon is not None and not away
    writer.check(fitted, elsewhere=away, calibrated=pays or writer.calibration is not None)
    private = fitted.plan.epsilon is not None
    shared = options.shared_ledger(ledger, total_epsilon, total_delta, composition, private=private)
    paths = {"data_dir": data_dir, "graph": graph, "nodes": nodes, "edges": edges, "schema": schema}
    named: dict[str, Any] = {"dataset": dataset, "label": data.one_or_more(label), "directed": directed}
    named |= {option: _text(path) for option, path in paths.items()}
    rows = Rows(pairs, top, embeddings)
    elsewhere = (new_nodes, new_edges, epsilon, delta, new_run, ledger, sign_key)
    if rows.asked and any(value is not None for value in elsewhere):
        raise InputError(
            "Expected --pairs, --top or --embeddings for the graph of the run alone, which is free. Drop the options of "
            "other graphs."
        )
    if rows.asked and writer.decision.asked:
        raise InputError(
            "Expected --pairs, --top or --embeddings without a decision about classes of nodes. Ask twice."
        )
    if new_nodes is not None or new_edges is not None:
        if fitted.plan.method.name in PAIR_METHODS:
            raise InputError(
                f"Expected a run that predicts classes with --new-nodes, got {fitted.plan.method.name}, which scores "
                "pairs of nodes that it learned from. Train again with them."
            )
        asked = Arriving(run, fitted, new_nodes, new_edges, out, epsilon, delta, new_run, shared, sign_key, as_json)
        told = predict_newcomers(
            asked,
            source_of(
                run, {**named, "text": tuple(text) if text else None, "drop": tuple(drop) if drop else None}, context
            ),
            writer,
        )
        _say(told, fitted, writer, as_json)
        return
    if sign_key is not None:
        raise InputError("Expected --sign-key with --new-nodes only, got it for predictions of a whole graph. Drop it.")
    given = any(value is not None for value in (dataset, graph, nodes, edges))
    if fitted.collection is not None:
        collected = _graph_of_collection(run, fitted, given=given)
        if rows.asked:
            answer_rows(run, fitted, collected, rows, out, force=force, as_json=as_json)
            return
        out = free_file(out or run / "predictions.csv", force)
        writer(out, collected, fitted)
        _say({"out": str(out), "nodes": collected.num_nodes, "epsilon_spent": 0.0}, fitted, writer, as_json)
        return
    source = (
        Source(**named, **data.kept_of_run(run, dataset, text, drop, graph)).check(labeled=False)
        if given
        else Source.of_run(run)
    )
    found = source.with_roles_of(source.load(), fitted)
    if rows.asked:
        answer_rows(run, fitted, found, rows, out, force=force, as_json=as_json)
        return
    other, spent = fitted.difference(found), 0.0
    out = free_file(out or run / "predictions.csv", force)
    if other is None and new_run is None:
        if given and not as_json and fitted.plan.unit.trust != "local":
            typer.echo(_CACHED, err=True)
        if pays and epsilon is not None:
            budget = Budget(epsilon, delta or 0.0)
            writer.calibration, spent = charged_counts(run, fitted, found, budget, shared, quiet=as_json)
        elif any(value is not None for value in (epsilon, delta, ledger)):
            raise InputError(
                "Expected --epsilon, --delta, --new-run and --ledger only for another graph: predicting on this one is "
                "free. Drop them."
            )
        writer(out, found, fitted)
    elif reads_features_alone(fitted, found):
        if any(value is not None for value in (epsilon, delta, new_run, ledger)):
            raise InputError(
                "Expected no --epsilon, --delta, --new-run or --ledger for another graph that is predicted from features alone: "
                f"this spends nothing. Drop them{'' if fitted.predicts_alone else ', or name the labels there with --label'}."
            )
        typer.echo("No messages here: features alone predict. No edge is read, and nothing is spent.", err=True)
        writer.check(fitted, elsewhere=True)
        writer(out, found, fitted, graph_free(fitted, found))
    else:
        writer.check(fitted, elsewhere=True)
        fitted = infer(fitted, found, other, source, out, writer, epsilon, delta, new_run, shared, as_json)
    spent = (fitted.certificate.epsilon or 0.0) if given and new_run else spent
    _say(
        {"out": str(out), "nodes": found.num_nodes, "epsilon_spent": spent},
        fitted,
        writer,
        as_json,
        bool(found.train_mask.any()),
    )


def _graph_of_collection(run: Path, fitted: Fitted, *, given: bool) -> Graph:
    if given:
        raise InputError(
            "Expected no --dataset, --graph, --nodes or --edges for a run on a collection, which knows its tables: it "
            "predicts its own users, for free. Drop them; for others collect and train again."
        )
    return graph_of_run(run, fitted)


def _say(told: dict[str, Any], fitted: Fitted, writer: Writer, as_json: bool, trained: bool = False) -> None:
    """Print what was written, and who may be shown it; ``trained`` says whether some nodes have the training role."""
    if as_json:
        typer.echo(json.dumps({**told, **writer.facts}))
        return
    typer.echo(f"Wrote {told['nodes']:,} predictions to {told['out']}.")
    for note in fitted.unused:
        typer.echo(note, err=True)
    for note in writer.notes:
        typer.echo(note)
    typer.echo(readers(fitted), err=True)
    if trained and fitted.plan.method.card.returns_known:
        typer.echo(_OF_TRAINING["labels" in fitted.plan.unit.public], err=True)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
