"""The scores of a run and its controls, as `sfumato train` and `sfumato tune` print them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.output import plain_console

if TYPE_CHECKING:
    from sfumato.cli.parse import Job
    from sfumato.evaluation.request import Evaluation


def note_uncharged(job: Job) -> None:
    """Say that controls and further seeds are not charged, if the job has a ledger and either of them."""
    if job.ledger is not None and (job.request.controls or len(job.request.seeds) > 1):
        print(
            "Note: controls and further seeds read the data outside the guarantee and are not charged to the ledger. "
            "Their scores go to evaluation/, which must not leave.",
            file=sys.stderr,
        )


def note_left_out(evaluation: Evaluation) -> None:
    """Say which controls could not be fitted, and why."""
    for note in evaluation.left_out:
        print(f"Note: {note}", file=sys.stderr)


def show(result: dict[str, Any], evaluation: Evaluation, out: Path) -> None:
    """Print a table of scores, the certificate, and what may leave.

    Args:
        result: what the command also prints as JSON.
        evaluation: the scores of the run and of its controls.
        out: the run folder.
    """
    from rich import box
    from rich.table import Table

    from sfumato.evaluation.controls import titles

    seeds, outcome = result["test_accuracy"]["seeds"], evaluation.outcome
    table = Table("", "test accuracy", "macro-F1", box=box.SIMPLE_HEAD, title=f"{result['dataset']} ({seeds} seed(s))")
    shown = {name: (title, evaluation.controls.get(name)) for name, title in titles(result["method"], result).items()}
    rows = (*list(shown.values())[:-1], (f"{result['method']} (unit {result['unit']})", outcome), shown["ceiling"])
    for title, row in rows:
        if row is not None:
            table.add_row(title, str(row.accuracy), str(row.macro_f1))
    console = plain_console()
    console.print(table)
    gain = result["graph_gain_recovered"]
    if gain is not None:
        console.print(f"Share of the graph's gain kept: {100 * gain:.0f} %.")
    console.print("These scores read true labels: they are not covered by the guarantee.\n")
    console.print(str(outcome.first.certificate), highlight=False)
    console.print(f"\nRun folder: {out}. Only {out}/release may leave. Check it: sfumato verify {out}", soft_wrap=True)
