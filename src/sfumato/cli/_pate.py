"""`sfumato pate run`: train teachers, ask them privately, and train a student."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato.cli import _data as data
from sfumato.cli import _options as options
from sfumato.cli._engine import running
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._pate_analyze import analyze
from sfumato.cli._pate_options import mechanism_of, named_by_options, numbers_of
from sfumato.cli._stopped import leaving_pate
from sfumato.errors import BudgetExceededError
from sfumato.evaluation._memory import peak_mb

app = typer.Typer(help="Learn from the noisy votes of teachers (PATE).", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Learn from the noisy votes of teachers (PATE)."""


app.command()(analyze)


@app.command()
def run(
    dataset: str = typer.Option(..., "--dataset", help="The images to learn from: mnist or fashion_mnist."),
    data_dir: Path = typer.Option(
        ..., "--data-dir", envvar=data.DATA_DIR.envvar, show_envvar=False, help=data.DATA_DIR.help
    ),
    teachers: int = typer.Option(
        250, "--teachers", help="How many teachers to train. Each learns from its own part of the training images."
    ),
    queries: int = typer.Option(
        ..., "--queries", help="The number of public images to ask about. They are chosen beforehand, by their index."
    ),
    epsilon: float = typer.Option(
        ...,
        "--epsilon",
        help="With data-independent --accounting: the most that the run may cost. With released: the largest published epsilon "
        "with which the student may leave; the run may cost more. With as-published it limits nothing.",
    ),
    delta: float = typer.Option(1e-5, "--delta", help="The failure probability of the guarantee."),
    mechanism: str = typer.Option(
        "confident-gnmax", "--mechanism", help="How votes are made private: lnmax, gnmax or confident-gnmax."
    ),
    accounting: str = typer.Option(
        "data-independent",
        "--accounting",
        help="How epsilon is computed: data-independent (noise is calibrated to --epsilon), released (a noisy upper bound is "
        "published afterwards) or as-published (it depends on the data, for tables: nothing may leave).",
    ),
    max_answers: int | None = typer.Option(
        None, "--max-answers", help="The most queries that confident-gnmax answers (default: half of the queries)."
    ),
    teacher: str = typer.Option(
        "kernel",
        "--teacher",
        help="What kind of teachers to train: kernel (regression on edges in the image: seconds) or cnn (networks: minutes).",
    ),
    student: str = typer.Option(
        "consistency",
        "--student",
        help="How the student learns: consistency, gan, coteaching, pate-plus or pate-plus-plus.",
    ),
    scale: float | None = typer.Option(
        None, "--scale", help="Set the noise yourself: the scale b of the Laplace noise of lnmax, in votes."
    ),
    sigma1: float | None = typer.Option(
        None, "--sigma1", help="Set the noise yourself: its standard deviation at the threshold, in votes."
    ),
    sigma2: float | None = typer.Option(
        None, "--sigma2", help="Set the noise yourself: its standard deviation on each count, in votes."
    ),
    threshold: float | None = typer.Option(
        None, "--threshold", help="Set the threshold of confident-gnmax yourself, in votes."
    ),
    release: str = typer.Option(
        "8,0.025,4", "--release", help="With --accounting released: ORDER,BETA,NOISE of the noisy upper bound."
    ),
    controls: bool = typer.Option(
        True, "--controls/--no-controls", help="Also train the ceiling: the same student, on true labels."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="Make a small run: at most 50 teachers and 100 queries, with small networks."
    ),
    seed: int = typer.Option(
        0, "--seed", help="The seed of teachers, queries and student. The noise has a key of its own."
    ),
    device: str = typer.Option("cpu", "--device", help="Where cnn teachers are trained: cpu or cuda."),
    ledger: Path | None = options.LEDGER,
    total_epsilon: float | None = options.TOTAL_EPSILON,
    total_delta: float | None = options.TOTAL_DELTA,
    composition: str | None = options.COMPOSITION,
    sign_key: Path | None = options.SIGN_KEY,
    threads: int | None = options.THREADS,
    engine: str = options.ENGINE,
    ray_address: str | None = options.RAY_ADDRESS,
    out: Path = typer.Option(
        ...,
        "--out",
        help="A new folder for this run, or the folder of a stopped run with the same options. Without --ledger, nobody can "
        "recognize an old copy of the folder: never put one back.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on standard output."),
) -> None:
    """Train teachers, ask them privately, and train a student.

    The student learns from the noisy answers. It may leave, except where --accounting says otherwise.
    """
    check_installed(*TRAIN)
    from sfumato._threads import set_threads as use_threads
    from sfumato.pate._images import load_images
    from sfumato.pate._plan import Settings, make_plan
    from sfumato.pate._run import run as run_pate

    given = {"--scale": scale, "--sigma1": sigma1, "--sigma2": sigma2, "--threshold": threshold}
    fixed = any(value is not None for value in given.values())
    with named_by_options():
        settings = Settings(
            teachers,
            queries,
            epsilon,
            delta,
            mechanism=mechanism_of(mechanism, given) if fixed else mechanism,
            accounting=accounting,
            max_answers=max_answers,
            teacher=teacher,
            student=student,
            quick=quick,
            gnss=numbers_of(release, as_published=False),
            controls=controls,
            seed=seed,
            device=device,
        )
        shared = options.shared_ledger(ledger, total_epsilon, total_delta, composition)
        use_threads(threads)
        with running(engine, ray_address), leaving_pate(out, ledger):
            if shared is not None:
                typer.echo(
                    "Note: scores read clean votes and true labels: they are not charged to the ledger.", err=True
                )
            with stage_bars(quiet=False) as progress:
                images = load_images(dataset, data_dir)
                tell(make_plan(settings, images.num_classes).caveats(settings.num_teachers))
                told = run_pate(settings, images, out, progress=progress, dataset_ledger=shared, sign_key=sign_key)
            told = {**told, "peak_mb": peak_mb(), "out": str(out)}
            write_json(out / "evaluation" / "metrics.json", told)
    typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))
    if accounting == "released" and not told["privacy"]["releasable"]:
        raise BudgetExceededError(
            f"Expected the told epsilon to be at most --epsilon {epsilon:g}, got {told['privacy']['epsilon']:.4f}. The queries "
            "stay charged and the student may not leave. Ask fewer queries, or add noise, in another run."
        )


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
