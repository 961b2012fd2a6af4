"""Runs that a dying process leaves, and folders that are put back as they were: for tests of what is charged and drawn once."""

import os
import shutil

import pytest

from sfumato.record._dataset_ledger import read_account


class Killed(BaseException):
    """The process is gone."""


def killed_at(step, begin):
    """Begin, until the ``step``-th sync; False if there are fewer. What was written stays, whether it was synced or not."""
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == step:
            raise Killed

    def dead(*_):
        raise OSError("a dead process cleans nothing up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "ftruncate", dead)
        try:
            begin()
        except Killed:
            return True
    return False


def killed(*_, **__):
    raise Killed


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def states(ledger):
    account = read_account(ledger.path)
    assert account.problem is None
    return [account.state(claim) for claim in account.claims]


def put_back(copy, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(copy, folder)
