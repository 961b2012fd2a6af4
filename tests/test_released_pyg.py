"""A released graph in PyTorch Geometric holds what was released and what is public, and nothing that the unit protects."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.central._promised import PromisedMessages
from sfumato.errors import InputError
from sfumato.graph import Graph, stochastic_block_model
from sfumato.graph._declared import with_public_degrees
from sfumato.graph._subgraph import induced
from sfumato.pyg import released_to_pyg
from sfumato.record._release_folder import read_release

EDGE, ARC, NODE = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True), sf.NodeLevel(max_out_degree=10)
STEPS = 32767
BUDGET = sf.Budget(2.0, 1e-6)


@pytest.fixture(scope="module")
def graph():
    return stochastic_block_model(60, 3, mean_degree=8, num_features=4, seed=0).with_split()


@pytest.fixture
def run(graph, tmp_path):
    def fit(method, unit=EDGE, graph=graph):
        plan = method.calibrate(BUDGET, unit, graph.public_facts(unit))
        return plan.fit(graph).save(tmp_path / "run", ids_of=graph)

    return fit


def arcs_of(graph):
    return set(
        zip(np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)).tolist(), graph.indices.tolist(), strict=True)
    )


def test_rows_of_all_hops_stand_side_by_side_without_an_edge(run, graph):
    folder = run(sf.GAP(epochs=1, num_hops=11))
    released, data = read_release(folder).released, released_to_pyg(folder, graph)
    width = released["aggregate/1"].shape[1]
    assert data.x.shape == (60, 11 * width)
    for hop in (1, 2, 10, 11):
        rows = data.x[:, (hop - 1) * width : hop * width].numpy()
        assert np.array_equal(rows, (released[f"aggregate/{hop}"] / STEPS).astype(np.float32))
    assert data.edge_index.shape == (2, 0)
    assert data.y.tolist() == graph.y.tolist()
    assert data.train_mask.tolist() == graph.train_mask.tolist()
    assert data.node_ids == [str(v) for v in range(60)]


@pytest.mark.parametrize("name", ["edgerand", "lapgraph"])
def test_released_edges_are_both_ways_and_are_not_the_private_ones(run, graph, name):
    folder = run(method_named(name, epochs=1))
    data = released_to_pyg(folder / "release", graph)
    pairs = read_release(folder).released["edges"]
    found = list(map(tuple, data.edge_index.T.tolist()))
    assert sorted(found) == sorted([*map(tuple, pairs.tolist()), *map(tuple, pairs[:, ::-1].tolist())])
    assert set(found) != arcs_of(graph)
    assert np.array_equal(data.x.numpy(), graph.x)  # no row was released, and features are public


def test_released_arcs_keep_their_direction(run, graph):
    source, target = np.array(sorted(arcs_of(graph))).T
    kept = source < target
    directed = Graph.from_arcs(
        source[kept], target[kept], 60, directed=True, x=graph.x, y=graph.y, roles=graph.roles, classes=graph.classes
    )
    folder = run(method_named("edgerand", epochs=1), ARC, directed)
    data = released_to_pyg(folder)
    assert np.array_equal(data.edge_index.T.numpy(), read_release(folder).released["edges"])
    assert data.x is None


def test_private_labels_and_features_stay_out(run, graph):
    data = released_to_pyg(run(sf.GAP(epochs=1), NODE), graph)
    assert data.y is None
    assert data.edge_index.shape == (2, 0)
    assert data.x.shape[1] != graph.num_features
    assert data.val_mask.tolist() == graph.val_mask.tolist()


def test_arcs_of_the_given_graph_decide_nothing(run, graph):
    folder = run(sf.LabelMessages(epochs=1))
    empty = replace(graph, indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])
    one, other = released_to_pyg(folder, graph), released_to_pyg(folder, empty)
    first, second = one.to_dict(), other.to_dict()
    assert first.keys() == second.keys()
    assert all(np.array_equal(value, second[key]) for key, value in first.items())


def test_a_list_of_ids_is_there_only_if_it_left(graph, tmp_path):
    plan = sf.LabelMessages(epochs=1).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    assert "node_ids" not in released_to_pyg(plan.fit(graph).save(tmp_path / "run"))


def test_public_values_stand_beside_the_released_rows_whatever_the_order_of_the_graph(graph, tmp_path):
    plan = sf.LabelMessages(epochs=1).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    folder = plan.fit(graph).save(tmp_path / "run")
    turned = induced(graph, np.random.default_rng(0).permutation(graph.num_nodes))
    one, two = (released_to_pyg(folder, asked) for asked in (graph, turned))
    for name in ("x", "y", "train_mask", "test_mask"):
        assert (one[name] == two[name]).all()
    with pytest.raises(InputError, match="to have the labels of the run"):
        released_to_pyg(folder, replace(graph, y=graph.y[::-1]))


def test_a_run_without_rows_or_privacy_and_another_graph_are_refused(run, graph, tmp_path):
    plan = sf.GAP(epochs=1).calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    with pytest.raises(InputError, match="to be of a private unit"):
        released_to_pyg(plan.fit(graph).save(tmp_path / "open"), graph)
    folder = run(sf.MLP(epochs=1))
    with pytest.raises(InputError, match="released rows or edges"):
        released_to_pyg(folder, graph)
    plan = sf.LabelMessages(epochs=1).calibrate(BUDGET, EDGE, graph.public_facts(EDGE))
    folder = plan.fit(graph).save(tmp_path / "labels")
    with pytest.raises(InputError, match="node ids of the run"):
        released_to_pyg(folder, replace(graph, node_ids=np.arange(60) + 1))


def test_rows_of_a_selected_candidate_are_there(run, graph):
    folder = run(sf.Tuned((sf.GAP(epochs=1, num_hops=1), sf.GAP(epochs=1, num_hops=2)), "logarithmic", 4))
    hops = read_release(folder).released
    assert released_to_pyg(folder).x.shape == (60, sum(rows.shape[1] for rows in hops.values()))


def test_rows_for_single_nodes_stay_out(tmp_path):
    unit = sf.NodeLevel(arcs="incident")
    graph = with_public_degrees(
        stochastic_block_model(600, 3, mean_degree=20, homophily=0.8, num_features=4, seed=0).with_split()
    )
    plan = PromisedMessages().calibrate(sf.Budget(8.0, 1e-5), unit, graph.public_facts(unit))
    folder = plan.fit(graph).save(tmp_path / "run")
    assert "aggregate/1" in read_release(folder).released  # the folder has them
    with pytest.raises(InputError, match="released rows or edges"):
        released_to_pyg(folder, graph)
