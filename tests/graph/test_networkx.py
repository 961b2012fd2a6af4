"""NetworkX by the rules of tables: ids, names, kinds, and all that a schema declares."""

from datetime import date
from uuid import UUID

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, DroppedWarning, SchemaError
from sfumato.graph import Graph, from_frames, from_networkx, to_networkx

nx = pytest.importorskip("networkx")
pa = pytest.importorskip("pyarrow")


def built(nodes, edges=(), **facts):
    """A graph whose nodes have attributes: a list of one value a node, by name."""
    g = nx.Graph()
    for row, node in enumerate(nodes):
        g.add_node(node, **{name: values[row] for name, values in facts.items()})
    g.add_edges_from(edges)
    return g


@pytest.mark.parametrize(
    ("nodes", "ids"),
    [
        ([3, np.int64(1), 2], [3, 1, 2]),
        ([3.0, 1, np.float64(2)], [3, 1, 2]),
        (["3", "1", "2"], [3, 1, 2]),
        ([" a", "b ", "c"], ["a", "b", "c"]),
        ([1, "b", ("c", 1)], ["1", "b", "('c', 1)"]),
        ([(0, np.int64(1)), (0, 2.0), ("a", (1.5,))], ["(0, 1)", "(0, 2)", "('a', (1.5,))"]),
        ([2.0, UUID(int=7), np.str_("c")], ["2", str(UUID(int=7)), "c"]),
        ([2**63, 1, 2], [str(2**63), "1", "2"]),
        ([2**1100, 1, 2], [str(2**1100), "1", "2"]),
        (["007", "7", "x"], ["007", "7", "x"]),
    ],
)
def test_ids_are_those_of_tables(nodes, ids):
    g = built(nodes, [(nodes[0], nodes[2])])
    graph = from_networkx(g)
    assert graph.node_ids.tolist() == ids
    assert graph.indices.tolist() == [2, 0]
    if len({type(node) for node in nodes}) == 1 and not isinstance(nodes[0], int | tuple):
        table = pa.table({"id": nodes}), pa.table({"source": nodes[:1], "target": nodes[2:]})
        assert from_frames(*table).node_ids.tolist() == ids


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (["a", ""], "row 2 has none"),
        (["a", "NA"], "row 2 has none"),
        (["a", " nan "], "row 2 has none"),
        ([1.0, float("nan")], "to hold integers or text|row 2 has none"),
        ([1.5, 2.0], "to hold integers or text"),
        ([2.0**53, 1], "to hold integers or text"),
        (["a", "a "], "'a' in rows 1 and 2"),
        ([1, "1"], "has 1 in rows 1 and 2"),
        (["a", b"b"], "got bytes"),
        (["a", "b\ud800"], "text that UTF-8 has"),
        ([True, False], "got a boolean"),
        (["a", np.bool_(True)], "got a boolean"),
        ([(0, True), (0, 2)], "got a boolean"),
        ([frozenset("ab"), "c"], "got frozenset"),
        ([date(2024, 1, 2), "c"], "got date"),
    ],
)
def test_other_ids_are_refused(nodes, said):
    with pytest.raises(DataError, match=said):
        from_networkx(built(nodes))


def test_a_schema_declares_what_it_declares_of_tables():
    facts = {"age ": [10, 90, None], "part": ["train", "val", " Test "], "most": [1, 2, 1], "year": ["9", "+8", "NA"]}
    schema = {
        "id": "person", "label": " year", "classes": ["8", "9"], "role": "part", "degree_column": "most", "num_features": 1,
        "columns": {"age": {"min": 0, "max": 100}}, "edges": {"weight": "w", "max": 2},
    }  # fmt: skip
    g = built("abc", [("a", "b", {"w ": 1}), ("b", "c", {"w ": 3})], **facts)
    graph = from_networkx(g, schema=schema)
    assert graph.x.ravel().tolist() == pytest.approx([0.1, 0.9, 0])
    assert (graph.feature_names, graph.ranges) == (("age",), (("age", 0, 100),))
    assert (graph.roles.tolist(), graph.degree_bounds.tolist(), graph.y.tolist()) == ([0, 1, 2], [1, 2, 1], [1, 0, -1])
    assert graph.weights.values.tolist() == [1, 1, 2, 2]
    assert graph.assumed_public == ()
    nodes = {"person": ["a", "b", "c"], **{name.strip(): values for name, values in facts.items()}}
    edges = pa.table({"u": ["a", "b"], "v": ["b", "c"], "w": [1, 3]})
    table = from_frames(pa.table(nodes), edges, schema=schema)
    for part in ("x", "y", "roles", "degree_bounds", "indptr", "indices", "node_ids"):
        assert getattr(table, part).tolist() == getattr(graph, part).tolist()
    assert from_networkx(g, schema=schema | {"num_features": 0}, features=[]).x is None
    for more, said in (
        ({"columns": {"income": {"min": 0}}}, "'income', got none with it"),
        ({"columns": {"year": {"min": 0}}}, "features only, got 'year'"),
        ({"num_features": 2}, "num_features=2"),
        ({"role": "sort"}, "'sort', got none with it"),
    ):
        with pytest.raises((DataError, SchemaError), match=said):
            from_networkx(g, schema=schema | more)


