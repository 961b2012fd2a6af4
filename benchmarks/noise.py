"""Rounded Gaussian and Laplace noise against torch.randn and NumPy: ratios in one run, alternating.

python benchmarks/noise.py [--values 100000000] [--block 1048576] [--threads 2] [--rounds 5]

A block of 1048576 values is what a hop of width 16 draws at a time; block 0 draws all values in one call.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numba
import numpy as np
import torch

from sfumato.noise import rectangles
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.laplace import rounded_laplace

SCALE = 216815.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=10**8)
    parser.add_argument("--block", type=int, default=1 << 20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    numba.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    block = options.block or options.values
    spans = [(low, min(low + block, options.values)) for low in range(0, options.values, block)]
    generator = np.random.default_rng(0)
    runs: dict[str, Callable[[int, int], object]] = {
        "rounded_gaussian": lambda low, high: rounded_gaussian(bytes(32), SCALE, low, high),
        "rounded_laplace": lambda low, high: rounded_laplace(bytes(32), SCALE, low, high),
        "torch.randn float32": lambda low, high: torch.randn(high - low),
        "NumPy standard_normal float64": lambda low, high: generator.standard_normal(high - low),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(options.rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            for low, high in spans:
                run(low, high)
            if round_:
                times[name].append(time.perf_counter() - start)
    load = os.getloadavg()[0]
    print(f"{options.values:.0e} values, blocks of {block}, {options.threads} threads, load {load:.1f}")
    torch_times = np.array(times["torch.randn float32"])
    for name, measured in times.items():
        ratio = np.median(torch_times / measured)
        print(f"  {name}: {np.median(measured):.3f} s; {ratio:.2f} x as fast as torch.randn", flush=True)
    for law in (rectangles.GAUSSIAN, rectangles.LAPLACE):
        count_decisions(law, rounded_gaussian if law.square else rounded_laplace)


def count_decisions(law: rectangles.Law, draw: Callable[..., object], size: int = 10**6) -> None:
    """Print which share of draws needs the graph of f, another attempt, or the exact reference."""
    counts, settle, exact = [], rectangles._settle, rectangles.exact
    exacts = []
    rectangles._settle = lambda *args: counts.append(len(args[3])) or settle(*args)  # type: ignore[assignment]
    rectangles.exact = lambda *args: exacts.append(1) or exact(*args)  # type: ignore[assignment]
    for scale in (SCALE, 2.0**28, 2.0**35.9):
        counts.clear(), exacts.clear()
        draw(bytes(32), scale, 0, size)
        print(
            f"  {law.name}, scale {scale:.3g}: {counts[0] / size:.2%} not certain from the first word, "
            f"{counts[1] / size:.3%} drawn again, {len(exacts) / size:.1e} exact decisions"
        )
    rectangles._settle, rectangles.exact = settle, exact


if __name__ == "__main__":
    main()
