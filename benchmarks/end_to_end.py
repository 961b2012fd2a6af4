"""From tables to certificate at several sizes: seconds, peak memory and disk of whole processes, and a line through them.

    python benchmarks/end_to_end.py FOLDER [--rows 5000000 15000000 50000000] [--methods gap auto] [--again]

R-MAT graphs of benchmarks/rmat.py, ten undirected rows a node, 64 features, 8 classes, are written below FOLDER where they are
not there yet, imported, and learned from at epsilon 1 per undirected edge, each in a process of its own with 2 threads. The
accuracies of such graphs mean nothing. Writes docs/results/end-to-end.md; --again adds a second run of every process to it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sfumato.experiments._pages import stamped
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Facts, Items, Page, Section, Table

ROOT = Path(__file__).parent
RESULTS = ROOT.parent / "docs" / "results"
GOAL = 1_000_000_000
LEDGER = "end-to-end.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 15_000_000, 50_000_000])
    parser.add_argument("--methods", nargs="+", default=["gap", "auto"])
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    kept = options.folder / LEDGER
    found = json.loads(kept.read_text()) if options.again and kept.exists() else []
    for rows in options.rows:
        for one in at_size(options.folder / str(rows), rows, options.methods):
            found.append({"rows": rows, **one})
            print(found[-1], flush=True)
            kept.write_text(json.dumps(found))
    RESULTS.joinpath("end-to-end.md").write_text(stamped(to_markdown(page(found)), []))


def at_size(folder: Path, rows: int, methods: list[str]):
    """Yield what importing and learning take at one size."""
    if not (folder / "edges.parquet").exists():
        size = ["--nodes", str(rows // 10), "--rows", str(rows)]
        subprocess.run([sys.executable, ROOT / "rmat.py", folder, *size], check=True)
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
    told, wall, peak = process("data", "import", *tables, "--undirected", "--out", store)
    disk = sum(path.stat().st_size for path in store.iterdir()) / 2**20
    yield {"step": "import", "arcs": told["arcs"], "seconds": wall, "peak": peak, "disk": disk}
    for method in methods:
        out = folder / f"run-{method}"
        shutil.rmtree(out, ignore_errors=True)
        budget = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-10", "--no-controls", "--threads", "2"]
        _, wall, peak = process("train", method, "--graph", store, *budget, "--out", out)
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 2**20
        yield {"step": f"train {method}", "arcs": told["arcs"], "seconds": wall, "peak": peak, "disk": disk}
        shutil.rmtree(out)


def process(*words) -> tuple[dict, float, float]:
    """Run one command; return what it printed, its seconds, and its peak memory in MiB."""
    command = [sys.executable, "-m", "sfumato", *map(str, words), "--json"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "2"}) as running:
        printed = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {running.returncode}")
    return json.loads(printed), time.perf_counter() - start, used.ru_maxrss / 1024


def page(found: list[dict]) -> Page:
    """The measured sizes, and the line through them."""
    from bench import machine  # late: a process that is started counts what its parent holds as its own peak

    rows = [
        (one["step"], f"{one['arcs']:,}", *(f"{one[part]:,.0f}" for part in ("seconds", "peak", "disk")))
        for one in found
    ]
    columns = ("step", "arcs", "seconds", "peak MiB", "disk MiB")
    fits = []
    for step in dict.fromkeys(one["step"] for one in found):
        own = [one for one in found if one["step"] == step]
        arcs = np.array([one["arcs"] for one in own], float)
        if len(set(arcs)) > 1:
            ahead = []
            for part in ("seconds", "peak", "disk"):
                values = np.array([one[part] for one in own])
                slope, start = np.polyfit(arcs, values, 1)
                worst = float(np.abs(slope * arcs + start - values).max())
                ahead.append(f"{slope * GOAL + start:,.0f} ({worst:,.0f})")
            fits.append((step, *ahead))
    tables = [Table("measured", "Whole processes, from start to end", columns, tuple(rows), text=("step",))]
    if fits:
        caption = f"The line through these points at {GOAL:,} arcs, and its largest distance to a point"
        tables.append(Table("line", caption, ("step", *columns[2:]), tuple(fits), text=("step", *columns[2:])))
    return Page(
        "From tables to certificate",
        "R-MAT graphs with about 20 arcs a node, 64 features and 8 classes, at epsilon 1 per undirected edge, without controls.",
        (
            Section("sizes", "Sizes", tuple(tables)),
            Section("machine", "Machine", (Facts(tuple(machine().items())),)),
            Section("notes", "How to read it", (NOTES,)),
            Section("again", "Run it again", (Code("python benchmarks/end_to_end.py data/rmat"),)),
        ),
    )


NOTES = Items(
    (
        "Importing turns Parquet tables into a store. Training opens the store, fits, and writes the run with its certificate.",
        "The peak is that of resident memory. Pages of the store that were read count, although the system may drop them.",
        "A size below which everything fits into caches would bend the line: the smallest one here is far above.",
    )
)


if __name__ == "__main__":
    main()
