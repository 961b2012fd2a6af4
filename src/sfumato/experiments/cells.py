"""A cell of an experiment: one fit, and running it in this process."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.experiments.runs import Settings, constructor
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import Declared, class_for, unit_named
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One fit: everything that decides its result but the noise."""

    spec: str
    label: str
    method: str
    dataset: str
    split: str
    unit: str
    epsilon: float | None
    delta: float | None
    max_degree: int | None
    settings: Settings
    seed: int
    at: Any

    def to_dict(self) -> dict[str, Any]:
        """JSON form; settings are an object."""
        return {**asdict(self), "settings": dict(self.settings)}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical JSON form."""
        return digest(self.to_dict())

    def __str__(self) -> str:
        epsilon = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        at = "" if self.at is None else f", at {self.at}"
        return f"{self.label}{epsilon}{at}, seed {self.seed}"


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON form.

    >>> digest({})[:8]
    '44136fa3'
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def run_cell(cell: Cell, data_dir: str | None) -> Row:
    """Fit and score one cell in this process; what its line holds beyond the cell itself."""
    start = time.perf_counter()
    from sfumato.catalog import method_named
    from sfumato.evaluation.scores import check_scorable, score

    reset_peak()
    graph = _graph(cell.dataset, data_dir, cell.split)
    if cell.split != "public":
        from sfumato.graph.splits import parse_fractions

        graph = graph.with_split(parse_fractions(cell.split), seed=cell.seed)
    check_scorable(graph)
    kind = class_for(cell.unit)
    local = kind.trust != "curator"
    budgets = {"epsilon": cell.epsilon} if local and "epsilon" in kind.budget else {}
    method = method_named(cell.method, **constructor(cell.settings), **budgets)
    unit = method.unit if local else unit_named(cell.unit, Declared(graph.directed, cell.max_degree))
    try:
        plan = method.calibrate(_budget(cell), unit, graph.public_facts(unit))
    except UnsupportedUnitError as error:
        return skipped_row(str(error))
    if cell.epsilon is None and plan.epsilon and not local:
        raise InputError(f"Expected epsilons for {cell.label!r}, which spends a budget here, got none. Add them.")
    began = time.perf_counter()
    fitted = plan.fit(graph, seed=cell.seed)
    seconds = time.perf_counter() - began
    accuracy, macro_f1 = score(fitted, graph)
    return {
        **empty_row("done"),
        "seconds": {"train": seconds, "total": time.perf_counter() - start},
        "peak_mb": peak_mb(),
        "metrics": {"accuracy": accuracy, "macro_f1": macro_f1},
        "certificate": None if plan.epsilon is None else dict(fitted.certificate.values),
    }


def _budget(cell: Cell) -> Budget | None:
    """The cell's budget; a method that spends nothing under its unit gets one that it leaves untouched, a local one none."""
    if "delta" not in class_for(cell.unit).budget:
        return None
    return Budget(1.0 if cell.epsilon is None else cell.epsilon, 1e-9 if cell.delta is None else cell.delta)


def empty_row(status: str) -> Row:
    """The fields that every line has, before any work was done."""
    versions = {"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy")}
    return {
        "status": status,
        "reason": None,
        "version": __version__,
        "versions": versions,
        "device": "cpu",
        "seconds": {"train": 0.0, "total": 0.0},
        "peak_mb": 0.0,
        "metrics": {"accuracy": None, "macro_f1": None},
        "certificate": None,
    }


def skipped_row(reason: str) -> Row:
    """The fields of a cell that cannot be run."""
    return {**empty_row("skipped"), "reason": reason}


@lru_cache(maxsize=1)
def _graph(dataset: str, data_dir: str | None, split: str) -> Graph:
    from sfumato.graph.datasets import load_dataset

    return load_dataset(dataset, data_dir, split="public" if split == "public" else None)


def reset_peak() -> None:
    """Start the peak anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Largest resident memory of this process since the reset, or since its start, in MiB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
