"""How many test nodes have their class in their set, on rare classes and on graphs with all classes; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/sets.py [--tasks pairs-3 planetoid/cora ...] [--settings edge-1 edge-4 ...] \\
        [--coverage 0.9] [--seeds 10] [--first-seed 310] [--log FILE] [--only-print]

Tasks are those of ``rare.py``, and graphs with all their classes. Each seed is a split of its own (75/10/15), and of generated
tasks a graph; noise is fresh. Nothing was chosen on them. Sets are those of ``fitted.predictions(graph, coverage=...)``: the
validation nodes that calibrate them also chose passes, weights and parts of the model. What this reuse costs is the distance
from the coverage; ``+-`` is half a 95 % t-interval over seeds. At node level the counts that calibrate sets cost epsilon 0.5
beside the run, and classes are not covered each by itself.
"""

import numpy as np
import study
from rare import GENERATED, REAL, SETTINGS, graph_of

import sfumato as sf
from sfumato.central._auto import Auto
from sfumato.central._set_calibration import calibrate_sets

WHOLE = ("planetoid/cora", "planetoid/citeseer", "musae/wiki_chameleon", "directed/polblogs", "facebook100/Berkeley13")
SPENT = sf.Budget(0.5, 0.0)


def main() -> None:
    """Fit what is missing, and print a table for each setting."""
    given = study.options(
        __doc__, log="sets.jsonl", tasks=GENERATED + REAL + WHOLE, settings=dict.fromkeys(SETTINGS), coverage=0.9, seeds=10,
        first_seed=310,
    )  # fmt: skip
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    asked = ((task, one, given.coverage, seed) for seed in seeds for task in given.tasks for one in given.settings)
    found = study.grouped(study.kept(given, asked, lambda *cell: fit(*cell, given.data_dir)), 2)
    columns = ("task", "covered", "+-", "classes a set", "none", "each class: least covered", "+-", "classes a set")
    for setting in given.settings:
        rows = ((task, *row(found[task, setting])) for task in given.tasks if (task, setting) in found)
        study.table((*columns, "validation", "seeds"), rows, f"### {setting}")


def fit(task: str, setting: str, coverage: float, seed: int, data_dir: str) -> dict[str, float]:
    """Shares of the test nodes of one fit: whose set holds their class, and sizes of sets; once for all, once for each class."""
    graph = study.graph_of(task, data_dir, seed) if task in WHOLE else graph_of(task, seed, data_dir)
    kind, _, epsilon = setting.partition("-")
    unit = sf.EdgeLevel(directed=graph.directed) if kind == "edge" else sf.NodeLevel()
    budget = sf.Budget(float(epsilon), 1e-7 if kind == "edge" else 1e-5)
    test = graph.test_mask & (graph.y >= 0)
    found: dict[str, float] = {"validation": int((graph.val_mask & (graph.y >= 0)).sum())}
    fitted = study.fitted(Auto(), budget, unit, graph, seed)
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


def row(found: list[dict[str, float]]) -> list[object]:
    """The cells of one task."""

    def of(name: str) -> list[float]:
        return [one[name] for one in found if name in one]

    def both(name: str) -> list[str]:
        mean, _, half = study.told(of(name)).partition(" ± ")
        return [mean, half or "-"]

    classes = sorted({name for one in found for name in one if name.startswith("each_class_")})
    least = min(classes, key=lambda name: np.mean(of(name)), default="")
    each = [*both(least), f"{np.mean(of('each_size')):.2f}"] if least else ["-"] * 3
    sizes = (f"{np.mean(of('all_size')):.2f}", f"{100 * np.mean(of('all_none')):.1f} %")
    return [*both("all_covered"), *sizes, *each, f"{np.mean(of('validation')):.0f}", len(found)]


if __name__ == "__main__":
    main()
