"""The private state of a resumable fit: readable by its owner alone, bound to what was computed, gone at the end."""

import errno
import os
import re
import stat
import subprocess
import sys

import pytest

from sfumato.errors import InputError, LedgerError
from sfumato.record import _resume as resume
from sfumato.record._resume import FitState


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


@pytest.mark.parametrize("left", [(), ("lock",), ("lock", f"state.json.{2**40}.partial")])
def test_a_folder_whose_state_was_never_written_counts_as_new(folder, left):
    folder.mkdir(parents=True, mode=0o755)
    for name in left:
        (folder / name).write_text("")
    state = FitState.create(folder)
    assert {path.name for path in folder.iterdir()} == {"lock", "state.json"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    state.remove()


def test_a_folder_with_files_of_others_is_refused(folder):
    folder.mkdir(parents=True)
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="exists"):
        FitState.create(folder)
    assert [path.name for path in folder.iterdir()] == ["diary.txt"]


def test_of_two_that_start_at_once_one_gets_the_folder(folder, monkeypatch):
    real, refused = FitState._write, []

    def second_first(state):
        if not refused:
            with pytest.raises(InputError, match="another process holds it") as caught:
                FitState.create(folder)
            refused.append(caught)
        real(state)

    monkeypatch.setattr(FitState, "_write", second_first)
    first = FitState.create(folder)
    first.close()
    assert len(refused) == 1
    again = FitState.open(folder)
    assert again.key == first.key
    again.close()


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


TERMS = {"seed": 0, "settings": {"learning_rate": 0.01, "widths": (4, 2)}}


@pytest.fixture
def planned(state, monkeypatch):
    """A state with a bound plan, on two threads."""
    monkeypatch.setattr(resume, "threads", lambda: {"numba": 2, "torch": 2})
    state.bind_plan(TERMS)
    return state


def test_the_same_plan_is_accepted_again_after_reading_it_back(planned, folder):
    content = (folder / "state.json").read_bytes()
    planned.close()
    again = FitState.open(folder)
    again.bind_plan(TERMS)
    again.close()
    assert (folder / "state.json").read_bytes() == content


CHANGED = {
    "seed 0 (now 1)": {**TERMS, "seed": 1},
    "settings.learning_rate 0.01 (now 0.02)": {**TERMS, "settings": {**TERMS["settings"], "learning_rate": 0.02}},
    "settings.widths [4, 2] (now [4])": {**TERMS, "settings": {**TERMS["settings"], "widths": (4,)}},
    "settings.learning_rate 0.01 (now null)": {**TERMS, "settings": {"widths": (4, 2)}},
    "epochs null (now 3)": {**TERMS, "epochs": 3},
}


@pytest.mark.parametrize("named", CHANGED)
def test_a_changed_plan_is_refused_with_what_to_restore(planned, folder, named):
    content = (folder / "state.json").read_bytes()
    with pytest.raises(LedgerError, match=rf"Nothing was released\. Restore {re.escape(named)}, and"):
        planned.bind_plan(CHANGED[named])
    assert (folder / "state.json").read_bytes() == content


def test_changed_threads_and_versions_are_refused_with_what_to_restore(planned, monkeypatch):
    found = resume.versions()
    with monkeypatch.context() as patch:
        patch.setattr(resume, "threads", lambda: {"numba": 2, "torch": 1})
        with pytest.raises(LedgerError, match=r"Restore threads\.torch 2 \(now 1\), and"):
            planned.bind_plan(TERMS)
    monkeypatch.setattr(resume, "versions", lambda: {**found, "numpy": "99.0"})
    with pytest.raises(
        LedgerError, match=rf'Restore versions\.numpy "{re.escape(found["numpy"])}" \(now "99\.0"\), and'
    ):
        planned.bind_plan(TERMS)


def test_the_mac_decides_and_not_the_terms_beside_it(planned):
    planned.values["terms"]["seed"] = 1
    with pytest.raises(LedgerError, match="'plan'"):
        planned.bind_plan({**TERMS, "seed": 1})
    planned.bind_plan(TERMS)


def test_counting_threads_loads_nothing():
    code = (
        "import sys; from sfumato.record import _resume; print(_resume.threads(), {'torch', 'numba'} & {*sys.modules})"
    )
    before = "import sys; sys.modules.pop('torch', None); sys.modules.pop('numba', None); "
    done = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'numba': None, 'torch': None} set()\n"


def test_counting_threads_sees_what_is_set():
    import numba
    import torch

    before = resume.threads()
    try:
        torch.set_num_threads(3)
        assert resume.threads() == {"numba": numba.get_num_threads(), "torch": 3}
    finally:
        torch.set_num_threads(before["torch"])
