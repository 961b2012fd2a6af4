"""DP-GNN on one school: by own features, by a charged noisy sum, and what its weights reach with all neighbors in the clear.

    OMP_NUM_THREADS=1 python benchmarks/dpgnn.py [--dataset facebook100/Berkeley13] [--epsilon 8] [--seeds 5] [--max-arcs 1 3 10]

The last column **has no guarantee**: its predictions read neighbors' raw features, as the published method's do (62.6 in ProGAP's
table 5.2, on another school). Beside them the graph-free linear model, and training without
noise on the same arcs and on all of them.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np
from scipy.special import stdtrit

import sfumato as sf
from sfumato._threads import set_threads
from sfumato.bounded._subgraphs import read_arcs
from sfumato.central._dpgnn import rows_of
from sfumato.central._linear import Linear
from sfumato.graph import load_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="facebook100/Berkeley13")
    parser.add_argument("--min-class-size", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--max-degree", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-arcs", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    warnings.simplefilter("ignore")
    graphs = [
        load_dataset(options.dataset, options.data_dir, min_class_size=options.min_class_size).with_split(seed=seed)
        for seed in range(options.seeds)
    ]
    node, budget = sf.NodeLevel(max_out_degree=options.max_degree), sf.Budget(options.epsilon, options.delta)
    print(f"{options.dataset}, node level (owned arcs), epsilon {options.epsilon:g}, delta {options.delta:g}")
    tell("linear, graph-free", [[accuracy(graph, run(Linear(), budget, node, graph))] for graph in graphs])
    print("by own features / by a charged noisy sum / clear neighbors, without a guarantee:")
    for arcs in options.max_arcs:
        method = sf.DPGNN(max_arcs=arcs, inference="noised")
        found = []
        for graph in graphs:
            own = run(sf.DPGNN(max_arcs=arcs), budget, node, graph)
            noised = run(method, budget, node, graph)
            clear = method.clear_scores(own.plan, own.weights, graph).argmax(1)
            found.append([accuracy(graph, own), accuracy(graph, noised), share(graph, clear)])
        tell(f"dpgnn, {arcs} arcs an owner", found)
        sampled = Sampled(max_arcs=arcs)
        tell(
            "  the same arcs without noise, clear neighbors",
            [[accuracy(graph, run(sampled, None, sf.NoPrivacy(), graph))] for graph in graphs],
        )
    tell("dpgnn without privacy", [[accuracy(graph, run(sf.DPGNN(), None, sf.NoPrivacy(), graph))] for graph in graphs])


class Sampled(sf.DPGNN):
    """Training without noise on the arcs that private training reads."""

    def _inputs(self, plan: object, graph: object, session: object) -> object:
        return rows_of(graph, read_arcs(graph, self.max_arcs, self.max_in_arcs, session.key), self.num_layers)


def run(
    method: sf.DPGNN | Linear, budget: sf.Budget | None, unit: sf.NodeLevel | sf.NoPrivacy, graph: object
) -> sf.Fitted:
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


def accuracy(graph: object, fitted: sf.Fitted) -> float:
    return share(graph, fitted.predict(graph))


def share(graph: object, predicted: np.ndarray) -> float:
    tested = graph.test_mask & (graph.y >= 0)
    return 100 * float((predicted == graph.y)[tested].mean())


def tell(name: str, rows: list[list[float]]) -> None:
    found = np.array(rows)
    half = stdtrit(max(len(found) - 1, 1), 0.975) * found.std(axis=0, ddof=min(1, len(found) - 1)) / len(found) ** 0.5
    print(
        f"{name}: " + " / ".join(f"{a:.1f} +- {b:.1f}" for a, b in zip(found.mean(axis=0), half, strict=True)),
        flush=True,
    )


if __name__ == "__main__":
    main()
