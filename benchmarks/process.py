"""The whole `sfumato train gap` process on Berkeley13, from command to saved result: median of 5 after one warm-up.

python benchmarks/process.py [--runs 5] [--data-dir ../shared/data]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    rows = [once(options.data_dir) for _ in range(options.runs + 1)][1:]
    for name, unit in (("process", "s"), ("load", "s"), ("train", "s"), ("peak_mb", "MB")):
        values = [row[name] for row in rows]
        print(f"{name}: median {statistics.median(values):.2f} {unit} (min {min(values):.2f}, max {max(values):.2f})")


def once(data_dir: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sfumato", "train", "gap", "--dataset", "facebook100/Berkeley13"]
        command += ["--data-dir", data_dir, "--unit", "edge", "--epsilon", "1", "--delta", "1e-7", "--no-controls"]
        start = time.perf_counter()
        done = subprocess.run([*command, "--json", "--out", str(Path(folder) / "run")], check=True, capture_output=True)
        wall = time.perf_counter() - start
    result = json.loads(done.stdout)
    return {"process": wall, "peak_mb": result["peak_mb"], **result["seconds"]}


if __name__ == "__main__":
    main()