def test_vectors_are_features_beside_all_else_that_a_schema_declares():
    g = built([1, 2], [(1, 2)], v=[np.array([1, 2]), [3.0, 4]], part=["train", "val"])
    graph = from_networkx(g, features=" v", schema={"role": "part", "num_features": 2})
    assert (graph.x.tolist(), graph.roles.tolist(), graph.assumed_public) == ([[1, 2], [3, 4]], [0, 1], ())
    with pytest.raises(SchemaError, match="num_features=3"):
        from_networkx(g, features="v", schema={"num_features": 3})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, None], "row 2 of the edges of g has none in 'w'"),
        ([1.0, 2**1100], "'w' to hold values of one kind"),
        ([1, 2j], "'w' to hold values of one kind"),
        ([1, "x"], "'w' to hold values of one kind"),
        (["1", "x"], "row 2 has something else"),
        ([True, True], "'w' of the edges of g to hold numbers, got bool"),
        (["\ud800", "1"], "'w' to hold values of one kind"),
    ],
)
def test_weights_are_those_of_tables(weights, said):
    g = nx.Graph([("a", "b", {"w": weights[0]}), ("b", "c", {"w": weights[1]})])
    with pytest.raises(DataError, match=said) as caught:
        from_networkx(g, edge_weight="w", max_weight=9)
    assert "2j" not in str(caught.value)
    nx.set_edge_attributes(g, "2.5", "w")
    assert from_networkx(g, edge_weight="w", max_weight=5).weights.values.tolist() == [2.5] * 4


def test_columns_of_usual_names_mean_nothing_of_themselves():
    g = built(["x", "y"], [("x", "y", {"source": 1.0})], id=[7, 8], source=[1, 2])
    graph = from_networkx(g, features=["source"], label="id", edge_weight="source", max_weight=1)
    assert (graph.node_ids.tolist(), graph.classes, graph.x.ravel().tolist()) == (["x", "y"], ("7", "8"), [1, 2])


def test_names_that_differ_by_white_space_alone_are_one_attribute():
    g = nx.Graph()
    g.add_node(1, age=1)
    g.add_node(2, **{"age ": 2})
    with pytest.raises(DataError, match="name of its own, got 'age' in 2 ways"):
        from_networkx(g, features=["age"])


FACTS = {
    "age": [3, None, 2.5],
    " dorm": ["north", float("nan"), "south "],
    "ok": [True, False, None],
    "no": ["007", "8", ""],
    "none": [None] * 3,
}
SCHEMA = {"columns": {"dorm": {"categories": ["north"]}}}


def frame_of(facts):
    table = {
        "person": ["a", "b", "c"],
        **{name: [None if one != one else one for one in facts[name]] for name in facts},
    }
    return pa.table(table), pa.table({"source": ["a"], "target": ["b"]})


@pytest.mark.parametrize("schema", [None, SCHEMA, {"drop": ["age"]}, {"label": "ok", "role": "part", "id": "person"}])
def test_all_attributes_are_features_as_all_columns_of_a_frame_are(schema):
    facts = FACTS | {"part": [0, 1, 2]}
    graph = from_networkx(built("abc", [("a", "b")], **facts), schema=schema)
    frame = from_frames(*frame_of(facts), schema=schema)
    assert graph.feature_names == frame.feature_names != ()
    assert graph.x.tolist() == frame.x.tolist()
    assert (graph.assumed_public, graph.outside) == (frame.assumed_public, frame.outside)


def test_features_are_chosen_left_out_or_none():
    g = built("abc", [("a", "b", {"since": 3})], **FACTS)
    assert from_networkx(g, features=()).x is None
    assert from_networkx(g, features=["age"]).feature_names == ("age",)
    assert from_networkx(g, drop=["dorm", "since", "ok"]).feature_names == ("age", "no", "none")
    with pytest.raises(DataError, match="drop to name columns of the nodes of g or the edges of g, got 'agee'"):
        from_networkx(g, drop=["agee"])
    with pytest.raises(DataError, match="'age' in both"):
        from_networkx(g, features="age", drop=["age"])


@pytest.mark.parametrize(
    "odd", [[1, 2], {"a": 1}, (1,), np.ones(2), date(2024, 1, 2), b"x", object()], ids=lambda odd: type(odd).__name__
)
def test_attributes_of_other_kinds_are_refused_unless_they_are_left_out(odd):
    g = built("ab", age=[1, 2], odd=[odd, None])
    with pytest.raises(DataError, match=r"'odd'.*drop=\['odd'\]"):
        from_networkx(g)
    assert from_networkx(g, drop=["odd"]).feature_names == ("age",)


