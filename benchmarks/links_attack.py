"""Link stealing on citation graphs: models without privacy, edge-level methods, and what features alone give.

    OMP_NUM_THREADS=1 python benchmarks/links_attack.py [--graphs planetoid/cora planetoid/citeseer] [--methods gap ...]
        [--epsilons 1 2 4 8] [--seeds 5] [--first-seed 500] [--log FILE] [--only-print] [--data-dir DIR]

Unit: one undirected edge, delta 1e-6 (EdgeRand: 0). Seed i draws split i (75/10/15), initialization, the candidates (at most
2,000 links and as many other pairs) and their split; noise is fresh. Numbers are means with 95 % t-intervals over seeds, in
percent. *AUC* is that of attack 0 of He et al. (2021), correlation of two posteriors; *learned* is attack 3 with half of the
pairs known, *with features* attack 6; *best distance* looks at the truth, so it is an upper bound; *influence* is LinkTeller.
Below each graph stand the same attacks on features alone, and what the true classes give. Settings of all methods are their
defaults. Nothing was chosen by these numbers.

``--whole`` reconstructs a whole graph (the first of ``--graphs``, at the first of ``--epsilons``) and a hidden feature: 500 nodes
of which all pairs are asked. *Precision* is the share of links among as many most similar pairs as there are links. The hidden
feature is the column of zeros and ones with the most even halves; *imputation* uses all other features and half of the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import study

import sfumato as sf
from sfumato._threads import set_threads
from sfumato.attacks._attributes import Attributes
from sfumato.attacks._graphs import WholeGraph
from sfumato.attacks._influence import Influence
from sfumato.attacks._links import FEATURES, Links
from sfumato.attacks._pairs import DISTANCES

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPHS = ("planetoid/cora", "planetoid/citeseer")
PLAIN = ("sage", "gap")
PRIVATE = ("gap", "progap", "label-messages", "edgerand")
CONTROL = "mlp"  # reads no arc: epsilon 0
UNIT, DELTA = sf.EdgeLevel(directed=False), 1e-6
MODELS = (("sage", False), ("mlp", True), ("gap", True), ("label-messages", True))
KEYS = ("accuracy", "AUC", "precision", "hidden feature", "model alone", "imputation", "with neighbors")
ATTACKS = {
    "posteriors": Links(most=2000),
    "learned": Links(known=0.5, most=2000),
    "with features": Links(known=0.5, features=True, most=2000),
}


def main() -> None:
    """Fit and attack what is missing, and print a table for each graph."""
    given = study.options(
        __doc__, log="links_attack.jsonl", graphs=GRAPHS, methods=PRIVATE, epsilons=(1.0, 2.0, 4.0, 8.0), seeds=5,
        first_seed=500, whole=False,
    )  # fmt: skip
    set_threads(None)
    if given.whole:
        given.log = given.log.with_stem("graph_attack")
        whole(given)
        return
    found = study.kept(given, cells(given), lambda *cell: attacked(*cell, given.data_dir))
    for name in given.graphs:
        table(name, {cell[1:]: one for cell, one in found.items() if cell[0] == name})


def cells(given: Any) -> Iterator[tuple[str, str, float | None, int]]:
    """All fits, a seed after the other, so that a stopped run has every method."""
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name in given.graphs:
            yield from ((name, method, None, seed) for method in PLAIN)
            yield name, CONTROL, 0.0, seed
            yield from ((name, method, epsilon, seed) for method in given.methods for epsilon in given.epsilons)


def attacked(name: str, method: str, epsilon: float | None, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit one method once, and run all attacks on it."""
    graph = study.graph_of(name, data_dir, seed)
    unit = sf.NoPrivacy() if epsilon is None else UNIT
    budget = None if epsilon is None else sf.Budget(max(epsilon, 1.0), 0.0 if method == "edgerand" else DELTA)
    fitted = study.fitted(method, budget, unit, graph, seed)
    found: dict[str, Any] = {"accuracy": study.accuracy(graph, fitted)}
    for word, attack in ATTACKS.items():
        one = attack.run(fitted, graph, seed=seed)
        found[word], found[f"{word} {FEATURES}"] = one.scores.auc().value, one.baselines[FEATURES].auc().value
        found |= one.measures
    found["influence"] = Influence(most=2000).run(fitted, graph, seed=seed).scores.auc().value
    return found


