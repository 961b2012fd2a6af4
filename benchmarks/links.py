"""Private neighbor lists, public features and labels: accuracy by epsilon; prints a Markdown table.

    python benchmarks/links.py [--dataset planetoid/cora] [--epsilons 1 2 3 4 5 6 8] [--seeds 3]

Seed i draws split i (50/25/25), fresh reports and initial weights. Epsilon is of one bit of one list; a relationship,
which both ends report, costs twice that. Columns: features alone; GCN on claims as they are (left out above a million
of them); GCN on pairs of posterior above 1/2, as published; beliefs; GCN on guided links; what validation chooses.
Mean test accuracy in percent with its 95 % t-interval.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from sfumato.datasets._loading import load_dataset
from sfumato.local._blink import Blink, _Task
from sfumato.local._collection import topology
from sfumato.local._denoising import denoise
from sfumato.noise.coins import SecretWords
from sfumato.scoring._scores import Summary

if TYPE_CHECKING:
    from sfumato.randomizers._links import LinkReports

PUBLISHED = {"planetoid/cora": {1: 71.2, 2: 71.0, 3: 71.0, 4: 77.0, 5: 84.5, 6: 86.4, 8: 87.1}}
_MOST_CLAIMS = 1_000_000


def claimed(reports: LinkReports) -> Any | None:
    """Plain randomized response: half a link a claim."""
    blocks = []
    for _, agreement in reports.agreement():
        blocks.append(sp.csr_matrix(agreement.astype(np.float32) / 2))
        if sum(block.nnz for block in blocks) > _MOST_CLAIMS:
            return None
    return sp.vstack(blocks, format="csr")


def show(values: list[float]) -> str:
    return "-" if np.isnan(values).any() else str(Summary.of(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="planetoid/cora")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1, 2, 3, 4, 5, 6, 8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    graph = load_dataset(options.dataset, data_dir=options.data_dir)
    published = PUBLISHED.get(options.dataset, {})
    heads = ["MLP", "claims", "Blink, hard", "beliefs", "guided GCN", "chosen", "below MLP", "published"]
    print(f"{options.dataset}, seeds 0..{options.seeds - 1}, a fresh 50/25/25 split each\n")
    print("| epsilon, one bit of one list | epsilon, a relationship | " + " | ".join(heads) + " | seconds |")
    print("|---" * (3 + len(heads)) + "|", flush=True)
    blink = Blink()
    splits = [graph.with_split((0.5, 0.25, 0.25), seed) for seed in range(options.seeds)]
    tasks = [_Task(blink, part, part.train_mask, part.val_mask, seed) for seed, part in enumerate(splits)]

    def tested(part: Any, scores: Any) -> float:
        return float((scores.argmax(axis=1) == part.y)[part.test_mask].mean())

    for epsilon in options.epsilons:
        method = replace(blink, epsilon=epsilon)
        rows: dict[str, list[float]] = {name: [] for name in heads[:6]}
        seconds = 0.0
        for part, task in zip(splits, tasks, strict=True):
            start = time.perf_counter()
            reports = method.collect(part, SecretWords())
            fit = method.fit(reports, part, task.seed)
            seconds += time.perf_counter() - start
            for head, name in (("MLP", "mlp"), ("beliefs", "beliefs"), ("guided GCN", "gcn"), ("chosen", fit.chosen)):
                rows[head].append(tested(part, fit.scores[name]))
            plain = claimed(reports)
            rows["claims"].append(math.nan if plain is None else tested(part, task.learn("gcn", plain)))
            hard = denoise(reports, method.lists, rule="hard").links
            rows["Blink, hard"].append(tested(part, task.learn("gcn", hard)))
        worst = max(mlp - chosen for mlp, chosen in zip(rows["MLP"], rows["chosen"], strict=True))
        cells = [f"{max(100 * worst, 0):.1f} at most", f"{published.get(epsilon, '-')}", f"{seconds / len(splits):.1f}"]
        prices = f"| {method.lists.realized_epsilon:.6g} | {method.lists.relationship_epsilon:.6g} | "
        print(prices + " | ".join([show(row) for row in rows.values()] + cells) + " |", flush=True)
    clear = [tested(part, task.learn("gcn", topology(part))) for part, task in zip(splits, tasks, strict=True)]
    print(f"\nGCN, links in the clear: {show(clear)}")


if __name__ == "__main__":
    main()
