"""GAP: noise as planned, what is read and when, released hops, inference on another graph, and that it learns."""

from dataclasses import replace

import numpy as np
import pytest
from central_hops import ARC, BUDGET, EDGE, NODE, fitted, small

import sfumato as sf
from sfumato.bounded.aggregation import neighborhood_sum, normalize_rows, to_steps
from sfumato.central import _gap as gap
from sfumato.central._learning import Features
from sfumato.errors import InputError
from sfumato.graph._graph import Graph


def fit(graph, unit=EDGE):
    return fitted(sf.GAP(), graph, unit)


def test_without_privacy_hops_are_exact(hops):
    graph = small()
    run = fit(graph, sf.NoPrivacy())
    assert [stddev for _, _, stddev in hops] == [0.0] * 5
    assert list(run.released) == [f"aggregate/{k}" for k in range(1, 6)]
    arcs, rows, _ = hops[0]
    np.testing.assert_array_equal(run.released["aggregate/1"], neighborhood_sum(arcs, to_steps(rows)))


def test_messages_travel_from_owner_to_target(hops):
    graph = Graph.from_edges([0, 0, 1, 2, 3, 4, 5], [1, 2, 3, 3, 4, 5, 0], 6, directed=True, y=[0, 1, 0, 1, 0, 1],
                             x=np.eye(6)).with_roles([0, 0, 0, 0, 1, 2])  # fmt: skip
    fit(graph, ARC)
    arcs = hops[0][0]
    senders = [arcs.sources[arcs.offsets[v] : arcs.offsets[v + 1]].tolist() for v in range(6)]
    assert senders == [[5], [0], [0], [1, 2], [3], [4]]


def test_owners_are_capped_before_aggregation(hops):
    graph = small()
    run = fit(graph, NODE)
    assert np.diff(graph.indptr).max() > 6
    for arcs, _, _ in hops:
        kept = np.bincount(arcs.sources, minlength=graph.num_nodes)
        np.testing.assert_array_equal(kept, np.minimum(np.diff(graph.indptr), 6))
    assert hops[0][0] is hops[1][0] or np.array_equal(hops[0][0].sources, hops[1][0].sources)
    shapes = {release.name: release.shape for release in run.plan.releases}
    assert list(shapes) == ["encoder", "aggregate/1", "aggregate/2", "classifier"]
    assert shapes["aggregate/1"] == shapes["aggregate/2"] == (150, 16)
    assert {name: array.shape for name, array in run.released.items()} == {
        "aggregate/1": (150, 16),
        "aggregate/2": (150, 16),
    }


def test_inference_needs_a_budget_and_the_columns_of_training():
    graph = replace(small(), feature_names=tuple("abcde"))
    run = fit(graph)
    with pytest.raises(InputError, match="budget"):
        run.calibrate_inference(None, EDGE, graph.public_facts(EDGE))
    wider = small(num_features=6)
    with pytest.raises(InputError, match=r"num_features to be 5 as in training, got 6"):
        run.calibrate_inference(BUDGET, EDGE, wider.public_facts(EDGE))
    turned = replace(graph, feature_names=tuple("xaced"))
    with pytest.raises(InputError, match="feature_names of training"):
        run.calibrate_inference(BUDGET, EDGE, turned.public_facts(EDGE)).fit(turned)


def test_hop_zero_is_the_encoder_alone_and_hop_one_what_was_released(hops):
    graph = small()
    run = fit(graph)
    encoder, _ = sf.GAP().trained(run.weights, run.plan.public)
    rows = gap.encode(encoder, Features(graph))
    np.testing.assert_array_equal(rows, hops[0][1])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(hops[1][1], normalize_rows(run.released["aggregate/1"]))
