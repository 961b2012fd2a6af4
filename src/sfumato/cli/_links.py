"""`sfumato train --task link`: the scores of link prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.cli._output import plain_console
from sfumato.cli._scores import show_guarantee, verdict_lines

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.evaluation._links import LinkEvaluation


def show(result: dict[str, Any], evaluation: LinkEvaluation, out: Path) -> None:
    """Print how well held-out links were found, beside the controls, and what is guaranteed."""
    from rich import box
    from rich.table import Table

    title = f"{result['dataset']}: held-out links ({result['test_auc']['seeds']} seed(s))"
    table = Table("", "AUC", "average precision", box=box.SIMPLE_HEAD, title=title)
    for name, found in evaluation.scores.items():
        table.add_row(name, str(found.auc), str(found.average_precision))
    console = plain_console()
    console.print(table)
    for line in verdict_lines(result):
        console.print(line, soft_wrap=True, highlight=False)
    if len(evaluation.scores) == 1:
        console.print("What privacy costs: --controls also scores pairs without edges, and without privacy.")
    console.print()
    show_guarantee(evaluation.first.certificate, out, "The scores above read held-out links, and must stay.")
    console.print(f"Score pairs of nodes: sfumato predict {out} --pairs FILE", soft_wrap=True, highlight=False)
