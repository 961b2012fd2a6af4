"""The bodies of requests, within limits on each and on what large ones hold in memory; and long ones of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING

from sfumato.collect._patience import PATIENT
from sfumato.collect._refusals import RefusalError
from sfumato.web._addresses import caller

if TYPE_CHECKING:
    from starlette.requests import Request

_BLOCK = 1 << 18


class Bodies:
    """The bodies of all requests to one call hold a bounded part of memory; small ones always get it.

    A body of up to ``small`` bytes is always taken: connections are limited, and so is what these bodies hold together. Only a
    larger one counts, as a whole. So whoever holds large bodies, or parts of them, keeps no small one out.
    """

    def __init__(self, most: int = 1 << 26, share: float = 1 / 4, small: int = 1 << 16) -> None:
        self._most, self._of_site, self._small, self._held = most, share * most, small, 0
        self._sites: Counter[str] = Counter()

    @asynccontextmanager
    async def read(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Read the body of a request, which counts as held until the end of the block."""
        site, parts, counted = caller(request.client), bytearray(), 0
        try:
            async for part in request.stream():
                size = len(parts) + len(part)
                if size > most:
                    raise RefusalError(413, f"Expected a body of at most {most} bytes, got more. Send less at once.")
                if size > self._small:
                    self._hold(site, size - counted)
                    counted = size
                parts += part
            body = bytes(parts)
            del parts
            yield body
        finally:
            self._give_back(site, counted)

    def _hold(self, site: str, size: int) -> None:
        if self._held + size > self._most:
            raise RefusalError(503, "The server is busy. Send the same bytes again later.", retry_after=1)
        if self._sites[site] + size > self._of_site:
            detail = "This address sends too much at once. Send the same bytes again later."
            raise RefusalError(429, detail, retry_after=1)
        self._held += size
        self._sites[site] += size

    def _give_back(self, site: str, size: int) -> None:
        self._held -= size
        self._sites[site] -= size
        if not self._sites[site]:
            del self._sites[site]


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
