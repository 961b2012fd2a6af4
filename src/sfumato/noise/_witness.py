"""What an audit sees of this code while it runs it on data of its own: each noisy sum as it comes to be, with its exact value.

A mechanism is proved to hide a record from whoever sees *all* its noisy sums, such as those of every training step, but most of
them never leave a run. An audit that reads only what leaves is blind to them. So the functions that add noise show
each sum to the witness, if there is one. No run has one: :func:`witness` is for :mod:`sfumato.audit` alone, on records that it
made up, and a test sees to it that nothing else imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]
Exact = Callable[[], Steps]
Witness = Callable[[Steps, float, Exact], None]
"""Is shown a noisy sum, the standard deviation of its noise, and what gives the sum with every record that may be drawn."""

_witness: ContextVar[Witness | None] = ContextVar("witness", default=None)


def witnessed(noisy: Steps, stddev: float, exact: Exact) -> Steps:
    """Return a noisy sum as it is, after it was shown to the witness, if there is one.

    Args:
        noisy: the sum with its noise.
        stddev: standard deviation of the noise, in the steps of the sum.
        exact: computes the sum without noise; where records are drawn at random, with all of them.
    """
    see = _witness.get()
    if see is not None:
        see(noisy.copy(), stddev, exact)
    return noisy


@contextmanager
def witness(see: Witness) -> Iterator[None]:
    """Show every noisy sum to ``see`` while the block runs.

    >>> seen = []
    >>> with witness(lambda noisy, stddev, exact: seen.append((noisy.tolist(), stddev, exact().tolist()))):
    ...     _ = witnessed(np.array([7]), 2.0, lambda: np.array([5]))
    >>> seen, witnessed(np.array([7]), 2.0, lambda: np.array([5])).tolist(), len(seen)
    ([([7], 2.0, [5])], [7], 1)
    """
    token = _witness.set(see)
    try:
        yield
    finally:
        _witness.reset(token)
