"""Only one process at a time makes a run in a folder, and only that process removes anything there.

The process holds a lock while it works. If it dies, the lock is free, and what it left belongs to the next process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sfumato._files import make_folders, remove_empty
from sfumato.errors import InputError
from sfumato.record._release_folder import LOCK


@contextmanager
def owned(run: Path, check: Callable[[Path], None]) -> Iterator[None]:
    """Hold a run folder for this process alone. The folder is made, and removed again if it stays empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with owned(Path(folder, "run"), lambda run: None):
    ...         print([path.name for path in Path(folder, "run").iterdir()])
    ...     Path(folder, "run").exists()
    ['.sfumato.lock']
    False
    """
    if not (run / LOCK).exists():
        check(run)
    made, lock = make_folders(run), FileLock(run / LOCK, timeout=0)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError) as error:  # the second: the other run ended, and removed the folder
        raise InputError(
            f"Expected out to be a folder of this run alone, got {str(run)!r}, in which another run is at work. This one "
            "charged nothing and changed nothing there. Choose another folder, or let the other run finish."
        ) from error
    try:
        check(run)
        yield
    finally:
        (run / LOCK).unlink(missing_ok=True)
        lock.release()
        remove_empty(made)
