"""Reading Parquet tables by this checkout and by another one, in alternation: seconds and peak memory of a fresh process each.

python benchmarks/load_parquet.py FOLDER [--other CHECKOUT] [--runs 3]

FOLDER holds nodes.parquet and edges.parquet with a column label, such as those of `benchmarks/rmat.py --like-46m`. The two must
give the same arrays; medians and their ratios are printed. Importing the package is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

LOAD = """
import hashlib, json, resource, sys, time
from sfumato.graph import read_parquet
start = time.perf_counter()
graph = read_parquet(sys.argv[1] + "/nodes.parquet", sys.argv[1] + "/edges.parquet", label="label")
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF)
bits = [hashlib.sha256(array).hexdigest() for array in (graph.indptr, graph.indices, graph.x, graph.y)]
cpu = peak.ru_utime + peak.ru_stime
print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak.ru_maxrss / 1024, "arcs": graph.num_arcs, "bits": bits}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--other", type=Path, help="the root of another checkout, such as one of main")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    roots = [Path(__file__).resolve().parents[1], *([options.other.resolve()] if options.other else [])]
    rows: dict[Path, list[dict[str, object]]] = {root: [] for root in roots}
    for _ in range(options.runs):
        for root in roots:
            rows[root].append(_once(root, options.folder))
    bits = {json.dumps([row["bits"], row["arcs"]]) for found in rows.values() for row in found}
    assert len(bits) == 1, "the checkouts read different arrays"
    medians = {}
    for root, found in rows.items():
        medians[root] = [
            statistics.median(float(str(row[name])) for row in found) for name in ("seconds", "cpu", "peak")
        ]
        print("{}: {:.1f} s, {:.1f} s of processors, peak {:,.0f} MiB".format(root.name, *medians[root]))
    if options.other:
        ratios = [there / here for here, there in zip(medians[roots[0]], medians[roots[1]], strict=True)]
        print("the other takes {:.2f} times the time, {:.2f} of processors, {:.2f} of memory".format(*ratios))


def _once(root: Path, folder: Path) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run([sys.executable, "-c", LOAD, str(folder)], check=True, capture_output=True, env=environment)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])  # DuckDB may show its progress before
    return found


if __name__ == "__main__":
    main()
