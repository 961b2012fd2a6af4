"""The writer commits what many requests hand in together, in one transaction, and answers each of them after that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class BusyError(Exception):
    """More is waiting to be written than the writer takes. Nothing of this was stored."""


class Writer(Generic[T, R]):
    """A queue of a bounded number of items before one thread that commits them in groups, within one event loop."""

    def __init__(self, commit: Callable[[Sequence[T]], list[R]], most: int = 20_000) -> None:
        self._commit, self._most = commit, most
        self._queue: deque[tuple[Sequence[T], asyncio.Future[list[R]]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sfumato-writer")
        self.waiting = 0

    async def add(self, items: Sequence[T]) -> list[R]:
        """Return the answers once all ``items`` are on disk, those of one call in one transaction."""
        if not items:
            return []
        if self.waiting and self.waiting + len(items) > self._most:
            raise BusyError
        future: asyncio.Future[list[R]] = asyncio.get_running_loop().create_future()
        self.waiting += len(items)
        self._queue.append((items, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def stop(self) -> None:
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        """Commit whatever waits, group after group, until nothing does."""
        loop = asyncio.get_running_loop()
        while self._queue:
            group = list(self._queue)
            self._queue.clear()
            items = [item for some, _ in group for item in some]
            try:
                answers = iter(await loop.run_in_executor(self._thread, self._commit, items))
                outcomes = [[next(answers) for _ in some] for some, _ in group]
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), outcome in zip(group, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
            self.waiting -= len(items)
        self._task = None
