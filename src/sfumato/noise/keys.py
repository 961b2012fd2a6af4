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

Key = bytes


def new_key() -> Key:
    """Draw a 256-bit fit key from the operating system.

    >>> len(new_key())
    32
    """
    return os.urandom(32)


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
    """Return a MAC of the exact bytes, shapes and types of an operand. It is secret: never write it to a ledger or log.

    >>> operand_mac(bytes(32), np.arange(3)) == operand_mac(bytes(32), np.arange(1, 4))
    False
    """
    digest = hmac.new(derive_key(key, "mac"), digestmod=hashlib.sha256)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.digest()


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
        self._cipher = algorithms.AES256(key)

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
