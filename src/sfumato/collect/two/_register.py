"""A register beside the lasting key of a server: it makes one book of an agreement, so that no report is opened twice.

It guards against an operator who begins again by mistake. Nothing is signed here: whoever deletes a file deletes its signature as
well. What holds without it: a book needs the secret sealing key of its agreement, which is drawn once and lies in the first book
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato._files import make_folders, whole_file
from sfumato.collect._journal import locked
from sfumato.errors import InputError
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.collect.two._agreement import Agreement


@contextmanager
def one_book(register: Path, agreement: Agreement, book: Path) -> Iterator[None]:
    """Let the file ``book`` be made, as the one of this agreement. A process that dies meanwhile may make it again, there alone.

    Args:
        register: a folder, with a file for each agreement.
        agreement: what the book is of.
        book: where it will be.

    Raises:
        InputError: a book of this agreement was made, or begun elsewhere.
    """
    make_folders(register)
    with locked(register):
        entry = register / f"{agreement.sha256}.json"
        begun = {"book": str(book.resolve()), "made": False}
        if entry.exists() and entry.read_bytes() != _line(begun):
            raise InputError(
                f"Expected an agreement that this server has no book of, got {agreement.sha256[:16]}..., of which it made one. A "
                "second book would open its reports again. Go on with the first, or agree anew."
            )
        for line in (begun, {**begun, "made": True}):
            with whole_file(entry) as file:
                file.write(_line(line))
            if line == begun:
                yield


def _line(values: dict[str, object]) -> bytes:
    return canonical_json(values).encode() + b"\n"
