"""Weights of edges: how they are read, clipped, added, kept and refused."""

import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from sfumato.errors import DataError, DroppedWarning, InputError, SchemaError
from sfumato.evaluation._links import hold_out
from sfumato.graph import (
    Graph,
    Newcomers,
    Schema,
    from_frames,
    from_networkx,
    from_pyg,
    from_scipy,
    import_tables,
    induced,
    read_csv,
    read_parquet,
    read_sql,
    stochastic_block_model,
    to_networkx,
    to_pyg,
)
from sfumato.graph._weights import CLIPPED, FULL, EdgeWeights

NODES = pd.DataFrame({"id": [1, 2, 3, 4], "age": [1.0, 2.0, 3.0, 4.0], "kind": ["a", "b", "a", "b"]})
EDGES = pd.DataFrame({"source": [1, 2, 2, 3], "target": [2, 1, 3, 4], "amount": [10.0, 20.0, 300.0, 0.0]})
HOW = {"edge_weight": "amount", "max_weight": 100}
EXPECTED = [30.0, 30.0, 100.0, 100.0, 0.0, 0.0]


def payments(**fields):
    return from_frames(NODES, EDGES, label="kind", **HOW, **fields)


def close(graph, expected):
    return np.allclose(graph.weights.values, expected, atol=graph.weights.bound / FULL)


@pytest.mark.parametrize("kind", ["csv", "parquet", "sql", "frames", "schema"])
def test_every_reader_adds_rows_of_one_edge_and_clips_to_the_bound(tmp_path, kind):
    nodes, edges = tmp_path / f"nodes.{kind}", tmp_path / f"edges.{kind}"
    if kind in ("csv", "schema"):
        NODES.to_csv(nodes, index=False)
        EDGES.to_csv(edges, index=False)
        how = {"schema": {"edges": {"weight": "amount", "max": 100}}} if kind == "schema" else HOW
        graph = read_csv(nodes, edges, **how)
    elif kind == "parquet":
        NODES.to_parquet(nodes)
        EDGES.to_parquet(edges)
        graph = read_parquet(nodes, edges, **HOW)
    elif kind == "sql":
        import duckdb

        with duckdb.connect() as connection:
            connection.register("people", NODES)
            connection.register("paid", EDGES)
            graph = read_sql(connection, "SELECT * FROM people", "SELECT * FROM paid", **HOW)
    else:
        graph = payments()
    assert close(graph, EXPECTED)
    assert graph.weights.bound == 100
    assert graph.outside == {CLIPPED: 1}
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]


def test_rows_of_a_directed_arc_are_added_and_its_reverse_is_another_arc():
    graph = payments(directed=True)
    assert close(graph, [10.0, 20.0, 100.0, 0.0])
    again = Graph.from_edges([0, 0], [1, 1], 2, directed=True, edge_weight=[60, 70], max_weight=100)
    assert close(again, [100.0])
    assert again.outside == {CLIPPED: 1}


def test_batches_of_rows_give_the_same_weights(monkeypatch, tmp_path):
    random = np.random.default_rng(0)
    ends = random.integers(0, 40, (2, 900))
    edges = pd.DataFrame({"source": ends[0], "target": ends[1], "amount": random.random(900)})
    nodes = pd.DataFrame({"id": range(40), "age": 0.0})
    nodes.to_parquet(tmp_path / "n.parquet")
    edges.to_parquet(tmp_path / "e.parquet")
    whole = from_frames(nodes, edges, edge_weight="amount", max_weight=2)
    monkeypatch.setattr("sfumato.tables._build._BATCH", 64)
    parts = read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet", edge_weight="amount", max_weight=2)
    assert np.array_equal(parts.weights.steps, whole.weights.steps)
    direct = Graph.from_edges(*ends, 40, directed=False, edge_weight=edges.amount, max_weight=2)
    assert np.array_equal(direct.weights.steps, whole.weights.steps)
    assert direct.outside == whole.outside != {}


def test_only_other_columns_are_said_to_be_dropped():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        from_frames(NODES, EDGES.assign(since=0), label="kind", **HOW)
    assert [str(one.message) for one in told] == ["Not read: since of the edges table."]
    assert told[0].filename == __file__


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_weight_that_is_none_names_its_row_and_never_the_value(tmp_path, bad):
    amounts = [10.0, 20.0, bad, 77.25]
    with pytest.raises(DataError, match="row 3 of the edges table has none in 'amount'") as said:
        from_frames(NODES, EDGES.assign(amount=amounts), **HOW)
    assert "77" not in str(said.value)
    NODES.to_csv(tmp_path / "n.csv", index=False)
    EDGES.assign(amount=amounts).to_csv(tmp_path / "e.csv", index=False)
    with pytest.raises(DataError, match=r"row 4 of .*e\.csv has none in 'amount'"):
        read_csv(tmp_path / "n.csv", tmp_path / "e.csv", **HOW)
    with pytest.raises(DataError, match="row 2 of the edges"):
        Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, edge_weight=[1, 1, bad], max_weight=9)


