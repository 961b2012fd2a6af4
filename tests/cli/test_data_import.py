"""`sfumato data import` and `check`, and `--graph STORE` in place of tables."""

import json
import shutil

import duckdb
import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, SchemaError
from sfumato.graph import Graph, read_csv
from sfumato.tables import _importing as importing
from sfumato.tables import _tables

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-6")


@pytest.fixture(scope="module")
def first(tables):
    return tables["first"]


@pytest.fixture(scope="module")
def store(first, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "store"
    return importing.import_tables(first[1], first[3], out, label="year")


def test_import_says_what_it_wrote(sfumato, first, tmp_path):
    result = sfumato("data", "import", *first, "--out", tmp_path / "store", "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    graph, read = Graph.load(tmp_path / "store"), read_csv(first[1], first[3], label="year")
    assert np.array_equal(graph.indices, read.indices)
    assert (told["nodes"], told["arcs"], told["merged"]) == (200, read.num_arcs, read.merged)
    again = sfumato("data", "import", *first, "--out", tmp_path / "store")
    assert again.code == 2
    assert "not to exist yet" in again.err


def test_nodes_are_never_read_off_the_edges(sfumato, first, tmp_path):
    result = sfumato("data", "import", "--edges", first[3], "--out", tmp_path / "store")
    assert result.code == 2
    assert "--nodes" in result.err


def test_a_stop_says_how_to_go_on(sfumato, first, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(importing._Import, "_merge", stop)
    result = sfumato("data", "import", *first, "--out", tmp_path / "store")
    assert result.code == 130
    assert "The same command goes on after the last finished stage." in result.err
    monkeypatch.undo()
    assert sfumato("data", "import", *first, "--out", tmp_path / "store").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_too_little_memory_keeps_what_is_finished(sfumato, first, tmp_path, monkeypatch):
    def short():
        raise duckdb.OutOfMemoryException("Out of Memory Error: a value of the table")

    monkeypatch.setattr(importing, "edge_batches", lambda *_: _tables.guarded(short, "edges.csv"))
    result = sfumato("data", "import", *first, "--out", tmp_path / "store")
    assert result.code == 2
    assert "Expected edges.csv to be read within the limit of memory" in result.err
    assert "The same command goes on after the last finished stage." in result.err
    assert "a value" not in result.err
    assert {"table", "features"} <= json.loads((tmp_path / "store.partial" / "import.json").read_text())["done"].keys()
    monkeypatch.undo()
    assert sfumato("data", "import", *first, "--out", tmp_path / "store", "--memory-limit", "3GB").code == 0


def test_check_finds_a_changed_value(sfumato, store, tmp_path):
    assert sfumato("data", "check", store).code == 0
    copy = shutil.copytree(store, tmp_path / "copy")
    bits = bytearray((copy / "x.npy").read_bytes())
    bits[-1] ^= 1
    (copy / "x.npy").write_bytes(bits)
    result = sfumato("data", "check", copy, "--json")
    assert result.code == 1
    assert "x.npy to be as it was written" in json.loads(result.out)["problems"][0]
    assert sfumato("data", "check", tmp_path / "none").code == 2


def test_opening_a_store_keeps_arrays_on_disk(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "copy")
    graph = Graph.load(copy)
    assert all(isinstance(array.base, np.memmap) for array in (graph.indptr, graph.indices, graph.x))
    np.save(copy / "indices.npy", np.load(copy / "indices.npy")[1:])
    with pytest.raises(DataError, match=r"indices\.npy to hold <i4 of shape"):
        Graph.load(copy)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("indices", 3 << 20, r"indices\[1\] is no node"),
        ("indices", -1, r"indices\[1\] is negative"),
        ("indptr", 3 << 20, "indptr to start at 0, never fall"),
    ],
)
def test_arcs_out_of_range_are_never_read(store, tmp_path, name, value, problem):
    copy = shutil.copytree(store, tmp_path / "copy")
    array = np.load(copy / f"{name}.npy")
    array[1] = value
    np.save(copy / f"{name}.npy", array)
    with pytest.raises(DataError, match=problem):
        Graph.load(copy)


@pytest.mark.parametrize(("name", "value"), [("x_indices", 9), ("x_indices", -1), ("x_indptr", 5)])
def test_sparse_features_out_of_range_are_never_read(tmp_path, name, value):
    rows = sp.csr_matrix(np.eye(3, dtype=np.float32))
    folder = Graph.from_edges([0, 1], [1, 2], 3, directed=False, x=rows).save(tmp_path / "graph")
    assert Graph.load(folder).num_features == 3
    array = np.load(folder / f"{name}.npy")
    array[1] = value
    np.save(folder / f"{name}.npy", array)
    with pytest.raises(DataError, match="stored features to be sparse rows"):
        Graph.load(folder)


def edited(folder, **facts):
    """Change facts of a stored graph by hand, as whoever may write to it can."""
    path = folder / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return folder


def star(**fields):
    return Graph.from_edges([0, 0, 0], [1, 2, 3], 4, directed=False, **fields)


def test_what_a_sensitivity_rests_on_is_checked_when_a_store_is_opened(sfumato, tmp_path):
    kept = star(max_degree=3).save(tmp_path / "promise")
    assert Graph.load(kept).max_degree == 3
    with pytest.raises(SchemaError, match="at most max_degree=2"):
        Graph.load(edited(kept, max_degree=2))
    result = sfumato("data", "check", edited(kept, max_degree=4))
    assert (result.code, "graph.json to be as it was written" in result.out) == (1, True)

    kept = star(degree_bounds=[3, 1, 1, 1]).save(tmp_path / "bounds")
    np.save(kept / "degree_bounds.npy", np.array([2, 1, 1, 1]))
    with pytest.raises(SchemaError, match="its declared bound"):
        Graph.load(kept)

    kept = star().save(tmp_path / "repeated")
    np.save(kept / "indices.npy", np.array([1, 1, 3, 0, 0, 0], np.int32))
    with pytest.raises(DataError, match="sorted and unique"):
        Graph.load(kept)

    kept = star(edge_weight=[1.0, 2.0, 3.0], max_weight=4.0).save(tmp_path / "weights")
    np.save(kept / "weights.npy", np.load(kept / "weights.npy") * np.uint16(2))
    with pytest.raises(DataError, match="clipped to their public bound"):
        Graph.load(kept)

    kept = edited(star(y=[0, 1, 0, 1], x=np.eye(4)).save(tmp_path / "rows"))
    np.save(kept / "x.npy", np.eye(4, dtype=np.float32)[:2])
    facts = json.loads((kept / "graph.json").read_text())
    facts["arrays"]["x"]["shape"] = [2, 4]
    with pytest.raises(DataError, match="x of every node"):
        Graph.load(edited(kept, arrays=facts["arrays"]))


def test_a_table_that_changes_during_an_import_is_refused(first, tmp_path, monkeypatch):
    merge, nodes = importing._Import._merge, shutil.copy(first[1], tmp_path / "nodes.csv")

    def changing(*given):
        nodes.write_text(nodes.read_text() + "\n")
        return merge(*given)

    monkeypatch.setattr(importing._Import, "_merge", changing)
    with pytest.raises(DataError, match="stay as they are during an import"):
        importing.import_tables(nodes, first[3], tmp_path / "store", label="year")
    assert not (tmp_path / "store").exists()


def test_a_folder_of_somebody_else_is_left_alone(first, tmp_path):
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="the work of a stopped import"):
        importing.import_tables(first[1], first[3], tmp_path / "store", label="year")
    assert (tmp_path / "store.partial" / "thesis.txt").read_text() == "mine"


