r"""A history of edges that is charged to the ledger of its population: once, when it begins, for all of its days.

**Formal guarantee.** If all that reads the population is charged to the ledger, then all releases together, the days of the
history and its models among them, are (total epsilon, total delta)-DP under the ledger's unit, through all snapshots and days.
*Proof.* The history is one interactive mechanism whose answers, however the edges of later days are chosen, cost its claim
(:mod:`sfumato.bounded._history`). Its days are interleaved with other releases, which the filters of
:mod:`sfumato.privacy._filters` allow (concurrent composition). Models are post-processing. :math:`\square`

**What is drawn once.** ``charge.json`` names the line of the ledger by a random name and holds what the verifier derives the
claim from. It is chained to the first day as the plan is. Before a day is drawn, the ledger gets a mark: a MAC, under the secret
key, of the day's file, which is chained to all days before it. So a copy of the folder that goes on with other edges shows
another mark for the same day, and is refused before anything is drawn. A copy that is given the same edges again draws the same
noise, and is accepted: that is how a backup goes on. The marks of all days are published with what is released and with every
model. So the verifier finds days that were drawn beside the ledger, such as those of a copy that had a ledger of its own.

**One ledger.** Only the command that begins a history charges it, and may begin a ledger for that. All others need the ledger at
the place that the folder names, with the claim and with the mark of every day that the folder has released. So a copy of the
folder elsewhere, a ledger that is lost and an older copy of it are refused.

**Stops.** The folder is whole before the claim is charged. A stop before the charge has spent and released nothing, and that
folder cannot go on: it is removed. After the charge every command finds the claim, and charges nothing more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import whole_file
from sfumato.errors import InputError, LedgerError
from sfumato.method._opening import charged_to
from sfumato.privacy.units import unit_to_dict
from sfumato.record import _population as population
from sfumato.record._claims import DAY, Claim, new_run
from sfumato.record._dataset_ledger import DatasetLedger
from sfumato.record._ledger_file import begun
from sfumato.record._reading import read_account, read_for
from sfumato.record.ledger import Ledger, canonical_json

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._engine import PlanEntry
    from sfumato.method._plan import Plan

CHARGE = "charge.json"
_STOPPED = "If sfumato daily init was stopped, nothing was charged or released: remove the folder, and run init again."


@dataclass(frozen=True)
class Charged:
    """The line of a ledger that a history is charged to, as ``plan.json`` in its ``folder`` names it.

    ``values`` are the name of the history there (``run``), and the ``ledger`` file relative to the folder.
    """

    folder: Path
    values: Mapping[str, Any]

    @classmethod
    def begin(cls, folder: Path, ledger: DatasetLedger, plan: Plan, nodes: Graph) -> Charged:
        """Refuse a ledger that cannot take the claim, and write what is charged. Nothing is charged yet.

        Args:
            folder: that of the history.
            ledger: of a population.
            plan: of the whole history.
            nodes: its nodes.

        Raises:
            InputError: the ledger is of another unit, or of no population.
            BudgetExceededError: it has less left.
        """
        run = new_run()
        _check(ledger, plan)
        try:
            where = os.path.relpath(ledger.path.resolve(), folder.resolve())
        except ValueError:  # on another drive
            where = str(ledger.path.resolve())
        found = cls(folder, {"run": run, "ledger": where})
        entry = plan.entry.charged_to(ledger, run)
        ledger.look(found._claim(plan, entry), unit=unit_to_dict(plan.unit), dataset=charged_to(plan, nodes))
        values = {
            "format": 1,
            "plan": Ledger(entry.to_dict(), plan.releases).entries[0]["plan"],
            "settings": plan.method.settings,
            "public_facts": plan.public.to_dict(),
            "budget": None if plan.budget is None else asdict(plan.budget),
        }
        facts = {name: value for name, value in values["public_facts"].items() if name != "assumed"}
        with whole_file(folder / CHARGE) as file:
            file.write((canonical_json({**values, "public_facts": facts}) + "\n").encode())
        return found

    @property
    def run(self) -> str:
        """The name of the history in the ledger."""
        return str(self.values["run"])

    @property
    def ledger(self) -> DatasetLedger:
        """The ledger, for a model of the history; it is never begun here."""
        path = Path(os.path.normpath(self.folder.resolve() / self.values["ledger"]))
        if not begun(path):
            raise InputError(
                f"Expected the ledger that this history is charged to at {str(path)!r}, got none. Put it back there with its "
                f".head file, or a link to it: what it held is still spent. {_STOPPED}"
            )
        return DatasetLedger(path, history=self.run)

    def charge(self, ledger: DatasetLedger, plan: Plan, nodes: Graph) -> None:
        """Charge the claim of a history that begins, once; it is on disk before this returns.

        Args:
            ledger: the one with which the history begins; a new one is begun.
            plan: of the whole history.
            nodes: its nodes.
        """
        entry = plan.entry.charged_to(ledger, self.run)
        unit, dataset = unit_to_dict(plan.unit), charged_to(plan, nodes)
        ledger.reserve(
            self._claim(plan, entry), unit=unit, dataset=dataset, folder=self.folder, stated=entry.population
        )

    def check_plan(self, plan: Plan) -> None:
        """Refuse the plan of a history without a day, which nothing is chained to yet, if it is not that of its claim."""
        ledger = self.ledger
        entry = plan.entry.charged_to(ledger, self.run)
        try:
            stored = json.loads((self.folder / CHARGE).read_bytes())["plan"]
        except (OSError, ValueError, KeyError, TypeError):
            stored = None
        if stored != Ledger(entry.to_dict(), plan.releases).entries[0]["plan"]:
            raise LedgerError(
                f"The ledger {ledger.path}, plan.json or {CHARGE} is not the one with which this history was begun. Nothing is "
                "charged or released. Put it back as it was; a history without a day can be removed and begun anew."
            )

    def check(self, marks: Iterable[tuple[int, str]], released: int = 0) -> None:
        """Refuse a ledger that lacks the history or a day of it, or has another mark of a day; nothing is written.

        Args:
            marks: of the days that the folder has, and of those that it is about to take, in order.
            released: the last day that the folder has released, and that the ledger had marked before.
        """
        path = self.ledger.path
        account, _ = read_for(path, self.run)
        if account.problem or self.run not in account.marks:
            lost = f"it holds no claim of this history. {_STOPPED} Else an older copy was put in its place"
            raise LedgerError(
                f"The ledger {path} is not what it was: {account.problem or lost}. Nothing was drawn. Restore the newest ledger "
                "with its .head file."
            )
        marked, told = account.marks.get(self.run, {}), dict(marks)
        through = max([released, *(day for day in told if _what(day) in marked)])
        for day, mark in told.items():
            if day <= through and _what(day) not in marked:
                raise LedgerError(
                    f"The ledger {path} has no line for day {day} of this history, which was drawn: an older copy was put in its "
                    "place. Nothing was taken, and nothing drawn. Restore the newest ledger with its .head file."
                )
            if marked.get(_what(day), mark) != mark:
                raise LedgerError(
                    f"The ledger {path} says that day {day} of this history was drawn with other edges, or after other "
                    "days: this folder is an older copy, or a second one. Nothing was taken, and nothing drawn. Put the newest "
                    "folder back, or give the days that this one lacks with the edges that they had."
                )

    def spend(self, day: int, mark: str) -> None:
        """Write the mark of a day before it is drawn; another mark of that day is refused."""
        self.ledger.spend(self.run, mark, _what(day))

    def _claim(self, plan: Plan, entry: PlanEntry) -> Claim:
        assert plan.epsilon is not None
        assert plan.delta is not None
        return Claim.of(self.run, entry.method, plan.epsilon, plan.delta, plan.releases, entry.head)


def _what(day: int) -> str:
    return f"{DAY}{day}"


def _check(ledger: DatasetLedger, plan: Plan) -> None:
    """Refuse a ledger of another unit, of no population or of windows of time, with what to do."""
    if not begun(ledger.path):
        if ledger.population is None:
            raise InputError(
                "Expected --population NAME with a new ledger: a history is charged to a population, whose edges come and go. "
                "Say who is meant, such as 'customers of the bank'."
            )
        return
    header, unit = read_account(ledger.path).header, unit_to_dict(plan.unit)
    if header["unit"] != unit:
        raise InputError(
            f"Expected a ledger of unit {canonical_json(unit)}, got {str(ledger.path)!r}, which is of "
            f"{canonical_json(header['unit'])}. A history protects one edge with all its days, and takes labels and features for "
            "public: a claim about another unit does not cover that, and does not add up with it. Name another ledger; for "
            "people who are in both, both totals add up."
        )
    if "windows" in header:
        raise InputError(
            f"Expected a ledger without windows of time, got {str(ledger.path)!r}, where each {header['windows']['period']} has "
            "the totals for itself. A history is read on all its days, and an edge is one record through all of them: no window "
            "covers it. Name another ledger; for people who are in both, both totals add up."
        )
    if not population.is_population(header):
        raise InputError(
            f"Expected the ledger of a population, got {str(ledger.path)!r}, which is of fixed node ids, while the edges of a "
            f"history come and go. Say once that it is of a population: sfumato ledger declare {ledger.path} NAME."
        )
