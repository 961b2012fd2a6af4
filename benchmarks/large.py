"""Whole processes on large graphs: seconds, peak memory and disk; prints Markdown tables.

    python benchmarks/large.py FOLDER [--log FILE]
    python benchmarks/large.py FOLDER --rows 5000000 15000000 50000000

The first form takes the graph of `benchmarks/rmat.py --like-46m` (116,713 nodes, 46 million arcs, 602 features), the second R-MAT
graphs with ten undirected rows a node, 64 features and 8 classes, with a line through the sizes. Graphs are written below
FOLDER where they are not there yet, and imported; then each method learns at epsilon 1 per undirected edge, in a process of its
own with 2 threads. Accuracies of such graphs mean nothing. `--again 1` measures everything once more.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import study

ROOT, GOAL, PARTS = Path(__file__).parent, 1_000_000_000, ("seconds", "peak", "disk")
PUBLISHED = {"train gap": (66.1, 4915), "train progap": (302.0, 4653)}
"""Seconds and peak MiB of the published code on 46 million arcs, measured once, on another day."""


def main() -> None:
    """Measure what is missing, and print the tables."""
    given = study.options(__doc__, log="large.jsonl", folder=Path, rows=(0,), again=0)
    steps = (
        ["import", "train gap", "train progap", "train auto"]
        if given.rows == [0]
        else ["import", "train gap", "train auto"]
    )
    asked = [(rows, step, given.again) for rows in given.rows for step in steps]
    found = study.kept(given, asked, lambda rows, step, _: measured(given.folder / str(rows), rows, step))
    lines = (
        (step, *(f"{one[part]:,.0f}" if one[part] else "-" for part in ("arcs", *PARTS)))
        for (_, step, _), one in found.items()
    )
    study.table(("step", "arcs", "seconds", "peak MiB", "disk MiB"), lines)
    published = ((step, f"{seconds:g}", f"{peak:,}") for step, (seconds, peak) in PUBLISHED.items())
    study.table(("published code", "seconds", "peak MiB"), published)
    if len(given.rows) > 1:
        line(steps, found)
    print("\n" + "\n".join(f"- {name}: {words}" for name, words in study.machine().items()))


def measured(folder: Path, rows: int, step: str) -> dict[str, Any]:
    """What one process takes; the graph is written first if it is not there."""
    if not (folder / "edges.parquet").exists():
        size = ["--nodes", rows // 10, "--rows", rows] if rows else ["--like-46m"]
        study.process(ROOT / "rmat.py", folder, *size)
    store, out, method = folder / "store", folder / "run", step.partition(" ")[2]
    made = out if method else store
    shutil.rmtree(made, ignore_errors=True)
    tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
    budget = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-10", "--no-controls", "--threads", "2", "--out", out]
    learn = ["train", method, "--graph", store, *budget]
    command = learn if method else ["data", "import", *tables, "--undirected", "--out", store]
    told, seconds, peak = study.process("-m", "sfumato", *command, "--json")
    disk = sum(path.stat().st_size for path in made.rglob("*") if path.is_file()) / 2**20
    return {"arcs": json.loads(told).get("arcs", 0), "seconds": seconds, "peak": peak, "disk": disk}


def line(steps: list[str], found: dict[Any, dict[str, Any]]) -> None:
    """The line through the sizes at a billion arcs, and its largest distance to a point."""
    arcs = {cell[0]: one["arcs"] for cell, one in found.items() if cell[1] == "import"}
    rows = []
    for step in steps:
        own = [(arcs[cell[0]], one) for cell, one in found.items() if cell[1] == step]
        at, ahead = np.array([count for count, _ in own], float), []
        for part in PARTS:
            values = np.array([one[part] for _, one in own])
            slope, start = np.polyfit(at, values, 1)
            ahead.append(f"{slope * GOAL + start:,.0f} ({np.abs(slope * at + start - values).max():,.0f})")
        rows.append((step, *ahead))
    study.table(("step", "seconds", "peak MiB", "disk MiB"), rows, f"At {GOAL:,} arcs (largest distance to a point)")


if __name__ == "__main__":
    main()
