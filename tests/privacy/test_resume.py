"""The private state of a resumable fit: readable by its owner alone, bound to what was computed, gone at the end."""

import errno
import os
import re
import stat

import pytest

from sfumato.errors import InputError, LedgerError
from sfumato.privacy import resume
from sfumato.privacy.resume import FitState


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "private"


@pytest.fixture
def state(folder):
    state = FitState.create(folder, {"method": "gap"})
    yield state
    state.close()


def test_only_the_owner_can_read_it(state, folder):
    before = os.umask(0)
    try:
        state.bind("graph", b"one")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "state.json": 0o600,
        "lock": 0o600,
    }


def test_it_comes_back_as_it_was(state, folder):
    state.bind("graph", b"one")
    state.close()
    again = FitState.open(folder)
    assert (again.key, again.run, again.options) == (state.key, state.run, {"method": "gap"})
    assert again.bound("graph")
    assert not again.bound("aggregate/1")
    again.close()


def test_what_was_bound_is_accepted_again_and_nothing_else(state, folder):
    state.bind("graph", b"one")
    content = (folder / "state.json").read_bytes()
    state.bind("graph", b"one")
    assert (folder / "state.json").read_bytes() == content
    for other in (b"two", b"", b"one\0"):
        with pytest.raises(LedgerError, match=r"'graph'.*Nothing was released.*stays charged"):
            state.bind("graph", other)
    assert (folder / "state.json").read_bytes() == content


def test_macs_do_not_show_what_they_bind(folder, tmp_path):
    one, two = FitState.create(folder), FitState.create(tmp_path / "other")
    for state in (one, two):
        state.bind("a", b"same")
        state.bind("b", b"same")
    macs = [mac for state in (one, two) for mac in state.values["bound"].values()]
    assert len(set(macs)) == 4
    one.close(), two.close()


def test_two_processes_cannot_hold_it(state, folder):
    with pytest.raises(InputError, match="another process holds it"):
        FitState.open(folder)
    state.close()
    FitState.open(folder).close()


def test_it_is_removed_whole(state, folder):
    state.bind("graph", b"one")
    state.remove()
    assert not folder.exists()
    with pytest.raises(InputError, match="stays charged"):
        FitState.open(folder)


def test_an_existing_folder_is_refused(state, folder):
    content = (folder / "state.json").read_bytes()
    with pytest.raises(InputError, match="exists"):
        FitState.create(folder)
    assert (folder / "state.json").read_bytes() == content


def test_other_versions_are_refused_with_the_one_to_install(state, folder, monkeypatch):
    state.close()
    found = resume.versions()
    assert {"sfumato", "python", "machine", "numpy", "torch"} <= set(found)
    monkeypatch.setattr(resume, "versions", lambda: {**found, "torch": "99.0"})
    torch = re.escape(found["torch"])
    with pytest.raises(LedgerError, match=rf"Expected torch {torch}.*got 99\.0.*Install torch {torch}"):
        FitState.open(folder)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"key":"zz","bound":{},"options":{},"run":"","versions":{}}'])
def test_a_damaged_state_is_refused(state, folder, content):
    state.close()
    (folder / "state.json").write_text(content)
    with pytest.raises(LedgerError, match="damaged"):
        FitState.open(folder)


def test_a_full_disk_keeps_the_last_state(state, folder, monkeypatch):
    content = (folder / "state.json").read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        state.bind("graph", b"one")
    assert (folder / "state.json").read_bytes() == content
