r"""The sampler: draws of :math:`\mathrm{round}(s X)` for X of density proportional to f(\|x\|), f(0) = 1, f decreasing.

**Rectangles.** With half-widths :math:`x_0 = c`, :math:`x_j \ge f^{-1}(y_j)` and heights :math:`y_0 = 0`,
:math:`y_{j+1} = y_j + v / x_j`, the 1024 rectangles :math:`[-x_j, x_j] \times [y_j, y_{j+1})` are disjoint, have equal
areas 2 v, and cover the region under f on [-c, c] as soon as the last reaches :math:`y_{1024} \ge 1`. So a uniform
rectangle and a uniform point (X, Y) in it, kept if Y < f(\|X\|) and drawn again otherwise, give X the density of f, cut at c.

**Bits.** One 64-bit word is a candidate: its low 10 bits choose the rectangle, the top one is the sign of X, and the other 53
are the leading bits of U in \|X\| = :math:`x_j` U. If every \|X\| that begins with these bits is below
:math:`f^{-1}(y_{j+1})`, it is kept whatever Y is (more than 99 in 100 words). Otherwise block t = 1, 2, ... of the position
supplies 64 leading bits of Y and the next candidate.

**Formal guarantee.** The total variation to the law of round(s X) is at most ``SAMPLER_TAU`` = 2^-100 a draw. Proof:

1. *Reference.* Let U have 181 and Y 192 random bits, each standing for the middle of its interval, and decide at 300 bits
   of precision (:func:`exact`). This differs from real U and Y only where an interval holds a rounding boundary (fewer
   than 2^43 on either side, each of probability 2^-181) or a point of the graph of f (in Y / height, of slope at most
   :math:`x_j^2 \max |f'| / v` < 2^23: probability below 2^-156): less than 2^-135 a draw, retries included.
2. *Cut.* P(\|X\| > c) is below 2^-125 for the Gaussian (c = 13) and 2^-109 for Laplace (c = 76).
3. *Doubles.* The fast paths decide only where the reference decides the same for all further bits. In steps of
   :math:`s x_j 2^{-53}`, s X is known to 3 (two roundings, and the bits not drawn) and left open within ``_MARGIN`` = 8 of a
   rounding boundary. f(X) is known to a relative 2^-42 (its exponent, at most 85, to 2^-43, and exp to 2^-45), Y to 2^-50 plus
   the last bit drawn; their order is left open within ``_ORDER`` = 2^-40 plus twice that bit. Open decisions are taken by the
   reference with 256 further bits.

Source: rejection and the decomposition into rectangles of equal area, Devroye (1986), chapters II.3 and VIII.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np
from mpmath import MPContext, mpf
from numpy.typing import NDArray

from sfumato._optional import require
from sfumato._threads import numba_threads
from sfumato.loops._keyed import Sampler, has_sampler

if TYPE_CHECKING:
    from sfumato.loops._native import Noise
    from sfumato.noise.keys import Stream

SAMPLER_TAU = 2.0**-100
"""Most total variation between a draw and its law, proved above."""
_LAYER_BITS = 10
_MARGIN = 8.0
_ORDER = 2.0**-40
_PRECISION = 300
_CHUNK = 1 << 15
_SPAN = 1 << 17
_ZEROS = memoryview(bytes(8 * _CHUNK))
_FURTHER_U, _FURTHER_Y = 1 << 63, 1 << 62
_ROOM, _SHARE = 1 << 12, 1 << 8  # most values that stay open: a 256th, where less than 2^-10 are, by 3, and some more

_EXACT = MPContext()  # any thread may change the precision of mpmath's common context
_EXACT.prec = _PRECISION
_ALONE = RLock()  # mpmath keeps constants between calls without a lock

IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Law:
    """A law with density proportional to f(|x|): f(x) = exp(-x^2 / 2) if ``square``, else exp(-x).

    ``name`` enters the key of a draw. The law is cut at ``reach``, c; ``area`` is v, half the area of a rectangle.

    >>> GAUSSIAN.reach, LAPLACE.reach
    (13.0, 76.0)
    """

    name: str
    square: bool
    reach: float
    area: float

    def graph(self, x: mpf) -> mpf:
        """Return f(x) for x >= 0."""
        return _EXACT.exp(-x * x / 2 if self.square else -x)

    def inverse(self, y: mpf) -> mpf:
        """Return the x >= 0 with f(x) = y, or 0 for y above 1."""
        exponent = -_EXACT.log(y) if y < 1 else _EXACT.mpf(0)
        return _EXACT.sqrt(2 * exponent) if self.square else exponent


GAUSSIAN = Law("rounded-gaussian", True, 13.0, 0.0012271525)
LAPLACE = Law("rounded-laplace", False, 76.0, 0.0009805972)


@dataclass(frozen=True, eq=False)
class Layers:
    """The rectangles of a law, from the bottom up.

    ``half_width`` holds x_j, ``bottom`` y_j and ``rise`` y_{j+1} - y_j; ``levels`` are bottom and rise in double precision,
    [2, 1024]. A word without its sign bit that is below ``limit`` is kept at any height.

    >>> layers(GAUSSIAN).levels.shape
    (2, 1024)
    """

    half_width: NDArray[np.float64]
    limit: Words
    bottom: tuple[mpf, ...]
    rise: tuple[mpf, ...]
    levels: NDArray[np.float64]


@lru_cache(maxsize=2)
def layers(law: Law) -> Layers:
    """Stack the rectangles of a law from y = 0 up. Half-widths are doubles rounded up; areas are equal to 2^-280.

    >>> layers(GAUSSIAN).half_width[:2].round(4).tolist()
    [13.0, 4.3053]
    """
    half_width, limit, bottom, rise = [law.reach], [], [_EXACT.mpf(0)], []
    with _ALONE:
        for _ in range(1 << _LAYER_BITS):
            rise.append(_EXACT.mpf(law.area) / half_width[-1])
            bottom.append(bottom[-1] + rise[-1])
            certain = law.inverse(bottom[-1])
            limit.append(max(0, int(_EXACT.floor(certain / half_width[-1] * 2**53)) - 1) << _LAYER_BITS + 1)
            half_width.append(float(np.nextafter(float(certain), np.inf)))
    levels = np.array([bottom[:-1], rise], np.float64)
    return Layers(np.array(half_width[:-1]), np.array(limit, np.uint64), tuple(bottom[:-1]), tuple(rise), levels)


def exact(law: Law, scale: float, word: int, height: int, further_u: int, further_y: int) -> tuple[int, bool]:
    """Decide a candidate by the reference: return its value and whether it is kept, from 10 + 182 + 192 random bits.

    ``word`` holds 10 bits of the rectangle, the sign and 53 bits of U, ``height`` the 64 leading bits of Y. The others are
    128 further bits of each.

    >>> exact(GAUSSIAN, 1000.0, word=2**62 + 512, height=0, further_u=0, further_y=0)
    (769, True)
    """
    stack, layer = layers(law), word & ((1 << _LAYER_BITS) - 1)
    (a, b), (c, d) = stack.half_width[layer].as_integer_ratio(), scale.as_integer_ratio()
    u = 2 * (((word % (1 << 63) >> _LAYER_BITS) << 128) + further_u) + 1
    value = ((u * a * c << 1) + (b * d << 182)) // (b * d << 183) * (1 - 2 * (word >> 63))
    if (word << 1) % (1 << 64) < stack.limit[layer]:
        return value, True
    with _ALONE:
        y = stack.bottom[layer] + stack.rise[layer] * (2 * ((height << 128) + further_y) + 1) / _EXACT.mpf(2) ** 193
        return value, bool(y < law.graph(_EXACT.mpf(u * a) / (b << 182)))


def draw(
    law: Law,
    scale: float,
    stream: Stream,
    start: int,
    stop: int,
    onto: Callable[[Noise], IntArray] | None = None,
) -> IntArray:
    """Draw values ``start`` to ``stop`` of a release. ``onto`` makes sums, adds the noise that it is given, and returns them.

    Candidate i is word i mod 2 of block (0, i // 2); its retries read blocks (t, i).

    >>> from sfumato.noise.keys import Stream
    >>> draw(GAUSSIAN, 2.0, Stream(bytes(32)), 0, 5).tolist()
    [0, 0, -1, 0, 1]
    """
    noise = Rounded(law, scale, stream, stop - start)
    if onto is None:
        sums = np.zeros(stop - start, np.int64)
        noise.add(sums, start)
    else:
        sums = onto(noise)
    noise.settle(sums, start)
    return sums


class Rounded:
    """The values of a release, which are added to sums in place; :meth:`settle` adds those that were left open."""

    def __init__(self, law: Law, scale: float, stream: Stream, count: int) -> None:
        self._release = law, scale, stream
        self.compiled: Sampler | None = None
        if has_sampler():
            stack, margins = layers(law), (_MARGIN, _ORDER)
            tables = scale * stack.half_width * 2.0**-53, stack.half_width, *stack.levels
            self.compiled = Sampler(stream.key, tables, stack.limit, margins, law.square, _ROOM + count // _SHARE)

    def add(self, sums: IntArray, start: int) -> None:
        """Add the values of positions ``start`` and on to sums, an array in C order."""
        if self.compiled is not None:
            self.compiled.add(sums, start)
        else:
            flat = _drawn(*self._release, start, start + sums.size)
            sums += flat.reshape(sums.shape)

    def settle(self, sums: IntArray, start: int) -> None:
        """Add what was left open to the sums of positions ``start`` and on."""
        if self.compiled is not None:
            for places, values in _settled(*self._release, *self.compiled.taken(), judged=False):
                sums.flat[places - start] += values  # a copy would lose them


def _drawn(law: Law, scale: float, stream: Stream, start: int, stop: int) -> IntArray:
    """The same values without the compiled sampler."""
    require("numba")
    out = np.empty(stop - start, np.int64)
    step = scale * layers(law).half_width * 2.0**-53
    spans = max(1, min(numba_threads(), out.size // _SPAN))
    cuts = [out.size * part // spans for part in range(spans + 1)]

    def fill(part: int) -> tuple[IntArray, Words]:
        return _fill(law, step, stream, start + cuts[part], out[cuts[part] : cuts[part + 1]])

    pending = [fill(0)] if spans == 1 else list(_pool(spans, os.getpid()).map(fill, range(spans)))
    positions, words = (np.concatenate(parts) for parts in zip(*pending, strict=True))
    for places, values in _settled(law, scale, stream, positions, words, judged=True):
        out[places - start] = values
    return out


def _settled(
    law: Law, scale: float, stream: Stream, positions: IntArray, words: Words, *, judged: bool
) -> Iterator[tuple[IntArray, IntArray]]:
    """Positions and values of candidates that are open; if they are ``judged``, doubles decide first."""
    attempt = 1
    while positions.size:
        values, kept, words = _settle(law, scale, stream, positions, words, attempt, judged)
        yield positions[kept], values[kept]
        positions, attempt = positions[~kept], attempt + 1


@lru_cache(maxsize=2)
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    """Return threads that are kept between calls, because starting them costs as much as a block.

    A forked process gets its own.
    """
    return ThreadPoolExecutor(threads)


def _fill(law: Law, step: NDArray[np.float64], stream: Stream, start: int, out: IntArray) -> tuple[IntArray, Words]:
    """Decide the first candidates of one span, in chunks that stay in cache. Return positions and words still open."""
    from sfumato.noise._kernel import decode

    blocks, limit = stream.counter_mode(start // 2), layers(law).limit
    buffer, where, pending = np.empty(_CHUNK + 2, np.uint64), np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.uint64)
    positions, words = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for first in range(start - start % 2, start + out.size, _CHUNK):
        low, high = max(first, start), min(first + _CHUNK, start + out.size)
        blocks.update_into(_ZEROS[: 16 * ((high - first + 1) // 2)], buffer.data.cast("B"))
        candidates = buffer[low - first : high - first]
        count = decode(candidates, step, limit, _MARGIN, out[low - start : high - start], where, pending)
        positions.append(where[:count] + np.int64(low))
        words.append(pending[:count].copy())
    return np.concatenate(positions), np.concatenate(words)


def _settle(
    law: Law, scale: float, stream: Stream, positions: IntArray, words: Words, attempt: int, judged: bool
) -> tuple[IntArray, NDArray[np.bool_], Words]:
    """Decide open candidates with the bits of their Y.

    Return their values, whether each is kept, and new candidates for those rejected.
    """
    stack, index = layers(law), positions.astype(np.uint64)
    fresh = stream.at(index, attempt)
    values, kept, unsure = np.empty(len(words), np.int64), np.zeros(len(words), np.bool_), np.arange(len(words))
    if judged:
        from sfumato.noise._kernel import KEPT, OPEN, judge

        tables = scale * stack.half_width * 2.0**-53, stack.limit, _MARGIN, stack.half_width, stack.levels, _ORDER
        values, status = judge(words, fresh[:, 0], *tables, law.square)
        kept, unsure = status == KEPT, np.flatnonzero(status == OPEN)
    if unsure.size:
        further = (stream.at(index[unsure], attempt | flag).tolist() for flag in (_FURTHER_U, _FURTHER_Y))
        for i, *pairs in zip(unsure, *further, strict=True):
            u, y = (first << 64 | second for first, second in pairs)
            values[i], kept[i] = exact(law, scale, int(words[i]), int(fresh[i, 0]), u, y)
    return values, kept, fresh[~kept, 1]
