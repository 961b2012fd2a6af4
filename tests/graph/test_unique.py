"""Columns with nearly one text a node: a warning, and a refusal where they are protected, before anything is charged."""

import warnings

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import sfumato as sf
from sfumato.errors import DataError, InputError, TextWarning
from sfumato.graph import Graph, from_frames
from sfumato.privacy.units import ClassLevel, LocalLevel, RecordLevel
from sfumato.tables._importing import import_tables

pa = pytest.importorskip("pyarrow")

COUNT = 40
MARKED = {
    "names": lambda v: f"Ann {v}",
    "addresses, many of them missing": lambda v: f"p{v}@example.org" if v % 3 == 0 else "NA",
    "nearly": lambda v: f"s{v * 11 // 20}",
}
OTHERWISE = {
    "decimal commas": lambda v: f"1,{v}",
    "thousands, some of them twice": lambda v: f"{1 + v % 12},000",
    "percent": lambda v: f"{v}.5%",
    "money": lambda v: f"${v},000.00",
    "few shares": lambda v: ("10%", "20%")[v % 2],
    "whole numbers beside decimal commas": lambda v: ("7", "7,5")[v % 2],
}
RARE = {
    "few words": lambda v: f"w{v % 9}",
    "half as many": lambda v: f"w{v % 20}",
    "a note of one node": lambda v: "owes 300" if v == 7 else "none",
    "nine nodes": lambda v: "ill" if v < 9 else "well",
    "beside missing cells": lambda v: "ill" if v < 9 else "NA",
}
FREE = {
    "ten nodes": lambda v: "ill" if v < 10 else "well",
    "beside missing cells": lambda v: "ill" if v < 10 else "NA",
    "numbers": lambda v: f"{v}.5",
}
PROTECTED = (sf.NodeLevel(3), sf.NodeLevel(arcs="incident"), RecordLevel(), ClassLevel(), LocalLevel())


def tables(value, label=lambda v: "ab"[v % 2]):
    nodes = pa.table(
        {"id": range(COUNT), "what": [value(v) for v in range(COUNT)], "year": [label(v) for v in range(COUNT)]}
    )
    return nodes, pa.table({"from": range(COUNT - 1), "to": range(1, COUNT)})


@pytest.mark.parametrize("name", MARKED)
def test_texts_of_single_nodes_are_refused_where_they_are_protected(name):
    why = "nearly one text a node"
    with pytest.warns(TextWarning, match=f"Read as categories: what of the nodes table, with {why}"):
        graph = from_frames(*tables(MARKED[name]), label="year")
    for unit in PROTECTED:
        with pytest.raises(InputError, match=rf"{why} in column 'what'.*--drop what, drop=\['what'\]") as caught:
            graph.public_facts(unit)
        assert MARKED[name](3) not in str(caught.value)
    for unit in (sf.NoPrivacy(), sf.EdgeLevel(directed=False), LocalLevel(features=False)):
        assert graph.public_facts(unit).assumed == (("classes",) if unit.name == "local" else ())


@pytest.mark.parametrize("name", OTHERWISE)
def test_numbers_in_another_writing_are_refused_unless_they_are_declared(name):
    made, cells = tables(OTHERWISE[name]), sorted({OTHERWISE[name](v) for v in range(COUNT)})
    with pytest.raises(
        DataError, match=r"'what' .* numbers that are written in another way. Write 1.5 for 1,5"
    ) as caught:
        from_frames(*made, label="year")
    assert not any(cell in str(caught.value) for cell in cells if len(cell) > 5)
    with pytest.raises(
        DataError, match="label column 'what' to hold classes, got numbers that are written in another way"
    ):
        from_frames(*made, label="what")
    assert from_frames(*made, label="year", schema={"columns": {"what": {"categories": cells}}}).num_features == len(
        cells
    )


