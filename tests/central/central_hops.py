"""The graph on which methods that send messages over hops are tried, how they are fitted, and how two fits are compared."""

import numpy as np

import sfumato as sf
from sfumato.graph._synthetic import stochastic_block_model

ARC, EDGE, NODE = sf.EdgeLevel(directed=True), sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=6)
BUDGET = sf.Budget(epsilon=4.0, delta=1e-6)


def small(seed=1, **how):
    how = {"num_nodes": 150, "num_classes": 3, "mean_degree": 20, "num_features": 5, "seed": seed, **how}
    return stochastic_block_model(**how).with_split(seed=0)


def fitted(method, graph, unit=EDGE, budget=BUDGET):
    return method.calibrate(budget if unit.private else None, unit, graph.public_facts(unit)).fit(graph)


def differing(one, two):
    return {key for key in one if not np.array_equal(one[key], two[key])}
