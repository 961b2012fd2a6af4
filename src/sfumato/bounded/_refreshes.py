"""The public days on which rows are released again, and the phase of each row among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int

PHASES = 1 << 32
MOST_DAYS = 100_000
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    r"""A public schedule: every row is refreshed ``refreshes`` times in ``days`` days, evenly, from a phase of its own on.

    Refresh j = 1, 2, ... of a row of phase :math:`\phi \in [0, 1)` is on day
    :math:`1 + \lfloor (j - 1 + \phi) \, \mathrm{days} / \mathrm{refreshes} \rfloor`: at most one a day.

    Raises:
        InputError: a number is out of range.

    >>> Schedule(365, 12).done(np.array([0, PHASES // 2]), 365).tolist(), Schedule(365, 12).done(np.array([0]), 30).tolist()
    ([12, 12], [1])
    """

    days: int
    refreshes: int

    def __post_init__(self) -> None:
        check_int(low=1, high=MOST_DAYS, days=self.days)
        check_int("A row is refreshed once a day at most.", low=1, high=self.days, refreshes=self.refreshes)

    def day_of(self, phases: Ints, refresh: int) -> Ints:
        """Return the day of a refresh, by its number from 0 on, of rows of these phases."""
        return np.asarray(1 + (refresh * PHASES + phases) * self.days // (self.refreshes * PHASES))

    def done(self, phases: Ints, day: int | Ints) -> Ints:
        """Return how many refreshes rows of these phases have had by the end of a day, or of each its own."""
        ends = -((-np.asarray(day, np.int64) * (self.refreshes * PHASES)) // self.days)
        return np.asarray((ends - 1 - phases) // PHASES + 1)


def row_phases(names: Sequence[str], seed: int) -> Ints:
    """Return the phase of each row, in steps of 2^-32, from the public seed and the name of its node.

    >>> row_phases(["a", "b"], 0).tolist() == row_phases(["b", "a"], 0)[::-1].tolist()
    True
    """
    heads = [sha256(f"{seed} {name}".encode()).digest()[:4] for name in names]
    return np.array([int.from_bytes(head, "big") for head in heads], np.int64)
