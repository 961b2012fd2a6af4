"""GAP and ProGAP alike: the noise of every hop, which labels are read, predictions without arcs, and that they learn."""

import math
from dataclasses import replace

import numpy as np
import pytest
from central_hops import ARC, BUDGET, EDGE, NODE, differing, fitted, small

import sfumato as sf
from sfumato import verify
from sfumato.errors import InputError, SfumatoWarning
from sfumato.graph._graph import Graph

MADE = {
    "gap": lambda **how: sf.GAP(**how),
    "progressive": lambda **how: sf.ProGAP(**{"depth": 2, "epochs": 3, "batch_size": 60, **how}),
    "layerwise": lambda **how: sf.ProGAP(**{"depth": 2, "epochs": 3, "batch_size": 60, "layerwise": True, **how}),
}


@pytest.fixture(params=MADE)
def fit(request):
    """Fit one of the methods."""
    return lambda graph, unit=EDGE, **settings: fitted(MADE[request.param](**settings), graph, unit)


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
    run = fit(graph)
    bare = Graph.from_edges([], [], 150, directed=False, x=graph.x, y=graph.y, classes=graph.classes, roles=graph.roles)
    np.testing.assert_array_equal(run.predict_proba(bare), run.predict_proba(graph))


@pytest.mark.parametrize("unit", [ARC, EDGE])
def test_they_learn_from_a_dense_graph(fit, unit):
    graph = small(num_nodes=400, num_classes=4, mean_degree=80, num_features=4, homophily=0.9)
    test = graph.test_mask
    majority = np.bincount(graph.y[test]).max() / test.sum()
    assert (fit(graph, unit, epochs=60).predict(graph) == graph.y)[test].mean() > majority + 0.3


def test_inference_on_another_graph_charges_its_own_ledger(fit, hops, tmp_path):
    graph, other = small(), replace(small(2), node_ids=np.arange(150) + 1000)
    run = fit(graph)
    head = run.ledger.head
    plan = run.calibrate_inference(sf.Budget(1.0, 1e-7), EDGE, other.public_facts(EDGE))
    assert plan.event("aggregate/1").noise_multiplier == pytest.approx(6.6166, abs=6e-5)
    hops.clear()
    inferred = plan.fit(other)
    assert [stddev for _, _, stddev in hops] == pytest.approx([math.sqrt(2) * 6.6166] * 2, rel=1e-4)
    assert [entry["kind"] for entry in inferred.ledger.entries] == ["plan", "release", "release"]
    assert run.ledger.head == head
    assert not differing(run.weights, inferred.weights)
    assert (inferred.certificate.epsilon, inferred.certificate.delta) == (plan.epsilon, 1e-7)
    folder = inferred.save(tmp_path / "run")
    assert verify.verify(folder).problems == ()
    np.testing.assert_array_equal(sf.load(folder).predict_proba(other), inferred.predict_proba(other))
    with pytest.raises(InputError, match="other node ids"):
        inferred.predict_proba(graph)
    same = run.calibrate_inference(BUDGET, EDGE, graph.public_facts(EDGE))
    with pytest.warns(SfumatoWarning, match="charged as another one. If it is the same, predict it from the run"):
        assert same.fit(graph).certificate.epsilon == same.epsilon
