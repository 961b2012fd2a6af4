"""What `sfumato predict --explain` prints: by how much each cell and each released row moved one prediction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from sfumato.cli._output import plain_console
from sfumato.cli._pairs import write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.graph._graph import Graph
    from sfumato.method._explaining import Explanation
    from sfumato.method._plan import Fitted

_SHOWN, _TRACK = 12, 24


def explain_node(fitted: Fitted, graph: Graph, node: str, out: Path | None, *, as_json: bool) -> None:
    """Print what moved the prediction of a node, write it to ``out`` if there is one, and say who may see it."""
    found = fitted.explain(graph, node)
    columns = found.columns()
    if out is not None:
        write_lines(out, tuple(columns), zip(*columns.values(), strict=True))
    if as_json:
        typer.echo(json.dumps(_told(found, out)))
        return
    _show(found)
    typer.echo(found.how)
    typer.echo("It says what the model added up, and not what causes what. This spent nothing.")
    if out is not None:
        typer.echo(f"Wrote {len(columns['part']):,} lines to {out}.")
    typer.echo(_readers(fitted), err=True)


def _told(found: Explanation, out: Path | None) -> dict[str, object]:
    amounts = [dict(zip(found.classes, row.tolist(), strict=True)) for row in (found.baseline, *found.amounts)]
    parts = zip(found.parts, found.values, amounts[1:], strict=True)
    return {
        "node": found.node,
        "class": found.told,
        "probability": float(found.probabilities.max()),
        "log_odds": dict(zip(found.classes, found.log_odds.tolist(), strict=True)),
        "baseline": amounts[0],
        "parts": [{"part": part, "value": value, "log_odds": amount} for part, value, amount in parts],
        "how": found.how,
        "epsilon_spent": 0.0,
        "out": None if out is None else str(out),
    }


def _show(found: Explanation) -> None:
    from rich.table import Table

    console, best = plain_console(), int(found.probabilities.argmax())
    console.print(
        f"Node {found.node}: the model predicts {found.told} with probability {found.probabilities[best]:.3f}. Its log-odds "
        f"against the mean class are {found.log_odds[best]:+.3f}:",
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, side in (("part", "left"), ("value", "left"), ("log-odds", "right"), ("", "left")):
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    amounts = found.amounts[:, best]
    most = max(abs(found.baseline[best]), *(abs(one) for one in amounts[:_SHOWN]), 1e-12)
    lines = [("baseline", "", float(found.baseline[best]))]
    lines += list(zip(found.parts, found.values, amounts.tolist(), strict=True))[:_SHOWN]
    for part, value, amount in lines:
        table.add_row(part, value, f"{amount:+.3f}", ("━" if amount >= 0 else "╌") * round(_TRACK * abs(amount) / most))
    if len(amounts) > _SHOWN:
        table.add_row(f"{len(amounts) - _SHOWN:,} others together", "", f"{amounts[_SHOWN:].sum():+.3f}", "")
    console.print(table)


def _readers(fitted: Fitted) -> str:
    """Say who may see an explanation: whoever may see the prediction."""
    unit = fitted.plan.unit
    if not unit.private:
        return "This run has no privacy: the explanation must stay."
    if fitted.plan.method.who_may_see(unit)["the node itself"]:
        return "It may be shown to this node only: it reads that node's features. It must not be published."
    return "Anyone may see it, as anyone may see the prediction."
