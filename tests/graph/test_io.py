"""Readers: CSV, Parquet and SQL through one path."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph import read_csv, read_parquet, read_sql

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

NODES = """id,age,dorm,ok,year
ann,3,north,true,2005
bob,4.5,,false,2004
cyd,5,south,,
007,6,north,true,2005
"""
EDGES = """source,target,weight
ann,bob,0.5
bob,ann,0.5
bob,cyd,2
cyd,007,1
cyd,cyd,1
"""


@pytest.fixture
def read(written):
    """Read a graph from the text of two CSV files."""
    return lambda nodes=NODES, edges=EDGES, **how: read_csv(*written(nodes, edges), **how)


def test_csv_becomes_a_graph(read):
    graph = read(label="year", name="four")
    assert graph.node_ids.tolist() == ["ann", "bob", "cyd", "007"]
    assert graph.feature_names == ("age", "dorm=north", "dorm=south", "ok=false", "ok=true")
    assert graph.x.tolist() == [[3, 1, 0, 0, 1], [4.5, 0, 0, 1, 0], [5, 0, 1, 0, 0], [6, 1, 0, 0, 1]]
    assert graph.x.dtype == np.float32
    assert (graph.classes, graph.y.tolist()) == (("2004", "2005"), [1, 0, -1, 1])
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]
    assert graph.merged == {"duplicates": 0, "reversed": 1, "self_loops": 1}
    assert (graph.directed, graph.name, graph.roles) == (False, "four", None)
    assert graph.assumed_public == ("num_features", "rare categories of column dorm", "classes", "rare classes")


def test_direction_comes_from_the_argument_or_the_schema(read):
    assert read(directed=True, features=[]).num_arcs == 4
    assert read(schema={"directed": True}, features=[]).directed
    with pytest.raises(SchemaError, match="directed=False beside directed=True"):
        read(schema={"directed": True}, directed=False, features=[])


def test_a_full_schema_leaves_nothing_to_assume(read):
    schema = {
        "classes": [2003, 2004, 2005],
        "label": "year",
        "max_degree": 2,
        "columns": {
            "age": {"min": 0, "max": 9},
            "dorm": {"categories": ["east", "south", "north"]},
            "ok": {"categories": [True, False]},
        },
    }
    graph = read(schema=schema)
    assert graph.assumed_public == ()
    assert graph.feature_names[1:4] == ("dorm=east", "dorm=south", "dorm=north")
    assert graph.x[:, 1:4].tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert (graph.num_classes, graph.y.tolist(), graph.max_degree) == (3, [2, 1, -1, 2], 2)


def test_numbers_with_a_declared_range_are_scaled_to_it(read):
    declared = {"columns": {"age": {"min": 0, "max": 80}}}
    raw, scaled = read(label="year"), read(label="year", schema=declared)
    column = raw.feature_names.index("age")
    np.testing.assert_allclose(np.asarray(scaled.x)[:, column], np.asarray(raw.x)[:, column] / 80, rtol=1e-6)
    assert np.asarray(raw.x)[:, column].max() > 1


def test_declared_categories_keep_their_text(read):
    graph = read("id,zip\na,01\nb,2\n", "s,t\n", schema={"columns": {"zip": {"categories": ["01", "2"]}}})
    assert graph.x.tolist() == [[1, 0], [0, 1]]


def test_plain_integer_ids_are_integers_and_007_is_not_7(read):
    assert read("id\n7\n-3\n", "a,b\n7,-3\n").node_ids.tolist() == [7, -3]
    assert read("id\n007\n7\n", "a,b\n007,7\n").num_edges == 1
    with pytest.raises(DataError, match=r"row 2 of .* has an unknown node in column 'a'"):
        read("id\n007\n", "a,b\n7,007\n")


def test_columns_are_found_by_name_or_by_place(read):
    assert read("age,node\n3,a\n4,b\n", "weight,To,From\n1,b,a\n", directed=True).indptr.tolist() == [0, 1, 1]
    assert read("who,age\na,3\nb,4\n", "x,y\nb,a\n", directed=True).indptr.tolist() == [0, 0, 1]
    chosen = read("a,b\n1,x\n2,y\n", "p,q,r\n1,y,x\n", id_column="b", source="r", target="q", directed=True)
    assert (chosen.node_ids.tolist(), chosen.indptr.tolist()) == (["x", "y"], [0, 1, 1])


def test_roles_are_read(read):
    text = "id,split\n1,train\n2,Validation\n3,\n4,test\n"
    assert read(text, "a,b\n", role="split").roles.tolist() == [0, 1, 3, 2]
    assert read(text, "a,b\n", schema={"role": "split"}).num_features == 0
    assert read("id,split\n1,0\n2,2\n", "a,b\n", role="split").roles.tolist() == [0, 2]
    with pytest.raises(SchemaError, match=r"column 'split' to hold a role.* row of node 2 does not"):
        read("id,split\n1,train\n2,tests\n", "a,b\n", role="split")


def test_an_empty_edge_table_is_allowed(read):
    graph = read(edges="source,target\n", label="year")
    assert (graph.num_nodes, graph.num_arcs) == (4, 0)


def test_many_sparse_columns_become_csr(read):
    rows = "".join(f"{i},c{i % 70},{i}\n" for i in range(140))
    graph = read("id,c,n\n" + rows, "a,b\n")
    assert isinstance(graph.x, sp.csr_matrix)
    assert (graph.x.dtype, graph.x.shape) == (np.float32, (140, 71))
    row = graph.x[75].toarray()[0]
    assert row[graph.feature_names.index("c=c5")] == 1
    assert row[graph.feature_names.index("n")] == 75
    assert row.sum() == 76
    assert isinstance(read("id,c\n" + "".join(f"{i},c{i % 60}\n" for i in range(120)), "a,b\n").x, np.ndarray)


@pytest.mark.parametrize(("columns", "sparse"), [(3, True), (30, False)])
def test_records_do_not_choose_how_features_are_stored(read, columns, sparse):
    """Storage follows from the columns: which entries are missing is private, and must not change rounding elsewhere."""
    names = [f"c{i}" for i in range(columns)]
    categories = [str(k) for k in range(90 // columns)]
    schema = {"columns": {name: {"categories": categories} for name in names}, "id": "id"}
    empty = ["a" + "," * columns] + [f"n{i}" + "," * columns for i in range(40)]
    full = ["a" + ",0" * columns] + [f"n{i}" + ",1" * columns for i in range(40)]
    for rows in (empty, full, [full[0], *empty[1:]]):
        nodes = "\n".join([",".join(["id", *names]), *rows]) + "\n"
        assert sp.issparse(read(nodes, "source,target\na,n1\n", schema=schema).x) == sparse


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "yeer"}, r"nodes.csv .* column 'yeer', got the columns id, age, .*Did you mean 'year'"),
        ({"id_column": "who"}, "column 'who', got the columns"),
        ({"source": "weigth"}, r"edges.csv .* 'weigth', got .* mean 'weight'"),
        ({"features": ["agee"]}, "column 'agee', got"),
        ({"features": ["year"], "label": "year"}, "leave out ids, labels, roles and texts, got 'year'"),
        (
            {"nodes": NODES.replace("4.5", "old")},
            "'age' to hold numbers or categories, got numbers beside text at node 'bob'",
        ),
        (
            {"label": "age", "features": ["dorm"]},
            "'age' to hold classes, but node 'bob' has a number with a fraction. To learn a number",
        ),
        ({"nodes": "id,year\na,\nb,\n", "edges": "s,t\n", "label": "year"}, "'year' .* all are missing"),
        ({"edges": EDGES + "ann,zed,1\n"}, r"row 7 of .*edges.csv has an unknown node in column 'target'"),
        ({"edges": EDGES + ",ann,1\n"}, "row 7 .* has no node in column 'source'"),
        ({"edges": EDGES + "-1,ann,1\n"}, "row 7 .* an unknown node in column 'source'"),
        ({"self_loops": "error"}, r"source\[4\] and target\[4\] are one node"),
    ],
)
def test_errors_teach_in_one_line(read, change, message):
    base = {"label": "year"} if "nodes" not in change and "edges" not in change else {"features": ["age"]}
    if "nodes" in change and not change["nodes"].startswith(NODES[:10]):
        base = {}
    with pytest.raises(InputError, match=message) as caught:
        read(**{**base, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"classes": [1999]}, "'year' to hold some of the classes 1999, got none"),
        ({"columns": {"dorm": {"min": 0}}}, "'dorm' to hold a number, but the row of node 'ann' does not"),
        ({"columns": {"dorm": {"min": -5, "max": 5}}}, "'dorm' to hold a number, but the row of node 'ann' does not"),
        ({"columns": {"zip": {}}}, "column 'zip' of the schema, got the columns id"),
        ({"columns": {"year": {}}}, r"'year' is read as id, label, role or text. Remove \[columns.year\]"),
        ({"num_features": 4}, "num_features=4 columns after encoding, got another"),
        ({"max_degree": 1}, "max_degree=1"),
    ],
)
def test_tables_that_do_not_fit_the_schema(read, schema, message):
    with pytest.raises(SchemaError, match=message):
        read(schema=schema, label="year")


def test_what_the_schema_does_not_list_is_clipped_or_missing_and_counted(read):
    columns = {"age": {"min": 4, "max": 5}, "dorm": {"categories": ["north"]}, "ok": {"categories": ["true", "false"]}}
    graph = read(label="year", schema={"classes": [2004], "columns": columns})
    assert graph.x.tolist() == [[0, 1, 1, 0], [0.5, 0, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0]]
    assert (graph.y.tolist(), graph.classes) == ([-1, 0, -1, -1], ("2004",))
    assert graph.outside == {"age": 2, "dorm": 1, "year": 2}
    assert graph.with_split().outside == graph.outside
    assert read(label="year").outside == {}


def test_infinite_numbers_are_clipped_to_a_declared_range(read):
    nodes = NODES.replace("4.5", "-inf").replace(",5,", ",1e300,")
    graph = read(nodes, schema={"columns": {"age": {"min": 0, "max": 10}}}, features=["age"])
    assert graph.x.ravel().tolist() == pytest.approx([0.3, 0, 1, 0.6])
    assert graph.outside == {"age": 2}
    with pytest.raises(DataError, match=r"'age' to be finite .* node 'cyd' is not.*known without this data"):
        read(nodes, schema={"columns": {"age": {"min": 0}}}, features=["age"])


def test_a_database_that_another_process_writes_to_is_named(tmp_path):
    path = tmp_path / "busy.db"
    code = f"import duckdb\nopened = duckdb.connect({str(path)!r})\nprint('open', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(DataError, match=r"busy\.db not to be in use, but another process .* or read a copy\.$"):
            read_sql(path, "SELECT 1", "SELECT 1")
        other.communicate(b"\n")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv to be a file"):
        read_csv(tmp_path / "none.csv", tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"none\.parquet to be a file"):
        read_parquet(tmp_path / "none.parquet", tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"none\.db to be a file"):
        read_sql(tmp_path / "none.db", "SELECT 1", "SELECT 1")
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"bad\.parquet to be Parquet, as it is called") as caught:
        read_parquet(tmp_path / "bad.parquet", tmp_path / "bad.parquet")
    assert "\n" not in str(caught.value)


def test_a_late_change_of_kind_names_its_node(read):
    rows = "".join(f"{i},{i}\n" for i in range(25_000))
    with pytest.raises(DataError, match="numbers beside text at node 'x'"):
        read("id,age\n" + rows + "x,old\n", "a,b\n")


@pytest.fixture
def tables():
    nodes = pa.table(
        {
            "id": pa.array(["1", "2", "3"]),
            "age": pa.array([1.0, 2.0, 3.0]),
            "kind": pa.array(["x", "y", None]).dictionary_encode(),
            "year": pa.array([2004.0, float("nan"), 2005.0]),
        }
    )
    return nodes, pa.table({"src": pa.array([1, 3]), "dst": pa.array([2, 2])})


def test_parquet_and_sql_agree(tables, tmp_path):
    nodes, edges = tables
    pq.write_table(nodes, tmp_path / "n.parquet")
    pq.write_table(edges, tmp_path / "e.parquet")
    graph = read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet", label="year")
    assert graph.node_ids.tolist() == [1, 2, 3]
    assert graph.indices.tolist() == [1, 0, 2, 1]
    assert (graph.classes, graph.y.tolist()) == (("2004", "2005"), [0, -1, 1])
    assert graph.x.tolist() == [[1, 1, 0], [2, 0, 1], [3, 0, 0]]
    with duckdb.connect(tmp_path / "g.db") as connection:
        connection.execute(f"CREATE TABLE people AS FROM '{tmp_path}/n.parquet'")
        connection.execute(f"CREATE TABLE links AS FROM '{tmp_path}/e.parquet'")
        live = read_sql(connection, "FROM people", "SELECT dst, src FROM links", label="year")
        assert connection.execute("SELECT 1").fetchone() == (1,)
    stored = read_sql(str(tmp_path / "g.db"), "FROM people", "FROM links", label="year")
    for other in (live, stored):
        assert np.array_equal(other.indices, graph.indices)
        assert np.array_equal(other.x, graph.x)
        assert other.assumed_public == graph.assumed_public


@pytest.mark.parametrize(
    ("query", "how", "message"),
    [
        ("SELECT 1 AS id, [1, 2] AS y", {"label": "y"}, "one class a node, got list.*several labels"),
        ("SELECT 1 AS id, [1, 2] AS v", {}, "column 'v' to hold numbers, text or booleans, got list"),
        ("SELECT 1 AS id, DATE '2020-01-01' AS d", {"label": "d"}, "label column 'd' .* got date32"),
        (
            "SELECT 1 AS id, 1.5::DECIMAL(4, 2) AS y",
            {"label": "y"},
            "node 1 has a number with a fraction. To learn a number",
        ),
        ("SELECT 1.5 AS id", {}, "column 'id' of the nodes query to hold integers"),
        ("SELECT DATE '2020-01-01' AS id", {}, "to hold integers or text, got date32"),
        ("SELECT 1 AS id FROM nope", {}, "the nodes query to be readable, got .*nope"),
    ],
)
def test_columns_of_the_wrong_kind(query, how, message):
    with duckdb.connect() as connection, pytest.raises(InputError, match=message) as caught:
        read_sql(connection, query, "SELECT 1 AS a, 1 AS b", **how)
    assert "\n" not in str(caught.value)


def test_many_edges_of_text_ids_in_many_batches(read, monkeypatch):
    monkeypatch.setattr("sfumato.tables._build._BATCH", 1000)
    ends = np.random.default_rng(0).integers(0, 500, (10_000, 2))
    graph = read(
        "id\n" + "".join(f"user{i}\n" for i in range(500)),
        "a,b\n" + "".join(f"user{a},user{b}\n" for a, b in ends.tolist()),
        directed=True,
    )
    distinct = {(a, b) for a, b in ends.tolist() if a != b}
    assert graph.num_arcs == len(distinct)
    assert graph.num_arcs + sum(graph.merged.values()) == 10_000


def test_no_sign_of_an_id_starts_a_comment(read):
    graph = read("id,y\n#1,a\n#2,b\n3,a\n4,b\n", "source,target\n#1,3\n3,4\n#2,4\n", label="y")
    assert (graph.node_ids.tolist(), graph.num_edges) == (["#1", "#2", "3", "4"], 3)


def test_the_path_of_a_file_says_nothing_of_its_contents(tmp_path):
    folder = tmp_path / "y=7"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,y\na,x\nb,z\nc,x\n")
    (folder / "edges[1].csv").write_text("source,target\na,b\nb,c\n")
    (folder / "edges1.csv").write_text("source,target\na,c\n")
    graph = read_csv(folder / "nodes.csv", folder / "edges[1].csv", label="y")
    assert (graph.classes, graph.num_edges, graph.num_features) == (("x", "z"), 2, 0)


@pytest.mark.parametrize("low", [-(2**63) + 5, -5])
def test_numbers_too_far_from_all_ids_are_no_nodes(read, low):
    with pytest.raises(DataError, match="has an unknown node in column"):
        read("id,y\n" + "".join(f"{low + i},a\n" for i in range(20)), f"source,target\n{low},{2**63 - 1}\n", label="y")
