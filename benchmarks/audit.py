"""Audit every method and find the planted faults; prints the page.

    OMP_NUM_THREADS=1 python benchmarks/audit.py [--size 0.5] [--fits 8] [--only NAME ...] [--tables NAME ...]

Each method is audited with its default settings under every unit that it has a proof for, at epsilon 1 and delta 1e-6, on random
graphs with canaries; all bounds of one audit hold together at 99.9 %. Canaries and coins come from seed 0, noise and sampling
from the operating system. The tightness of GAP is measured with 30 fits of one epoch: training does not enter its claim.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product, starmap
from pathlib import Path
from typing import Any

import study

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "audit"))
from audit_faults import FAULTS, UNSEEN
from audit_others import DRAWN, OTHERS, TIGHT
from audit_white import WHITE

from sfumato._threads import set_threads
from sfumato.audit._auditor import audit
from sfumato.catalog import METHODS, method_named
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.experiments._index import stamp
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import ClassLevel, EdgeLevel, NodeLevel, RecordLevel, SubclassLevel, Unit

COLUMNS = ("method", "unit", "claim", "bound", "share", "confidence", "scores", "seconds", "best attack")
FAULT = ("fault", *COLUMNS[:4], "flagged", "seconds", "what is broken")
BUDGET, FOUR = Budget(1.0, 1e-6), Budget(4.0, 1e-6)
UNITS: dict[str, tuple[Unit, ...]] = {
    "arc": (EdgeLevel(directed=True),),
    "undirected edge": (EdgeLevel(directed=False),),
    "node": (NodeLevel(max_out_degree=5), NodeLevel(max_out_degree=5, relation="replace")),
    "node, all arcs": (NodeLevel(arcs="incident"),),
    "record": (RecordLevel(), RecordLevel(relation="replace")),
    **{form: units for unit in (ClassLevel, SubclassLevel) for form, units in unit.forms().items()},
}


def row(name: str, unit: str, measure: Callable[[], Any]) -> tuple[Any, tuple[str, ...]]:
    """An audit and its row; a flag shows what is broken."""
    start = time.perf_counter()
    result = measure()
    best = max(result.evidence, key=lambda one: one.epsilon_lower_bound, default=None)
    share = result.epsilon_lower_bound / result.claimed if result.claimed else 0.0
    found = (f"{result.claimed:.3g}", f"{result.epsilon_lower_bound:.3f}", f"{share:.0%}", f"{result.confidence:.1%}")
    cost = str(best.trials if best else 0), f"{time.perf_counter() - start:.0f}"
    flag = f"**flagged**: {'; '.join(result.broken)}" if result.flagged else best.name if best else "promises alone"
    return result, (name, unit, *found, *cost, flag)


def methods(given: Namespace, budget: Budget = BUDGET, **how: Any) -> Iterator[Any]:
    for name, (title, units) in product(given.only, UNITS.items()):
        for unit in units:
            run = partial(audit, method_named(name), unit, budget, size=given.size, fits=given.fits or None, **how)
            with suppress(UnsupportedUnitError, InputError):
                found = row(name, title + ", replaced" * (unit.relation == "replace"), run)
                if found[0].claimed and (found[0].evidence or not how):
                    yield found


def faults(_: Namespace) -> Iterator[Any]:
    for fault in (*FAULTS, *WHITE):
        result, cells = row(fault.name, fault.unit.describe(), fault.audit)
        flagged = "yes" if result.flagged else "NO"
        yield result, (fault.name, fault.method.name, *cells[1:4], flagged, cells[7], "; ".join(result.broken[:2]))


TABLES: dict[str, tuple[str, Callable[..., Iterator[Any]]]] = {
    "methods": ("Methods", methods),
    "records": ("One record, all noisy sums, at epsilon 4", partial(methods, budget=FOUR, attacks=("transcripts",))),
    "pairs": ("One pair of nodes", partial(methods, attacks=("pairs",))),
    "others": ("Reports of users, votes of teachers, and histories", lambda _: starmap(row, OTHERS)),
    "drawn": ("One record that is drawn or not, at epsilon 4", lambda _: starmap(row, DRAWN)),
    "tight": ("Tightness: canary edges of GAP", lambda _: starmap(row, TIGHT)),
    "faults": ("Planted faults", faults),
}


def main() -> int:
    """Audit and print; the Makefile keeps what is printed as the page."""
    given = study.options(__doc__, size=0.5, fits=0, only=tuple(METHODS), tables=TABLES)
    set_threads(1)
    print(f"# What audits found\n\n`{' '.join(['python benchmarks/audit.py', *sys.argv[1:]])}`\n\n{stamp([1])}\n\n"
          "A bound of 0 proves nothing: this attack, at this size, found no trace. What no attack reads is not tested at all; "
          "`sfumato audit` names it. A bound above the claim would refute it.")  # fmt: skip
    wrong = []
    for name in given.tables:
        found: list[Any] = []
        rows = (cells for result, cells in TABLES[name][1](given) if not found.append(result))
        study.table(FAULT if name == "faults" else COLUMNS, rows, f"## {TABLES[name][0]}")
        wrong += [name for one in found if one.flagged != (name == "faults")]
    if "faults" in given.tables:
        print("\n## Faults that the auditor does not see\n")
        print("\n".join(f"* **{name}**: {why}" for name, why in UNSEEN.items()))
    print(f"{len(wrong)} false alarms and missed faults", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
