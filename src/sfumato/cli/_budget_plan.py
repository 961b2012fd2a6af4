"""`sfumato budget plan`: what each of many runs may spend under one total, before the first of them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import whole_file
from sfumato._validate import check_choice
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy._schedules import Planned

_METHODS = {
    **dict.fromkeys(("auto", "label-messages"), "counts"),
    "lpgnet": "pure",
    **dict.fromkeys(("gap", "progap"), "gaussian"),
}
_MOST_REFRESHES = 1000
"""Above it, the sensitivity of a history takes seconds to compute."""


def plan(
    runs: int = typer.Option(..., "--runs", help="How many runs there will be, such as 12."),
    total_epsilon: float = typer.Option(
        ..., "--total-epsilon", help="The most epsilon that all runs may spend together."
    ),
    delta: float = typer.Option(..., "--delta", help="The most delta that all runs may spend together, such as 1e-6."),
    method: str = typer.Option("auto", "--method", help=f"What will be trained, at edge level: {', '.join(_METHODS)}."),
    shape: str = typer.Option(
        "equal", "--shape", help="equal, or early or late: the largest release is four times the smallest."
    ),
    composition: str | None = typer.Option(
        None, "--composition", help="The rule of the ledger, for --out: basic or gdp (default: what leaves less noise)."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Write what each run may spend here, for `train --schedule FILE`."
    ),
    as_json: bool = JSON,
) -> None:
    """Print what each of many runs may spend, by every rule, and the noise beside that of one run that spends all.

    Rule joint is for comparison: it holds for runs whose epsilons are all fixed beforehand. A ledger adds up by basic or gdp.
    With --out the plan becomes a file that a ledger obeys: `train --ledger FILE --schedule PLAN` refuses a run above it.
    """
    from sfumato.privacy._schedules import planned
    from sfumato.privacy._schedules import told as told_of

    kind = _METHODS[check_choice(tuple(_METHODS), method=method)]
    if composition is not None:
        check_choice(("basic", "gdp"), composition=composition)
    found = planned(runs, total_epsilon, delta, kind, shape)
    (alone, *_) = planned(1, total_epsilon, delta, kind)
    chosen = _chosen(found, composition)
    shapes = told_of(runs, total_epsilon, delta, kind, chosen.rule)
    history = _history(runs, total_epsilon, delta) if kind == "counts" else None
    if out is not None:
        _write(out, chosen, total_epsilon, delta)
    if as_json:
        told = {"method": method, "one_run_noise": alone.noise[0], "rules": [asdict(one) for one in found]}
        told |= {"chosen": chosen.rule, "schedules": shapes, "out": None if out is None else str(out)}
        told |= {} if history is None else {"history": {"noise": history[0], "deviation": history[1]}}
        typer.echo(json.dumps(told))
        return
    typer.echo(f"{runs} runs of {method} at edge level, epsilon {total_epsilon:g} and delta {delta:g} together:")
    for one in found:
        typer.echo(f"  {one.rule}: {_words(one, alone)}")
    typer.echo(f"One run that spends all leaves noise of deviation {alone.noise[0]:.3g} on a count.")
    if composition is None:
        typer.echo(f"Rule {chosen.rule} leaves the least noise that a ledger can, and is taken for --out.")
    if kind == "counts":
        typer.echo(
            "Counts have Gaussian noise in a ledger of rule gdp (train with the delta above), Laplace noise in one of rule basic."
        )
    if history is not None:
        typer.echo(
            f"Where an edge that goes may stay counted, one history of {runs} refreshes (sfumato daily) costs these totals once, "
            f"and leaves noise of deviation {history[1]:.3g} on a count after the last, by {history[0]}."
        )
    if method == "auto":
        typer.echo(_expected(chosen.noise[0]))
    typer.echo(f"Deviation of a count by rule {chosen.rule}, on average over the runs and in the last:")
    for name, (own, last, pooled, whole) in shapes.items():
        typer.echo(
            f"  {name}: own release {own:.3g}, {last:.3g}; mean of all releases so far {pooled:.3g}, {whole:.3g}"
        )
    typer.echo(
        "Each model is trained on its own release: equal runs are best on average, --shape late for who needs the last model "
        "alone. Means of all releases are for a graph that does not change: there early releases pay, at best all in the first."
    )
    if out is not None:
        asked = f"--epsilon {chosen.epsilons[0]:g} --delta {chosen.delta:g}"
        typer.echo(
            f"{out} holds the plan by rule {chosen.rule}: sfumato train {method} ... {asked} --ledger FILE --schedule {out}"
        )


def _chosen(found: list[Planned], composition: str | None) -> Planned:
    ledgers = {one.rule: one for one in found if one.rule != "joint"}
    return min(ledgers.values(), key=lambda one: sum(one.noise)) if composition is None else ledgers[composition]


def _history(refreshes: int, epsilon: float, delta: float) -> tuple[str, float] | None:
    """The form of noise of a history with so many refreshes under one budget, and what it leaves on a count in the end."""
    from sfumato.central._daily import DailyMessages, deviations
    from sfumato.privacy.budget import Budget

    if not 1 < refreshes <= _MOST_REFRESHES:
        return None
    found = deviations(DailyMessages(days=refreshes, refreshes=refreshes), Budget(epsilon, delta))
    return min(found.items(), key=lambda one: one[1])


def _words(one: Planned, alone: Planned) -> str:
    first, last = one.epsilons[0], one.epsilons[-1]
    each = f"epsilon {first:g} each" if first == last else f"epsilon {first:g} in the first run, {last:g} in the last"
    low, high = sorted((one.noise[0], one.noise[-1]))
    noise = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    beside = f"{low / alone.noise[0]:.3g} times that of one run"
    return f"{each} (delta {one.delta:.3g}), {one.law} noise of deviation {noise}, {beside}"


def _expected(noise: float) -> str:
    """What the default reached on public graphs with about as much noise of counts, if that was measured."""
    from sfumato.evaluation._expected import ACCURACY, figures

    epsilon = math.sqrt(2) / noise
    there = [one for one in figures() if (one.unit, one.score) == ("edge", ACCURACY)]
    near = [one for one in there if 2 / 3 <= one.epsilon / epsilon <= 3 / 2]
    if not near:
        return f"No accuracy on public graphs is recorded with about this noise (that of one run of epsilon {epsilon:.3g})."
    at = min({one.epsilon for one in near}, key=lambda one: abs(one - epsilon))
    rows = [one for one in near if one.epsilon == at]
    told = "; ".join(f"{one.task} {one.run:.1f} (features alone {one.floor:.1f})" for one in rows)
    return f"Accuracy in percent with about this noise (that of one run of epsilon {at:g}), as recorded: {told}."


def _write(out: Path, chosen: Planned, total_epsilon: float, delta: float) -> None:
    from sfumato.record._schedule import Schedule

    if out.exists():
        raise InputError(f"Expected --out to be a new file, got {str(out)!r}, which exists. Name another.")
    if not min(chosen.epsilons) > 0:
        raise InputError("Expected runs that may spend something, got epsilons that round to 0. Plan fewer runs.")
    schedule = Schedule(float(total_epsilon), float(delta), chosen.rule, chosen.delta, chosen.epsilons)
    with whole_file(out) as file:
        file.write(schedule.to_json().encode())
