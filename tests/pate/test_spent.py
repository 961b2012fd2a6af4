"""One claim pays for one draw: whatever is copied, restored or killed, the data set's ledger tells a second one."""

import shutil
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from run_copies import Killed, contents, killed, killed_at, put_back, states

from sfumato.cli import invoke
from sfumato.errors import InputError, LedgerError
from sfumato.pate import _kept as kept
from sfumato.pate import _run as module
from sfumato.pate._images import Images
from sfumato.pate._plan import Settings
from sfumato.pate._run import run
from sfumato.record._dataset_ledger import DatasetLedger
from sfumato.record._release_folder import LOCK
from sfumato.verify import verify

SETTINGS = Settings(50, 30, 20.0, student_settings={"width": 4, "steps": 3, "batch_size": 8}, controls=False)


@pytest.fixture
def shared(tmp_path):
    return DatasetLedger(tmp_path / "toy.jsonl", total_epsilon=1000.0)


@pytest.fixture
def draws(monkeypatch):
    """How often answers were drawn, by the number of claims that there were."""
    real, drawn = module.answer, []
    monkeypatch.setattr(module, "answer", lambda *given: drawn.append(1) or real(*given))
    return drawn


def test_a_copy_taken_while_teachers_train_draws_no_second_time(images, draws, monkeypatch, tmp_path, capsys):
    """From the command line, as a reviewer did it: exit code 0 twice, and two sets of answers for one claim."""
    monkeypatch.setattr("sfumato.pate._images.load_images", lambda *_: images)
    monkeypatch.setattr(module, "QUICK", {"consistency": SETTINGS.student_settings})
    out, copy, ledger, real = tmp_path / "run", tmp_path / "copy", tmp_path / "toy.jsonl", module._ask
    given = ["pate", "run", "--dataset", "mnist", "--data-dir", ".", "--teachers", "3", "--queries", "20", "--quick"]
    given += ["--epsilon", "5", "--mechanism", "gnmax", "--threads", "1", "--no-controls", "--out", str(out)]
    given += ["--ledger", str(ledger), "--total-epsilon", "6"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "_ask", lambda *all_: shutil.copytree(out, copy) and real(*all_))
        assert invoke(given) == 0
    put_back(copy, out)
    capsys.readouterr()
    monkeypatch.setattr(module, "_ask", lambda *_: pytest.fail("teachers were trained"))
    assert invoke(given) == 1
    err = capsys.readouterr().err
    assert "is spent: its first noise was drawn already" in err
    assert "start a new run in a new folder" in err
    assert len(draws) == 1
    (copy / LOCK).unlink()  # of the process that was at work when the copy was taken
    assert contents(out) == contents(copy)
    assert invoke(["ledger", "show", str(ledger)]) == 0
    assert "spent" in capsys.readouterr().out.splitlines()[4]


def test_a_second_process_that_trained_from_a_copy_is_refused_before_it_draws(images, votes, shared, draws, tmp_path):
    """Both reserved when nothing was drawn: the ledger decides under its lock."""
    out = tmp_path / "run"

    def other(*_):
        copy = shutil.copytree(out, tmp_path / "copy")
        run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)
        put_back(copy, out)
        return votes[:30]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ask", other)
        with pytest.raises(LedgerError, match="is spent"):
            run(SETTINGS, images, out, dataset_ledger=shared)
    assert (len(draws), states(shared)) == (1, ["spent"])


def test_a_copy_with_answers_goes_on_and_draws_nothing(images, votes, shared, draws, tmp_path, monkeypatch):
    out, copy, real = tmp_path / "run", tmp_path / "copy", module.fit_student
    with monkeypatch.context() as patch:
        patch.setattr(module, "fit_student", lambda *given: shutil.copytree(out, copy) and real(*given))
        run(SETTINGS, images, out, votes=votes, dataset_ledger=shared)
    released = (out / "release" / "releases.safetensors").read_bytes()
    put_back(copy, out)
    assert run(SETTINGS, images, out, dataset_ledger=shared)["resumed"]
    assert (out / "release" / "releases.safetensors").read_bytes() == released
    assert (len(draws), states(shared)) == (1, ["spent"])


def test_kept_answers_under_another_mark_are_refused(images, votes, shared, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "fit_student", killed)
    with pytest.raises(Killed):
        run(SETTINGS, images, tmp_path / "run", votes=votes, dataset_ledger=shared)
    path = tmp_path / "run" / "private" / "answers.json"
    kept.write_sealed(path, {**kept.read_sealed(path), "mark": "0" * 32})
    with pytest.raises(LedgerError, match="is spent"):
        run(SETTINGS, images, tmp_path / "run", dataset_ledger=shared)