def test_attributes_that_are_called_as_ids_are_no_features_by_themselves():
    g = built("ab", ID=[7, 8], person=[1, 2], age=[1, 2])
    with pytest.warns(DroppedWarning, match="Not read: ID, person of the nodes of g"):
        assert from_networkx(g, schema={"id": "person"}).feature_names == ("age",)
    assert from_networkx(g, features=["ID"]).feature_names == ("ID",)


@pytest.mark.parametrize("directed", [True, False])
def test_networkx_round_trip(directed):
    x = np.array([[1, 0], [0, 2], [0, 0], [3, 3]])
    fields = {"y": [0, 1, -1, 1], "classes": ("0", "1"), "roles": [0, 1, 2, 3]}
    graph = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=directed, x=x, **fields)
    again = from_networkx(to_networkx(graph), label="label", features="x", role="role")
    for name in ("indptr", "indices", "x", "y", "roles"):
        assert np.array_equal(getattr(again, name), getattr(graph, name)), name
    assert (again.directed, again.classes) == (directed, ("0", "1"))
    assert again.assumed_public == ("num_features", "classes", "rare classes")


def test_networkx_round_trip_of_ids_and_sparse_features():
    graph = Graph.from_edges([0], [2], 3, directed=False, node_ids=["a", "b", "c"], x=sp.csr_matrix(np.eye(3)))
    g = to_networkx(graph)
    assert sorted(g.edges) == [("a", "c")]
    assert g.nodes["b"] == {"x": [0.0, 1.0, 0.0]}
    again = from_networkx(g, features="x")
    assert again.node_ids.tolist() == ["a", "b", "c"]
    assert again.x.tolist() == np.eye(3).tolist()


def test_networkx_attributes_are_encoded_like_columns():
    g = nx.DiGraph([("a", "b"), ("b", "a"), (("c", 1), "a")])
    for node, age, dorm in zip(g, (1, 2, 3), ("n", None, "s"), strict=True):
        g.nodes[node].update(age=age, dorm=dorm, year=2000 + age)
    graph = from_networkx(g, label="year", features=["age", "dorm"])
    assert graph.directed
    assert graph.node_ids.tolist() == ["a", "b", "('c', 1)"]
    assert graph.indices.tolist() == [1, 0, 0]
    assert graph.x.tolist() == [[1, 1, 0], [2, 0, 0], [3, 0, 1]]
    assert graph.classes == ("2001", "2002", "2003")
    assert graph.assumed_public == ("num_features", "rare categories of column dorm", "classes", "rare classes")
    schema = {"classes": [2001, 2002, 2003], "columns": {"age": {}, "dorm": {"categories": ["n", "s"]}}}
    assert from_networkx(g, label="year", features=["age", "dorm"], schema=schema).assumed_public == ()
    partly = from_networkx(
        g, label="year", features=["age"], schema={"classes": [2002], "columns": {"age": {"max": 2}}}
    )
    assert (partly.y.tolist(), partly.x.ravel().tolist()) == ([-1, 0, -1], [1, 2, 2])
    assert partly.outside == {"age": 1, "year": 2}
    with pytest.raises(SchemaError, match="'year' to hold some of the classes 1999, got none"):
        from_networkx(g, label="year", schema={"classes": [1999]})
    with pytest.raises(SchemaError, match="directed=True in g beside directed=False"):
        from_networkx(g, schema={"directed": False})


def test_networkx_without_attributes_or_edges():
    graph = from_networkx(nx.empty_graph(3))
    assert (graph.num_nodes, graph.num_arcs, graph.x, graph.y) == (3, 0, None, None)


@pytest.mark.parametrize(
    ("g", "how", "message"),
    [
        (nx.MultiGraph([(0, 1)]), {}, "simple graph, or types of edges, got MultiGraph"),
        (nx.Graph(), {}, "at least one node"),
        (nx.path_graph(2), {"label": "year"}, "attribute 'year', got none with it"),
    ],
)
def test_networkx_errors_teach(g, how, message):
    with pytest.raises(DataError, match=message):
        from_networkx(g, **how)


@pytest.mark.parametrize(
    ("values", "features", "message"),
    [
        (([1.0, 2.0], None), "v", "list of 2 numbers on every node, but node 1 has something else"),
        (([1.0, 2.0], [1.0]), "v", "list of 2 numbers"),
        ((1.0, 2.0), "v", "list of some numbers"),
        ((["a"], ["b"]), "v", "list of 1 numbers"),
        ((1, "a"), ["v"], "values of one kind"),
    ],
)
def test_networkx_feature_vectors_are_checked(values, features, message):
    g = nx.path_graph(2)
    for node, value in enumerate(values):
        g.nodes[node]["v"] = value
    with pytest.raises(DataError, match=message) as caught:
        from_networkx(g, features=features)
    assert "\n" not in str(caught.value)
