"""The hash that a MAC of a large operand is made of: what it computes, and how seldom two operands collide."""

import itertools

import numpy as np
import pytest

from sfumato.loops import _keyed, _native
from sfumato.noise import keys
from sfumato.noise.keys import operand_mac

KEY = bytes(range(32))
RANDOM = np.random.default_rng(0)
KEYS = RANDOM.integers(0, 2**32, (4, 256), dtype=np.uint32)
LARGE = RANDOM.integers(0, 2**16, 40_000).astype(np.int16)  # two rounds of hashing


@pytest.fixture(params=["NumPy", 0, 1, 2])
def kind(request, monkeypatch):
    """NumPy, and each kind of vector unit of this processor."""
    library = _keyed._compiled()
    if request.param == "NumPy":
        monkeypatch.setattr(_keyed, "_compiled", lambda: None)
        yield
        return
    best = -1 if library is None else library.use_level(-1)
    if request.param > best:
        pytest.skip("no such vector unit, or no library")
    library.use_level(request.param)
    yield
    library.use_level(best)


@pytest.mark.parametrize("size", [1, 5, 1023, 1024, 1025, 9000])
def test_sums_are_those_of_their_definition(kind, size):
    data = RANDOM.integers(0, 256, size, dtype=np.uint8)
    words = np.r_[data, np.zeros(-size % 1024, np.uint8)].view("<u4").reshape(-1, 256).tolist()
    expected = [
        sum(((a + x) % 2**32) * ((b + y) % 2**32) for a, b, x, y in zip(m[::2], m[1::2], k[::2], k[1::2], strict=True))
        % 2**64
        for m in words
        for k in KEYS.tolist()
    ]
    assert _keyed.hash_blocks(data, KEYS).view("<u8").tolist() == expected


def test_parts_of_a_large_array_and_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(_keyed, "_PART", 7)
    data = RANDOM.integers(0, 256, 700_001, dtype=np.uint8)
    out = np.empty((684, 4), np.uint64)
    _keyed._hash_in_numpy(data, KEYS, out)
    for threads in (1, 2, 5):
        monkeypatch.setattr(_native, "threads", lambda threads=threads: threads)
        assert np.array_equal(_keyed.hash_blocks(data, KEYS).view("<u8").reshape(-1, 4), out)


def most_collisions(bits, pairs, sum_bits=None, keyed=(True, True), own_keys=True):
    """The largest share of keys under which two messages of ``pairs`` pairs of words collide, over all messages and keys."""
    size = 2**bits
    messages = np.array(list(itertools.product(range(size), repeat=2 * pairs))).reshape(-1, pairs, 2)
    secret = np.array(list(itertools.product(range(size), repeat=2 * (pairs if own_keys else 1))))
    secret = secret.reshape(len(secret), -1, 2) * np.array(keyed)
    sums = ((messages[:, None] + secret) % size).prod(axis=3).sum(axis=2) % 2 ** (sum_bits or 2 * bits)
    same = np.zeros((len(messages), len(messages)), np.int64)
    for one in sums.T:
        same += one[:, None] == one
    return (same - np.diag(np.diag(same))).max() / len(secret)


@pytest.mark.parametrize(("bits", "pairs"), [(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 3)])
def test_all_messages_of_short_words_collide_as_seldom_as_proved(bits, pairs):
    assert most_collisions(bits, pairs) <= 2.0**-bits


@pytest.mark.parametrize(
    "change",
    [{"sum_bits": 2}, {"sum_bits": 3}, {"keyed": (True, False)}, {"keyed": (False, True)}, {"own_keys": False}],
    ids=str,
)
def test_near_misses_collide_more_often(change):
    """Sums of fewer bits, words without keys, or one key for all pairs."""
    assert most_collisions(2, 2, **change) > 2.0**-2


def test_macs_of_large_operands_see_every_byte():
    macs = {operand_mac(KEY, LARGE)}
    for at in (0, 1, 511, 512, 20_000, len(LARGE) - 1):
        for bit in (0, 15):
            changed = LARGE.copy()
            changed[at] ^= np.int16(1 << bit) if bit < 15 else np.int16(-(2**15))
            macs.add(operand_mac(KEY, changed))
    assert len(macs) == 13


def test_macs_of_large_operands_see_length_type_shape_order_and_key():
    zeros = np.zeros(40_000, np.int16)
    blocks = LARGE[: 39 * 1024].reshape(-1, 512)
    operands = [
        (LARGE,), (LARGE[:-1],), (np.r_[LARGE, np.int16(0)],), (LARGE.view(np.uint16),), (LARGE.view(np.int32),),
        (LARGE.reshape(2, -1),), (LARGE[:20_000], LARGE[20_000:]), (LARGE, LARGE[:0]), (blocks,), (blocks[::-1],),
        (np.roll(blocks, 1, axis=0),), (np.roll(LARGE, 2),), (zeros,), (zeros[:-1],), (zeros[:20_000],), (zeros[:8193],),
        (zeros[:8192],),
    ]  # fmt: skip
    assert len({operand_mac(KEY, *operand) for operand in operands}) == len(operands)
    assert operand_mac(KEY, LARGE) != operand_mac(bytes(32), LARGE)
    assert operand_mac(KEY, np.asfortranarray(blocks)) == operand_mac(KEY, blocks)


def test_macs_are_the_same_in_numpy(kind):
    expected = "7bb286a487575918"
    assert operand_mac(KEY, np.arange(300_000)).hex()[:16] == expected


def test_each_round_has_keys_of_its_own(monkeypatch):
    seen, real = [], keys.hash_blocks
    monkeypatch.setattr(keys, "hash_blocks", lambda data, words: seen.append(words) or real(data, words))
    for key in (KEY, bytes(32)):
        operand_mac(key, np.zeros(2**22, np.uint8))
    assert len(seen) == 4
    words = np.concatenate([words.ravel() for words in seen])
    assert len(np.unique(words)) > 0.999 * words.size


def test_short_operands_enter_the_hmac_as_they_are(monkeypatch):
    hashed, real = [], keys.hash_blocks
    monkeypatch.setattr(keys, "hash_blocks", lambda data, words: hashed.append(data.size) or real(data, words))
    operand_mac(KEY, np.zeros(2**14, np.uint8), np.zeros(3))
    assert hashed == []
    operand_mac(KEY, np.zeros(2**14 + 1, np.uint8))
    assert hashed == [2**14 + 1]
