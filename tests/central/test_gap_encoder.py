"""GAP without its encoder: the features themselves are aggregated, as wide as they are, and nothing else is charged."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.bounded.aggregation import normalize_rows
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.nn._weights import num_parameters
from sfumato.verify import verify
from sfumato.verify._methods import rules_of
from sfumato.verify._releases import release_faults

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=6)
BUDGET = sf.Budget(epsilon=4.0, delta=1e-6)


def small(num_features=5, seed=1):
    return stochastic_block_model(150, 3, mean_degree=20, num_features=num_features, seed=seed).with_split(seed=0)


def fit(graph, unit=EDGE, budget=BUDGET, **settings):
    method = sf.GAP(epochs=2, encoder=False, **settings)
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("unit", "sensitivity"), [(EDGE, math.sqrt(2)), (NODE, math.sqrt(6))])
def test_features_are_sent_with_the_noise_of_the_plan(hops, unit, sensitivity, sparse):
    graph = small()
    x = np.asarray(graph.x)
    if sparse:
        x = x * (x > 2)
        graph = Graph(graph.indptr, graph.indices, False, sp.csr_matrix(x), graph.y, graph.classes, roles=graph.roles)
    fitted = fit(graph, unit)
    _, rows, stddev = hops[0]
    assert np.array_equal(rows, normalize_rows(x))
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-6
    assert stddev == pytest.approx(sensitivity * fitted.plan.event("aggregate/1").noise_multiplier)
    assert [hop[1].shape for hop in hops] == [(150, 5), (150, 5)]
    assert {array.shape for array in fitted.released.values()} == {(150, 5)}


def test_edge_level_charges_the_hops_alone():
    fitted = fit(small())
    assert [(r.name, r.shape, r.affected_coordinates) for r in fitted.plan.releases] == [
        ("aggregate/1", (150, 5), 10), ("aggregate/2", (150, 5), 10),
    ]  # fmt: skip
    assert {name.split(".")[0] for name in fitted.weights} == {"classifier"}


def test_node_level_spends_nothing_on_an_encoder():
    graph = small()
    fitted = fit(graph, NODE)
    plan, usual = fitted.plan, sf.GAP(epochs=2).calibrate(BUDGET, NODE, graph.public_facts(NODE))
    assert [release.name for release in plan.releases] == ["aggregate/1", "aggregate/2", "classifier"]
    assert plan.epsilon <= 4
    assert plan.event("aggregate/1").noise_multiplier < usual.event("aggregate/1").noise_multiplier
    _, classifier = sf.GAP(encoder=False).trained(fitted.weights, plan.public)
    assert plan.releases[-1].shape == (num_parameters(classifier),)
    assert num_parameters(classifier) == 3 * (5 * 16 + 16) + 48 * 3 + 3


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=["edge", "node"])
def test_saved_run_verifies_and_predicts(tmp_path, unit):
    graph = small()
    fitted = fit(graph, unit)
    fitted.save(tmp_path / "run")
    checked = verify(tmp_path / "run")
    assert checked.valid, checked.problems
    loaded = sf.load(tmp_path / "run")
    assert loaded.plan.method == sf.GAP(epochs=2, encoder=False)
    assert np.array_equal(loaded.predict_proba(graph), fitted.predict_proba(graph))


@pytest.mark.parametrize("unit", [EDGE, NODE], ids=["edge", "node"])
def test_verifier_knows_what_the_switch_changes(unit):
    certificate = json.loads(fit(small(), unit).certificate.to_json())
    assert not list(release_faults(certificate, rules_of("gap")))
    certificate["settings"]["encoder"] = True
    problems = list(release_faults(certificate, rules_of("gap")))
    assert any("releases[0].shape: expected nodes and width, [150, 16]" in text for text in problems), problems
    assert any("releases: expected ['encoder'" in text for text in problems) == (unit is NODE)


def test_inference_on_another_graph():
    fitted, other = fit(small()), stochastic_block_model(120, 3, mean_degree=20, num_features=5, seed=2)
    plan = fitted.calibrate_inference(BUDGET, EDGE, other.public_facts(EDGE))
    assert [release.shape for release in plan.releases] == [(120, 5), (120, 5)]


def test_bad_values():
    with pytest.raises(InputError, match="Expected encoder to be True or False, got 'no'"):
        sf.GAP(encoder="no")
    with pytest.raises(InputError, match="encoder to be True for a graph without features"):
        fit(small(num_features=0))
