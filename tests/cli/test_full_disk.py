"""A disk that is full from one write on: one line that says what is charged, no half folder, no lost line of a ledger."""

import errno
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sfumato import _files
from sfumato.graph import stochastic_block_model
from sfumato.record._dataset_ledger import read_account
from sfumato.verify import verify

EDGE = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--threads", "1", "--no-controls", "--json")


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Networks that learn nothing: what is written does not depend on it."""
    monkeypatch.setattr("sfumato.central._learning._PUBLIC_EPOCHS", 1)


class Disk:
    """Counts what is synced, and refuses from the k-th time on."""

    def __init__(self, monkeypatch):
        self.count, self.limit, self.real = 0, None, os.fsync
        monkeypatch.setattr(os, "fsync", self.sync)

    def sync(self, descriptor):
        self.count += 1
        if self.limit is not None and self.count >= self.limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.real(descriptor)

    def refuse(self, limit):
        self.count, self.limit = 0, limit


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def checked(result, tmp_path, ledger, before):
    """What must hold after any failure; whether the run is charged, as the ledger and the message agree."""
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: ") or "\nError: " in result.err
    assert len(re.findall("^Error: ", result.err, re.MULTILINE)) == 1
    assert "No space left on device" in result.err
    assert not list(tmp_path.rglob("*.partial"))
    content, claims = before
    assert ledger.read_bytes().startswith(content)
    account = read_account(ledger)
    assert account.problem is None
    assert account.claims[: len(claims)] == claims
    charged = len(account.claims) > len(claims)
    assert ("stay charged to the ledger" in result.err) is charged
    assert ("Nothing was charged." in result.err) is not charged
    return charged


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Options of two stored graphs of a few nodes."""
    root, options = tmp_path_factory.mktemp("stores"), {}
    for seed, name in enumerate(("first", "second")):
        graph = stochastic_block_model(60, 2, mean_degree=6, num_features=3, seed=seed)
        replace(graph, node_ids=np.array([f"{name} {node}" for node in range(60)])).save(root / name)
        options[name] = ["--graph", str(root / name)]
    return options


@pytest.fixture
def shared(sfumato, stores, tmp_path):
    """A ledger with one claim."""
    path = tmp_path / "l.jsonl"
    start = ("--ledger", path, "--total-epsilon", "900", "--total-delta", "0.1", "--out", tmp_path / "first")
    assert sfumato("train", "mlp", *stores["first"], *EDGE, *start).code == 0
    return path


def every_failure(disk, ledger, run):
    """Run with a disk that is full from the first, second, ... write on, until one run is not disturbed."""
    for limit in range(1, 99):
        disk.refuse(limit)
        before = ledger.read_bytes(), read_account(ledger).claims
        result = run(limit)
        disk.refuse(None)
        if result.code == 0:
            return
        yield limit, result, before
    raise AssertionError("never finished")


@pytest.mark.parametrize("more", [(), ("--resumable",)], ids=["plain", "resumable"])
def test_training(disk, sfumato, stores, shared, tmp_path, more):
    stages = set()

    def run(limit):
        command = ("train", "gap", *stores["first"], *EDGE, *more, "--hops", "1", "--ledger", shared)
        return sfumato(*command, "--out", tmp_path / f"run{limit}")

    for limit, result, before in every_failure(disk, shared, run):
        out, charged = tmp_path / f"run{limit}", checked(result, tmp_path, shared, before)
        left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} if out.exists() else None
        if "The run is saved" in result.err:
            assert verify(out).problems == ()
            stages.add("saved")
        elif more and charged:
            assert "private/state.json" in left
            assert left <= {"private/state.json", "private/lock", "release/ledger.jsonl"}
            assert sfumato("train", "--resume", out).code == 0
            assert len(read_account(shared).claims) == len(before[1]) + 1
            stages.add("resumed")
        else:
            assert left in ((None, {"release/ledger.jsonl"}) if charged else (None,))
            stages.add("charged" if charged else "nothing")
    assert stages == {"nothing", "saved", "resumed" if more else "charged"}


