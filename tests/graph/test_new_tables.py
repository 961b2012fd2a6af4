"""A newcomer's row means what it would have meant in training, whatever the few rows of its table look like."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import DataError, DroppedWarning, SchemaError
from sfumato.graph import from_frames
from sfumato.graph._graph import Graph
from sfumato.privacy.units import EdgeLevel
from sfumato.tables._newcomers import Newcomers, node_names, read_new_nodes, read_newcomers

COLUMNS = {
    "age": [30, 41, None, 7, 12, 30],
    "score": [0.5, None, 2.0, -1.25, 3.0, 1e-3],
    "ok": [True, False, None, True, True, False],
    "dorm": ["north", "south", None, "a=b", "north", "12"],
    "code": ["007", "008", "007", None, "008", "007"],
    "year": [2004, 2005, 2004, None, 2005, 2004],
    "level=x": [1.0, 2.0, 3.0, None, 5.0, 6.0],
}
SCHEMA = {
    "columns": {
        "age": {"min": 10, "max": 50},
        "code": {"categories": ["007", "008"]},
        "year": {"categories": ["2004", "2005"]},
    }
}
ROWS = [*([row] for row in range(6)), [2, 3], [1, 4, 5], [5, 4, 3, 2, 1, 0]]


def frame(rows=range(6), names=tuple(COLUMNS), first=0):
    kinds = {"age": "Int64", "ok": "boolean", "year": "Int64"}
    table = {"id": [first + row for row in rows]}
    table |= {name: pd.array([COLUMNS[name][row] for row in rows], kinds.get(name)) for name in names}
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def trained():
    edges = pd.DataFrame({"source": [0], "target": [1]})
    return from_frames(frame(), edges, schema=SCHEMA)


def as_csv(table, folder):
    table.to_csv(folder / "new.csv", index=False)
    return folder / "new.csv"


def as_parquet(table, folder):
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / "new.parquet")
    return folder / "new.parquet"


def as_words(table, folder):
    """Everything is text, as some tools write it."""
    return as_csv(table.astype(object).map(lambda cell: "NA" if pd.isna(cell) else str(cell)), folder)


FORMS = {
    "csv": as_csv,
    "words": as_words,
    "parquet": as_parquet,
    "pandas": lambda table, _: table,
    "polars": lambda table, _: pl.from_pandas(table),
    "arrow": lambda table, _: pa.Table.from_pandas(table, preserve_index=False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_rows_of_training_mean_the_same_when_they_arrive_alone(trained, rows, form, tmp_path):
    turned = ("year", "level=x", "age", "dorm", "score", "code", "ok")
    new = frame(rows, turned, first=100).assign(other="extra", more=1.5)
    nodes = read_new_nodes(trained, FORMS[form](new, tmp_path), schema=SCHEMA)
    assert nodes.feature_names == trained.feature_names
    assert nodes.x.tolist() == trained.x[rows].tolist()
    assert node_names(nodes) == [str(100 + row) for row in rows]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_empty_gives_what_a_missing_cell_gave(trained, column, tmp_path):
    missing = COLUMNS[column].index(None)
    for empty in (None, "", "NA"):
        new = frame([0, missing], first=100)
        new[column] = [empty, empty]
        found = read_new_nodes(trained, as_csv(new, tmp_path), schema=SCHEMA).x
        assert found[1].tolist() == trained.x[missing].tolist()
        of_column = [name.startswith((f"{column}=", column)) for name in trained.feature_names]
        assert found[0][of_column].tolist() == trained.x[missing][of_column].tolist()


WRITTEN = ["true", "True", " TRUE", True, "yes", "y", "t", "on", "1", 1, 1.0, "+1", 0, "false", "no", False, "NA"]


@pytest.mark.parametrize("form", ["parquet", "words"])
@pytest.mark.parametrize("written", WRITTEN, ids=repr)
def test_booleans_of_newcomers_are_read_as_those_of_training(trained, written, form, tmp_path):
    """The same cells in a table of training give the same: ``yes`` and ``1`` are no booleans there either."""
    new = frame([1], first=100).assign(ok=pd.Series([written], dtype=object))
    nodes = read_new_nodes(trained, FORMS[form](new, tmp_path), schema=SCHEMA)
    small = {"columns": {"ok": {"categories": ["false", "true"]}}}
    edges = pd.DataFrame({"source": [101], "target": [101]})
    again = from_frames(new[["id", "ok"]], edges, schema=small)
    place = trained.feature_names.index("ok=false")
    assert nodes.x[0, place : place + 2].tolist() == again.x[0].tolist()
    assert nodes.outside.get("ok", 0) == again.outside.get("ok", 0)
    word = str(written).strip().lower()
    assert again.x[0].tolist() == [word == "false", word == "true"]
    assert again.outside == ({} if word in ("true", "false", "na") else {"ok": 1})


def test_categories_that_training_did_not_have_count_as_missing(trained, tmp_path):
    new = frame([0], first=100).assign(dorm="west", ok="maybe", year=1999)
    nodes = read_new_nodes(trained, as_csv(new, tmp_path), schema=SCHEMA)
    kept = [not name.startswith(("dorm=", "ok=", "year=")) for name in trained.feature_names]
    assert nodes.x[0][kept].tolist() == trained.x[0][kept].tolist()
    assert not nodes.x[0][[not one for one in kept]].any()


def test_a_number_that_is_none_is_refused_without_its_value(trained, tmp_path):
    new = frame([0], first=100).assign(score="secret")
    with pytest.raises(SchemaError, match="column 'score'") as error:
        read_new_nodes(trained, as_csv(new, tmp_path), schema=SCHEMA)
    assert "secret" not in str(error.value)


def test_ranges_of_training_scale_newcomers_without_the_schema(trained, tmp_path):
    nodes = read_new_nodes(trained, as_csv(frame([0, 3], first=100), tmp_path))
    assert nodes.x.tolist() == trained.x[[0, 3]].tolist()


def test_a_graph_without_features_takes_no_column(tmp_path):
    bare = Graph.from_edges([0], [1], 2, directed=False)
    assert read_new_nodes(bare, as_csv(frame([0], first=100), tmp_path)).num_features == 0


def test_features_without_names_are_numbers_even_where_they_are_empty(tmp_path):
    bare = Graph.from_edges([0], [1], 2, directed=False, x=[[1, 2], [3, 4]])
    (tmp_path / "new.csv").write_text("id,a,b\n7,,2\n")
    assert read_new_nodes(bare, tmp_path / "new.csv").x.tolist() == [[0, 2]]
    (tmp_path / "new.csv").write_text("id,a,b,c\n7,,2,3\n")
    with pytest.raises(
        DataError, match="to have 2 columns of features, as the trained graph, whose columns have no names, got 3"
    ):
        read_new_nodes(bare, tmp_path / "new.csv")


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas", "polars", "arrow"])
def test_edges_of_newcomers_are_read_from_any_table(trained, form, tmp_path):
    nodes = read_new_nodes(trained, frame([0], first=100), schema=SCHEMA)
    edges = FORMS[form](pd.DataFrame({"source": [100, 2], "target": [0, 100]}), tmp_path)
    late = read_newcomers(nodes, [trained], edges)
    assert late.reach_indices.tolist() == [0, 0]


def test_a_column_in_other_words_than_those_of_training_is_warned_of(trained):
    new = frame([0] * 10).assign(id=range(100, 110), ok="yes")
    nodes = read_new_nodes(trained, new, schema=SCHEMA)
    assert nodes.outside == {"ok": 10}
    with pytest.warns(DroppedWarning, match="Nearly all cells of the column ok"):
        Newcomers.join(nodes, [trained], [], []).public_facts(EdgeLevel(directed=False))
