"""Cost of a graph-split step with privacy, beside the same step without clipping and noise, and beside automatic differentiation.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/graph_split_speed.py [--rounds 7] [--data-dir DIR]

A step is the gradient of the sampled groups and a step of Adam. *Plain* is the same compiled loop; *autograd* is Torch in
float32 on all groups (dense rows, sparse hop), so it is told for full lots only. Seconds are of processor time; ratios are
medians over rounds in which all alternate. Last, 2,000 private steps on Cora with 10 groups, one of them drawn a step: the
code of the paper takes 38 to 45 seconds for as many.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sfumato._threads import set_threads
from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._split_gradients import SplitNetwork, split_steps
from sfumato.bounded._splits import split_graph
from sfumato.graph import load_dataset
from sfumato.nn._models import SparseRows
from sfumato.nn._training import Adam

WIDTH = 32
CASES = (
    ("planetoid/cora", 10, 0.1),
    ("planetoid/cora", 10, 1.0),
    ("planetoid/cora", 1000, 1.0),
    ("npz/coauthor_cs", 10, 1.0),
    ("npz/amazon_cs", 10, 1.0),
    ("npz/amazon_cs", 10, 0.1),
    ("npz/amazon_cs", 1000, 0.1),
    ("npz/amazon_cs", 1000, 1.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    print(f"threads {set_threads(1)}; medians of {options.rounds}, alternating")
    print("| graph | groups | drawn | private, ms | plain, ms | private / plain | private / autograd |")
    print("|---" * 7 + "|")
    for name, groups, share in CASES:
        network = network_of(name, groups, options.data_dir)
        calls = [private(network, share), plain(network, share)] + [autograd(network)] * (share == 1)
        for call in calls:
            call()
        seconds = np.array([[timed(call) for call in calls] for _ in range(options.rounds)])
        middle, ratios = np.median(seconds, 0), np.median(seconds[:, :1] / seconds, 0)
        row = [name, groups, f"{share:g}", f"{1e3 * middle[0]:.2f}", f"{1e3 * middle[1]:.2f}", f"{ratios[1]:.2f}"]
        print("|", " | ".join(map(str, [*row, f"{ratios[2]:.2f}" if share == 1 else "-"])), "|", flush=True)
    run = private(network_of("planetoid/cora", 10, options.data_dir), 0.1, steps=2000)
    wall = time.perf_counter()
    own = timed(run) * 2000
    print(f"2,000 steps on Cora, 10 groups: {own:.1f} s of processor time, {time.perf_counter() - wall:.1f} s passed")


def network_of(name: str, groups: int, data_dir: str) -> SplitNetwork:
    graph = load_dataset(name, data_dir).with_split(seed=0)
    return SplitNetwork(split_graph(graph, groups, 0), WIDTH, graph.num_classes)


def start_of(network: SplitNetwork) -> np.ndarray:
    return np.random.default_rng(0).normal(size=network.num_parameters) * 0.1


def private(network: SplitNetwork, share: float, steps: int = 10) -> Callable[[], int]:
    settings, start = PrivateSGD(share, steps, 0.01, 4.0, 0.01), start_of(network)

    def call() -> int:
        split_steps(network, start, settings, bytes(32), leave_out=True)
        return steps

    return call


def plain(network: SplitNetwork, share: float, steps: int = 10) -> Callable[[], int]:
    vector = nn.Parameter(torch.from_numpy(start_of(network)))
    descent, generator = Adam([vector], 0.01), np.random.default_rng(1)

    def call() -> int:
        for step in range(steps):
            drawn = np.flatnonzero(generator.random(network.split.num_groups) < share)
            descent.grad.copy_(torch.from_numpy(network.gradient(descent.flat.numpy(), drawn, step)))
            descent.step()
        return steps

    return call


def autograd(network: SplitNetwork, steps: int = 2) -> Callable[[], int]:
    split = network.split
    rows, hop = torch.from_numpy(split.rows.toarray().astype(np.float32)), SparseRows(split.hop)
    first, second = nn.Linear(rows.shape[1], WIDTH), nn.Linear(WIDTH, network.num_classes)
    known, targets = torch.from_numpy(split.targets >= 0), torch.from_numpy(split.targets)
    shares = torch.from_numpy(np.repeat(split.shares, np.diff(split.offsets)))[known].float()
    descent = Adam([*first.parameters(), *second.parameters()], 0.01)

    def call() -> int:
        for _ in range(steps):
            scores = hop @ second(torch.relu(first(rows)))
            (functional.cross_entropy(scores[known], targets[known], reduction="none") * shares).sum().backward()
            descent.step()
        return steps

    return call


def timed(call: Callable[[], int]) -> float:
    """Seconds of processor time a step."""
    start = time.process_time()
    steps = call()
    return (time.process_time() - start) / steps


if __name__ == "__main__":
    main()
