"""Files that are whole or absent, whatever stops their writer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write under another name; the file gets its own once all of it is on disk, and nothing is left behind otherwise.

    Args:
        path: replaced if it exists.
        mode: rights of the file, less what the process masks.

    Raises:
        OSError: folder or disk refuses it; ``filename`` names it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "key", 0o600) as file:
    ...         _ = file.write(b"secret")
    ...     [path.name for path in Path(folder).iterdir()]
    ['key']
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        name_file(error, path)
        raise


def name_file(error: BaseException, path: Path) -> None:
    """Let an error of the disk that names no file name this one.

    >>> error = OSError(28, "No space left on device")
    >>> name_file(error, Path("run"))
    >>> error.filename
    'run'
    """
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    >>> sync_folder(Path("."))
    """
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
