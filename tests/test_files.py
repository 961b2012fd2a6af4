"""The one writer of files: whole or absent, on disk, with its rights, and nothing left behind by a failure."""

import ast
import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
from meta_exports import tree

from sfumato._files import append_line, cut_file, read_secret, whole_file, whole_folder
from sfumato.errors import InputError
from sfumato.graph._storage import save_arrays

PACKAGE = Path(__file__).parents[1] / "src" / "sfumato"


@pytest.fixture
def calls(monkeypatch):
    """What is synced and renamed, in order, by name."""
    seen, sync, replace, rename = [], os.fsync, Path.replace, Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(("sync", named(fd))) or sync(fd))
    monkeypatch.setattr(Path, "replace", lambda self, to: seen.append(("name", to.name)) or replace(self, to))
    monkeypatch.setattr(Path, "rename", lambda self, to: seen.append(("name", to.name)) or rename(self, to))
    return seen


def named(descriptor):
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def full_from(monkeypatch, call):
    """A disk that is full from the ``call``-th sync on."""
    count, sync = [], os.fsync

    def fsync(descriptor):
        count.append(descriptor)
        if len(count) >= call:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def write(path, content, mode=0o666):
    with whole_file(path, mode) as file:
        file.write(content)


def save(path):
    return save_arrays(path, {"x": np.arange(3), "y": np.arange(2)}, {})


def test_a_file_is_on_disk_before_it_has_its_name_and_its_name_before_it_returns(tmp_path, calls):
    write(tmp_path / "state", b"new")
    assert calls == [("sync", f"state.{os.getpid()}.partial"), ("name", "state"), ("sync", tmp_path.name)]
    calls.clear()
    save(tmp_path / "graph")
    *members, folder, name, above = calls
    assert sorted(members) == [("sync", "graph.json"), ("sync", "x.npy"), ("sync", "y.npy")]
    assert (folder[0], name, above) == ("sync", ("name", "graph"), ("sync", tmp_path.name))


def half_a_file(path, stop):
    with whole_file(path) as file:
        file.write(b"half")
        raise stop


def half_a_folder(path, stop):
    with whole_folder(path) as folder:
        (folder / "x.npy").write_bytes(b"half")
        raise stop


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError, ValueError])
def test_what_stops_a_writer_leaves_nothing_but_the_old_file(tmp_path, stop):
    (tmp_path / "state").write_bytes(b"old")
    with pytest.raises(stop):
        half_a_file(tmp_path / "state", stop)
    with pytest.raises(stop):
        half_a_folder(tmp_path / "graph", stop)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"state": b"old"}


@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_leaves_the_old_file_or_the_whole_new_one_and_is_named(tmp_path, monkeypatch, call):
    (tmp_path / "state").write_bytes(b"old")
    full_from(monkeypatch, call)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "state", b"new")
    assert caught.value.filename == str(tmp_path / "state")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"state": [b"old", b"new"][call - 1]}


@pytest.mark.parametrize("call", range(1, 6))
def test_a_full_disk_leaves_no_folder_or_a_whole_one(tmp_path, monkeypatch, call):
    full_from(monkeypatch, call)
    with pytest.raises(OSError, match="No space left") as caught:
        save(tmp_path / "graph")
    assert caught.value.filename == str(tmp_path / "graph")
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == ([] if call < 5 else ["graph", "graph/graph.json", "graph/x.npy", "graph/y.npy"])


def test_rights_are_those_asked_for_even_after_a_writer_that_was_killed(tmp_path):
    """What it left behind has other rights; a key written into it would be read by all."""
    for stale in (tmp_path / f"key.{number}.partial" for number in (os.getpid(), 2**40)):
        stale.write_bytes(b"longer than the key")
        stale.chmod(0o644)
    write(tmp_path / "key", b"secret", 0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_two_processes_that_write_one_file_leave_one_of_them_whole(tmp_path):
    path = tmp_path / "state"
    code = (
        "import sys, pathlib\nfrom sfumato._files import whole_file\n"
        "with whole_file(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(b'theirs'); file.flush(); print('open', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout.readline() == b"open\n"
        write(path, b"mine")
        assert path.read_bytes() == b"mine"
        other.communicate(b"\n")
    assert other.returncode == 0
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"state": b"theirs"}


@pytest.mark.parametrize("new", [True, False])
def test_a_line_that_cannot_be_synced_is_taken_back(tmp_path, monkeypatch, new):
    path = tmp_path / "lines"
    if not new:
        path.write_text("first\n")
    full_from(monkeypatch, 1)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, "second", new=new)
    assert path.read_text() == "first\n" if path.exists() else new


def test_a_cut_is_on_disk(tmp_path, calls):
    (tmp_path / "lines").write_text("whole\ntorn")
    cut_file(tmp_path / "lines", 6)
    assert (tmp_path / "lines").read_text() == "whole\n"
    assert calls == [("sync", "lines")]


WRITERS = {"fsync", "ftruncate", "truncate", "rename", "mkstemp", "mkdtemp", "NamedTemporaryFile"}


def writes(tree):
    """Lines of a file that sync, rename or cut files, or name a partial one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in WRITERS:
            yield node.lineno
        if isinstance(node, ast.Constant) and node.value == ".partial":
            yield node.lineno


def test_nothing_else_syncs_renames_or_cuts_a_file():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if any(writes(tree(path)))}
    assert found == {"_files.py"}


@pytest.mark.parametrize("line", ["os.fsync(3)", "path.rename(other)", "path.with_name(path.name + '.partial')"])
def test_a_second_writer_would_be_found(line):
    assert list(writes(ast.parse(line))) == [1]


@pytest.mark.parametrize("mode", [0o666, 0o640, 0o604, 0o620, 0o601])
def test_a_secret_that_others_may_know_is_refused(tmp_path, mode):
    path = tmp_path / "server.key"
    write(path, b"geheim", 0o600)
    assert read_secret(path) == b"geheim"
    path.chmod(mode)
    with pytest.raises(InputError, match=f"got mode {mode:04o}.*run chmod 600 ") as caught:
        read_secret(path)
    assert "geheim" not in str(caught.value)


def test_a_secret_of_another_user_may_be_read_by_a_group(tmp_path, monkeypatch):
    """As a service is handed one that it cannot change."""
    path = tmp_path / "server.key"
    write(path, b"secret", 0o600)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    path.chmod(0o640)
    assert read_secret(path) == b"secret"
    path.chmod(0o660)
    with pytest.raises(InputError, match="0660"):
        read_secret(path)


def test_all_secrets_are_read_with_their_rights(tmp_path):
    """Every command that takes a key or a token refuses one that others may read."""
    from sfumato.cli._listening import admin_token
    from sfumato.cli._serve import _secret
    from sfumato.collect._client import Device
    from sfumato.collect._keys import ServerKey
    from sfumato.record._release_folder import read_sign_key

    device = Device.create(tmp_path / "device", "ada", 1.0)
    for name, read in (
        ("server.key", ServerKey.read),
        ("admin.token", admin_token),
        ("token.key", _secret),
        ("sign.pem", read_sign_key),
        ("device/device.json", lambda _: Device.open(device.folder)),
        ("device/codes.json", lambda _: device.is_fresh),
    ):
        path = tmp_path / name
        path.touch(0o600)
        path.chmod(0o666)
        with pytest.raises(InputError, match="got mode 0666"):
            read(path)
