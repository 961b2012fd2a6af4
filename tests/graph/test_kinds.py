"""Columns of any type of Arrow: the same through frames, Parquet and queries, as text would be, or refused by name."""

import datetime
import decimal
import re
import uuid

import numpy as np
import pytest

from sfumato.errors import DataError, DroppedWarning, SchemaError
from sfumato.graph import Graph, from_frames, import_tables, read_csv, read_parquet, read_sql

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

IDS = ["a", "b", "c"]
LINKS = pa.table({"source": ["a"], "target": ["b"]})


def framed(nodes, edges, folder, **how):
    return from_frames(nodes, edges, **how)


def parquet(nodes, edges, folder, **how):
    pq.write_table(nodes, folder / "n.parquet")
    pq.write_table(edges, folder / "e.parquet")
    return read_parquet(folder / "n.parquet", folder / "e.parquet", **how)


def stored(nodes, edges, folder, **how):
    parquet(nodes, edges, folder, **how)
    return Graph.load(import_tables(folder / "n.parquet", folder / "e.parquet", folder / "store", **how))


READERS = pytest.mark.parametrize("read", [framed, parquet])


def told(graph):
    ids = graph.node_ids.tolist()
    x = None if graph.x is None else np.asarray(graph.x).tolist()
    return ids, graph.feature_names, x, graph.classes, None if graph.y is None else graph.y.tolist()


def kept(kind, values):
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


UNREAD = {
    "pandas.period": pa.array(pd.Series(pd.period_range("2024", periods=3, freq="M"))),
    "pandas.interval": pa.array(pd.Series(pd.interval_range(0, 3))),
    "duration[s]": pa.array([1, 2, 3], pa.duration("s")),
    "list": pa.array([[1], [2], [3]]),
    "struct": pa.array([{"k": 1}] * 3),
    "binary": pa.array([b"x", b"y", b"z"]),
    "date32": pa.array([datetime.date(2024, 1, 1)] * 3),
    "timestamp": pa.array([datetime.datetime(2024, 1, 1)] * 3),
    "time64": pa.array([datetime.time(1)] * 3),
    "somebody.own": pa.array([1, 2, 3]),  # by the name of its type alone
}


@READERS
@pytest.mark.parametrize("kind", UNREAD)
def test_other_types_are_refused_by_name_whatever_they_are_stored_as(read, kind, tmp_path):
    known = {"ARROW:extension:name": kind} if "." in kind else None
    if read is not framed and isinstance(UNREAD[kind].type, pa.BaseExtensionType):
        known = None
    field = pa.field("x", UNREAD[kind].type, metadata=known)
    nodes = pa.table([IDS, UNREAD[kind]], schema=pa.schema([pa.field("id", pa.string()), field]))
    uses = [
        {},
        {"label": "x"},
        *({"schema": {"columns": {"x": one}}} for one in ({"categories": ["1"]}, {"min": 0, "max": 9})),
    ]
    for how in uses if read is framed else uses[:1]:
        with pytest.raises(DataError, match=f"column 'x' .*got {re.escape(kind)}"):
            read(nodes, LINKS, tmp_path, **how)
    with pytest.raises(DataError, match=f"column 'x' .*got {re.escape(kind)}"):
        read(nodes.select(["x"]).append_column("k", [[1, 2, 3]]), LINKS, tmp_path, id_column="x")
    assert read(nodes, LINKS, tmp_path, drop=["x"]).num_features == 0


ONE, TWO = uuid.UUID(int=1), uuid.UUID("ffffffff-0000-4000-8000-0123456789ab")
READ = {
    "byte as boolean": (kept(pa.bool8(), [1, 0, None]), ["true", "false", ""]),
    "uuid": (pa.array([ONE, TWO, None], pa.uuid()), [str(ONE), str(TWO), ""]),
    "json": (kept(pa.json_(), ["1", "2", "3"]), ["1", "2", "3"]),
    "decimal": (pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-2.50")]), ["1.25", "", "-2.50"]),
    "half": (pa.array(np.array([1.5, 2, 3], np.float16)), ["1.5", "2.0", "3.0"]),
    "large": (pa.array([2**63, 1, 2], pa.uint64()), ["9223372036854775808", "1", "2"]),
    "numbers by code": (pa.array([7, 8, 7]).dictionary_encode(), ["7", "8", "7"]),
    "nothing": (pa.nulls(3), ["", "", ""]),
}


@READERS
@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("use", ["number", "categories", "label", "none"])
def test_types_that_are_text_in_other_clothes_are_read_as_csv_has_them(read, kind, use, tmp_path):
    column, texts = READ[kind]
    how = {
        "number": {"schema": {"columns": {"x": {"min": 0, "max": 9}}}},
        "categories": {"schema": {"columns": {"x": {"categories": ["1.25", "1", "2", "7", "true", str(ONE)]}}}},
        "label": {"label": "x", "schema": {"classes": ["1.25", "1", "2", "7", "true", str(ONE)]}},
        "none": {},
    }[use]

    def either(reader, nodes):
        try:
            return told(reader(nodes, LINKS, tmp_path, **how))
        except (DataError, SchemaError) as error:
            return str(error)

    nodes = pa.table({"id": IDS, "x": column})
    assert either(read, nodes) == either(framed, pa.table({"id": IDS, "x": texts}))


@pytest.mark.parametrize("runs", [[1, 5], ["u", "v"], [True, False]])
def test_runs_are_read_as_their_values(runs):
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(runs))
    plain = pa.table({"id": IDS, "x": [runs[0], runs[0], runs[1]]})
    assert told(from_frames(pa.table({"id": IDS, "x": column}), LINKS)) == told(from_frames(plain, LINKS))


