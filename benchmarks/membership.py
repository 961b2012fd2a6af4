"""Membership inference on node-level methods (Table 4.3 of Sajadmanesh, 2023), and LiRA; writes docs/results/membership.md.

    python benchmarks/membership.py --log FILE [--runs 10] [--targets thousand all] [--lira 1] [--out docs/results]

Run i draws the nodes of split i, and fits and attacks with seed i. Every result is a line of the log; a run that stopped goes on
where it stopped, and with --runs 0 --lira 0 the page alone is written. "thousand": the target is trained as in the published
code, on 40 % of 1,000 nodes a class of the whole graph, and 40 % are others. "all": the target is trained on 75 % of all nodes,
as the text says, and 15 % are others. The attacker's shadow model has its own 1,000 nodes a class in the same shares. Nothing
here was tuned: settings are defaults.
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
from membership_page import EPSILONS, LATE, LIRA_CELLS, SHADOWS, page

import sfumato as sf
from sfumato.attacks._membership import BASELINE, Confidence, ShadowMembership, attack_rows
from sfumato.attacks._ratios import RMIA, LiRA
from sfumato.attacks._shadows import Candidates, labels, shadows
from sfumato.catalog import method_named
from sfumato.datasets._loading import load_dataset
from sfumato.errors import SfumatoWarning
from sfumato.experiments._pages import stamped
from sfumato.report._markdown import to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.attacks._scores import Attacked
    from sfumato.graph._graph import Graph

Key = tuple[str, str, str, float | None, int]
DELTA, DEGREE = 1e-5, 100
NOISED: dict[str, Any] = {"inference": "noised"}
METHODS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "GAP": (("gap", {}), ("gap", {})),
    "SAGE": (("dpgnn", NOISED), ("sage", {"width": 16})),
    "MLP": (("mlp", {}), ("mlp", {})),
}
"""For each row of the table the method with privacy and the method without."""


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


def without_validation(graph: Graph) -> Graph:
    """The graph without validation nodes, so that the last step is kept and not the best."""
    return graph.with_roles(np.where(graph.val_mask, 3, np.asarray(graph.roles)).astype(np.uint8))


def fitted_on(graph: Graph, row: str, epsilon: float | None, run: int, **more: Any) -> Any:
    name, settings = METHODS[row][epsilon is None]
    unit = sf.NoPrivacy() if epsilon is None else sf.NodeLevel(max_out_degree=DEGREE)
    budget = None if epsilon is None else sf.Budget(epsilon, DELTA)
    return method_named(name, **settings | more).calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=run)


def figures(attacked: Attacked) -> dict[str, float]:
    auc, tpr, rare = attacked.scores.auc(), attacked.scores.tpr_at(0.01), attacked.scores.tpr_at(0.001)
    found = {"auc": auc, "tpr": tpr, "tpr_rare": rare, "baseline": attacked.baselines[BASELINE].auc()}
    ends = {f"{name}_{end}": getattr(one, end) for name, one in found.items() for end in ("low", "high")}
    return {**{name: one.value for name, one in found.items()}, **ends}


def table_cell(graph: Graph, row: str, epsilon: float | None, run: int, **more: Any) -> dict[str, Any]:
    """One run of one cell of the table."""
    fitted = fitted_on(graph, row, epsilon, run, **more)
    right = fitted.predict(graph) == graph.y
    found: dict[str, Any] = {
        "train": float(right[graph.train_mask].mean()),
        "test": float(right[graph.test_mask].mean()),
    }
    for attack in (ShadowMembership(), Confidence()):
        found[attack.name] = figures(attack.run(fitted, graph, seed=run))
    if epsilon is None:
        found["one model"] = one_model(fitted, graph, run)
    return found


def one_model(fitted: Any, graph: Graph, run: int) -> float:
    """The AUC where the attack network learns from the target itself: from 60 % of the candidates, marked on the others."""
    draw, attack = np.random.default_rng([run, 3]), ShadowMembership()
    rows, asked = attack_rows(fitted.predict_proba(graph), labels(graph)), Candidates.of(graph)
    sides = [np.split(draw.permutation(side), [int(0.6 * len(side))]) for side in asked]
    said = attack.log_odds(rows, Candidates(sides[0][0], sides[1][0]), rows, run)
    return Candidates(sides[0][1], sides[1][1]).scores(said).auc().value


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


def jobs(options: argparse.Namespace) -> Iterator[Key]:
    """Everything that the log should hold: run by run, so that cells stay about equally filled, without privacy first."""
    for run in range(max(options.runs, options.lira)):
        table = [("table", target, row, epsilon, run) for epsilon in (None, *EPSILONS[:-1]) for target in options.targets
                 for row in reversed(METHODS) if run < options.runs]  # fmt: skip
        lira = [("lira", "thousand", row, epsilon, run) for row, epsilon in LIRA_CELLS if run < options.lira]
        plain = len(METHODS) * len(options.targets) * (run < options.runs)
        late = [(kind, target, row, None, run) for kind in LATE for row in ("MLP", "GAP") for target in options.targets
                if run < options.runs]  # fmt: skip
        yield from (*late, *table[:plain], *lira[:2], *table[plain:], *lira[2:])


def work(options: argparse.Namespace) -> None:
    """Add the missing lines to the log."""
    done = {key(line) for line in lines(options.log)}
    graph = load_dataset("facebook100/Berkeley13", data_dir=options.data_dir)
    for kind, target, row, epsilon, run in jobs(options):
        if (kind, target, row, epsilon, run) in done:
            continue
        start = time.perf_counter()
        roles = target_graph(graph, target, run)
        if kind in LATE:
            found = table_cell(without_validation(roles), row, epsilon, run, **LATE[kind][1])
        else:
            found = (lira_cell if kind == "lira" else table_cell)(roles, row, epsilon, run)
        line = {"kind": kind, "target": target, "row": row, "epsilon": epsilon, "run": run, **found}
        with options.log.open("a") as log:
            log.write(json.dumps({**line, "seconds": round(time.perf_counter() - start, 1)}) + "\n")


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def key(line: dict[str, Any]) -> Key:
    return line["kind"], line["target"], line["row"], line["epsilon"], line["run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--targets", nargs="+", choices=("thousand", "all"), default=["thousand", "all"])
    parser.add_argument("--lira", type=int, default=1, help="runs of LiRA and RMIA")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", SfumatoWarning)
    work(options)
    (options.out / "membership.md").write_text(stamped(to_markdown(page(lines(options.log)))))


if __name__ == "__main__":
    main()
