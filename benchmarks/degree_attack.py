"""Degree inference against DPAR on Cora-ML (figures 5.4 and 5.6 of its thesis): errors and accuracies side by side.

    OMP_NUM_THREADS=1 python benchmarks/degree_attack.py [--forms sound published] [--epsilons 1 2 4 8] [--seeds 5]
        [--first-seed 520] [--log FILE] [--only-print] [--page FILE] [--pictures DIR] [--data-dir DIR]

The attacker sees the embedding of each training node (the hidden layer, summed over the node's PageRank row if it has one),
knows the degrees of half of the nodes, and predicts those of the others by ridge regression. Degrees count arcs between training
nodes, all that the method reads. *Roots* are the 70 nodes with a row, at 20 random halves; all others are embedded from their own
features alone. The mean of the known degrees and the same regression on features stand beside. A larger error means that less
was learned.

*sound* is method dpar at delta 2e-3, half of mu squared for rows and half for training; *Features, all nodes* is its default.
*published* is the form of dpar_published.py, epsilon split equally, without any guarantee; DPSGD exists in this form alone.
Its rows are those of a sample of 9 % of the training nodes, which are the nodes asked for. Training has 80 % of the nodes.
Figure 5.5 is on PubMed, whose features are not among the data. Means with 95 % t-intervals over seeds; seed i draws split,
initialization and halves.

Fits that ``--log`` holds are not repeated. ``--page`` puts the tables at the end of a page, and ``--pictures`` writes
t-SNE drawings of the first seed.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dpar_published import SETUPS, trained
from links_attack import put_tables, read
from scipy.special import stdtrit

from sfumato._optional import require
from sfumato._threads import set_threads
from sfumato.attacks._degree import degrees_of, errors
from sfumato.attacks._pairs import dense
from sfumato.attacks._regression import regress
from sfumato.bounded._splits import unit_rows
from sfumato.central._dpar import DPAR
from sfumato.central._two_layers import hidden_rows
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NodeLevel, NoPrivacy
from sfumato.report._drawing import MARKERS, PALETTE, finish, style
from sfumato.scoring._scores import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph

GRAPH, DELTA, UNIT = "npz/cora_ml", 2e-3, NodeLevel(arcs="incident")
KINDS = {
    "GM": "gaussian",
    "EM-v0": "exponential",
    "EM-v1": "exponential-laplace",
    "Features": "none",
    "Features, all nodes": "none",
}
PUBLISHED = {"GM": "gm", "EM-v0": "em-v0", "EM-v1": "em-v1", "Features": "features", "DPSGD": "dpsgd"}
NO_NOISE = "Without privacy"
SETTINGS: dict[str, Any] = {
    "num_roots": 70,
    "batch_size": 60,
    "steps": 233,
    "learning_rate": 0.005,
    "l2_clip_norm": 1.0,
    "public_test_graph": True,
}
HALVES, MOST_DRAWN, DRAWN = 20, 250, (1.0, 4.0, 16.0)
Cell = tuple[str, str, float | None, int]


@dataclass(frozen=True)
class Embedded:
    """Embeddings of training nodes: a row for each of ``nodes``; ``roots`` are places among them."""

    rows: NDArray[np.float64]
    nodes: NDArray[np.int64]
    roots: NDArray[np.int64]
    accuracy: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="+", choices=("sound", "published"), default=("sound", "published"))
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0, 2.0, 4.0, 8.0))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=520)
    parser.add_argument("--log", type=Path, default=Path("runs/degree_attack.jsonl"))
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    if "published" in options.forms and not options.only_print:
        warnings.warn("Expected nothing private of the published form: its accounting does not hold.", stacklevel=1)
    done = read(options.log)
    if not options.only_print:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        with options.log.open("a", encoding="utf-8") as file:
            for cell in cells(options):
                if cell not in done:
                    done[cell] = attacked(cell, options.data_dir)
                    file.write(json.dumps([*cell, done[cell]]) + "\n")
                    file.flush()
    tables = "\n".join(line for form in options.forms for line in table(form, done))
    print(tables)
    if options.page:
        put_tables(options.page, tables)
    if options.pictures:
        for form in options.forms:
            (options.pictures / f"degree-attack-{form}.svg").write_text(picture(form, options))


def cells(options: argparse.Namespace) -> list[Cell]:
    """All fits, a seed after the other."""
    found: list[Cell] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for form in options.forms:
            variants = KINDS if form == "sound" else PUBLISHED
            found += [(form, variant, epsilon, seed) for variant in variants for epsilon in options.epsilons]
            found.append((form, NO_NOISE, None, seed))
    return found


@cache
def split(data_dir: str, seed: int) -> Graph:
    return load_dataset(GRAPH, data_dir).with_split((0.8, 0.0, 0.2), seed=seed)


def embedded(cell: Cell, data_dir: str) -> Embedded:
    """Fit one model, and embed its training nodes."""
    form, variant, epsilon, seed = cell
    graph = split(data_dir, seed)
    if form == "published":
        word = "vanilla" if epsilon is None else PUBLISHED[variant]
        run = trained(load_dataset(GRAPH, data_dir), SETUPS[GRAPH], word, 4, epsilon or 1.0, seed)
        rows = run.matrix @ hidden_rows(run.weights, unit_rows(run.part))
        roots = np.empty(0, np.int64) if variant == "Features" else run.roots
        return Embedded(np.asarray(rows, np.float64), run.sample, roots, run.accuracy / 100)
    unit = NoPrivacy() if epsilon is None else UNIT
    budget = None if epsilon is None else Budget(epsilon, DELTA)
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
    return Embedded(hidden[nodes].astype(np.float64), nodes, roots, score(fitted, graph)["accuracy"])


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


def table(form: str, done: dict[Cell, dict[str, Any]]) -> list[str]:
    groups: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for (one, variant, epsilon, _), found in done.items():
        if one == form:
            groups.setdefault((variant, epsilon), []).append(found)
    keys = ("accuracy", "rmse", "mean rmse", "spearman", "roots rmse", "roots mean rmse", "roots spearman")
    lines = [
        f"\n## {form}\n",
        "| variant | epsilon | seeds | " + " | ".join(keys) + " |",
        "|---" * (3 + len(keys)) + "|",
    ]
    for (variant, epsilon), rows in groups.items():
        cells = [told([row[key] for row in rows], key) if key in rows[0] else "" for key in keys]
        lines.append(f"| {variant} | {'' if epsilon is None else f'{epsilon:g}'} | {len(rows)} | {' | '.join(cells)} |")
    alone = [row for (variant, epsilon), rows in groups.items() if (variant, epsilon) == ("GM", 1.0) for row in rows]
    if alone:
        cells = [
            told([row[f"features {key}"] for row in alone], key) if f"features {key}" in alone[0] else ""
            for key in keys
        ]
        lines.append(f"| features alone, no model | | | {' | '.join(cells)} |")
    return lines


def told(values: list[float], key: str) -> str:
    found = np.asarray(values) * (100 if key == "accuracy" else 1)
    half = stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return f"{found.mean():.2f} ± {half:.2f}"


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
