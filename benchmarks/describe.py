"""Statistics of a whole graph: errors of estimates, coverage of intervals, and the cost on a large graph; prints tables.

    python benchmarks/describe.py [--parts errors coverage] [--graphs facebook100/Berkeley13 ...] [--draws 20] [--covered 1000]
    python benchmarks/describe.py --parts coverage [--nodes | --grouped] [--of lastfm_asia ...]
    python benchmarks/describe.py --parts large --folder FOLDER [--rows 50000000]

Edge level, epsilon 1, delta 1e-6, the usual shares; --nodes: nodes with all arcs, epsilon 8, the largest degree promised. Noise
is drawn again by a seed, with the law and scale of the releases. *Isotonic* and *sorted* are errors of isotonic regression alone,
on the same counts and on sorted degrees with noise of the same scale (Hay et al. 2009). *Least* is the answer that is covered
least often. --parts large writes an R-MAT graph with ten rows a node, imports it, and runs `sfumato describe` with two threads.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import study
from scipy.optimize import isotonic_regression

import sfumato as sf
from sfumato.method.contract import Arrays
from sfumato.statistics._counts import Counted

GRAPHS = (
    "facebook100/Berkeley13", "facebook100/Reed98", "npz/cora_ml", "npz/amazon_cs", "lastfm_asia", "musae/facebook",
)  # fmt: skip
COVERED = ("facebook100/Reed98", "npz/cora_ml", "directed/polblogs")


def main() -> None:
    """Print the tables."""
    given = study.options(
        __doc__, parts=("errors", "coverage"), graphs=GRAPHS, of=COVERED, draws=20, covered=1000, folder="", rows=50_000_000,
        grouped=False, nodes=False,
    )  # fmt: skip
    if "errors" in given.parts:
        columns = ("graph", "edges", "triangles", "pairs of groups (L1)", "degrees (L1)", "isotonic", "sorted")
        study.table(columns, ((name, *errors(name, given)) for name in given.graphs), "Mean error in percent")
    if "coverage" in given.parts:
        rows = (row for name in given.of for row in covered(name, given))
        study.table(("graph", "statistic", "answers", "stated", "covered", "least"), rows, "Coverage in percent")
    if "large" in given.parts:
        large(Path(given.folder), given.rows)


def noise(random: np.random.Generator, scale: float, shape: Any) -> Any:
    share = -np.expm1(-1 / scale)
    return random.geometric(share, shape) - random.geometric(share, shape)


def drawn(name: str, given: Any, count: int, more: str = "") -> tuple[Any, Iterator[Any]]:
    """The graph's own numbers, and runs of which all noise is drawn again."""
    graph = study.graph_of(name, given.data_dir)
    stats, budget = "edges,mixing,degrees", sf.Budget(1.0, 0.0 if graph.directed else 1e-6)
    unit: Any = sf.EdgeLevel(directed=graph.directed)
    if given.nodes:
        graph = graph.changed(max_degree=int(max(np.diff(graph.indptr).max(), np.bincount(graph.indices).max())))
        unit, more, budget = sf.NodeLevel(arcs="incident"), ",groups", sf.Budget(8.0, 0.0)
    method = sf.Statistics(stats + ("" if graph.directed else ",triangles,wedges") + more, grouped=given.grouped)
    exact = method.calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy())).fit(graph)
    run = method.calibrate(budget, unit, graph.public_facts(unit, assume_public=True)).fit(graph)

    def again() -> Iterator[Any]:
        random, tops = np.random.default_rng(0), Counted(graph).tops()
        for _ in range(count):
            released = Arrays()
            for key, array in run.released.items():
                scale = float(run.plan.method.scale(run.plan, key, released))
                released[key] = (tops if key == "bounds" else exact.released[key]) + noise(random, scale, array.shape)
            yield replace(run, released=released)

    return exact, again()


def errors(name: str, given: Any) -> Iterator[str]:
    exact, runs = drawn(name, given, given.draws)
    truth, random, found = sf.describe(exact), np.random.default_rng(1), defaultdict(list)
    nodes, counts, pairs = truth.num_nodes, np.bincount(truth.sequence("degrees")), truth.mixing[truth.pairs]
    for run in runs:
        ours, scale = sf.describe(run), float(run.plan.method.scale(run.plan, "degrees", run.released))
        alone = isotonic_regression(np.clip(run.released["degrees"][0], 0, nodes)).x
        noisy = isotonic_regression(truth.sequence("degrees") + noise(random, scale, nodes)).x
        shown = next(one.value for one in ours.answers if one.what == "triangles")
        found["edges"].append(abs(ours.num_edges / truth.num_edges - 1))
        found["triangles"].append(abs(shown / exact.released["triangles"][0] - 1))
        found["pairs"].append(np.abs(ours.mixing[ours.pairs] - pairs).sum() / truth.num_edges)
        for key, sequence in (
            ("degrees", ours.degree_counts()),
            ("isotonic", np.diff(np.append(np.rint(alone), nodes), prepend=0).astype(np.int64)),
            ("sorted", np.bincount(np.clip(np.rint(noisy), 0, nodes - 1).astype(np.int64))),
        ):
            size = max(len(sequence), len(counts))
            both = np.array([np.pad(one, (0, size - len(one))) for one in (sequence, counts)])
            found[key].append(np.abs(both[0] - both[1]).sum() / nodes)
    yield from (study.told(values, digits=3) for values in found.values())


def covered(name: str, given: Any) -> Iterator[tuple[object, ...]]:
    exact, runs = drawn(name, given, given.covered, "" if "pol" not in name else ",mutual")
    truth, found = {one.what: one.value for one in sf.describe(exact).answers}, defaultdict(list)
    for run in runs:
        for one in sf.describe(run).answers:
            if one.what in truth:
                kind = "quantile" if "quantile" in one.what else "" if one.exact and one.coverage < 1 else "approximate"
                found[one.statistic, kind, one.what].append((one.coverage, one.low <= truth[one.what] <= one.high))
    groups = defaultdict(list)
    for (statistic, kind, _), rows in found.items():
        groups[f"{statistic} {kind}".strip()].append(np.mean(rows, axis=0))
    for key, rates in groups.items():
        stated, held = np.mean(rates, axis=0)
        yield name, key, len(rates), *(f"{100 * one:.1f}" for one in (stated, held, min(rate for _, rate in rates)))


def large(folder: Path, rows: int) -> None:
    if not (folder / "store").exists():
        study.process(Path(__file__).parent / "rmat.py", folder, "--nodes", rows // 10, "--rows", rows, "--features", 1)
        tables = ["--nodes", folder / "nodes.parquet", "--edges", folder / "edges.parquet", "--label", "label"]
        study.process("-m", "sfumato", "data", "import", *tables, "--undirected", "--out", folder / "store")
    budget = ["--unit", "edge", "--epsilon", 1, "--delta", 1e-10, "--out", folder / "run"]
    _, *taken = study.process("-m", "sfumato", "describe", "--graph", folder / "store", *budget, on=folder)
    study.table(("rows", *study.TAKEN), [(f"{rows:,}", *(f"{one:,.0f}" for one in taken))])


if __name__ == "__main__":
    main()
