"""`sfumato pate`: aggregate the votes of teachers privately, and compute what that costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import TRAIN, check_installed
from sfumato._validate import check_choice
from sfumato.cli import options
from sfumato.cli.output import stage_bars, tell
from sfumato.cli.stopped import leaving_pate
from sfumato.errors import BudgetExceededError, InputError
from sfumato.evaluation.memory import peak_mb

if TYPE_CHECKING:
    from sfumato.pate.aggregation import Mechanism

app = typer.Typer(help="Learn from the noisy votes of teachers (PATE).", no_args_is_help=True, rich_markup_mode=None)
NOISE = {
    "lnmax": ("--scale",),
    "gnmax": ("--sigma2",),
    "confident-gnmax": ("--threshold", "--sigma1", "--sigma2"),
}

_SAME = ("accounting", "controls", "dataset", "delta", "device", "epsilon", "mechanism", "out", "queries", "quick", "scale",
         "seed", "student", "teacher", "threshold")  # fmt: skip
OPTIONS = {
    **{name: f"--{name}" for name in _SAME},
    "max_answers": "--max-answers",
    "sign_key": "--sign-key",
    "num_teachers": "--teachers",
    "num_queries": "--queries",
    "name": "--dataset",
    "dataset_ledger": "--ledger",
    "threshold_stddev": "--sigma1",
    "noise_stddev": "--sigma2",
    "gnss": "--release",
    "order": "ORDER of --release",
    "beta": "BETA of --release",
    "noise": "NOISE of --release",
}
"""For each name of an argument in errors of the library, the option that it is on the command line."""


@app.callback()
def _root() -> None:
    """Learn from the noisy votes of teachers (PATE)."""


@app.command()
def analyze(
    votes: Path = typer.Option(..., "--votes", help="The counts of votes [queries, classes], as .npy."),
    mechanism: str = typer.Option(
        ..., "--mechanism", help="How votes are made private: lnmax, gnmax or confident-gnmax."
    ),
    scale: float | None = typer.Option(None, "--scale", help="The scale b of the Laplace noise of lnmax, in votes."),
    sigma1: float | None = typer.Option(
        None, "--sigma1", help="The standard deviation of the noise at the threshold, in votes."
    ),
    sigma2: float | None = typer.Option(
        None, "--sigma2", help="The standard deviation of the noise on each count, in votes."
    ),
    threshold: float | None = typer.Option(
        None, "--threshold", help="How many votes, with noise, the largest count needs before confident-gnmax answers."
    ),
    queries: int | None = typer.Option(
        None, "--queries", help="How many rows to charge, from the first on (default: all)."
    ),
    delta: float = typer.Option(..., "--delta", help="The failure probability, such as 1e-5."),
    as_published: bool = typer.Option(
        False, "--as-published", help="Compute with the orders, conversion and mean costs of the papers, for tables."
    ),
    release: str | None = typer.Option(
        None,
        "--release",
        help="Print a noisy upper bound, which may leave. Give ORDER,BETA,NOISE, such as 8,0.025,4: chosen without the votes.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on standard output."),
) -> None:
    """Print what it costs to ask the teachers.

    It also says whether the printed number may leave.
    """
    from sfumato.pate.analysis import analyze as analyze_votes
    from sfumato.pate.epsilon_release import release_epsilon
    from sfumato.pate.votes import read_votes

    given = {"--scale": scale, "--sigma1": sigma1, "--sigma2": sigma2, "--threshold": threshold}
    with _named_by_options():
        asked = _mechanism(mechanism, given)
        order, beta, noise = _numbers(release, as_published)
        counts = read_votes(votes, queries)
        if release is None:
            told = analyze_votes(counts, asked, delta, as_published=as_published).to_dict()
        else:
            result = release_epsilon(counts, asked, delta, order=order, beta=beta, noise=noise)
            told = _released(asked, len(counts), result.epsilon, order, delta, result.confidence)
    typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))


@app.command()
def run(
    dataset: str = typer.Option(..., "--dataset", help="The images to learn from: mnist or fashion_mnist."),
    data_dir: Path = typer.Option(..., "--data-dir", help="The folder that holds the files of named data sets."),
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
    from sfumato.cli.options import set_threads as use_threads
    from sfumato.pate.images import load_images
    from sfumato.pate.plan import Settings, make_plan
    from sfumato.pate.run import run as run_pate

    given = {"--scale": scale, "--sigma1": sigma1, "--sigma2": sigma2, "--threshold": threshold}
    fixed = any(value is not None for value in given.values())
    with _named_by_options():
        settings = Settings(
            teachers,
            queries,
            epsilon,
            delta,
            mechanism=_mechanism(mechanism, given) if fixed else mechanism,
            accounting=accounting,
            max_answers=max_answers,
            teacher=teacher,
            student=student,
            quick=quick,
            gnss=_numbers(release, as_published=False),
            controls=controls,
            seed=seed,
            device=device,
        )
        shared = options.shared_ledger(ledger, total_epsilon, total_delta, composition)
        use_threads(threads)
        with leaving_pate(out, ledger):
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
    typer.echo(json.dumps(told) if as_json else "\n".join(_run_lines(told)))
    if accounting == "released" and not told["privacy"]["releasable"]:
        raise BudgetExceededError(
            f"Expected the told epsilon to be at most --epsilon {epsilon:g}, got {told['privacy']['epsilon']:.4f}. The queries "
            "stay charged and the student may not leave. Ask fewer queries, or add noise, in another run."
        )


@contextmanager
def _named_by_options() -> Iterator[None]:
    """Name options, not arguments of the library, where an error says what it expected."""
    try:
        yield
    except InputError as error:
        named = re.sub(r"^Expected (\w+)(?= )", lambda found: f"Expected {OPTIONS.get(found[1], found[1])}", str(error))
        renamed = type(error)(named)
        renamed.__notes__ = getattr(error, "__notes__", [])
        raise renamed from error


def _run_lines(told: dict[str, Any]) -> list[str]:
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


def _mechanism(name: str, given: dict[str, float | None]) -> Mechanism:
    from sfumato.pate.plan import MECHANISMS

    check_choice(tuple(NOISE), mechanism=name)
    if name == "gnmax" and given["--sigma2"] is None:  # one noise only: either name will do
        given = {**given, "--sigma2": given["--sigma1"], "--sigma1": None}
    needed = NOISE[name]
    for option, value in given.items():
        if (value is None) == (option in needed):
            raise InputError(
                f"Expected {' '.join(needed)} with --mechanism {name}, and no other noise; got "
                f"{' '.join(key for key, held in given.items() if held is not None) or 'none'}. Noise is in votes."
            )
    values: list[Any] = [given[option] for option in needed]
    made: Mechanism = MECHANISMS[name](*values)
    return made


def _numbers(release: str | None, as_published: bool) -> tuple[float, float, float]:
    if release is None:
        return 0.0, 0.0, 0.0
    if as_published:
        raise InputError("Expected --release without --as-published, got both. The papers' release is not private.")
    try:
        order, beta, noise = map(float, release.split(","))
    except ValueError as error:
        raise InputError(
            f"Expected --release to be three numbers ORDER,BETA,NOISE, got {release!r}. An example is 8,0.025,4."
        ) from error
    return order, beta, noise


def _released(asked: Mechanism, queries: int, epsilon: float, order: float, delta: float, confidence: float) -> Any:
    """Return what an analysis says, but without numbers that depend on the votes. Only the released one stays."""
    from sfumato.privacy import accounting

    return {
        "mechanism": asked.name,
        "queries": queries,
        "epsilon": epsilon,
        "order": order,
        "delta": delta,
        "answered": None,
        "releasable": True,
        "confidence": confidence,
        "data_independent_epsilon": accounting.epsilon(asked.events(queries), delta),
        "as_published": False,
    }


def _lines(told: dict[str, Any]) -> list[str]:
    order = "data-independent" if told["order"] is None else f"order {told['order']:g}"
    convention = ", as published" if told["as_published"] else ""
    lines = [f"epsilon = {told['epsilon']:.4f} at delta = {told['delta']:g} ({told['mechanism']}, {order}{convention})"]
    if told["releasable"]:
        lines.append(
            f"Releasable: an upper bound with confidence {told['confidence']:g}; a further release costs again."
        )
    else:
        lines.append(f"Expected answers: {told['answered']:.2f} of {told['queries']}.")
        lines.append(
            "Not releasable: it depends on the votes. Add noise with --release, or tell a data-independent epsilon."
        )
    counted = "the expected answers, as published" if told["as_published"] else "every query answered"
    lines.append(f"Data-independent, {counted}: epsilon = {told['data_independent_epsilon']:.4f}.")
    return lines
