"""A collection is read from its closed file, from the store of the server, or from what two servers opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.collect._checks import check_plain
from sfumato.collect._closed import MAGIC, Closed, Stream
from sfumato.collect.two._files import AGREED, OPENED, OpenedFile, kind_of
from sfumato.errors import DataError


def read_closed(where: str) -> Closed:
    if _is_store(where):
        from sfumato.collect._store import Store

        closed: Closed = Store.open(where).closed()
        return closed
    return Closed.read(Path(where))


def read_any(where: str) -> Closed | OpenedFile:
    """Read a closed collection, or what two servers opened."""
    opened = read_opened(where)
    return read_closed(where) if opened is None else opened


def read_opened(where: str) -> OpenedFile | None:
    """Read what two servers opened, None if this is the collection of one server.

    Raises:
        DataError: it is the agreement of two servers, which says nothing yet.
    """
    path = Path(where)
    kind = kind_of(path) if "://" not in where and path.is_file() else None
    if kind == AGREED:
        raise DataError(
            f"Expected what two servers opened, got {where}, on which they agreed before the first report. Open first."
        )
    return OpenedFile.read(path) if kind == OPENED else None


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
    if Path(where).is_dir():
        raise DataError(
            f"Expected {where} to be a closed collection or a store, got a folder. Of two servers, name the file that `sfumato "
            "collect open` wrote."
        )
    if not Path(where).is_file():
        raise DataError(f"Expected {where} to be a closed collection or a store, but there is none. Check the path.")
    with Path(where).open("rb") as file:
        return file.read(len(MAGIC)) != MAGIC
