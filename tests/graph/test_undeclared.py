"""What nobody declared stops a plan where it is protected, and nowhere else."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph import Graph, from_frames, from_networkx
from sfumato.graph._rare_outcomes import outcomes
from sfumato.graph._subgraph import induced
from sfumato.privacy.units import ClassLevel, LocalLevel, NoPrivacy, RecordLevel
from sfumato.tables._importing import import_tables

COUNT = 40
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(3)
NODES = pa.table(
    {
        "id": range(COUNT),
        "age": [20 + v for v in range(COUNT)],
        "height": [150.0 + v for v in range(COUNT)],
        "dorm": ["north" if v % 2 else "south" for v in range(COUNT)],
        "member": [v % 3 == 0 for v in range(COUNT)],
        "year": ["2004" if v % 2 else "2005" for v in range(COUNT)],
    }
)
EDGES = pa.table({"from": range(COUNT - 1), "to": range(1, COUNT)})
WHOLE = {
    "classes": ["2004", "2005"],
    "columns": {
        "age": {"min": 0, "max": 120},
        "height": {"min": 0, "max": 250},
        "dorm": {"categories": ["north", "south"]},
    },
}


def read(**schema):
    return from_frames(NODES, EDGES, label="year", schema=schema)


def without(column):
    return {**WHOLE, "columns": {name: how for name, how in WHOLE["columns"].items() if name != column}}


@pytest.mark.parametrize(
    ("schema", "lacking"),
    [
        ({}, "range of age, height; no categories of dorm; no classes of the label"),
        (without("age"), "range of age"),
        ({**WHOLE, "columns": {**WHOLE["columns"], "age": {}}}, "range of age"),
        ({**WHOLE, "columns": {**WHOLE["columns"], "age": {"min": 0}}}, "range of age"),
        (without("dorm"), "categories of dorm"),
        ({"columns": WHOLE["columns"]}, "classes of the label"),
    ],
)
def test_an_undeclared_column_stops_a_plan_where_it_is_protected(schema, lacking):
    graph = read(**schema)
    for unit in (NODE, sf.NodeLevel(arcs="incident"), RecordLevel()):
        with pytest.raises(InputError) as caught:
            graph.public_facts(unit)
        said = str(caught.value)
        assert f"under unit {unit.name} to be declared, got no {lacking}. " in said
        for remedy in ("sfumato data describe", "--write-schema", "--assume-public", "assume_public=True"):
            assert remedy in said
        assert ("not scaled" in said) == ("range" in lacking)
        assert ("read off protected rows" in said) == ("categories" in lacking or "classes" in lacking)
    for unit in (EDGE, NoPrivacy(), LocalLevel(), ClassLevel()):
        assert graph.public_facts(unit).num_classes == 2


def test_a_whole_schema_goes_on_and_assumes_nothing():
    assert read(**WHOLE).undeclared == ()
    assert read(**WHOLE).public_facts(NODE).assumed == ("num_features",)


def test_whoever_says_so_goes_on_and_facts_that_were_read_are_listed():
    facts = read().public_facts(NODE, assume_public=True)
    assert facts.assumed == ("num_features", "categories of column dorm", "classes"), "of ranges nothing is read"
    fitted = sf.MLP(epochs=1).calibrate(sf.Budget(1.0, 1e-3), NODE, facts).fit(read())
    assert fitted.certificate.values["assumed_public"] == [*facts.assumed]
    with pytest.raises(InputError, match="assume_public to be of class bool, got str"):
        read().public_facts(NODE, assume_public="no")


def test_what_a_schema_marks_as_read_off_the_data_was_said_already():
    marked = {**WHOLE, "classes_from_data": True}
    marked["columns"] = {**WHOLE["columns"], "dorm": {"categories": ["north", "south"], "from_data": True}}
    assert read(**marked).public_facts(NODE).assumed == ("num_features", "categories of column dorm", "classes")


def test_a_plan_cannot_be_made_elsewhere_for_what_is_not_declared():
    facts = read(**WHOLE).public_facts(NODE)
    with pytest.raises(DataError, match="assumes no more to be public"):
        sf.MLP(epochs=1).calibrate(sf.Budget(1.0, 1e-3), NODE, facts).fit(read())


def test_arrays_declare_their_classes_and_are_scaled_by_whoever_made_them():
    ring = np.arange(COUNT), (np.arange(COUNT) + 1) % COUNT
    fields = {"directed": False, "y": np.arange(COUNT) % 2, "x": np.eye(COUNT), "feature_names": range(COUNT)}
    bare = Graph.from_edges(*ring, COUNT, **fields)
    with pytest.raises(InputError, match=r"got no classes of the label\..*classes=\(\.\.\.\) of arrays"):
        bare.public_facts(NODE)
    assert Graph.from_edges(*ring, COUNT, classes=("a", "b"), **fields).public_facts(NODE).assumed == ()
    assert replace(bare, y=None, classes=()).public_facts(NODE).num_classes == 0


def test_features_that_replace_those_of_a_table_need_no_range():
    graph = read(**without("age"))
    assert replace(graph, x=np.eye(COUNT), feature_names=(), ranges=()).public_facts(NODE).num_features == COUNT


def test_named_data_sets_and_generated_graphs_declare_what_they_hold():
    for graph in (sf.graph.campus(100), outcomes(100)):
        assert graph.undeclared == ()
        graph.public_facts(NODE)


def test_stores_and_parts_of_a_graph_remember_it(tmp_path):
    import networkx as nx
    import pyarrow.csv as csv

    graph = read(**without("age"))
    assert Graph.load(graph.save(tmp_path / "saved")).undeclared == ("range of column age",)
    assert induced(graph, np.arange(10)).undeclared == ("range of column age",)
    files = [tmp_path / "nodes.csv", tmp_path / "edges.csv"]
    for table, path in zip((NODES, EDGES), files, strict=True):
        csv.write_csv(table, path)
    imported = Graph.load(import_tables(*files, tmp_path / "store", label="year", schema=without("dorm")))
    assert imported.undeclared == ("categories of column dorm",)
    named = nx.path_graph(COUNT)
    nx.set_node_attributes(named, dict(enumerate(NODES["age"].to_pylist())), "age")
    assert from_networkx(named).undeclared == ("range of column age",)


def test_a_message_names_a_few_of_many_columns():
    wide = pa.table({"id": range(COUNT), **{f"c{k}": np.arange(COUNT) * 0.5 for k in range(9)}})
    with pytest.raises(InputError, match="range of c0, c1, c2, c3, c4 and 4 more"):
        from_frames(wide, EDGES).public_facts(NODE)
