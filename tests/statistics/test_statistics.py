"""Statistics of a graph: plan, releases, answers, and the verdict of the verifier."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.statistics._answers import describe
from sfumato.statistics._counts import Counted, degree_ends
from sfumato.statistics._statistics import Statistics, shares_of

EDGE = sf.EdgeLevel(directed=False)
ALL = "edges,mixing,degrees,triangles,wedges,stars,node-degrees"
GRAPH = sf.graph.campus(600, seed=0)


def fitted(method=None, graph=GRAPH, unit=EDGE, budget=None):
    method, budget = method or Statistics(ALL), budget or sf.Budget(1.0, 1e-6)
    return method.calibrate(budget, unit, graph.public_facts(unit, assume_public=True)).fit(graph)


def test_one_budget_pays_for_all_statistics():
    found = fitted()
    shares = {one.name: one.event.epsilon for one in found.plan.releases}
    assert 0.99 < sum(shares.values()) < 1.01
    assert shares["degrees"] == pytest.approx(8 * shares["edges"])
    assert found.certificate.epsilon <= 1
    assert [one.name for one in found.plan.releases] == ["bounds", *ALL.split(",")]


def test_without_bounds_nothing_fails():
    plan = Statistics("edges,mixing,degrees").calibrate(sf.Budget(1.0, 0.0), EDGE, GRAPH.public_facts(EDGE))
    assert plan.delta == 0
    assert plan.epsilon <= 1
    with pytest.raises(InputError, match="delta above 0 for triangles"):
        Statistics("edges,triangles").calibrate(sf.Budget(1.0, 0.0), EDGE, GRAPH.public_facts(EDGE))


@pytest.mark.parametrize("grouped", [False, True])
def test_a_saved_run_is_loaded_and_verified(tmp_path, grouped):
    found = fitted(Statistics(ALL, grouped=grouped))
    found.save(tmp_path / "run")
    assert sf.verify.verify(tmp_path / "run").problems == ()
    assert describe(sf.load(tmp_path / "run")).answers == describe(found).answers


def test_counts_without_privacy_are_exact():
    counted = Counted(GRAPH)
    arcs = np.zeros((600, 600), int)
    arcs[np.repeat(np.arange(600), np.diff(GRAPH.indptr)), GRAPH.indices] = 1
    degrees = arcs.sum(1)
    assert counted.edges() == arcs.sum() // 2
    assert counted.triangles() == np.trace(arcs @ arcs @ arcs) // 6
    assert counted.wedges() == (degrees * (degrees - 1)).sum() // 2
    assert counted.stars() == (degrees * (degrees - 1) * (degrees - 2)).sum() // 6
    assert counted.tops().tolist() == np.sort(degrees)[::-1][:2].tolist()
    ends = degree_ends(599)
    assert counted.degrees(ends)[0].tolist() == [(degrees <= end).sum() for end in ends]
    same = GRAPH.y[:, None] == GRAPH.y[None]
    inside = arcs * same
    assert counted.triangles(grouped=True).sum() == np.trace(inside @ inside @ inside) // 6
    assert counted.mixing().sum() == counted.edges()


def test_estimates_agree_with_each_other():
    found = describe(fitted())
    assert found.mixing is not None
    assert np.triu(found.mixing).sum() == found.num_edges
    assert found.degree_counts().sum() == 600
    for one in found.answers:
        assert one.low <= one.value <= one.high, one


@pytest.mark.parametrize("stats", ["", "edges,edges", "all", "edges:0", "edges:x", "edges:-1", "edges:inf"])
def test_statistics_are_named_once_with_shares_above_zero(stats):
    with pytest.raises(InputError):
        shares_of(stats)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (sf.NodeLevel(max_out_degree=5), "no proof when the unit is"),
        (sf.NodeLevel(arcs="incident"), "Promise a bound on degrees"),
        (sf.EdgeLevel(directed=True), "Use --unit edge"),
    ],
)
def test_units_without_a_proof_are_refused(unit, words):
    with pytest.raises(UnsupportedUnitError, match=words):
        fitted(unit=unit)


def test_nodes_with_a_promised_bound(tmp_path):
    graph, unit = GRAPH.changed(max_degree=400), sf.NodeLevel(arcs="incident")
    found = fitted(Statistics("edges,mixing,degrees,triangles,wedges,stars"), graph, unit, sf.Budget(8.0, 0.0))
    found.save(tmp_path / "run")
    assert sf.verify.verify(tmp_path / "run").problems == ()
    assert "bounds" not in found.released
    with pytest.raises(UnsupportedUnitError, match="group is protected"):
        fitted(Statistics("degrees", grouped=True), graph, unit)
    replaced = replace(unit, relation="replace")
    assert fitted(Statistics("edges"), graph, replaced).plan.method.scale(found.plan, "edges", {}) > 0


def test_the_usual_statistics_fit_the_graph():
    edges, without = np.random.default_rng(0).integers(0, 60, (2, 300)), {"num_nodes": 60}
    bare = sf.graph.Graph.from_edges(*edges, **without, directed=False)
    assert fitted(Statistics(), bare).plan.method.stats == "edges,degrees,triangles,wedges"
    arcs, unit = sf.graph.Graph.from_edges(*edges, **without, directed=True), sf.EdgeLevel(directed=True)
    assert fitted(Statistics(), arcs, unit, sf.Budget(1.0, 0.0)).plan.method.stats == "edges,degrees,mutual"
    for asked in (Statistics("mixing"), Statistics(grouped=True)):
        with pytest.raises(InputError, match="got a graph without labels"):
            fitted(asked, bare)


def test_weights_are_released_under_their_bound(tmp_path):
    edges = np.random.default_rng(0).integers(0, 60, (2, 300))
    graph = sf.graph.Graph.from_edges(*edges, 60, directed=False, edge_weight=np.ones(300), max_weight=2.0)
    found = fitted(Statistics(), graph, EDGE, sf.Budget(50.0, 1e-6))
    found.save(tmp_path / "run")
    assert sf.verify.verify(tmp_path / "run").problems == ()
    told = {one.what: one for one in describe(found).answers}
    total = float(
        graph.weights.steps.astype(float).sum() / graph.weights.steps.max()
    )  # of both arcs of an edge of weight 1 or 2
    assert told["sum of the weights, each clipped to 2"].value == pytest.approx(total, abs=30)
    with pytest.raises(InputError, match="Name their column in the edge table and a public bound"):
        fitted(Statistics("edges,weight"), graph.changed(weights=None))


@pytest.mark.parametrize("most", [20, 16, 17, 300])
def test_rows_of_degrees_hold_every_node(most):
    graph = sf.graph.Graph.from_edges(range(most), range(1, most + 1), 400, directed=False, max_degree=most)
    unit = sf.NodeLevel(arcs="incident")
    rows = [
        one for one in describe(fitted(Statistics("degrees"), graph, unit)).answers if one.what.startswith("nodes of")
    ]
    assert [one.span[0] for one in rows] == [0, *(one.span[1] + 1 for one in rows[:-1])]
    assert rows[-1].span[1] == most


def test_contacts_of_one_person_follow_from_the_matrix():
    graph = sf.graph.campus(300, seed=0)
    exact = sf.describe(
        Statistics("mixing").calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy())).fit(graph)
    )
    source = np.repeat(np.arange(300), np.diff(graph.indptr))
    counted = np.zeros((len(graph.classes),) * 2)
    np.add.at(counted, (graph.y[source], graph.y[graph.indices]), 1)
    expected = counted / np.bincount(graph.y)[:, None]
    assert exact.per_node[:-1, :-1] == pytest.approx(expected)
    assert "2004 and 2005" in str(exact)
    assert "Each interval" not in str(exact)  # nothing is hidden, and no interval is needed


def test_classes_without_labels_put_every_node_in_the_last_group():
    graph = sf.graph.Graph.from_edges([0, 1], [1, 2], 5, directed=False, classes=("a", "b"))
    found = sf.describe(fitted(Statistics("edges,mixing,degrees"), graph, budget=sf.Budget(50.0, 0.0)))
    assert found.sizes.tolist() == [0, 0, 5]
    assert found.num_edges == found.mixing[2, 2] == 2