def table(name: str, found: dict[Any, dict[str, Any]]) -> None:
    """The table of one graph."""
    lines = []
    for (method, epsilon), rows in study.grouped(found, 2).items():
        best = [max(row[f"auc_{one}"] for one in DISTANCES) for row in rows]
        columns = [[row[key] for row in rows] for key in ("accuracy", *ATTACKS)]
        told = map(study.told, (*columns, best, [row["influence"] for row in rows]))
        lines.append((method, "none" if epsilon is None else f"{epsilon:g}", len(rows), *told))
    alone = list(
        {row["auc_true_classes"]: row for row in found.values()}.values()
    )  # one a seed: it alone draws candidates
    best = study.told([max(row[f"features_auc_{one}"] for one in DISTANCES) for row in alone])
    each = (study.told([row[f"{key} {FEATURES}"] for row in alone]) for key in ATTACKS)
    lines.append(("features alone", "", "", "", *each, best, ""))
    lines.append(("true classes alone", *[""] * 3, study.told([row["auc_true_classes"] for row in alone]), *[""] * 4))
    heads = ("method", "epsilon", "seeds", "accuracy", "AUC", "learned", "with features", "best distance", "influence")
    study.table(heads, lines, f"### {name}")


def whole(given: Any) -> None:
    """Reconstruction of a whole graph, and of a hidden feature, against models that read all arcs, noisy sums, or no arc."""
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    asked = (
        (given.graphs[0], method, given.epsilons[0] if private else None, seed)
        for seed in seeds
        for method, private in MODELS
    )
    found = study.kept(given, asked, lambda *cell: whole_attacked(*cell, given.data_dir))
    words, lines = {"sage": "none", "mlp": "0"}, []
    for (_, method, epsilon), rows in study.grouped(found, 3).items():
        told = (study.told([row[key] for row in rows]) for key in KEYS)
        lines.append((method, words.get(method, f"{epsilon}"), *told))
    every = list({row["guessing"]: row for row in found.values()}.values())
    alone = (study.told([row[f"features {key}"] for row in every]) for key in ("AUC", "precision"))
    lines.append(("features alone", "", "", *alone, *[""] * 4))
    lines.append(("guessing", "", "", "50.0", study.told([row["guessing"] for row in every]), *[""] * 4))
    study.table(("model", "epsilon", *KEYS), lines)


def whole_attacked(name: str, method: str, epsilon: float | None, seed: int, data_dir: str) -> dict[str, Any]:
    graph = study.graph_of(name, data_dir, seed)
    unit, budget = (sf.NoPrivacy(), None) if epsilon is None else (UNIT, sf.Budget(epsilon, DELTA))
    fitted = study.fitted(method, budget, unit, graph, seed)
    whole, hidden = (attack.run(fitted, graph, seed=seed) for attack in (WholeGraph(), Attributes()))
    (imputed,), (alike,) = hidden.baselines.values(), whole.baselines.values()
    return {
        "accuracy": study.accuracy(graph, fitted), "AUC": whole.scores.auc().value,
        "precision": whole.measures["precision"], "features AUC": alike.auc().value,
        "features precision": whole.measures["features_precision"], "guessing": whole.measures["guessing_precision"],
        "hidden feature": hidden.scores.auc().value, "model alone": hidden.measures["auc_model_alone"],
        "with neighbors": hidden.measures["auc_with_neighbors"], "imputation": imputed.auc().value,
    }  # fmt: skip


if __name__ == "__main__":
    main()
