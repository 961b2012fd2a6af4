"""The options that name the ledger of a data set, of every command that charges one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sfumato.cli._table import BUDGET, option

_budget = partial(option, panel=BUDGET, commands="train check tune predict describe")


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """What is charged, and to which ledger; all but the file are fixed by its first run."""

    ledger: Path | None = _budget(
        "The ledger file of the data set, which all runs on it share. The whole claim is charged there first, and is marked "
        "as spent before noise is drawn.",
        again=True,
        first=True,
    )
    total_epsilon: float | None = _budget(
        "The most epsilon that all runs in the ledger may spend together. The first run fixes it.", first=True
    )
    total_delta: float | None = _budget(
        "The most delta that all runs in the ledger may spend together (default: ten times the delta of the first run)."
    )
    composition: str | None = _budget(
        "How the costs of the runs in the ledger add up: basic (default), or gdp, which takes plans of Gaussian "
        "and pure releases only: better for many small ones. With gdp and a delta, auto has Gaussian noise at edge level."
    )
    population: str | None = _budget(
        "At the first run of a ledger: it is of the people of this name, who may join, leave and change from run to run. Each "
        "release charges everybody who is or ever was in (default: of the node ids of the first run)."
    )
    schedule: Path | None = _budget(
        "At the first run of a ledger: what each run may spend, as `sfumato budget plan --out FILE` writes it. It fixes the "
        "totals, and a run above the plan is refused."
    )


TOTALS = ("total_epsilon", "total_delta", "composition", "population", "schedule")
"""What the first run of a ledger fixes, in the order of :class:`~sfumato.record._dataset_ledger.DatasetLedger`."""
