"""`sfumato predict`: what a finished run predicts, as a table, for its own graph, another graph, or nodes that arrive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato.cli import _data as data
from sfumato.cli._arrivals import Arriving, check_trained, predict_newcomers, source_of
from sfumato.cli._calibrating import charged_counts, stored_counts
from sfumato.cli._collected import graph_of_run
from sfumato.cli._explained import explain_node
from sfumato.cli._inferred import infer
from sfumato.cli._newest import learned, run_of
from sfumato.cli._options import Options, named_source
from sfumato.cli._output import free_file, readers
from sfumato.cli._pairs import Rows, answer_rows
from sfumato.cli._parse import shared_ledger
from sfumato.cli._predictions import Writer
from sfumato.cli._table import takes
from sfumato.errors import InputError
from sfumato.method._decisions import Decision
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.record._dataset_ledger import DatasetLedger

_OF_TRAINING = {
    True: "Training nodes have their known label (source: known): the model's own answers for them lean on features.",
    False: "Lines of training nodes lean on features. Their own labels are private, and are not in this file.",
}
_CACHED = (
    "This is the graph of the run, as far as its node ids and public values tell: cached releases answer, no edge is read. If it "
    "is another graph with the same ids, name --new-run DIR with --epsilon and --delta: it is then charged."
)


@takes(Options, "predict")
def predict(context: typer.Context, values: dict[str, Any]) -> None:
    """Predict the class (or labels, or number) of every node, score links (--pairs, --top), or write rows (--embeddings).

    On the graph of the run this spends nothing. Another graph is a new release, which is charged. Nodes that arrived later
    (--new-nodes, --new-edges) cost nothing more at edge level, since each edge pays once; at node level they are charged.

    Each line of the file ends with the node's role, with its known label where labels are public, and with the source of the
    prediction: model, or known for a training node that label messages answer by its known label, since their own answer
    leans on features.

    --coverage adds a column set, --threshold a column chosen, --top-share or --top-count the columns rank and chosen, and
    --class-weight changes what is predicted. None of it spends. Sets assume that new nodes are exchangeable with the validation
    nodes: drawn at random with them.

    --explain says for one node which of its cells and which released rows moved its prediction.

    The command says who may see the file, as the certificate does. At edge level anyone may: features and labels, which stand in
    it, are public there. At node level each line is for its own node alone, and the file must not be published.
    """
    from sfumato.evaluation._source import Source

    check_installed(*LIGHT)

    asked = Options(**{**values, "run": run_of(values["run"])})
    fitted = learned(asked.run)
    check_trained(asked.run)
    writer, pays = _writer(asked, fitted)
    shared = shared_ledger(asked, private=fitted.plan.epsilon is not None)
    rows = Rows(
        asked.pairs, asked.top, asked.embeddings, asked.explain, asked.viewer, asked.linked, asked.within, asked.among
    )
    rows.check()
    _check_rows(asked, rows, writer)
    if asked.new_nodes is not None or asked.new_edges is not None:
        _arrived(context, asked, fitted, writer, shared)
        return
    if asked.sign_key is not None:
        raise InputError("Expected --sign-key with --new-nodes only, got it for predictions of a whole graph. Drop it.")
    named = any(value is not None for value in (asked.dataset, asked.graph, asked.nodes, asked.edges))
    if fitted.collection is not None:
        source, found = None, _graph_of_collection(asked.run, fitted, given=named)
    else:
        kept = data.kept_of_run(asked) if named else None
        source = Source.of_run(asked.run) if kept is None else Source(**kept).check(labeled=False)
        found = source.with_roles_of(source.load(), fitted)
    if asked.explain is not None and rows.asked == 1:
        file = None if asked.out is None else free_file(asked.out, asked.force)
        explain_node(fitted, found, asked.explain, file, as_json=asked.as_json)
        return
    if rows.asked:
        answer_rows(asked.run, fitted, found, rows, asked.out, force=asked.force, as_json=asked.as_json)
        return
    out, spent = free_file(asked.out or asked.run / "predictions.csv", asked.force), 0.0
    if source is None:
        writer(out, found, fitted)
    else:
        fitted, spent = _answered(asked, fitted, found, source, out, writer, shared, named=named, pays=pays)
    trained = source is not None and bool(found.train_mask.any())
    _say({"out": str(out), "nodes": found.num_nodes, "epsilon_spent": spent}, fitted, writer, asked.as_json, trained)


def _writer(asked: Options, fitted: Fitted) -> tuple[Writer, bool]:
    """What writes the answers, and whether their sets have to be paid for."""
    decision = Decision(
        asked.coverage, asked.each_class, asked.positive, asked.threshold, asked.top_share, asked.top_count, asked.class_weight
    )  # fmt: skip
    writer = Writer(decision)
    protected = asked.coverage is not None and "labels" not in fitted.plan.unit.public
    writer.calibration = stored_counts(asked.run, fitted) if protected else None
    away = any(value is not None for value in (asked.new_nodes, asked.new_edges, asked.new_run))
    pays = protected and writer.calibration is None and asked.epsilon is not None and not away
    writer.check(fitted, elsewhere=away, calibrated=pays or writer.calibration is not None)
    return writer, pays


def _check_rows(asked: Options, rows: Rows, writer: Writer) -> None:
    elsewhere = (
        asked.new_nodes,
        asked.new_edges,
        asked.epsilon,
        asked.delta,
        asked.new_run,
        asked.ledger,
        asked.sign_key,
    )
    if rows.asked and any(value is not None for value in elsewhere):
        raise InputError(
            "Expected --pairs, --top, --embeddings or --explain for the graph of the run alone, which is free. Drop the "
            "options of other graphs."
        )
    if rows.asked and writer.decision.asked:
        raise InputError(
            "Expected --pairs, --top, --embeddings or --explain without a decision about classes of nodes. Ask twice."
        )


def _arrived(
    context: typer.Context, asked: Options, fitted: Fitted, writer: Writer, shared: DatasetLedger | None
) -> None:
    """Predict nodes that arrived after the run."""
    from sfumato.catalog import PAIR_METHODS

    if fitted.plan.method.name in PAIR_METHODS:
        raise InputError(
            f"Expected a run that predicts classes with --new-nodes, got {fitted.plan.method.name}, which scores "
            "pairs of nodes that it learned from. Train again with them."
        )
    told = predict_newcomers(
        Arriving(asked, fitted, shared), source_of(asked.run, named_source(asked), context), writer
    )
    _say(told, fitted, writer, asked.as_json)


def _answered(
    asked: Options,
    fitted: Fitted,
    found: Graph,
    source: Source,
    out: Path,
    writer: Writer,
    shared: DatasetLedger | None,
    *,
    named: bool,
    pays: bool,
) -> tuple[Fitted, float]:
    """Write the answers about a whole graph; return the run that gave them, and what that spent."""
    from sfumato.central._arrivals import graph_free, reads_features_alone

    epsilon, delta, new_run = asked.epsilon, asked.delta, asked.new_run
    other, spent = fitted.difference(found), 0.0
    if other is None and new_run is None:
        if named and not asked.as_json and fitted.plan.unit.trust != "local":
            typer.echo(_CACHED, err=True)
        if pays and epsilon is not None:
            budget = Budget(epsilon, delta or 0.0)
            writer.calibration, spent = charged_counts(asked.run, fitted, found, budget, shared, quiet=asked.as_json)
        elif any(value is not None for value in (epsilon, delta, asked.ledger)):
            raise InputError(
                "Expected --epsilon, --delta, --new-run and --ledger only for another graph: predicting on this one is "
                "free. Drop them."
            )
        writer(out, found, fitted)
        return fitted, spent
    if reads_features_alone(fitted, found):
        if any(value is not None for value in (epsilon, delta, new_run, asked.ledger)):
            raise InputError(
                "Expected no --epsilon, --delta, --new-run or --ledger for another graph that is predicted from features alone: "
                f"this spends nothing. Drop them{'' if fitted.predicts_alone else ', or name the labels there with --label'}."
            )
        writer.check(fitted, elsewhere=True)
        rows = graph_free(fitted, found)
        typer.echo("No messages here: features alone predict. No edge is read, and nothing is spent.", err=True)
        writer(out, found, fitted, rows)
        return fitted, spent
    writer.check(fitted, elsewhere=True)
    late = infer(asked, fitted, found, source, out, writer, shared)
    return late, (late.certificate.epsilon or 0.0) if named and new_run else 0.0


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
