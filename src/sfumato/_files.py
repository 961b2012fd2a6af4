"""This is the only writer of files: what it writes is whole or absent, and on disk when it returns, whatever stops it.

Nothing else in the package syncs, renames or cuts a file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import InputError

PARTIAL = ".partial"
"""What the name of a file that is being written ends in."""


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write under another name; the file gets its own once all of it is on disk, and nothing is left behind otherwise.

    Processes that write one file at the same time each have a name of their own: the last of them wins, whole.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        partial.unlink(missing_ok=True)  # of a writer that was killed and had this number: its rights may be others
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            _remove_dead(path)
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        name_file(error, path, partial)
        raise


def read_secret(path: Path) -> bytes:
    """Read a file that only its owner may read or write, as programs for SSH do with their keys.

    A file that belongs to another user, such as one that a service was handed, may be readable by a group, and not be written.
    """
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if os.name == "posix" and found.st_mode & (0o077 if found.st_uid == os.geteuid() else 0o022):
            raise InputError(
                f"Expected {str(path)!r} to be for its owner alone, got mode {found.st_mode & 0o7777:04o}: whoever can read or "
                f"change it can use it. If nobody else did, run chmod 600 {path}; else replace it."
            )
        return file.read()


def erase_file(path: Path) -> None:
    """Write zeros over a secret file, and remove it: as far as the file system writes in place, nothing is left."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync_folder(path.parent)


def erase_behind(path: Path) -> None:
    """Erase what processes that were killed left of a file. The caller knows that nobody writes it now."""
    for found in path.parent.iterdir():
        if left_behind(found.name, path.name):
            erase_file(found)


def left_behind(name: str, file: str) -> bool:
    """Say whether a file of this name is what a process leaves that is killed while it writes ``file``."""
    return re.fullmatch(rf"{re.escape(file)}\.\d+{re.escape(PARTIAL)}", name) is not None


def _remove_dead(path: Path) -> None:
    """Remove what processes that are gone left of a file; where nobody can tell (Windows), it stays."""
    for found in path.parent.iterdir() if os.name == "posix" else ():
        if left_behind(found.name, path.name):
            try:
                os.kill(int(found.name.split(".")[-2]), 0)
            except (ProcessLookupError, OverflowError):
                found.unlink(missing_ok=True)
            except PermissionError:  # it is there, and belongs to another user
                pass


def write_json(path: Path, values: object) -> None:
    """Write values as indented JSON, whole or not at all, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write((json.dumps(values, indent=1) + "\n").encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill a folder, new or empty, under another name; it gets its own once all is on disk, and else nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield partial
        partial.chmod(0o755)
        finish_folder(partial, path)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        name_file(error, path, partial)
        raise


def finish_folder(folder: Path, path: Path) -> None:
    """Give a folder its own name once all its files are on disk."""
    for member in folder.iterdir():
        sync_file(member)
    sync_folder(folder)
    folder.rename(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Wait until what a file holds is on disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def append_line(path: Path, line: str, *, new: bool) -> None:
    """Append a line to a file of lines, or create the file. It is on disk when this returns; a failure takes the line back."""
    flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0)
    with open(os.open(path, flags, 0o644), "ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            rest = (line + "\n").encode()
            while rest:
                rest = rest[file.write(rest) or 0 :]
            os.fsync(file.fileno())
            if new:
                sync_folder(path.parent)
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(file.fileno(), size)
                if new:
                    path.unlink()
            name_file(error, path)
            raise


def cut_file(path: Path, size: int) -> None:
    """Keep the first ``size`` bytes of a file and drop the rest; the cut is on disk when this returns."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it, and return the ones that were missing, the deepest first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the given folders that are empty, in this order."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def name_file(error: BaseException, path: Path, partial: Path | None = None) -> None:
    """Let an error of the disk that names no file, or only the ``partial`` one that nobody knows, name the file at ``path``."""
    if isinstance(error, OSError) and error.filename in (None, partial, str(partial)):
        error.filename = str(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, so that a power loss does not take them away."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
