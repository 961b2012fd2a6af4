"""Audit every method of a trusted curator but PATE and find the planted faults; prints the page.

    OMP_NUM_THREADS=1 python benchmarks/audit.py [--size 0.5] [--fits 8] [--only NAME ...]

Each method is audited with its default settings under every unit that it has a proof for, at epsilon 1 and delta 1e-6, on random
graphs with canaries; all bounds of one audit hold together at 99.9 %. Canaries and coins come from seed 0, noise and sampling
from the operating system. The tightness of GAP is measured with 30 fits of one training epoch: training does not enter its claim.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import study

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "audit"))
from audit_faults import FAULTS, UNSEEN
from audit_white import WHITE

from sfumato._threads import set_threads
from sfumato.audit._auditor import audit
from sfumato.catalog import METHODS, method_named
from sfumato.central._gap import GAP
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.experiments._index import stamp
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import ClassLevel, EdgeLevel, NodeLevel, RecordLevel, SubclassLevel, Unit

if TYPE_CHECKING:
    from sfumato.audit._evidence import Audit

BUDGET = Budget(1.0, 1e-6)
UNITS: dict[str, tuple[Unit, ...]] = {
    "arc": (EdgeLevel(directed=True),),
    "undirected edge": (EdgeLevel(directed=False),),
    "node": (NodeLevel(max_out_degree=5), NodeLevel(max_out_degree=5, relation="replace")),
    "node, all arcs": (NodeLevel(arcs="incident"),),
    "record": (RecordLevel(), RecordLevel(relation="replace")),
    **{form: units for unit in (ClassLevel, SubclassLevel) for form, units in unit.forms().items()},
}


def row(name: str, unit: str, measure: Callable[[], Audit]) -> tuple[Audit, tuple[str, ...]]:
    """An audit and its row; a flag shows what is broken."""
    start = time.perf_counter()
    result = measure()
    best = max(result.evidence, key=lambda one: one.epsilon_lower_bound, default=None)
    share = result.epsilon_lower_bound / result.claimed if result.claimed else 0.0
    attack = "promises alone" if best is None else best.name
    found = (f"{result.claimed:.3g}", f"{result.epsilon_lower_bound:.3f}", f"{share:.0%}", f"{result.confidence:.1%}")
    cost = str(0 if best is None else best.trials), f"{time.perf_counter() - start:.0f}"
    flag = f"**flagged**: {'; '.join(result.broken)}" if result.flagged else attack
    return result, (name, unit, *found, *cost, flag)


def main() -> int:
    """Audit and print; the Makefile keeps what is printed as the page."""
    given = study.options(__doc__, size=0.5, fits=0, only=tuple(METHODS))
    set_threads(1)
    columns = ("method", "unit", "claim", "bound", "share", "confidence", "scores", "seconds", "best attack")
    alarms: list[str] = []

    def methods(budget: Budget = BUDGET, **how: Any) -> Iterator[tuple[str, ...]]:
        for name, (title, units) in product(given.only, UNITS.items()):
            for unit in units:
                relation = ", replaced" if unit.relation == "replace" else ""
                run = partial(audit, method_named(name), unit, budget, size=given.size, fits=given.fits or None, **how)
                try:
                    result, cells = row(name, title + relation, run)
                except (UnsupportedUnitError, InputError):
                    continue
                if result.claimed and (result.evidence or not how):
                    alarms.extend([name] * result.flagged)
                    yield cells

    def faults() -> Iterator[tuple[str, ...]]:
        for fault in (*FAULTS, *WHITE):
            result, cells = row(fault.name, fault.unit.describe(), fault.audit)
            missed.extend([fault.name] * (not result.flagged))
            flagged = "yes" if result.flagged else "NO"
            yield fault.name, fault.method.name, *cells[1:4], flagged, cells[7], "; ".join(result.broken[:2])

    missed: list[str] = []
    print(f"# What audits found\n\n`{' '.join(['python benchmarks/audit.py', *sys.argv[1:]])}`\n\n{stamp([1])}\n\n## Methods\n\n"
          "A bound of 0 proves nothing: this attack, at this size, found no trace. What no attack reads is not tested at all; "
          "`sfumato audit` names it. A bound above the claim would refute it.")  # fmt: skip
    study.table(columns, methods())
    four = Budget(4.0, 1e-6)
    study.table(columns, methods(four, attacks=("transcripts",)), "## One record, all noisy sums, at epsilon 4")
    drawn = partial(audit, method_named("mlp"), RecordLevel(), four, attacks=("sampled",), size=4)
    study.table(columns, [row("mlp", "record", drawn)[1]], "## One record that is drawn or not, at epsilon 4")
    tight = partial(audit, GAP(epochs=1), EdgeLevel(directed=False), BUDGET, fits=30)
    study.table(columns, [row("gap", "undirected edge", tight)[1]], "## Tightness: canary edges of GAP")
    heads = ("fault", "method", "unit", "claim", "bound", "flagged", "seconds", "what is broken")
    study.table(heads, faults(), "## Planted faults")
    print("\n## Faults that the auditor does not see\n")
    print("\n".join(f"* **{name}**: {why}" for name, why in UNSEEN.items()))
    print(f"{len(alarms)} false alarms, {len(missed)} of {len(FAULTS) + len(WHITE)} faults missed", file=sys.stderr)
    return 1 if alarms or missed else 0


if __name__ == "__main__":
    sys.exit(main())
