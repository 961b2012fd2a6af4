"""The default under local privacy beside its controls: test accuracy with its interval, as a Markdown page.

    OMP_NUM_THREADS=1 python benchmarks/defaults_local.py [--datasets planetoid/cora ...] [--epsilon-x 1] \\
        [--epsilons 0.5 1 2] [--seeds 10] [--first-seed 300] [--out docs/results/defaults-local.md] [--seconds]

Seed i draws split i (50/25/25), the initialization of networks and, by the key that hashes it, the reports: all methods of a
row learn from the same ones, so that their differences say more than their intervals. Seeds from 300 on chose nothing.
With --seconds it prints instead how many CPU seconds one fit at (epsilon_x, epsilon_y) = (1, 1) takes on each graph.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import t as student

from sfumato.experiments._pages import stamp
from sfumato.graph import Graph, load_dataset
from sfumato.local import LPGNN, Hybrid, LabelOnly
from sfumato.local._collection import encode, received
from sfumato.local._controls import GRAPH_FREE
from sfumato.method.contract import Watch
from sfumato.noise.coins import SecretWords

CHOSE = (
    "planetoid/cora",
    "lastfm_asia",
    "npz/cora_ml",
    "musae/wiki_chameleon",
    "musae/twitch_ENGB",
    "facebook100/Simmons81",
)
DATASETS = (
    "facebook100/Reed98",
    "planetoid/citeseer",
    "directed/polblogs",
    "musae/wiki_chameleon",
    "planetoid/cora",
    "text/cora_cane",
    "facebook100/Caltech36",
    "npz/cora_ml",
    "directed/email-Eu-core",
    "lastfm_asia",
    "musae/twitch_ENGB",
)
COLUMNS = (
    "default, no features",
    "default, with features",
    "labels alone, heat kernel",
    "labels alone, propagation",
    "features that tell nothing",
    "no graph",
)
HEAD = ("graph", "epsilon_y", *COLUMNS, "no features minus the better control", "what features add")
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


def interval(values: np.ndarray) -> str:
    """Mean and half width of the 95 % t-interval."""
    if np.isnan(values).any():
        return "-"
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0
    return f"{values.mean():.1f} ± {half:.1f}"


def table(datasets: list[str], epsilons: list[float], seeds: range, epsilon_x: float, data_dir: str) -> str:
    """Compute the Markdown table; progress goes to standard error."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- |" + " ---: |" * (len(HEAD) - 1)]
    for name in datasets:
        graph = load_dataset(name, data_dir)
        for epsilon in epsilons:
            rows = np.array([accuracies(graph, epsilon_x, epsilon, seed) for seed in seeds])
            best = rows[:, 2 + int(rows[:, 3].mean() > rows[:, 2].mean())]
            differences = (rows[:, 0] - best, rows[:, 1] - rows[:, 0])
            shown = [interval(values) for values in (*rows.T, *differences)]
            lines.append(f"| {name}{' (chose)' if name in CHOSE else ''} | {epsilon:g} | " + " | ".join(shown) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def page(found: str, seeds: range, epsilon_x: float) -> str:
    """Compose the page around a table."""
    return f"""# The default under local privacy

`python benchmarks/defaults_local.py`: test accuracy in percent, mean of seeds {seeds[0]} to {seeds[-1]} with its 95 % t-interval.
A seed draws a split (50/25/25), the reports and the initialization; methods of a row learn from the same reports. A user
spends epsilon_y, and {epsilon_x:g} more where features are asked for; "-" where the graph has none. The last two
columns are paired: the default without features minus the better of its two controls (labels alone by heat kernel, or by
propagation), and what features add. Graphs marked (chose) were looked at, on seeds from 100 to 110, while constants were
set: no seed here, no other graph.

{stamp([len(seeds)])}

{found}
"""


def seconds(datasets: list[str], data_dir: str) -> None:
    """Print the CPU seconds of one fit a graph, at (1, 1) where it has features and at (0, 1) where it has none."""
    print("| graph | nodes | arcs | features | seconds |\n| --- | ---: | ---: | ---: | ---: |")
    for name in datasets:
        graph = load_dataset(name, data_dir).with_split((0.5, 0.25, 0.25), seed=0)
        method = Hybrid(epsilon_x=float(graph.num_features > 0), epsilon_y=1.0)
        plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
        start = time.process_time()
        plan.fit(graph)
        spent = time.process_time() - start
        print(f"| {name} | {graph.num_nodes} | {graph.num_arcs} | {graph.num_features} | {spent:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--epsilon-x", type=float, default=1.0)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0], help="of labels")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=300)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", action="store_true")
    options = parser.parse_args()
    if options.seconds:
        seconds(options.datasets, options.data_dir)
        return
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = table(options.datasets, options.epsilons, seeds, options.epsilon_x, options.data_dir)
    text = page(found, seeds, options.epsilon_x)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
