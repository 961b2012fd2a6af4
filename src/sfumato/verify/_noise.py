r"""Whether a released matrix is as large as the noise that was charged for it. Part of the verifier: it needs NumPy.

With :math:`S` sums and :math:`Z` noise, independent of :math:`S` and of n entries with a symmetric law that falls from 0 on, any
norm of :math:`S + Z` is, whatever :math:`S` is, at least as large in law as that of :math:`Z` (Anderson 1955). Of Gaussian noise
of deviation :math:`\sigma`, :math:`\sum Z^2 / \sigma^2` is below :math:`n - 2 \sqrt{n x}` with a chance of at most
:math:`e^{-x}` (Laurent and Massart 2000, lemma 1); of Laplace noise of scale b, so is :math:`\sum |Z| / b`, since numbers
:math:`X \ge 0` add up to less than :math:`n E X - \sqrt{2 n x E X^2}` with at most that chance (Maurer 2003, theorem 1). Rounding
to whole steps moves a number by at most 1/2.

So an honest release is refused with a chance of at most :math:`e^{-x}` for the whole and for each column. A smaller one was not
made with this noise: a larger multiplier, cap or unit was written down than the run used. Large sums can hide it. Noise that
anyone adds later makes a matrix as private as it says, though not weights that were trained on it before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._tensors import Stored

_UNLIKELY = 36.0
"""The x above: a chance of 2e-16."""
_AT_ONCE = 1 << 22


def noise_faults(name: str, stored: Stored, size: float, power: int) -> Iterator[str]:
    """Yield a problem if the numbers of a matrix are smaller than its noise alone would make them.

    ``size`` is the mean of a ``power`` of the noise, to the power of one over it: of 2 the deviation of Gaussian noise, and of 1
    the scale of Laplace noise, in steps.
    """
    rows, columns = stored.shape
    values, sums = stored.array(), np.zeros(columns)
    at_once = max(1, _AT_ONCE // max(columns, 1))
    for first in range(0, rows, at_once):
        sums += (np.abs(values[first : first + at_once].astype(np.float64)) ** power).sum(axis=0)
    found = [(float(sums.sum()), rows * columns), *((one, rows) for one in sums.tolist())]
    if any(_mean(*one, power) + 0.5 < size * _least(one[1]) ** (1 / power) for one in found):
        yield (
            f"{name}: holds less noise than was charged: the noise alone would make its numbers about {size:.3g} in size, and "
            f"they are about {_mean(*found[0], power):.3g}"
        )


def _mean(total: float, count: int, power: int) -> float:
    return float((total / max(count, 1)) ** (1 / power))


def _least(count: int) -> float:
    """Return which share of its expectation the mean of the noise does not fall below."""
    return max(0.0, 1 - 2 * math.sqrt(_UNLIKELY / max(count, 1)))
