"""A run folder has one owner at a time, who alone removes anything, and none once the owner is gone."""

import os
import signal
import subprocess
import sys

import pytest

from sfumato.errors import InputError
from sfumato.record._release_folder import LOCK, check_new_run, owned


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_the_second_is_refused_and_changes_nothing(tmp_path):
    run = tmp_path / "run"
    with owned(run, check_new_run):
        (run / "release").mkdir()
        with pytest.raises(InputError, match=r"another run is at work.*charged nothing"), owned(run, check_new_run):
            pytest.fail("two owners")
        assert names(run) == {LOCK, "release"}
    assert names(run) == {"release"}
    with owned(run, check_new_run):
        pass


def test_what_was_made_for_it_goes_if_it_stays_empty(tmp_path):
    with pytest.raises(KeyboardInterrupt), owned(tmp_path / "a" / "b" / "run", check_new_run):
        raise KeyboardInterrupt
    assert names(tmp_path) == set()
    (tmp_path / "mine").mkdir()
    with owned(tmp_path / "mine", check_new_run):
        pass
    assert names(tmp_path) == {"mine"}


@pytest.mark.parametrize("name", ["diary.txt", "lock", "release/model.safetensors", "private/state.json"])
def test_a_folder_with_more_than_a_beginning_is_left_as_it_is(tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(InputError, match="which exists"), owned(tmp_path / "run", check_new_run):
        pytest.fail("owned")
    assert path.read_text() == "mine"
    assert LOCK not in names(tmp_path / "run")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match="which exists"), owned(tmp_path / "run", check_new_run):
        pytest.fail("owned")


def test_a_ledger_with_a_line_is_more_than_a_beginning(tmp_path):
    ledger = tmp_path / "release" / "ledger.jsonl"
    ledger.parent.mkdir()
    ledger.touch()
    check_new_run(tmp_path)
    ledger.write_text("{")
    with pytest.raises(InputError, match="which exists"):
        check_new_run(tmp_path)


HOLD = """
import sys
from pathlib import Path
from sfumato.record._release_folder import owned
with owned(Path(sys.argv[1]), lambda run: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_dies_lets_go(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another run is at work"), owned(run, check_new_run):
            pytest.fail("two owners")
        os.kill(process.pid, signal.SIGKILL)
    assert names(run) == {LOCK}
    with owned(run, check_new_run):
        pass
    assert names(run) == set()