def test_a_column_that_holds_no_numbers_or_is_not_there_is_refused():
    with pytest.raises(DataError, match="to hold numbers, but row 1 has something else"):
        from_frames(NODES, EDGES.assign(amount=["a", "b", "c", "d"]), **HOW)
    with pytest.raises(DataError, match=r"to have the column 'amuont'.*Did you mean 'amount'"):
        from_frames(NODES, EDGES, edge_weight="amuont", max_weight=1)
    with pytest.raises(DataError, match="as both"):
        from_frames(NODES, EDGES, edge_weight="target", max_weight=1)
    with pytest.raises(DataError, match="one weight for each of 2 rows, got 1"):
        Graph.from_edges([0, 1], [1, 2], 3, directed=False, edge_weight=[1.0], max_weight=1)


def test_a_bound_is_declared_and_never_read_off_the_data():
    with pytest.raises(InputError, match="max_weight to be declared beside edge weights"):
        from_frames(NODES, EDGES, edge_weight="amount")
    with pytest.raises(InputError, match="to stand beside edge weights"):
        from_frames(NODES, EDGES, max_weight=9)
    with pytest.raises(InputError, match="to stand beside edge weights"):
        Graph.from_edges([0], [1], 2, directed=False, max_weight=1)
    for bound in (0, -1, np.inf, np.nan, "100"):
        with pytest.raises(InputError, match="max_weight"):
            from_frames(NODES, EDGES, edge_weight="amount", max_weight=bound)


def test_the_schema_declares_column_and_bound_together():
    schema = {"edges": {"weight": "amount", "max": 100}}
    assert close(from_frames(NODES, EDGES, schema=schema), EXPECTED)
    assert close(from_frames(NODES, EDGES, schema=schema, **HOW), EXPECTED)
    with pytest.raises(InputError, match=r"Expected one max_weight, got 50 beside 100\.0 in the schema"):
        from_frames(NODES, EDGES, schema=schema, max_weight=50)
    with pytest.raises(SchemaError, match="without looking at the data"):
        Schema.from_dict({"edges": {"weight": "amount"}})
    with pytest.raises(
        SchemaError,
        match=r"\[edges\] to have the keys weight, max, type, types, public, person, edges_per_person, got 'wieght'",
    ):
        Schema.from_dict({"edges": {"wieght": "amount", "max": 1}})
    with pytest.raises(SchemaError, match="a table with weight and max"):
        Schema.from_dict({"edges": 3})


def test_sparse_matrices_networkx_and_pyg_keep_weights_both_ways():
    graph = payments()
    matrix = sp.csr_matrix((graph.weights.values, graph.indices, graph.indptr))
    matrix.eliminate_zeros()
    assert close(from_scipy(matrix, directed=False, max_weight=50), [30.0, 30.0, 50.0, 50.0])
    with pytest.warns(DroppedWarning, match="weights of adjacency"):
        assert from_scipy(matrix, directed=False).weights is None
    data = to_pyg(graph)
    assert data.edge_weight.dtype == torch.float32
    back = from_pyg(data, False, edge_weight="edge_weight", max_weight=100)
    assert np.array_equal(back.weights.steps, graph.weights.steps)
    net = to_networkx(graph)
    assert net.edges[1, 2]["weight"] == pytest.approx(30, abs=0.01)
    again = from_networkx(net, features="x", edge_weight="weight", max_weight=100)
    assert np.array_equal(again.weights.steps, graph.weights.steps)
    assert to_pyg(stochastic_block_model(20, 2, mean_degree=3)).edge_attrs() == ["edge_index"]
    assert all(not facts for *_, facts in to_networkx(stochastic_block_model(20, 2, mean_degree=3)).edges(data=True))


