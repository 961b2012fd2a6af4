"""Server processes that start in milliseconds: copies of a process that has read all modules. It needs no pytest."""

import multiprocessing
import os
import sys

_COPIES = multiprocessing.get_context("forkserver")
_COPIES.set_forkserver_preload(
    ["sfumato.cli", "sfumato.collect._server", "sfumato.collect._store", "sfumato.web._http", "psycopg", "preloaded"]
)


def started(folder, log, *words):
    """Start ``sfumato WORDS`` in a folder; what it says on standard error is appended to a file."""
    process = _COPIES.Process(target=_run, args=(str(folder), str(log), words), daemon=True)
    process.start()
    return process


def _run(folder, log, words):
    from sfumato.cli import invoke

    os.chdir(folder)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.exit(invoke(list(words)))
