"""A file of many columns is read in a few passes, not in one for each column."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.tables._tables import FileTable

COLUMNS = 60


@pytest.fixture
def opened(monkeypatch):
    """How often a file is opened."""
    count, real = [], FileTable._opened
    monkeypatch.setattr(FileTable, "_opened", lambda self, *names: (count.append(self.place), real(self, *names))[1])
    return count


@pytest.mark.parametrize("kind", ["csv", "parquet", "texts"])
def test_an_import_opens_the_nodes_a_few_times(kind, opened, tmp_path):
    numbers = np.arange(20 * COLUMNS).reshape(COLUMNS, 20) / 8
    columns = {f"f{at}": [str(one) for one in row] if kind == "texts" else row for at, row in enumerate(numbers)}
    table = pa.table({"id": np.arange(20), "y": ["a", "b"] * 10, **columns})
    edges = pa.table({"s": [0, 1, 2], "t": [1, 2, 3]})
    if kind == "csv":
        from pyarrow.csv import write_csv as write
    else:
        write = pq.write_table
    paths = [tmp_path / f"{name}.{'csv' if kind == 'csv' else 'parquet'}" for name in ("nodes", "edges")]
    for one, path in zip((table, edges), paths, strict=True):
        write(one, path)
    told = []
    store = sf.graph.import_tables(
        *paths, tmp_path / "store", label="y", directed=False, told=lambda *one: told.append(one)
    )
    np.testing.assert_array_equal(sf.graph.Graph.load(store).x, numbers.T.astype(np.float32))
    assert [column.missing for column in told[0][1]] == [0] * (COLUMNS + 2)
    assert len(opened) < 30


def test_few_rows_of_many_columns_are_written_together(monkeypatch, tmp_path):
    monkeypatch.setattr("sfumato.tables._tables._CELLS", 1 << 14)
    path, rows = tmp_path / "nodes.csv", 5000
    names = [f"f{at}" for at in range(8)]
    lines = [",".join(names), *(",".join([str(row)] * 8) for row in range(rows))]
    path.write_text("\n".join(lines))
    FileTable(path).write_parquet(tmp_path / "nodes.parquet")
    held = pq.ParquetFile(tmp_path / "nodes.parquet")
    assert [held.metadata.row_group(at).num_rows for at in range(held.num_row_groups)] == [2048, 2048, 904]
    assert held.read().column(3).to_pylist() == [str(row) for row in range(rows)]
