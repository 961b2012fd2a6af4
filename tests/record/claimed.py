"""Claims on the ledger of one data set, for tests of what it counts and of its file."""

import errno
import os

from sfumato.record._claims import Claim, new_run

UNIT = {"name": "edge", "relation": "add-remove", "directed": False}
DATASET = {"name": "campus", "ids_digest": "ab" * 32}


def claim(epsilon=0.1, delta=1e-7, mu=None, draws=32):
    return Claim(new_run(), "gap", epsilon, delta, mu, draws, "0" * 64)


def reserve(ledger, *claims):
    for one in claims:
        ledger.reserve(one, unit=UNIT, dataset=DATASET)


def failing_sync(monkeypatch, allowed):
    """From the sync after so many on, the disk is full."""
    calls = []

    def failing(descriptor):
        calls.append(descriptor)
        if len(calls) > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", failing)


def files(path):
    return {p.name: p.read_bytes() for p in path.parent.iterdir() if not p.name.endswith(".lock")}
