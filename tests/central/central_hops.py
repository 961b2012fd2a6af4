"""The graph on which methods that send messages over hops are tried, and how two fits are compared."""

import numpy as np

from sfumato.graph._synthetic import stochastic_block_model


def small(seed=1, **how):
    how = {"num_nodes": 150, "num_classes": 3, "mean_degree": 20, "num_features": 5, "seed": seed, **how}
    return stochastic_block_model(**how).with_split(seed=0)


def differing(one, two):
    return {key for key in one if not np.array_equal(one[key], two[key])}
