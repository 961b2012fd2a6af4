"""Whole processes on large graphs: seconds, peak memory and disk; prints Markdown tables.

    python benchmarks/large.py FOLDER [--log FILE]
    python benchmarks/large.py FOLDER --rows 5000000 15000000 50000000 [--memory-limit 3]

The first form takes the graph of `benchmarks/rmat.py --like-46m` (46 million arcs, 602 features), the second R-MAT graphs with
ten undirected rows a node, 64 features and 8 classes (--rows 515000000: a billion arcs), and a line through the sizes. Tables are
written below FOLDER where they are not there yet, and imported; each method learns at epsilon 1 per undirected edge, in a process
of its own with 2 threads; its certificate is verified. Accuracies mean nothing. `--again 1` measures everything once more.
--memory-limit (GB) bounds each process by RLIMIT_DATA: what is private to it, heap and maps that it may change without the file.
Maps that are read, or written through, are not counted: the system drops their pages when memory is short. The peak, of resident
memory, counts them. (RLIMIT_AS would count all of a mapped file.) Disk is the most that was taken at a time.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import study

ROOT, GOAL, PARTS = Path(__file__).parent, 1_000_000_000, ("seconds", "peak", "disk")


def main() -> None:
    """Measure what is missing, and print the tables."""
    given = study.options(__doc__, log="large.jsonl", folder=Path, rows=(0,), again=0, memory_limit=0.0)
    names = ("gap", "auto", *["progap"] * (given.rows == [0]))
    steps = ["generate", "import", *(f"{what} {name}" for name in names for what in ("train", "verify"))]
    asked = [(rows, step, given.again) for rows in given.rows for step in steps]
    limit = int(given.memory_limit * 10**9)
    found = study.kept(given, asked, lambda rows, step, _: measured(given.folder / str(rows), rows, step, limit))
    lines = ((cell[1], *(f"{one[part]:,.0f}" for part in ("arcs", *PARTS))) for cell, one in found.items())
    study.table(("step", "arcs", "seconds", "peak MiB", "disk MiB"), lines)
    if len(given.rows) > 1:
        line(steps, found)
    print("\n" + "\n".join(f"- {name}: {words}" for name, words in study.machine().items()))


def measured(folder: Path, rows: int, step: str, limit: int) -> dict[str, Any]:
    """What one process takes, with at most ``limit`` bytes of private memory if it is not 0."""
    what, _, method = step.partition(" ")
    store, out, sizes = folder / "store", folder / f"run-{method}", ["--nodes", rows // 10, "--rows", rows]
    tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
    budget = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-10", "--no-controls", "--threads", "2"]
    command = {
        "generate": [ROOT / "rmat.py", folder, *(sizes if rows else ["--like-46m"])],
        "import": ["-m", "sfumato", "data", "import", *tables, "--undirected", "--out", store, "--json"],
        "train": ["-m", "sfumato", "train", method, "--graph", store, *budget, "--out", out, "--json"],
        "verify": ["-m", "sfumato", "verify", out, "--json"],
    }[what]
    if what == "generate" and (folder / "edges.parquet").exists():
        there = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 2**20
        return {"arcs": 0, "seconds": 0, "peak": 0, "disk": there}
    shutil.rmtree({"import": store, "train": out}.get(what, folder / "none"), ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    told, *taken = study.process(*command, limit=limit, on=folder)
    said = json.loads(told or "{}")
    if what == "verify":  # which ends with another exit code where a certificate is not valid
        shutil.rmtree(out)
    return {"arcs": said.get("arcs", 0), **dict(zip(PARTS, taken, strict=True))}


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
