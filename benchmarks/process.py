"""The whole process of `sfumato train gap` and `sfumato train auto` in turn, on Berkeley13 at edge level.

Medians of 5 after one warm-up. `cpu` is the time of all threads: unlike wall time it hardly grows where others compute.

python benchmarks/process.py [--methods gap auto] [--runs 5] [--data-dir ../shared/data]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEASURED = (("process", "s"), ("cpu", "s"), ("load", "s"), ("train", "s"), ("peak_mb", "MB"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["gap", "auto"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    rounds = [{method: once(method, options.data_dir) for method in options.methods} for _ in range(options.runs + 1)]
    for method in options.methods:
        for name, unit in MEASURED:
            values = [measured[method][name] for measured in rounds[1:]]
            spread = f"(min {min(values):.2f}, max {max(values):.2f})"
            print(f"{method} {name}: median {statistics.median(values):.2f} {unit} {spread}")


def once(method: str, data_dir: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sfumato", "train", method, "--dataset", "facebook100/Berkeley13"]
        command += ["--data-dir", data_dir, "--unit", "edge", "--epsilon", "1", "--delta", "1e-7", "--no-controls"]
        before, start = os.times(), time.perf_counter()
        done = subprocess.run([*command, "--json", "--out", str(Path(folder) / "run")], check=True, capture_output=True)
        wall, after = time.perf_counter() - start, os.times()
    result = json.loads(done.stdout)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"process": wall, "cpu": cpu, "peak_mb": result["peak_mb"], **result["seconds"]}


if __name__ == "__main__":
    main()
