"""One rule for cells: the same table is the same graph through every reader, and all rows decide what a column is."""

import gzip
import warnings

import numpy as np
import pytest

from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph import Graph, from_frames, import_tables, read_parquet, read_sql
from sfumato.privacy.units import EdgeLevel, LocalLevel, NodeLevel

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

NODES = "id,f\na,1\nb,2\nc,3\n"
EDGES = "source,target\na,b\nb,c\n"


def column(*cells, **how):
    """The node table of one column f, as CSV."""
    return "id,f\n" + "".join(f"n{row},{cell}\n" for row, cell in enumerate(cells))


def test_the_last_row_decides_as_the_first_does(read):
    cells = ["7"] * 21_000 + ["0.4", "1.4"]
    graph = read(column(*cells))
    assert graph.x[-3:].ravel().tolist() == pytest.approx([7, 0.4, 1.4])
    with pytest.raises(DataError, match="node 'n21001' has a number with a fraction"):
        read(column(*["7"] * 21_001, "2.5"), label="f")
    weights = "source,target,w\n" + "n0,n1,1\n" * 21_000 + "n1,n0,0.5\n"
    assert read(column("1", "2"), weights, edge_weight="w", max_weight=42_001).weights.values[0] == pytest.approx(
        21_000.5, rel=1e-4
    )


@pytest.mark.parametrize(
    ("cells", "names", "x"),
    [
        (["yes", "no", "unknown"], ("f=no", "f=yes"), [[0, 1], [1, 0], [0, 0]]),
        (["T", "F", ""], ("f=F", "f=T"), [[0, 1], [1, 0], [0, 0]]),
        (["True", "FALSE", "NA"], ("f=false", "f=true"), [[0, 1], [1, 0], [0, 0]]),
        ([" x", "x ", "y"], ("f=x", "f=y"), [[1, 0], [1, 0], [0, 1]]),
        (["007", "+8", " 9 "], ("f",), [[7], [8], [9]]),
        (["33554433", "?", "1e3"], ("f",), [[2.0**25], [0], [1000]]),
        (["", "NA", "null"], ("f",), [[0], [0], [0]]),
    ],
)
def test_features_through_every_reader(read, tmp_path, cells, names, x):
    quoted = [f'"{cell}"' for cell in cells]
    frame = pd.DataFrame({"id": ["n0", "n1", "n2"], "f": cells})
    edges = pd.DataFrame({"source": ["n0"], "target": ["n1"]})
    table, links = pa.table({"id": frame["id"], "f": pa.array(cells)}), pa.Table.from_pandas(edges)
    pq.write_table(table, tmp_path / "n.parquet")
    pq.write_table(links, tmp_path / "e.parquet")
    views = table.set_column(1, "f", pa.chunked_array([pa.array(cells, pa.string_view())]))
    encoded = table.set_column(1, "f", table.column("f").dictionary_encode())
    with duckdb.connect() as connection:
        query = read_sql(connection, f"FROM '{tmp_path}/n.parquet'", f"FROM '{tmp_path}/e.parquet'")
    for graph in (
        read(column(*quoted), "source,target\nn0,n1\n"),
        read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet"),
        from_frames(frame, edges),
        from_frames(views, links),
        from_frames(encoded, links),
        query,
    ):
        assert graph.feature_names == names
        assert graph.x.tolist() == x


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e400"])
def test_an_infinite_number_is_named_wherever_it_stands(read, row, cell):
    cells = ["1", "2", "3"]
    cells[row] = cell
    with pytest.raises(DataError, match=f"'f' to be finite .* the number of node 'n{row}' is not"):
        read(column(*cells))
    with pytest.raises(DataError, match=f"node 'n{row}' has an infinite number"):
        read(column(*cells), label="f")


