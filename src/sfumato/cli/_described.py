"""A run as its pages show it: of a run of statistics with the answers that follow from its releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.report._run import Run


def with_answers(folder: Path, run: Run) -> Run:
    """Add the answers of a run of statistics, which follow from its releases."""
    from sfumato.catalog import GRAPH_CARDS, load

    if run.certificate["method"] not in GRAPH_CARDS:
        return run
    from sfumato.statistics._answers import describe

    return replace(run, described=describe(load(folder)))
