"""GAP, ProGAP and the default on 46 million arcs and 602 features, beside the published recipes in plain torch, in one run.

    python benchmarks/large.py FOLDER [--methods gap progap auto] [--again]

The graph of `benchmarks/rmat.py --like-46m` is written below FOLDER where it is not there yet, and imported. Then each method
learns from the store at epsilon 1 per undirected edge, in a process of its own with 2 threads, and each recipe learns from the
same Parquet files in plain torch: dense features, torch.sparse CSR, torch.optim, full batch, 100 epochs for each network. The
accuracies of this graph mean nothing. Writes docs/results/large.md; --again adds a second run of everything to it.
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

ROOT = Path(__file__).parent
RESULTS = ROOT.parent / "docs" / "results"
LEDGER = "large.json"
PUBLISHED = {"gap": (66.1, 4915), "progap": (302.0, 4653)}
"""Seconds and peak MiB of the published code at this size, measured once, on another day."""
NOTES = (
    "Importing turns Parquet tables into a store, once. Training opens the store, fits, and writes the run with its certificate.",
    "Plain torch is the recipe of the published code without its metrics and progress bars, on the same Parquet files. It "
    "takes every training node in each of 100 epochs a network; Sfumato's steps read at most 32,768 of them.",
    "The column of the published code was measured on another day, so its ratio is not one of a single run.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", default=["gap", "progap", "auto"])
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    kept = options.folder / LEDGER
    found = json.loads(kept.read_text()) if options.again and kept.exists() else []
    for one in measured(options.folder, options.methods):
        found.append(one)
        print(one, flush=True)
        kept.write_text(json.dumps(found))
    write_page(found)


def measured(folder: Path, methods: list[str]):
    """Yield what each process takes."""
    if not (folder / "edges.parquet").exists():
        subprocess.run([sys.executable, ROOT / "rmat.py", folder, "--like-46m"], check=True)
    store, out = folder / "store", folder / "run"
    shutil.rmtree(store, ignore_errors=True)
    tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
    seconds, peak = process("-m", "sfumato", "data", "import", *tables, "--undirected", "--out", store)
    yield {"step": "import", "of": "sfumato", "seconds": seconds, "peak": peak}
    for method in methods:
        shutil.rmtree(out, ignore_errors=True)
        budget = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-8", "--no-controls", "--threads", "2"]
        seconds, peak = process("-m", "sfumato", "train", method, "--graph", store, *budget, "--out", out)
        yield {"step": method, "of": "sfumato", "seconds": seconds, "peak": peak}
        if method in PUBLISHED:
            seconds, peak = process(ROOT / "plain_recipes.py", method, folder)
            yield {"step": method, "of": "plain torch", "seconds": seconds, "peak": peak}


def process(*words: object) -> tuple[float, float]:
    """Run one command; return its seconds, and its peak memory in MiB."""
    start = time.perf_counter()
    threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    with subprocess.Popen(
        [sys.executable, *map(str, words)], stdout=subprocess.DEVNULL, env={**os.environ, **threads}
    ) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        sys.exit(f"{words} ended with exit code {running.returncode}")
    return time.perf_counter() - start, used.ru_maxrss / 1024


def write_page(found: list[dict]) -> None:
    """Write the measured processes, ours over theirs."""
    import numpy as np
    from bench import machine

    from sfumato.experiments._pages import stamped
    from sfumato.report._markdown import to_markdown
    from sfumato.report._page import Code, Facts, Items, Page, Section, Table

    def listed(step: str, of: str, part: str) -> list[float]:
        return [one[part] for one in found if (one["step"], one["of"]) == (step, of)]

    def joined(values: list[float], digits: int) -> str:
        return ", ".join(f"{value:,.{digits}f}" for value in values)

    rows = []
    for step in dict.fromkeys(one["step"] for one in found):
        for at, (part, unit) in enumerate((("seconds", "s"), ("peak", "MiB"))):
            ours, theirs = listed(step, "sfumato", part), listed(step, "plain torch", part)
            ratios = [a / b for a, b in zip(ours, theirs, strict=False)]
            cells = [joined(ours, 1 - at), joined(theirs, 1 - at), joined(ratios, 2)]
            if step in PUBLISHED:
                cells += [f"{PUBLISHED[step][at]:,}", f"{np.mean(ours) / PUBLISHED[step][at]:.2f}"]
            rows.append((f"{step}, {unit}", *cells, *[""] * (5 - len(cells))))
    columns = ("process", "sfumato", "plain torch", "ratio in one run", "published code", "ratio to it")
    table = Table("processes", "Whole processes, each run of them", columns, tuple(rows), text=columns)
    page = Page(
        "46 million arcs",
        "116,713 nodes, 46 million arcs and 602 dense features, at epsilon 1 per undirected edge, 2 threads, without controls.",
        (
            Section("processes", "Processes", (table,)),
            Section("notes", "How to read it", (Items(NOTES),)),
            Section("machine", "Machine", (Facts(tuple(machine().items())),)),
            Section("again", "Run it again", (Code("python benchmarks/large.py data/large"),)),
        ),
    )
    RESULTS.joinpath("large.md").write_text(stamped(to_markdown(page), []))


if __name__ == "__main__":
    main()
