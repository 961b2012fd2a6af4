r"""Keyed counter-based noise: rounded Gaussian integers and secret coins that depend on their position alone.

**Stream.** Value ``i`` of a release reads the block :math:`E_k(t \,\|\, i)` of AES-256, ``t`` = 0, 1, ... numbering the
attempts of a rejection sampler. The key ``k`` is derived by HMAC-SHA256 from the fit key, the purpose, the index of the
release and a MAC of the exact operand. So equal operands give equal bits under any blocking, order, retry or thread
count, and a changed operand gives independent noise (and must be charged again).

**Law.** :func:`rounded_gaussian` draws :math:`\mathrm{round}(\sigma Z)`, :math:`Z \sim N(0, 1)`. Since a released sum
``s`` is an integer, :math:`s + \mathrm{round}(\sigma Z) = \mathrm{round}(s + \sigma Z)`: the release is post-processing
of the Gaussian mechanism, so the exact Gaussian accounting applies.

**Sampler.** Let :math:`F = 2^a` with :math:`\sigma F \in [2^{36}, 2^{37})` and cut the line into cells
:math:`[f, f + 1)` of width :math:`1 / F`, and into bins of :math:`2^{31}` cells. A 64-bit word picks the bin by integer
thresholds, in proportion to the mass of the bin's heaviest cell; what is left of that word accepts a uniformly chosen
cell of the bin (second word) with probability mass(cell) / mass(heaviest), or starts again. The accepted cell is
rounded to a step; cells never straddle a rounding boundary.

**Formal guarantee.** Total variation to the exact law is at most ``SAMPLER_TAU`` = 2^-100 a draw. Proof: thresholds
are off by less than 1 count of 2^64; the acceptance ratio is evaluated in double precision with relative error below
2^-48 and with the mass of a cell replaced by its midpoint value (relative error below 2^-69). A decision that lies
within 4 counts plus 2^-44 of its threshold is not taken from these numbers but recomputed by :func:`_exact_decision`
with 128 further secret bits at 300 bits of precision and masses good to 2^-140, so every decision equals that of an
exact sampler reading 192 random bits. Cutting the tails at 12.2 sigma costs less than 2^-110. The guarantee is
computational: it holds for AES-256 and HMAC-SHA256 modelled as random functions.

Source: inversion and rejection, Devroye (1986), chapters II and III; rounding of the Gaussian mechanism as
post-processing, Dwork and Roth (2014), proposition 2.1.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from mpmath import mp, mpf
from numpy.typing import NDArray

from sfumato._validate import check_real, fail

SAMPLER_TAU = 2.0**-100
_CELL_BITS = 31
_TAIL = 12.2
_PRECISION = 300
_CHUNK = 1 << 16
_EXTRA_BITS = 1 << 63

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

    Shapes: the result is int64 [stop - start].

    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4).tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 6).tolist()
    False
    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4)[2:].tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 4).tolist()
    True
    """
    check_real(low=2.0**-20, high=2.0**36, open_high=True, stddev=stddev)
    if not 0 <= start <= stop < 2**63:
        raise fail("start, stop", (start, stop), "to satisfy 0 <= start <= stop < 2**63")
    from sfumato.privacy._noise_kernel import ACCEPTED, UNCERTAIN, decode

    table = _table(float(stddev))
    stream = Stream(key)
    out = np.empty(stop - start, np.int64)
    for low in range(start, stop, _CHUNK):
        view = out[low - start : min(low + _CHUNK, stop) - start]
        words = stream.consecutive(low, low + view.size)
        pending, attempt = np.arange(view.size), 0
        while pending.size:
            values, status = decode(words, *table.arrays, table.first_bin, table.shift, table.half_precision)
            for i in np.flatnonzero(status == UNCERTAIN):
                extra = stream.at(np.array([low + pending[i]], np.uint64), attempt | _EXTRA_BITS)[0]
                values[i], status[i] = _exact_decision(table, words[i], extra)
            done = status == ACCEPTED
            view[pending[done]] = values[done]
            pending, attempt = pending[~done], attempt + 1
            words = stream.at((low + pending).astype(np.uint64), attempt)
    return out


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

    def consecutive(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Blocks ``start`` to ``stop`` of attempt 0, shape [stop - start, 2] (counter mode)."""
        encryptor = Cipher(self._cipher, modes.CTR(start.to_bytes(16, "big"))).encryptor()
        return np.frombuffer(encryptor.update(bytes(16 * (stop - start))), "<u8").reshape(-1, 2)

    def at(self, index: NDArray[np.uint64], attempt: int) -> NDArray[np.uint64]:
        """Blocks of one attempt at arbitrary positions, shape [len(index), 2].

        One cipher call on distinct counter blocks: this is counter mode with the counters written out.
        """
        blocks = np.empty((len(index), 2), ">u8")
        blocks[:, 0], blocks[:, 1] = attempt, index
        encryptor = Cipher(self._cipher, modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(blocks.tobytes()), "<u8").reshape(-1, 2)


@dataclass(frozen=True)
class _Table:
    """Thresholds of one standard deviation: bin ``j`` holds words in [thresholds[j], thresholds[j + 1])."""

    stddev: float
    shift: int
    first_bin: int
    thresholds: NDArray[np.uint64]
    guide: NDArray[np.int64]
    cumulative: tuple[mpf, ...]

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return self.thresholds, self.guide

    @property
    def half_precision(self) -> float:
        """1 / (2 sigma^2) in cells."""
        return 0.5 / (self.stddev * 2.0**self.shift) ** 2


@lru_cache(maxsize=64)
def _table(stddev: float) -> _Table:
    shift = 37 - int(np.frexp(stddev)[1])
    last = int(_TAIL * stddev * 2.0**shift / 2.0**_CELL_BITS) + 1
    with mp.workprec(_PRECISION):
        masses = [_mass(j << _CELL_BITS, stddev, shift) for j in range(last)]
        cumulative = [mpf(0)]
        for mass in [*reversed(masses), *masses]:
            cumulative.append(cumulative[-1] + mass)
        thresholds = np.array([int(mp.floor(c * 2**64 / cumulative[-1])) for c in cumulative[:-1]], np.uint64)
    starts = np.arange(2048, dtype=np.uint64) << np.uint64(53)
    guide = np.searchsorted(thresholds, starts, side="right") - 1
    return _Table(stddev, shift, -last, thresholds, guide.astype(np.int64), tuple(cumulative))


def _mass(cell: int, stddev: float, shift: int) -> mpf:
    """Mass of [cell, cell + 1) up to a common factor: midpoint rule with its first correction, error below 2^-140."""
    variance = (mpf(stddev) * mpf(2) ** shift) ** 2
    square = (mpf(cell) + mpf(0.5)) ** 2 / variance
    return mp.exp(-square / 2) * (1 + (square - 1) / (24 * variance))


def _exact_decision(table: _Table, words: NDArray[np.uint64], extra: NDArray[np.uint64]) -> tuple[int, int]:
    """Decide one draw with 192 + 31 random bits: its value, and whether it is accepted (1) or rejected (0)."""
    with mp.workprec(_PRECISION):
        uniform = (mpf((int(words[0]) << 128) | (int(extra[0]) << 64) | int(extra[1])) + mpf(0.5)) / mpf(2) ** 192
        target = uniform * table.cumulative[-1]
        j = bisect_right(table.cumulative, target) - 1
        first = (table.first_bin + j) << _CELL_BITS
        cell = first + int(words[1] >> np.uint64(64 - _CELL_BITS))
        mode = first if first >= 0 else first + (1 << _CELL_BITS) - 1
        left = (target - table.cumulative[j]) / (table.cumulative[j + 1] - table.cumulative[j])
        ratio = _mass(cell, table.stddev, table.shift) / _mass(mode, table.stddev, table.shift)
    half = 1 << (table.shift - 1)
    return (cell + half) >> table.shift, int(left >= 1 - ratio)