@pytest.mark.parametrize(
    ("cells", "classes", "y"),
    [
        (["yes", "no", "unknown"], ("no", "yes"), [1, 0, -1]),
        (["T", "F", "NA"], ("F", "T"), [1, 0, -1]),
        (["x ", "x", "y"], ("x", "y"), [0, 0, 1]),
        (["1.0", "", "3.0"], ("1", "3"), [0, -1, 1]),
        (["10", "9", "NA"], ("9", "10"), [1, 0, -1]),
        (["9007199254740993", "9007199254740992", ""], ("9007199254740992", "9007199254740993"), [1, 0, -1]),
    ],
)
def test_labels_keep_the_words_of_the_table(read, cells, classes, y):
    frame = pd.DataFrame({"id": ["n0", "n1", "n2"], "f": cells})
    framed = from_frames(pa.Table.from_pandas(frame), pd.DataFrame({"source": ["n0"], "target": ["n1"]}), label="f")
    for graph in (read(column(*cells), label="f"), framed):
        assert (graph.classes, graph.y.tolist()) == (classes, y)


def test_a_declared_word_is_not_missing(read):
    schema = {"label": "f", "classes": ["yes", "unknown"]}
    assert read(column("yes", "unknown", "NA"), schema=schema).y.tolist() == [0, 1, -1]
    schema = {"columns": {"f": {"categories": [1, 2, 3]}}}
    graph = read(column("1.0", "", "3.0"), schema=schema)
    assert (graph.x.tolist(), graph.outside) == ([[1, 0, 0], [0, 0, 0], [0, 0, 1]], {})


def test_missing_targets_and_roles(read):
    number = {"label": "f", "target": "number", "target_range": [0, 10]}
    assert read(column("NA", "2.5", "?"), schema=number).targets.known.tolist() == [
        False,
        True,
        False,
    ]
    nodes = "id,a,b,part\nn0,yes,0,train\nn1,NA,1,unknown\nn2,0,no, Val \n"
    graph = read(nodes, label=["a", "b"], role="part")
    np.testing.assert_array_equal(graph.targets.values, [[1, 0], [np.nan, 1], [0, 0]])
    assert graph.roles.tolist() == [0, 3, 1]


@pytest.mark.parametrize(
    ("nodes", "edges", "how", "told"),
    [
        (NODES, "source,target,w\na,b,9007199254740993\nb,c,x\n", {"edge_weight": "w", "max_weight": 9}, "row 3"),
        (NODES, "source,target,w\na,b,1\nb,c,NA\n", {"edge_weight": "w", "max_weight": 9}, "row 3 .* missing"),
        (column("1", "x9"), "source,target\n", {"label": "f", "schema": {"target": "number"}}, "node 'n1'"),
        ("id,a,b\nn0,1,0\nn1,1,x9\n", "source,target\n", {"label": ["a", "b"]}, "node 'n1'"),
        (column("1", "x9"), "source,target\n", {"schema": {"columns": {"f": {"min": 0}}}}, "node 'n1'"),
        ("id,f\na,1\nNA,2\n", "source,target\n", {}, "row 3 has none .* null"),
    ],
)
def test_errors_tell_a_place_and_no_value(read, nodes, edges, how, told):
    with pytest.raises(InputError, match=told) as caught:
        read(nodes, edges, **how)
    assert not any(value in str(caught.value) for value in ("x9", "9007", "\n"))


def test_a_number_that_no_float_is_becomes_the_nearest(read):
    big = 9007199254740993
    edges = pa.table({"source": ["a"], "target": ["b"], "w": pa.array([big])})
    nodes = pa.table({"id": ["a", "b"], "f": pa.array([big, 1]), "t": pa.array([big, 1])})
    schema = {"label": "t", "target": "number", "target_range": [0, 1e30], "columns": {"f": {"min": 0, "max": 2**53}}}
    graph = from_frames(nodes, edges, schema=schema, edge_weight="w", max_weight=2.0**54)
    assert (graph.x[0, 0], graph.targets.values[0, 0]) == (1, 2.0**53)
    assert graph.weights.values[0] == 2.0**53


def test_floats_from_2_to_the_53_are_no_ids():
    edges = pd.DataFrame({"source": [1.0], "target": [2.0]})
    assert from_frames(pd.DataFrame({"id": [1.0, 2.0]}), edges).node_ids.tolist() == [1, 2]
    with pytest.raises(DataError, match=r"Floats from 2\^53 on are not read as ids"):
        from_frames(pd.DataFrame({"id": [2.0**53, 1.0]}), edges)


