"""Predictions for the node itself: they read its own features and what was released, and so says the certificate."""

import numpy as np
import pytest
from central_nodes import GRAPH, INCIDENT, alone, fitted

import sfumato as sf

SHORT = {"width": 8, "learning_rate": 0.05}
METHODS = {
    "dpar": (sf.DPAR(mechanism="gaussian", num_roots=40, steps=10, **SHORT), ["PageRank rows with noise"],
             ["PageRank rows before noise"]),
    "dpgnn": (sf.DPGNN(epochs=3, max_arcs=2, **SHORT), ["noisy aggregates"], ["sums before noise"]),
    "dpgnn with sums": (sf.DPGNN(epochs=3, max_arcs=2, inference="noised", **SHORT), ["noisy aggregates"], ["sums before noise"]),
    "graph-split": (sf.GraphSplit(num_groups=100, batch_size=50, steps=10, **SHORT), [], ["predictions that read neighbors"]),
}  # fmt: skip


@pytest.mark.parametrize(("method", "shown", "never"), METHODS.values(), ids=METHODS)
def test_a_prediction_reads_the_node_and_releases_alone(method, shown, never):
    unit = sf.NodeLevel(max_out_degree=20) if method.name == "dpgnn" else INCIDENT
    run, node = fitted(method, unit, GRAPH, 40.0), GRAPH.test_mask.argmax()
    before, after = (
        run.plan.method.scores(run.ran, run.weights, run.released, graph)[node] for graph in (GRAPH, alone(GRAPH, node))
    )
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert run.certificate.values["who_may_see"] == {
        "anyone": [*shown, "weights"],
        "the node itself": ["predictions that read the node's own features (joint DP)"],
        "never": never,
    }
