"""Noise depends on key and position alone."""

import numba
import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy import noise
from sfumato.privacy.noise import Stream, coins, derive_key, new_key, operand_mac, rounded_gaussian

KEY = bytes(range(32))


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.set_num_threads
    numba.set_num_threads(before)


@pytest.fixture(scope="module")
def whole():
    return rounded_gaussian(KEY, 3.3, 0, 200_000)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (7, 7), (0, 1), (65_535, 65_537), (99_999, 200_000)])
def test_a_slice_draws_what_the_whole_draws_there(whole, start, stop):
    assert np.array_equal(rounded_gaussian(KEY, 3.3, start, stop), whole[start:stop])


def test_blocks_in_any_order_give_the_same_values(whole):
    parts = {low: rounded_gaussian(KEY, 3.3, low, min(low + 70_001, 200_000)) for low in (140_002, 0, 70_001)}
    assert np.array_equal(np.concatenate([parts[low] for low in sorted(parts)]), whole)


@pytest.mark.parametrize("count", [1, 2])
def test_thread_count_does_not_matter(whole, threads, count):
    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one thread only on this machine")
    threads(count)
    assert np.array_equal(rounded_gaussian(KEY, 3.3, 0, 200_000), whole)


def test_positions_far_out_are_reachable():
    last = 2**63 - 1
    assert len(set(rounded_gaussian(KEY, 1e9, last - 4, last).tolist())) == 4


@pytest.mark.parametrize("other", [derive_key(KEY, 1), KEY[:-1] + b"\xff"])
def test_another_key_gives_other_noise(whole, other):
    changed = rounded_gaussian(other, 3.3, 0, 200_000)
    assert abs(np.corrcoef(whole, changed)[0, 1]) < 5 / np.sqrt(200_000)


def test_another_scale_reads_the_same_stream_at_its_own_scale():
    small, large = rounded_gaussian(KEY, 1e3, 0, 1000), rounded_gaussian(KEY, 1e6, 0, 1000)
    assert large.std() / small.std() == pytest.approx(1000, rel=0.15)


def test_a_changed_operand_gives_independent_noise():
    operand = np.arange(12, dtype=np.int16).reshape(3, 4)
    nudged = operand.copy()
    nudged[2, 3] += 1
    draws = [rounded_gaussian(derive_key(KEY, operand_mac(KEY, a)), 100.0, 0, 50_000) for a in (operand, nudged)]
    assert np.array_equal(
        rounded_gaussian(derive_key(KEY, operand_mac(KEY, operand.copy())), 100.0, 0, 50_000), draws[0]
    )
    assert abs(np.corrcoef(*draws)[0, 1]) < 5 / np.sqrt(50_000)


def test_mac_sees_values_shape_type_order_and_split():
    a = np.arange(6, dtype=np.int16)
    operands = [
        (a,),
        (a.reshape(2, 3),),
        (a.reshape(3, 2),),
        (a.view(np.uint16),),
        (a[:3], a[3:]),
        (a[3:], a[:3]),
        (a, a[:0]),
    ]
    assert len({operand_mac(KEY, *operand) for operand in operands}) == len(operands)
    assert operand_mac(KEY, a) != operand_mac(new_key(), a)
    assert operand_mac(KEY, a) != derive_key(KEY, "mac")


def test_mac_does_not_depend_on_memory_layout():
    a = np.arange(12).reshape(3, 4)
    assert operand_mac(KEY, np.asfortranarray(a)) == operand_mac(KEY, a)
    assert operand_mac(KEY, np.repeat(a, 2, axis=1)[:, ::2]) == operand_mac(KEY, a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("ab", "c"), ("a", "bc")),
        (("ab",), ("a", "b")),
        (("a", ""), ("a",)),
        (("noise", 1, 2), ("noise", 12)),
        ((), ("",)),
    ],
)
def test_derived_keys_cannot_be_confused(left, right):
    assert derive_key(KEY, *left) != derive_key(KEY, *right)


def test_derived_keys_are_stable_and_depend_on_the_key():
    assert derive_key(KEY, "aggregate", 1) == derive_key(KEY, "aggregate", 1)
    assert derive_key(KEY, "aggregate", 1) != derive_key(bytes(32), "aggregate", 1)
    assert len(derive_key(KEY, "aggregate", 1)) == 32


def test_new_keys_differ():
    assert new_key() != new_key()


def test_stream_blocks_are_distinct_and_agree_between_both_readings():
    stream = Stream(KEY)
    assert np.array_equal(stream.consecutive(5, 300), stream.at(np.arange(5, 300, dtype=np.uint64), 0))
    blocks = np.concatenate([stream.at(np.arange(100, dtype=np.uint64), t) for t in (0, 1, 2, 1 << 63)])
    assert len(np.unique(blocks, axis=0)) == 400


def test_coins_depend_on_the_id_alone():
    ids = np.arange(1000)
    order = np.random.default_rng(0).permutation(1000)
    assert np.array_equal(coins(KEY, 0.3, ids)[order], coins(KEY, 0.3, ids[order]))
    assert not np.array_equal(coins(KEY, 0.3, ids), coins(derive_key(KEY, 1), 0.3, ids))


def test_coins_with_a_larger_probability_keep_the_heads():
    few, many = (coins(KEY, q, np.arange(1000)) for q in (0.3, 0.6))
    assert many[few].all()
    assert many.sum() > few.sum()


@pytest.mark.parametrize("stddev", [0, -1.0, 2.0**-21, 2.0**36, float("nan"), float("inf"), "3"])
def test_standard_deviation_out_of_range(stddev):
    with pytest.raises(InputError, match="stddev"):
        rounded_gaussian(KEY, stddev, 0, 1)


@pytest.mark.parametrize("stddev", [2.0**-20, np.nextafter(2.0**36, 0)])
def test_extreme_standard_deviations_are_drawn(stddev):
    values = rounded_gaussian(KEY, stddev, 0, 10_000)
    assert (values == 0).all() if stddev < 1 else values.std() == pytest.approx(stddev, rel=0.03)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, 2**63)])
def test_positions_out_of_range(start, stop):
    with pytest.raises(InputError, match="start, stop"):
        rounded_gaussian(KEY, 1.0, start, stop)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_probability_out_of_range(probability):
    with pytest.raises(InputError, match="probability"):
        coins(KEY, probability, np.arange(3))


def test_guarantee_is_stated():
    assert noise.SAMPLER_TAU == 2.0**-100
