r"""Exact discrete Laplace and discrete Gaussian noise for small releases: integers and fractions, no floating point.

Coordinate i reads the blocks :math:`E_k(t \| i)`, t = 0, 1, ..., as one string of bits, so its value depends on key, law,
parameters and i alone. A coordinate takes about ten microseconds to a millisecond; large releases use
:func:`sfumato.noise.gaussian.rounded_gaussian` or :func:`sfumato.noise._laplace.rounded_laplace`.

Source: Canonne, Kamath and Steinke (2020), The Discrete Gaussian for Differential Privacy, algorithms 1 to 3.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from sfumato._validate import fail
from sfumato.noise.keys import Key, Stream, law_stream

_BLOCKS = 8


def discrete_laplace(key: Key, scale: Fraction | int, start: int, stop: int) -> list[int]:
    r"""Draw coordinates ``start`` to ``stop`` of exact noise :math:`P(x) = \tanh(1 / 2b) \, e^{-|x| / b}` on the integers.

    **Formal guarantee.** Added to integers of L1 sensitivity :math:`\Delta` (an integer): pure
    :math:`\epsilon = \Delta / b`, since P(x) / P(x + d) is at most :math:`e^{|d| / b}`. The sampler is exact given the bits:
    no total variation enters delta; computational, as all keyed noise.

    ``scale`` is b, an int or a fraction. The integers may be of any size.

    Source: Ghosh, Roughgarden and Sundararajan (2009), definition 2.2; Canonne, Kamath and Steinke (2020), algorithm 2.

    >>> len(discrete_laplace(bytes(32), Fraction(5, 2), 0, 6))
    6
    >>> discrete_laplace(bytes(32), 10, 0, 6)[2:] == discrete_laplace(bytes(32), 10, 2, 6)
    True
    """
    scale = _positive("scale", scale)
    stream = law_stream(key, start, stop, "discrete-laplace", str(scale))
    return [_laplace(_Bits(stream, i), scale) for i in range(start, stop)]


def discrete_gaussian(key: Key, variance: Fraction | int, start: int, stop: int) -> list[int]:
    r"""Draw coordinates ``start`` to ``stop`` of exact noise :math:`P(x) \propto e^{-x^2 / 2 \sigma^2}` on the integers.

    **Formal guarantee.** Added to integers of L2 sensitivity :math:`\Delta`: zero-concentrated DP with
    :math:`\rho = \Delta^2 / (2 \sigma^2)`. Account it by ``ZCDPEvent``: a vector has no closed form in (epsilon, delta), and
    the formula of the continuous Gaussian does not hold. The sampler is exact given the bits: no total variation enters
    delta; computational, as all keyed noise.

    ``variance`` is sigma^2, an int or a fraction; the variance itself is never above it.

    Source: Canonne, Kamath and Steinke (2020), theorem 4 and algorithm 3.

    >>> len(discrete_gaussian(bytes(32), Fraction(25, 4), 0, 6))
    6
    >>> discrete_gaussian(bytes(32), 100, 0, 6)[2:] == discrete_gaussian(bytes(32), 100, 2, 6)
    True
    """
    variance = _positive("variance", variance)
    stream = law_stream(key, start, stop, "discrete-gaussian", str(variance))
    return [_gaussian(_Bits(stream, i), variance) for i in range(start, stop)]


def _positive(name: str, value: Fraction | int) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Fraction | int) or value <= 0:
        raise fail(name, value, "to be a positive int or Fraction", "Write 2.5 as Fraction(5, 2).")
    return Fraction(value)


class _Bits:
    """The string of random bits of one coordinate."""

    def __init__(self, stream: Stream, index: int) -> None:
        self._stream, self._index, self._attempt = stream, index, 0
        self._pool, self._left = 0, 0

    def take(self, count: int) -> int:
        """The next ``count`` bits, as an integer."""
        while self._left < count:
            attempts = np.arange(self._attempt, self._attempt + _BLOCKS, dtype=np.uint64)
            blocks = self._stream.at(np.full(_BLOCKS, self._index, np.uint64), attempts)
            self._pool |= int.from_bytes(blocks.tobytes(), "little") << self._left
            self._left, self._attempt = self._left + 128 * _BLOCKS, self._attempt + _BLOCKS
        taken = self._pool & ((1 << count) - 1)
        self._pool, self._left = self._pool >> count, self._left - count
        return taken

    def below(self, bound: int) -> int:
        """Uniform on 0, ..., bound - 1."""
        while True:
            taken = self.take((bound - 1).bit_length())
            if taken < bound:
                return taken


def _decays(bits: _Bits, exponent: Fraction) -> bool:
    """True with probability exp(-exponent), exponent >= 0 (algorithm 1).

    For g <= 1 the number of successes of coins g / 1, g / 2, ... before the first failure is even with probability
    1 - g + g^2 / 2 - ... = exp(-g); a larger exponent is a product of such events.
    """
    while exponent > 1:
        if not _decays(bits, Fraction(1)):
            return False
        exponent -= 1
    successes = 0
    while bits.below(exponent.denominator * (successes + 1)) < exponent.numerator:
        successes += 1
    return successes % 2 == 0


def _laplace(bits: _Bits, scale: Fraction) -> int:
    """Algorithm 2: |x| = floor((u + t v) / s) for scale t / s; u is geometric below t, v counts further spans of t."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = bits.below(t)
        if not _decays(bits, Fraction(u, t)):
            continue
        v = 0
        while _decays(bits, Fraction(1)):
            v += 1
        magnitude, negative = (u + t * v) // s, bits.take(1)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def _gaussian(bits: _Bits, variance: Fraction) -> int:
    """Algorithm 3: a discrete Laplace draw of scale t = floor(sigma) + 1, kept with the ratio of the two laws."""
    t = isqrt(int(variance)) + 1
    while True:
        x = _laplace(bits, Fraction(t))
        if _decays(bits, (abs(x) - variance / t) ** 2 / (2 * variance)):
            return x