@pytest.mark.parametrize("read", [framed, parquet, stored])
@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(38, 0), pa.decimal128(38, 2)])
def test_ids_beyond_64_bits_are_the_text_that_a_file_would_hold(read, kind, tmp_path):
    ids = [2**64 - 1, 2**63, 7]
    nodes = pa.table({"id": pa.array(map(decimal.Decimal, ids)).cast(kind)})
    edges = pa.table({"source": pa.array([7, 2**63], pa.uint64()), "target": pa.array([2**63, 2**64 - 1], pa.uint64())})
    graph = read(nodes, edges, tmp_path)
    assert (graph.node_ids.tolist(), graph.num_edges) == ([str(one) for one in ids], 2)


def test_ids_of_queries_are_of_any_width():
    with duckdb.connect() as connection:
        graph = read_sql(
            connection,
            "SELECT 2::HUGEINT ** 70 + range AS id FROM range(3)".replace(
                "2::HUGEINT ** 70", "1180591620717411303424::HUGEINT"
            ),
            "SELECT 1180591620717411303424::HUGEINT AS source, 1180591620717411303425::HUGEINT AS target",
        )
    assert graph.node_ids.tolist() == [str(2**70 + at) for at in range(3)]
    assert graph.num_edges == 1


def test_an_id_that_is_itself_written_with_a_point_comes_first():
    edges = pa.table({"source": ["7.0", "7"], "target": ["x", "x"]})
    graph = from_frames(pa.table({"id": ["x", "7", "7.0"]}), edges, directed=True)
    assert graph.indptr.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("as_frame", [lambda t: t, pa.Table.to_pandas, pl.from_arrow])
def test_names_of_columns_are_trimmed_in_every_table_and_every_argument(as_frame, tmp_path):
    nodes = pa.table(
        {" id": IDS, "age ": [1, 2, 3], "note": ["u", "v", "w"], "\tyear": [9, 9, 8], "part": ["train"] * 3}
    )
    edges = pa.table({"to ": ["b", "c"], " from": ["a", "b"], "amount ": [1.0, 2.0]})
    how = {
        "label": "year ", "id_column": "id ", "source": "from ", "target": " to", "drop": ["note "], "role": " part",
        "edge_weight": " amount", "max_weight": 2,
    }  # fmt: skip
    schema = {
        "label": " year", "id": "id ", "role": "part ", "drop": [" note"], "columns": {" age": {"min": 0, "max": 3}},
        "edges": {"weight": "amount ", "max": 2},
    }  # fmt: skip
    csv.write_csv(nodes, tmp_path / "n.csv")
    csv.write_csv(edges, tmp_path / "e.csv")
    expected = told(read_csv(tmp_path / "n.csv", tmp_path / "e.csv", **how))
    assert expected[1:4] == (("age",), [[1], [2], [3]], ("8", "9"))
    assert told(from_frames(as_frame(nodes), as_frame(edges), **how)) == expected
    assert told(parquet(nodes, edges, tmp_path, **how)) == expected
    with duckdb.connect() as connection:
        queries = [f"FROM '{tmp_path}/{name}.parquet'" for name in "ne"]
        assert told(read_sql(connection, *queries, **how)) == expected
    declared = from_frames(as_frame(nodes), as_frame(edges), schema=schema)
    assert (declared.ranges, declared.roles.tolist(), declared.weights.bound) == ((("age", 0, 3),), [0, 0, 0], 2)
    del how["edge_weight"], how["max_weight"]
    with pytest.warns(DroppedWarning, match="amount"):
        assert told(parquet(nodes, edges, tmp_path, **how)) == expected


def test_names_that_differ_by_white_space_alone_are_one_name():
    with pytest.raises(DataError, match="name of its own, got 'f' for the columns 2 and 3"):
        from_frames(pa.table({"id": IDS, "f": [1, 2, 3], "f ": [1, 2, 3]}), LINKS)
    with pytest.raises(SchemaError, match="every column of the schema once"):
        from_frames(pa.table({"id": IDS}), LINKS, schema={"columns": {"f": {"min": 0}, " f": {"min": 0}}})


UNFIT = {
    "complex": pd.DataFrame({"id": [1, 2], "p": [1j, 2]}),
    "wide": pd.DataFrame({"id": [1, 2], "p": [2**70, 2]}),
    "surrogate": pd.DataFrame({"id": [1, 2], "p": pd.Series(["\ud800", "s"], dtype=object)}),
    "object": pd.DataFrame({"id": [1, 2], "p": [object(), None]}),
    "mixed": pd.DataFrame({"id": [1, 2], "p": ["s", 3]}),
    "long double": pd.DataFrame({"id": [1, 2], "p": np.array([1.5, 2], np.longdouble)}),
    "128 bits": pl.DataFrame({"id": [1, 2], "p": [1, 2]}).with_columns(pl.col("p").cast(pl.Int128)),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_columns_that_no_table_has_are_refused_by_name(kind):
    with pytest.raises(DataError, match=r"every column of nodes .* but column 'p' has others") as caught:
        from_frames(UNFIT[kind], pa.table({"source": [1], "target": [2]}))
    assert "s'" not in str(caught.value).replace("columns'", "")
