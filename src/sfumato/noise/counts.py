r"""Counts of records with Laplace noise: a counting query, or a histogram.

>>> import numpy as np
>>> ages = np.array([23, 35, 35, 41, 58, 62, 29, 33])
>>> histogram = np.bincount(np.clip(ages // 10, 0, 9), minlength=10)  # ten bins, whatever the data are
>>> laplace_counts(histogram, epsilon=1.0).shape
(10,)
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.keys import Key, derive_key, new_key, operand_mac


def laplace_counts(counts: ArrayLike, epsilon: float, *, changed: int = 1) -> NDArray[np.int64]:
    r"""Return counts plus exact discrete Laplace noise, :math:`P(N = x) \propto e^{-|x| \epsilon / \mathrm{changed}}`.

    **Formal guarantee.** If one record changes the counts c to c' with :math:`\|c - c'\|_1 \le \mathrm{changed}`, the release is
    ``epsilon``-differentially private, delta 0. Proof: noise is independent, so the probabilities of any y have the ratio
    :math:`\prod_i e^{(|y_i - c'_i| - |y_i - c_i|) \epsilon / \mathrm{changed}} \le e^\epsilon`. Every call draws a new key, and
    calls add up: two of them about the same records spend both epsilons. Nothing here records them.

    One record that comes or goes changes a count by at most 1, and one bin of a histogram whose bins are disjoint: ``changed``
    is 1. One that is replaced leaves a bin and enters another: 2. Which bins there are must be public: count empty ones too, and
    clip what lies beyond the last, or the number of bins tells of the data.

    Args:
        counts: integers of any shape.
        epsilon: the budget, > 0.
        changed: by how much one record changes all counts together, at most.

    Raises:
        InputError: counts are no integers, or a setting is out of range.

    >>> noisy = laplace_counts([120, 0, 35], epsilon=1.0)
    >>> bool(abs(noisy - [120, 0, 35]).max() < 60)
    True

    Source: Dwork, McSherry, Nissim and Smith (2006), Calibrating Noise to Sensitivity in Private Data Analysis, proposition 1.
    """
    check_real(low=0, open_low=True, epsilon=epsilon)
    check_int(low=1, changed=changed)
    rows = np.asarray(counts)
    if rows.dtype.kind not in "iu" or rows.size == 0:
        raise fail("counts", f"an array of {rows.dtype}", "to be integers", "Count records, such as by numpy.bincount.")
    return rows.astype(np.int64) + _noise(rows, Fraction(changed) / Fraction(epsilon), new_key())


def _noise(counts: NDArray[np.integer], scale: Fraction, key: Key) -> NDArray[np.int64]:
    """Noise that depends on the key and on what is counted, so that one key would serve once even if it came twice."""
    drawn = keyed_discrete_laplace(derive_key(key, operand_mac(key, counts)), scale, 0, counts.size)
    return drawn.reshape(counts.shape)
