"""`sfumato train --collection`: learn from reports, or from what two servers opened, and score by them alone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato._threads import set_threads
from sfumato._validate import check_choice, check_int, fail
from sfumato.cli._budget_options import TOTALS
from sfumato.cli._local import LINKS
from sfumato.cli._output import plain_console, stage_bars, tell
from sfumato.cli._scores import show_guarantee
from sfumato.cli._table import spelled
from sfumato.errors import InputError
from sfumato.evaluation._kept import Kept, write_words
from sfumato.record._collected import is_opened
from sfumato.record._deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.collect._closed import Closed
    from sfumato.collect._training import Training
    from sfumato.collect.two._files import OpenedFile
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.privacy.promises import Caveat

_TAKES = {
    "method", "task", "collection", "edges", "nodes", "label", "schema", "preset", "set", "threads", "sign_key",
    "deployment", "out", "as_json", "verbose",
}  # fmt: skip
_FIXED = "the schema of the collection fixes it, or the agreement of two servers, and devices answered by it already"
_WHY = {
    **dict.fromkeys(("unit", "epsilon", "delta", "epsilon_x", "epsilon_y", "mechanism"), _FIXED),
    **dict.fromkeys(
        ("ledger", *TOTALS),
        "devices keep the ledgers of their users, and training again costs them nothing more",
    ),
    "resumable": "the reports are kept in the collection, so a stopped run is simply started again",
    "split": "roles follow from the collection, so that nobody chooses them",
    "controls": "no true value is here that a control could read",
    "seeds": "reports are drawn once, so there is one fit",
    "directed": "links are read both ways",
}


_READ = {
    "opened": "from opened counts alone, of cells that were held out: how often the class of a user is the one predicted for a "
    "random user of the cell. The interval is of the noise of both servers. No true label was read; there is no test accuracy.",
    "reported": "from reports alone: the noise is taken out on average, so the estimate may lie outside 0 to 100 %; the interval "
    "is cut there. No true label was read; there is no test accuracy.",
    "public": "on public labels that training did not read. No label is private here; there is no test accuracy.",
}
"""What the validation accuracy was computed from."""
_OF_EDGES = "of public links that decided when to stop, against pairs without a link. No true value was read."


def train_collected(context: typer.Context, values: dict[str, Any]) -> None:
    """Train from a collection."""
    start = time.perf_counter()
    _refuse(context, values)
    check_choice(("node", "link"), task=values["task"])
    if values["task"] == "link":
        values = {**values, "method": LINKS if values["method"] == "pgc" else values["method"]}
    if (values["task"] == "link") != (values["method"] == LINKS):
        raise InputError(
            f"Expected --task link with pgc beside a collection, and with no other, got {values['method']!r}."
        )
    if isinstance(values["label"], list):
        raise fail("label", values["label"], "to be one column of classes beside a collection", "Name one.")
    check_installed(*TRAIN)
    from sfumato.collect._graph import Tables
    from sfumato.collect._reading import read_any
    from sfumato.evaluation._memory import peak_mb

    record = None if values["deployment"] is None else Deployment.read(values["deployment"])
    out, places = values["out"], (values[name] for name in ("edges", "nodes", "label", "schema"))
    tables = Tables(*(None if one is None else str(one) for one in places))
    hint = "Reports stay in the collection: train again in another folder, which costs nothing."
    kept = Kept(out, sign_key=values["sign_key"], deployment=record, hint=hint)
    with kept.held():
        set_threads(values["threads"])
        training = _prepared(read_any(values["collection"]), tables, values["method"], values["preset"], values["set"])
        caveats = [*training.plan.caveats, *_missing(training)]
        tell(caveats)
        if values["verbose"]:
            typer.echo(str(training.plan), err=True)
        loaded = time.perf_counter()
        with stage_bars(values["as_json"]) as report:
            fitted = kept.release(training.fit, tables, progress=report)
        trained = time.perf_counter()
        result = _result(training, fitted)
        result["seconds"] = {"load": loaded - start, "train": trained - loaded, "total": time.perf_counter() - start}
        result |= {"caveats": caveats, "peak_mb": peak_mb(), "device": "cpu", "out": str(out)}
        write_json(out / "evaluation" / "validation.json", result)
        write_json(out / "evaluation" / "curves.json", dict(fitted.curves))
        write_words(fitted.certificate, out)
    typer.echo(json.dumps(result)) if values["as_json"] else _show(values["method"], result, fitted, out)


def _prepared(found: Closed | OpenedFile, *how: Any) -> Training:
    from sfumato.collect._closed import Closed
    from sfumato.collect._training import prepare
    from sfumato.collect.two._training import prepare as prepare_opened

    return prepare(found, *how) if isinstance(found, Closed) else prepare_opened(found, *how)


def graph_of_run(run: Path, fitted: Fitted) -> Graph:
    """Build the graph of a run on a collection again, from the file in its release and the tables that it names."""
    from sfumato.collect._closed import Closed
    from sfumato.collect._graph import Tables, graph_of
    from sfumato.collect._reading import read_any
    from sfumato.collect.two._training import graph_of as graph_of_opened
    from sfumato.record._collected import FILE

    found, tables = read_any(str(run / "release" / FILE)), Tables.of_run(run)
    if isinstance(found, Closed):
        return graph_of(found, tables, labeled=fitted.plan.method.card.reads_labels)
    return graph_of_opened(found, tables)


def _refuse(context: typer.Context, values: dict[str, Any]) -> None:
    """Refuse every option that was given and has no meaning beside a collection, and a value out of range."""
    for name in values:
        source = context.get_parameter_source(name)
        if name in _TAKES or source is None or source.name != "COMMANDLINE":
            continue
        raise InputError(
            f"Expected no {spelled(name)} with --collection: {_WHY.get(name, 'it has no meaning there')}. Drop it."
        )
    for name in ("method", "out"):
        if values[name] is None:
            raise InputError(f"Expected {spelled(name)} with --collection, got none. Name it.")
    if values["threads"] is not None:
        check_int(low=1, threads=values["threads"])


def _missing(training: Training) -> Iterator[Caveat]:
    """Warn where most of the graph is a guess, as with ids of another kind in the tables."""
    from sfumato.privacy.promises import Caveat

    reported = training.collected.facts["reports"]
    silent = training.graph.num_nodes - reported
    if silent > reported:
        yield Caveat(
            "few-reports",
            f"{silent:,} nodes have no report, and only {reported:,} have one. What the model says about most nodes follows from "
            "their neighbors alone. Check that the tables name users as the collection does, or collect more reports.",
        )


def _result(training: Training, fitted: Fitted) -> dict[str, Any]:
    """What is printed as JSON: the form of other runs, without what true values would say."""
    plan, facts = fitted.plan, training.collected.facts
    labels = "public" if training.graph.y is not None else "opened" if is_opened(facts) else "reported"
    unknown = ("test_accuracy", "test_macro_f1", "floor", "label_control", "ceiling", "graph_gain_recovered")
    return {
        "method": plan.method.name,
        "unit": plan.unit.name,
        "task": "node" if plan.method.card.reads_labels else "link",
        **dict.fromkeys(unknown),
        **_validation(training, fitted),
        "privacy": {
            "unit": plan.unit.name,
            "relation": plan.unit.relation,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            **plan.method.shares,
        },
        "evaluation_private": True,
        "dataset": training.graph.name,
        "collection": dict(facts),
        "labels": labels,
        "missing": training.graph.num_nodes - facts["reports"],
    }


def _validation(training: Training, fitted: Fitted) -> dict[str, Any]:
    low_to_high = dict(zip(("mean", "low", "high"), training.validation(fitted), strict=True))
    if fitted.plan.method.card.reads_labels:
        return {"validation_accuracy": low_to_high}
    return {"validation_accuracy": None, "validation_auc": low_to_high["mean"]}


def _show(typed: str, result: dict[str, Any], fitted: Fitted, out: Path) -> None:
    console, found, facts = plain_console(), result["validation_accuracy"], result["collection"]
    who = (
        f"{facts['reports']:,} of {facts['asked']:,} users who were asked"
        if "asked" in facts
        else f"{facts['reports']:,} users"
    )
    nodes = f"{who} reported; {result['missing']:,} nodes have no report."
    method = typed if typed == result["method"] else f"{typed} ({result['method']})"
    console.print(f"{method} from collection {facts['name']}: {nodes}", soft_wrap=True)
    if found is None:
        console.print(f"Validation AUC {100 * result['validation_auc']:.1f} %, {_OF_EDGES}\n", soft_wrap=True)
        show_guarantee(fitted.certificate, out, "The validation AUC was computed from reports and public links alone.")
        return
    low, mean, high = (f"{100 * found[name]:.1f}" for name in ("low", "mean", "high"))
    console.print(f"Validation accuracy {mean} % [{low}, {high}], {_READ[result['labels']]}\n", soft_wrap=True)
    read = "opened counts" if result["labels"] == "opened" else "reports"
    show_guarantee(fitted.certificate, out, f"The validation accuracy was computed from {read} alone.")
