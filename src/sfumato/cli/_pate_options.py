"""What `sfumato pate analyze` and `sfumato pate run` share: how options say which noise, and how errors name options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._validate import check_choice
from sfumato.cli._options import Options
from sfumato.cli._table import option, rows, same, spelled
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.method._settings import Setting
    from sfumato.pate._aggregation import Mechanism

_OURS = ("num_classes", "seed", "device")  # of a student: data and other options say them
_row = partial(option, commands="pate-run")
_same = partial(same, Options, command="pate-run")


def student_settings(name: str) -> dict[str, Setting]:
    """Return the settings of a student of this name that --set reaches."""
    from sfumato.method._settings import fields_of
    from sfumato.pate._plan import STUDENTS, student_class

    chosen = student_class(check_choice(tuple(STUDENTS), student=name))
    return {name: one for name, one in fields_of(chosen, {}).items() if name not in _OURS}


def asked_of_student(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a student in words NAME=VALUE, each of which it takes."""
    from sfumato.method._settings import read_words
    from sfumato.pate._plan import STUDENTS, student_class

    check_choice(tuple(STUDENTS), **{"--student": name})
    found = read_words(student_settings(name), words, name, f"sfumato pate students {name}")
    student_class(name)(num_classes=2, **found)  # refuses a value out of range, by its own name
    return found


def complete_student_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the student on the command line whose names begin like this, with what they mean."""
    from sfumato.pate._plan import STUDENTS

    word = str(ctx.params.get("student"))
    for setting in student_settings(word).values() if word in STUDENTS else ():
        if setting.name.startswith(incomplete):
            yield f"{setting.name}=", setting.meaning


@dataclass(frozen=True, kw_only=True)
class PateOptions:
    """The table of options of `pate run`: each means what its help text says."""

    dataset: str = _row("The images to learn from: mnist or fashion_mnist.", default=...)
    data_dir: Path = _row(rows(Options)["data_dir"].help["train"], environment="SFUMATO_DATA", default=...)
    teachers: int = _row(
        "How many teachers to train. Each learns from its own part of the training images.", default=250
    )
    queries: int = _row(
        "The number of public images to ask about. They are chosen beforehand, by their index.", default=...
    )
    epsilon: float = _row(
        "With data-independent --accounting: the most that the run may cost. With released: the largest published epsilon "
        "at which the student may be released; the run may cost more. With as-published it limits nothing.",
        default=...,
    )
    delta: float = _row("The failure probability of the guarantee.", default=1e-5)
    mechanism: str = _row("How votes are made private: lnmax, gnmax or confident-gnmax.", default="confident-gnmax")
    accounting: str = _row(
        "How epsilon is computed: data-independent (noise is calibrated to --epsilon), released (a noisy upper bound is "
        "published afterwards) or as-published (it depends on the data, for tables: nothing may be released).",
        default="data-independent",
    )
    max_answers: int | None = _row("The most queries that confident-gnmax answers (default: half of the queries).")
    teacher: str = _row(
        "What kind of teachers to train: kernel (regression on edges in the image, in seconds) or cnn (networks, in minutes).",
        default="kernel",
    )
    student: str = _row(
        "How the student learns: consistency, gan, coteaching, pate-plus or pate-plus-plus.", default="consistency"
    )
    set: tuple[str, ...] = _row(
        "NAME=VALUE: a setting of the student, such as epochs=50. May be repeated. `sfumato pate students NAME` explains "
        "them.",
        default=(),
        complete=complete_student_setting,
    )
    scale: float | None = _row("Set the noise yourself: the scale b of the Laplace noise of lnmax, in votes.")
    sigma1: float | None = _row("Set the noise yourself: its standard deviation at the threshold, in votes.")
    sigma2: float | None = _row("Set the noise yourself: its standard deviation on each count, in votes.")
    threshold: float | None = _row("Set the threshold of confident-gnmax yourself, in votes.")
    release: str = _row("With --accounting released: ORDER,BETA,NOISE of the noisy upper bound.", default="8,0.025,4")
    controls: bool = _row(
        "Also train the ceiling: the same student, on true labels.", flags="--controls/--no-controls", default=True
    )
    quick: bool = _row("Make a small run: at most 50 teachers and 100 queries, with small networks.", default=False)
    seed: int = _row("The seed of teachers, queries and student. The noise has a key of its own.", default=0)
    device: str = _row("Where cnn teachers are trained: cpu or cuda.", default="cpu")
    ledger: Path | None = _same("ledger")
    total_epsilon: float | None = _same("total_epsilon")
    total_delta: float | None = _same("total_delta")
    composition: str | None = _same("composition")
    population: str | None = _same("population")
    schedule: Path | None = _same("schedule")
    sign_key: Path | None = _same("sign_key")
    threads: int | None = _same("threads")
    engine: str = _same("engine")
    ray_address: str | None = _same("ray_address")
    out: Path = _row(
        "A new folder for this run, or the folder of a stopped run with the same options. Without --ledger, an old copy of "
        "the folder cannot be recognized: never put one back.",
        default=...,
    )
    as_json: bool = _same("as_json")


OPTIONS = {
    **{name: spelled(name) for name in rows(PateOptions)},
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


@contextmanager
def named_by_options() -> Iterator[None]:
    """Name options, not arguments of the library, where an error says what it expected."""
    try:
        yield
    except InputError as error:
        named = re.sub(r"^Expected (\w+)(?= )", lambda found: f"Expected {OPTIONS.get(found[1], found[1])}", str(error))
        renamed = type(error)(named)
        renamed.__notes__ = getattr(error, "__notes__", [])
        raise renamed from error


def mechanism_of(name: str, given: dict[str, float | None]) -> Mechanism:
    """Return the mechanism of a ``name``, with the noise in ``given``: a number in votes, or None, for each option."""
    from sfumato.pate._plan import MECHANISMS, NOISE

    check_choice(tuple(NOISE), mechanism=name)
    if name == "gnmax" and given["--sigma2"] is None:  # one noise only: either name will do
        given = {**given, "--sigma2": given["--sigma1"], "--sigma1": None}
    needed = [f"--{one}" for one in NOISE[name]]
    for flag, value in given.items():
        if (value is None) == (flag in needed):
            raise InputError(
                f"Expected {' '.join(needed)} with --mechanism {name}, and no other noise; got "
                f"{' '.join(key for key, held in given.items() if held is not None) or 'none'}. Noise is in votes."
            )
    values: list[Any] = [given[flag] for flag in needed]
    made: Mechanism = MECHANISMS[name](*values)
    return made


def numbers_of(release: str | None, as_published: bool) -> tuple[float, float, float]:
    """Return order, beta and noise of the option ``--release``; zeros without it."""
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
