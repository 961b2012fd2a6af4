"""GAP and ProGAP alike: the noise of every hop, which labels are read, predictions without arcs, and that they learn."""

from dataclasses import replace

import numpy as np
import pytest
from central_hops import differing, small

import sfumato as sf
from sfumato.bounded.aggregation import neighborhood_sum, normalize_rows, to_steps
from sfumato.bounded.kernels import INT16_ONE
from sfumato.graph._graph import Graph

ARC, EDGE, NODE = sf.EdgeLevel(directed=True), sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=6)
MADE = {
    "gap": lambda **how: sf.GAP(**how),
    "progressive": lambda **how: sf.ProGAP(**{"depth": 2, "epochs": 3, "batch_size": 60, **how}),
    "layerwise": lambda **how: sf.ProGAP(**{"depth": 2, "epochs": 3, "batch_size": 60, "layerwise": True, **how}),
}


@pytest.fixture(params=MADE)
def fit(request):
    """Fit one of the methods."""

    def run(graph, unit=EDGE, **settings):
        plan = MADE[request.param](**settings).calibrate(sf.Budget(4.0, 1e-6), unit, graph.public_facts(unit))
        return plan.fit(graph)

    return run


def test_every_released_hop_is_the_exact_sum_of_unit_messages_plus_the_planned_noise(fit, hops):
    fitted = fit(small())
    assert len(hops) == 2
    for hop, (arcs, rows, stddev) in enumerate(hops, start=1):
        noise = fitted.released[f"aggregate/{hop}"] - neighborhood_sum(arcs, to_steps(rows))
        assert (noise != 0).mean() > 0.99
        assert noise.std() / INT16_ONE == pytest.approx(stddev, rel=0.12)
        np.testing.assert_allclose(rows, normalize_rows(rows), atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_node_level_reads_no_validation_or_test_label(fit, fixed_key):
    graph = small()
    hidden = ~graph.train_mask
    one = fit(graph, NODE)
    same = fit(replace(graph, y=np.where(hidden, (graph.y + 1) % 3, graph.y)), NODE)
    assert not differing(one.weights, same.weights)
    assert not differing(one.released, same.released)
    moved = replace(graph, y=np.where(hidden, graph.y, (graph.y + 1) % 3))
    assert differing(one.weights, fit(moved, NODE).weights)


def test_node_level_networks_mix_no_examples(fit):
    assert not [name for name in fit(small(), NODE).weights if "norm" in name]
    assert [name for name in fit(small(), EDGE).weights if "norm" in name]


def test_predictions_never_read_arcs(fit):
    graph = small()
    fitted = fit(graph)
    bare = Graph.from_edges([], [], 150, directed=False, x=graph.x, y=graph.y, classes=graph.classes, roles=graph.roles)
    np.testing.assert_array_equal(fitted.predict_proba(bare), fitted.predict_proba(graph))


@pytest.mark.parametrize("unit", [ARC, EDGE])
def test_they_learn_from_a_dense_graph(fit, unit):
    graph = small(num_nodes=400, num_classes=4, mean_degree=80, num_features=4, homophily=0.9)
    test = graph.test_mask
    majority = np.bincount(graph.y[test]).max() / test.sum()
    assert (fit(graph, unit, epochs=60).predict(graph) == graph.y)[test].mean() > majority + 0.3
