r"""Keyed counter-based noise: rounded Gaussian integers and secret coins that depend on their position alone.

**Stream.** A release reads blocks :math:`E_k(t \,\|\, i)` of AES-256: ``i`` is fixed by the position of a value and ``t``
numbers its retries. The key ``k`` is derived by HMAC-SHA256 from the fit key, the purpose, the index of the release, a MAC
of the exact operand, the law and its scale. So equal operands give equal bits under any blocking, order, retry or
thread count, and a changed operand gives independent noise (and must be charged again).

**Law.** :func:`rounded_gaussian` draws :math:`\mathrm{round}(\sigma Z)`, :math:`Z \sim N(0, 1)`. Since a released sum
``s`` is an integer, :math:`s + \mathrm{round}(\sigma Z) = \mathrm{round}(s + \sigma Z)`: the release is post-processing
of the Gaussian mechanism, so the exact Gaussian accounting applies.

**Formal guarantee.** Total variation to the exact law is at most ``SAMPLER_TAU`` = 2^-100 a draw, proved in
``_rounded.py``. The guarantee is computational: it holds for AES-256 and HMAC-SHA256 modelled as random functions.

Source: rounding of the Gaussian mechanism as post-processing, Dwork and Roth (2014), proposition 2.1.
"""

from __future__ import annotations

import hashlib
import hmac
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from sfumato._validate import check_real, fail
from sfumato.privacy._rounded import GAUSSIAN, draw

SAMPLER_TAU = 2.0**-100

Key = bytes
IntArray = NDArray[np.int64]


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
    """MAC of the exact bytes, shapes and types of an operand. Secret: never write it to a ledger or log.

    >>> operand_mac(bytes(32), np.arange(3)) == operand_mac(bytes(32), np.arange(1, 4))
    False
    """
    digest = hmac.new(derive_key(key, "mac"), digestmod=hashlib.sha256)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.digest()


def rounded_gaussian(key: Key, stddev: float, start: int, stop: int) -> IntArray:
    r"""Draw values ``start`` to ``stop`` of the release keyed by ``key``: integers :math:`\mathrm{round}(\sigma Z)`.

    Args:
        key: the release's own key (see :func:`derive_key`).
        stddev: standard deviation :math:`\sigma` in grid steps, in [2^-20, 2^36).
        start: absolute position of the first value.
        stop: one past the last.

    **Formal guarantee.** Added to integers of L2 sensitivity :math:`\Delta`: a Gaussian event of noise multiplier
    :math:`\sigma / \Delta`, plus ``SAMPLER_TAU`` for each affected coordinate.

    Shapes: the result is int64 [stop - start].

    Raises:
        InputError: ``stddev`` or the positions are out of range.

    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4).tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 6).tolist()
    False
    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4)[2:].tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 4).tolist()
    True
    """
    stddev = check_real(low=2.0**-20, high=2.0**36, open_high=True, stddev=stddev)
    return draw(GAUSSIAN, stddev, law_stream(key, start, stop, GAUSSIAN.name, stddev.hex()), start, stop)


def law_stream(key: Key, start: int, stop: int, law: str, *parameters: str) -> Stream:
    """Stream of a release for one law and its parameters, after checking the positions to be drawn.

    Binding the parameters keeps a second draw at another scale from cancelling against the first.

    >>> law_stream(bytes(32), 0, 3, "rounded-gaussian", "0x1.0p+1").at(np.array([0], np.uint64), 0).shape
    (1, 2)
    """
    if not 0 <= start <= stop < 2**63:
        raise fail("start, stop", (start, stop), "to satisfy 0 <= start <= stop < 2**63")
    return Stream(derive_key(key, law, *parameters))


def coins(key: Key, probability: float, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Toss one secret coin an id; heads with probability ``floor(2^64 probability) / 2^64``, never above it.

    >>> int(coins(bytes(32), 0.5, np.arange(1000)).sum())
    501
    """
    check_real(low=0, high=1, probability=probability)
    if probability == 1:
        return np.ones(len(ids), bool)
    words = Stream(key).at(np.asarray(ids, np.uint64), 0)[:, 0]
    return words < np.uint64(int(probability * 2.0**64))


class Stream:
    """128-bit pseudo-random blocks E_k(attempt || index), as pairs of uint64 words."""

    def __init__(self, key: Key) -> None:
        self._cipher = algorithms.AES256(key)

    def counter_mode(self, block: int) -> CipherContext:
        """Cipher that turns zeros into the blocks of attempt 0 from index ``block`` on."""
        return Cipher(self._cipher, modes.CTR(block.to_bytes(16, "big"))).encryptor()

    def at(self, index: NDArray[np.uint64], attempt: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Blocks at arbitrary positions, shape [len(index), 2].

        One cipher call on distinct counter blocks: this is counter mode with the counters written out.
        """
        blocks = np.empty((len(index), 2), ">u8")
        blocks[:, 0], blocks[:, 1] = attempt, index
        encryptor = Cipher(self._cipher, modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(blocks.tobytes()), "<u8").reshape(-1, 2)
