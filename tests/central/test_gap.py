"""GAP: noise as planned, what is read and when, released hops, inference on another graph, and that it learns."""

import math
from dataclasses import replace

import numpy as np
import pytest
from central_hops import differing, small

import sfumato as sf
from sfumato.bounded.aggregation import neighborhood_sum, normalize_rows, to_steps
from sfumato.central import _gap as gap
from sfumato.central._learning import Features
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph._graph import Graph

ARC, EDGE = sf.EdgeLevel(directed=True), sf.EdgeLevel(directed=False)
NODE = sf.NodeLevel(max_out_degree=6)
BUDGET = sf.Budget(epsilon=4.0, delta=1e-6)


def fit(graph, unit=EDGE, budget=BUDGET, **settings):
    return sf.GAP(**settings).calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


@pytest.mark.parametrize(
    ("epsilon", "delta", "num_hops", "noise"),
    [
        (1.0, 1e-7, 2, 6.6166),
        (1.0, 1e-7, 5, 10.4618),
        (4.0, 1e-7, 2, 1.8354),
        (4.0, 1e-8, 2, 1.9737),
        (4.0, 1e-8, 5, 3.1206),
    ],
)
@pytest.mark.parametrize("unit", [ARC, EDGE])
def test_noise_fixtures_reach_the_plan(epsilon, delta, num_hops, noise, unit):
    public = small().public_facts(unit)
    plan = sf.GAP(num_hops=num_hops).calibrate(sf.Budget(epsilon, delta), unit, public)
    noises = [release.event.noise_multiplier for release in plan.releases]
    assert noises == [pytest.approx(noise, abs=6e-5)] * num_hops


def test_without_privacy_hops_are_exact(hops):
    graph = small()
    fitted = fit(graph, sf.NoPrivacy(), None)
    assert [stddev for _, _, stddev in hops] == [0.0] * 5
    assert list(fitted.released) == [f"aggregate/{k}" for k in range(1, 6)]
    arcs, rows, _ = hops[0]
    np.testing.assert_array_equal(fitted.released["aggregate/1"], neighborhood_sum(arcs, to_steps(rows)))


def test_messages_travel_from_owner_to_target(hops):
    graph = Graph.from_edges([0, 0, 1, 2, 3, 4, 5], [1, 2, 3, 3, 4, 5, 0], 6, directed=True, y=[0, 1, 0, 1, 0, 1],
                             x=np.eye(6)).with_roles([0, 0, 0, 0, 1, 2])  # fmt: skip
    fit(graph, ARC)
    arcs = hops[0][0]
    senders = [arcs.sources[arcs.offsets[v] : arcs.offsets[v + 1]].tolist() for v in range(6)]
    assert senders == [[5], [0], [0], [1, 2], [3], [4]]


def test_owners_are_capped_before_aggregation(hops):
    graph = small()
    fitted = fit(graph, NODE)
    assert np.diff(graph.indptr).max() > 6
    for arcs, _, _ in hops:
        kept = np.bincount(arcs.sources, minlength=graph.num_nodes)
        np.testing.assert_array_equal(kept, np.minimum(np.diff(graph.indptr), 6))
    assert hops[0][0] is hops[1][0] or np.array_equal(hops[0][0].sources, hops[1][0].sources)
    shapes = {release.name: release.shape for release in fitted.plan.releases}
    assert list(shapes) == ["encoder", "aggregate/1", "aggregate/2", "classifier"]
    assert shapes["aggregate/1"] == shapes["aggregate/2"] == (150, 16)
    assert {name: array.shape for name, array in fitted.released.items()} == {
        "aggregate/1": (150, 16),
        "aggregate/2": (150, 16),
    }


@pytest.mark.parametrize("unit", [EDGE, NODE])
def test_one_key_gives_the_same_bits(unit, fixed_key):
    graph = small()
    one, two = fit(graph, unit), fit(graph, unit)
    assert not differing(one.weights, two.weights)
    assert not differing(one.released, two.released)


