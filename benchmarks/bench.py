"""Every budget of the design as a ratio to a named peer, in one process, alternating; writes docs/results/bench.*.

    python benchmarks/bench.py [--rounds 5] [--only KEY ...]     the full form and the short form, recorded
    python benchmarks/bench.py --check                            the short form alone, beside the recorded ratios

Two threads. A ratio is the median over rounds of the peer's time over ours, after one round that does not count. The check
ends with exit code 1 if a ratio is below half of the recorded one, three times in a row: a busy machine may disturb one.
"""

import json
import os
import re
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import study

os.environ["OMP_WAIT_POLICY"] = "passive"  # or idle threads of one library would take turns of another

import numba
import numpy as np
import torch
from bench_rows import ROWS, Call, Row

from sfumato.experiments._index import stamp

RESULTS = Path(__file__).parent.parent / "docs" / "results"
LEAST, TRIES = 0.5, 3
LONG = 10.0  # a round of so many seconds is not repeated as often
Measured = dict[str, float]


def main() -> None:
    """Measure and record, or measure and compare."""
    given = study.options(__doc__, rounds=5, only={row.key: row for row in ROWS}, check=False)
    numba.set_num_threads(2)
    torch.set_num_threads(2)
    recorded = json.loads((RESULTS / "bench.json").read_text())
    rows = [row for row in ROWS if row.key in given.only]
    if given.check:
        sys.exit(check(rows, recorded["short"], given.rounds))
    for form in ("full", "short"):
        for row in rows:
            recorded[form][row.key] = measured(row, form == "short", given.rounds)
            say(row, recorded[form][row.key])
    recorded["machine"] = study.machine()
    RESULTS.joinpath("bench.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    write(recorded)


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


def write(recorded: dict[str, dict[str, Any]]) -> None:
    """Replace the date, the ratios and the machine on the page."""
    path, columns = RESULTS / "bench.md", ("path", "peer", "ours", "peer's", "times as fast", "budget")
    with redirect_stdout(StringIO()) as text:
        for form, title in (("full", "Full sizes."), ("short", "Sizes of `make bench-short`.")):
            both = ((row, recorded[form][row.key]) for row in ROWS if row.key in recorded[form])
            lines = (
                (f"{row.path} (`{row.key}`)", row.peer, f"{readable(found['ours'])} a {row.unit}", readable(found["peer"]),
                 f"{found['ratio']:.2f}", row.budget * (form == "full") or "-")
                for row, found in both
            )  # fmt: skip
            study.table(columns, lines, title)
        print("\n## Machine\n\n" + "\n".join(f"- {name}: {words}" for name, words in recorded["machine"].items()))
    head, _, rest = path.read_text().partition("## Ratios\n")
    tail = rest.partition("## How to read it\n")[2]
    head = re.sub(r"^Date: .*$", stamp([]), head, flags=re.MULTILINE)
    path.write_text(f"{head}## Ratios\n{text.getvalue()}\n## How to read it\n{tail}")


if __name__ == "__main__":
    main()
