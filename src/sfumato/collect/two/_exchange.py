"""One server aggregates with the other: it fetches each file that the other made, takes its own step, and goes on.

Both operators run it. Either may be stopped at any time: all that was made or taken is in the book.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.collect._connection import RefusedError
from sfumato.collect.two._book import STEPS
from sfumato.collect.two._files import Agreed, OpenedFile
from sfumato.collect.two._sending import check_servers
from sfumato.errors import CollectionError
from sfumato.shares._field import SIZE

if TYPE_CHECKING:
    from sfumato.collect._connection import Connection
    from sfumato.collect.two._server import Server

BLOCK = 1 << 20
BLOCKS = "sfumato-blocks"
"""The header that says how many blocks a file has."""
SIGNATURE = "sfumato-signature"
"""The header with the signature of the server that asks for a file."""
_MOST_BLOCKS = 1 << 12
_WORDS = 1 << 9  # bytes of a line about a user or a cell, beside the shares in it
_PAUSE = 3.0
_NOT_YET = 409


def asks_for(agreement_digest: bytes) -> bytes:
    """Return what a server signs to fetch files of the other; no file that it signs begins like this."""
    return b"files of agreement \0" + agreement_digest


def open_together(
    server: Server,
    peer: Connection,
    tell: Callable[[str], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> OpenedFile:
    """Close this server's book, take all steps with the other, and return what both opened; again, the same.

    The book is closed once the other server has answered under its key: at a wrong address it stays open.

    Args:
        server: this server.
        peer: the address of the other one.
        tell: called with a line on what is done or waited for.
        wait: called with seconds between two attempts.

    Raises:
        DataError: a file of the other server does not fit.
        CollectionError: the other server does not answer, or refuses.
    """
    signature = server.operator.signature(asks_for(server.agreement.digest)).hex()
    most = _most_blocks(server)

    def theirs(step: str) -> bytes:
        told = False
        while True:
            try:
                return fetch(peer, f"/steps/{step}", {SIGNATURE: signature}, most)
            except RefusedError as error:
                if error.status != _NOT_YET:
                    raise
            if not told:
                tell(f"Waiting for the file {step!r} of the other server, whose operator runs the same command.")
                told = True
            wait(_PAUSE)

    if not server.is_aborted and server.made(STEPS[0]) is None:
        check_servers([peer], server.agreement, [1 - server.me])
    server.close()
    for before, step in pairwise(STEPS):
        if server.made(step) is None:
            getattr(server, step)(theirs(before))
            tell(f"Made the file {step!r} from the other server's {before!r}.")
    own, other = server.made(STEPS[-1]), theirs(STEPS[-1])
    assert own is not None, "all steps were taken"
    openings = (own, other) if server.me == 0 else (other, own)
    found = OpenedFile(Agreed(server.agreement, server.book.partition, server.book.signatures), openings)
    found.join()
    return found


def _most_blocks(server: Server) -> int:
    """How many blocks a file of the other server may have: what it says of users and cells, in full length."""
    prio = server.agreement.prio
    user = 2 * prio.verifier_share_size + _WORDS
    cell = 2 * SIZE * prio.length + _WORDS
    return 1 + (len(server.book.partition.cells) * user + server.book.partition.num_cells * cell) // BLOCK + 1


def fetch(server: Connection, path: str, headers: Mapping[str, str] | None = None, most: int = _MOST_BLOCKS) -> bytes:
    """Fetch a file that is given in blocks, ``most`` of them.

    Raises:
        CollectionError: the server refuses, does not answer, or gives other or more blocks than it may.
    """
    parts: list[bytes] = []
    count = 1
    while len(parts) < count:
        answer = server.get(f"{path}?block={len(parts)}", headers)
        said = answer.headers.get(BLOCKS, "")
        known = said.isascii() and said.isdecimal() and len(said) < 6 and 1 <= int(said) <= most
        known = known and len(answer.content) <= BLOCK
        if not known or (parts and int(said) != count):
            raise CollectionError(
                "The server answers in an unknown form. Is it one of two servers of this version of Sfumato?"
            )
        count = int(said)
        parts.append(answer.content)
    return b"".join(parts)