@pytest.mark.parametrize(
    "edges",
    ["a,b\nb,c\na,c\n", "1,2\n2,3\n", "1,2,0.5\n2,3,0.1\n", "a,b,0.5\nb,c,1\n", "source\na\n", ",a\n0,b\n"],
)
def test_edges_without_a_row_of_names_are_refused(read, edges):
    with pytest.raises(DataError, match=r"to name the columns|two columns of node ids"):
        read(NODES, edges)


@pytest.mark.parametrize("nodes", ["a,1\nb,2\n", "1,2\n2,3\n", "a,x\nb,y\nc,x\nd,x\n"])
def test_nodes_without_a_row_of_names_are_refused(read, nodes):
    with pytest.raises(DataError, match=r"first row of .* to name the columns"):
        read(nodes)


def test_sparse_columns_and_views(read):
    pl, edges = pytest.importorskip("polars"), {"source": ["a", "b"], "target": ["b", "c"]}
    nodes = {"id": ["a", "b", "c"], "f": [0.0, 2.0, 0.0], "y": ["x", None, "z "]}
    sparse = pd.DataFrame(nodes).assign(f=pd.arrays.SparseArray(nodes["f"]))
    typed = pl.DataFrame(nodes).with_columns(pl.col("y").cast(pl.Categorical))
    for frame in (sparse, pl.DataFrame(nodes), typed, pa.table(nodes)):
        graph = from_frames(frame, pl.DataFrame(edges), label="y")
        assert (graph.x.ravel().tolist(), graph.classes, graph.y.tolist()) == ([0, 2, 0], ("x", "z"), [0, -1, 1])


