"""Reconstruction of a whole graph, and of a hidden feature, against models that read all arcs, noisy sums, or no arc.

    OMP_NUM_THREADS=1 python benchmarks/graph_attack.py [--graph planetoid/cora] [--epsilon 1] [--seeds 3] [--first-seed 500]
        [--log FILE] [--only-print] [--page FILE] [--data-dir DIR]

Unit: one undirected edge, delta 1e-6. Seed i draws split i (75/10/15), initialization and 500 nodes of which all pairs are asked.
*Precision* is the share of links among as many most similar pairs as there are links. The hidden feature is the column of zeros
and ones with the most even halves; *imputation* uses all other features and half of the nodes. Means in percent with 95 %
t-intervals.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from links_attack import DELTA, UNIT, put_tables, read, told

from sfumato._threads import set_threads
from sfumato.attacks._attributes import Attributes
from sfumato.attacks._graphs import WholeGraph
from sfumato.catalog import method_named
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NoPrivacy
from sfumato.scoring._scores import score

MODELS = (("sage", False), ("mlp", True), ("gap", True), ("label-messages", True))
KEYS = ("accuracy", "AUC", "precision", "hidden feature", "model alone", "imputation", "with neighbors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="planetoid/cora")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--log", type=Path, default=Path("runs/graph_attack.jsonl"))
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    done = read(options.log)
    if not options.only_print:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        with options.log.open("a", encoding="utf-8") as file:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                for method, private in MODELS:
                    cell = (options.graph, method, options.epsilon if private else None, seed)
                    if cell not in done:
                        done[cell] = attacked(*cell, options.data_dir)
                        file.write(json.dumps([*cell, done[cell]]) + "\n")
                        file.flush()
    lines = [f"\n## {options.graph}, whole graph and hidden feature\n"]
    lines += ["| model | epsilon | " + " | ".join(KEYS) + " |", "|---" * (2 + len(KEYS)) + "|"]
    words = {"sage": "none", "mlp": "0"}
    kinds = dict.fromkeys(cell[1:3] for cell in done if cell[0] == options.graph)
    for method, epsilon in kinds:
        rows = [found for cell, found in done.items() if cell[1:3] == (method, epsilon)]
        cells = [words.get(method, f"{epsilon}"), *(told([row[key] for row in rows]) for key in KEYS)]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    every = list({row["guessing"]: row for row in done.values()}.values())
    alone = [told([row[f"features {key}"] for row in every]) for key in ("AUC", "precision")]
    lines += [f"| features alone | | | {' | '.join(alone)} | | | | |"]
    lines += [f"| guessing | | | 50.0 | {told([row['guessing'] for row in every])} | | | | |"]
    print("\n".join(lines))
    if options.page:
        put_tables(options.page, "\n".join(lines))


def attacked(name: str, method: str, epsilon: float | None, seed: int, data_dir: str) -> dict[str, Any]:
    graph = load_dataset(name, data_dir).with_split(seed=seed)
    unit, budget = (NoPrivacy(), None) if epsilon is None else (UNIT, Budget(epsilon, DELTA))
    fitted = method_named(method).calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=seed)
    whole, hidden = (attack.run(fitted, graph, seed=seed) for attack in (WholeGraph(), Attributes()))
    (imputed,), (alike,) = hidden.baselines.values(), whole.baselines.values()
    return {
        "accuracy": score(fitted, graph)["accuracy"],
        "AUC": whole.scores.auc().value,
        "precision": whole.measures["precision"],
        "features AUC": alike.auc().value,
        "features precision": whole.measures["features_precision"],
        "guessing": whole.measures["guessing_precision"],
        "hidden feature": hidden.scores.auc().value,
        "model alone": hidden.measures["auc_model_alone"],
        "with neighbors": hidden.measures["auc_with_neighbors"],
        "imputation": imputed.auc().value,
    }


if __name__ == "__main__":
    main()
