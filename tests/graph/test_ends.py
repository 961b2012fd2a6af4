"""Which columns of an edge table are its ends, and which ids their cells name, from any table."""

import pytest

from sfumato.errors import DataError
from sfumato.graph import Graph, from_frames, read_parquet, read_sql
from sfumato.tables._importing import import_tables
from sfumato.tables._io import read_ends

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb")

NODES = "id,f\n" + "".join(f"{v},{v}\n" for v in range(6))


ROWS = "\n0,3,2\n1,1,2\n2,4,5\n3,5,1\n"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("id,person,friend", "'id' may number the rows"),
        ("node,person,friend", "'node' may number the rows"),
        ("row,person,friend", "'row' may number the rows"),
        ("friend,id,since", "'id' may number the rows"),
    ],
)
def test_a_column_that_numbers_the_rows_is_no_end(read, names, told, tmp_path):
    with pytest.raises(DataError, match=told):
        read(NODES, names + ROWS)
    with pytest.raises(DataError, match=told):
        read_ends(tmp_path / "edges.csv")
    with pytest.raises(DataError, match=told):
        import_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", tmp_path / "store")
    columns = dict(
        zip(names.split(","), zip(*(map(int, row.split(",")) for row in ROWS.split()), strict=True), strict=True)
    )
    with pytest.raises(DataError, match=told):
        from_frames(pa.table({"id": range(6)}), pa.table(columns))


@pytest.mark.parametrize(
    ("edges", "how"),
    [
        ("row,person,friend" + ROWS, {"drop": ["row"]}),
        ("id,source,target" + ROWS, {}),
        ("id,person,friend" + ROWS, {"source": "person", "target": "friend"}),
        (",person,friend" + ROWS, {}),
        ("row,person,friend" + ROWS, {"edge_weight": "row", "max_weight": 3}),
        ("person,friend\n3,2\n1,2\n4,5\n5,1\n", {}),
        ("id,friend\n1,2\n2,3\n5,4\n1,5\n", {}),
    ],
)
def test_ends_that_can_be_told(read, edges, how):
    assert read(NODES, edges, **how).num_edges == 4


def test_two_columns_may_well_count_up(read):
    assert read(NODES, "person,friend\n0,1\n1,2\n2,3\n").num_edges == 3
    assert read(NODES, "person,friend,since\n0,1,5\n1,2,5\n", drop=["since"]).num_edges == 2


IDS = {
    "whole": ["1", "2", "30"],
    "text": ["1", "x", "30"],
    "floats": ["1.0", "2.0", "30.0"],
    "codes": ["1.0", "x", "30.0"],
}
ENDS = {"whole": ["1", "30"], "floats": ["1.0", "30.0"], "mixed": ["1", "30.0"]}


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("ends", ENDS)
def test_ends_name_the_same_nodes_from_any_table(read, tmp_path, ids, ends):
    ids, ends = IDS[ids], ENDS[ends]
    rows = {"source": ends[:1] * 2, "target": [ends[1], ends[1]]}
    typed = {name: pa.array([float(one) for one in cells]) for name, cells in rows.items()}
    csv = "source,target\n" + "".join(f"{a},{b}\n" for a, b in zip(*rows.values(), strict=True))
    graphs = [read("id\n" + "\n".join(ids) + "\n", csv)]
    if ids is IDS["codes"] or ends is ENDS["mixed"]:
        graphs.append(Graph.load(import_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", tmp_path / "store")))
    for links in (pa.table(rows), pa.table(typed)):
        pq.write_table(pa.table({"id": ids}), tmp_path / "n.parquet")
        pq.write_table(links, tmp_path / "e.parquet")
        graphs += [
            from_frames(pa.table({"id": ids}), links),
            read_parquet(tmp_path / "n.parquet", tmp_path / "e.parquet"),
        ]
    with duckdb.connect() as connection:
        graphs.append(read_sql(connection, f"FROM '{tmp_path}/n.parquet'", f"FROM '{tmp_path}/e.parquet'"))
    assert [graph.indices.tolist() for graph in graphs] == [[2, 0]] * len(graphs)


def test_all_files_of_edges_call_their_ends_alike(tmp_path):
    nodes, first, second = (tmp_path / name for name in ("nodes.csv", "first.csv", "second.csv"))
    nodes.write_text(NODES)
    first.write_text("who,likes\n0,1\n0,2\n")
    second.write_text("when,likes,who\n9,3,0\n8,4,0\n")
    told = {}
    graph = Graph.load(
        import_tables(
            nodes, [first, second], tmp_path / "store", directed=True,
            told=lambda place, columns: told.update({place[-10:]: [one.use for one in columns]}),
        )
    )  # fmt: skip
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 4, 4, 4, 4, 4, 4], [1, 2, 3, 4])
    assert told["second.csv"] == ["left out", "end", "end"]
    second.write_text("who,whom\n0,3\n")
    with pytest.raises(DataError, match=r"second\.csv to have the column 'likes', got the columns who, whom"):
        import_tables(nodes, [first, second], tmp_path / "other", directed=True)