def test_names_that_differ_in_capitals_alone(read, tmp_path):
    nodes = "id,F,f\na,1,x\nb,2,y\n"
    pq.write_table(pa.table({"id": ["a", "b"], "F": [1, 2], "f": ["x", "y"]}), tmp_path / "n.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["b"]}), tmp_path / "e.parquet")
    for graph in (read(nodes, EDGES[:18]), read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet")):
        assert graph.feature_names == ("F", "f=x", "f=y")


def test_columns_of_one_name_are_refused():
    edges = pd.DataFrame({"source": ["a"], "target": ["a"]})
    with pytest.raises(DataError, match="the nodes table to have a name of its own, got 'f' for the columns 2 and 3"):
        from_frames(pd.DataFrame([["a", 1, 2]], columns=["id", "f", "f"]), edges)


def test_cells_that_are_nearly_all_undeclared_are_told_where_they_are_public(read, tmp_path):
    schema = {"columns": {"f": {"categories": ["north"]}}}
    with warnings.catch_warnings(action="error"):
        graph = read(column(*["x9"] * 11, ""), schema=schema)
        folder = import_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", tmp_path / "store", schema=schema)
        fewer = read(column(*["x9"] * 10, "north", ""), schema=schema)
        fewer.public_facts(EdgeLevel(directed=False))
        for unit in (NodeLevel(), LocalLevel(features=False), LocalLevel(labels=False)):
            graph.public_facts(unit)
    for one in (graph, Graph.load(folder)):
        with pytest.warns(DroppedWarning, match="Nearly all cells of the column f of graph") as told:
            one.public_facts(EdgeLevel(directed=False))
        assert "x9" not in str(told[0].message)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_schema_in_any_utf(read, tmp_path, encoding):
    path = tmp_path / "public.toml"
    path.write_bytes('label = "f"\r\nclasses = ["1", "é"]\r\n'.encode(encoding))
    assert read(column("1", "é"), schema=path).y.tolist() == [0, 1]


def test_the_index_of_a_frame_is_no_id_end_or_feature(read, tmp_path):
    nodes, edges = ",id,f,year\n0,a,1,2\n1,b,2,2\n2,c,3,2\n", ",person,friend\n0,a,b\n1,b,c\n"
    saved = pd.DataFrame({"person": ["a", "b", "x"], "friend": ["b", "c", "y"]}).iloc[:2].iloc[[0, 1]]
    pq.write_table(
        pa.table({"__index_level_0__": [5, 6], **{name: saved[name] for name in saved}}), tmp_path / "e.parquet"
    )
    pq.write_table(pa.table({"Unnamed: 0": [1, 2, 3], "id": ["a", "b", "c"], "f": [1, 2, 3]}), tmp_path / "n.parquet")
    for graph in (read(nodes, edges, label="year"), read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet")):
        assert (graph.node_ids.tolist(), graph.feature_names, graph.num_edges) == (["a", "b", "c"], ("f",), 2)


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (b"\xef\xbb\xbf" + NODES.encode(), b"\xef\xbb\xbf" + EDGES.encode()),
        (NODES.replace("\n", "\r\n", 2), EDGES.replace("\n", "\r", 1)),
        (NODES.replace("\n", "\r"), EDGES.replace("\n", "\r\n")),
        (NODES.encode("utf-16"), EDGES.encode("utf-32")),
        ("# from a tool, with a comma\n# two\n" + NODES, "# FromNodeId\tToNodeId\na\tb\nb\tc\n"),
        ("\n" + NODES.replace("\n", "\n\n"), EDGES + "\n\n"),
        (NODES.replace("\n", ",\n"), EDGES.replace(",", ", ")),
        ('"id";"f"\n"a";1\n"b";2\n"c";3\n', EDGES.replace(",", "|")),
        ("sep=;\r\n" + NODES.replace(",", ";").replace("\n", "\r\n"), EDGES),
        (NODES.replace(",", "\t"), '"source"\t"target"\r\n"a"\t"b"\r\n"b"\t"c"\r\n'),
        (gzip.compress(NODES.encode(), mtime=0), pa.compress(EDGES.encode(), "zstd", asbytes=True)),
    ],
)
def test_files_of_many_tools(read, nodes, edges):
    graph = read(nodes, edges)
    assert (graph.node_ids.tolist(), graph.feature_names) == (["a", "b", "c"], ("f",))
    assert (graph.x.ravel().tolist(), graph.indices.tolist()) == ([1, 2, 3], [1, 0, 2, 1])


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("id,f,f\na,1,2\n", "name of its own, got 'f' for the columns 2 and 3"),
        ("id,f\na,1,2\n", "Expected 2 cells .* row 2 has 3"),
        ("id,f\ra,1,\nb,1,2\n", "Expected 2 cells .* row 3 has 3"),
        ('id,f\na,"1\n', "quotes of .* row 2"),
        (b"id,f\0\na,1\0\n", "to be text"),
        (gzip.compress(b"id,f\na,1\n" * 9, mtime=0)[:-9], "a part of one. Copy it again"),
        ("", "got an empty row"),
        ("\n\n", "got an empty row"),
        ("id,f\n", "at least one row"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_the_reason(read, nodes, told):
    with pytest.raises(DataError, match=told) as caught:
        read(nodes)
    assert "\n" not in str(caught.value)


def test_what_was_read_is_told(read):
    told = {}
    nodes = "id,city,age,ok,year,note,part\na,x,1,true,1,hm,train\nb,y,NA,,2,ha,val\nc,x,3,false,,ho,\n"
    read(
        nodes, "source,target,w,when\na,b,1,2\n", label="year", role="part", features=["city", "age", "ok"],
        edge_weight="w", max_weight=3, told=lambda place, columns: told.setdefault(place[-9:], columns),
    )  # fmt: skip
    assert [(one.name, one.use, one.kind, one.count, one.missing) for one in told["nodes.csv"]] == [
        ("id", "id", "text", None, 0),
        ("city", "feature", "category", 2, 0),
        ("age", "feature", "number", None, 1),
        ("ok", "feature", "boolean", 2, 1),
        ("year", "label", "category", 2, 1),
        ("note", "left out", "", None, 0),
        ("part", "role", "category", None, 1),
    ]
    assert [(one.name, one.use, one.kind) for one in told["edges.csv"]] == [
        ("source", "end", "text"),
        ("target", "end", "text"),
        ("w", "weight", "number"),
        ("when", "left out", ""),
    ]
