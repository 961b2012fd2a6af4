"""Several labels of a node, and a number, beside floor and ceiling; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/targets.py [--rows year traffic attributes] [--units edge node] [--seeds 3]

Seed i draws split i (75/10/15) and the initialization; noise is fresh, delta is 1e-5, and at node level a node keeps 20 arcs.
Each cell is the mean over seeds of micro-F1 and ROC-AUC in percent, or of R2 in percent and the mean absolute error.

* *year*: the class year of UCSC68 as a number from 2004 to 2009.
* *traffic*: the logarithm to base 10 of the traffic of wiki_chameleon's pages, a number from 0 to 6.
* *attributes*: four labels of UCSC68: status 1, gender 1, one of the two last years, and one of the five largest dorms. Features
  are major and minor.

Columns: the same answer for all nodes; mlp, which reads no arc (the floor); gap; progap; and the ceiling, reference without
privacy. SFUMATO_DATA names the folder of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import study

from sfumato.graph import Targets, load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy
from sfumato.scoring._scores import SCORES, score, target_kind, without_information

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

DELTA = 1e-5
BUDGETS = {"edge": (1.0, 4.0), "node": (8.0,)}
UNITS = {"edge": EdgeLevel(directed=False), "node": NodeLevel(max_out_degree=20)}


def learns(graph: Graph, targets: Targets, columns: np.ndarray | None = None) -> Graph:
    """The graph with other targets, and these columns of its features."""
    x, names = graph.x, graph.feature_names
    if columns is not None:
        assert x is not None
        x, names = x[:, columns], tuple(np.array(names)[columns])
    return replace(graph, x=x, feature_names=names, y=None, classes=(), targets=targets, assumed_public=())


def year(data_dir: str) -> Graph:
    """Class years as a number."""
    graph = load_dataset("facebook100/UCSC68", data_dir)
    assert graph.y is not None
    years = np.array(graph.classes, float)[graph.y]
    return learns(graph, Targets("number", years, ("year",), limits=(2004, 2009)))


def traffic(data_dir: str) -> Graph:
    """Traffic as a number, from the file itself: the data set has five classes of it."""
    graph = load_dataset("musae/wiki_chameleon", data_dir)
    file = Path(data_dir) / "musae/wiki_chameleon/chameleon_target.csv"
    rows = np.loadtxt(file, delimiter=",", skiprows=1)
    assert (rows[:, 0] == np.arange(graph.num_nodes)).all()
    return learns(graph, Targets("number", np.log10(np.maximum(rows[:, 1], 1)), ("traffic",), limits=(0, 6)))


def attributes(data_dir: str) -> Graph:
    """Four labels of a student."""
    graph = load_dataset("facebook100/UCSC68", data_dir)
    assert graph.x is not None
    assert graph.y is not None
    names = np.array(graph.feature_names)
    found = graph.x.toarray() > 0
    dorms = np.flatnonzero(np.char.startswith(names, "dorm="))
    largest = dorms[np.argsort(-found[:, dorms].sum(0))[:5]]
    last = np.array(graph.classes, int)[graph.y] >= max(map(int, graph.classes)) - 1
    columns = [found[:, names == "status=1"][:, 0], found[:, names == "gender=1"][:, 0], last, found[:, largest].any(1)]
    labels = Targets("multilabel", np.column_stack(columns).astype(float), ("status", "gender", "last years", "dorm"))
    kept = np.char.startswith(names, "major=") | np.char.startswith(names, "minor=")
    return learns(graph, labels, np.flatnonzero(kept))


ROWS = {"year": year, "traffic": traffic, "attributes": attributes}


def cell(scores: list[dict[str, float]], kind: str) -> str:
    """Two scores of a table cell."""
    names = ("r2", "mae") if kind == "number" else ("micro_f1", "roc_auc")
    assert {*names} <= {*SCORES[kind]}
    first, second = (float(np.mean([one[name] for one in scores])) for name in names)
    return f"{100 * first:.1f} / {second:.2f}" if kind == "number" else f"{100 * first:.1f} / {100 * second:.1f}"


def main() -> None:
    """Print the table."""
    given = study.options(__doc__, rows=ROWS, units=UNITS, seeds=3)
    methods = ("mlp", "gap", "progap")

    def lines() -> Iterator[tuple[str, ...]]:
        for name in given.rows:
            graph = ROWS[name](given.data_dir)
            kind, splits = target_kind(graph), [graph.with_split(seed=seed) for seed in range(given.seeds)]

            def scored(method: str, budget: Any, unit: Any, splits=splits) -> list[dict[str, float]]:
                return [score(study.fitted(method, budget, unit, one, seed), one) for seed, one in enumerate(splits)]

            ceiling, nothing = scored("reference", None, NoPrivacy()), [without_information(one) for one in splits]
            for word in given.units:
                for epsilon in BUDGETS[word]:
                    found = [scored(method, Budget(epsilon, DELTA), UNITS[word]) for method in methods]
                    yield name, word, f"{epsilon:g}", *(cell(one, kind) for one in (nothing, *found, ceiling))

    study.table(("target", "unit", "epsilon", "same answer", *methods, "ceiling"), lines())


if __name__ == "__main__":
    main()
