r"""Rounded Laplace integers that depend on a key and a position (:mod:`sfumato.noise.keys`).

:func:`rounded_laplace` draws :math:`\mathrm{round}(b L)`, L of density :math:`e^{-|x|} / 2`. Rounding to the
nearest integer commutes with adding an integer. So if the released sums ``s`` are integers,
:math:`s + \mathrm{round}(b L) = \mathrm{round}(s + b L)`: the release is post-processing of the Laplace mechanism, and its
accounting applies as it is. Values held on a grid of step g are integers in units of g, with sensitivity and b in the same units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import NDArray

from sfumato._validate import check_real
from sfumato.noise._rectangles import LAPLACE, draw
from sfumato.noise.gaussian import LEAST_STDDEV, MOST_STDDEV
from sfumato.noise.keys import Key, law_stream

if TYPE_CHECKING:
    import numpy as np


def rounded_laplace(key: Key, scale: float, start: int, stop: int) -> NDArray[np.int64]:
    r"""Draw values ``start`` to ``stop`` of the release keyed by ``key``: integers :math:`\mathrm{round}(b L)`.

    **Formal guarantee.** Added to integers of L1 sensitivity :math:`\Delta`: a Laplace event of noise multiplier
    :math:`b / \Delta`, that is :math:`\epsilon = \Delta / b`, plus total variation ``SAMPLER_TAU`` = 2^-100 for each affected
    coordinate, proved in ``_rectangles.py``; computational, as all keyed noise.

    ``scale`` is b in grid steps (standard deviation / sqrt 2).

    Source: Dwork, McSherry, Nissim and Smith (2006), proposition 1; post-processing, Dwork and Roth (2014), proposition 2.1.

    >>> import numpy as np
    >>> values = rounded_laplace(bytes(32), 1000.0, 0, 20000)
    >>> bool(abs(np.abs(values).mean() / 1000 - 1) < 0.03)
    True
    >>> bool((values[5:9] == rounded_laplace(bytes(32), 1000.0, 5, 9)).all())
    True
    """
    scale = check_real(low=LEAST_STDDEV, high=MOST_STDDEV, open_high=True, scale=scale)
    return draw(LAPLACE, scale, law_stream(key, start, stop, LAPLACE.name, scale.hex()), start, stop)
