"""Several labels of a node, or a number: how they are built, read, stored and refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import sfumato as sf
from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph._graph import Graph
from sfumato.graph._schema import Schema
from sfumato.graph._subgraph import induced
from sfumato.graph._targets import Targets, answers, probabilities
from sfumato.privacy.units import EdgeLevel, NodeLevel
from sfumato.tables._importing import import_tables

NAN = float("nan")
EDGE, NODE = EdgeLevel(directed=False), NodeLevel(max_out_degree=2)
LABELS = Targets("multilabel", [[0, 1], [1, NAN], [NAN, NAN], [1, 1]], ("hiking", "chess"))


def path(targets, **fields):
    return Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, targets=targets, **fields)


def test_labels_have_names_and_a_node_counts_as_known_with_one_of_them():
    graph = path(LABELS)
    assert repr(graph) == "Graph('graph', 4 nodes, 3 undirected edges, 0 features, 2 labels)"
    assert graph.classes == ("hiking", "chess")
    assert graph.y is None
    assert LABELS.known.tolist() == [True, True, False, True]
    facts = graph.public_facts(EDGE)
    assert (facts.target, facts.target_range, facts.num_classes, facts.assumed) == ("multilabel", None, 2, ())
    assert facts.to_dict()["target"] == "multilabel"
    assert "target_range" not in facts.to_dict()


def test_a_number_is_cut_to_its_declared_range_and_scaled_by_it_alone():
    targets = Targets("number", [0, 25, 1000, NAN], limits=(0, 100))
    assert targets.values[:3, 0].tolist() == [0, 25, 100]
    assert targets.scaled[:3, 0].tolist() == [-1, -0.5, 1]
    assert path(targets).assumed_public == ()
    other = Targets("number", [0, 25, 7, NAN], limits=(0, 100))
    assert other.scaled[0] == targets.scaled[0], "one node's number moves no other's"


def test_a_range_that_was_read_off_is_assumed_public_where_labels_are_protected():
    graph = path(Targets("number", [3, 4, 9, NAN]))
    assert graph.targets.limits == (3, 9)
    assert graph.public_facts(EDGE).assumed == ()
    assert graph.public_facts(NODE).assumed == ("target range",)


@pytest.mark.parametrize(
    ("kind", "values", "more", "fragment"),
    [
        ("multilabel", [[0, 2]], {}, "0, 1 or missing"),
        ("multilabel", [[NAN, NAN]], {}, "at least one target"),
        ("multilabel", [["a", "b"]], {}, "numbers of shape"),
        ("multilabel", [[0, 1]], {"names": ("a", "a")}, "distinct names"),
        ("multilabel", [[0, 1]], {"limits": (0, 1)}, "None for labels"),
        ("number", [[0, 1]], {}, "one number a node"),
        ("number", [np.inf, 1], {}, "finite"),
        ("number", [1e300, 1], {}, "limits"),
        ("number", [5, 5], {}, "at least two different numbers"),
        ("number", [5, 6], {"limits": (9, 3)}, "begin below their end"),
        ("number", [5, 6], {"limits": (0, NAN)}, "limits"),
        ("classes", [1, 2], {}, "kind"),
    ],
)
def test_targets_of_another_form_are_refused(kind, values, more, fragment):
    with pytest.raises(InputError, match=fragment):
        Targets(kind, values, **more)


def test_targets_stand_in_place_of_labels_and_for_all_nodes():
    with pytest.raises(DataError, match="in place of y and classes"):
        path(LABELS, y=[0, 1, 0, 1])
    with pytest.raises(DataError, match="for 4 nodes"):
        path(Targets("number", [1, 2]))


def test_stores_and_subgraphs_keep_them(tmp_path):
    for targets in (LABELS, Targets("number", [3, 4, 9, NAN]), Targets("number", [3, 4, 9, NAN], limits=(0, 10))):
        graph = path(targets)
        found = Graph.load(graph.save(tmp_path / f"{targets.kind}-{targets.assumed}"))
        assert repr(found.targets) == repr(targets)
        assert np.array_equal(found.targets.values, targets.values, equal_nan=True)
        assert (found.classes, found.assumed_public) == (graph.classes, graph.assumed_public)
        part = induced(graph, [3, 0])
        assert np.array_equal(part.targets.values, targets.values[[3, 0]], equal_nan=True)
        assert part.targets.limits == targets.limits
        alone = induced(replace(graph, roles=[0, 0, 0, 0]), [2] if targets is LABELS else [3])
        assert alone.targets is None


def test_pyg_columns_of_labels_come_and_go():
    arcs, y = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.0, 1.0], [1.0, NAN]])
    graph = sf.graph.from_pyg(Data(edge_index=arcs, y=y, num_nodes=2), directed=False)
    assert graph.targets.kind == "multilabel"
    assert torch.equal(sf.graph.to_pyg(graph).y.isnan(), y.isnan())
    number = Data(edge_index=arcs, y=torch.tensor([0.5, 7.0]), num_nodes=2)
    with pytest.raises(DataError, match="has a fraction"):
        sf.graph.from_pyg(number, directed=False)
    graph = sf.graph.from_pyg(number, directed=False, target="number", target_range=(0, 5))
    assert graph.targets.values[:, 0].tolist() == [0.5, 5.0]


TABLE = pd.DataFrame({
    "id": ["a", "b", "c"], "hiking": [1, 0, None], "chess": [True, False, True], "age": [20.5, 90.0, None],
    "x": [0.5, 1.5, 2.5],
})  # fmt: skip
LINKS = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})


def test_columns_of_tables_become_labels():
    graph = sf.graph.from_frames(TABLE[["id", "hiking", "chess", "x"]], LINKS, label=["hiking", "chess"])
    assert graph.feature_names == ("x",)
    assert np.array_equal(graph.targets.values, [[1, 1], [0, 0], [NAN, 1]], equal_nan=True)
    again = sf.graph.from_frames(TABLE[["id", "hiking", "chess", "x"]], LINKS, schema={"label": ["hiking", "chess"]})
    assert again.targets.names == ("hiking", "chess")


def test_a_column_becomes_a_number_that_is_cut_to_the_range_of_the_schema():
    schema = {"label": "age", "target": "number", "target_range": [0, 80]}
    graph = sf.graph.from_frames(TABLE[["id", "age", "x"]], LINKS, schema=schema)
    assert graph.targets.values[:2, 0].tolist() == [20.5, 80.0]
    assert graph.outside == {"age": 1}
    assert "target range" not in graph.assumed_public
    del schema["target_range"]
    assert "target range" in sf.graph.from_frames(TABLE[["id", "age", "x"]], LINKS, schema=schema).assumed_public


def test_an_import_gives_what_reading_gives(tmp_path):
    TABLE[["id", "age", "x"]].to_csv(tmp_path / "nodes.csv", index=False)
    LINKS.to_csv(tmp_path / "edges.csv", index=False)
    schema = {"target": "number", "target_range": [0, 80]}
    places = (tmp_path / "nodes.csv", tmp_path / "edges.csv")
    read = sf.graph.read_csv(*places, label="age", schema=schema)
    import_tables(*places, tmp_path / "store", label="age", schema=schema)
    stored = Graph.load(tmp_path / "store")
    assert np.array_equal(stored.targets.values, read.targets.values, equal_nan=True)
    assert stored.targets.limits == read.targets.limits == (0, 80)


@pytest.mark.parametrize(
    ("how", "fragment"),
    [
        ({"label": ["hiking", "x"]}, "column 'x' to hold 0, 1 or nothing, but the row of node 'a'"),
        ({"label": ["hiking", "id"]}, "column 'id' to hold 0, 1 or nothing"),
        ({"label": ["hiking", "none"]}, "none"),
        ({"label": "id", "schema": {"target": "number"}}, "column 'id' to hold finite numbers"),
    ],
)
def test_columns_that_are_no_targets_are_refused_without_their_values(how, fragment):
    with pytest.raises(InputError, match=fragment) as error:
        sf.graph.from_frames(TABLE, LINKS, **how)
    assert "0.5" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ({"target": "price"}, 'target to be "number"'),
        ({"target_range": [0, 1]}, "target_range to be"),
        ({"target": "number", "target_range": 5}, "target_range to be"),
        ({"target": "number", "classes": ["a", "b"]}, "Remove classes"),
        ({"label": ["a", "b"], "classes": ["a", "b"]}, "Remove classes"),
        ({"label": ["a", "a"]}, "distinct"),
        ({"label": ["a", "b"], "columns": {"b": {}}}, "features only"),
    ],
)
def test_schemas_that_contradict_themselves_are_refused(values, fragment):
    with pytest.raises((SchemaError, InputError), match=fragment):
        Schema.from_dict(values)


def test_answers_follow_the_kind():
    scores = np.array([[2.0, -1.0], [-3.0, 0.5]], np.float32)
    assert probabilities("multilabel", scores) == pytest.approx(
        np.array([[0.8808, 0.2689], [0.0474, 0.6225]]), abs=1e-4
    )
    assert answers("multilabel", None, scores).tolist() == [[1, 0], [0, 1]]
    assert answers(None, None, scores).tolist() == [0, 1]
    assert answers("number", (10, 20), scores[:, :1]).tolist() == [20, 10]
    assert probabilities("multilabel", np.array([[-1e4, 1e4]], np.float32)).tolist() == [[0, 1]]
    with pytest.raises(InputError, match="Call predict"):
        probabilities("number", scores[:, :1])


def test_networkx_attributes_come_and_go():
    graph = path(LABELS, node_ids=["a", "b", "c", "d"])
    again = sf.graph.from_networkx(sf.graph.to_networkx(graph), label=["hiking", "chess"])
    assert np.array_equal(again.targets.values, LABELS.values, equal_nan=True)
    schema = {"label": "target", "target": "number", "target_range": [0, 5]}
    number = sf.graph.from_networkx(sf.graph.to_networkx(path(Targets("number", [3, 4, 9, NAN]))), schema=schema)
    assert (number.targets.limits, number.outside) == ((0, 5), {"target": 1})


def test_a_number_far_from_zero_keeps_its_digits():
    targets = Targets("number", [1.7e9, 1.7e9 + 1], limits=(1.7e9 - 1, 1.7e9 + 3))
    assert targets.scaled[:, 0].tolist() == [-0.5, 0.0]
    assert answers("number", targets.limits, targets.scaled).tolist() == [1.7e9, 1.7e9 + 1]
