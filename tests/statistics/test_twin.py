"""A twin is made of a release and of public facts of nodes alone, and keeps what the release holds."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.statistics._counts import Counted
from sfumato.statistics._degrees import to_totals
from sfumato.statistics._estimates import Estimates
from sfumato.statistics._statistics import Statistics
from sfumato.statistics._twin import twin
from sfumato.statistics._wiring import Pairs, capacities, stubs_of, wire

EDGE = sf.EdgeLevel(directed=False)
ALL = "edges,mixing,degrees,triangles,wedges,node-degrees"
GRAPH = sf.graph.campus(500, seed=0)


@cache
def run_of(stats=ALL, graph=GRAPH, epsilon=2.0, **settings):
    unit = sf.EdgeLevel(directed=graph.directed)
    public = graph.public_facts(unit, assume_public=True)
    return Statistics(stats, **settings).calibrate(sf.Budget(epsilon, 1e-6), unit, public).fit(graph)


def with_arcs(graph, seed):
    """The same nodes with other arcs, so that whoever reads arcs is seen."""
    ends = np.random.default_rng(seed).integers(graph.num_nodes, size=(2, 3000))
    new = sf.graph.Graph.from_edges(*ends, graph.num_nodes, directed=graph.directed)
    return graph.changed(indptr=new.indptr, indices=new.indices)


@pytest.mark.parametrize("stats", [ALL, "edges,mixing,degrees,triangles,wedges", "mixing", "degrees", "edges"])
def test_the_private_arcs_change_nothing(stats):
    run = run_of(stats)
    one, other = twin(run, GRAPH, 3), twin(run, with_arcs(GRAPH, 1), 3)
    assert one.indices.tolist() == other.indices.tolist()
    assert one.indptr.tolist() == other.indptr.tolist()
    assert twin(run, GRAPH, 4).indices.tolist() != one.indices.tolist()


@pytest.mark.parametrize("stats", [ALL, "mixing,edges", "edges,degrees"])
def test_edges_and_mixing_are_those_of_the_run_exactly(stats):
    run = run_of(stats)
    found, made = Estimates(run), twin(run, GRAPH)
    assert made.num_edges == found.num_edges
    assert (made.x != GRAPH.x).nnz == 0
    assert made.y.tolist() == GRAPH.y.tolist()
    if found.mixing is not None:
        assert Counted(made).mixing().tolist() == found.mixing[np.triu_indices(len(found.mixing))].tolist()


@pytest.mark.parametrize("stats", ["auto", "edges,degrees,mixing", "edges,degrees"])
def test_no_node_has_a_degree_that_no_release_speaks_of(stats):
    """Of a graph without hubs wedges are mostly noise, and may not make any."""
    made = np.random.default_rng(0)
    edges = np.unique(np.sort(made.integers(0, 600, (2400, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] < edges[:, 1]]
    y = made.integers(0, 4, 600)
    flat = sf.graph.Graph.from_edges(*edges.T, 600, directed=False, y=y, classes=tuple("abcd"), name="flat")
    for epsilon in (0.5, 1.0, 4.0):
        run = run_of(stats, flat, epsilon)
        found, new = Estimates(run), np.diff(twin(run, flat).indptr)
        means = [new[y == group].mean() for group in range(4)]
        assert new.max() <= max(found.sequence("degrees")[-1], *means) + 1


def test_degrees_and_triangles_are_near_those_of_the_graph():
    made = twin(run_of(epsilon=200.0), GRAPH)
    real, new = Counted(GRAPH), Counted(made)
    assert abs(new.triangles()[0] / real.triangles()[0] - 1) < 0.02
    assert abs(new.wedges()[0] / real.wedges()[0] - 1) < 0.02
    assert np.corrcoef(real.node_degrees()[0], new.node_degrees()[0])[0, 1] > 0.99
    assert (
        new.triangles()[0]
        > 1.1 * Counted(twin(run_of(ALL.replace(",triangles", ""), epsilon=200.0), GRAPH)).triangles()[0]
    )


def test_triangles_within_groups_are_kept_by_group():
    made = twin(run_of("edges,mixing,degrees,triangles", epsilon=500.0, grouped=True), GRAPH)
    real, new = (Counted(one).triangles(grouped=True) for one in (GRAPH, made))
    large = real > 500
    assert large.sum() >= 3
    assert np.abs(new[large] / real[large] - 1).max() < 0.15


def test_directed_graphs_keep_degrees_both_ways_and_mixing():
    ends = np.random.default_rng(0).integers(120, size=(2, 900)) ** 2 // 120
    graph = sf.graph.Graph.from_edges(*ends, 120, directed=True, y=np.arange(120) % 3)
    run = run_of("edges,mixing,degrees,node-degrees", graph, epsilon=400.0)
    made = twin(run, graph)
    assert made.directed
    assert Counted(made).mixing().tolist() == Estimates(run).mixing.ravel().tolist()
    for real, new in zip(Counted(graph).node_degrees(), Counted(made).node_degrees(), strict=True):
        assert np.corrcoef(real, new)[0, 1] > 0.9
    assert twin(run, with_arcs(graph, 2)).indices.tolist() == made.indices.tolist()


def test_other_nodes_labels_and_units_are_refused():
    run = run_of("edges")
    with pytest.raises(InputError, match="nodes of the run"):
        twin(run, sf.graph.campus(400))
    with pytest.raises(InputError, match="nodes of each class"):
        twin(run, GRAPH.changed(y=np.zeros_like(GRAPH.y)))
    with pytest.raises(InputError, match="knows how many edges"):
        twin(run_of("triangles"), GRAPH)
    with pytest.raises(InputError, match="run of statistics"):
        twin(replace(run, plan=replace(run.plan, method=sf.LabelMessages())), GRAPH)
    unit, graph = sf.NodeLevel(arcs="incident"), GRAPH.changed(max_degree=400)
    public = graph.public_facts(unit, assume_public=True)
    nodes = Statistics("edges").calibrate(sf.Budget(1.0, 0.0), unit, public).fit(graph)
    with pytest.raises(InputError, match="nodes of the twin are made up"):
        twin(nodes, graph)
    mixed = Statistics("edges,mixing").calibrate(sf.Budget(1.0, 0.0), unit, public).fit(graph)
    with pytest.raises(InputError, match="how many nodes each group has"):
        twin(mixed)
    with pytest.raises(InputError, match="Pass them as nodes"):
        twin(run)


@pytest.mark.parametrize("stats", ["auto", "edges,degrees", "edges,mixing,degrees,triangles,groups"])
def test_a_twin_of_people_is_made_of_the_release_alone(stats):
    unit, graph = sf.NodeLevel(arcs="incident"), GRAPH.changed(max_degree=400)
    public = graph.public_facts(unit, assume_public=True)
    run = Statistics(stats).calibrate(sf.Budget(200.0, 0.0), unit, public).fit(graph)
    found, made = Estimates(run), twin(run, seed=3)
    assert (made.num_nodes, made.num_features, made.num_edges) == (500, 0, found.num_edges)
    assert twin(run, seed=3).indices.tolist() == made.indices.tolist()
    assert twin(run, seed=4).indices.tolist() != made.indices.tolist()
    if "groups" not in stats and stats != "auto":
        assert made.y is None
        return
    sizes = np.append(np.bincount(made.y[made.y >= 0], minlength=len(made.classes)), (made.y < 0).sum())
    assert sizes.tolist() == found.sizes.tolist()
    assert np.abs(sizes[:-1] - np.bincount(GRAPH.y)).max() <= 3
    assert (made.y == GRAPH.y).mean() < 0.5  # no node stands for one of the graph
    table = found.mixing[np.triu_indices(len(found.mixing))]
    moved = np.abs(Counted(made).mixing() - table).sum()  # edges of nodes without a label, of which there are none
    assert moved <= 2 * found.mixing[-1].sum()


@pytest.mark.parametrize("epsilon", [1e-3, 0.05])
def test_very_noisy_releases_still_make_a_simple_graph(epsilon):
    graph = sf.graph.campus(150, seed=0)
    made = twin(run_of(graph=graph, epsilon=epsilon), graph)
    source = np.repeat(np.arange(150), np.diff(made.indptr))
    assert (source != made.indices).all()
    assert len(np.unique(source * 150 + made.indices)) == made.num_arcs


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("fill", [0.1, 0.6, 1.0])
def test_wiring_fills_any_table_without_loops_or_repeats(directed, fill):
    sizes = np.array([1, 4, 9, 0])
    groups, made = np.repeat(np.arange(4), sizes), np.random.default_rng(0)
    table = np.floor(fill * capacities(sizes, directed=directed)).astype(np.int64)
    dealt = stubs_of(table, directed=directed)
    leaving = to_totals(made, np.ones(14), groups, dealt.sum(1), 1)
    entering = to_totals(made, np.ones(14), groups, dealt.sum(0), 1) if directed else None
    keys = wire(made, groups, table, leaving, entering)
    source, target = Pairs(14, directed).ends(keys)
    assert len(np.unique(keys)) == len(keys)
    assert (source != target).all()
    found = np.zeros((4, 4), int)
    np.add.at(found, (groups[source], groups[target]), 1)
    assert (found if directed else np.triu(found + found.T - np.diag(np.diag(found)))).tolist() == (
        table if directed else np.triu(table)
    ).tolist()
