"""An import writes the bits that the readers give, at any memory limit, in one go or after kills."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, InputError, MemoryLimitError, SchemaError
from sfumato.graph import Graph, read_csv, read_parquet
from sfumato.tables import _importing as importing
from sfumato.tables import _tables
from sfumato.tables._importing import import_tables, memory_bytes

HOSTILE = (
    "007",
    "7",
    "a,b",
    'say "x"',
    "é",
    "new\nline",
    "None",
    "-0",
    "0",
    "Nan",
    "ann ob",
    "漢字",
    "x" * 300,
    "$",
    "--",
)
PIECES = ("indptr", "indices", "y", "node_ids", "roles", "degree_bounds")


def tables(seed, texts=True, nodes=15, rows=60):
    """A node table with numbers, categories, gaps and roles, and edges with a hub, loops, repeats and reversed rows."""
    random = np.random.default_rng(seed)
    ids = list(HOSTILE[:nodes]) if texts else random.permutation(10 * nodes)[:nodes].tolist()
    node_table = pa.table(
        {
            "id": ids,
            "age": random.normal(size=nodes),
            "dorm": random.choice(["north", "south", None], nodes),
            "year": random.choice([2004, 2005, 2006], nodes),
            "member": random.random(nodes) < 0.5,
            "part": random.choice(["0", "1", "2", None], nodes),
        }
    )
    source = random.integers(0, nodes - 1, rows)  # the last node is isolated
    target = np.where(random.random(rows) < 0.3, 0, random.integers(0, nodes - 1, rows))
    names = np.array(ids, dtype=object if texts else np.int64)
    return node_table, pa.table({"source": names[source].tolist(), "target": names[target].tolist(), "weight": source})


def written(folder, node_table, edge_table, kind="parquet"):
    folder.mkdir(exist_ok=True)
    write = pq.write_table if kind == "parquet" else pyarrow.csv.write_csv
    paths = folder / f"nodes.{kind}", folder / f"edges.{kind}"
    write(node_table, paths[0])
    write(edge_table, paths[1])
    return paths


def assert_same(one, two):
    for name in PIECES:
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert sp.issparse(one.x) == sp.issparse(two.x)
    a, b = (x.toarray() if sp.issparse(x) else np.asarray(x) for x in (one.x, two.x))
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(a, b)
    facts = one.stored_facts(), two.stored_facts()
    same = {"name": "", "widths": None}  # only the store packs its features
    assert facts[0] | same == facts[1] | same


@pytest.fixture
def in_small_runs(monkeypatch):
    """Sort a few rows at a time, in many runs."""
    monkeypatch.setattr(importing, "_KEYS", 24)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize(
    "how", [{}, {"directed": True}, {"self_loops": "keep"}, {"directed": True, "self_loops": "keep"}]
)
def test_an_import_has_the_bits_of_the_readers(tmp_path, in_small_runs, kind, texts, how):
    seed = 4 * (kind == "csv") + 2 * texts + len(how)
    paths = written(tmp_path, *tables(seed, texts), kind)
    how = {"label": "year", "role": "part", **how}
    read = (read_parquet if kind == "parquet" else read_csv)(*paths, **how)
    store = import_tables(*paths, tmp_path / "store", **how)
    assert_same(Graph.load(store), read)
    assert Graph.load(store).name == "store"
    assert read.merged["duplicates"] > 0
    assert [path.name for path in tmp_path.iterdir() if "store" in path.name] == ["store"]


def test_a_stored_import_is_the_saved_graph(tmp_path):
    paths = written(tmp_path, *tables(0))
    store = import_tables(*paths, tmp_path / "one", name="g")
    saved = read_parquet(*paths, name="g").save(tmp_path / "two")
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (store, saved))
    assert {"x_codes.npy"} == one.keys() - two.keys()
    assert {name for name in two if one[name] != two[name]} == {"x.npy", "graph.json"}  # codes are apart
    again = Graph.load(store).save(tmp_path / "three")
    assert one == {path.name: path.read_bytes() for path in again.iterdir()}


def test_many_categories_are_stored_as_sparse_rows(tmp_path):
    node_table, edge_table = tables(0)
    node_table = node_table.append_column("town", pa.array([f"town {i % 13}" for i in range(15)]))
    node_table = node_table.append_column("road", pa.array([f"road {i}" if i else None for i in range(15)]))
    wide = pa.table({"id": [str(i) for i in range(100)], "town": [f"town {i % 80}" for i in range(100)]})
    none = pa.table({"source": pa.array([], pa.string()), "target": pa.array([], pa.string())})
    paths = written(tmp_path, wide, none)
    store = import_tables(*paths, tmp_path / "store")
    assert sp.issparse(Graph.load(store).x)
    assert_same(Graph.load(store), read_parquet(*paths))
    paths = written(tmp_path, node_table, edge_table)
    assert_same(Graph.load(import_tables(*paths, tmp_path / "dense")), read_parquet(*paths))


def test_several_edge_files_are_one_table(tmp_path, in_small_runs):
    node_table, edge_table = tables(4)
    paths = written(tmp_path, node_table, edge_table)
    for number, (start, stop) in enumerate([(0, 13), (13, 13), (13, 60)]):
        pq.write_table(edge_table.slice(start, stop - start), tmp_path / f"part{number}.parquet")
    parts = [tmp_path / f"part{number}.parquet" for number in range(3)]
    assert_same(Graph.load(import_tables(paths[0], parts, tmp_path / "store")), read_parquet(*paths))


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("source", "nobody", "row 6 of .* has an unknown node in column 'source'"),
        ("target", None, "row 6 .* has no node"),
    ],
)
def test_an_end_that_is_no_node_is_refused_by_file_and_row(tmp_path, in_small_runs, column, value, problem):
    node_table, edge_table = tables(1)
    cells = edge_table.column(column).to_pylist()
    cells[5] = value
    edge_table = edge_table.set_column(edge_table.column_names.index(column), column, pa.array(cells))
    paths = written(tmp_path, node_table, edge_table)
    with pytest.raises(DataError, match=problem):
        import_tables(*paths, tmp_path / "store")
    assert not [path for path in tmp_path.iterdir() if "store" in path.name]


def test_a_late_row_of_another_form_is_named_by_place_only(tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n" + "1,2\n" * 300_000 + "hidden\n")
    table = _tables.FileTable(tmp_path / "n.csv")
    with pytest.raises(DataError, match=r"Expected 2 cells .* row 300002 has 1") as caught:
        list(table.batches(["a"], 1000))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "expected", "told"),
    [
        (OSError("Out of Memory Error: hidden"), MemoryLimitError, "n.csv to be read within the limit of memory"),
        (OSError("Invalid Input Error: hidden"), DataError, "an error of kind Invalid Input"),
        (OSError("hidden"), DataError, "an error of kind OSError"),
        (OSError(28, "No space left"), OSError, "No space left"),
    ],
)
def test_what_an_arrow_reader_raises_is_told_apart(error, expected, told):
    def read():
        raise error

    with pytest.raises(expected, match=told) as caught:
        _tables.guarded(read, "n.csv")
    assert "hidden" not in str(caught.value)


def test_promises_are_checked(tmp_path):
    paths = written(tmp_path, *tables(2))
    with pytest.raises(SchemaError, match="max_degree=1"):
        import_tables(*paths, tmp_path / "store", schema={"max_degree": 1})
    assert not (tmp_path / "store").exists()


def test_bad_arguments_teach(tmp_path):
    paths = written(tmp_path, *tables(2))
    with pytest.raises(InputError, match="memory_limit to be a size from 500MB on"):
        import_tables(*paths, tmp_path / "store", memory_limit="2")
    with pytest.raises(InputError, match="at least one file of edges"):
        import_tables(paths[0], [], tmp_path / "store")
    with pytest.raises(InputError, match="no text with an import"):
        import_tables(*paths, tmp_path / "store", text=["dorm"], text_features="hashing")
    import_tables(*paths, tmp_path / "store")
    with pytest.raises(DataError, match="not to exist yet"):
        import_tables(*paths, tmp_path / "store")


def test_sizes_are_read():
    assert memory_bytes("1.5 gb") == 1_500_000_000


def stopped_at(write_json, number):
    """Write the record ``number`` times, then stop as Ctrl-C does."""
    left = [number]

    def write(path, values):
        write_json(path, values)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    return write


def test_an_import_that_is_stopped_at_any_stage_goes_on_from_there(tmp_path, in_small_runs, monkeypatch):
    paths = written(tmp_path, *tables(5), "csv")
    whole = import_tables(*paths, tmp_path / "whole", name="g")
    bits = {path.name: path.read_bytes() for path in whole.iterdir()}
    number, write_json = 1, importing.write_json
    while True:
        monkeypatch.setattr(importing, "write_json", stopped_at(write_json, number))
        store = tmp_path / f"store{number}"
        try:
            import_tables(*paths, store, name="g")
        except KeyboardInterrupt:
            assert not store.exists()
        else:
            break
        monkeypatch.setattr(importing, "write_json", write_json)
        before = json.loads((tmp_path / f"store{number}.partial" / "import.json").read_text())["done"]
        import_tables(*paths, store, name="g", memory_limit="3GB")
        assert before
        assert {path.name: path.read_bytes() for path in store.iterdir()} == bits
        number += 1
    assert number > 8


def test_a_finished_stage_is_not_done_again(tmp_path, in_small_runs, monkeypatch):
    paths = written(tmp_path, *tables(5))
    monkeypatch.setattr(importing._Import, "_merge", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        import_tables(*paths, tmp_path / "store")
    monkeypatch.undo()
    monkeypatch.setattr(importing._Import, "_sort", lambda *_: 1 / 0)
    monkeypatch.setattr(importing._Import, "_features", lambda *_: 1 / 0)
    assert_same(Graph.load(import_tables(*paths, tmp_path / "store")), read_parquet(*paths))


def test_other_tables_or_options_do_not_go_on(tmp_path, monkeypatch):
    paths = written(tmp_path, *tables(5))
    monkeypatch.setattr(importing._Import, "_merge", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        import_tables(*paths, tmp_path / "store")
    monkeypatch.undo()
    with pytest.raises(InputError, match="tables and options of the import that was stopped"):
        import_tables(*paths, tmp_path / "store", directed=True)
    os.utime(paths[1], (1, 1))
    with pytest.raises(InputError, match=r"remove .*store\.partial to start anew"):
        import_tables(*paths, tmp_path / "store")


def test_an_import_that_was_killed_while_clearing_up_is_finished(tmp_path, monkeypatch):
    paths = written(tmp_path, *tables(5))
    monkeypatch.setattr(importing.shutil, "rmtree", lambda *_, **__: None)
    import_tables(*paths, tmp_path / "store")
    assert (tmp_path / "store.partial").exists()
    monkeypatch.undo()
    import_tables(*paths, tmp_path / "store")
    assert not (tmp_path / "store.partial").exists()


@pytest.mark.soak
def test_kills_at_random_moments_lose_nothing(tmp_path):
    random = np.random.default_rng(0)
    rows = 3_000_000
    ids = np.arange(200_000)
    node_table = pa.table({"id": ids, "age": random.normal(size=len(ids))})
    edge_table = pa.table({"source": random.integers(0, len(ids), rows), "target": random.integers(0, len(ids), rows)})
    paths = written(tmp_path, node_table, edge_table)
    start = time.monotonic()
    whole = import_tables(*paths, tmp_path / "whole", name="g", memory_limit="500MB")
    seconds = time.monotonic() - start
    code = (
        "import sys\nfrom sfumato.tables._importing import import_tables\n"
        "import_tables(*sys.argv[1:3], sys.argv[3], name='g', memory_limit='500MB')"
    )
    command = [sys.executable, "-c", code, *map(str, paths), str(tmp_path / "store")]
    killed = 0
    while killed < 10:
        process = subprocess.Popen(command)
        try:
            process.wait(random.uniform(0.5, 1.5 + seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        else:
            assert process.returncode == 0
        if (tmp_path / "store.partial").exists():
            killed += 1
        elif (tmp_path / "store").exists():  # it was finished: the next one starts anew
            assert_bits(tmp_path / "store", whole)
            shutil.rmtree(tmp_path / "store")
    subprocess.run(command, check=True)
    assert_bits(tmp_path / "store", whole)


def assert_bits(store, whole):
    assert {path.name for path in store.iterdir()} == {path.name for path in whole.iterdir()}
    for path in whole.iterdir():
        assert (store / path.name).read_bytes() == path.read_bytes(), path.name
