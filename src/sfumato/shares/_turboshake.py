r"""TurboSHAKE128 for many messages of one length at once, and the draft's expansion of seeds by it.

TurboSHAKE128 is the sponge of SHAKE128 (rate 168 bytes) with the last 12 of the 24 rounds of Keccak-f[1600] (RFC 9861). The
standard library has no such function. Rounds are computed on arrays of shape [5, 5, messages], in blocks that stay in the
cache.

The expansion is XofTurboShake128 of draft-irtf-cfrg-vdaf-18: the message is the length of the tag (2 bytes), the tag, the
length of the seed (1 byte), the seed, and the binder; the domain byte is 1. In the analysis of Prio3 it stands for a random
oracle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.shares._field import SIZE, Bytes, Elements, from_bytes

SEED_SIZE = 32
RATE = 168
_DOMAIN = 1
_ROUNDS, _ALL_ROUNDS = 12, 24
_BLOCK = 1024


def stream(seeds: Bytes, tag: bytes, binders: Bytes, size: int) -> Bytes:
    """Return the first bytes that seed, tag and binder give.

    Args:
        seeds: shape [n, 32].
        tag: the domain separation tag, the same for all.
        binders: shape [n, any].
        size: how many bytes.

    Returns:
        Shape [n, size].

    >>> row = np.arange(32, dtype=np.uint8)[None]
    >>> stream(row, b"domain separation tag", np.frombuffer(b"binder string", np.uint8)[None], 4)[0].tobytes().hex()
    'b62ef0a2'
    """
    head = len(tag).to_bytes(2, "little") + tag + bytes([seeds.shape[1]])
    heads = np.broadcast_to(np.frombuffer(head, np.uint8), (len(seeds), len(head)))
    return sponge(np.concatenate([heads, seeds, binders], axis=1), size, _DOMAIN, _ROUNDS)


def expand(seeds: Bytes, tag: bytes, binders: Bytes, count: int) -> Elements:
    """Return uniform field elements from seed, tag and binder, shape [n, count, 2]; see :func:`stream`.

    Sixteen bytes that are no element are passed over. They come once in 2^59 draws, so then all rows are drawn again, longer.
    """
    drawn = count
    while True:
        found = kept(stream(seeds, tag, binders, SIZE * drawn), count)
        if found is not None:
            return found
        drawn += count


def kept(rows: Bytes, count: int) -> Elements | None:
    """Return the first ``count`` elements of each row that are below p, or None if a row has too few of them."""
    numbers, fit = from_bytes(rows.reshape(-1, SIZE))
    drawn = rows.shape[1] // SIZE
    numbers, right = numbers.reshape(len(rows), drawn, 2), fit.reshape(len(rows), drawn)
    if right[:, :count].all():
        return numbers[:, :count]
    if (right.sum(axis=1) < count).any():
        return None
    places = np.argsort(~right, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(numbers, places[..., None], axis=1)


def sponge(messages: Bytes, size: int, domain: int, rounds: int) -> Bytes:
    """Return ``size`` bytes of the sponge for each message: [n, length] becomes [n, size]."""
    made = [_absorbed(messages[at : at + _BLOCK], size, domain, rounds) for at in range(0, len(messages), _BLOCK)]
    return np.concatenate(made) if made else np.zeros((0, size), np.uint8)


def _absorbed(messages: Bytes, size: int, domain: int, rounds: int) -> Bytes:
    rows, length = messages.shape
    padded = np.zeros((rows, (length // RATE + 1) * RATE), np.uint8)
    padded[:, :length] = messages
    padded[:, length] = domain
    padded[:, -1] ^= 0x80
    lanes = RATE // 8
    words = np.ascontiguousarray(padded.view("<u8").T.astype(np.uint64))
    state = np.zeros((25, rows), np.uint64)
    for at in range(0, len(words), lanes):
        state[:lanes] ^= words[at : at + lanes]
        state = permuted(state, rounds)
    out = [state[:lanes]]
    while len(out) * RATE < size:
        state = permuted(state, rounds)
        out.append(state[:lanes])
    return np.ascontiguousarray(np.concatenate(out).T.astype("<u8")).view(np.uint8)[:, :size]


def permuted(state: NDArray[np.uint64], rounds: int) -> NDArray[np.uint64]:
    """Return the last rounds of Keccak-f[1600] of states, shape [25, n]: lane x + 5 y in row x + 5 y (FIPS 202, section 3.2)."""
    one, last = np.uint64(1), np.uint64(63)
    for constant in _CONSTANTS[_ALL_ROUNDS - rounds :]:
        planes = state.reshape(5, 5, -1)  # y, x
        parity = np.bitwise_xor.reduce(planes, axis=0)
        after = parity[_NEXT]
        mixed = planes ^ (parity[_BEFORE] ^ ((after << one) | (after >> last)))
        lanes = mixed.reshape(25, -1)[_FROM]
        lanes = ((lanes << _LEFT) | (lanes >> _RIGHT)).reshape(5, 5, -1)
        state = (lanes ^ (~lanes[:, _NEXT] & lanes[:, _SECOND])).reshape(25, -1)
        state[0] ^= constant
    return state


def _round_constants() -> list[np.uint64]:
    """The constants of the 24 rounds, from the shift register of x^8 + x^6 + x^5 + x^4 + 1 (FIPS 202, algorithm 5)."""
    bits, register = [], 1
    for _ in range(7 * _ALL_ROUNDS):
        bits.append(register & 1)
        register = (register << 1) ^ (0x171 if register & 0x80 else 0)
    return [np.uint64(sum(bits[7 * at + j] << (2**j - 1) for j in range(7))) for at in range(_ALL_ROUNDS)]


def _moves() -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """For each lane after the steps rho and pi (FIPS 202, 3.2.2 and 3.2.3): where it comes from, by how many bits it turns."""
    turns = {(0, 0): 0}
    x, y = 1, 0
    for step in range(24):
        turns[x, y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    sources = [((x + 3 * y) % 5, x) for y in range(5) for x in range(5)]
    return np.array([x + 5 * y for x, y in sources]), np.array([turns[at] for at in sources], np.uint64)[:, None]


_CONSTANTS = _round_constants()
_FROM, _LEFT = _moves()
_RIGHT = np.uint64(64) - _LEFT  # a shift by all 64 bits gives 0
_BEFORE, _NEXT, _SECOND = ([(x + step) % 5 for x in range(5)] for step in (4, 1, 2))
