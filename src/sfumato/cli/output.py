"""How commands show tables and write pages: text stays as it is, and a file is whole or absent."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


def plain_console(*, stderr: bool = False) -> Console:
    """A console that takes nothing in labels, titles or paths for markup.

    >>> plain_console().render_str("[/b] :key:").plain
    '[/b] :key:'
    """
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def write_page(path: Path, text: str) -> None:
    """Write a text file under its name once it is whole, and leave nothing else behind.

    Raises:
        InputError: folder or disk refuses it.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        except BaseException:
            with suppress(OSError):
                partial.unlink()
            raise
    except OSError as error:
        raise InputError(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Make room, or name another file with --out."
        ) from error
