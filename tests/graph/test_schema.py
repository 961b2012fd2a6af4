"""The public schema."""

import numpy as np
import pytest

from sfumato.errors import InputError, SchemaError
from sfumato.graph._schema import Column, Schema
from sfumato.tables._io import read_csv

TEXT = """
directed = false
id = "person"
label = "year"
role = "split"
classes = [2004, 2005]
num_features = 3
max_degree = 100
mean_degree = 20
[columns.dorm]
categories = ["north", "south"]
[columns.age]
min = 0
max = 120
"""


def test_a_schema_is_read_from_toml(tmp_path):
    (tmp_path / "schema.toml").write_text(TEXT)
    schema = Schema.read(tmp_path / "schema.toml")
    assert schema == Schema(
        classes=("2004", "2005"),
        columns={"dorm": Column(categories=("north", "south")), "age": Column(min=0, max=120)},
        id="person",
        label="year",
        role="split",
        num_features=3,
        max_degree=100,
        mean_degree=20,
        directed=False,
    )


def test_no_schema_is_an_empty_one_and_a_schema_passes_through():
    assert Schema.read(None) == Schema()
    schema = Schema(label="year")
    assert Schema.read(schema) is schema
    assert Schema.read({"label": "year"}) == schema


def test_true_and_false_are_categories():
    assert Schema.from_dict({"columns": {"ok": {"categories": [True, False]}}}).columns["ok"].categories == (
        "true",
        "false",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colums": {}}, "got 'colums'. Did you mean 'columns'"),
        ({"columns": {"dorm": {"category": ["a"]}}}, "column 'dorm' .* got 'category'. Did you mean 'categories'"),
        ({"columns": {"dorm": ["a"]}}, "columns.dorm to be a table"),
        ({"columns": 3}, "columns to be a table"),
        ({"columns": {"age": {"min": 3, "max": 2}}}, "In column 'age': .*min=3 and max=2"),
        ({"columns": {"age": {"min": 3, "categories": ["a"]}}}, "got both"),
        ({"columns": {"dorm": {"categories": []}}}, "list of strings or integers"),
        ({"classes": ["a", "a"]}, "classes to be distinct"),
        ({"classes": "ab"}, "classes to be a list"),
        ({"classes": [1.5]}, "classes to be a list"),
        ({"label": 3}, "label to be a column name"),
        ({"directed": "no"}, "directed to be true or false"),
        ({"label": "year", "columns": {"year": {}}}, r"Remove \[columns.year\]"),
    ],
)
def test_a_malformed_schema_teaches(values, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(values)


@pytest.mark.parametrize("values", [{"max_degree": 0}, {"num_features": 1.5}, {"max_degree": 2, "mean_degree": 3}])
def test_promises_are_checked(values):
    with pytest.raises(InputError, match=list(values)[-1]):
        Schema.from_dict(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [("directed = maybe", "Invalid value"), ("max_degree = 0", "max_degree"), ("label = 1", "label")],
)
def test_errors_name_the_file(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SchemaError, match=rf"s\.toml: .*{message}") as caught:
        Schema.read(tmp_path / "s.toml")
    assert "\n" not in str(caught.value)
    with pytest.raises(SchemaError, match=r"none\.toml to be a file"):
        Schema.read(tmp_path / "none.toml")


def test_numbers_are_clipped_to_what_is_declared():
    numbers = np.array([-np.inf, -1.0, 3.0, 1e300])
    assert Column(min=0, max=2).clip(numbers).tolist() == [0, 0, 2, 2]
    assert Column(max=2).clip(numbers).tolist() == [-np.inf, -1, 2, 2]
    assert Column().clip(numbers).tolist() == numbers.tolist()


def test_what_was_read_off_the_data_stays_assumed_public(written):
    nodes, edges = written("id,city,year\na,north,1\nb,south,2\n", "from,to\na,b\n")
    known = {"label": "year", "classes": ["1", "2"], "columns": {"city": {"categories": ["north", "south"]}}}
    assert read_csv(nodes, edges, schema=known).assumed_public == ()
    known["classes_from_data"] = known["columns"]["city"]["from_data"] = True
    assert read_csv(nodes, edges, schema=known).assumed_public == (
        "num_features",
        "categories of column city",
        "classes",
    )


@pytest.mark.parametrize("wrong", [{"classes_from_data": True}, {"columns": {"age": {"max": 3, "from_data": True}}}])
def test_only_what_is_listed_can_be_from_data(wrong):
    with pytest.raises(SchemaError, match="from_data beside"):
        Schema.from_dict(wrong)
