"""`sfumato pate run`: train teachers, ask them privately, and train a student."""

from __future__ import annotations

import json
from typing import Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato.cli._engine import running
from sfumato.cli._methods import setting_lines, setting_told
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._parse import shared_ledger
from sfumato.cli._pate_analyze import analyze
from sfumato.cli._pate_options import (
    PateOptions,
    asked_of_student,
    mechanism_of,
    named_by_options,
    numbers_of,
    student_settings,
)
from sfumato.cli._table import JSON, spelled, takes
from sfumato.errors import BudgetExceededError
from sfumato.evaluation._memory import peak_mb

_SETTINGS = (
    "epsilon",
    "delta",
    "accounting",
    "max_answers",
    "teacher",
    "student",
    "quick",
    "controls",
    "seed",
    "device",
)

app = typer.Typer(help="Learn from the noisy votes of teachers (PATE).", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Learn from the noisy votes of teachers (PATE)."""


app.command()(analyze)


@app.command()
@takes(PateOptions, "pate-run")
def run(_context: typer.Context, values: dict[str, Any]) -> None:
    """Train teachers, ask them privately, and train a student.

    The student learns from the noisy answers. It may be released, unless --accounting says otherwise.
    """
    check_installed(*TRAIN)
    from sfumato._threads import set_threads as use_threads
    from sfumato.pate._images import load_images
    from sfumato.pate._kept import leaving
    from sfumato.pate._plan import Settings, make_plan
    from sfumato.pate._run import run as run_pate

    asked = PateOptions(**values)
    learned = asked_of_student(asked.student, asked.set)
    given = {spelled(name): values[name] for name in ("scale", "sigma1", "sigma2", "threshold")}
    fixed = any(value is not None for value in given.values())
    with named_by_options():
        settings = Settings(
            asked.teachers,
            asked.queries,
            mechanism=mechanism_of(asked.mechanism, given) if fixed else asked.mechanism,
            student_settings=learned,
            gnss=numbers_of(asked.release, as_published=False),
            **{name: values[name] for name in _SETTINGS},
        )
        shared = shared_ledger(asked)
        use_threads(asked.threads)
        with running(asked.engine, asked.ray_address), leaving(asked.out, asked.ledger):
            if shared is not None:
                typer.echo(
                    "Note: scores read clean votes and true labels: they are not charged to the ledger.", err=True
                )
            with stage_bars(quiet=False) as progress:
                images = load_images(asked.dataset, asked.data_dir)
                tell(make_plan(settings, images.num_classes).caveats(settings.num_teachers))
                told = run_pate(
                    settings, images, asked.out, progress=progress, dataset_ledger=shared, sign_key=asked.sign_key
                )
            told = {**told, "peak_mb": peak_mb(), "out": str(asked.out)}
            write_json(asked.out / "evaluation" / "metrics.json", told)
    typer.echo(json.dumps(told) if asked.as_json else "\n".join(_lines(told)))
    if asked.accounting == "released" and not told["privacy"]["releasable"]:
        raise BudgetExceededError(
            f"Expected the told epsilon to be at most --epsilon {asked.epsilon:g}, got {told['privacy']['epsilon']:.4f}. The "
            "queries stay charged and the student may not leave. Ask fewer queries, or add noise, in another run."
        )


@app.command()
def students(
    name: str | None = typer.Argument(None, help="Explain the settings of this student."), as_json: bool = JSON
) -> None:
    """List the students of `sfumato pate run`, or explain the settings of one, which --set NAME=VALUE sets."""
    from sfumato.pate._plan import STUDENTS, student_class

    if name is None:
        found = {word: str(student_class(word).__doc__).partition(";")[0] for word in STUDENTS}
        typer.echo(json.dumps(found) if as_json else "\n".join(f"{word}: {text}." for word, text in found.items()))
        return
    known = student_settings(name)
    if as_json:
        typer.echo(json.dumps({"student": name, "settings": [setting_told(one, known) for one in known.values()]}))
        return
    typer.echo("\n".join(setting_lines(known)))
    shown = next(iter(known.values()))
    typer.echo(f"\nGive one as: sfumato pate run --student {name} --set {shown.name}={shown.usual} ...")


def _lines(told: dict[str, Any]) -> list[str]:
    privacy, student = told["privacy"], told["student"]
    resumed = ["Went on from the answers of the stopped run: nothing was charged."] * told["resumed"]
    lines = [
        *resumed,
        f"{told['dataset']}: {told['teachers']} teachers answered {told['answered']} of {told['asked']} queries.",
        f"Student {100 * student['accuracy']:.2f} %, macro-F1 {100 * student['macro_f1']:.2f} % (test rows 9000 to 9999; "
        "rows 0 to 8999 are the public pool).",
        f"Noisy labels right {100 * told['noisy_label_accuracy']:.2f} %, plurality {100 * told['plurality_accuracy']:.2f} %, "
        f"floor {100 * told['floor']['accuracy']:.2f} %"
        + (f", ceiling {100 * told['ceiling']['accuracy']:.2f} %." if told["ceiling"] else "."),
        "These scores read true labels and clean votes: they are not covered by the guarantee.",
        f"epsilon = {privacy['epsilon']:.4f} at delta = {privacy['delta']:g} ({privacy['accounting']}).",
    ]
    if privacy["accounting"] != "data-independent":
        lines.append(f"Data-independent, of the answers alone: epsilon = {privacy['data_independent_epsilon']:.4f}.")
    if privacy["releasable"]:
        certified = (
            f"Check it: sfumato verify {told['out']}"
            if privacy["certificate"]
            else "It has no certificate: this epsilon cannot be derived again without the votes."
        )
        lines.append(f"Run folder: {told['out']}. Only {told['out']}/release may leave. {certified}")
    elif privacy["accounting"] == "as-published":
        lines.append("Not releasable: epsilon depends on the votes. There is no certificate and no release folder.")
    return lines
