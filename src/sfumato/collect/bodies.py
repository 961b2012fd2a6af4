"""The bodies of requests, within a limit on each and on what all of them together hold in memory; and long ones of answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

from sfumato.collect.patience import PATIENT
from sfumato.collect.refusals import RefusalError

if TYPE_CHECKING:
    from starlette.requests import Request

_BLOCK = 1 << 18


class Bodies:
    """The bodies of all requests together hold ``most`` bytes of memory at most."""

    def __init__(self, most: int = 1 << 28) -> None:
        self._most, self._held = most, 0

    @asynccontextmanager
    async def read(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Read the body of a request, which counts as held until the end of the block.

        Args:
            request: whose body was not read yet.
            most: the largest size that is taken, in bytes.

        Raises:
            RefusalError: 413 for a larger body, 503 if too much is held.
        """
        parts, size = [], 0
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if size > most:
                    raise RefusalError(413, f"Expected a body of at most {most} bytes, got more. Send less at once.")
                if self._held > self._most:
                    raise RefusalError(503, "The server is busy. Send the same bytes again later.", retry_after=1)
            yield b"".join(parts)
        finally:
            self._held -= size


def blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small ``pieces`` that a store gives, as slowly as it does, so that each block is worth a turn of a thread."""
    context = copy_context()
    context.run(PATIENT.set, True)
    block = bytearray()
    while (piece := context.run(next, pieces, None)) is not None:
        block += piece
        if len(block) >= _BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block)
