"""A collection is read from its closed file, or from the store of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.collect._checks import check_plain
from sfumato.collect._closed import MAGIC, Closed, Stream
from sfumato.errors import DataError


def read_closed(where: str) -> Closed:
    if _is_store(where):
        from sfumato.collect._store import Store

        closed: Closed = Store.open(where).closed()
        return closed
    return Closed.read(Path(where))


@contextmanager
def stream_any(where: str) -> Iterator[Stream]:
    """Read the reports that are there, of a store also if it is still open; ``where`` is that of :func:`read_closed`."""
    if _is_store(where):
        from sfumato.collect._store import Store

        with Store.open(where).stream() as stream:
            yield stream
    else:
        with Stream.of_file(Path(where)) as stream:
            yield stream


def _is_store(where: str) -> bool:
    """Whether this names a store: a URL, or a file that does not begin as a closed collection."""
    if "://" in where:
        return True
    check_plain(where)
    if not Path(where).is_file():
        raise DataError(f"Expected {where} to be a closed collection or a store, but there is none. Check the path.")
    with Path(where).open("rb") as file:
        return file.read(len(MAGIC)) != MAGIC
