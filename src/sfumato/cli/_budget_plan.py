"""`sfumato budget plan`: what each of many runs may spend under one total, before the first of them."""

from __future__ import annotations

import json
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
    **dict.fromkeys(("auto", "label-messages", "lpgnet"), "pure"),
    **dict.fromkeys(("gap", "progap"), "gaussian"),
}


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

    Rule joint is for comparison: it holds for runs that are all fixed beforehand, and no ledger adds up this way. With --out
    the plan becomes a file that a ledger obeys: `train --ledger FILE --schedule PLAN` refuses a run above it.
    """
    from sfumato.privacy._schedules import planned

    kind = _METHODS[check_choice(tuple(_METHODS), method=method)]
    if composition is not None:
        check_choice(("basic", "gdp"), composition=composition)
    found = planned(runs, total_epsilon, delta, kind, shape)
    (alone, *_) = planned(1, total_epsilon, delta, kind)
    chosen = _chosen(found, composition)
    if out is not None:
        _write(out, chosen, total_epsilon, delta)
    if as_json:
        told = {"method": method, "one_run_noise": alone.noise[0], "rules": [asdict(one) for one in found]}
        typer.echo(json.dumps({**told, "chosen": chosen.rule, "out": None if out is None else str(out)}))
        return
    typer.echo(f"{runs} runs of {method} at edge level, epsilon {total_epsilon:g} and delta {delta:g} together:")
    for one in found:
        typer.echo(f"  {one.rule}: {_words(one, alone)}")
    typer.echo(f"One run that spends all leaves noise of deviation {alone.noise[0]:.3g} on a count.")
    if method == "auto":
        typer.echo(_expected(chosen.epsilons[0]))
    if shape == "equal":
        typer.echo(
            "Equal runs give the best model on average, since each is trained on its own release: --shape late pays for who "
            "needs the last model alone, --shape early for who serves the first one for long. Fewer runs leave each more."
        )
    if out is not None:
        typer.echo(
            f"{out} holds the plan by rule {chosen.rule}: sfumato train {method} ... --ledger FILE --schedule {out}"
        )


def _chosen(found: list[Planned], composition: str | None) -> Planned:
    ledgers = {one.rule: one for one in found if one.rule != "joint"}
    return min(ledgers.values(), key=lambda one: sum(one.noise)) if composition is None else ledgers[composition]


def _words(one: Planned, alone: Planned) -> str:
    first, last = one.epsilons[0], one.epsilons[-1]
    each = f"epsilon {first:g} each" if first == last else f"epsilon {first:g} in the first run, {last:g} in the last"
    low, high = sorted((one.noise[0], one.noise[-1]))
    noise = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return (
        f"{each} (delta {one.delta:.3g}), noise of deviation {noise}, {low / alone.noise[0]:.3g} times that of one run"
    )


def _expected(epsilon: float) -> str:
    """What the default reached on public graphs at the nearest epsilon that was measured, if one is near."""
    from sfumato.evaluation._expected import ACCURACY, figures

    there = [one for one in figures() if (one.unit, one.score) == ("edge", ACCURACY)]
    near = [one for one in there if 2 / 3 <= one.epsilon / epsilon <= 3 / 2]
    if not near:
        return f"No accuracy on public graphs is recorded near epsilon {epsilon:g}."
    at = min({one.epsilon for one in near}, key=lambda one: abs(one - epsilon))
    rows = [one for one in near if one.epsilon == at]
    told = "; ".join(f"{one.task} {one.run:.1f} (features alone {one.floor:.1f})" for one in rows)
    return f"Accuracy in percent at epsilon {at:g}, as recorded: {told}."


def _write(out: Path, chosen: Planned, total_epsilon: float, delta: float) -> None:
    from sfumato.record._schedule import Schedule

    if out.exists():
        raise InputError(f"Expected --out to be a new file, got {str(out)!r}, which exists. Name another.")
    if not min(chosen.epsilons) > 0:
        raise InputError("Expected runs that may spend something, got epsilons that round to 0. Plan fewer runs.")
    schedule = Schedule(float(total_epsilon), float(delta), chosen.rule, chosen.delta, chosen.epsilons)
    with whole_file(out) as file:
        file.write(schedule.to_json().encode())
