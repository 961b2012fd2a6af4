"""`sfumato budget`: the epsilon of a mechanism, the noise for an epsilon, or a plan of many runs."""

from __future__ import annotations

import json

import typer

from sfumato._validate import check_choice
from sfumato.cli._budget_plan import plan
from sfumato.cli._output import tell
from sfumato.cli._table import JSON
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

app = typer.Typer(
    help="Compute an epsilon or the noise for it, without data.", no_args_is_help=True, rich_markup_mode=None
)
app.command("plan")(plan)

SAMPLING = typer.Option(
    1.0, "--sampling-prob", help="The probability with which a record takes part in a step (Poisson sampling)."
)
STEPS = typer.Option(1, "--steps", help="How many times the mechanism runs.")
DELTA = typer.Option(..., "--delta", help="The failure probability, such as 1e-7.")
RELATION = typer.Option(
    "add-remove",
    "--relation",
    help="How neighboring data sets differ: add-remove or replace. With both, noise is in units of the bound on one record.",
)
METHOD = typer.Option(
    "pld",
    "--method",
    help="How epsilon is computed: pld (privacy loss distribution: exact or tight), rdp (Renyi divergences), or moments "
    "(the moments accountant of 2016: a looser bound, shown beside two numbers that are no bounds: the strong composition of its "
    "figure 2, and Theorem 5 of class-level privacy).",
)


@app.command()
def epsilon(
    noise_multiplier: float = typer.Option(
        ..., "--noise-multiplier", help="The standard deviation of the noise, divided by the bound on one record."
    ),
    sampling_prob: float = SAMPLING,
    steps: int = STEPS,
    delta: float = DELTA,
    relation: str = RELATION,
    method: str = METHOD,
    as_json: bool = JSON,
) -> None:
    """Print the epsilon that a Gaussian mechanism costs."""
    from sfumato.privacy import accounting
    from sfumato.privacy._class_bounds import strong_composition_epsilon, theorem_5_epsilon
    from sfumato.privacy.promises import weak

    check_choice(("pld", "rdp", "moments"), method=method)
    events = [_event(noise_multiplier, sampling_prob, steps, relation)]
    value = accounting.epsilon(events, delta, method="best" if method == "pld" else method)
    tell(weak(value, delta))
    answer: dict[str, float | str] = {"epsilon": value, "method": method}
    if method == "moments":
        if relation == "add-remove":
            answer["strong_composition"] = strong_composition_epsilon(sampling_prob, noise_multiplier, steps, delta)
        answer["theorem_5"] = theorem_5_epsilon(sampling_prob, noise_multiplier, steps, delta, relation)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    typer.echo(f"epsilon = {value:.6f} ({method})")
    if "strong_composition" in answer:
        typer.echo(f"The strong composition of 2016 states {answer['strong_composition']:.6f}, which is not a bound")
    if method == "moments":
        typer.echo(f"Theorem 5 of class-level privacy states {answer['theorem_5']:.6f}, which is not a bound")


@app.command()
def noise(
    target: float = typer.Option(..., "--epsilon", help="The epsilon that you ask for. The result never exceeds it."),
    sampling_prob: float = SAMPLING,
    steps: int = STEPS,
    delta: float = DELTA,
    relation: str = RELATION,
    as_json: bool = JSON,
) -> None:
    """Print the noise multiplier that an epsilon needs."""
    from sfumato.privacy import accounting, calibration
    from sfumato.privacy.promises import weak

    if sampling_prob == 1:
        unit = _event(1.0, sampling_prob, steps, relation)
        value = calibration.gaussian_noise_multiplier(target, delta, steps) / unit.noise_multiplier
    else:
        value = calibration.calibrate(lambda z: [_event(z, sampling_prob, steps, relation)], target, delta)
    tell(weak(target, delta))
    reached = accounting.epsilon([_event(value, sampling_prob, steps, relation)], delta)
    if as_json:
        typer.echo(json.dumps({"noise_multiplier": value, "epsilon": reached, "method": "pld"}))
    else:
        typer.echo(f"noise multiplier = {value:.6f} (epsilon {reached:.6f})")


def _event(
    noise_multiplier: float, sampling_prob: float, steps: int, relation: str
) -> GaussianEvent | PoissonGaussianEvent:
    event = PoissonGaussianEvent(sampling_prob, noise_multiplier, steps, relation)
    if sampling_prob < 1:
        return event
    return GaussianEvent(noise_multiplier / (2 if relation == "replace" else 1), steps)
