"""Whether the store answers: asked at most once at a time, in a thread of its own, so that nothing else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_SECONDS = 2.0


class Readiness:
    """The answer to the question of whether a store can be read."""

    def __init__(self, read: Callable[[], object], cut: Callable[[], None]) -> None:
        self._read, self._cut = read, cut
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sfumato-readiness")
        self._asked: Future[object] | None = None

    async def answers(self) -> bool:
        """Return whether the store answers within two seconds."""
        if self._asked is None or self._asked.done():
            self._asked = self._thread.submit(self._read)
        answer = asyncio.wrap_future(self._asked)
        answer.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody may be there to take it
        done, _ = await asyncio.wait([answer], timeout=_SECONDS)
        if not done:
            self._cut()
        return bool(done) and answer.exception() is None
