"""`sfumato data import` and `check`, and `--graph STORE` in place of tables."""

import json
import shutil

import numpy as np
import pytest

from sfumato.graph import Graph, importing, read_csv

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


def test_opening_a_store_reads_no_array(store, tmp_path, monkeypatch):
    copy = shutil.copytree(store, tmp_path / "copy")
    np.save(copy / "indices.npy", np.load(copy / "indices.npy")[::-1])  # neither sorted nor symmetric
    graph = Graph.load(copy, check=False)
    assert all(isinstance(array.base, np.memmap) for array in (graph.indptr, graph.indices, graph.x))
    np.save(copy / "indices.npy", np.load(copy / "indices.npy")[1:])
    with pytest.raises(Exception, match=r"indices\.npy to hold <i4 of shape"):
        Graph.load(copy, check=False)


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
        (("--directed",), "is undirected, which contradicts --directed"),
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
