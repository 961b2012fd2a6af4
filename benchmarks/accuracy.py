"""GAP on Berkeley13 beside what the published code reaches on the same file; prints a Markdown table.

    python benchmarks/accuracy.py [--seeds 10] [--data-dir ../shared/data]

Each row is one `sfumato train` command with fresh splits (seed i draws split i); floor and ceiling are trained where
they can differ, once an edge unit and once a node unit. The bracketed figure is the mean of
three runs of the published code on one split; that code keeps the best epoch on validation labels also at node level.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = (
    ("arc", ("--epsilon", "1", "--delta", "1e-7", "--no-controls"), "65.0"),
    ("arc", ("--epsilon", "4", "--delta", "1e-7", "--no-controls"), "73.3"),
    ("edge", ("--epsilon", "1", "--delta", "1e-7"), "-"),
    ("edge", ("--epsilon", "4", "--delta", "1e-7", "--no-controls"), "-"),
    ("node", ("--epsilon", "8", "--delta", "1e-5", "--max-degree", "100"), "57.4"),
    ("none", ("--no-controls",), "77.3"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="facebook100/Berkeley13")
    options = parser.parse_args()
    print(f"{options.dataset}, {options.seeds} seeds with fresh 75/10/15 splits, 95 % t-intervals\n")
    print(
        "| unit | epsilon | GAP test accuracy | published code | floor | ceiling |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for unit, budget, published in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "sfumato", "train", "gap", "--dataset", options.dataset]
            command += ["--data-dir", options.data_dir, "--unit", unit, *budget, "--seeds", str(options.seeds)]
            command += ["--json", "--out", str(Path(folder) / "run")]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        epsilon = result["privacy"]["epsilon"]
        cells = [unit, "none" if epsilon is None else f"{epsilon:.3g}", show(result["test_accuracy"]), published]
        print("| " + " | ".join([*cells, show(result["floor"]), show(result["ceiling"])]) + " |", flush=True)


def show(summary: dict[str, float] | None) -> str:
    if summary is None:
        return "-"
    return f"{100 * summary['mean']:.1f} [{100 * summary['low']:.1f}, {100 * summary['high']:.1f}]"


if __name__ == "__main__":
    main()
