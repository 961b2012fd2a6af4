"""DP-GNN on one school: by own features, by a charged noisy sum, and what its weights reach with all neighbors in the clear.

    OMP_NUM_THREADS=1 python benchmarks/dpgnn.py [--dataset facebook100/Berkeley13] [--epsilon 8] [--seeds 5] [--max-arcs 1 3 10]

The last column **has no guarantee**: its predictions read neighbors' raw features, as the published method's do (62.6 in ProGAP's
table 5.2, on another school). Beside them the graph-free linear model, and training without
noise on the same arcs and on all of them.
"""

from typing import Any

import study

import sfumato as sf
from sfumato._threads import set_threads
from sfumato.bounded._subgraphs import read_arcs
from sfumato.central._dpgnn import rows_of
from sfumato.central._linear import Linear


def main() -> None:
    """Print a line for each number of arcs."""
    given = study.options(
        __doc__, dataset="facebook100/Berkeley13", min_class_size=1000, epsilon=8.0, delta=1e-5, max_degree=100, seeds=5,
        max_arcs=(1, 3, 10),
    )  # fmt: skip
    set_threads(None)
    more = {"min_class_size": given.min_class_size}
    graphs = [study.graph_of(given.dataset, given.data_dir, seed, **more) for seed in range(given.seeds)]
    node, budget = sf.NodeLevel(max_out_degree=given.max_degree), sf.Budget(given.epsilon, given.delta)

    def alone(method: Any, budget: Any = None, unit: Any = NONE) -> str:
        return study.told([study.accuracy(graph, study.fitted(method, budget, unit, graph)) for graph in graphs])

    def private(arcs: int) -> list[str]:
        method, found = sf.DPGNN(max_arcs=arcs, inference="noised"), []
        for graph in graphs:
            own, noised = (study.fitted(one, budget, node, graph) for one in (sf.DPGNN(max_arcs=arcs), method))
            clear = method.clear_scores(own.plan, own.weights, graph).argmax(1)
            found.append([study.accuracy(graph, one) for one in (own, noised, clear)])
        return [study.told(part) for part in zip(*found, strict=True)]

    print(f"{given.dataset}, node level (owned arcs), epsilon {given.epsilon:g}, delta {given.delta:g}")
    print(f"linear, graph-free: {alone(Linear(), budget, node)}; dpgnn without privacy: {alone(sf.DPGNN())}")
    columns = (
        "arcs an owner", "own features", "charged noisy sum", "clear neighbors, no guarantee", "without noise, clear",
    )  # fmt: skip
    study.table(columns, ((arcs, *private(arcs), alone(Sampled(max_arcs=arcs))) for arcs in given.max_arcs))


NONE = sf.NoPrivacy()


class Sampled(sf.DPGNN):
    """Training without noise on the arcs that private training reads."""

    def _inputs(self, plan: object, graph: object, session: object) -> object:
        return rows_of(graph, read_arcs(graph, self.max_arcs, self.max_in_arcs, session.key), self.num_layers)


if __name__ == "__main__":
    main()
