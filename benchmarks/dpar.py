"""What bounds DPAR at node level: training with rows that cost nothing, and how much of noisy rows is signal. Markdown tables.

    OMP_NUM_THREADS=1 python benchmarks/dpar.py [--graph npz/cora_ml] [--delta 2e-3] [--epsilons 1 4 8 16] [--top-k 4] \\
        [--occurrences 2 3 5] [--seeds 5] [--first-seed 410] [--data-dir DIR]

*Free rows*: the exact K largest entries of approximate PageRank of **every** training node, at no cost, trimmed so that R
roots read a node; all of epsilon trains. It is no private method: it is the best that released rows could do. *Features*:
each root reads itself (R = 1), the default of method dpar; *of a secret sample* with 9 % of the nodes and the amplified
budget (without privacy: all). Both train with that default's settings. *Own* predicts from the node alone, *public* averages
over neighbors outside the training role, which are declared public. The second table releases 70 rows with Gaussian noise and
gives the share of the K largest entries that it finds, beside the epsilon of these rows or of one. Training has 80 % of the
nodes; seed i draws the split and the initialization; noise is fresh. 95 % t-intervals over seeds. Seeds from 410 on chose
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import study

from sfumato._threads import set_threads
from sfumato.bounded._appr_release import gaussian_row_event, gaussian_rows, largest_entries
from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._pagerank import Walk
from sfumato.bounded._split_gradients import split_steps
from sfumato.central._appr import exact_rows, loss_weights
from sfumato.central._dpar import DPAR, power_iteration
from sfumato.central._two_layers import first_weights, own_scores, train_plainly, weight_arrays
from sfumato.nn._training import Adam
from sfumato.noise.coins import coins
from sfumato.noise.keys import derive_key, new_key
from sfumato.privacy import accounting
from sfumato.privacy._amplification import inner_epsilon
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import RepeatedGaussianEvent
from sfumato.privacy.units import NodeLevel

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

UNIT = NodeLevel(arcs="incident")
SAMPLED, RATE = 0, 0.09
NAMES = {SAMPLED: "features of a secret sample", 1: "features"}
MUS = (1e9, 2000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0)


def main() -> None:
    """Print both tables."""
    given = study.options(
        __doc__, graph="npz/cora_ml", delta=2e-3, epsilons=(1.0, 4.0, 8.0, 16.0), top_k=4, occurrences=(2, 3, 5), seeds=5,
        first_seed=410,
    )  # fmt: skip
    set_threads(None)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    graphs = [study.graph_of(given.graph, given.data_dir, seed, (0.8, 0.0, 0.2)) for seed in seeds]
    free = [
        largest_entries(exact_rows(one, np.arange(int(one.train_mask.sum())), Walk()), given.top_k) for one in graphs
    ]
    budgets = [*given.epsilons, None]

    def row(most: int) -> tuple[str, ...]:
        cells = []
        for epsilon in budgets:
            both = []
            for one, rows, seed in zip(graphs, free, seeds, strict=True):
                read = sp.csr_matrix(sp.eye(rows.shape[0])) if most < 2 else rows
                both.append(accuracies(one, read, most, epsilon, given.delta, seed))
            cells.append(" / ".join(map(study.told, zip(*both, strict=True))))
        return NAMES.get(most, f"free rows, R = {most}"), *cells

    def released(mu: float) -> tuple[str, ...]:
        events = (gaussian_row_event(many, 1.0, np.sqrt(140) / mu) for many in (70, 1))
        shares = [recall(one, mu, given.top_k, seed) for one, seed in zip(graphs, seeds, strict=True)]
        return f"{mu:g}", *(f"{accounting.epsilon([one], given.delta):.4g}" for one in events), study.told(shares)

    heads = ("no privacy" if one is None else f"epsilon {one:g}" for one in budgets)
    study.table(("", *heads), map(row, (SAMPLED, 1, *given.occurrences)))
    heads = ("mu of 70 rows", f"epsilon at {given.delta:g}", "of one row", f"share of the {given.top_k} largest found")
    study.table(heads, map(released, MUS))


def accuracies(
    graph: Graph, rows: sp.spmatrix, most: int, epsilon: float | None, delta: float, seed: int
) -> tuple[float, float]:
    """Own and public accuracy of a network whose losses read ``rows``, at no cost for them."""
    method, public, roots = DPAR(), graph.public_facts(UNIT), np.arange(int(graph.train_mask.sum()))
    network = method.network(graph, loss_weights(sp.csr_matrix(rows), roots, max(most, 1)), roots)
    start = first_weights(public, method.width, seed)
    if most == SAMPLED:
        network.split.left_out[~coins(derive_key(new_key(), "sample"), RATE, roots)] = True
        most, epsilon, delta = 1, None if epsilon is None else inner_epsilon(epsilon, RATE), delta / RATE
    if epsilon is None:
        flat = train_plainly(network, start, method.steps, method.learning_rate, Adam)
    else:
        noise = calibrate(lambda z: [RepeatedGaussianEvent(1.0, most, z, method.steps)], epsilon, delta)
        settings = PrivateSGD(1.0, method.steps, method.l2_clip_norm, noise, method.learning_rate)
        flat, _ = split_steps(network, start, settings, new_key(), leave_out=True)
    own = own_scores(weight_arrays(public, method.width, flat), graph)
    mixed = power_iteration(graph, own, method.alpha, method.power_steps)
    return study.accuracy(graph, own.argmax(1)), study.accuracy(graph, mixed.argmax(1))


def recall(graph: Graph, mu: float, top_k: int, seed: int) -> float:
    """Share of the K largest entries of 70 rows that Gaussian noise leaves among the K largest."""
    roots = np.random.default_rng(seed).permutation(np.arange(int(graph.train_mask.sum())))[:70]
    rows = exact_rows(graph, roots, Walk())
    noisy = gaussian_rows(rows, 0.01, np.sqrt(140) * 0.01 / mu, top_k, new_key())
    true = largest_entries(rows, top_k)
    shared = [len(set(true[[i]].indices) & set(noisy[[i]].indices)) for i in range(len(roots))]
    return float(np.sum(shared)) / true.nnz


if __name__ == "__main__":
    main()
