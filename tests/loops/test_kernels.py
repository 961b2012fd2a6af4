"""Compiled loops and Numba's give the same bits; a library that does not belong to this source is not used."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.graph._weights import FULL
from sfumato.loops import _native, _numba, kernels
from sfumato.loops.kernels import INT16_ONE

ROOT = Path(__file__).parents[2]


def build_hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "hop.native"
    if not build_hook().compile_library(_native.SOURCES, path):
        pytest.skip("no C compiler here")
    return path


@pytest.fixture(params=["C", "Numba"])
def loops(request):
    return _numba if request.param == "Numba" else _native.load(request.getfixturevalue("built"))


@pytest.fixture(params=[1, 2])
def threads(request):
    before = numba.get_num_threads()
    numba.set_num_threads(min(request.param, numba.config.NUMBA_NUM_THREADS))
    yield
    numba.set_num_threads(before)


def skewed_arcs(random, num_nodes):
    """Degrees from 0 to a hub of several thousand, and sources of which a few are named most often."""
    degrees = random.integers(0, 12, num_nodes)
    degrees[random.integers(0, num_nodes, num_nodes // 3)] = 0
    degrees[[0, num_nodes // 2, num_nodes - 1]] = [0, 5000, 3]
    offsets = np.r_[0, np.cumsum(degrees)].astype(np.int64)
    return offsets, (num_nodes * random.random(offsets[-1]) ** 3).astype(np.int32)


def expected(offsets, sources, steps):
    matrix = sp.csr_matrix((np.ones(len(sources), np.int64), sources, offsets), (len(steps),) * 2)
    return matrix @ steps.astype(np.int64)


def summed(loops, offsets, sources, steps, first=0, last=None, weights=None):
    out = np.full(((len(offsets) - 1 if last is None else last) - first, steps.shape[1]), -7, np.int64)
    loops.sum_rows(offsets, sources, loops.pack(steps), first, out, weights)
    return out


@pytest.mark.parametrize("width", range(41))
def test_sums_are_exact_at_any_width(loops, threads, width):
    random = np.random.default_rng(width)
    offsets, sources = skewed_arcs(random, 700)
    steps = random.integers(-INT16_ONE - 1, INT16_ONE + 1, (700, width)).astype(np.int16)
    steps[:, ::3] = random.choice([-INT16_ONE, INT16_ONE], (700, -(-width // 3)))
    total = expected(offsets, sources, steps)
    assert np.array_equal(summed(loops, offsets, sources, steps), total)
    assert np.array_equal(summed(loops, offsets, sources, steps, 301, 453), total[301:453])


@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 31, 32, 33, 64, 70])
def test_weighted_sums_are_exact_and_rounded_toward_zero(loops, threads, width):
    random = np.random.default_rng(width)
    offsets, sources = skewed_arcs(random, 700)
    steps = random.integers(-INT16_ONE - 1, INT16_ONE + 1, (700, width)).astype(np.int16)
    weights = random.choice([0, 1, FULL - 1, FULL, 12345], len(sources)).astype(np.uint16)
    shares = np.trunc(weights[:, None] * steps[sources].astype(np.float64) / FULL).astype(np.int64)
    total = np.zeros((700, width), np.int64)
    np.add.at(total, np.repeat(np.arange(700), np.diff(offsets)), shares)
    assert np.array_equal(summed(loops, offsets, sources, steps, weights=weights), total)
    assert np.array_equal(summed(loops, offsets, sources, steps, 301, 453, weights), total[301:453])
    full = np.full(len(sources), FULL, np.uint16)
    assert np.array_equal(summed(loops, offsets, sources, steps, weights=full), expected(offsets, sources, steps))


@pytest.mark.parametrize("width", [8, 16, 32, 50, 64, 150])
def test_every_kind_of_vector_unit_sums_alike(built, width):
    library, random = _native.library(built), np.random.default_rng(width)
    offsets, sources = skewed_arcs(random, 700)
    steps = random.integers(-INT16_ONE - 1, INT16_ONE + 1, (700, width)).astype(np.int16)
    weights, top = random.integers(0, FULL + 1, len(sources)).astype(np.uint16), library.use_level(-1)
    plain, weighed = expected(offsets, sources, steps), summed(_numba, offsets, sources, steps, weights=weights)
    try:
        for level in range(top + 1):
            assert library.use_level(level) == level
            assert np.array_equal(summed(_native.Compiled(library), offsets, sources, steps), plain)
            assert np.array_equal(summed(_native.Compiled(library), offsets, sources, steps, weights=weights), weighed)
    finally:
        library.use_level(top)


@pytest.mark.parametrize("extreme", [INT16_ONE, -INT16_ONE - 1])
@pytest.mark.parametrize("degree", [2**16, 2**16 + 1, 2**17 + 3])
@pytest.mark.parametrize("width", [3, 16, 33, 64])
def test_a_hub_of_more_terms_than_an_accumulator_holds_is_exact(loops, extreme, degree, width):
    offsets = np.array([0, 1, 1 + degree, 2 + degree])
    steps, full = np.full((3, width), extreme, np.int16), np.full(degree + 2, FULL, np.uint16)
    for weights in (None, full):
        total = summed(loops, offsets, np.zeros(degree + 2, np.int32), steps, weights=weights)
        assert (total == np.array([[1], [degree], [1]]) * extreme).all()


@pytest.mark.parametrize("width", [1, 7, 16, 40])
def test_both_loops_put_rows_on_the_same_grid(built, threads, width):
    random = np.random.default_rng(width)
    rows = random.normal(size=(3000, width))
    rows *= random.choice([0, 1e-30, 0.99, 1, 1.00001, 50, 1e30], (3000, 1)) / np.linalg.norm(
        rows, axis=1, keepdims=True
    )
    rows = rows.astype(np.float32)
    results = []
    for loops in (_native.load(built), _numba):
        steps, squares = np.empty(rows.shape, np.int16), np.empty(3000)
        loops.quantize(rows, steps, squares)
        results.append((steps, squares))
    (steps, squares), (others, other_squares) = results
    assert np.array_equal(steps, others)
    assert squares == pytest.approx(other_squares)
    assert squares == pytest.approx(np.square(rows, dtype=np.float64).sum(axis=1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_show_in_the_squares(loops, bad):
    rows = np.array([[0.5, 0.5], [0.1, bad], [bad, 0.1], [3e38, 3e38]], np.float32)
    squares = np.empty(4)
    loops.quantize(rows, np.empty((4, 2), np.int16), squares)
    assert np.isfinite(squares).tolist() == [True, False, False, True]


def test_arrays_of_another_kind_are_refused(built):
    loops, out = _native.load(built), np.empty((1, 1), np.int64)
    packed = loops.pack(np.zeros((1, 1), np.int16))
    with pytest.raises(TypeError, match="int32 in C order, got int64"):
        loops.sum_rows(np.array([0, 1]), np.array([0]), packed, 0, out)
    with pytest.raises(TypeError, match="float32 in C order"):
        loops.quantize(np.zeros((4, 4), np.float32)[:, ::2], np.empty((4, 2), np.int16), np.empty(4))


def test_a_library_of_another_source_is_not_loaded(built, tmp_path, monkeypatch):
    older = tuple(Path(shutil.copy(source, tmp_path)) for source in _native.SOURCES)
    older[0].write_bytes(_native.SOURCES[0].read_bytes() + b"/* an older one */")
    build_hook().compile_library(older, tmp_path / "hop.native")
    assert _native.load(built) is not None
    assert _native.load(tmp_path / "hop.native") is None
    monkeypatch.setattr(_native, "SOURCES", older)
    assert _native.load(tmp_path / "hop.native") is not None


def test_a_damaged_library_is_not_loaded(tmp_path):
    (tmp_path / "hop.native").write_bytes(b"\x7fELF and nothing more")
    assert _native.load(tmp_path / "hop.native") is None


def test_numba_sums_where_nothing_was_compiled(monkeypatch):
    monkeypatch.setattr(kernels._native, "load", lambda: None)
    assert kernels.loops.__wrapped__().NAME == "Numba"


def test_a_failed_build_leaves_no_library_behind(tmp_path, monkeypatch, capsys):
    library = tmp_path / "hop.native"
    library.write_bytes(b"old")
    for compiler in ("/nowhere/cc", f"{sys.executable} -c raise(SystemExit(1))"):
        monkeypatch.setenv("CC", compiler)
        assert not build_hook().compile_library(_native.SOURCES, library)
        assert "hop.c was not compiled" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_numba_is_not_imported_where_the_library_is(built):
    code = (
        "import sys; from pathlib import Path; from sfumato.loops import _native; "
        f"_native.library.__defaults__ = _native.load.__defaults__ = (Path({str(built)!r}),); "
        "import numpy as np; from sfumato.bounded.aggregation import Arcs, neighborhood_sum, to_steps; "
        "arcs = Arcs(np.array([0, 1]), np.zeros(1, np.int32)); "
        "print(neighborhood_sum(arcs, to_steps(np.ones((1, 2), np.float32) / 2)), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[[16383 16383]] False\n", "")


@pytest.mark.parametrize(("wanted", "threads"), [("3", 3), ("0", 2), ("4,2", 2), (None, 2)])
def test_without_numba_the_environment_or_the_processors_decide_on_threads(monkeypatch, wanted, threads):
    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5}, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wanted is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    assert _native.threads() == threads
    monkeypatch.delattr(os, "sched_getaffinity")
    assert _native.threads() == (3 if wanted == "3" else os.cpu_count())


def closed_pairs(offsets, targets):
    arcs = sp.csr_matrix((np.ones(len(targets), np.int64), targets, offsets), (len(offsets) - 1,) * 2)
    return np.asarray((arcs @ arcs).multiply(arcs).sum(axis=1)).ravel()


@pytest.mark.parametrize("num_nodes", [1, 2, 65, 3000])
def test_both_loops_count_closed_pairs_of_targets(loops, threads, num_nodes):
    random = np.random.default_rng(num_nodes)
    ends = np.triu(random.random((num_nodes, num_nodes)) < 20 / num_nodes, 1)
    ends[0] = True
    ends[0, 0] = False
    offsets, targets = np.r_[0, ends.sum(1).cumsum()], np.nonzero(ends)[1].astype(np.int32)
    found = np.full(num_nodes, -1, np.int64)
    loops.closed(offsets, targets, found)
    assert found.tolist() == closed_pairs(offsets, targets).tolist()


def test_marks_without_memory_are_an_error(built, monkeypatch):
    loops, found = _native.load(built), np.empty(1, np.int64)
    monkeypatch.setattr(loops, "_closed", lambda *_: 0)
    with pytest.raises(MemoryError, match="one bit of each node"):
        loops.closed(np.array([0, 0]), np.empty(0, np.int32), found)