def test_a_store_stands_wherever_a_data_set_does(sfumato, store, tmp_path):
    run = tmp_path / "run"
    result = sfumato("train", "label-messages", "--graph", store, *EDGE, "--split", "60/20/20", "--out", run, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["dataset"] == str(store)
    assert json.loads((run / "evaluation" / "source.json").read_text())["graph"] == str(store)
    assert sfumato("evaluate", run).code == 0
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    assert sfumato("predict", run, "--out", one).code == 0
    assert sfumato("predict", run, "--graph", store, "--out", two).code == 0
    assert one.read_text() == two.read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--dataset", "campus"), "got both"),
        (("--label", "year"), "no --label with --graph"),
        (("--text-features", "hashing"), "no --text-features with --graph"),
        (("--directed",), "is undirected, which contradicts what was declared. Drop --directed"),
    ],
)
def test_options_that_a_store_answers_are_refused(sfumato, store, tmp_path, options, problem):
    result = sfumato("train", "label-messages", "--graph", store, *EDGE, *options, "--out", tmp_path / "run")
    assert result.code == 2
    assert problem in result.err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_store_is_refused(sfumato, tmp_path):
    result = sfumato("train", "label-messages", "--graph", tmp_path, *EDGE, "--out", tmp_path / "run")
    assert result.code == 2
    assert "graph.json is missing" in result.err
