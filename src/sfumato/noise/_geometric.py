r"""Exact geometric draws by the million, and what is made of them: rare events among many trials, discrete Laplace noise.

A draw G with :math:`P(G \ge g) = e^{-\lambda g}` is :math:`\lfloor -\ln U / \lambda \rfloor` for U uniform on (0, 1). U is a
string of bits that is read as far as it is needed: 64 bits and floating point tell G unless :math:`-\ln U / \lambda` is too
close to an integer; then more bits and decimal arithmetic with an error bound decide. So the law is exact for every rate
that can be computed to any precision, and the guarantee of what uses it is pure; computational, as all keyed noise.

Source: inversion with lazily read bits, Devroye (1986), Non-Uniform Random Variate Generation, chapters II.2 and X.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.noise.keys import Key, law_stream

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords, Words

Extend = Callable[[int], Iterator[int]]
"""Of the number of a draw: the words of 64 bits that follow its first one."""
_DIGITS = 40  # of the first decision in decimals, and more with every further word
_CHUNK = 1 << 20
_DOUBT = 2.0**-49
_MOST = 1 << 62
_WIDEST = Fraction(1 << 50)


@dataclass(frozen=True)
class Rate:
    """A rate is a positive real number that can be computed to any precision.

    ``value`` gives the rate in the precision of a context, off by at most ten units in the last place.

    >>> Rate.of(Fraction(1, 4)).near, round(Rate.of_chance(Fraction(1, 3)).near, 6)
    (0.25, 0.405465)
    """

    value: Callable[[Context], Decimal]

    @classmethod
    def of(cls, rate: Fraction) -> Rate:
        """Return a rational rate."""
        return cls(lambda context: context.divide(rate.numerator, rate.denominator))

    @classmethod
    def of_chance(cls, chance: Fraction) -> Rate:
        """Return the rate at which G counts the failures before a success, if each trial succeeds with this chance, below 1."""

        def rate(context: Context) -> Decimal:
            wide = Context(prec=context.prec + 2 * len(str(chance.denominator)))
            return context.minus(wide.ln(wide.divide(chance.denominator - chance.numerator, chance.denominator)))

        return cls(rate)

    @cached_property
    def near(self) -> float:
        """Return the rate as a float."""
        return float(self.value(Context(prec=_DIGITS)))


def geometric(rate: Rate, words: Words, extend: Extend) -> NDArray[np.int64]:
    r"""Draw exact integers G with :math:`P(G \ge g) = e^{-\lambda g}`, one for each word; 2^62 stands for all from there on.

    ``extend`` gives further words of a draw.

    >>> from sfumato.noise.coins import SecretWords
    >>> drawn = geometric(Rate.of(Fraction(1, 10)), SecretWords(bytes(32)).words((20000,)), lambda _: iter(()))
    >>> bool(abs((drawn >= 10).mean() - np.exp(-1)) < 0.02)
    True
    """
    lowest = words.astype(np.float64) + 0.5
    guess = (64 * np.log(2) - np.log(lowest)) / rate.near
    # U lies in [w, w + 1) / 2^64, so ln U is off by 1 / w at most; logarithm, division and rate by a few units in the last place.
    off = (_DOUBT * (64 + guess * rate.near) + 2 / lowest) / rate.near
    low, high = (np.floor(np.minimum(bound, _MOST)) for bound in (guess - off, guess + off))
    drawn = low.astype(np.int64)
    for i in np.flatnonzero((low != high) | (words == 0)):
        drawn[i] = min(_decided(rate, int(words[i]), extend(int(i))), _MOST)
    return np.asarray(drawn)


def _decided(rate: Rate, word: int, more: Iterator[int]) -> int:
    """Read bits of U until all numbers that begin so give one G."""
    bits, length = word, 64
    while True:
        context = Context(prec=_DIGITS + length // 2, rounding=ROUND_FLOOR)
        if bits:
            slack = context.power(10, 3 - _DIGITS)
            most, least = (
                context.divide(
                    context.subtract(context.multiply(length, context.ln(2)), context.ln(place)), rate.value(context)
                )
                for place in (bits, bits + 1)
            )
            low = int(context.multiply(least, context.subtract(1, slack)))
            high = int(context.multiply(most, context.add(1, slack)))
            if low == high and least > 0:
                return low
        bits, length = bits << 64 | next(more), length + 64


def successes(rate: Rate, source: SecretWords, trials: int) -> NDArray[np.int64]:
    """Return which of many independent trials succeed; the cost grows with the successes, not with the trials.

    ``rate`` is that of the failures before a success (:meth:`Rate.of_chance`). The numbers ascend, and there are fewer than
    2^42 ``trials``.

    >>> from sfumato.noise.coins import SecretWords
    >>> found = successes(Rate.of_chance(Fraction(1, 1000)), SecretWords(bytes(32)), 10**9)
    >>> bool(abs(len(found) / 1e6 - 1) < 0.01), bool((np.diff(found) > 0).all())
    (True, True)
    """
    found, last = [], -1
    while last < trials:
        expected = (trials - last) * -np.expm1(-rate.near)
        size = int(min(_CHUNK, expected + 4 * np.sqrt(expected) + 16))
        gaps = geometric_from(source, rate, size)
        places = last + np.cumsum(np.minimum(gaps, trials) + 1)
        found.append(places[places < trials])
        last = int(places[-1])
    return np.concatenate(found) if found else np.empty(0, np.int64)


def geometric_from(source: SecretWords, rate: Rate, size: int) -> NDArray[np.int64]:
    """Draw ``size`` values of :func:`geometric` with coins of ``source``, at this ``rate``.

    >>> from sfumato.noise.coins import SecretWords
    >>> geometric_from(SecretWords(bytes(32)), Rate.of(Fraction(100)), 3).tolist()
    [0, 0, 0]
    """
    return geometric(rate, source.words((size,)), lambda _: _following(source))


def _following(source: SecretWords) -> Iterator[int]:
    while True:
        yield int(source.words((1,))[0])


def discrete_laplace(source: SecretWords, scale: Fraction, size: int) -> NDArray[np.int64]:
    r"""Draw exact noise :math:`P(x) = \tanh(1 / 2b) \, e^{-|x| / b}` on the integers: the difference of two geometric draws.

    **Formal guarantee.** Added to integers of L1 sensitivity :math:`\Delta` (an integer): pure :math:`\epsilon = \Delta / b`.

    ``scale`` is b, at most 2^50.

    Source: Ghosh, Roughgarden and Sundararajan (2009), definition 2.2; Inusah and Kozubowski (2006), proposition 3.1.

    >>> from sfumato.noise.coins import SecretWords
    >>> values = discrete_laplace(SecretWords(bytes(32)), Fraction(1000), 20000)
    >>> bool(abs(np.abs(values).mean() / 1000 - 1) < 0.03)
    True
    """
    rate = _rate(scale)
    return geometric_from(source, rate, size) - geometric_from(source, rate, size)


def keyed_discrete_laplace(key: Key, scale: Fraction, start: int, stop: int) -> NDArray[np.int64]:
    """Draw values ``start`` to ``stop`` of the release keyed by ``key``, of the law of :func:`discrete_laplace`.

    A value depends on nothing but key, scale and position, so blocks can be drawn in any order.

    **Formal guarantee.** As for :func:`discrete_laplace`.

    >>> keyed_discrete_laplace(bytes(32), Fraction(9), 2, 6)[1:].tolist() == keyed_discrete_laplace(
    ...     bytes(32), Fraction(9), 3, 6).tolist()
    True
    """
    stream = law_stream(key, start, stop, "geometric-difference", str(scale))
    index = np.arange(start, stop, dtype=np.uint64)
    words = stream.at(index, 0)

    def extend(column: int) -> Extend:
        return lambda i: (int(stream.at(index[i : i + 1], attempt)[0, column]) for attempt in count(1))

    rate = _rate(scale)
    return geometric(rate, words[:, 0], extend(0)) - geometric(rate, words[:, 1], extend(1))


def replaced_scale(epsilon: float) -> Fraction:
    r"""Return the scale b of :func:`zero_sum_laplace` for counts of classes, exactly: a replaced class moves two counts by 1.

    **Formal guarantee.** The L1 sensitivity is 2, so :math:`b = 2 / \epsilon` gives pure :math:`\epsilon`.

    >>> replaced_scale(0.5)
    Fraction(4, 1)
    """
    return Fraction(2) / Fraction(epsilon)


def zero_sum_laplace(source: SecretWords, scale: Fraction, rows: int, columns: int) -> NDArray[np.int64]:
    r"""Draw exact noise on the integer vectors that sum to zero, :math:`P(x) \propto e^{-\|x\|_1 / b}`: int64 [rows, columns].

    All but the last entry are discrete Laplace; the last is minus their sum t, and the vector is kept if a geometric draw of the
    rate 1/b reaches :math:`|t|`, which has probability :math:`e^{-|t| / b}`. So a vector x is kept with probability
    proportional to :math:`\prod_i e^{-|x_i| / b}` over all its entries.

    **Formal guarantee.** Added to integer vectors s and s' of one sum with :math:`\|s - s'\|_1 \le \Delta`: pure
    :math:`\epsilon = \Delta / b`. Proof: for every z of that sum,
    :math:`P(z - s) / P(z - s') = e^{(\|z - s'\|_1 - \|z - s\|_1) / b} \le e^{\Delta / b}` by the triangle inequality; the
    normalizing constant is the same. Where the sums differ nothing is claimed: the sum of a row is released without noise.

    ``scale`` is b, at most 2^50. One row that replaces a record moves two counts by 1: :math:`\Delta = 2`.

    Source: the K-norm mechanism, Hardt and Talwar (2010), section 4, on the lattice of the root polytope.

    >>> from sfumato.noise.coins import SecretWords
    >>> noise = zero_sum_laplace(SecretWords(bytes(32)), Fraction(4), 3000, 5)
    >>> int(np.abs(noise.sum(axis=1)).max()), bool(abs(noise.var() / 19.03 - 1) < 0.1)
    (0, True)
    """
    found = np.empty((rows, columns), np.int64)
    waiting = np.arange(rows)
    while len(waiting):
        drawn = discrete_laplace(source, scale, len(waiting) * (columns - 1)).reshape(len(waiting), columns - 1)
        last = -drawn.sum(axis=1)
        kept = geometric_from(source, _rate(scale), len(waiting)) >= np.abs(last)
        found[waiting[kept], :-1], found[waiting[kept], -1] = drawn[kept], last[kept]
        waiting = waiting[~kept]
    return found


def _rate(scale: Fraction) -> Rate:
    if not 0 < scale <= _WIDEST:
        raise fail("scale", scale, "to be above 0 and at most 2^50", "Noise beyond does not fit into 64 bits.")
    return Rate.of(1 / scale)
