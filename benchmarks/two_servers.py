"""Labels between two servers beside reports that trust nobody: test accuracy with its interval, as a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/two_servers.py [--datasets planetoid/cora ...] [--epsilons 0.5 1 2] [--seeds 10] \\
        [--first-seed 300] [--log FILE]

Seed i draws split i (50/25/25) and, by the key that hashes it, reports and noise. "One server" is a trusted curator with the
noise of one of the two. The last columns are paired: two servers minus local reports at the same epsilon and at twice as much.
Seeds from 300 on chose nothing.
"""

from __future__ import annotations

from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import study

from sfumato.local import Hybrid
from sfumato.local._collection import encode, received
from sfumato.local._shared_counts import SharedCounts
from sfumato.method.contract import Watch
from sfumato.noise.coins import SecretWords

if TYPE_CHECKING:
    from sfumato.graph import Graph

DATASETS = (
    "planetoid/cora", "planetoid/citeseer", "npz/cora_ml", "lastfm_asia", "facebook100/Caltech36", "facebook100/Reed98",
    "directed/polblogs", "text/cora_cane", "musae/wiki_chameleon", "musae/twitch_ENGB", "directed/email-Eu-core",
)  # fmt: skip
HEAD = (
    "graph",
    "mean degree",
    "epsilon",
    "local",
    "local, twice epsilon",
    "two servers",
    "one server",
    "minus local",
    "minus twice",
)


def accuracies(graph: Graph, epsilon: float, seed: int) -> list[float]:
    """Test accuracies in percent: local reports at epsilon and at twice as much, two servers, one server."""
    split = graph.with_split((0.5, 0.25, 0.25), seed=seed)
    scored, found = split.test_mask & (split.y >= 0), []
    key = sha256(f"{graph.name} {epsilon} {seed}".encode()).digest()
    for spent in (epsilon, 2 * epsilon):
        local = Hybrid(epsilon_x=0.0, epsilon_y=spent)
        public = split.public_facts(local.unit)
        read = received(local, split, public, encode(local, split, public, SecretWords(key)))
        found.append(
            local.predict(local.learn(read, graph.num_classes, SimpleNamespace(seed=seed, watch=Watch())), read)
        )
    shared = SharedCounts(epsilon_y=epsilon)
    for servers in (2, 1):
        opened = shared.opened(split, graph.num_classes, key, servers)
        found.append(shared.learned(split, opened, servers))
    return [100 * float((scores.argmax(axis=1) == split.y)[scored].mean()) for scores in found]


def main() -> None:
    """Print the table."""
    given = study.options(
        __doc__, log="two_servers.jsonl", datasets=DATASETS, epsilons=(0.5, 1.0, 2.0), seeds=10, first_seed=300
    )
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    cells = ((name, epsilon, seed) for name in given.datasets for epsilon in given.epsilons for seed in seeds)
    found = study.kept(given, cells, lambda name, *cell: accuracies(study.graph_of(name, given.data_dir), *cell))
    rows = []
    for (name, epsilon), runs in study.grouped(found, 2).items():
        shown, graph = np.array(runs), study.graph_of(name, given.data_dir)
        told = [study.told(values, 1) for values in (*shown.T, shown[:, 2] - shown[:, 0], shown[:, 2] - shown[:, 1])]
        rows.append((name, f"{graph.num_arcs / graph.num_nodes:.1f}", f"{epsilon:g}", *told))
    study.table(HEAD, rows)


if __name__ == "__main__":
    main()
