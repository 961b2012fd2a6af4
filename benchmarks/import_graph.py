"""Import time and peak memory of a graph that benchmarks/rmat.py wrote: the whole process of `sfumato data import`.

python benchmarks/import_graph.py FOLDER [--directed] [--memory-limit 2GB] [--runs 1] [--csv]

FOLDER holds nodes.parquet and edges.parquet; the store is written beside them and removed. With --csv both are written as CSV
there first, unless they are there, and imported from it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--csv", action="store_true")
    options = parser.parse_args()
    store = options.folder / "store"
    paths = [options.folder / f"{name}.{'csv' if options.csv else 'parquet'}" for name in ("nodes", "edges")]
    for path in paths:
        if options.csv and not path.exists():
            duckdb.read_parquet(str(path.with_suffix(".parquet"))).write_csv(str(path))
    tables = ["--nodes", paths[0], "--edges", paths[1]]
    how = ["--label", "label", "--directed" if options.directed else "--undirected"]
    how += ["--memory-limit", options.memory_limit, "--out", store, "--json"]
    command = [sys.executable, "-m", "sfumato", "data", "import", *tables, *how]
    for _ in range(options.runs):
        start = time.perf_counter()
        done = subprocess.run(list(map(str, command)), check=True, capture_output=True)
        wall = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size = sum(path.stat().st_size for path in store.iterdir()) / 2**20
        told = json.loads(done.stdout)
        print(
            f"{told['arcs']:,} arcs of {told['nodes']:,} nodes: {wall:.1f} s, peak {peak:,.0f} MiB, store {size:,.0f} MiB, "
            f"{os.cpu_count()} cores, memory limit {options.memory_limit}",
            flush=True,
        )
        shutil.rmtree(store)


if __name__ == "__main__":
    main()