def test_killed_at_every_sync_then_repeated_or_restored_draws_once_a_claim(images, votes, draws, tmp_path):
    """What follows a kill is the same command, then the same command on the folder as it was while teachers trained."""
    step, ends = 1, Counter()
    while True:
        place = tmp_path / str(step)
        place.mkdir()
        ledger, out, copy = DatasetLedger(place / "toy.jsonl", 1000.0), place / "run", place / "copy"
        real = module._ask

        def ask(*_, out=out, copy=copy):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(out, copy)
            return votes[:30]

        def begin(out=out, ledger=ledger):
            return run(SETTINGS, images, out, dataset_ledger=ledger)

        draws.clear()
        module._ask = ask
        try:
            stopped = killed_at(step, begin)
            for turn in ("repeated", "restored"):
                if turn == "restored" and copy.exists():
                    put_back(copy, out)
                try:
                    ends[turn, "resumed" if begin()["resumed"] else "drawn"] += 1
                    assert verify(out).problems == ()
                except (LedgerError, InputError) as error:
                    ends[turn, type(error).__name__] += 1
                assert len(draws) <= states(ledger).count("spent")
        finally:
            module._ask = real
        assert states(ledger).count("spent") == 1
        if not stopped:
            break
        step += 1
    assert step > 10
    assert {("repeated", "resumed"), ("repeated", "drawn"), ("repeated", "LedgerError"), ("repeated", "InputError"),
            ("restored", "LedgerError")} <= set(ends)  # fmt: skip
    assert ("restored", "resumed") not in ends


KILL = """
import os, signal, sys
import numpy as np
from pathlib import Path
from sfumato.method._engine import Spending
from sfumato.pate import _plan as plan
from sfumato.pate import _run as module
from sfumato.pate._images import Images
from sfumato.pate._plan import Settings
from sfumato.record._dataset_ledger import DatasetLedger

plan.POOL = module.POOL = 60
x, y = np.zeros((80, 1, 28, 28), np.float32), np.arange(80) % 2
votes = np.where(y[:60, None] == np.arange(2), 45, 5)
at = sys.argv[1]
holder = Spending if at == "spend" else module
real = getattr(holder, at)

def killed(*given, **named):
    if sys.argv[2] == "after":
        real(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(holder, at, killed)
small = {"width": 4, "steps": 3, "batch_size": 8}
ledger = DatasetLedger(Path("toy.jsonl"), 1000.0)
settings = Settings(50, 30, 20.0, student_settings=small, controls=False)
module.run(settings, Images("toy", x[:40], y[:40], x, y, num_classes=2), "run", votes=votes, dataset_ledger=ledger)
"""


@pytest.mark.parametrize(
    ("at", "when", "state", "said"),
    [
        ("spend", "after", "spent", "is spent"),  # between the mark and the noise
        pytest.param("spend", "before", "reserved", None, marks=pytest.mark.soak),
        pytest.param("answer", "before", "spent", "no answers", marks=pytest.mark.soak),
        pytest.param("answer", "after", "spent", "no answers", marks=pytest.mark.soak),  # drawn, and lost
        pytest.param("keep", "before", "spent", "no answers", marks=pytest.mark.soak),
        pytest.param("keep", "after", "spent", None, marks=pytest.mark.soak),
    ],
)
def test_kill_minus_nine_at_a_boundary(images, draws, tmp_path, at, when, state, said):
    """Where the answers were kept, or none was drawn, the same command goes on for free; elsewhere it is refused."""
    done = subprocess.run([sys.executable, "-c", KILL, at, when], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    ledger = DatasetLedger(tmp_path / "toy.jsonl")
    assert states(ledger) == [state]
    x, y = np.zeros((80, 1, 28, 28), np.float32), np.arange(80) % 2
    votes = np.where(y[:60, None] == np.arange(2), 45, 5)
    same = Images("toy", x[:40], y[:40], x, y, num_classes=2)

    def again():
        return run(SETTINGS, same, tmp_path / "run", votes=votes, dataset_ledger=ledger)

    if said is None:
        assert again()["resumed"] is (at == "keep")
        assert verify(tmp_path / "run").problems == ()
    else:
        with pytest.raises((LedgerError, InputError), match=said):
            again()
        assert draws == []
    assert states(ledger) == ["spent"]
