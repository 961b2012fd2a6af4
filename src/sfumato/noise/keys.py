r"""Keys and keyed streams. A random word depends on nothing but a key, a purpose and a position.

**Stream.** A release reads blocks :math:`E_k(t \,\|\, i)` of AES-256: ``i`` is fixed by the position of a value and ``t``
numbers its retries. The key ``k`` is derived by HMAC-SHA256 from the fit key, the purpose, the index of the release, a MAC
of the exact operand, the law and its scale. So equal operands give equal bits under any blocking, order, retry or
thread count, and a changed operand gives independent noise (and must be charged again).

The guarantee is computational: it holds for AES-256 and HMAC-SHA256 modelled as random functions.
"""

from __future__ import annotations

import hashlib
import hmac
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.loops._keyed import BLOCK, SUMS, hash_blocks

Key = bytes
KEY_BYTES = 32
_SHORT = 1 << 14  # bytes that go into an HMAC as they are


def new_key() -> Key:
    """Draw a 256-bit fit key from the operating system.

    >>> len(new_key())
    32
    """
    return os.urandom(KEY_BYTES)


def derive_key(key: Key, *parts: str | int | bytes) -> Key:
    """Derive an independent key for a purpose: HMAC-SHA256 over the length-prefixed ``parts``.

    >>> derive_key(bytes(32), "aggregate", 1) == derive_key(bytes(32), "aggregate", 2)
    False
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def operand_mac(key: Key, *arrays: NDArray[np.generic]) -> bytes:
    r"""Return a MAC of the exact bytes, shapes and types of an operand. It is secret: never write it to a ledger or log.

    It is HMAC-SHA256 of the type and shape of each array and of its bytes, or of their hash under a secret key if there are more
    than 2^14. The hash is made in rounds: :func:`~sfumato.loops._keyed.hash_blocks` turns 1,024 bytes into 32, with keys of the
    round, until at most 2^14 are left.

    **Formal guarantee.** Two operands that do not depend on the keys have the same hash with probability at most 2^-124, if the
    keys are random words. So n operands under one key have n different noise keys but for n^2 2^-125, and for what HMAC-SHA256
    and AES-256 differ from random functions by. A release shows its operand through a random function of the hash alone, so it
    tells nothing of the keys unless two hashes are equal, and later operands may depend on it. Proof, for arrays of one type and
    shape, since both enter the HMAC:

    1. *One sum.* Let w = 32, and let a block and another differ in a pair of words, (a, b) and (a', b'), a other than a' (or b
       than b', which is the same). Fix all keys but that of b, so that a and a' stand for what they are with their key, and stay
       different. With its key b is u, uniform, and b' is u + d mod 2^w for a fixed d. The sums are equal if
       a u - a' (u + d mod 2^w) = c mod 2^(2w) for a fixed c. At most one u satisfies that: between u and u + D, 0 < D < 2^w, the
       left side grows by (a - a') D, which is not 0 and of size below 2^(2w), or, if the term in brackets wraps, by
       (a - a') D + a' 2^w, which lies strictly between a 2^w and a' 2^w, hence strictly between 0 and 2^(2w). So one sum is
       equal with probability at most 2^-w.
    2. *One round.* The four sums of a block have keys of their own, so all are equal with probability at most 2^-128. What is
       left of two operands is equal only if it is in a block where they differ. Zeros fill the last block of both alike.
    3. *All rounds.* Each has keys of its own, and 2^63 bytes take ten: 10 * 2^-128 < 2^-124.

    Source: NH and its proof, Black, Halevi, Krawczyk, Krovetz and Rogaway (1999), UMAC, theorem 4.1.

    >>> operand_mac(bytes(32), np.arange(3)) == operand_mac(bytes(32), np.arange(1, 4))
    False
    """
    own = derive_key(key, "mac")
    digest = hmac.new(own, digestmod=hashlib.sha256)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if not array.size:
            continue
        data = np.frombuffer(np.ascontiguousarray(array).data.cast("B"), np.uint8)
        rounds = 0
        while data.size > _SHORT:
            data, rounds = hash_blocks(data, _hash_keys(own, rounds)), rounds + 1
        digest.update(data.data)
    return digest.digest()


def _hash_keys(key: Key, rounds: int) -> NDArray[np.uint32]:
    words = Stream(derive_key(key, "hash", rounds)).counter_mode(0).update(bytes(SUMS * BLOCK))
    return np.frombuffer(words, "<u4").reshape(SUMS, BLOCK // 4)


def law_stream(key: Key, start: int, stop: int, law: str, *parameters: str) -> Stream:
    """Return the stream of a release for one law and its parameters, after a check of the positions to be drawn.

    The stream depends on the parameters. So a second draw at another scale cannot be used to cancel the noise of the first.

    Args:
        key: the key of the release.
        start: absolute position of the first value.
        stop: one past the last position, below 2^63.
        law: the name of the law.
        *parameters: the parameters of the law, as text.

    Raises:
        InputError: the positions are out of order or out of range.

    >>> law_stream(bytes(32), 0, 3, "rounded-gaussian", "0x1.0p+1").at(np.array([0], np.uint64), 0).shape
    (1, 2)
    """
    if not 0 <= start <= stop < 2**63:
        raise fail("start, stop", (start, stop), "to satisfy 0 <= start <= stop < 2**63")
    return Stream(derive_key(key, law, *parameters))


class Stream:
    """128-bit pseudo-random blocks E_k(attempt || index), each as a pair of uint64 words.

    >>> Stream(bytes(32)).at(np.array([0, 7], np.uint64), 0).shape
    (2, 2)
    """

    def __init__(self, key: Key) -> None:
        self.key, self._cipher = key, algorithms.AES256(key)

    def counter_mode(self, block: int) -> CipherContext:
        """Return a cipher that turns zeros into the blocks of attempt 0, from index ``block`` on."""
        return Cipher(self._cipher, modes.CTR(block.to_bytes(16, "big"))).encryptor()

    def at(self, index: NDArray[np.uint64], attempt: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the blocks at arbitrary positions, shape [len(index), 2].

        This takes one cipher call on distinct counter blocks: it is counter mode with the counters written out.
        """
        blocks = np.empty((len(index), 2), ">u8")
        blocks[:, 0], blocks[:, 1] = attempt, index
        encryptor = Cipher(self._cipher, modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(blocks.tobytes()), "<u8").reshape(-1, 2)