def test_other_forms_of_pyg_and_networkx_are_refused():
    index = torch.tensor([[0, 1], [1, 0]])
    wide = Data(edge_index=index, edge_attr=torch.ones(2, 3), num_nodes=2)
    with pytest.raises(DataError, match="one number for each edge, got float32 of shape"):
        from_pyg(wide, False, edge_weight="edge_attr", max_weight=1)
    with pytest.raises(DataError, match="to have 'edge_weight'"):
        from_pyg(wide, False, edge_weight="edge_weight", max_weight=1)
    column = Data(edge_index=index, edge_attr=torch.ones(2, 1), num_nodes=2)
    assert close(from_pyg(column, False, edge_weight="edge_attr", max_weight=2), [1.0, 1.0])
    with pytest.raises(DataError, match="both arcs of every edge to have one weight"):
        from_pyg(Data(edge_index=index, w=torch.tensor([1.0, 2.0]), num_nodes=2), False, edge_weight="w", max_weight=2)
    net = nx.Graph([(0, 1), (1, 2)])
    net.edges[0, 1]["weight"] = 3
    with pytest.raises(DataError, match="row 2 of the edges of g has none in 'weight'"):
        from_networkx(net, edge_weight="weight", max_weight=9)


def test_a_store_keeps_weights(tmp_path):
    graph = payments()
    graph.save(tmp_path / "store")
    found = Graph.load(tmp_path / "store")
    assert np.array_equal(found.weights.steps, graph.weights.steps)
    assert found.weights.bound == 100
    replace(graph, weights=None).save(tmp_path / "plain")
    assert "max_weight" not in (tmp_path / "plain" / "graph.json").read_text()
    assert Graph.load(tmp_path / "plain").weights is None


def test_weights_stay_with_their_arcs_wherever_a_graph_is_made_of_another():
    random = np.random.default_rng(1)
    plain = stochastic_block_model(120, 3, mean_degree=8, num_features=2, seed=0)
    source = np.repeat(np.arange(120), np.diff(plain.indptr))
    first = source < plain.indices
    ends = source[first], plain.indices[first]
    graph = Graph.from_edges(
        *ends, 120, directed=False, edge_weight=random.random(len(ends[0])), max_weight=1, x=plain.x, y=plain.y
    )
    dense = sp.csr_matrix((graph.weights.steps.astype(np.int64), graph.indices, graph.indptr)).toarray()

    def agrees(part, nodes):
        arcs = np.repeat(np.arange(part.num_nodes), np.diff(part.indptr)), part.indices
        return np.array_equal(part.weights.steps, dense[np.ix_(nodes, nodes)][arcs])

    chosen = random.permutation(120)[:50]
    assert agrees(induced(graph, chosen), chosen)
    assert agrees(hold_out(graph, 0).graph, np.arange(120))
    assert agrees(graph.with_split(seed=3), np.arange(120))
    assert graph.with_split().weights is graph.weights
    late = Graph.from_edges([], [], 1, directed=False, node_ids=np.array([500]), x=plain.x[:1])
    joined = Newcomers.join(late, [graph], [0], [1])
    assert joined.weights is None
    assert joined.public_facts(type("U", (), {"public": (), "split": None})).max_weight is None


def test_a_graph_of_other_arcs_has_to_say_what_becomes_of_the_weights():
    graph = payments()
    with pytest.raises(DataError, match=r"take their weights along \(weights.take\), or drop them"):
        replace(graph, indptr=np.zeros(5, np.int64), indices=np.zeros(0, np.int32))
    with pytest.raises(DataError, match="clipped to their public bound"):
        replace(graph, weights=EdgeWeights(np.full(6, FULL + 1, np.uint16), 1.0))
    with pytest.raises(DataError, match="uint16"):
        replace(graph, weights=EdgeWeights(np.full(6, 1.0), 1.0))
    swapped = graph.weights.steps.copy()
    swapped[0] += 1
    with pytest.raises(DataError, match="an arc with another one than its reverse"):
        replace(graph, weights=EdgeWeights(swapped, 1.0))


def test_an_import_refuses_weights_and_says_what_to_do(tmp_path):
    NODES.to_csv(tmp_path / "n.csv", index=False)
    EDGES.to_csv(tmp_path / "e.csv", index=False)
    with pytest.raises(InputError, match=r"hold them in memory, and write the store with Graph\.save"):
        import_tables(tmp_path / "n.csv", tmp_path / "e.csv", tmp_path / "store", **HOW)
    import_tables(tmp_path / "n.csv", tmp_path / "e.csv", tmp_path / "store")
    assert Graph.load(tmp_path / "store").weights is None


def test_a_graph_shows_no_weight():
    graph = payments()
    assert repr(graph.weights) == "EdgeWeights(6 arcs, at most 100)"
    assert "30" not in repr(graph)