def test_predicting(disk, sfumato, stores, shared, tmp_path):
    ledger, stages = tmp_path / "second.jsonl", set()
    assert sfumato("train", "gap", *stores["first"], *EDGE, "--hops", "1", "--out", tmp_path / "gap").code == 0
    budget = ("--epsilon", "2", "--delta", "1e-6", "--ledger", ledger)

    def run(limit):
        new, out = tmp_path / f"new{limit}", tmp_path / f"p{limit}.csv"
        return sfumato("predict", tmp_path / "gap", *stores["second"], *budget, "--new-run", new, "--out", out)

    budget = (*budget, "--total-epsilon", "900", "--total-delta", "0.1")
    assert run(0).code == 0
    for limit, result, before in every_failure(disk, ledger, run):
        new, charged = tmp_path / f"new{limit}", checked(result, tmp_path, ledger, before)
        csv = tmp_path / f"p{limit}.csv"
        if "The run is saved" in result.err:
            assert verify(new).problems == ()
            assert sfumato("predict", new, "--out", tmp_path / "whole.csv").code == 0
            assert not csv.exists() or csv.read_bytes() == (tmp_path / "whole.csv").read_bytes()
            (tmp_path / "whole.csv").unlink()
            stages.add("saved")
        else:
            left = [path.name for path in new.rglob("*") if path.is_file()]
            assert left in (([], ["ledger.jsonl"]) if charged else ([],))
            assert not csv.exists()
            assert new.exists() is bool(left)
            stages.add("charged" if charged else "nothing")
    assert stages == {"nothing", "charged", "saved"}


def test_pate(disk, sfumato, pate, tmp_path):
    ledger, stages = tmp_path / "l.jsonl", set()
    command = (*pate, "--ledger", ledger)
    start = ("--total-epsilon", "9000", "--total-delta", "0.1")
    assert sfumato(*command, *start, "--out", tmp_path / "first").code == 0

    def run(limit):
        return sfumato(*command, "--out", tmp_path / f"run{limit}")

    for limit, result, before in every_failure(disk, ledger, run):
        out, charged = tmp_path / f"run{limit}", checked(result, tmp_path, ledger, before)
        if not charged:
            assert not out.exists()
            stages.add("nothing")
        elif "goes on" in result.err:
            assert run(limit).code == 0
            assert verify(out).problems == ()
            assert len(read_account(ledger).claims) == len(before[1]) + 1
            stages.add("gone on")
        elif "The run is saved" in result.err:
            assert verify(out).problems == ()
            stages.add("saved")
        else:
            assert "a new one costs again" in result.err
            assert not out.exists() or [path.name for path in out.rglob("*")] == ["ledger.jsonl"]
            stages.add("lost")
    assert stages >= {"nothing", "gone on", "lost"}


def test_a_report_is_whole_or_absent(disk, sfumato, stores, shared, tmp_path):
    page = tmp_path / "first" / "reports" / "index.html"
    disk.refuse(1)
    result = sfumato("report", tmp_path / "first")
    assert (result.code, result.out) == (2, "")
    assert "Make room" in result.err
    assert not list(page.parent.iterdir())


class Half:
    """A file that takes half of a line, and then none."""

    def __init__(self, file):
        self.file, self.written = file, False

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        if self.written:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written = True
        return self.file.write(content[: len(content) // 2])


@pytest.mark.parametrize("truncates", [True, False], ids=["taken-back", "stays-torn"])
def test_half_a_line_of_a_ledger_is_taken_back_or_dropped_by_the_next_run(
    sfumato, stores, shared, tmp_path, monkeypatch, truncates
):
    before = shared.read_bytes()

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(_files, "open", lambda *a, **k: Half(open(*a, **k)), raising=False)  # noqa: SIM115
        if not truncates:
            patch.setattr(os, "ftruncate", refuse)
        command = ("train", "mlp", *stores["first"], *EDGE, "--ledger", shared)
        result = sfumato(*command, "--out", tmp_path / "run")
    assert (result.code, (tmp_path / "run").exists()) == (2, False)
    assert "Nothing was charged." in result.err
    after = shared.read_bytes()
    assert after == before if truncates else (after.startswith(before) and len(after) > len(before))
    assert read_account(shared).problem is None
    assert len(read_account(shared).claims) == 1
    assert sfumato(*command, "--out", tmp_path / "run").code == 0
    assert shared.read_bytes().startswith(before)
    assert (len(read_account(shared).claims), read_account(shared).problem) == (2, None)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_is_really_full(sfumato, stores, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "none", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let root mount a small disk")
    try:
        shared = ("--ledger", small / "l.jsonl", "--total-epsilon", "9")
        result = sfumato("train", "gap", *stores["first"], *EDGE, *shared, "--out", small / "run")
        assert (result.code, result.out) == (2, "")
        assert "No space left on device" in result.err
        assert "stay charged to the ledger" in result.err
        assert sorted(path.name for path in small.rglob("*") if path.is_file()) == [
            "l.jsonl", "l.jsonl.head", "l.jsonl.lock", "ledger.jsonl",
        ]  # fmt: skip
        assert len(read_account(small / "l.jsonl").claims) == 1
    finally:
        subprocess.run(["umount", str(small)], check=True)
