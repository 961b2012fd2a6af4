"""A small graph, and runs on it whose models leave the package."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._graph_free import GraphFree
from sfumato.graph import stochastic_block_model


@pytest.fixture(scope="session")
def graph():
    return stochastic_block_model(90, 3, mean_degree=12, num_features=4, seed=0).with_split()


@pytest.fixture(scope="session")
def fit(graph):
    """Fit a method on the graph; at edge level unless a unit is named."""

    def run(method, unit=None, on=graph):
        unit = unit or sf.EdgeLevel(directed=False)
        return method.calibrate(sf.Budget(2.0, 1e-6), unit, on.public_facts(unit)).fit(on)

    return run


@pytest.fixture(scope="session")
def message_runs(fit):
    """Label messages of one and two hops on each kind of graph-free model, with a head that tells nodes apart, and without."""
    runs = {}
    for hops in (1, 2):
        met = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GraphFree, "best", lambda self, public, graph, found, met=met: met.extend(found) or found[0])
            run = fit(sf.LabelMessages(epochs=5, num_hops=hops, noise=[None, "gaussian"][hops - 1]))
        kinds = {next(iter(one)).partition(".")[0]: one for one in met}
        assert set(kinds) == {"network", "linear", "trees"}
        generator = np.random.default_rng(0)
        head = {"head.weight": generator.normal(size=(3, 13)), "head.bias": generator.normal(size=3)}
        head["head.weight"][:, 9] *= 0.001  # reads the root of the number of messages, which hubs have many of
        head |= {"class.shares": np.array([0.7, 0.2, 0.1])}
        head |= {"later.weight": np.array([0.5])} if hops == 2 else {}
        for kind, weights in kinds.items():
            alone = {f"prior.{name}": array for name, array in weights.items()}
            whole = alone | {name: array.astype(np.float32) for name, array in head.items()}
            runs[f"{hops}-{kind}"], runs[f"{hops}-{kind}-alone"] = (replace(run, weights=one) for one in (whole, alone))
    return runs
