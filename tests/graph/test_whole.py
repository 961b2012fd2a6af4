"""A number is one number in every writing, and gives one answer in every source: ids, ends, labels and declared words."""

from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import DataError
from sfumato.graph import from_frames, read_csv, read_parquet
from sfumato.graph._graph import Graph
from sfumato.tables._newcomers import check_first

BIG = float(2**53)


def csv_file(table, path):
    rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)]
    path.write_text("\n".join(",".join("" if cell is None else str(cell) for cell in row) for row in rows) + "\n")
    return path


def parquet_file(table, path):
    pq.write_table(table, path)
    return path


SOURCES = {
    "frames": lambda nodes, edges, folder, **how: from_frames(nodes, edges, **how),
    "parquet": lambda nodes, edges, folder, **how: read_parquet(
        parquet_file(nodes, folder / "n.parquet"), parquet_file(edges, folder / "e.parquet"), **how
    ),
    "csv": lambda nodes, edges, folder, **how: read_csv(
        csv_file(nodes, folder / "n.csv"), csv_file(edges, folder / "e.csv"), **how
    ),
}


@pytest.fixture(params=SOURCES)
def read(request, tmp_path):
    def graph(nodes, source=None, target=None, **how):
        nodes = {name: pa.array(cells) for name, cells in nodes.items()}
        edges = {"source": pa.array(source or nodes["id"][:1]), "target": pa.array(target or nodes["id"][:1])}
        return SOURCES[request.param](pa.table(nodes), pa.table(edges), tmp_path, **how)

    return graph


@pytest.mark.parametrize("ids", [[True, False], ["True", "False"], ["true", " FALSE"], ["false"]], ids=str)
def test_booleans_are_no_ids(read, ids):
    with pytest.raises(DataError, match=r"column 'id' of .* to hold integers or text, got bool"):
        read({"id": ids})


def test_words_beside_true_are_ids(read):
    graph = read({"id": ["true", "maybe", "false"]}, ["true", "true"], ["maybe", "false"])
    assert (graph.node_ids.tolist(), graph.indices.tolist()) == (["true", "maybe", "false"], [1, 2, 0, 0])


@pytest.mark.parametrize(
    ("ids", "ends"),
    [
        ([0, 2], [2.0, -0.0]),
        ([0, 2], ["2.", "-0.0"]),
        ([-0.0, 2.0], ["2e0", "0e5"]),
        (["0e0", "2."], ["20e-1", "-0"]),
        (["-0", "2"], [".2e1", "0.0"]),
        (["0", "2", "x"], ["2.0E+00", "0."]),
        (["0", "2", "x"], [2.0, -0.0]),
    ],
    ids=str,
)
def test_ends_and_ids_are_one_number_in_every_writing(read, ids, ends):
    graph = read({"id": ids}, ends[:1], ends[1:])
    assert graph.indices.tolist() == [1, 0]
    assert graph.node_ids.tolist()[:2] == ([0, 2] if len(ids) == 2 else ["0", "2"])


@pytest.mark.parametrize("end", ["2.5", "+2", "002", "002.0", "02e0", "2e", "e2", "1e400", BIG, f"{2**53}.0"])
def test_other_ends_are_other_nodes(end):
    edges = pa.table({"source": [end], "target": [1]})
    with pytest.raises(DataError, match=r"an unknown node in column 'source'|Floats from"):
        from_frames(pa.table({"id": [1, 2, 2**53]}), edges)
    if isinstance(end, str):  # a node of that name comes first
        edges = pa.table({"source": [end], "target": ["2"]})
        assert from_frames(pa.table({"id": ["2", end]}), edges).indices.tolist() == [1, 0]


@pytest.mark.parametrize("label", [[BIG, 1.0], [f"{2**53}.0", "1"], ["9.007199254740992e15", "1"]], ids=str)
def test_floats_that_may_be_rounded_are_no_classes(read, label):
    with pytest.raises(DataError, match="too large to be a class"):
        read({"id": [1, 2], "y": label}, label="y")


@pytest.mark.parametrize("label", [[1000.0, 7.0], ["1e+03", "7."], ["10e2", "+7"]], ids=str)
@pytest.mark.parametrize("schema", [None, {"classes": ["1000", "7"]}], ids=str)
def test_classes_are_one_number_in_every_writing(read, label, schema):
    graph = read({"id": [1, 2], "y": label}, label="y", schema=schema)
    assert [graph.classes[code] for code in graph.y] == ["1000", "7"]


@pytest.mark.parametrize("cells", [[BIG, 1.0], [f"{2**53}.0", "1e0"]], ids=str)
def test_declared_words_are_never_floats_that_may_be_rounded(read, cells):
    schema = {"columns": {"c": {"categories": ["1", str(2**53)]}}}
    graph = read({"id": [1, 2], "c": cells}, schema=schema)
    assert (graph.x.tolist(), graph.outside) == ([[0, 0], [1, 0]], {"c": 1})


@pytest.mark.parametrize("storage", [pa.binary(16), pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_uuids_are_text_also_where_a_tool_forgot_their_name(storage):
    ids = [UUID(int=7), UUID(int=2**100)]
    nodes = pa.table({"id": pa.array([one.bytes for one in ids], storage)})
    edges = pa.table({"source": [str(ids[0])], "target": [str(ids[1])]})
    graph = from_frames(nodes, edges)
    assert (graph.node_ids.tolist(), graph.num_arcs) == ([*map(str, ids)], 2)
    named = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes for one in ids], pa.binary(16)))
    again = pl.from_arrow(pa.table({"source": named[:1], "target": named[1:]}))
    assert from_frames(nodes, again).indices.tolist() == [1, 0]
    if storage != pa.binary(16):
        with pytest.raises(DataError, match=r"to hold integers or text, got (large_)?binary"):
            from_frames(pa.table({"id": pa.array([b"short", ids[0].bytes], storage)}), edges)


@pytest.mark.parametrize("name", ["54", "54.0", "54.", "5.4e1", "+54", " 54"])
def test_a_node_does_not_arrive_again_in_another_writing(name):
    before = Graph.from_edges([0], [1], 2, directed=False, node_ids=np.array([54, 7]))
    late = Graph.from_edges([], [], 2, directed=False, node_ids=np.array([name, "x"]))
    with pytest.raises(DataError, match="was there before"):
        check_first(late, [before])
