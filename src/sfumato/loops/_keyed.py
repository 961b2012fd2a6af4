"""Loops over secret words, compiled: sums that a MAC is made of, and rounded noise.

What they mean and prove stands in :mod:`sfumato.noise.keys` and :mod:`sfumato.noise._rectangles`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.loops import _native

BLOCK, SUMS = 1024, 4
"""Bytes of a block that is hashed, and how many words of 64 bits become of it."""
_PART = 1 << 12  # blocks at a time in NumPy


class _Fields(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("step", "half_width", "bottom", "rise", "limit")),
        ("margin", ctypes.c_double),
        ("order", ctypes.c_double),
        ("square", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("positions", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("open", ctypes.c_int64),
        ("keys", ctypes.c_uint8 * 240),
    ]


class Sampler:
    """The sampler of sampler.c under one key. ``room`` bounds how many values may stay open."""

    def __init__(
        self,
        key: bytes,
        tables: tuple[NDArray[np.float64], ...],
        limit: NDArray[np.uint64],
        margins: tuple[float, float],
        square: bool,
        room: int,
    ) -> None:
        self._library = _compiled()
        self._tables = [np.ascontiguousarray(table, np.float64) for table in tables], np.ascontiguousarray(limit)
        self._positions, self._words = np.empty(room, np.int64), np.empty(room, np.uint64)
        held = [*(table.ctypes.data for table in self._tables[0]), self._tables[1].ctypes.data]
        listed = self._positions.ctypes.data, self._words.ctypes.data
        self._fields = _Fields(*held, *margins, square, room, *listed, 0)
        self.address = ctypes.addressof(self._fields)
        self._library.expand_key(key, self.address + _Fields.keys.offset)

    def add(self, sums: NDArray[np.int64], start: int) -> None:
        """Add the values of positions ``start`` and on to an array in C order, but for those that stay open."""
        if sums.dtype != np.int64 or not sums.flags.c_contiguous:
            raise TypeError(f"Expected an array of int64 in C order, got {sums.dtype}.")
        self._library.add_noise(self.address, sums.ctypes.data, sums.size, start, _native.threads())

    def taken(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the positions that stayed open with their first words, and forget them."""
        count, self._fields.open = self._fields.open, 0
        if count > len(self._positions):
            raise RuntimeError(
                f"Expected at most {len(self._positions)} open values, got {count}. Report this as a bug."
            )
        return self._positions[:count].copy(), self._words[:count].copy()


def has_sampler() -> bool:
    """Return whether noise can be drawn in C: the library is there, and the processor has instructions for AES.

    >>> has_sampler() in (True, False)
    True
    """
    return _compiled() is not None and bool(_compiled().has_cipher())


@cache
def _compiled() -> Any:
    found = _native.library()
    if found is not None:
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        found.hash_blocks.argtypes = [pointer, number, pointer, pointer, number]
        found.add_noise.argtypes = [pointer, pointer, number, number, number]
        found.expand_key.argtypes = [ctypes.c_char_p, pointer]
        found.hash_blocks.restype = found.add_noise.restype = found.expand_key.restype = None
        found.has_cipher.argtypes, found.has_cipher.restype = [], number
        found.use_level.argtypes, found.use_level.restype = [number], number
    return found


def hash_blocks(data: NDArray[np.uint8], keys: NDArray[np.uint32]) -> NDArray[np.uint8]:
    r"""Return the sums of each block of 1,024 bytes, 32 bytes for each, of which the last block is padded with zeros.

    With the 256 words m of a block and keys k, [4, 256], sum p is
    :math:`\sum_i (m_{2i} + k_{p,2i} \bmod 2^{32}) (m_{2i+1} + k_{p,2i+1} \bmod 2^{32}) \bmod 2^{64}`.

    >>> hash_blocks(np.ones(4, np.uint8), np.zeros((4, 256), np.uint32) + np.uint32(2)).view("<u8")[:2].tolist()
    [33686530, 33686530]
    """
    out = np.empty((-(-data.size // BLOCK), SUMS), np.uint64)
    if _compiled() is None:
        _hash_in_numpy(data, keys, out)
    else:
        _compiled().hash_blocks(data.ctypes.data, data.size, keys.ctypes.data, out.ctypes.data, _native.threads())
    return out.view(np.uint8).reshape(-1)


def _hash_in_numpy(data: NDArray[np.uint8], keys: NDArray[np.uint32], out: NDArray[np.uint64]) -> None:
    for first in range(0, len(out), _PART):
        part = data[first * BLOCK : (first + _PART) * BLOCK]
        words = np.r_[part, np.zeros(-part.size % BLOCK, np.uint8)].view("<u4").reshape(-1, BLOCK // 8, 2)
        for p in range(SUMS):
            keyed = (words + keys[p].reshape(-1, 2)).astype(np.uint64)
            out[first : first + _PART, p] = (keyed[..., 0] * keyed[..., 1]).sum(axis=1, dtype=np.uint64)
