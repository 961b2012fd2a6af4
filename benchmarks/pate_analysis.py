"""Seconds for the analysis of the published runs: data-dependent cost at all orders, smooth sensitivity, release.

python benchmarks/pate_analysis.py [--data-dir DIR]

The whole of SVHN (8,500 queries) is meant to take less than 10 s on one core.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.pate import ConfidentGNMax, analyze, published_release, read_votes, release_epsilon

RUNS = {
    "mnist": (ConfidentGNMax(200.0, 150.0, 40.0), 640, 1e-5),
    "svhn": (ConfidentGNMax(300.0, 200.0, 40.0), 8500, 1e-6),
    "adult": (ConfidentGNMax(300.0, 200.0, 40.0), 1500, 1e-5),
}


def main() -> None:
    """Print one line a data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    folder = Path(parser.parse_args().data_dir) / "pate_votes"
    for name, (mechanism, queries, delta) in RUNS.items():
        votes = read_votes(folder / f"{name}_250_teachers.npy", queries)
        proved, seconds = timed(lambda: analyze(votes, mechanism, delta))  # noqa: B023
        (before, _, after), more = timed(lambda: published_release(votes, mechanism, delta))  # noqa: B023
        told, most = timed(lambda: release_epsilon(votes, mechanism, delta, order=6.0, beta=0.04, noise=4.0))  # noqa: B023
        print(
            f"{name}: proved {proved.epsilon:.4f} ({seconds:.2f} s); as published {before.epsilon:.4f} -> {after:.4f} "
            f"({more:.2f} s); one release {told.epsilon:.2f} ({most:.2f} s); data-independent {proved.data_independent:.2f}"
        )


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds it took."""
    start = time.perf_counter()
    return run(), time.perf_counter() - start


if __name__ == "__main__":
    main()
