"""The graph-split loop as Igamberdiev and Habernal (2022) ran it, on Cora and Citeseer. **It has no guarantee under any unit.**

    OMP_NUM_THREADS=1 python benchmarks/graph_split_published.py [--graphs planetoid/cora ...] [--noise 4] [--splits 10] \\
        [--epochs 200] [--optimizer sgd|adam] [--learning-rate 0.01] [--clip none|tensor] [--seeds 5] [--data-dir DIR]

As in the code of the paper, the loss is masked to one group while messages flow over the whole graph, groups take turns in
shuffled order, and noise of the clip norm 1 times ``--noise`` is added to each tensor. Nothing is clipped there; ``tensor`` clips
each tensor to 1, as was meant. The epsilon is the one that the authors would state: a moments accountant with q = 1 / splits.
Nothing is certified or saved. Test nodes are the 1,000 of the public split, training nodes all but them and 500.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np
import torch
from scipy.special import stdtrit
from torch.nn import functional

from sfumato.central.reference import directions
from sfumato.cli.options import set_threads
from sfumato.graph import load_dataset
from sfumato.nn.gnn import GNN, Topology
from sfumato.nn.models import SparseRows
from sfumato.privacy import accounting
from sfumato.privacy.events import PoissonGaussianEvent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=("planetoid/cora", "planetoid/citeseer"))
    parser.add_argument("--noise", type=float, default=4.0)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--clip", choices=("none", "tensor"), default="none")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    warnings.warn("Expected nothing private: the published accounting holds for no unit.", stacklevel=1)
    event = PoissonGaussianEvent(1 / options.splits, options.noise, options.epochs * options.splits)
    epsilon = accounting.epsilon([event], 1e-5, method="moments")
    for name in options.graphs:
        found = np.array([accuracy(name, options, seed) for seed in range(options.seeds)])
        half = (
            stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else float("nan")
        )
        print(f"{name}: {found.mean():.1f} ± {half:.1f} at a *stated* epsilon of {epsilon:.2f}, without a guarantee")


def accuracy(name: str, options: argparse.Namespace, seed: int) -> float:
    graph = load_dataset(name, options.data_dir, split="public")
    assert graph.y is not None
    train = np.flatnonzero(~graph.test_mask & ~graph.val_mask & (graph.y >= 0))
    torch.manual_seed(seed)
    network = GNN("gcn", graph.x.shape[1], 32, graph.num_classes, dropout=0.5, activation="relu")
    make = torch.optim.SGD if options.optimizer == "sgd" else torch.optim.Adam
    optimizer = make(network.parameters(), options.learning_rate)
    x, topology, y = SparseRows(graph.x), Topology(directions(graph)[0]), torch.from_numpy(graph.y)
    parts = np.array_split(np.random.default_rng(seed).permutation(train), options.splits)
    for _ in range(options.epochs):
        for part in np.random.default_rng().permutation(options.splits):
            optimizer.zero_grad()
            functional.cross_entropy(network(x, topology)[parts[part]], y[parts[part]]).backward()
            for parameter in network.parameters():
                assert parameter.grad is not None
                if options.clip == "tensor":
                    parameter.grad /= parameter.grad.norm().clamp_min(1)
                parameter.grad += options.noise * torch.randn_like(parameter)
            optimizer.step()
    network.eval()
    with torch.no_grad():
        return 100 * float((network(x, topology).argmax(1) == y)[graph.test_mask & (graph.y >= 0)].double().mean())


if __name__ == "__main__":
    main()
