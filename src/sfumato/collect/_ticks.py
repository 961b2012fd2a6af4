"""A device goes on at fixed moments, so that nobody who times it learns how long its work on the values took."""

from __future__ import annotations

import time

SECONDS = 0.05


class Ticks:
    """Fixed moments after the start of some work: ``SECONDS``, twice that, four times that, and so on."""

    def __init__(self) -> None:
        self._start, self._next = time.monotonic(), SECONDS

    def wait(self) -> None:
        """Let time pass until the next moment; every call has one of its own."""
        passed = time.monotonic() - self._start
        while 0 < self._next < passed:
            self._next *= 2
        time.sleep(max(0.0, self._next - passed))
        self._next *= 2
