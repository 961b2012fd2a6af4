"""Seconds for the analysis of the published runs: data-dependent cost at all orders, smooth sensitivity, release.

python benchmarks/pate_analysis.py [--data-dir DIR]

The whole of SVHN (8,500 queries) is meant to take less than 10 s on one core. Then, for LNMax at scale 20, the medians of 41
told epsilons at two releases: a minute.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.pate import ConfidentGNMax, LNMax, analyze, published_release, read_votes, release_epsilon

if TYPE_CHECKING:
    from sfumato.pate._votes import Votes

RUNS = {
    "mnist": (ConfidentGNMax(200.0, 150.0, 40.0), 640, 1e-5),
    "svhn": (ConfidentGNMax(300.0, 200.0, 40.0), 8500, 1e-6),
    "adult": (ConfidentGNMax(300.0, 200.0, 40.0), 1500, 1e-5),
}

LNMAX = LNMax(20.0)
LNMAX_QUERIES = {"adult": 1500, "svhn": 8500, "mnist": 100}
RELEASES = ((4.0, 0.075, 3.0), (8.0, 0.025, 4.0))
DRAWS = 41


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
    for name, queries in LNMAX_QUERIES.items():
        votes, delta = read_votes(folder / f"{name}_250_teachers.npy", queries), RUNS[name][2]
        proved = analyze(votes, LNMAX, delta)
        medians = {at: np.median([_told(votes, delta, *at) for _ in range(DRAWS)]) for at in RELEASES}
        shown = ", ".join(f"{median:.1f} at {at}" for at, median in medians.items())
        print(
            f"{name}, lnmax: told {shown}; data-independent {proved.data_independent:.1f}; from votes {proved.epsilon:.1f}"
        )


def _told(votes: Votes, delta: float, order: float, beta: float, noise: float) -> float:
    return release_epsilon(votes, LNMAX, delta, order=order, beta=beta, noise=noise).epsilon


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds it took."""
    start = time.perf_counter()
    return run(), time.perf_counter() - start


if __name__ == "__main__":
    main()
