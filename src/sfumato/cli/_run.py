"""Commands on a finished run folder: evaluate and verify."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato._version import __version__
from sfumato.cli._completing import complete_run
from sfumato.cli._newest import learned
from sfumato.cli._options import of
from sfumato.cli._scores import shown
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.verify import Verification

RUN = typer.Argument(..., help="The folder of a run.", autocompletion=complete_run)


def evaluate(run: Path = RUN, by: str | None = of("by"), as_json: bool = JSON) -> None:
    """Score a run on its test nodes again, beside the floor that `train --save-floor` saved with it.

    This reads true labels, so the scores are outside the guarantee. In Python, fitted.evaluate(graph) returns the same.
    """
    check_installed(*LIGHT)
    from sfumato.catalog import load
    from sfumato.evaluation._source import Source, groups_of

    fitted = learned(run)
    if fitted.collection is not None:
        raise InputError(
            f"Expected a run with true labels to score it by, got one on a collection. {run / 'evaluation' / 'validation.json'} "
            "holds its validation accuracy, from reports alone."
        )
    source, kept = Source.of_run(run), _saved_floor(run)
    loaded = source.load()
    groups, graph = None if by is None else groups_of(source, loaded, by), source.with_roles_of(loaded, fitted)
    result = fitted.evaluate(graph, by=groups, floor=None if kept is None else load(kept))
    if as_json:
        typer.echo(json.dumps(result))
        return
    told, beside = _words(result["test_scores"]), _words(result["without_information"])
    typer.echo(f"On test nodes: {told} (the same answer for all nodes: {beside}). Not covered by the guarantee.")
    for name, scores in result["control_scores"].items():
        typer.echo(f"Its {name}, in {kept}: {_words(scores)}.")
    parts = result["detail"] or {"groups": None, "warnings": ()}
    for note in (*fitted.unused, *parts["warnings"], *_of_groups(parts)):
        typer.echo(note)


def _saved_floor(run: Path) -> Path | None:
    """The folder that `train --save-floor` saved the floor of a run in, if it is still there."""
    metrics = run / "evaluation" / "metrics.json"
    if not metrics.exists():
        return None
    saved = (json.loads(metrics.read_text()).get("floor_release") or {}).get("saved")
    return Path(saved) if saved and Path(saved).is_dir() else None


def _words(scores: dict[str, float]) -> str:
    """Scores in a sentence."""
    from sfumato.scoring._scores import TITLES

    return ", ".join(f"{TITLES[name]} {shown(name, value)}" for name, value in scores.items())


def _of_groups(found: dict[str, Any]) -> list[str]:
    """A line for each declared group."""
    groups = found["groups"] or {"rows": []}
    return [_of_group(groups["column"], row) for row in groups["rows"]]


def _of_group(column: str, row: dict[str, Any]) -> str:
    own, nodes = row["scores"]["run"], row["nodes"]
    scores = f"accuracy {shown('accuracy', own['accuracy'])}, log-loss {shown('log_loss', own['log_loss'])}"
    return f"{column} = {row['name']}: {nodes:,} test node{'s' * (nodes != 1)}, {scores}"


def verify(
    run: Path = typer.Argument(
        ..., help="The folder of a run, or the file of a ledger that runs share.", autocompletion=complete_run
    ),
    public_key: Path | None = typer.Option(
        None,
        "--public-key",
        help="The file of an Ed25519 public key (PEM or 64 hexadecimal digits). The run must be signed by this key.",
    ),
    runs: list[Path] = typer.Option(
        [],
        "--runs",
        help="Of a ledger: a folder below which more of its runs are, beside those that it names itself. Repeat it for several.",
    ),
    collection: Path | None = typer.Option(
        None,
        "--collection",
        help="Of the file that `collect estimate --out` wrote: the closed or opened collection that it is about.",
    ),
    as_json: bool = JSON,
) -> None:
    """Check a run, or a ledger with all its runs, without trusting it.

    It checks files, ledger and signature, and derives epsilon again. Of the ledger of a data set or a population it checks
    every run that is charged there, and that their claims add up to no more than its totals. Answers of statistics that stand
    beside their release are compared with it. Estimates of a collection are checked for what they say that a report cost. Exit
    code 1 if a check fails.
    """
    if collection is not None:
        _verify_survey(run, collection, as_json)
    if run.is_file():
        _verify_ledger(run, runs, public_key, as_json)
    if runs and run.exists():
        raise InputError(f"Expected --runs with the file of a ledger, got the folder {str(run)!r}. Drop it.")
    from sfumato import verify as verifier

    try:
        result = verifier.verify(run, public_key)
    except verifier.VerifyInputError as error:
        raise InputError(str(error)) from error
    result = _with_texts(run, result)
    if as_json:
        known = result.unit is not None
        found = {
            "valid": result.valid,
            "problems": list(result.problems),
            "unit": result.unit,
            "claim": {"epsilon": result.claim_epsilon, "delta": result.claim_delta} if known else None,
            "key": result.key,
            "origin_checked": result.origin_checked,
            "caveats": list(result.caveats),
            "prices": list(result.prices),
            "arrivals": result.arrivals,
            "aside": list(result.aside),
            **({} if result.collection is None else {"collection": result.collection}),
            **({} if result.deployment is None else {"deployment": result.deployment}),
        }
        typer.echo(json.dumps(found))
    else:
        typer.echo(verifier.describe(run, result))
    raise typer.Exit(0 if result.valid else 1)


def _with_texts(run: Path, result: Verification) -> Verification:
    """Add what is wrong with the texts beside a release, which follow from it, so that the package can tell.

    Another version may say the same in other words, so its guarantee is no problem, and is named as not checked.
    """
    from sfumato.evaluation._answered import answer_faults
    from sfumato.evaluation._kept import words_fault

    if not result.valid:
        return result
    faults, aside, words = list(answer_faults(run)), list(result.aside), words_fault(run)
    if words is not None:
        (faults if f"Sfumato {__version__} " in words else aside).append(words)
    return replace(result, valid=not faults, problems=(*result.problems, *faults), aside=tuple(aside))


def _verify_survey(file: Path, collection: Path, as_json: bool) -> None:
    """Print the verdict about what estimates say of privacy, and end."""
    from sfumato import verify as verifier

    try:
        result = verifier.verify_survey(file, collection)
    except verifier.VerifyInputError as error:
        raise InputError(str(error)) from error
    found = {"valid": result.valid, "problems": list(result.problems), "local": result.local, "central": result.central}
    found |= {} if result.servers is None else {"privacy": result.servers.get("privacy")}
    typer.echo(json.dumps(found) if as_json else verifier.describe_survey(file, result))
    raise typer.Exit(0 if result.valid else 1)


def _verify_ledger(file: Path, runs: list[Path], public_key: Path | None, as_json: bool) -> None:
    """Print the verdict about a ledger and its runs, and end."""
    from sfumato import verify as verifier

    try:
        result = verifier.verify_ledger(file, runs, public_key)
    except verifier.VerifyInputError as error:
        raise InputError(str(error)) from error
    if as_json:
        told = [
            {"line": line.number, "state": line.state, "folder": line.folder, **line.claim} for line in result.lines
        ]
        found = {"valid": result.valid, "problems": list(result.problems), "header": result.header, "runs": told}
        spent = {name: {"spent": spent, "total": total} for name, (spent, total) in result.spent.items()}
        typer.echo(json.dumps({**found, "spent": spent, "aside": list(result.aside)}))
    else:
        typer.echo(verifier.describe_ledger(file, result))
    raise typer.Exit(0 if result.valid else 1)
