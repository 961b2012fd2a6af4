"""A schema that is read off tables fits these tables again, and gives the same graph."""

import random
import re
import warnings

import contracts_tables as made
import pyarrow as pa
import pytest

from sfumato.errors import DataError, DroppedWarning
from sfumato.graph import from_frames
from sfumato.graph._schema import Schema
from sfumato.tables._cells import numbers
from sfumato.tables._outline import Outline, schema_text

LINKS = pa.table({"from": ["n0"], "to": ["n1"]})


def described(nodes, edges, folder, **how):
    """The graph of two tables, and the path and the text of a schema that is read off it."""
    told = []
    graph = from_frames(nodes, edges, told=lambda *table: told.append(table), **how)
    schema = Schema.read(how.get("schema"))
    weight = ("amount", how["max_weight"]) if "max_weight" in how else None
    text = schema_text(
        Outline(told, graph), schema, weight, from_data=True, numbers=lambda name: numbers(nodes.column(name))
    )
    (folder / "schema.toml").write_text(text)
    return graph, folder / "schema.toml", text


def check(seed, folder):
    tables = made.random_tables(seed)
    rng = random.Random(seed)
    nodes, edges = (made.arrow(part, rng).rename_columns([*part]) for part in (tables.nodes, tables.edges))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedWarning)
        graph, schema, text = described(nodes, edges, folder, **tables.how)
        again = from_frames(nodes, edges, schema=schema)
        twice = described(nodes, edges, folder, schema=schema)[2]
    assert twice.partition("[edges]")[0].rstrip() == text.partition("[edges]")[0].rstrip()
    found, expected = made.read_as(again), made.read_as(graph)
    assert {part: found[part] for part in expected if found[part] != expected[part]} == {}
    facts = [{fact.removeprefix("rare ") for fact in one.assumed_public} for one in (again, graph)]
    assert facts[0] <= facts[1]


@pytest.mark.parametrize("seed", range(10))
def test_a_schema_of_a_table_gives_its_graph_again(seed, tmp_path):
    check(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2000, 2300))
def test_schemas_of_many_tables_give_their_graphs_again(seed, tmp_path):
    check(seed, tmp_path)


@pytest.mark.parametrize(
    "cells",
    [
        ["01", "02", "1"], ["+1", "2", "NA"], ["1.0", "2.0", "+3"], ["yes", "no", "."], ["True", "FALSE", ""],
        ["NAN", "u", "NaN"], ["-1", "-01", "0"], ["007", "7", "nan"], ["a=b", "a", "="], ['"', "\\", "\x7f"],
    ],
)  # fmt: skip
def test_labels_and_categories_fit_again_however_they_are_written(cells, tmp_path):
    nodes = pa.table({"id": ["n0", "n1", "n2"], "f": cells, "y": cells})
    graph, schema, _ = described(nodes, LINKS, tmp_path, label="y")
    assert made.read_as(from_frames(nodes, LINKS, schema=schema)) == made.read_as(graph)


def test_ranges_are_those_of_the_table_and_num_features_is_written_back(tmp_path):
    nodes = pa.table(
        {"id": ["n0", "n1", "n2"], "f": ["16777217", "NA", "33554435"], "g": ["", "", "NA"], "h": [0.1, 0.1, None]}
    )
    _, schema, text = described(nodes, LINKS, tmp_path, schema={"num_features": 3})
    assert Schema.read(schema).num_features == 3
    ends = re.findall("# (?:min|max) = (.*)", text)
    assert ends == ["16777217.0", "33554435.0", "0.0", "100.0", "-0.9", "1.1"]


@pytest.mark.parametrize(
    "columns",
    [{"a=b": [1, 2, 3], "a": ["b", "c", "b"]}, {"a": ["b=c", "d", "d"], "a=b": ["c", "x", "x"]}],
)
def test_two_columns_never_give_features_of_one_name(columns, tmp_path):
    nodes = pa.table({"id": ["n0", "n1", "n2"], **columns})
    with pytest.raises(DataError, match=r"column 'a(=b)?' and one of column 'a(=b)?'.*Rename a column"):
        from_frames(nodes, LINKS)
    apart = {name: ["x", "y", "x"] if name == "a" else values for name, values in columns.items()}
    graph, schema, _ = described(pa.table({"id": ["n0", "n1", "n2"], **apart}), LINKS, tmp_path)
    assert (
        from_frames(pa.table({"id": ["n0", "n1", "n2"], **apart}), LINKS, schema=schema).x.tolist() == graph.x.tolist()
    )
