r"""Sources of coins: a secret stream keyed by the operating system, and public words that every party can compute again.

:class:`SecretWords` is AES-256 in counter mode, read in order. A device that must give the same answers after a restart derives
the key from its own secret. :class:`PublicWords` depends on the collection and the user's public id alone, so that a report need
not carry the hash function or the direction that it answers. Guarantees hold for AES-256 modelled as a random function.
"""

from __future__ import annotations

import hashlib
import math
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato._validate import check_int, check_real, fail
from sfumato.noise.keys import Key, Stream

Words = NDArray[np.uint64]
_LOW_HALF = np.uint64(2**32 - 1)


def coins(key: Key, probability: float, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Toss one secret coin for each id. Heads has probability ``floor(2^64 probability) / 2^64``, never above ``probability``.

    Args:
        key: the key of these coins; equal keys give equal coins.
        probability: the probability of heads, in [0, 1].
        ids: public ids, each of which has a coin of its own.

    Raises:
        InputError: the probability is outside [0, 1].

    >>> int(coins(bytes(32), 0.5, np.arange(1000)).sum())
    501
    """
    check_real(low=0, high=1, probability=probability)
    if probability == 1:
        return np.ones(len(ids), bool)
    words = Stream(key).at(np.asarray(ids, np.uint64), 0)[:, 0]
    return words < np.uint64(int(probability * 2.0**64))


class SecretWords:
    """Secret uniform bits of one collection round; every read returns new ones.

    Args:
        key: 32 secret bytes; None draws them from the operating system. Give a key only to derive the coins of one
            device from its own secret, or in a test: whoever knows the key can read the true values off the reports.

    Raises:
        InputError: the key is not 32 bytes.

    >>> SecretWords(bytes(32)).below(10, (5,)).tolist()
    [4, 5, 0, 5, 9]
    """

    def __init__(self, key: bytes | None = None) -> None:
        key = os.urandom(32) if key is None else key
        if not isinstance(key, bytes) or len(key) != 32:
            raise fail(
                "key", f"{type(key).__name__} of length {len(key)}", "to be 32 bytes", "Leave it out to draw one."
            )
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def bytes(self, count: int) -> bytes:
        """Return the next ``count`` bytes of the stream."""
        return self._stream.update(bytes(count))

    def words(self, shape: tuple[int, ...]) -> Words:
        """Return uniform 64-bit words in an array of this shape."""
        return np.frombuffer(self.bytes(8 * math.prod(shape)), "<u8").reshape(shape)

    def below(self, bound: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return exactly uniform integers 0, ..., bound - 1, for bounds up to 2^32.

        A 32-bit word w gives floor(w * bound / 2^32). It is drawn again if the remainder is below 2^32 mod bound, so that
        equally many words lead to each result.

        Raises:
            InputError: the bound is outside its range.
        """
        check_int(low=1, high=2**32, bound=bound)
        if bound == 1:
            return np.zeros(shape, np.int64)
        size = math.prod(shape)
        products = self._products(bound, size)
        biased = np.flatnonzero((products & _LOW_HALF) < 2**32 % bound)
        while biased.size:
            products[biased] = self._products(bound, biased.size)
            biased = biased[(products[biased] & _LOW_HALF) < 2**32 % bound]
        products >>= np.uint64(32)
        return products.view(np.int64).reshape(shape)

    def _products(self, bound: int, size: int) -> Words:
        products = np.frombuffer(self.bytes(4 * size), "<u4").astype(np.uint64)
        products *= np.uint64(bound)
        return products

    def subsets(self, users: int, total: int, size: int) -> NDArray[np.int64]:
        """Return exactly uniform subsets of 0, ..., total - 1, each of ``size`` distinct members, ascending.

        This is Floyd's algorithm: for j = total - size, ..., total - 1 draw t <= j, and take j itself if t is taken already. The
        cost does not grow with ``total``.

        Shapes: ``[users, size]``.

        >>> SecretWords(bytes(32)).subsets(2, 100, 3).shape
        (2, 3)
        """
        if size == 1:
            return self.below(total, (users, 1))
        chosen = np.empty((users, size), np.int64)
        for place, last in enumerate(range(total - size, total)):
            drawn = self.below(last + 1, (users,))
            taken = (chosen[:, :place] == drawn[:, None]).any(axis=1)
            chosen[:, place] = np.where(taken, last, drawn)
        chosen.sort(axis=1)
        return chosen


class PublicWords:
    """64-bit words that anyone can compute from (collection, purpose, user, item).

    They are independent of a user's value if the value was chosen before the collection was named.

    Args:
        collection: public name of the collection; a new name gives new words.
        purpose: what the words are for, so that two uses do not share them.

    >>> words = PublicWords("survey-7", "example")
    >>> bool((words.grid(np.array([3, 4]), 5)[1, 2] == words.at(np.array([4]), np.array([2]))[0]).all())
    True
    """

    def __init__(self, collection: str, purpose: str) -> None:
        parts = [part.encode() for part in (collection, purpose)]
        key = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
        self._cipher = Cipher(algorithms.AES256(key), modes.ECB())

    def at(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> Words:
        """Return one word for each pair of a user and an item: word ``item % 2`` of the cipher block (user, item // 2)."""
        blocks = self._blocks(users, items // 2)
        words: Words = blocks[np.arange(len(users)), items % 2]
        return words

    def grid(self, users: NDArray[np.integer], items: int) -> Words:
        """Return the words of items 0, ..., ``items`` - 1 for each user, shape [len(users), items]."""
        half = -(-items // 2)
        blocks = self._blocks(np.repeat(users, half), np.tile(np.arange(half), len(users)))
        return blocks.reshape(len(users), 2 * half)[:, :items]

    def _blocks(self, users: NDArray[np.integer], halves: NDArray[np.integer]) -> Words:
        plain = np.empty((len(users), 2), "<u8")
        plain[:, 0], plain[:, 1] = users, halves
        return np.frombuffer(self._cipher.encryptor().update(plain.tobytes()), "<u8").reshape(-1, 2)


def scaled_down(words: Words, bound: int) -> NDArray[np.int64]:
    """Scale words down to 0, ..., bound - 1 by the high half of word * bound.

    The result is uniform up to 2^-64 an outcome. The bound must be below 2^32.

    >>> scaled_down(np.array([0, 2**63, 2**64 - 1], np.uint64), 10).tolist()
    [0, 5, 9]
    """
    factor = np.uint64(bound)
    high, low = (words >> np.uint64(32)) * factor, ((words & _LOW_HALF) * factor) >> np.uint64(32)
    return ((high + low) >> np.uint64(32)).astype(np.int64)


def normals(words: Words) -> NDArray[np.float64]:
    """Turn words into standard normal values by the inverse distribution function, at the middle of 2^53 equal cells.

    >>> normals(np.array([2**63, 2**62], np.uint64)).round(4).tolist()
    [0.0, -0.6745]
    """
    return np.asarray(ndtri(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53))


def user_ids(users: NDArray[np.integer] | None, count: int) -> NDArray[np.int64]:
    """Check public user ids; without any, return the row numbers 0, ..., ``count`` - 1.

    Raises:
        InputError: the ids are not ``count`` non-negative integers.

    >>> user_ids(None, 3).tolist()
    [0, 1, 2]
    """
    if users is None:
        return np.arange(count)
    ids = np.asarray(users)
    if ids.shape != (count,) or ids.dtype.kind not in "iu" or (ids < 0).any():
        raise fail(
            "users", f"{ids.dtype} of shape {ids.shape}", f"to be {count} non-negative integers, one a row of values"
        )
    return ids.astype(np.int64)
