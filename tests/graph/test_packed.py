"""Packed features are those that were written, whatever their types, and stores of earlier formats still load."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError
from sfumato.graph import Graph, import_tables, read_parquet
from sfumato.graph._packed import PackedRows
from sfumato.graph._storage import check_digests
from sfumato.tables._tables import FileTable

KEPT = Path(__file__).parents[1] / "golden" / "stores"
HALF = {"zeros": 0.0, "minus zero": -0.0, "largest": 65504.0, "least": 2.0**-24, "thirds": -0.333251953125}


def stored(folder, columns, rows=300):
    """Read and import a node table without edges: the graph of the reader, and the store."""
    none = pa.table({"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())})
    pq.write_table(pa.table({"id": np.arange(rows), **columns}), folder / "nodes.parquet")
    pq.write_table(none, folder / "edges.parquet")
    tables = folder / "nodes.parquet", folder / "edges.parquet"
    return read_parquet(*tables), import_tables(*tables, folder / "store")


def same_bits(one, two):
    assert one.dtype == two.dtype == np.float32
    assert one.tobytes() == two.tobytes()


@pytest.fixture(params=[64])
def few_rows(request, monkeypatch):
    """Import so many rows at a time, of 300."""
    whole = FileTable.batches

    def batches(self, names, *_):
        parts = (
            table.slice(start, request.param)
            for table in whole(self, names, 300)
            for start in range(0, 300, request.param)
        )
        return (part for part in parts if part.num_rows)

    monkeypatch.setattr(FileTable, "batches", batches)


@pytest.mark.parametrize(("inexact", "few_rows"), [(None, 64), (0, 64), (150, 300), (299, 64)], indirect=["few_rows"])
def test_numbers_take_two_bytes_if_every_one_is_exact(tmp_path, few_rows, inexact):
    columns = {name: np.full(300, value) for name, value in HALF.items()}
    columns["counts"] = np.arange(300) % 2049
    if inexact is not None:
        columns["zeros"][inexact] = 0.1
    read, store = stored(tmp_path, columns)
    graph = Graph.load(store)
    assert np.load(store / "x.npy").dtype == (np.float16 if inexact is None else np.float32)
    assert isinstance(graph.stored_x, PackedRows) == (inexact is None)
    same_bits(graph.x, read.x)
    assert not list(store.glob("x_*"))
    check_digests(store)


@pytest.mark.parametrize(
    ("count", "kind", "number"),
    [(2, np.uint8, None), (2, np.uint8, 0.5), (2, np.uint8, 0.1), (255, np.uint8, 0.5), (256, np.uint16, 0.1)],
)
def test_categories_are_codes(tmp_path, few_rows, count, kind, number):
    columns = {f"c{i}": [f"v{row % count}" if row < 290 else None for row in range(300)] for i in range(2)}
    columns["flag"] = np.arange(300) % 3 == 0
    if number is not None:
        columns |= {f"number {i}": np.full(300, number) for i in range(count)}  # so many that rows are not sparse
    read, store = stored(tmp_path, columns)
    graph = Graph.load(store)
    assert np.load(store / "x_codes.npy").dtype == kind
    if number is None:
        assert not (store / "x.npy").exists()
    else:
        assert np.load(store / "x.npy").dtype == (np.float16 if number == 0.5 else np.float32)
    same_bits(graph.x, read.x)
    x, some = graph.stored_x, np.array([3, 299, 0])
    for rows in (slice(5, 50), some, np.arange(300) % 5 == 0, slice(0, 0), slice(None)):
        same_bits(x[rows], read.x[rows])
    same_bits(np.asarray(x), read.x)


def test_sparse_rows_of_ones_have_no_values(tmp_path, few_rows):
    columns = {"town": [f"t{row % 90}" if row % 5 else None for row in range(300)]}
    read, store = stored(tmp_path, columns)
    graph = Graph.load(store)
    assert not (store / "x_data.npy").exists()
    assert (graph.x != read.x).nnz == 0
    (tmp_path / "more").mkdir()
    read, store = stored(tmp_path / "more", {**columns, "age": np.full(300, 0.25)})
    assert (store / "x_data.npy").exists()
    assert (Graph.load(store).x != read.x).nnz == 0


def test_a_change_leaves_features_packed(tmp_path):
    _, store = stored(tmp_path, {"flag": np.arange(300) % 2 == 0})
    graph = Graph.load(store)
    changed = graph.with_split(seed=1).changed(name="other")
    assert (changed.stored_x is graph.stored_x, changed.num_features, changed.name) == (True, 2, "other")
    assert "whole" not in vars(graph.stored_x)
    assert changed.x is graph.x  # unpacked once for both
    again = Graph.load(changed.save(tmp_path / "again"))
    same_bits(again.x, graph.x)
    assert isinstance(again.stored_x, PackedRows)


def test_damaged_codes_are_refused(tmp_path):
    _, store = stored(tmp_path, {"flag": np.arange(300) % 2 == 0})
    codes = np.load(store / "x_codes.npy")
    codes[7] = 3
    np.save(store / "x_codes.npy", codes)
    with pytest.raises(DataError, match="codes to be those of categories"):
        Graph.load(store).stored_x[0:8]
    with pytest.raises(DataError, match="as it was written"):
        check_digests(store)
    with pytest.raises(DataError, match="fit their columns"):
        PackedRows(None, codes, (2, None))


@pytest.mark.parametrize(("name", "shape"), [("dense", (12, 3)), ("sparse", (80, 70))])
def test_a_store_of_format_2_loads(name, shape):
    graph = Graph.load(KEPT / f"format-2-{name}")
    check_digests(KEPT / f"format-2-{name}")
    assert (graph.x.shape, graph.num_edges, sp.issparse(graph.x)) == (shape, 11, name == "sparse")
    assert graph.x.sum() == pytest.approx(80 if name == "sparse" else 9.1, abs=5)
