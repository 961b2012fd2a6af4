"""The default under local privacy beside its controls: test accuracy with its interval, as a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/defaults_local.py [--datasets planetoid/cora ...] [--epsilon-x 1] \\
        [--epsilons 0.5 1 2] [--seeds 10] [--first-seed 300] [--log FILE] [--seconds]

Seed i draws split i (50/25/25), the initialization of networks and, by the key that hashes it, the reports: all methods of a
row learn from the same ones, so that their differences say more than their intervals. Seeds from 300 on chose nothing.
With --servers it compares reports that trust nobody with counts that two servers open (beside them one server: a curator who is
trusted), in pairs: two servers minus local reports at the same epsilon, and at twice as much.
With --seconds it prints instead how many CPU seconds one fit at (epsilon_x, epsilon_y) = (1, 1) takes on each graph.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import study

from sfumato.local import LPGNN, Hybrid, LabelOnly
from sfumato.local._collection import encode, received
from sfumato.local._controls import GRAPH_FREE
from sfumato.local._shared_counts import SharedCounts
from sfumato.method.contract import Watch
from sfumato.nn._metrics import class_scores
from sfumato.noise.coins import SecretWords

if TYPE_CHECKING:
    from sfumato.graph import Graph

CHOSE = (
    "planetoid/cora", "lastfm_asia", "npz/cora_ml", "musae/wiki_chameleon", "musae/twitch_ENGB", "facebook100/Simmons81",
)  # fmt: skip
DATASETS = (
    "facebook100/Reed98", "planetoid/citeseer", "directed/polblogs", "musae/wiki_chameleon", "planetoid/cora",
    "text/cora_cane", "facebook100/Caltech36", "npz/cora_ml", "directed/email-Eu-core", "lastfm_asia", "musae/twitch_ENGB",
)  # fmt: skip
COLUMNS = (
    "default, no features", "default, with features", "labels alone, heat kernel", "labels alone, propagation",
    "features that tell nothing", "no graph",
)  # fmt: skip
HEAD = ("graph", "epsilon_y", *COLUMNS, "no features minus the better control", "what features add")
SERVERS = ("local", "local, twice epsilon", "two servers", "one server", "two minus local", "two minus twice")
ERRORS = ("local, calibration error", "two servers, calibration error")
ENDS: dict[str, Any] = {"epochs": 200, "patience": 20}  # of training, as in the default's own networks


def accuracies(graph: Graph, epsilon_x: float, epsilon_y: float, seed: int) -> list[float]:
    """Test accuracies of ``COLUMNS`` in percent on the same reports; NaN where features are asked for that nobody has."""
    split = graph.with_split((0.5, 0.25, 0.25), seed=seed)
    asked = Hybrid(epsilon_x=epsilon_x if graph.num_features else 0.0, epsilon_y=epsilon_y)
    public = split.public_facts(asked.unit)
    key = sha256(f"{graph.name} {epsilon_x} {epsilon_y} {seed}".encode()).digest()
    collection = received(asked, split, public, encode(asked, split, public, SecretWords(key)))
    labels = replace(collection, features=None, feature_noise=None)
    budgets = {"epsilon_x": epsilon_x, "epsilon_y": epsilon_y}
    tried = (
        (Hybrid(epsilon_x=0.0, epsilon_y=epsilon_y), labels),
        (asked, collection),
        (LabelOnly(epsilon_y=epsilon_y), labels),
        (LabelOnly(epsilon_y=epsilon_y, form="propagation"), labels),
        (
            LPGNN(epsilon_y=epsilon_y, features_in="random", loss="forward", steps_x=8, **ENDS),
            replace(labels, num_features=0),
        ),
        (LPGNN(**budgets, mechanism="collision", **GRAPH_FREE, **ENDS), collection),
    )
    found = []
    for column, (method, read) in zip(COLUMNS, tried, strict=True):
        if read.features is None and column in ("default, with features", "no graph"):
            found.append(math.nan)
            continue
        session = SimpleNamespace(seed=seed, watch=Watch())
        predicted = method.predict(method.learn(read, graph.num_classes, session), read).argmax(axis=1)
        found.append(100 * float((predicted == split.y)[split.test_mask & (split.y >= 0)].mean()))
    return found


def of_servers(graph: Graph, epsilon: float, seed: int) -> list[float]:
    """Test accuracies of ``SERVERS`` in percent, and ``ERRORS``."""
    split = graph.with_split((0.5, 0.25, 0.25), seed=seed)
    scored, found, shared = split.test_mask & (split.y >= 0), [], SharedCounts(epsilon_y=epsilon)
    key = sha256(f"{graph.name} {epsilon} {seed}".encode()).digest()
    for spent in (epsilon, 2 * epsilon):
        local = Hybrid(epsilon_x=0.0, epsilon_y=spent)
        public = split.public_facts(local.unit)
        read = received(local, split, public, encode(local, split, public, SecretWords(key)))
        found.append(
            local.predict(local.learn(read, graph.num_classes, SimpleNamespace(seed=seed, watch=Watch())), read)
        )
    found += [shared.learned(split, shared.opened(split, graph.num_classes, key, many), many) for many in (2, 1)]
    right = [100 * float((scores.argmax(axis=1) == split.y)[scored].mean()) for scores in found]
    chances = (np.exp(found[0]), found[2])
    errors = [100 * class_scores(split.y[scored], one[scored])["calibration_error"] for one in chances]
    return [*right, right[2] - right[0], right[2] - right[1], *errors]


def main() -> None:
    """Print the table, or seconds."""
    given = study.options(
        __doc__, log="defaults_local.jsonl", datasets=DATASETS, epsilon_x=1.0, epsilons=(0.5, 1.0, 2.0), seeds=10,
        first_seed=300, seconds=False, servers=False,
    )  # fmt: skip
    if given.seconds:
        seconds(given.datasets, given.data_dir)
        return
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if given.servers:
        both = ((name, epsilon, seed) for name in given.datasets for epsilon in given.epsilons for seed in seeds)
        shown = study.kept(given, both, lambda name, *cell: of_servers(study.graph_of(name, given.data_dir), *cell))
        of = (
            (*cell, *(study.told(values, 1) for values in np.array(runs).T))
            for cell, runs in study.grouped(shown, 2).items()
        )
        study.table(("graph", "epsilon", *SERVERS, *ERRORS), of)
        return
    cells = (
        (name, given.epsilon_x, epsilon, seed)
        for name in given.datasets
        for epsilon in given.epsilons
        for seed in seeds
    )
    found = study.kept(given, cells, lambda name, *cell: accuracies(study.graph_of(name, given.data_dir), *cell))
    rows = []
    for (name, _, epsilon), runs in study.grouped(found, 3).items():
        shown = np.array(runs)
        best = shown[:, 2 + int(shown[:, 3].mean() > shown[:, 2].mean())]
        differences = (shown[:, 0] - best, shown[:, 1] - shown[:, 0])
        told = (study.told(values, 1) for values in (*shown.T, *differences))
        rows.append((f"{name}{' (chose)' if name in CHOSE else ''}", f"{epsilon:g}", *told))
    study.table(HEAD, rows)


def seconds(datasets: list[str], data_dir: str) -> None:
    """Print the CPU seconds of one fit a graph, at (1, 1) where it has features and at (0, 1) where it has none."""

    def row(name: str) -> tuple[object, ...]:
        graph = study.graph_of(name, data_dir, 0, (0.5, 0.25, 0.25))
        method = Hybrid(epsilon_x=float(graph.num_features > 0), epsilon_y=1.0)
        plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
        spent = study.seconds(lambda: plan.fit(graph), time.process_time)
        return name, graph.num_nodes, graph.num_arcs, graph.num_features, f"{spent:.0f}"

    study.table(("graph", "nodes", "arcs", "features", "seconds"), map(row, datasets))


if __name__ == "__main__":
    main()