def test_another_operand_gets_independent_noise_everywhere(fixed_key, hops):
    graph = small()
    source, target = np.repeat(np.arange(150), np.diff(graph.indptr)), graph.indices
    kept = np.flatnonzero(source < target)[1:]
    less = Graph.from_edges(source[kept], target[kept], 150, directed=False, x=graph.x, y=graph.y, classes=graph.classes,
                            roles=graph.roles)  # fmt: skip
    assert less.num_edges == graph.num_edges - 1
    noises = []
    for each in (graph, less):
        hops.clear()
        released = fit(each).released["aggregate/1"]
        arcs, rows, _ = hops[0]
        noises.append((released - neighborhood_sum(arcs, to_steps(rows)), rows))
    np.testing.assert_array_equal(noises[0][1], noises[1][1])
    assert (noises[0][0] != noises[1][0]).mean() > 0.99
    assert abs(np.corrcoef(noises[0][0].ravel(), noises[1][0].ravel())[0, 1]) < 0.15


def test_inference_on_another_graph_charges_its_own_ledger(hops, tmp_path):
    graph = small()
    other = replace(small(2), node_ids=np.arange(150) + 1000)
    fitted = fit(graph)
    head = fitted.ledger.head
    plan = fitted.calibrate_inference(sf.Budget(1.0, 1e-7), EDGE, other.public_facts(EDGE))
    assert plan.event("aggregate/1").noise_multiplier == pytest.approx(6.6166, abs=6e-5)
    hops.clear()
    inferred = plan.fit(other)
    assert [stddev for _, _, stddev in hops] == pytest.approx([math.sqrt(2) * 6.6166] * 2, rel=1e-4)
    assert [entry["kind"] for entry in inferred.ledger.entries] == ["plan", "release", "release"]
    assert fitted.ledger.head == head
    assert not differing(fitted.weights, inferred.weights)
    assert (inferred.certificate.epsilon, inferred.certificate.delta) == (plan.epsilon, 1e-7)
    loaded = sf.load(inferred.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.predict_proba(other), inferred.predict_proba(other))
    with pytest.raises(InputError, match="other node ids"):
        inferred.predict_proba(graph)


def test_inference_needs_a_budget_and_the_columns_of_training():
    graph = replace(small(), feature_names=tuple("abcde"))
    fitted = fit(graph)
    with pytest.raises(InputError, match="budget"):
        fitted.calibrate_inference(None, EDGE, graph.public_facts(EDGE))
    wider = small(num_features=6)
    with pytest.raises(InputError, match=r"num_features to be 5 as in training, got 6"):
        fitted.calibrate_inference(BUDGET, EDGE, wider.public_facts(EDGE))
    turned = replace(graph, feature_names=tuple("xaced"))
    with pytest.raises(InputError, match="feature_names of training"):
        fitted.calibrate_inference(BUDGET, EDGE, turned.public_facts(EDGE)).fit(turned)


def test_hop_zero_is_the_encoder_alone_and_hop_one_what_was_released(hops):
    graph = small()
    fitted = fit(graph)
    encoder, _ = sf.GAP().trained(fitted.weights, fitted.plan.public)
    rows = gap.encode(encoder, Features(graph))
    np.testing.assert_array_equal(rows, hops[0][1])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(hops[1][1], normalize_rows(fitted.released["aggregate/1"]))


def test_units_without_a_bounded_hop_are_refused():
    incident, uncapped = sf.NodeLevel(arcs="incident"), sf.NodeLevel()
    with pytest.raises(UnsupportedUnitError, match="NodeLevel\\(arcs='owned', max_out_degree=D\\)"):
        sf.GAP().calibrate(BUDGET, incident, small().public_facts(incident))
    with pytest.raises(InputError, match="max_out_degree to be"):
        sf.GAP().calibrate(BUDGET, uncapped, small().public_facts(uncapped))
