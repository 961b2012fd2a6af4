"""Membership inference on node-level methods (Table 4.3 of Sajadmanesh, 2024), and LiRA; writes docs/results/membership.md.

    python benchmarks/membership.py --log FILE [--runs 10] [--targets thousand all] [--lira 0] [--no-run]

Run i draws the nodes of split i, and fits and attacks with seed i. Every result is a line of the log; a run that stopped goes on
where it stopped. "thousand": the target is trained as in the published code, on 40 % of 1,000 nodes a class of the whole graph,
and 40 % are others. "all": the target is trained on 75 % of all nodes, as the text says, and 15 % are others. The attacker's
shadow model has its own 1,000 nodes a class in the same shares. Nothing here was tuned: settings are defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import sfumato as sf
from sfumato.attacks.membership import BASELINE, Confidence, ShadowMembership
from sfumato.attacks.ratios import RMIA, LiRA
from sfumato.attacks.shadows import shadows
from sfumato.catalog import method_named
from sfumato.errors import SfumatoWarning
from sfumato.graph.datasets import load_dataset

if TYPE_CHECKING:
    from sfumato.attacks.scores import Attacked
    from sfumato.graph.graph import Graph

DELTA, DEGREE, SHADOWS = 1e-5, 100, 16
EPSILONS: tuple[float | None, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, None)
NOISED: dict[str, Any] = {"inference": "noised"}
METHODS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "GAP": (("gap", {}), ("gap", {})),
    "SAGE": (("dpgnn", NOISED), ("sage", {"width": 16})),
    "MLP": (("mlp", {}), ("mlp", {})),
}
"""For each row of the table the method with privacy and the method without."""
PUBLISHED = {
    "GAP": (50.16, 50.25, 50.61, 51.11, 52.66, 81.67),
    "SAGE": (50.25, 50.20, 50.23, 50.17, 50.20, 62.49),
    "MLP": (50.32, 50.72, 52.13, 53.44, 54.77, 81.57),
}
LIRA_CELLS = [(row, epsilon) for epsilon in (None, 8.0) for row in ("MLP", "GAP")]


def target_graph(graph: Graph, target: str, run: int) -> Graph:
    """The graph with the roles of one run."""
    if target == "all":
        return graph.with_split(seed=run)
    draw, roles = np.random.default_rng(run), np.full(graph.num_nodes, 3, np.uint8)
    assert graph.y is not None
    each = [draw.permutation(np.flatnonzero(graph.y == one))[:1000] for one in range(graph.num_classes)]
    drawn = draw.permutation(np.concatenate(each))
    ends = np.round(len(drawn) * np.array([0.4, 0.6, 1.0])).astype(int)
    roles[drawn] = np.repeat(np.arange(3), np.diff(ends, prepend=0))
    return graph.with_roles(roles)


def fitted_on(graph: Graph, row: str, epsilon: float | None, run: int) -> Any:
    name, settings = METHODS[row][epsilon is None]
    unit = sf.NoPrivacy() if epsilon is None else sf.NodeLevel(max_out_degree=DEGREE)
    budget = None if epsilon is None else sf.Budget(epsilon, DELTA)
    return method_named(name, **settings).calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=run)


def figures(attacked: Attacked) -> dict[str, float]:
    scores = attacked.scores
    return {
        "auc": scores.auc().value,
        "tpr": scores.tpr_at(0.01).value,
        "tpr_rare": scores.tpr_at(0.001).value,
        "baseline": attacked.baselines[BASELINE].auc().value,
    }


def table_cell(graph: Graph, row: str, epsilon: float | None, run: int) -> dict[str, Any]:
    """One run of one cell of the table."""
    fitted = fitted_on(graph, row, epsilon, run)
    right = fitted.predict(graph) == graph.y
    found: dict[str, Any] = {
        "train": float(right[graph.train_mask].mean()),
        "test": float(right[graph.test_mask].mean()),
    }
    for attack in (ShadowMembership(), Confidence()):
        found[attack.name] = figures(attack.run(fitted, graph, seed=run))
    return found


def lira_cell(graph: Graph, row: str, epsilon: float | None, run: int) -> dict[str, Any]:
    """LiRA and RMIA in all forms on one target, from the same shadow models."""
    fitted = fitted_on(graph, row, epsilon, run)
    models = shadows(fitted, graph, SHADOWS, run, None)
    found: dict[str, Any] = {"confidence": figures(Confidence().run(fitted, graph, seed=run))}
    for online in (False, True):
        where = "online" if online else "offline"
        for fixed in (True, False):
            attack = LiRA(SHADOWS, online, fixed)
            name = f"LiRA {where}, {'fixed' if fixed else 'per-example'} variance"
            found[name] = figures(attack.judged(fitted, graph, models, run))
        found[f"RMIA {where}"] = figures(RMIA(SHADOWS, online).judged(fitted, graph, models, run))
    return found


def work(options: argparse.Namespace) -> None:
    """Add the missing lines to the log, run by run, so that cells stay about equally filled."""
    done = {key(line) for line in lines(options.log)}
    graph = load_dataset("facebook100/Berkeley13", data_dir=options.data_dir)
    todo = [("table", target, row, epsilon, run) for run in range(options.runs) for target in options.targets
            for epsilon in EPSILONS for row in METHODS]  # fmt: skip
    lira = [("lira", "thousand", row, epsilon, run) for run in range(options.lira) for row, epsilon in LIRA_CELLS]
    for kind, target, row, epsilon, run in [*todo, *lira]:
        if (kind, target, row, epsilon, run) in done:
            continue
        start = time.perf_counter()
        cell = table_cell if kind == "table" else lira_cell
        found = cell(target_graph(graph, target, run), row, epsilon, run)
        line = {"kind": kind, "target": target, "row": row, "epsilon": epsilon, "run": run, **found}
        with options.log.open("a") as log:
            log.write(json.dumps({**line, "seconds": round(time.perf_counter() - start, 1)}) + "\n")


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["kind"], line["target"], line["row"], line["epsilon"], line["run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--targets", nargs="+", choices=("thousand", "all"), default=["thousand", "all"])
    parser.add_argument("--lira", type=int, default=0, help="runs of LiRA and RMIA")
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SfumatoWarning)
    work(options)


if __name__ == "__main__":
    main()
