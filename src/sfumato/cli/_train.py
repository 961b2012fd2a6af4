"""`sfumato train`: fit a method, save the run, print its accuracy beside floor and ceiling."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato.cli import _check as check
from sfumato.cli import _collected as collected
from sfumato.cli import _data as data
from sfumato.cli import _describe as describe
from sfumato.cli._engine import running
from sfumato.cli._options import Options
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._parse import given, parse, with_arcs
from sfumato.cli._scores import note_left_out, note_uncharged, show, show_links
from sfumato.cli._stored import take_up
from sfumato.cli._table import takes
from sfumato.evaluation._kept import PRIVATE

if TYPE_CHECKING:
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._run import Planned
    from sfumato.record._resume import FitState

_NO_BOUND = (
    "no edge is read at this budget. A public bound on how many a node has may change that: promise one (--max-degree), or "
    "declare degrees public (--public-degrees, or degree_column in a schema), if that is true."
)
_BY_SQUARES = (
    "counts have Gaussian noise, which costs least where a ledger adds up squares of mu; for this epsilon alone Laplace noise "
    "would be smaller. `sfumato budget plan` prints how much epsilon a run may ask for here."
)


@takes(Options, "train")
def train(context: typer.Context, values: dict[str, Any]) -> None:
    """Train a method within a privacy budget.

    The run is saved with its certificate.
    """
    if values["dry_run"]:
        check.dry_run(values)
        return
    if values["collection"] is not None:
        collected.train_collected(context, values)
        return
    state = None
    if values["resume"] is not None:
        chosen, state = take_up(values["resume"], context, with_arcs(values))
    else:
        chosen = given(values)
    _train(chosen, state, values["as_json"], values["verbose"], running(values["engine"], values["ray_address"]))


def _train(
    options: Options, state: FitState | None, as_json: bool, verbose: bool, engine: AbstractContextManager[None]
) -> None:
    check_installed(*LIGHT)
    job = parse(options)
    if options.controls:  # else those that need what is not installed are left out, and named
        check.check_controls()
    from sfumato.evaluation._links import LinkEvaluation
    from sfumato.evaluation._outcome import Evaluation
    from sfumato.evaluation._run import run

    with engine:
        ran = run(job, partial(_planned, job, state is not None, as_json, verbose), partial(stage_bars, as_json), state)
    if ran.fitted.ledger.torn:
        print("Note: the ledger ended inside a line: its release was not computed yet, and is now.", file=sys.stderr)
    note_left_out(ran.evaluation)
    if as_json:
        typer.echo(json.dumps(ran.result))
    elif isinstance(ran.evaluation, LinkEvaluation):
        show_links(ran.result, ran.evaluation, job.kept.out)
    else:
        assert isinstance(ran.evaluation, Evaluation)
        show(ran.result, ran.evaluation, job.kept.out)


def _planned(job: Job, resumed: bool, quiet: bool, verbose: bool, found: Planned) -> None:
    """Say what will run, and what is implausible about it."""
    from sfumato.bounded._promise import protects_every_arc
    from sfumato.loops.kernels import loops

    plan, graph = found.prepared.plan, found.prepared.graph
    if plan.method.name != job.request.method.name:
        print(f"{job.word}: {plan.method.name}, by unit, budget and public facts.", file=sys.stderr)
        declared = plan.public.degree_bounds or plan.public.max_degree is not None
        if protects_every_arc(plan.unit) and not plan.method.card.reads_links and not declared:
            print(f"{job.word}: {_NO_BOUND}", file=sys.stderr)
    ledger = job.kept.ledger
    if ledger is not None and ledger.rule == "gdp" and plan.method.settings.get("noise") == "gaussian":
        print(f"{job.word}: {_BY_SQUARES}", file=sys.stderr)
    describe.tell_columns([] if quiet else found.columns, graph, plan.unit.public)
    tell((*plan.caveats, *data.unscaled(graph, plan.unit)))
    if verbose:
        print(plan, f"Neighborhoods are summed in {loops().NAME}.", sep="\n", file=sys.stderr)
    note_uncharged(job)
    if job.stored is not None and not resumed:
        print(
            f"Warning: until this run has finished, {job.kept.out / PRIVATE} holds its noise key. Whoever reads it can remove "
            "the noise: keep it to yourself, and out of backups.",
            file=sys.stderr,
        )