@pytest.mark.parametrize("name", RARE)
def test_categories_of_few_nodes_are_refused_where_they_are_protected(name):
    """They would stand in spec.json in plain words; where they are public, nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = from_frames(*tables(RARE[name]), label="year")
    for unit in PROTECTED:
        with pytest.raises(
            InputError, match=r"categories of fewer than 10 nodes in column 'what'.*--drop what"
        ) as caught:
            graph.public_facts(unit)
        assert not [text for v in range(COUNT) if (text := RARE[name](v)) in str(caught.value) and text != "NA"]
    assert graph.public_facts(sf.EdgeLevel(directed=False)).assumed == ()


@pytest.mark.parametrize(
    "label", [lambda v: "ill" if v == 3 else "well", lambda v: v % 5, lambda v: "a" if v < 9 else "NA"]
)
def test_classes_of_few_nodes_are_refused_where_they_are_protected(label):
    graph = from_frames(*tables(FREE["numbers"], lambda v: str(label(v))), label="year")
    for unit in (*PROTECTED, LocalLevel(features=False)):
        with pytest.raises(InputError, match=r"classes of fewer than 10 nodes in the label.*classes_from_data = true"):
            graph.public_facts(unit)
    assert graph.public_facts(sf.EdgeLevel(directed=False)).assumed == ()
    assert graph.public_facts(LocalLevel(labels=False)).assumed == ("num_features",)
    declared = {"classes": sorted({str(label(v)) for v in range(COUNT)} - {"NA"})}
    for schema, listed in ((declared, False), (declared | {"classes_from_data": True}, True)):
        facts = from_frames(*tables(FREE["numbers"], lambda v: str(label(v))), label="year", schema=schema)
        assert ("classes" in facts.public_facts(sf.NodeLevel(3), assume_public=True).assumed) == listed


RING = np.arange(COUNT), (np.arange(COUNT) + 1) % COUNT
DATA = Data(edge_index=torch.as_tensor(np.hstack([RING, RING[::-1]])), num_nodes=COUNT)
ARRAYS = {
    "edges": lambda y, **more: sf.graph.Graph.from_edges(*RING, COUNT, directed=False, y=y, **more),
    "tensors": lambda y, **more: sf.graph.from_pyg(DATA.clone().update({"y": torch.as_tensor(y)}), False, **more),
    "images": lambda y, **more: sf.images.from_arrays(np.zeros((COUNT, 2, 2), np.uint8), y, **more),
}


@pytest.mark.parametrize("source", ARRAYS)
@pytest.mark.parametrize(
    "label", [lambda v: 7 if v == 3 else v % 2, lambda v: 2 * (v % 2), lambda v: int(v > 3), lambda v: v], ids=range(4)
)
def test_class_numbers_of_few_nodes_follow_the_same_rule(source, label):
    """A number that nobody holds is a class as well, and one of few nodes: it follows from the largest."""
    y = np.array([label(v) for v in range(COUNT)])
    graph = ARRAYS[source](y)
    for unit in PROTECTED:
        with pytest.raises(InputError, match=r"in the label.*classes=\(\.\.\.\) in Python"):
            graph.public_facts(unit)
    assert graph.public_facts(sf.EdgeLevel(directed=False)).assumed == ()
    declared = ARRAYS[source](y, classes=tuple(map(str, range(COUNT))))
    assert declared.public_facts(sf.NodeLevel(3)).num_classes == COUNT
    assert "classes" in ARRAYS[source](np.arange(COUNT) % 2).public_facts(sf.NodeLevel(3), assume_public=True).assumed


def test_labels_of_the_estimator_follow_the_same_rule():
    nodes, edges = tables(FREE["numbers"])
    graph = from_frames(nodes.select(["id", "what"]), edges)
    private = sf.PrivateGraphClassifier(graph, "linear", sf.NodeLevel(3))
    with pytest.raises(InputError, match="classes of fewer than 10 nodes in the label"):
        private.fit(range(COUNT), ["ill" if v == 3 else "well" for v in range(COUNT)])


def test_numbers_are_classes_however_many():
    label = lambda v: str(2000 + v % 12)  # noqa: E731
    count = range(10 * 12)
    nodes = pa.table({"id": count, "year": [label(v) for v in count]})
    graph = from_frames(nodes, pa.table({"from": [1], "to": [2]}), label="year")
    assert graph.public_facts(sf.NodeLevel(3), assume_public=True).assumed == ("classes",)


def test_read_off_on_purpose():
    named = tables(RARE["few words"])
    how = {"categories": [f"w{v}" for v in range(9)], "from_data": True}
    graph = from_frames(*named, label="year", schema={"columns": {"what": how}})
    assert "categories of column what" in graph.public_facts(sf.NodeLevel(3), assume_public=True).assumed


@pytest.mark.parametrize("name", FREE)
def test_groups_are_no_names(name):
    graph = from_frames(*tables(FREE[name]), label="year")
    assert "num_features" in graph.public_facts(sf.NodeLevel(3), assume_public=True).assumed


def test_declared_categories_and_columns_left_out_are_fine():
    named = tables(MARKED["names"])
    declared = {"classes": ["a", "b"], "columns": {"what": {"categories": [f"Ann {v}" for v in range(COUNT)]}}}
    assert from_frames(*named, label="year", schema=declared).public_facts(sf.NodeLevel(3)).num_features == COUNT
    alone = from_frames(*named, label="year", drop=["what"], schema={"classes": ["a", "b"]})
    assert alone.public_facts(sf.NodeLevel(3)).num_features == 0


def test_labels_follow_the_same_rule():
    with pytest.warns(TextWarning, match="Read as classes: the label"):
        graph = from_frames(*tables(FREE["numbers"], MARKED["names"]), label="year")
    with pytest.raises(InputError, match="Expected classes that are known without the data"):
        graph.public_facts(sf.NodeLevel(3))
    assert graph.public_facts(sf.EdgeLevel(directed=False)).num_classes == COUNT
    with pytest.raises(InputError, match="Expected classes"):
        graph.public_facts(LocalLevel(features=False))


def test_a_store_remembers_its_names(written, tmp_path):
    tables = written("id,name\n" + "".join(f"{v},Ann {v}\n" for v in range(COUNT)), "from,to\n1,2\n")
    with pytest.warns(TextWarning, match="name of .*nodes.csv"):
        graph = Graph.load(import_tables(*tables, tmp_path / "store"))
    with pytest.raises(InputError, match="--drop name"):
        graph.public_facts(sf.NodeLevel(3))


def test_nothing_is_charged_for_names(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        graph = from_frames(*tables(MARKED["names"]), label="year")
    with pytest.raises(InputError, match="--drop what"):
        sf.PrivateGraphClassifier(
            graph, "linear", sf.NodeLevel(3), ledger=tmp_path / "ledger.jsonl", total_epsilon=1
        ).fit(range(COUNT))
    assert not (tmp_path / "ledger.jsonl").exists()
