"""Where large arrays lie, and how many rows are computed at a time, changes no bit; what is read of a file is let go again."""

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato import _blocks as blocks
from sfumato.bounded._routing import kept, one_way
from sfumato.bounded.aggregation import Arcs
from sfumato.catalog import method_named
from sfumato.graph import Graph
from sfumato.graph import _arcs as arcs
from sfumato.graph._storage import _mode
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method import _opening as opening
from sfumato.record._release_folder import where_saved

EDGE, BUDGET = sf.EdgeLevel(directed=False), sf.Budget(2.0, 1e-6)


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """Every array with a row for every node lies in a file, and few rows and arcs are read at a time."""
    monkeypatch.setattr(blocks, "MOST_HELD", 0)
    monkeypatch.setattr(blocks, "_MOST_READ", 64)
    monkeypatch.setattr(arcs.row_blocks, "__defaults__", (5,))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_small_array_is_held_and_a_large_one_lies_in_a_file_without_a_name(monkeypatch, tmp_path):
    assert blocks.room(4, np.int64).base is None
    monkeypatch.setattr(blocks, "MOST_HELD", 31)
    with blocks.scratch_in(tmp_path):
        array = blocks.room((2, 2), np.int64)
    array[:] = [[1, 2], [3, 4]]
    blocks.let_go(array[1:])
    assert isinstance(array.base, np.memmap)
    assert array.tolist() == [[1, 2], [3, 4]]
    assert not list(tmp_path.iterdir())
    assert blocks.room((0, 3), np.float32).shape == (0, 3)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room is reserved with a call of POSIX")
def test_a_full_disk_is_told_before_anything_is_written(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with blocks.scratch_in(tmp_path), pytest.raises(OSError, match=r"Cannot reserve 8\.0 GB") as told:
        blocks.room(10**9, np.int64)
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, str(tmp_path))


def test_changes_of_a_map_that_are_not_the_file_s_are_never_let_go(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(4))
    array = np.load(tmp_path / "a.npy", mmap_mode="c")
    array[2] = 9
    blocks.let_go(array)
    assert array.tolist() == [0, 1, 9, 3]


def test_blocks_and_chosen_rows_are_those_of_the_whole(on_disk):
    whole = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    lying = blocks.room(whole.shape, whole.dtype)
    lying[:] = whole
    found = blocks.in_blocks(lambda low, high: lying[low:high] * 2, 50, most=7, read=(lying,))
    np.testing.assert_array_equal(found, whole * 2)
    ids = np.array([3, 4, 9, 20, 21, 22, 49])
    np.testing.assert_array_equal(blocks.rows_of(lying, ids), whole[ids])
    np.testing.assert_array_equal(blocks.rows_of(lying[:, 0], ids), whole[ids, 0])
    assert blocks.spans(15, 7) == [(0, 7), (7, 14), (14, 15)]


def fit(name, seed=0):
    graph = stochastic_block_model(60, 3, mean_degree=6, num_features=4, seed=1).with_split(seed=0)
    run = method_named(name).calibrate(BUDGET, EDGE, graph.public_facts(EDGE)).fit(graph, seed=seed, threads=1)
    told, chances = run.told(graph, np.arange(60))
    np.testing.assert_array_equal(chances, run.predict_proba(graph))
    np.testing.assert_array_equal(told, run.predict(graph))
    return {**run.released, **run.weights, "chances": chances}


@pytest.mark.parametrize("name", ["gap", "label-messages", "graph-free", "dpar"])
def test_a_fit_on_disk_releases_the_same_bytes(monkeypatch, request, name):
    monkeypatch.setattr(opening, "new_key", lambda: bytes(32))
    held = fit(name)
    request.getfixturevalue("on_disk")
    found = fit(name)
    assert {key: array.tobytes() for key, array in found.items()} == {
        key: array.tobytes() for key, array in held.items()
    }
    del found
    gc.collect()


def test_arcs_are_kept_alike_a_few_at_a_time(on_disk):
    coins = np.random.default_rng(2)
    sources = coins.integers(20, size=90).astype(np.int32)
    offsets = np.array([0, *np.sort(coins.integers(91, size=19)), 90])
    weights = coins.integers(2**15, size=90).astype(np.uint16)
    mask, rank = coins.random(90) < 0.5, coins.permutation(20)
    heads = np.repeat(np.arange(20), np.diff(offsets))
    for found, wanted in (
        (kept(Arcs(offsets, sources, weights), mask), mask),
        (one_way(Arcs(offsets, sources, weights), rank), rank[sources] < rank[heads]),
    ):
        assert found.sources.tolist() == sources[wanted].tolist()
        assert found.weights.tolist() == weights[wanted].tolist()
        assert np.diff(found.offsets).tolist() == np.bincount(heads[wanted], minlength=20).tolist()


def test_every_arc_without_its_reverse_is_seen():
    graph = stochastic_block_model(40, 2, mean_degree=5, num_features=1, seed=3)
    arcs.check_symmetric(graph.indptr, graph.indices)
    for arc in range(graph.num_arcs):
        degrees = np.diff(graph.indptr)
        degrees[np.searchsorted(graph.indptr, arc, side="right") - 1] -= 1
        with pytest.raises(sf.errors.DataError, match="without its reverse"):
            arcs.check_symmetric(np.concatenate([[0], np.cumsum(degrees)]), np.delete(graph.indices, arc))


def test_falling_targets_are_seen_at_every_place_of_a_block(monkeypatch):
    monkeypatch.setattr(arcs, "_BLOCK", 3)
    offsets = np.array([0, 0, 4, 4, 7, 9])
    good = np.array([0, 1, 2, 4, 0, 1, 2, 3, 4], np.int32)
    arcs.check_arcs(offsets, good)
    inside = [at for at in range(1, 9) if at not in (4, 7)]
    for at in inside:
        bad = good.copy()
        bad[at] = bad[at - 1]
        with pytest.raises(sf.errors.DataError, match="sorted and unique"):
            arcs.check_arcs(offsets, bad)


def test_a_saved_run_reads_large_arrays_where_they_were_written(monkeypatch, tmp_path):
    graph = stochastic_block_model(60, 3, mean_degree=6, num_features=4, seed=1).with_split(seed=0)
    run = method_named("gap").calibrate(BUDGET, EDGE, graph.public_facts(EDGE)).fit(graph)
    run.save(tmp_path / "run")
    assert where_saved(tmp_path / "run", run.released) == {}
    monkeypatch.setattr("sfumato.record._release_folder.MOST_HELD", 10)
    found = where_saved(tmp_path / "run", run.released)
    assert found.keys() == run.released.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, run.released[name])
        assert isinstance(array.base, np.memmap)


def test_large_arcs_and_features_of_a_store_are_mapped_for_reading_alone(monkeypatch, tmp_path):
    graph = stochastic_block_model(30, 2, mean_degree=4, num_features=3, seed=1)
    store = graph.save(tmp_path / "store")
    assert _mode(Path(store) / "x.npy") == "c"
    monkeypatch.setattr("sfumato.graph._storage.MOST_HELD", 10)
    found = Graph.load(store)
    assert [found.indices.flags.writeable, found.x.flags.writeable, found.y.flags.writeable] == [False, False, True]
    unit = sf.NoPrivacy()
    plan = sf.GAP(epochs=2).calibrate(None, unit, found.with_split().public_facts(unit))
    plan.fit(found.with_split())
