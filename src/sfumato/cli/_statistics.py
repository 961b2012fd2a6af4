"""`sfumato describe`: numbers of edges, degrees, groups and triangles of a whole graph, each with an interval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato._validate import check_real, fail
from sfumato.cli import _check as check
from sfumato.cli import _describe as tables
from sfumato.cli._asked import asked, parse_statistics, statistics_checks
from sfumato.cli._options import Options
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._table import spelled, takes
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.statistics._words import answer_lines, number_words

if TYPE_CHECKING:
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._look import Look
    from sfumato.evaluation._run import Planned
    from sfumato.method._plan import Fitted, Plan

_AGAIN = ("from_run", "confidence", "least", "widest", "out", "as_json", "data_dir")


@takes(Options, "describe")
def describe(context: typer.Context, values: dict[str, Any]) -> None:
    """Print numbers about a whole graph, each with an interval: edges, degrees, groups, triangles.

    All statistics share one budget. The run is saved with its certificate, as that of `sfumato train`; answers.csv and
    answers.json stand beside it, and may leave with it. The same numbers again, for another --confidence or --least, cost
    nothing: --from-run DIR, which writes them where --out says. Shares and means of values that devices randomize are answered
    by `sfumato collect estimate`.
    """
    if values["list_all"]:
        _list(values["as_json"])
        return
    _check_shown(values)
    if values["from_run"] is not None:
        _again(context, values)
        return
    if values["dry_run"]:
        _dry_run(values)
        return
    check_installed(*LIGHT)
    from sfumato.evaluation._run import run

    job, quiet = parse_statistics(asked(values)), bool(values["as_json"])
    ran = run(job, partial(_planned, quiet), partial(stage_bars, quiet))
    _show(values, ran.fitted, ran.result, Path(ran.result["out"]), again=False)


def _check_shown(values: dict[str, Any]) -> None:
    remedy = "Write 95 percent as 0.95."
    check_real(remedy, low=0, high=1, open_low=True, open_high=True, confidence=values["confidence"])
    check_real(low=0, least=values["least"])
    if values["widest"] is not None:
        check_real(low=0, open_low=True, widest=values["widest"])


def _planned(quiet: bool, found: Planned) -> None:
    plan, graph = found.prepared.plan, found.prepared.graph
    tables.tell_columns([] if quiet else found.columns, graph, plan.unit.public)
    tell(plan.caveats)


def _again(context: typer.Context, values: dict[str, Any]) -> None:
    """Print the answers of a finished run again, and write them to a folder of their own if one is named."""
    from sfumato._files import whole_folder
    from sfumato.catalog import load
    from sfumato.cli._newest import run_of
    from sfumato.evaluation._kept import check_outside

    given = [name for name in values if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    other = next((name for name in given if name not in _AGAIN), None)
    if other is not None:
        raise InputError(
            f"Expected no {spelled(other)} with --from-run, whose answers were released already, got one. Drop it, or drop "
            "--from-run to spend a new budget."
        )
    run, out = run_of(values["from_run"]), values["out"]
    fitted = load(run)
    if fitted.plan.method.card.learns:
        raise InputError(
            f"Expected --from-run with a run of `sfumato describe`, got one of {fitted.plan.method.name} in {str(run)!r}. Its "
            "answers are predictions: `sfumato predict`."
        )
    verified(run)
    plan = fitted.plan
    privacy = {"unit": plan.unit.name, "relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta}
    result = {"method": plan.method.name, "privacy": privacy, "out": str(run)}
    if out is None:
        _show(values, fitted, result, None, again=True)
        return
    check_outside(out)
    if out.exists():
        raise fail("out", str(out), "to be a new folder", "Name another.")
    with whole_folder(out) as partial_folder:
        _show(values, fitted, result, partial_folder, again=True)


def _show(values: dict[str, Any], fitted: Fitted, result: dict[str, Any], out: Path | None, *, again: bool) -> None:
    """Write answers to a folder, and print them."""
    from sfumato.evaluation._answered import courteous, write_answers
    from sfumato.statistics._answers import describe as described

    confidence, found = values["confidence"], described(fitted, values["confidence"]).answers
    answers = courteous(found, values["least"], values["widest"])
    if out is not None:  # of a run all answers, of another look at it those that are printed
        write_answers(out, answers if again else found, confidence)
    hidden, run = len(found) - len(answers), result["out"]
    if values["as_json"]:
        told = {"answers": [one.to_dict() for one in answers], "confidence": confidence, "left_out": hidden}
        typer.echo(json.dumps({**result, **told}))
        return
    for line in (*answer_lines(answers, confidence, fitted.plan), ""):
        typer.echo(line)
    if hidden:
        typer.echo(f"{hidden} numbers are left out by --least or --widest, for readability: this protects nobody.")
    where = f"All of it: {values['out'] / 'answers.csv'}. " if out is not None else ""
    typer.echo(
        f"{where}Check the claim: sfumato verify {run}. A page: sfumato report {run}, for a data protection officer with "
        "--audience regulator."
    )


def _list(as_json: bool) -> None:
    """Print what can be asked."""
    from sfumato.statistics._asking import offers

    found = offers()
    if as_json:
        typer.echo(json.dumps([vars(one) for one in found]))
        return
    typer.echo(
        "Name statistics by --stats, with commas between; a number after a colon is the share of the budget: degrees:3"
    )
    typer.echo("")
    typer.echo(f"{'statistic':14}{'share':>5}  what it counts")
    for one in found:
        typer.echo(f"{one.name:14}{one.share:5g}  {one.words}")
        typer.echo(f"{'':21}under {', '.join(one.units)}")
    typer.echo("")
    typer.echo("edge: single edges, or arcs of a directed graph. node: a node with all its arcs (--arcs incident), whose number "
               "is bounded by a public promise (--max-degree).")  # fmt: skip


def _dry_run(values: dict[str, Any]) -> None:
    """Print what a look at a run finds: nothing is spent."""
    check_installed(*LIGHT)
    out = values["out"]
    options = asked(values | ({"out": Path()} if out is None else {}))
    found, job = check.look_at(options, statistics_checks(options), parse_statistics)
    if job is not None:
        check.look_around(found, job, out, controls=False)
    found.problems[:] = dict.fromkeys(map(check.by_options, found.problems))
    expected = [] if found.prepared is None else list(_expected(found.prepared.plan, values["confidence"]))
    if values["as_json"]:
        typer.echo(json.dumps(_looked(found, job, expected)))
    else:
        typer.echo("\n".join(_look_lines(found, expected, values["confidence"])))
    if found.problems:
        raise typer.Exit(2)


def _looked(found: Look, job: Job | None, expected: list[dict[str, Any]]) -> dict[str, Any]:
    plan = None if found.prepared is None else found.prepared.plan
    told = {"method": "statistics", "dataset": None if job is None else job.dataset, "problems": found.problems}
    if plan is None:
        return {**told, "plan": None, "expected": []}
    privacy = {"relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta}
    releases = [release.to_dict() for release in plan.releases]
    return {
        **told,
        "plan": {"settings": plan.method.settings, "privacy": privacy, "releases": releases},
        "expected": expected,
    }


def _expected(plan: Plan, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield how far a count of each release may be from the truth, where that is known before data is read."""
    from sfumato.statistics._asking import half_width

    for release in plan.releases:
        event: Any = release.event
        yield {
            "release": release.name,
            "epsilon": event.epsilon,
            "half_width": half_width(plan, release.name, confidence),
        }


def _look_lines(found: Look, expected: list[dict[str, Any]], confidence: float) -> Iterator[str]:
    from sfumato.tables._outline import Outline

    if found.graph is not None and found.tables:
        yield "How the tables are read"
        public = None if found.prepared is None else found.prepared.plan.unit.public
        yield from (f"  {line}" for line in Outline(found.tables, found.graph).lines(public or ()))
        yield ""
    if found.prepared is not None:
        yield "What would run"
        yield from (f"  {line}" for line in str(found.prepared.plan).splitlines())
        yield ""
        yield f"How near one count would be, with a chance of {100 * confidence:g} %"
        for one in expected:
            width = one["half_width"]
            near = (
                "as bounds on degrees allow, which are released first"
                if width is None
                else f"within {number_words(width)}"
            )
            yield f"  {one['release']:14} epsilon {one['epsilon']:<10.4g} {near}"
        yield ""
    yield f"Problems: {len(found.problems) or 'none'}"
    yield from (f"  {at}. {text}" for at, text in enumerate(found.problems, start=1))
    yield check.FREE
