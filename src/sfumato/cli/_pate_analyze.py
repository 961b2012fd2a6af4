"""`sfumato pate analyze`: what it costs to ask teachers whose votes are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._pate_options import mechanism_of, named_by_options, numbers_of
from sfumato.cli._table import JSON

if TYPE_CHECKING:
    from sfumato.pate._aggregation import Mechanism


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
        help="Print a noisy upper bound, which may leave. Give ORDER,BETA,NOISE, such as 8,0.025,4: chosen without the votes. "
        "It is drawn once, and kept beside the votes.",
    ),
    as_json: bool = JSON,
) -> None:
    """Print what it costs to ask the teachers.

    It also says whether the printed number may leave.
    """
    from sfumato.pate._analysis import analyze as analyze_votes
    from sfumato.pate._told import release_once
    from sfumato.pate._votes import read_votes

    given = {"--scale": scale, "--sigma1": sigma1, "--sigma2": sigma2, "--threshold": threshold}
    with named_by_options():
        asked = mechanism_of(mechanism, given)
        order, beta, noise = numbers_of(release, as_published)
        counts = read_votes(votes, queries)
        if release is None:
            told = analyze_votes(counts, asked, delta, as_published=as_published).to_dict()
        else:
            result = release_once(votes, asked, delta, queries=queries, order=order, beta=beta, noise=noise)
            told = _released(asked, len(counts), result.epsilon, order, delta, result.confidence)
    typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))


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
            f"Releasable: an upper bound with confidence {told['confidence']:g}, drawn once and kept beside the votes."
        )
    else:
        lines.append(f"Expected answers: {told['answered']:.2f} of {told['queries']}.")
        lines.append(
            "Not releasable: it depends on the votes. Add noise with --release, or tell a data-independent epsilon."
        )
    counted = "the expected answers, as published" if told["as_published"] else "every query answered"
    lines.append(f"Data-independent, {counted}: epsilon = {told['data_independent_epsilon']:.4f}.")
    return lines
