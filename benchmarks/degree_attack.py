"""Degree inference against DPAR on Cora-ML (figures 5.4 and 5.6 of its thesis): errors and accuracies side by side.

    OMP_NUM_THREADS=1 python benchmarks/degree_attack.py [--forms sound published] [--epsilons 1 2 4 8] [--seeds 5]
        [--first-seed 520] [--log FILE] [--only-print] [--pictures DIR] [--data-dir DIR]

The attacker sees the embedding of each training node (the hidden layer, summed over the node's PageRank row if it has one),
knows the degrees of half of the nodes, and predicts those of the others by ridge regression. Degrees count arcs between training
nodes, all that the method reads. *Roots* are the 70 nodes with a row, at 20 random halves; all others are embedded from their own
features alone. The mean of the known degrees and the same regression on features stand beside. A larger error means that less
was learned.

*sound* is method dpar at delta 2e-3, half of mu squared for rows and half for training; *Features, all nodes* is its default.
*published* is the form of dpar_published.py, without any guarantee, on a sample of 9 % of the training nodes. Training has 80 %
of the nodes. Means with 95 % t-intervals over seeds; seed i draws split, initialization and halves.

``--pictures`` writes t-SNE drawings of the first seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import study
from dpar_published import SETUPS, trained

import sfumato as sf
from sfumato._optional import require
from sfumato._threads import set_threads
from sfumato.attacks._degree import degrees_of, errors
from sfumato.attacks._pairs import dense
from sfumato.attacks._regression import regress
from sfumato.bounded._splits import unit_rows
from sfumato.central._dpar import DPAR
from sfumato.central._two_layers import hidden_rows
from sfumato.graph import load_dataset
from sfumato.report._drawing import MARKERS, PALETTE, finish, style

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph

GRAPH, DELTA, UNIT = "npz/cora_ml", 2e-3, sf.NodeLevel(arcs="incident")
KINDS = {
    "GM": "gaussian", "EM-v0": "exponential", "EM-v1": "exponential-laplace", "Features": "none",
    "Features, all nodes": "none",
}  # fmt: skip
PUBLISHED = {"GM": "gm", "EM-v0": "em-v0", "EM-v1": "em-v1", "Features": "features", "DPSGD": "dpsgd"}
NO_NOISE = "Without privacy"
SETTINGS: dict[str, Any] = {
    "num_roots": 70, "batch_size": 60, "steps": 233, "learning_rate": 0.005, "l2_clip_norm": 1.0,
    "public_test_graph": True,
}  # fmt: skip
Cell = tuple[str, str, float | None, int]
HALVES, MOST_DRAWN, DRAWN = 20, 250, (1.0, 4.0, 16.0)


@dataclass(frozen=True)
class Embedded:
    """Embeddings of training nodes: a row for each of ``nodes``; ``roots`` are places among them."""

    rows: NDArray[np.float64]
    nodes: NDArray[np.int64]
    roots: NDArray[np.int64]
    accuracy: float


def main() -> None:
    """Fit and attack what is missing, print the tables, and draw pictures if asked."""
    given = study.options(
        __doc__, log="degree_attack.jsonl", forms=dict.fromkeys(("sound", "published")), epsilons=(1.0, 2.0, 4.0, 8.0), seeds=5,
        first_seed=520, pictures=None,
    )  # fmt: skip
    set_threads(None)
    found = study.kept(given, cells(given), lambda *cell: attacked(cell, given.data_dir))
    for form in given.forms:
        table(form, {cell[1:]: one for cell, one in found.items() if cell[0] == form})
        if given.pictures:
            (Path(given.pictures) / f"degree-attack-{form}.svg").write_text(picture(form, given))


def cells(given: Any) -> Iterator[Cell]:
    """All fits, a seed after the other."""
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for form in given.forms:
            variants = KINDS if form == "sound" else PUBLISHED
            yield from ((form, variant, epsilon, seed) for variant in variants for epsilon in given.epsilons)
            yield form, NO_NOISE, None, seed


def split(data_dir: str, seed: int) -> Graph:
    """The graph with the split of a seed."""
    return study.graph_of(GRAPH, data_dir, seed, (0.8, 0.0, 0.2))


def embedded(cell: Cell, data_dir: str) -> Embedded:
    """Fit one model, and embed its training nodes."""
    form, variant, epsilon, seed = cell
    graph = split(data_dir, seed)
    if form == "published":
        word = "vanilla" if epsilon is None else PUBLISHED[variant]
        run = trained(load_dataset(GRAPH, data_dir), SETUPS[GRAPH], word, 4, epsilon or 1.0, seed)
        rows = run.matrix @ hidden_rows(run.weights, unit_rows(run.part))
        roots = np.empty(0, np.int64) if variant == "Features" else run.roots
        return Embedded(np.asarray(rows, np.float64), run.sample, roots, run.accuracy)
    unit = sf.NoPrivacy() if epsilon is None else UNIT
    budget = None if epsilon is None else sf.Budget(epsilon, DELTA)
    settings = SETTINGS | ({"learning_rate": 0.03} if epsilon is None else {})
    if variant == "Features, all nodes":
        settings = {"public_test_graph": True}
    method = DPAR(mechanism=KINDS.get(variant, "gaussian"), **settings)
    plan = method.calibrate(budget, unit, graph.public_facts(unit))
    fitted = plan.fit(graph, seed=seed)
    hidden = method.embeddings(plan, fitted.weights, fitted.released, graph)
    nodes = np.flatnonzero(graph.train_mask)
    roots = method.roots(plan.public)
    roots = roots if len(roots) < len(nodes) else np.empty(0, np.int64)
    return Embedded(hidden[nodes].astype(np.float64), nodes, roots, study.accuracy(graph, fitted))


def attacked(cell: Cell, data_dir: str) -> dict[str, Any]:
    """Errors of the attack on all embedded nodes and on the roots, each beside the mean of known degrees."""
    found, graph, seed = embedded(cell, data_dir), split(data_dir, cell[3]), cell[3]
    degrees = degrees_of(graph, np.flatnonzero(graph.train_mask))[found.nodes]
    told: dict[str, Any] = {"accuracy": found.accuracy}
    told |= inferred(found.rows, degrees, seed, HALVES if cell[0] == "published" else 1)
    if len(found.roots):
        roots = inferred(found.rows[found.roots], degrees[found.roots], seed, HALVES)
        told |= {f"roots {name}": value for name, value in roots.items()}
    if cell[1:3] == ("GM", 1.0):
        x = dense(unit_rows(graph)[found.nodes])
        alone = inferred(x, degrees, seed, HALVES if cell[0] == "published" else 1)
        told |= {f"features {name}": value for name, value in alone.items()}
    return told


def inferred(rows: NDArray[np.float64], degrees: NDArray[np.float64], seed: int, halves: int) -> dict[str, float]:
    """Mean errors over random halves of what the rows and what the mean of known degrees say."""
    coins, found = np.random.default_rng(seed), []
    for _ in range(halves):
        known, asked = np.array_split(coins.permutation(len(rows)), 2)
        told = errors(degrees[asked], regress("ridge", rows[known], degrees[known], rows[asked]))
        mean = errors(degrees[asked], np.full(len(asked), degrees[known].mean()))
        found.append([told["rmse"], told["mae"], told["spearman"], mean["rmse"], mean["mae"]])
    return dict(zip(("rmse", "mae", "spearman", "mean rmse", "mean mae"), np.mean(found, 0).tolist(), strict=True))


def table(form: str, found: dict[Any, dict[str, Any]]) -> None:
    """The table of one form."""
    keys = ("accuracy", "rmse", "mean rmse", "spearman", "roots rmse", "roots mean rmse", "roots spearman")

    def told(rows: list[dict[str, Any]], name: str, key: str) -> str:
        return study.told([row[name] for row in rows], 100 if key == "accuracy" else 1, 2) if name in rows[0] else ""

    groups, lines = study.grouped(found, 2), []
    for (variant, epsilon), rows in groups.items():
        lines.append(
            (variant, "" if epsilon is None else f"{epsilon:g}", len(rows), *(told(rows, key, key) for key in keys))
        )
    if alone := groups.get(("GM", 1.0)):
        lines.append(("features alone, no model", "", "", *(told(alone, f"features {key}", key) for key in keys)))
    study.table(("variant", "epsilon", "seeds", *keys), lines, f"### {form}")


def picture(form: str, options: argparse.Namespace) -> str:
    """t-SNE of embeddings from GM and EM-v1 at growing epsilon, colored by class (figure 5.6)."""
    graph = split(options.data_dir, options.first_seed)
    assert graph.y is not None
    tsne = require("sklearn.manifold").TSNE
    with style():
        figure = require("matplotlib.figure").Figure(figsize=(7.6, 5.4), layout="constrained")
        grid = figure.subplots(2, len(DRAWN) + 1)
        for row, variant in zip(grid, ("GM", "EM-v1"), strict=True):
            for axes, epsilon in zip(row, (*DRAWN, None), strict=True):
                found = embedded((form, variant, epsilon, options.first_seed), options.data_dir)
                chosen = np.random.default_rng(0).permutation(len(found.rows))[:MOST_DRAWN]
                rows = found.rows[chosen]
                flat = tsne(perplexity=30.0, init="pca", random_state=0, max_iter=500).fit_transform(rows)
                y = graph.y[found.nodes[chosen]]
                for label in range(graph.num_classes):
                    at, look = y == label, {"marker": MARKERS[label], "color": PALETTE[label % len(PALETTE)]}
                    axes.plot(*flat[at].T, linestyle="none", markersize=3, markeredgewidth=0, alpha=0.8, **look)
                word = "no privacy" if epsilon is None else f"epsilon {epsilon:g}"
                axes.set_title(f"{variant}, {word}: {100 * found.accuracy:.0f} %", fontsize=8)
                axes.set_xticks([])
                axes.set_yticks([])
        title = f"t-SNE of training nodes' embeddings, {form} form, Cora-ML"
        words = "Each picture names its epsilon and its test accuracy; colors and markers are the seven classes."
        return finish(figure, f"degree-attack-{form}", title, f"{title}. {words}").alone()


if __name__ == "__main__":
    main()
