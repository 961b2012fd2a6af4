"""Types of edges: read from tables, kept with their arcs, told to plans and certificates, and refused where nothing is proved."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sfumato as sf
from sfumato.errors import DataError, DroppedWarning, InputError, SchemaError
from sfumato.evaluation._links import hold_out
from sfumato.graph import from_frames, read_csv, read_parquet
from sfumato.graph._graph import Graph
from sfumato.graph._subgraph import induced
from sfumato.graph._types import EdgeTypes
from sfumato.method._opening import _graph_mac
from sfumato.verify import verify

NODES = pd.DataFrame({"id": ["ann", "bob", "cat", "dan"], "age": [1, 2, 3, 4]})
EDGES = pd.DataFrame({
    "source": ["ann", "bob", "ann", "cat", "ann"],
    "target": ["bob", "ann", "cat", "dan", "bob"],
    "kind": ["friend", "call", "call", "friend", "friend"],
})  # fmt: skip
HOW = {"edge_type": "kind", "edge_types": ["friend", "call"]}
EDGE = sf.EdgeLevel(directed=False)


def people(nodes=160, seed=0, public=()):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=nodes)
    source, target = rng.integers(nodes, size=(2, 900))
    kinds = rng.integers(3, size=900)
    alike = (kinds == 1) & (rng.random(900) < 0.7)
    for row in np.flatnonzero(alike):
        target[row] = rng.choice(np.flatnonzero(y == y[source[row]]))
    types = {"edge_type": kinds, "edge_types": ("far", "near", "other"), "public_types": public}
    return Graph.from_edges(source, target, nodes, directed=False, y=y, **types).with_split(labeled=True)


def matrix(graph, name):
    there = graph.types.of(name).astype(np.int64)
    return sp.csr_matrix((there, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2).toarray()


def test_rows_of_one_pair_in_several_types_are_one_arc_with_a_bit_for_each():
    graph = from_frames(NODES, EDGES, **HOW)
    assert graph.num_edges == 3
    assert matrix(graph, "friend").tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert matrix(graph, "call").tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    directed = from_frames(NODES, EDGES, directed=True, **HOW)
    assert matrix(directed, "call").tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_every_reader_and_the_schema_say_the_same(tmp_path):
    whole = from_frames(NODES, EDGES, **HOW, public_types=["call"])
    NODES.to_csv(tmp_path / "n.csv", index=False)
    EDGES.to_csv(tmp_path / "e.csv", index=False)
    NODES.to_parquet(tmp_path / "n.parquet")
    EDGES.to_parquet(tmp_path / "e.parquet")
    schema = {"edges": {"type": "kind", "types": ["friend", "call"], "public": ["call"]}}
    for found in (
        read_csv(tmp_path / "n.csv", tmp_path / "e.csv", schema=schema),
        read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet", **HOW, public_types=("call",)),
    ):
        assert np.array_equal(found.types.marks, whole.types.marks)
        assert (found.types.names, found.types.public) == (("friend", "call"), ("call",))
    facts = whole.public_facts(EDGE).to_dict()
    assert (facts["edge_types"], facts["public_types"]) == (["friend", "call"], ["call"])


def test_a_graph_of_one_type_is_the_plain_graph():
    one = EDGES.assign(kind="friend")
    with pytest.warns(DroppedWarning):
        plain = from_frames(NODES, one)
    graph = from_frames(NODES, one, edge_type="kind", edge_types=["friend"])
    assert graph.types is None
    assert np.array_equal(graph.indices, plain.indices)
    assert {"edge_types", "public_types"}.isdisjoint(graph.public_facts(EDGE).to_dict())


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"edge_type": "kind"}, InputError, "1 to 16 different names"),
        ({"edge_type": "kind", "edge_types": ["friend"]}, DataError, "row 2 of .* has another, or none"),
        ({"edge_types": ["friend"]}, InputError, "to stand beside edge_type"),
        ({"edge_type": "source", "edge_types": ["a", "b"]}, DataError, "beside its ends"),
        ({"edge_type": "knd", "edge_types": ["a", "b"]}, DataError, "Did you mean"),
        ({**HOW, "public_types": ["school"]}, InputError, "to be among the types friend, call"),
        ({**HOW, "public_types": ["friend", "call"]}, InputError, "to leave a type that is protected"),
        ({"edge_type": "kind", "edge_types": ["friend", "friend"]}, InputError, "different names"),
        ({"edge_type": "kind", "edge_types": ["friend", "a\nVALID"]}, InputError, "letters, digits"),
        ({**HOW, "edge_weight": "kind", "max_weight": 1}, InputError, "types or weights of edges, got both"),
        ({**HOW, "person": "source", "edges_per_person": 2}, InputError, "types of edges or owners of edges, got both"),
        ({"schema": {"edges": {"type": "kind"}}}, SchemaError, "types, the list of all types"),
        ({"schema": {"edges": {"type": "kind", "types": ["friend", "call"], "max": 1}}}, SchemaError, "without weight"),
        ({**HOW, "schema": {"edges": {"type": "source", "types": ["a", "b"]}}}, InputError, "Expected one edge_type"),
    ],
)
def test_what_is_not_declared_or_not_proved_is_refused(how, error, message):
    with pytest.raises(error, match=message):
        from_frames(NODES, EDGES, **how)


def test_types_and_weights_together_are_refused():
    """One record would move the sums of several types: the near miss of tests/soundness/test_types.py."""
    graph = from_frames(NODES, EDGES, **HOW)
    from sfumato.graph._weights import EdgeWeights

    with pytest.raises(InputError, match="types or weights of edges, got both"):
        replace(graph, weights=EdgeWeights(np.ones(graph.num_arcs, np.uint16), 1.0))
    with pytest.raises(InputError, match="types or weights of edges, got both"):
        Graph.from_edges(
            [0], [1], 2, directed=False, edge_type=[0], edge_types=("a", "b"), edge_weight=[1.0], max_weight=1
        )


def test_types_and_owners_of_edges_together_are_refused():
    """A person keeps pairs of nodes, and a pair of two types moves the sums of both."""
    with pytest.raises(InputError, match="types of edges or owners of edges, got both"):
        replace(people(), edges_per_person=1)
    owned = {"person": [0, 0], "edges_per_person": 1}
    with pytest.raises(InputError, match="types of edges or owners of edges, got both"):
        Graph.from_edges([0, 0], [1, 1], 2, directed=False, edge_type=[0, 1], edge_types=("a", "b"), **owned)


def test_the_verifier_refuses_types_that_no_method_reads_and_lists_that_name_no_types():
    from sfumato.verify._methods import rules_of
    from sfumato.verify._types import type_faults

    def faults(method="label-messages", unit="edge", **facts):
        return list(type_faults({"method": method, "unit": {"name": unit}, "public_facts": facts}, rules_of(method)))

    assert faults() == faults(edge_types=["a", "b"]) == faults(edge_types=["a", "b"], public_types=["b"]) == []
    for found in (
        faults("lapgraph", edge_types=["a", "b"]),
        faults("gap", edge_types=["a", "b"], public_types=["a"]),  # by_type is a rule of the method
        faults("gap", "node", edge_types=["a", "b"]),
        faults(unit="node", edge_types=["a", "b"]),
        faults(edge_types=["a"]),
        faults(edge_types=["a", "a"]),
        faults(public_types=["a"]),
        faults(edge_types=["a", "b"], public_types=["a", "b"]),
        faults(edge_types=["a", "b"], public_types=["c"]),
        faults(edge_types=["a", "b"], max_weight=1.0),
        faults(edge_types=["a", "b"], edges_per_person=2),
    ):
        assert len(found) == 1, found


def test_marks_that_do_not_fit_are_refused():
    graph = people()
    with pytest.raises(DataError, match=r"take their types along \(types.take\)"):
        replace(graph, indptr=np.zeros(161, np.int64), indices=np.zeros(0, np.int32))
    names = graph.types.names
    for marks in (np.zeros_like(graph.types.marks), np.full_like(graph.types.marks, 8)):
        with pytest.raises(DataError, match="every arc to have a declared type"):
            replace(graph, types=EdgeTypes(marks, names))
    odd = graph.types.marks.copy()
    odd[0] ^= 6
    odd[0] |= 1
    with pytest.raises(DataError, match="both arcs of every edge to have the same types"):
        replace(graph, types=EdgeTypes(odd, names))


def test_types_stay_with_their_arcs_and_are_kept_on_disk(tmp_path):
    graph = people(public=("other",))
    chosen = np.random.default_rng(1).permutation(160)[:50]
    part, held = induced(graph, chosen), hold_out(graph, 0).graph
    for name in graph.types.names:
        assert np.array_equal(matrix(part, name), matrix(graph, name)[np.ix_(chosen, chosen)])
        left = matrix(held, name)
        assert np.array_equal(left[left > 0], matrix(graph, name)[left > 0])
    graph.save(tmp_path / "store")
    found = Graph.load(tmp_path / "store")
    assert np.array_equal(found.types.marks, graph.types.marks)
    assert (found.types.names, found.types.public) == (graph.types.names, ("other",))
    graph.changed(types=None).save(tmp_path / "plain")
    assert "edge_types" not in (tmp_path / "plain" / "graph.json").read_text()


def test_the_key_of_what_a_fit_reads_holds_the_types():
    graph, key = people(), bytes(32)
    swapped = replace(graph, types=EdgeTypes(graph.types.marks, ("near", "far", "other")))
    macs = {_graph_mac(one, "same", key) for one in (graph, swapped, graph.changed(types=None))}
    assert len(macs) == 3


@pytest.mark.parametrize("public", [(), ("other",), ("far", "other")])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_run_says_which_types_are_protected_verifies_and_predicts_again(tmp_path, public, hops):
    graph = people(public=public)
    plan = sf.LabelMessages(num_hops=hops).calibrate(sf.Budget(4.0, 0.0), EDGE, graph.public_facts(EDGE))
    fitted = plan.fit(graph)
    kept = [name for name in ("far", "near", "other") if name not in public]
    told = f" while edges of other types are public ({', '.join(public)})" if public else ""
    assert fitted.certificate.values["protects"].endswith(f"of one type ({', '.join(kept)}){told}")
    assert fitted.released["aggregate/1"].shape == (160, hops * len(kept) * 3)
    fitted.save(tmp_path / "run")
    assert verify(tmp_path / "run").valid
    again = sf.load(tmp_path / "run")
    np.testing.assert_allclose(again.predict_proba(graph), fitted.predict_proba(graph), atol=1e-5)


@pytest.mark.parametrize(
    "method",
    [
        sf.GAP(epochs=2, by_type=True),
        sf.GAP(epochs=2, encoder=False, combine="sum", by_type=True),
        sf.ProGAP(epochs=2, by_type=True),
    ],
)
@pytest.mark.parametrize("unit", [EDGE, sf.NoPrivacy()])
def test_networks_on_sums_by_type_verify_and_predict_again(tmp_path, method, unit):
    """Types that are declared public are protected as the others are."""
    graph = replace(people(public=("other",)), x=np.eye(4, dtype=np.float32)[np.arange(160) % 4])
    budget = sf.Budget(4.0, 1e-6) if unit.private else None
    fitted = method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)
    width = method.message_width(fitted.plan.public) if isinstance(method, sf.GAP) else method.width
    assert all(sums.shape == (160, 3 * width) for sums in fitted.released.values())
    assert fitted.plan.public.public_types is None
    fitted.save(tmp_path / "run")
    assert verify(tmp_path / "run").problems == ()
    np.testing.assert_allclose(sf.load(tmp_path / "run").predict_proba(graph), fitted.predict_proba(graph), atol=1e-5)
    if unit.private:
        assert fitted.certificate.values["protects"].endswith("of one type (far, near, other)")
        other = people(200, seed=1).changed(x=np.eye(4, dtype=np.float32)[np.arange(200) % 4])
        again = fitted.calibrate_inference(budget, unit, other.public_facts(unit)).fit(other)
        assert again.predict_proba(other).shape == (200, 3)
        assert again.released["aggregate/1"].shape == (200, 3 * width)


def test_methods_without_types_say_that_they_see_one_kind_of_links():
    graph = people()
    with pytest.warns(DroppedWarning, match="linked if an edge of any type links them"):
        plan = sf.GAP(epochs=2).calibrate(sf.Budget(4.0, 1e-6), EDGE, graph.public_facts(EDGE))
    assert plan.public.edge_types is None
    assert "type" not in plan.fit(graph).certificate.values["protects"]


def test_predicting_needs_public_types_and_another_graph_is_read_with_the_same_ones():
    graph = people(public=("other",))
    fitted = sf.LabelMessages().calibrate(sf.Budget(8.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)
    other = people(200, seed=1, public=("other",))
    plan = fitted.calibrate_inference(sf.Budget(8.0, 0.0), EDGE, other.public_facts(EDGE))
    assert plan.fit(other).predict_proba(other).shape == (200, 3)
    with pytest.raises(InputError, match="edge_types"):
        fitted.calibrate_inference(sf.Budget(8.0, 0.0), EDGE, other.changed(types=None).public_facts(EDGE))


def papers():
    """Authors, papers and venues: a paper has a class, and so have most papers of its authors."""
    torch, pyg = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    rng = np.random.default_rng(0)
    data = pyg.HeteroData()
    y = rng.integers(3, size=300)
    data["author"].num_nodes = 100
    data["paper"].x = torch.eye(3)[torch.tensor(rng.integers(3, size=300))]
    data["paper"].y = torch.tensor(y)
    writers = np.concatenate([rng.permutation(100)[:3] for _ in range(300)])
    data["author", "writes", "paper"].edge_index = torch.tensor(np.stack([writers, np.repeat(np.arange(300), 3)]))
    cited = np.array(
        [rng.choice(np.flatnonzero(y == one)) if rng.random() < 0.8 else rng.integers(300) for one in np.repeat(y, 3)]
    )
    data["paper", "cites", "paper"].edge_index = torch.tensor(np.stack([np.repeat(np.arange(300), 3), cited]))
    return data


def test_hetero_data_is_one_graph_with_types_of_nodes_as_features_and_types_of_edges():
    data = papers()
    graph = sf.graph.from_pyg(data, directed=False, public_types=["writes"])
    assert (graph.num_nodes, graph.num_classes, graph.num_features) == (400, 3, 2 + 3)
    assert graph.feature_names[:3] == ("type=author", "type=paper", "paper[0]")
    assert (graph.types.names, graph.types.public) == (("writes", "cites"), ("writes",))
    assert (graph.y[:100] == -1).all()
    assert np.array_equal(graph.y[100:], data["paper"].y.numpy())
    source, target = data["author", "writes", "paper"].edge_index.numpy()
    expected = np.zeros((400, 400), np.int64)
    expected[source, target + 100] = expected[target + 100, source] = 1
    assert np.array_equal(matrix(graph, "writes"), expected)
    graph = graph.with_split(labeled=True)
    fitted = sf.LabelMessages().calibrate(sf.Budget(4.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)
    known = graph.test_mask & (graph.y >= 0)
    assert (fitted.predict(graph) == graph.y)[known].mean() > 0.5


def test_a_type_that_leads_back_is_no_second_record():
    import torch_geometric.transforms as transforms

    data = papers()
    both = transforms.ToUndirected()(papers())
    with pytest.warns(DroppedWarning, match="rev_writes"):
        graph = sf.graph.from_pyg(both, directed=False)
    assert graph.types.names == ("writes", "cites")
    assert np.array_equal(graph.types.marks, sf.graph.from_pyg(data, directed=False).types.marks)
    with pytest.raises(DataError, match="one edge would be two records"):
        sf.graph.from_pyg(both, directed=True)


def test_hetero_data_that_says_too_little_is_refused_with_what_to_do():
    data = papers()
    with pytest.raises(InputError, match="to be a type of nodes with y"):
        sf.graph.from_pyg(data, directed=False, label="author")
    data["author"].y = data["paper"].y[:100]
    with pytest.raises(InputError, match="Name one with label"):
        sf.graph.from_pyg(data, directed=False)
    assert sf.graph.from_pyg(data, directed=False, label="paper").num_classes == 3
    data["paper", "cites", "paper"].edge_index[0, 0] = 300
    with pytest.raises(DataError, match="among the nodes of type 'paper'"):
        sf.graph.from_pyg(data, directed=False, label="paper")


def test_multigraphs_of_networkx_are_read_by_keys_or_by_an_attribute():
    import networkx as nx

    g = nx.MultiGraph()
    g.add_edge("ann", "bob", key="friend")
    g.add_edge("ann", "bob", key="call")
    g.add_edge("bob", "cat", key="call")
    graph = sf.graph.from_networkx(g, edge_type="key", edge_types=["friend", "call"])
    assert (graph.num_edges, graph.types.marks.tolist()) == (2, [3, 3, 2, 2])
    named = nx.MultiGraph()
    named.add_edges_from(
        [("ann", "bob", {"kind": "friend"}), ("bob", "ann", {"kind": "call"}), ("bob", "cat", {"kind": "call"})]
    )
    again = sf.graph.from_networkx(named, edge_type="kind", edge_types=["friend", "call"])
    assert np.array_equal(again.types.marks, graph.types.marks)
    with pytest.raises(DataError, match="or types of edges, got MultiGraph"):
        sf.graph.from_networkx(g)
    with pytest.raises(DataError, match="has another, or none"):
        sf.graph.from_networkx(g, edge_type="key", edge_types=["friend", "school"])


DATED = EDGES.assign(day=["2025-11-30", "2026-01-01", "2026-03-31", "2025-10-01", "2026-02-01"]).drop(columns="kind")
QUARTERS = {"edge_type": "day:quarter", "edge_types": ["2025-Q4", "2026-Q1"]}


def test_public_types_cannot_be_explained_and_protected_ones_can():
    plain, mixed = people(), people(public=("other",))
    told = sf.LabelMessages().calibrate(sf.Budget(8.0, 0.0), EDGE, plain.public_facts(EDGE)).fit(plain)
    assert "released row" in told.explain(plain, 3).parts
    fitted = sf.LabelMessages().calibrate(sf.Budget(8.0, 0.0), EDGE, mixed.public_facts(EDGE)).fit(mixed)
    with pytest.raises(InputError, match="links of these types in the clear"):
        fitted.explain(mixed, 3)


@pytest.mark.parametrize("form", ["text", "date", "time"])
def test_windows_of_time_are_types_of_edges(form):
    days = {"text": DATED.day, "date": pd.to_datetime(DATED.day).dt.date, "time": pd.to_datetime(DATED.day, utc=True)}
    graph = from_frames(NODES, DATED.assign(day=days[form]), **QUARTERS)
    assert graph.types.names == ("2025-Q4", "2026-Q1")
    assert matrix(graph, "2025-Q4").tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert matrix(graph, "2026-Q1").tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("2026-04-01", "has another, or none"),
        ("", "no date"),
        ("yesterday", "no date of ISO 8601"),
        ("2026", "does not say"),
    ],
)
def test_a_time_in_no_declared_window_is_refused_with_its_row_and_without_its_value(cell, message):
    rows = DATED.assign(day=[*DATED.day[:4], cell])
    with pytest.raises(DataError, match=f"row 5 .*{message}") as refused:
        from_frames(NODES, rows, **QUARTERS)
    assert "2026-04" not in str(refused.value)
    assert "yesterday" not in str(refused.value)
