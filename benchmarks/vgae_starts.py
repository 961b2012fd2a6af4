"""Does link prediction on Piecewise reports depend on initial weights? Writes docs/results/vgae-starts.md.

    OMP_NUM_THREADS=1 python benchmarks/vgae_starts.py [--data-dir ../shared/data] [--out docs/results/vgae-starts.md]

Thesis table 2.3, Citeseer, epsilon 1 on each feature: in two of five fits of the recorded page the area under the curve is below
60 %. Here the same five splits get fresh reports, and each is fitted with the initial weights of the page and with three others.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import torch

from sfumato.errors import SfumatoWarning
from sfumato.experiments.pages import stamped
from sfumato.graph.datasets import load_dataset
from sfumato.local._heat import normalized_adjacency
from sfumato.local.collection import encode
from sfumato.local.edge_split import auc, non_edges, split_edges
from sfumato.local.link_prediction import LinkPrediction, received_rows
from sfumato.nn.models import SparseRows
from sfumato.nn.vgae import VGAE, log_odds, train_vgae
from sfumato.noise.coins import SecretWords
from sfumato.report.markdown import to_markdown
from sfumato.report.page import Code, Page, Section, Table

SPLITS, STARTS = 5, 4
METHOD = LinkPrediction(epsilon_x=1.0, mechanism="piecewise")
TEXT = (
    "Test AUC in percent of VGAE on Piecewise reports, Citeseer, epsilon 1 on each feature; in brackets AUC on the validation "
    "edges. A row is a split with one set of fresh reports; columns differ in initial weights and drawn codes alone. Start 0 is "
    "that of the recorded page."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/vgae-starts.md"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", SfumatoWarning)
    graph = load_dataset("planetoid/citeseer", options.data_dir)
    rows = []
    for seed in range(SPLITS):
        split, generator = split_edges(graph, seed), np.random.default_rng([seed, 1])
        public = graph.public_facts(METHOD.unit)
        x = received_rows(METHOD, graph, public, encode(METHOD, graph, public, SecretWords()))
        step = SparseRows(normalized_adjacency(split.training_graph))

        def absent(count: int, split=split, generator=generator) -> torch.Tensor:
            return torch.from_numpy(non_edges(generator, graph.num_nodes, split.train, count))

        cells = []
        for start in range(STARTS):
            torch.manual_seed(seed + 1000 * start)
            model = VGAE(graph.num_features)
            validation = torch.from_numpy(split.validation)
            train_vgae(model, x, step, torch.from_numpy(split.train), validation, absent)
            with torch.no_grad():
                codes = model(x, step)
            held = (split.test, split.test_non_edges, split.validation, absent(split.validation.shape[1]).numpy())
            odds = [log_odds(codes, torch.from_numpy(pairs)).numpy() for pairs in held]
            cells.append(f"{100 * auc(*odds[:2]):.1f} ({100 * auc(*odds[2:]):.1f})")
            print(seed, start, cells[-1], flush=True)
        rows.append((str(seed), *cells))
    columns = ("split", *(f"start {start}" for start in range(STARTS)))
    table = Table("starts", "Test AUC by split and initial weights", columns, tuple(rows))
    again = Section("again", "Run it again", (Code("python benchmarks/vgae_starts.py"),))
    page = Page("Link prediction from other initial weights", TEXT, (Section("result", "Result", (table,)), again))
    options.out.write_text(stamped(to_markdown(page)))


if __name__ == "__main__":
    main()
