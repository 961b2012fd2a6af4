"""Membership inference on node-level methods (Table 4.3 of Sajadmanesh, 2023), and LiRA; prints Markdown tables.

    python benchmarks/membership.py --log FILE [--runs 10] [--targets thousand all] [--lira 1]

Run i draws the nodes of split i, and fits and attacks with seed i. "thousand": the target is trained as in the published
code, on 40 % of 1,000 nodes a class of the whole graph, and 40 % are others. "all": the target is trained on 75 % of all nodes,
as the text says, and 15 % are others. The attacker's shadow model has its own 1,000 nodes a class in the same shares. Nothing
here was tuned: settings are defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import study
import torch

import sfumato as sf
from sfumato.attacks._membership import BASELINE, Confidence, ShadowMembership, attack_rows
from sfumato.attacks._ratios import RMIA, LiRA
from sfumato.attacks._shadows import Candidates, labels, shadows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.attacks._scores import Attacked
    from sfumato.graph._graph import Graph

DELTA, DEGREE = 1e-5, 100
PUBLISHED = {
    "GAP": (50.16, 50.25, 50.61, 51.11, 52.66, 81.67),
    "SAGE": (50.25, 50.20, 50.23, 50.17, 50.20, 62.49),
    "MLP": (50.32, 50.72, 52.13, 53.44, 54.77, 81.57),
}
SHADOWS, EPSILONS = 16, (1.0, 2.0, 4.0, 8.0, 16.0, None)
LATE: dict[str, tuple[str, dict[str, Any]]] = {
    "last": ("last step kept", {}),
    "long": ("last of 1,000 steps", {"epochs": 1000}),
}
"""Kinds of rows without privacy and without validation labels: what they are called, and settings of the method."""
LIRA_CELLS = [(row, epsilon) for row in ("MLP", "GAP") for epsilon in (None, 8.0)]
NOISED: dict[str, Any] = {"inference": "noised"}
METHODS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "GAP": (("gap", {}), ("gap", {})),
    "SAGE": (("dpgnn", NOISED), ("sage", {"aggregator": "sum", "layers_before": 2, "width": 16})),
    "MLP": (("mlp", {"num_layers": 3}), ("mlp", {"num_layers": 3})),
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
    """A fit of the row's method with privacy, or of the one without."""
    name, settings = METHODS[row][epsilon is None]
    unit = sf.NoPrivacy() if epsilon is None else sf.NodeLevel(max_out_degree=DEGREE)
    budget = None if epsilon is None else sf.Budget(epsilon, DELTA)
    return study.fitted(name, budget, unit, graph, run, **settings | more)


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


def jobs(given: Any) -> Iterator[tuple[str, str, str, float | None, int]]:
    """Everything that the log should hold, run by run, without privacy first."""
    for run in range(max(given.runs, given.lira)):
        for target in given.targets if run < given.runs else ():
            yield from ((kind, target, row, None, run) for kind in LATE for row in ("MLP", "GAP"))
            yield from (("table", target, row, one, run) for one in (None, *EPSILONS[:-1]) for row in reversed(METHODS))
        yield from (("lira", "thousand", *one, run) for one in LIRA_CELLS if run < given.lira)


def measured(given: Any, kind: str, target: str, row: str, epsilon: float | None, run: int) -> dict[str, Any]:
    """One line of the log."""
    graph = target_graph(study.graph_of("facebook100/Berkeley13", given.data_dir), target, run)
    if kind in LATE:
        return table_cell(without_validation(graph), row, epsilon, run, **LATE[kind][1])
    return (lira_cell if kind == "lira" else table_cell)(graph, row, epsilon, run)


def main() -> None:
    """Measure what is missing, and print the tables."""
    given = study.options(__doc__, log="membership.jsonl", runs=10, targets=dict.fromkeys(("thousand", "all")), lira=1)
    torch.set_num_threads(1)
    found = study.kept(given, jobs(given), lambda *cell: measured(given, *cell))
    groups = study.grouped(found, 4)
    for target in given.targets:
        rows = [("table", row, epsilon, f"{printed:.2f}") for row, numbers in PUBLISHED.items()
                for epsilon, printed in zip(EPSILONS, numbers, strict=True)]  # fmt: skip
        rows += [(kind, row, None, "-") for row in ("MLP", "GAP") for kind in LATE]
        lines = (line(kind, row, epsilon, printed, groups[kind, target, row, epsilon])
                 for kind, row, epsilon, printed in rows if (kind, target, row, epsilon) in groups)  # fmt: skip
        heads = ("AUC (published)", "AUC", "AUC, one model", "confidence", "without the model", "TPR at 1 % FPR")
        study.table(
            ("method", *heads, "train accuracy", "test accuracy", "gap", "runs"), lines, f"### Target: {target}"
        )
    for (kind, _, row, epsilon, run), one in found.items():
        if kind == "lira":
            lines = ((name, *(interval(of, key) for key in ("auc", "tpr", "tpr_rare"))) for name, of in one.items())
            columns = ("attack", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
            study.table(columns, lines, f"{row}, {named(epsilon)}, run {run}, {SHADOWS} shadow models")


def named(epsilon: float | None) -> str:
    """A budget in words."""
    return "no privacy" if epsilon is None else f"epsilon {epsilon:g}"


def interval(of: dict[str, float], key: str) -> str:
    """A number of one run with its interval, in percent."""
    low, high = 100 * of[f"{key}_low"], 100 * of[f"{key}_high"]
    return f"{100 * of[key]:.2f} [{low:.2f}, {high:.2f}]"


def line(kind: str, row: str, epsilon: float | None, published: str, runs: list[dict[str, Any]]) -> tuple[object, ...]:
    """A row of table 4.3."""
    attack = [run["membership"] for run in runs]
    columns = (
        [one["auc"] for one in attack], [run["one model"] for run in runs if "one model" in run],
        [run["membership-confidence"]["auc"] for run in runs], [one["baseline"] for one in attack],
        [one["tpr"] for one in attack], [run["train"] for run in runs], [run["test"] for run in runs],
        [run["train"] - run["test"] for run in runs],
    )  # fmt: skip
    late = f", {LATE[kind][0]}" if kind in LATE else ""
    return f"{row}, {named(epsilon)}{late}", published, *map(study.told, columns), len(runs)


if __name__ == "__main__":
    main()
