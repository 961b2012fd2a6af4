"""Every budget of the design as a ratio to a named peer, in one process, alternating; writes docs/results/bench.*.

    python benchmarks/bench.py [--rounds 5] [--only KEY ...]     the full form and the short form, recorded
    python benchmarks/bench.py --check                            the short form alone, beside the recorded ratios

Two threads. A ratio is the median over rounds of the peer's time over ours, after one round that does not count. The check
ends with exit code 1 if a ratio is below half of the recorded one, three times in a row: a busy machine may disturb one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "passive"  # or idle threads of one library would take turns of another

import numba
import numpy as np
import torch
from bench_rows import ROWS, Call, Row

from sfumato.bounded.kernels import language
from sfumato.experiments._pages import stamped
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Facts, Items, Page, Section, Table

RESULTS = Path(__file__).parent.parent / "docs" / "results"
LEAST, TRIES = 0.5, 3
LONG = 10.0  # a round of so many seconds is not repeated as often
Measured = dict[str, float]


def main() -> None:
    """Measure and record, or measure and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[row.key for row in ROWS], help="measure these rows again")
    parser.add_argument("--check", action="store_true", help="compare the short form with what is recorded")
    options = parser.parse_args()
    numba.set_num_threads(2)
    torch.set_num_threads(2)
    recorded = json.loads((RESULTS / "bench.json").read_text()) if (RESULTS / "bench.json").exists() else {}
    rows = [row for row in ROWS if not options.only or row.key in options.only]
    if options.check:
        if "short" not in recorded:
            sys.exit("Expected recorded ratios in docs/results/bench.json, found none. Run make bench first.")
        sys.exit(check(rows, recorded["short"], options.rounds))
    for form in ("full", "short"):
        found = recorded.setdefault(form, {}) if options.only else recorded.__setitem__(form, {}) or recorded[form]
        for row in rows:
            found[row.key] = measured(row, form == "short", options.rounds)
            say(row, found[row.key])
    recorded["machine"] = machine()
    RESULTS.joinpath("bench.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    RESULTS.joinpath("bench.md").write_text(stamped(to_markdown(page(recorded)), []))


def check(rows: list[Row], recorded: dict[str, Measured], rounds: int) -> int:
    """Return 1 if a ratio is below half of the recorded one, three times."""
    low = []
    for row in rows:
        least = LEAST * recorded[row.key]["ratio"]
        for _ in range(TRIES):
            found = measured(row, True, rounds)
            if found["ratio"] >= least:
                break
        say(row, found)
        if found["ratio"] < least:
            low.append(f"{row.key}: {found['ratio']:.2f}, recorded {recorded[row.key]['ratio']:.2f}")
    if low:
        print(f"Expected every ratio to be at least {LEAST:g} of the recorded one, got\n  " + "\n  ".join(low))
    return bool(low)


def measured(row: Row, short: bool, rounds: int) -> Measured:
    """Seconds for a unit of work, ours and the peer's, and their ratio: medians over rounds."""
    ours, peer = row.calls(short)
    if seconds(ours) + seconds(peer) > LONG:
        rounds = min(rounds, 2)
    pairs = np.array([(seconds(ours), seconds(peer)) for _ in range(rounds)])
    mine, theirs = np.median(pairs, axis=0)
    return {"ours": float(mine), "peer": float(theirs), "ratio": float(np.median(pairs[:, 1] / pairs[:, 0]))}


def seconds(call: Call) -> float:
    """Seconds for a unit of work."""
    start = time.perf_counter()
    units = call()
    return (time.perf_counter() - start) / units


def say(row: Row, found: Measured) -> None:
    """Print a row."""
    print(
        f"{row.key}: {readable(found['ours'])} a {row.unit}, {row.peer}: {readable(found['peer'])}, "
        f"{found['ratio']:.2f} x as fast",
        flush=True,
    )


def readable(duration: float) -> str:
    """Write seconds with their unit.

    >>> readable(0.0123)
    '12.3 ms'
    """
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-9:.3g} ns"


def machine() -> dict[str, str]:
    """What ran."""
    model = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{model[0] if model else platform.processor()}, {os.cpu_count()} cores, 2 threads used",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"torch {torch.__version__}, Numba {numba.__version__}, sums in {language()}",
        "load": f"{os.getloadavg()[0]:.1f} at the end, of which this process is 1 to 2",
    }


def page(recorded: dict) -> Page:
    """The page of the recorded ratios."""
    columns = ("path", "peer", "ours", "peer's", "times as fast", "budget")
    tables = []
    for form, caption in (("full", "Full sizes"), ("short", "Sizes of `make bench-short`")):
        rows = tuple(
            (
                f"{row.path} (`{row.key}`)",
                row.peer,
                f"{readable(found['ours'])} a {row.unit}",
                readable(found["peer"]),
                f"{found['ratio']:.2f}",
                (row.budget or "-") if form == "full" else "-",
            )
            for row in ROWS
            if (found := recorded[form].get(row.key))
        )
        tables.append(Table(form, caption, columns, rows, text=("path", "peer", "budget")).without_empty())
    return Page(
        "Speed beside named peers",
        "Ratios of one run, in which our call and the peer's alternate: medians over rounds. Budgets are those of the design; "
        "`0.625 x` is 1.6 times the peer's time.",
        (
            Section("ratios", "Ratios", tuple(tables)),
            Section("machine", "Machine", (Facts(tuple(recorded["machine"].items())),)),
            Section("notes", "How to read it", (NOTES,)),
            Section("again", "Run it again", (Code("make bench bench-short"),)),
        ),
    )


NOTES = Items(
    (
        "A hop of ours adds whole numbers exactly, which is what its noise proof needs; the peers add float32.",
        "A DP-SGD step of ours draws secret coins, sums whole numbers exactly in float64, and draws noise from a keyed sampler "
        "with a proved law. Opacus runs as it comes: float32, and noise of torch's generator.",
        "The noisy hops of the peer take NumPy's float32 normals, without keys.",
        "make bench-short fails if a ratio falls below half of the recorded one.",
    )
)


if __name__ == "__main__":
    main()
