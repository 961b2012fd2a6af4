"""How many test nodes have their class in their set, on rare classes and on graphs with all classes; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/sets.py [--tasks pairs-3 planetoid/cora ...] [--settings edge-1 edge-4 ...] \\
        [--coverage 0.9] [--seeds 10] [--first-seed 310] [--results FILE] [--only-print]

Tasks are those of ``rare.py``, and graphs with all their classes. Each seed is a split of its own (75/10/15), and of generated
tasks a graph; noise is fresh. Nothing was chosen on them. Sets are those of ``fitted.predictions(graph, coverage=...)``: the
validation nodes that calibrate them also chose passes, weights and parts of the model. What this reuse costs is the distance
from the coverage; ``+-`` is half a 95 % t-interval over seeds. At node level the counts that calibrate sets cost epsilon 0.5
beside the run, and classes are not covered each by itself.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from kept import add_options, finished
from rare import GENERATED, REAL, SETTINGS, graph_of
from scipy.special import stdtrit

from sfumato.central._auto import Auto
from sfumato.central._set_calibration import calibrate_sets
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel

WHOLE = ("planetoid/cora", "planetoid/citeseer", "musae/wiki_chameleon", "directed/polblogs", "facebook100/Berkeley13")
SPENT = Budget(0.5, 0.0)
Cell = tuple[str, str, float, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=GENERATED + REAL + WHOLE)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--coverage", type=float, default=0.9)
    add_options(parser, "runs/sets.jsonl", 310)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    asked = [
        (task, one, options.coverage, seed) for seed in seeds for task in options.tasks for one in options.settings
    ]
    done = finished(options, asked, fit)
    columns = (
        "covered | +- | classes a set | none | each class: least covered | +- | classes a set | validation | seeds"
    )
    for setting in options.settings:
        print(f"\n## {setting}\n\n| task | {columns} |\n{'|---' * 10}|")
        for task in options.tasks:
            found = [done[cell] for cell in asked if cell[:2] == (task, setting) and cell in done]
            if found:
                print(f"| {task} | {row(found)} |")


def fit(cell: Cell, data_dir: str) -> dict[str, float]:
    """Shares of the test nodes of one fit: whose set holds their class, and sizes of sets; once for all, once for each class."""
    task, setting, coverage, seed = cell
    graph = load_dataset(task, data_dir).with_split(seed=seed) if task in WHOLE else graph_of(task, seed, data_dir)
    kind, _, epsilon = setting.partition("-")
    unit = EdgeLevel(directed=graph.directed) if kind == "edge" else NodeLevel()
    budget = Budget(float(epsilon), 1e-7 if kind == "edge" else 1e-5)
    test = graph.test_mask & (graph.y >= 0)
    found: dict[str, float] = {"validation": int((graph.val_mask & (graph.y >= 0)).sum())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = Auto().calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=seed)
        counts = None if kind == "edge" else calibrate_sets(fitted, SPENT).fit(graph)
    for name, each in (("all", False), ("each", True))[: 2 if kind == "edge" else 1]:
        sets = fitted.predictions(graph, counts, coverage=coverage, each_class=each).sets
        held = sets[test, graph.y[test]]
        of_class = [held[graph.y[test] == label].mean() for label in np.unique(graph.y[test])]
        sizes = sets[test].sum(axis=1)
        found |= {f"{name}_covered": float(held.mean()), f"{name}_size": float(sizes.mean())}
        found |= {f"{name}_none": float((sizes == 0).mean())}
        found |= {f"{name}_class_{label}": float(share) for label, share in enumerate(of_class)}
    return found


def row(found: list[dict[str, float]]) -> str:
    """The cells of one task."""
    classes = sorted({name for one in found for name in one if name.startswith("each_class_")})
    cells = [f"{100 * mean(found, 'all_covered'):.1f}", f"{100 * half(found, 'all_covered'):.1f}"]
    cells += [f"{mean(found, 'all_size'):.2f}", f"{100 * mean(found, 'all_none'):.1f} %"]
    if classes:
        rare = min(classes, key=lambda name: mean(found, name))
        cells += [f"{100 * mean(found, rare):.1f}", f"{100 * half(found, rare):.1f}", f"{mean(found, 'each_size'):.2f}"]
    else:
        cells += ["-"] * 3
    return " | ".join([*cells, f"{mean(found, 'validation'):.0f}", str(len(found))])


def mean(found: list[dict[str, float]], name: str) -> float:
    return float(np.mean([one[name] for one in found if name in one]))


def half(found: list[dict[str, float]], name: str) -> float:
    """Half of the interval of a mean."""
    shares = [one[name] for one in found if name in one]
    spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else float("nan")
    return float(stdtrit(max(len(shares) - 1, 1), 0.975)) * spread / len(shares) ** 0.5


if __name__ == "__main__":
    main()
