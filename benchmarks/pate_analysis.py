"""Medians of 41 told epsilons of LNMax at scale 20 on the official votes, beside what else may be said; prints a Markdown table.

python benchmarks/pate_analysis.py [--data-dir DIR]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import study

from sfumato.pate import LNMax, analyze, read_votes, release_epsilon

LNMAX = LNMax(20.0)
VOTES = (("adult", 1500, 1e-5), ("svhn", 8500, 1e-6), ("mnist", 100, 1e-5))
RELEASES = ((4.0, 0.075, 3.0), (8.0, 0.025, 4.0))
DRAWS = 41


def main() -> None:
    """Print a row for each set of votes."""
    folder = Path(study.options(__doc__).data_dir) / "pate_votes"

    def row(name: str, queries: int, delta: float) -> tuple[str, ...]:
        votes, told = read_votes(folder / f"{name}_250_teachers.npy", queries), []
        for order, beta, noise in RELEASES:
            release = partial(release_epsilon, votes, LNMAX, delta, order=order, beta=beta, noise=noise)
            told.append(f"{np.median([release().epsilon for _ in range(DRAWS)]):.1f}")
        proved = analyze(votes, LNMAX, delta)
        return f"{name}, {queries:,}", *told, f"{proved.data_independent:.1f}", f"{proved.epsilon:.1f}"

    heads = (f"told at {order:g},{beta:g},{noise:g}" for order, beta, noise in RELEASES)
    study.table(("votes, queries", *heads, "data-independent", "from the votes"), (row(*one) for one in VOTES))


if __name__ == "__main__":
    main()
