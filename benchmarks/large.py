"""Whole processes on large graphs: seconds, peak memory and disk; prints Markdown tables.

    python benchmarks/large.py FOLDER [--log FILE]
    python benchmarks/large.py FOLDER --rows 5000000 15000000 50000000 [--memory-limit 3]
    python benchmarks/large.py FOLDER --links --rows 3000000 10000000

The first form takes the graph of `benchmarks/rmat.py --like-46m` (46 million arcs, 602 features), the second R-MAT graphs with
ten undirected rows a node, 64 features and 8 classes (--rows 515000000: a billion arcs), and a line through the sizes. Tables are
written below FOLDER where they are not there yet, and imported; each method learns at epsilon 1 per undirected edge, in a process
of its own with 2 threads; its certificate is verified. Accuracies mean nothing. `--again 1` measures everything once more.
--links (into a FOLDER and a --log of its own): no features; link messages at epsilon 2, with Hits@50 beside popularity, and ten
suggestions a node among 200, with the share of the best others that they hold. The line goes to 1e8 nodes.
--memory-limit (GB) bounds what is private to a process (RLIMIT_DATA): heap, and maps that change without the file. Other maps
are not counted, since the system drops their pages; the peak, of resident memory, counts them. Disk is the most taken at a time.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import study

ROOT, GOAL, PARTS = Path(__file__).parent, 1_000_000_000, ("seconds", "processor", "peak", "disk")
LINKS = "link-messages"
WAY, LISTS = ["--unit", "edge", "--no-controls", "--threads", "2"], ["--top", "10", "--among", "200", "--force"]


def main() -> None:
    """Measure what is missing, and print the tables."""
    given = study.options(__doc__, log="large.jsonl", folder=Path, rows=(0,), again=0, memory_limit=0.0, links=False)
    names = ("gap", "auto", *["progap"] * (given.rows == [0]))
    steps = ["generate", "import", *(f"{what} {name}" for name in names for what in ("train", "verify"))]
    steps = [f"{what} {LINKS}" for what in "generate import train suggest verify".split()] if given.links else steps  # noqa: SIM905
    asked, limit = [(rows, step, given.again) for rows in given.rows for step in steps], int(given.memory_limit * 10**9)
    found = study.kept(given, asked, lambda rows, step, _: measured(given.folder / str(rows), rows, step, limit))
    cells = ((cell[1], one, [f"{one[part]:,.0f}" for part in ("arcs", *PARTS)]) for cell, one in found.items())
    study.table(("step", "arcs", *study.TAKEN, "told"), ((step, *row, one.get("told", "")) for step, one, row in cells))
    if len(given.rows) > 1:
        line(steps, found, 2 * GOAL if given.links else GOAL)
    print("\n" + "\n".join(f"- {name}: {words}" for name, words in study.machine().items()))


def measured(folder: Path, rows: int, step: str, limit: int) -> dict[str, Any]:
    """What one process takes, with at most ``limit`` bytes of private memory if it is not 0."""
    (what, _, method), links = step.partition(" "), step.endswith(LINKS)
    store, out, sizes = folder / "store", folder / f"run-{method}", ["--nodes", rows // 10, "--rows", rows]
    tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
    budget = ["--task", "link", "--epsilon", "2", "--delta", "0"] if links else ["--epsilon", "1", "--delta", "1e-10"]
    command = {
        "generate": [ROOT / "rmat.py", folder, *(sizes if rows else ["--like-46m"]), *["--features", 0] * links],
        "import": ["-m", "sfumato", "data", "import", *tables, "--undirected", "--out", store],
        "train": ["-m", "sfumato", "train", method, "--graph", store, *budget, *WAY, "--out", out],
        "suggest": ["-m", "sfumato", "predict", out, *LISTS, "--out", folder / "best.csv"],
        "verify": ["-m", "sfumato", "verify", out],
    }[what]
    if what == "generate" and (folder / "edges.parquet").exists():
        there = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 2**20
        return {"arcs": 0, **dict.fromkeys(PARTS, 0), "disk": there}
    shutil.rmtree({"import": store, "train": out}.get(what, folder / "none"), ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    told, *taken = study.process(*command, *["--json"] * (what != "generate"), limit=limit, on=folder)
    said = json.loads(told or "{}")
    shutil.rmtree(
        out if what == "verify" else folder / "none", ignore_errors=True
    )  # a certificate that is not valid ends it
    scores = [said, *said.get("controls", {}).values()] if links else []
    shares = [one[name] for one in scores for name in ("test_hits_at_50", "hits_at_50", "share_found") if name in one]
    words = ", ".join(f"{100 * (one['mean'] if isinstance(one, dict) else one):.1f} %" for one in shares)
    return {"arcs": said.get("arcs", 0), **dict(zip(PARTS, taken, strict=True)), "told": words}


def line(steps: list[str], found: dict[Any, dict[str, Any]], goal: int) -> None:
    """The line through the sizes at so many arcs, and its largest distance to a point."""
    arcs = {cell[0]: one["arcs"] for cell, one in found.items() if cell[1].startswith("import")}
    rows = []
    for step in steps:
        own = [(arcs[cell[0]], one) for cell, one in found.items() if cell[1] == step]
        at, ahead = np.array([count for count, _ in own], float), []
        for part in PARTS:
            values = np.array([one[part] for _, one in own])
            slope, start = np.polyfit(at, values, 1)
            ahead.append(f"{slope * goal + start:,.0f} ({np.abs(slope * at + start - values).max():,.0f})")
        rows.append((step, *ahead))
    study.table(("step", *study.TAKEN), rows, f"At {goal:,} arcs (largest distance to a point)")


if __name__ == "__main__":
    main()
