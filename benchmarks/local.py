"""Local encoders: users a second of multi-bit beside a dense n x d encoder in plain NumPy, and of the other randomizers.

python benchmarks/local.py [--users 100000] [--features 1433] [--ones 18] [--threads 2] [--rounds 5]

Rounds alternate; the median is shown. Threads encode separate blocks of users, each from a source of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sfumato.noise.coins import SecretWords
from sfumato.randomizers import Collision, Direction, MultiBit, OneBit, Piecewise, RandomizedResponse


def dense_multibit(values: np.ndarray, generator: np.random.Generator, epsilon: float = 1.0) -> np.ndarray:
    """The usual form, m = 1: an n x d float matrix with one informative entry a row."""
    users, d = values.shape
    sampled = np.zeros(values.shape, bool)
    sampled[np.arange(users), generator.integers(d, size=users)] = True
    p = np.exp(epsilon) / (np.exp(epsilon) + 1)
    bits = generator.random(values.shape, np.float32) < (1 - p) + values * (2 * p - 1)
    return np.where(sampled, (2.0 * bits - 1) * d / (2 * (2 * p - 1)), 0).astype(np.float32) + np.float32(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=1433)
    parser.add_argument("--ones", type=int, default=18)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    n, d = options.users, options.features
    generator = np.random.default_rng(0)
    columns = np.sort(generator.integers(d, size=(n, options.ones)), axis=1).ravel()
    rows = sparse.csr_matrix(
        (np.ones(columns.size, np.float32), columns, np.arange(0, columns.size + 1, options.ones)), (n, d)
    )
    rows.sum_duplicates()
    values = rows.toarray()
    labels = generator.integers(7, size=n)
    few = slice(0, max(1, n // 50))

    def encode(randomizer: Any, data: Any) -> tuple[int, Callable[[], object]]:
        cuts = np.linspace(0, data.shape[0], options.threads + 1).astype(int)
        blocks = [data[low:high] for low, high in pairwise(cuts)]
        return data.shape[0], lambda: list(pool.map(lambda block: randomizer.encode(block, SecretWords()), blocks))

    with ThreadPoolExecutor(options.threads) as pool:
        runs: dict[str, tuple[int, Callable[[], object]]] = {
            "multi-bit, dense float32 values": encode(MultiBit(d, 1.0), values),
            "multi-bit, CSR values": encode(MultiBit(d, 1.0), rows),
            "plain NumPy n x d multi-bit": (values[few].shape[0], lambda: dense_multibit(values[few], generator)),
            "1-bit": encode(OneBit(d, 1.0), values[few]),
            "piecewise, CSR values": encode(Piecewise(d, 1.0), rows),
            "collision, CSR values": encode(Collision(d, 1.0, cap=30), rows),
            "1-bit direction": encode(Direction(d, 1.0, norm=5.5), rows[few]),
            "randomized response": encode(RandomizedResponse(7, 1.0), labels),
        }
        times: dict[str, list[float]] = {name: [] for name in runs}
        for round_ in range(options.rounds + 1):
            for name, (_, run) in runs.items():
                start = time.perf_counter()
                run()
                if round_:
                    times[name].append(time.perf_counter() - start)
    print(
        f"{n} users, {d} features, {options.ones} ones a user, {options.threads} threads, load {os.getloadavg()[0]:.1f}"
    )
    for name, (users, _) in runs.items():
        print(f"  {name}: {users / np.median(times[name]):,.0f} users a second")


if __name__ == "__main__":
    main()
