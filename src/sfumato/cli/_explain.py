"""`sfumato explain`: what an attacker could gain at an epsilon, before any data is read."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import typer

from sfumato._optional import check_installed
from sfumato._validate import check_real, fail
from sfumato.cli._parse import with_arcs
from sfumato.cli._table import JSON
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page
from sfumato.privacy.units import UNITS, Declared, class_for, unit_named

_WORDS = ", ".join(word for unit in UNITS if unit.private for word in unit.spelled())
_WIDTH = 100
_LEAST = 1e-9  # as of a plan: what is less has no name that fits a line


def explain(
    epsilon: float = typer.Option(..., "--epsilon", help="The epsilon of one run, or of all runs together."),
    delta: float = typer.Option(0.0, "--delta", help="The failure probability, such as 1e-7 (default: 0)."),
    unit: str = typer.Option("edge", "--unit", help=f"What would be protected: {_WORDS}."),
    arcs: str | None = typer.Option(
        None, "--arcs", help="With --unit node: owned or incident, as for `sfumato train`."
    ),
    directed: bool = typer.Option(
        False, "--directed/--undirected", help="Whether the graph is declared directed (default: undirected)."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Also write a page with the chart of guesses to this HTML file."
    ),
    as_json: bool = JSON,
) -> None:
    """Print what an epsilon and a delta mean for one person: guesses, beliefs and odds at most. No data is read."""
    check_real(low=0, high=1000, epsilon=epsilon)
    if 0 < epsilon < _LEAST:
        raise fail("epsilon", epsilon, f"to be 0, or from {_LEAST:g} to 1000")
    check_real(low=0, high=1, open_high=True, delta=delta)
    word = with_arcs({"unit": unit, "arcs": arcs})["unit"]
    if not class_for(word).private:
        raise InputError(f"Expected --unit to be one of {_WORDS}, got {unit!r}, which protects nothing.")
    if out is not None and out.suffix.lower() != ".html":
        raise fail("out", str(out), "to end in .html")
    check_installed(*(("matplotlib", "jinja2") if out is not None or not as_json else ()))
    from sfumato.report import explained, explained_page
    from sfumato.report._scale import belief_after, factor, right_guesses

    protected, claim = unit_named(word, Declared(directed)), {"epsilon": epsilon, "delta": delta}
    if out is not None:
        write_page(out, explained_page(claim, protected, directed=directed))
    if as_json:
        told = {"unit": word, **claim, "right_guesses_of_100": float(right_guesses(**claim))}
        told |= {"belief_of_1_percent_becomes": float(belief_after(epsilon, 1)), "odds_grow": factor(epsilon)}
        typer.echo(json.dumps({**told, "out": None if out is None else str(out)}))
        return
    for line in explained(claim, protected, directed=directed):
        typer.echo(line if line[:1] in (">", " ") else textwrap.fill(line, _WIDTH))
    if out is not None:
        typer.echo(f"Wrote {out}. It holds no data.", err=True)
