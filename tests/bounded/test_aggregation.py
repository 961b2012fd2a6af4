"""Neighborhood sums: exact integers, and noise that depends on the operand alone."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.bounded import aggregation
from sfumato.bounded._degree import by_destination
from sfumato.bounded.aggregation import Arcs, neighborhood_sum, noisy_neighborhood_sum, normalize_rows, to_steps
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import derive_key, operand_mac

KEY = bytes(32)
# 0 -> 1, 0 -> 2, 2 -> 1; node 3 is alone
FOUR = Arcs(*by_destination(np.array([0, 2, 2, 3, 3]), np.array([1, 2, 1], np.int32)))


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.set_num_threads
    numba.set_num_threads(before)


def random_arcs(seed, num_nodes, density=0.05):
    matrix = sp.random(num_nodes, num_nodes, density, format="csr", random_state=seed, dtype=np.float32)
    matrix.sort_indices()
    return Arcs(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def unit_rows(seed, num_nodes, width):
    return normalize_rows(np.random.default_rng(seed).normal(size=(num_nodes, width)))


def expected_sum(arcs, steps):
    matrix = sp.csr_matrix((np.ones(len(arcs.sources), np.int64), arcs.sources, arcs.offsets), (arcs.num_nodes,) * 2)
    return matrix @ steps.astype(np.int64)


@pytest.mark.parametrize("width", [1, 6, 16, 17, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_sums_equal_scipy(width, seed):
    arcs = random_arcs(seed, 300)
    steps = np.random.default_rng(seed).integers(-INT16_ONE, INT16_ONE + 1, (300, width)).astype(np.int16)
    total = neighborhood_sum(arcs, steps)
    assert total.dtype == np.int64
    assert np.array_equal(total, expected_sum(arcs, steps))


def test_steps_round_toward_zero():
    rows = unit_rows(0, 5000, 7)
    steps = to_steps(rows).astype(np.int64)
    exact = rows.astype(np.float64) * INT16_ONE
    assert (np.abs(steps) <= np.abs(exact)).all()
    assert (np.abs(exact) - np.abs(steps) < 2).all()
    assert (np.abs(exact) - np.abs(steps) < 1).mean() > 0.99
    assert to_steps(np.array([[1, 0], [-1, 0], [0.99999, -0.00004]], np.float32)).tolist() == [
        [INT16_ONE, 0], [-INT16_ONE, 0], [32766, -1],
    ]  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 1.00001, 3.0, 1e6])
def test_steps_never_leave_the_unit_ball(scale):
    rows = unit_rows(1, 5000, 9) * np.float32(scale)
    steps = to_steps(rows).astype(np.int64)
    assert np.square(steps).sum(1).max() <= INT16_ONE**2
    assert np.square(steps).sum(1).max() > 0.999 * INT16_ONE**2


def test_a_row_just_outside_in_integers_is_shrunk():
    steps = to_steps(np.array([[0.6, 0.8000001], [1.0, 0.0001]], np.float32))
    assert (np.square(steps.astype(np.int64)).sum(1) <= INT16_ONE**2).all()
    assert steps[1].tolist() == [INT16_ONE - 1, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_must_be_finite(bad):
    with pytest.raises(InputError, match="rows"):
        to_steps(np.array([[bad, 0]], np.float32))
    with pytest.raises(InputError, match="rows"):
        noisy_neighborhood_sum(FOUR, np.full((4, 2), bad, np.float32), 1.0, KEY)


def test_long_rows_are_refused():
    rows = np.zeros((4, 2), np.float32)
    rows[2] = [0.8, 0.61]
    with pytest.raises(InputError, match=r"got .a longer row.*Normalize"):
        noisy_neighborhood_sum(FOUR, rows, 1.0, KEY)


@pytest.mark.parametrize("shape", [(3, 2), (5, 2), (4,)])
def test_rows_must_match_the_nodes(shape):
    with pytest.raises(InputError, match="4 rows"):
        noisy_neighborhood_sum(FOUR, np.zeros(shape, np.float32), 1.0, KEY)


@pytest.mark.parametrize("stddev", [-1.0, np.nan])
def test_noise_must_not_be_negative(stddev):
    with pytest.raises(InputError, match="noise_stddev"):
        noisy_neighborhood_sum(FOUR, np.zeros((4, 2), np.float32), stddev, KEY)


@pytest.mark.parametrize("block", [1, 7, 64, 199, 200, 10_000])
@pytest.mark.parametrize("count", [1, 2])
def test_release_is_the_same_at_any_block_and_thread_count(threads, block, count):
    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one thread only on this machine")
    arcs, rows = random_arcs(3, 200), unit_rows(3, 200, 17)
    release = noisy_neighborhood_sum(arcs, rows, 2.5, KEY)
    threads(count)
    assert np.array_equal(noisy_neighborhood_sum(arcs, rows, 2.5, KEY, block=block), release)


def test_release_is_the_sum_plus_keyed_noise_of_the_stated_size():
    arcs, rows = random_arcs(4, 2000, 0.01), unit_rows(4, 2000, 16)
    steps = to_steps(rows)
    noise = noisy_neighborhood_sum(arcs, rows, 2.5, KEY) - expected_sum(arcs, steps)
    key = derive_key(KEY, operand_mac(KEY, steps, arcs.offsets, arcs.sources))
    assert np.array_equal(noise.reshape(-1), rounded_gaussian(key, 2.5 * INT16_ONE, 0, 32_000))
    assert noise.std() == pytest.approx(2.5 * INT16_ONE, rel=0.02)
    assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(noise.size)


def test_normalized_rows():
    rows = normalize_rows(np.array([[3, 4], [0, 0], [-5, 0]], np.int64))
    assert rows.dtype == np.float32
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0], [-1, 0]]))
    assert normalize_rows(np.array([[np.nan, 1]])).tolist() == [[0, 0]]
    long = normalize_rows(np.random.default_rng(0).normal(size=(3000, 40)) * 1e12)
    assert np.abs(np.linalg.norm(long.astype(float), axis=1) - 1).max() < 1e-6
    assert noisy_neighborhood_sum(FOUR, long[:4], 0.0, KEY).shape == (4, 40)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [1, 9, 40])
def test_rows_normalized_in_blocks_have_the_bits_of_all_at_once(monkeypatch, width, order):
    rows = np.asarray(np.random.default_rng(width).normal(size=(101, width)) * 1e6, order=order)
    at_once = normalize_rows(rows)
    for block in (1, 2, 50, 100):
        monkeypatch.setattr(aggregation, "_BLOCK", block)
        assert np.array_equal(normalize_rows(rows), at_once)
