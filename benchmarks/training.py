"""Training time of GAP at edge level beside the same recipe in plain torch (dense features, torch.optim), alternating.

    OMP_NUM_THREADS=2 python benchmarks/training.py [--rounds 5] [--data-dir ../shared/data]

The peer is the recipe of the published code without its metrics, progress bars and copies of masked rows, so it is
faster than that code. Both train encoder and classifier for 100 epochs each, full batch, validating every epoch.
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

import sfumato as sf
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows
from sfumato.graph import load_dataset

WIDTH, EPOCHS, HOPS = 16, 100, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    graph = load_dataset("facebook100/Berkeley13", options.data_dir).with_split()
    unit = sf.EdgeLevel(directed=False)
    plan = sf.GAP().calibrate(sf.Budget(1.0, 1e-7), unit=unit, public=graph.public_facts(unit))
    ours, peer = (
        (lambda: plan.fit(graph)),
        (lambda: published_recipe(graph, plan.event("aggregate/1").noise_multiplier)),
    )
    ours(), peer()
    pairs = np.array([(seconds(ours), seconds(peer)) for _ in range(options.rounds)])
    print(f"threads {torch.get_num_threads()}; median of {options.rounds}, alternating")
    print(f"sfumato {np.median(pairs[:, 0]):.2f} s; plain torch {np.median(pairs[:, 1]):.2f} s; ", end="")
    print(f"ratio {np.median(pairs[:, 0] / pairs[:, 1]):.2f}")


def published_recipe(graph: sf.graph.Graph, noise_multiplier: float) -> None:
    x, y = torch.from_numpy(graph.x.toarray()), torch.from_numpy(graph.y)
    train, val = torch.from_numpy(graph.train_mask), torch.from_numpy(graph.val_mask)
    encoder = nn.Sequential(
        nn.Linear(x.shape[1], WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.SELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.SELU(),
    )
    head = nn.Linear(WIDTH, graph.num_classes)
    fit(nn.ModuleList([encoder, head]), lambda rows: head(functional.normalize(encoder(rows), dim=1)), x, y, train, val)
    with torch.no_grad():
        rows = functional.normalize(encoder(x), dim=1).numpy()
    hops = [rows]
    for _ in range(HOPS):
        sums = noisy_neighborhood_sum(Arcs(*graph.transpose()), hops[-1], noise_multiplier * 2**0.5, os.urandom(32))
        hops.append(normalize_rows(sums))
    stacked = torch.from_numpy(np.stack(hops, axis=1))
    base = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in hops])
    norm, out = nn.BatchNorm1d(WIDTH * len(hops)), nn.Linear(WIDTH * len(hops), graph.num_classes)

    def classify(rows: torch.Tensor) -> torch.Tensor:
        joint = torch.cat([layer(rows[:, k]) for k, layer in enumerate(base)], dim=1)
        return out(functional.selu(norm(functional.normalize(joint, dim=1))))

    fit(nn.ModuleList([base, norm, out]), classify, stacked, y, train, val)


def fit(
    model: nn.Module,
    scores: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    train: torch.Tensor,
    val: torch.Tensor,
) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(scores(x[train]), y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            float((scores(x[val]).argmax(1) == y[val]).float().mean())


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
