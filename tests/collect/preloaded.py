"""Processes that start in milliseconds: copies of one that has read all modules. It needs no pytest."""

import multiprocessing
import os
import resource
import sys

COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload(
    ["torch", "sfumato.cli", "sfumato.serving._app", "sfumato.web._http", "psycopg", "devices", "preloaded"]
)


def started(folder, log, *words, descriptors=1024):
    """Start ``sfumato WORDS`` in a folder with so many open files at most; what it says on standard error goes to a file."""
    process = COPIES.Process(target=_run, args=(str(folder), str(log), words, descriptors), daemon=True)
    process.start()
    return process


def _run(folder, log, words, descriptors):
    from sfumato.cli import invoke

    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.exit(invoke(list(words)))


def add_until_closed(where, name, pipe):
    """Store reports of new users one after the other, until the collection is closed; tell which were stored."""
    from devices import FakeDevice

    from sfumato.collect._store import Store

    store, stored = Store.open(where), []
    pipe.send("ready")
    for place in range(100_000):
        one = FakeDevice(f"{name}-{place}", store.schema)
        if store.add([one.upload()]) == ["closed"]:
            break
        stored.append(one.message())
    pipe.send(stored)
    pipe.close()
