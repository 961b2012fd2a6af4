r"""Rounded Gaussian integers that depend on a key and a position (:mod:`sfumato.noise.keys`).

:func:`rounded_gaussian` draws :math:`\mathrm{round}(\sigma Z)`, :math:`Z \sim N(0, 1)`. Since a released sum
``s`` is an integer, :math:`s + \mathrm{round}(\sigma Z) = \mathrm{round}(s + \sigma Z)`: the release is post-processing
of the Gaussian mechanism, so the exact Gaussian accounting applies.

Source: rounding of the Gaussian mechanism as post-processing, Dwork and Roth (2014), proposition 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from sfumato._validate import check_real
from sfumato.noise._rectangles import GAUSSIAN, draw
from sfumato.noise.keys import Key, law_stream

LEAST_STDDEV, MOST_STDDEV = 2.0**-20, 2.0**36
"""Standard deviations and scales of rounded noise, in steps of a grid, are from the first to below the second."""

if TYPE_CHECKING:
    import numpy as np

    from sfumato.loops._native import Noise


def rounded_gaussian(
    key: Key,
    stddev: float,
    start: int,
    stop: int,
    onto: Callable[[Noise], NDArray[np.int64]] | None = None,
) -> NDArray[np.int64]:
    r"""Draw values ``start`` to ``stop`` of the release keyed by ``key``: integers :math:`\mathrm{round}(\sigma Z)`.

    Args:
        key: the release's own key (see :func:`derive_key`).
        stddev: standard deviation :math:`\sigma` in grid steps, in [2^-20, 2^36).
        start: absolute position of the first value.
        stop: one past the last position.
        onto: makes sums, adds the noise that it is given, and returns them; None draws the noise alone.

    **Formal guarantee.** Added to integers of L2 sensitivity :math:`\Delta`: a Gaussian event of noise multiplier
    :math:`\sigma / \Delta`, plus ``SAMPLER_TAU`` for each affected coordinate.

    Shapes: the result is int64 [stop - start], or what ``onto`` returned.

    Raises:
        InputError: ``stddev`` or the positions are out of range.

    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4).tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 6).tolist()
    False
    >>> rounded_gaussian(bytes(32), 1000.0, 0, 4)[2:].tolist() == rounded_gaussian(bytes(32), 1000.0, 2, 4).tolist()
    True
    """
    stddev = check_real(low=LEAST_STDDEV, high=MOST_STDDEV, open_high=True, stddev=stddev)
    return draw(GAUSSIAN, stddev, law_stream(key, start, stop, GAUSSIAN.name, stddev.hex()), start, stop, onto)
