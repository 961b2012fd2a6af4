"""`sfumato tune`: choose settings under the guarantee, and save the best run with its certificate.

What it prints and writes does not depend on the number of trials, on the trials that lost, or on any of their scores. So it
shows no progress, no learning curves, no seconds and no memory, and all its files carry the date of the start.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from sfumato._optional import TRAIN, check_installed
from sfumato._validate import check_choice
from sfumato.catalog import given_settings
from sfumato.cli import _data as data
from sfumato.cli import _describe as describe
from sfumato.cli._engine import running
from sfumato.cli._options import TUNABLE, Options
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._parse import given, parse
from sfumato.cli._scores import note_left_out, note_uncharged, show
from sfumato.cli._table import takes
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.central._tuned import Tuned
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._outcome import Evaluation
    from sfumato.evaluation._run import Planned
    from sfumato.method._plan import Plan


@takes(Options, "tune")
def tune(_context: typer.Context, values: dict[str, Any]) -> None:
    """Choose the settings of a method within a privacy budget.

    A secret number of trials is run, and the best one is kept. All of them together are charged as one event.
    """
    method, dry_run = values["method"], values["dry_run"]
    if method is None:
        raise InputError(f"Expected METHOD with tune, got none. Name one of {', '.join(TUNABLE)}.")
    check_choice(tuple(TUNABLE), "Only these have settings that can be tuned.", method=method)
    check_installed(*TRAIN)
    options = given(values | ({"out": Path()} if dry_run and values["out"] is None else {}), "tune")
    job = parse(options)
    from sfumato.central._tuned import Tuned
    from sfumato.experiments._tables import read_candidates

    shared = given_settings(job.word, asdict(options))
    tuned = Tuned(read_candidates(job.word, values["candidates"], shared), values["rule"], values["trials"])
    law = {"rule": tuned.rule, "mean_trials": tuned.mean_trials}
    job = replace(job, request=replace(job.request, method=tuned), kept=replace(job.kept, hint=""), tuned=law)
    _tune(job, tuned, dry_run, values["as_json"], running(values["engine"], values["ray_address"]))


def _tune(job: Job, tuned: Tuned, dry_run: bool, as_json: bool, engine: AbstractContextManager[None]) -> None:
    from sfumato.evaluation._run import plan, run
    from sfumato.record._release_folder import read_sign_key

    if dry_run:
        if job.kept.sign_key is not None:
            read_sign_key(job.kept.sign_key)
        cost = _tell(tuned, plan(job, nullcontext))
        if as_json:
            typer.echo(json.dumps(cost))
        return
    with engine:
        ran = run(job, partial(_planned, job, tuned), partial(stage_bars, as_json))
    note_left_out(ran.evaluation)
    if as_json:
        typer.echo(json.dumps(ran.result))
    else:
        show(ran.result, cast("Evaluation", ran.evaluation), job.kept.out)


def _planned(job: Job, tuned: Tuned, found: Planned) -> None:
    _tell(tuned, found)
    note_uncharged(job)
    print("tuning ...", file=sys.stderr, flush=True)


def _tell(tuned: Tuned, found: Planned) -> dict[str, Any]:
    """Say what tuning costs, and return it."""
    plan, graph = found.prepared.plan, found.prepared.graph
    describe.tell_columns(found.columns, graph, plan.unit.public)
    tell((*plan.caveats, *data.unscaled(graph, plan.unit)))
    cost = _cost(tuned, plan)
    print(_words(tuned, plan, cost), file=sys.stderr)
    return cost


def _cost(tuned: Tuned, plan: Plan) -> dict[str, Any]:
    """Return the claim, and the first noise multiplier of each candidate with and without tuning; all before any release."""
    from sfumato.central._tuned import noise_of
    from sfumato.privacy import accounting
    from sfumato.privacy.events import SelectionEvent

    names = {key for one in tuned.candidates for key, value in one.settings.items()
             if any(other.settings[key] != value for other in tuned.candidates)}  # fmt: skip
    event = plan.releases[0].event if plan.releases else None
    rows, events = [], event.candidates if isinstance(event, SelectionEvent) else ((),) * len(tuned.candidates)
    for candidate, trial in zip(tuned.candidates, events, strict=True):
        alone = candidate.calibrate(plan.budget, plan.unit, plan.public).releases
        settings = {key: value for key, value in candidate.settings.items() if key in names}
        noise = noise_of(trial[0]) if trial else None
        rows.append(
            {
                "settings": settings,
                "noise_multiplier": noise,
                "untuned": noise_of(alone[0].event) if alone else None,
                "trial_epsilon": accounting.epsilon(trial, plan.delta) if trial and plan.delta else 0.0,
            }
        )
    return {
        "method": tuned.name,
        "tuning": {"rule": tuned.rule, "mean_trials": tuned.mean_trials},
        "privacy": {"relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta},
        "candidates": rows,
    }


def _words(tuned: Tuned, plan: Plan, cost: dict[str, Any]) -> str:
    from sfumato.record._certificate import round_up

    assert plan.epsilon is not None
    lines = [
        f"Tuning {tuned.name} over {len(tuned.candidates)} candidates: {tuned.mean_trials:g} trials on average "
        f"({tuned.rule}), whose number stays secret. Protects {plan.unit.describe()}.",
        f"Cost of everything together: epsilon = {round_up(plan.epsilon)}, delta = {plan.delta:.3g}, "
        + ("charged as one event." if plan.releases else "so nothing is charged."),
    ]
    for row in cost["candidates"]:
        what = ", ".join(f"{key} {value}" for key, value in row["settings"].items())
        if row["untuned"] and row["noise_multiplier"]:
            lines.append(
                f"  {what}: noise multiplier {row['noise_multiplier']:.4g}, {row['noise_multiplier'] / row['untuned']:.2f} "
                f"times that without tuning ({row['untuned']:.4g}); one trial alone: epsilon = "
                f"{round_up(row['trial_epsilon'])}."
            )
        else:
            lines.append(f"  {what}: no noise, nothing that it releases depends on what is protected.")
    return "\n".join(lines)
