"""A limit on how often something may happen for one name, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable


class Buckets:
    """One token bucket a name: it holds ``burst`` tokens at most, gets ``rate`` a second, and an action takes one.

    Only the ``most`` names that acted last are kept, so memory is bounded. A forgotten name starts with a full bucket.
    """

    def __init__(
        self, rate: float, burst: float, most: int = 1 << 16, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, count: float = 1) -> float:
        """Take tokens of a ``name`` and return 0, or return the seconds until there are so many."""
        wait, left = self.wait(name, count), self._left(name)
        self._kept.pop(name, None)
        self._kept[name] = (left if wait else left - count, self._clock())
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return wait

    def give_back(self, name: str) -> None:
        """Give a ``name`` the token back that it took last: what it was taken for was no burden."""
        if name in self._kept:
            left, then = self._kept[name]
            self._kept[name] = (min(self._burst, left + 1), then)

    def wait(self, name: str, count: float = 1) -> float:
        """Return the seconds until the bucket of a ``name`` has ``count`` tokens, and take none."""
        return max(0.0, count - self._left(name)) / self._rate

    def _left(self, name: str) -> float:
        now = self._clock()
        left, then = self._kept.get(name, (self._burst, now))
        return min(self._burst, left + (now - then) * self._rate)
