"""Methods on Berkeley13 beside what the published code reaches on the same file; prints a Markdown table.

    python benchmarks/accuracy.py [--methods auto progap gap] [--units edge node] [--seeds 10] [--data-dir ../shared/data]

Each row is one `sfumato train` command with fresh splits (seed i draws split i). The floor is the best graph-free model at
the same unit and budget, the ceiling the better of the same method and `reference` without privacy. Published code: means of
three runs on one split; it keeps the best epoch on validation labels also at node level.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

UNITS = ("edge", "arc", "node", "none")
ALONE, NODE = ("--no-controls",), ("--delta", "1e-5", "--max-degree", "100")
Row = tuple[str, str | None, tuple[str, ...], str]
ROWS: dict[str, tuple[Row, ...]] = {
    "auto": (
        *(("edge", epsilon, ALONE, "-") for epsilon in ("0.1", "0.25", "0.5", "1", "4")),
        ("arc", "1", ALONE, "-"),
        ("none", None, ALONE, "-"),
        *(("node", epsilon, (*NODE, *ALONE), "-") for epsilon in ("8", "4", "2", "1")),
    ),
    "linear": tuple(("node", epsilon, (*NODE, *ALONE), "-") for epsilon in ("8", "4", "2", "1")),
    "mlp": (
        ("edge", "1", ALONE, "-"),
        *(("node", epsilon, (*NODE, *ALONE), "-") for epsilon in ("8", "4", "2", "1")),
    ),
    "progap": (
        ("arc", "1", ALONE, "72.6"),
        ("arc", "4", ALONE, "77.8"),
        ("edge", "1", ALONE, "-"),
        ("edge", "4", ALONE, "-"),
        ("none", None, ALONE, "80.9"),
        ("node", "8", (*NODE, *ALONE), "64.4"),
    ),
    "gap": (
        ("arc", "1", ALONE, "65.0"),
        ("arc", "4", ALONE, "73.3"),
        ("edge", "1", ALONE, "-"),
        ("edge", "4", ALONE, "-"),
        ("node", "8", (*NODE, *ALONE), "57.4"),
        ("none", None, ALONE, "77.3"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=tuple(ROWS), default=list(ROWS))
    parser.add_argument("--units", nargs="+", choices=UNITS, default=UNITS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="facebook100/Berkeley13")
    options = parser.parse_args()
    print(f"{options.dataset}, {options.seeds} seeds with fresh 75/10/15 splits, 95 % t-intervals\n")
    print("| method | unit | epsilon | test accuracy | published code | seconds |")
    print("|---|---|---|---|---|---|", flush=True)
    for method in options.methods:
        for unit, epsilon, more, published in ROWS[method]:
            if unit not in options.units:
                continue
            result = trained(options, method, unit, epsilon, more)
            spent = result["privacy"]["epsilon"]
            cells = [result["method"], unit, "none" if spent is None else f"{spent:.3g}", show(result["test_accuracy"])]
            cells += [published, f"{result['seconds']['train']:.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


def trained(options: argparse.Namespace, method: str, unit: str, epsilon: str | None, more: tuple[str, ...]) -> dict:
    """What `sfumato train --json` prints."""
    budget = () if epsilon is None else ("--epsilon", epsilon, *(() if "--delta" in more else ("--delta", "1e-7")))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sfumato", "train", method, "--dataset", options.dataset, "--unit", unit]
        command += [*budget, *more, "--data-dir", options.data_dir, "--seeds", str(options.seeds)]
        command += ["--json", "--out", str(Path(folder) / "run")]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def show(summary: dict[str, float]) -> str:
    return f"{100 * summary['mean']:.1f} [{100 * summary['low']:.1f}, {100 * summary['high']:.1f}]"


if __name__ == "__main__":
    main()
