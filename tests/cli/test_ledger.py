"""The budget of a data set, and stopped runs, from the command line."""

import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import torch

EDGE = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--json")


@pytest.fixture
def train(sfumato, tables, tmp_path):
    """Train GAP on the first graph into a folder of this name, with further options."""

    def run(name, *options):
        return sfumato("train", "gap", *tables["first"], *EDGE, "--out", tmp_path / name, *options)

    return run


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def stopped(train, tmp_path, monkeypatch):
    """A resumable run that a full disk stopped before it was saved."""
    from sfumato.method._plan import Fitted

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "model.safetensors")

    with monkeypatch.context() as patch:
        patch.setattr(Fitted, "save", full)
        result = train("run", "--resumable", "--seeds", "2", "--ledger", tmp_path / "l", "--total-epsilon", "1")
    assert (result.code, result.out) == (2, "")
    assert "No space left on device: model.safetensors" in result.err
    assert "Whoever reads it can remove the noise" in result.err
    assert {path.name for path in (tmp_path / "run" / "release").iterdir()} == {"ledger.jsonl"}
    return tmp_path / "run"


def test_runs_share_a_ledger_until_it_refuses(train, sfumato, ledger, tmp_path):
    assert train("one", "--ledger", ledger, "--total-epsilon", "2.5").code == 0
    assert train("two", "--ledger", ledger).code == 0
    before = ledger.read_bytes()
    assert str(tmp_path).encode() not in before
    plan = json.loads((tmp_path / "one" / "release" / "ledger.jsonl").read_text().splitlines()[0])
    assert json.loads(before.splitlines()[1])["claim"]["plan"] == plan["hash"]
    for options in ((), ("--resumable",)):
        result = train("three", "--ledger", ledger, *options)
        assert (result.code, result.out) == (1, "")
        assert "with epsilon 2, delta 2e-6 spent: " in result.err  # rounded up
        assert "got epsilon 1 with 0.5" in result.err
        assert "of 2.5 left, short by 0.5" in result.err
        assert not (tmp_path / "three").exists()
    assert ledger.read_bytes() == before
    shown = sfumato("ledger", "show", ledger, "--json")
    values = json.loads(shown.out)
    assert shown.code == 0
    assert values["valid"] is True
    assert values["problems"] == []
    assert values["header"]["total_epsilon"] == 2.5
    assert values["header"]["total_delta"] == 1e-5
    assert values["header"]["dataset"]["name"] == "graph"
    assert [run["method"] for run in values["runs"]] == ["gap", "gap"]
    spent = sum(run["epsilon"] for run in values["runs"])
    assert values["spent"]["epsilon"] == pytest.approx(spent, rel=1e-8)
    assert values["left"]["epsilon"] == pytest.approx(2.5 - spent, rel=1e-7)
    assert values["left"]["delta"] == 8e-6


FAMILIES = {
    "links": ("blink", "--epsilon 5", 5, "6"),
    "labels": ("label-only", "--epsilon-y 1", 1, "1.5"),
    "one budget for all features": ("pgc", "--task link --epsilon-x 3 --mechanism multi-bit", 3, "5"),
    "links of a curator": ("link-messages", "--task link --unit edge --epsilon 2 --delta 0", 2, "2.5"),
}


@pytest.mark.parametrize(("method", "asked", "epsilon", "total"), FAMILIES.values(), ids=FAMILIES)
def test_runs_of_every_family_are_counted(sfumato, tables, ledger, tmp_path, method, asked, epsilon, total):
    train = ("train", method, *tables["first"], *asked.split(), "--no-controls", "--ledger", ledger, "--out")
    first = sfumato(*train, tmp_path / "one", "--total-epsilon", total, "--total-delta", "1e-6", "--json")
    assert json.loads(first.out)["privacy"]["epsilon"] == pytest.approx(epsilon)
    spent = json.loads(sfumato("ledger", "show", ledger, "--json").out)["spent"]
    assert spent == {"epsilon": pytest.approx(epsilon), "delta": 0.0}
    second = sfumato(*train, tmp_path / "two")
    assert (second.code, "short by" in second.err) == (1, True)


def test_show_says_what_is_left_and_what_is_broken(train, sfumato, ledger):
    train("one", "--ledger", ledger, "--total-epsilon", "2", "--total-delta", "1e-5", "--composition", "gdp")
    shown = sfumato("ledger", "show", ledger)
    assert shown.code == 0
    assert "unit edge (add-remove), at most epsilon 2 and delta 1e-05 together; rule gdp" in shown.out
    assert "mu^2: spent 0.05602" in shown.out
    assert "is whole" in shown.out
    assert " spent " in next(line for line in shown.out.splitlines() if " gap " in line)
    ledger.write_text(ledger.read_text().replace('"draws":', '"draws":1'))
    shown = sfumato("ledger", "show", ledger)
    assert shown.code == 1
    assert shown.out.startswith("DAMAGED: line 2 does not continue the chain")
    assert "What to do: Stop all runs, and put ledger.jsonl and ledger.jsonl.head back" in shown.out
    assert "spent 0" not in shown.out
    assert sfumato("ledger", "check", ledger).out == shown.out
    shown = sfumato("ledger", "show", ledger, "--json")
    assert shown.code == 1
    found = json.loads(shown.out)
    assert (found["valid"], found["spent"], found["left"]) == (False, None, None)
    checked = sfumato("ledger", "check", ledger, "--json")
    assert (checked.code, json.loads(checked.out)["problems"]) == (1, found["problems"])
    result = train("two", "--ledger", ledger)
    assert result.code == 1
    assert "damaged: line 2" in result.err


def test_an_operator_sees_when_by_whom_and_where_and_short_sums(train, sfumato, ledger):
    train("one", "--ledger", ledger, "--total-epsilon", "2.5")
    train("two", "--ledger", ledger)
    found = json.loads(sfumato("ledger", "show", ledger, "--json").out)
    assert [(run["folder"], bool(run["by"])) for run in found["runs"]] == [("one", True), ("two", True)]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", run["at"]) for run in found["runs"])
    shown = sfumato("ledger", "show", ledger).out
    assert found["runs"][0]["at"][:10] in shown
    assert max(len(word.strip(".,")) for word in re.findall(r"(?:spent|left) ([\d.e-]+)", shown)) <= 11
    exact = sum(Fraction(repr(run["epsilon"])) for run in found["runs"])
    assert exact <= Fraction(repr(found["spent"]["epsilon"])) < exact + Fraction(1, 10**7)
    assert sfumato("ledger", "check", ledger).out.startswith("ledger.jsonl is whole: 5 lines, 2 runs.")


def test_two_ledgers_of_the_same_people_are_told(train, sfumato, ledger, tmp_path):
    train("one", "--ledger", ledger, "--total-epsilon", "2")
    told = train("two", "--ledger", tmp_path / "other.jsonl", "--total-epsilon", "2")
    assert "other.jsonl" not in told.err  # it is not there yet, and nothing named its people
    for command in ("show", "check"):
        shown = sfumato("ledger", command, ledger)
        assert (shown.code, "other.jsonl, in the same folder, is a ledger of the same people" in shown.out) == (0, True)
    assert "other.jsonl, in the same folder" in train("three", "--ledger", ledger).err
    (tmp_path / "other.jsonl").unlink()
    assert "same people" not in sfumato("ledger", "show", ledger).out


def test_options_of_a_ledger_may_not_change(train, refused, tables, ledger, tmp_path):
    train("one", "--ledger", ledger, "--total-epsilon", "2")
    command = ["train", "gap", *tables["first"], *EDGE, "--ledger", ledger, "--out", tmp_path / "two"]
    refused("Expected --total-epsilon 2.0", *command, "--total-epsilon", "3")
    refused("Expected --composition basic", *command, "--composition", "gdp")
    refused("Expected the unit of the ledger", *command, "--unit", "arc")
    refused("that data set's own ledger", *command, *tables["second"])


def test_controls_are_off_beside_a_ledger_and_said_to_be_uncharged(small_campus, sfumato, ledger, tmp_path):
    named = ("train", "mlp", "--dataset", "campus", *EDGE, "--ledger", ledger)
    result = sfumato(*named, "--total-epsilon", "1", "--total-delta", "1e-5", "--out", tmp_path / "one")
    assert json.loads(result.out)["floor"] is None
    assert "not charged" not in result.err
    result = sfumato(*named, "--controls", "--out", tmp_path / "two")
    assert json.loads(result.out)["floor"] is not None
    assert "not charged to the ledger" in result.err


def test_a_stopped_run_is_finished_with_its_own_options(stopped, sfumato, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = sfumato("train", "--resume", "run", "--json")
    assert result.code == 0, result.err
    values = json.loads(result.out)
    assert (values["method"], values["unit"], values["test_accuracy"]["seeds"]) == ("gap", "edge", 2)
    assert sfumato("verify", "run").code == 0
    assert {path.name for path in stopped.iterdir()} == {"release", "evaluation", "guarantee.txt", "identity.json"}
    runs = json.loads(sfumato("ledger", "show", "l", "--json").out)["runs"]
    assert [run["state"] for run in runs] == ["spent"]
    again = sfumato("train", "--resume", "run")
    assert again.code == 2
    assert "is finished" in again.err


def test_options_beside_resume_must_be_the_same(stopped, sfumato, refused, tables):
    for options in (("--epsilon", "2"), ("--seeds", "1"), ("--unit", "node"), ("--nodes", "other.csv"), ("--hops", "3"),
                    ("--sign-key", "key.pem"), ("--no-controls",), ("--out", "elsewhere")):  # fmt: skip
        refused(f"Expected {options[0].replace('--no-', '--')}", "train", "--resume", stopped, *options)
    refused("Expected METHOD gap", "train", "mlp", "--resume", stopped)
    same = ("--epsilon", "1", "--seeds", "2", "--resumable", *tables["first"], "--out", stopped)
    assert sfumato("train", "gap", "--resume", stopped, *same).code == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "width=4 epochs=1",
            "Expected --set width=16 epochs=none, with which the run was started, got width=4 epochs=1. Leave",
        ),
        ("widht=4", "Did you mean 'width'?"),
        ("encoder=true width = 16", ""),
    ],
)
def test_settings_beside_resume_must_be_those_of_the_run(stopped, sfumato, refused, given, message):
    words = [word for one in given.replace(" = ", "=").split() for word in ("--set", one)]
    if message:
        refused(message, "train", "--resume", stopped, *words)
    assert sfumato("train", "--resume", stopped, *(() if message else words)).code == 0


def test_changed_data_is_not_resumed(stopped, sfumato, tables, tmp_path):
    edges = Path(tables["first"][3])
    whole = edges.read_text()
    try:
        edges.write_text(whole[: whole.rstrip().rindex("\n") + 1])
        result = sfumato("train", "--resume", stopped)
    finally:
        edges.write_text(whole)
    assert result.code == 1
    assert "'graph'" in result.err
    assert {path.name for path in (stopped / "release").iterdir()} == {"ledger.jsonl"}


def test_a_folder_put_back_as_it_was_draws_the_same_bits_or_nothing(
    train, sfumato, tables, ledger, tmp_path, monkeypatch
):
    """Copied before the fit, which had bound neither plan nor graph to its key."""
    from sfumato.method._plan import Plan

    run, copy, real = tmp_path / "run", tmp_path / "copy", Plan.fit
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "fit", lambda *given, **named: shutil.copytree(run, copy) and real(*given, **named))
        assert train("run", "--resumable", "--ledger", ledger, "--total-epsilon", "1.5").code == 0
    released = (run / "release" / "releases.safetensors").read_bytes()
    edges = Path(tables["first"][3])
    whole = edges.read_text()
    for changed in (True, False):
        shutil.rmtree(run)
        shutil.copytree(copy, run)
        try:
            edges.write_text(whole[: whole.rstrip().rindex("\n") + 1] if changed else whole)
            result = sfumato("train", "--resume", run, "--json")
        finally:
            edges.write_text(whole)
        if changed:
            assert (result.code, result.out) == (1, "")
            assert "is spent: its first noise was drawn already" in result.err
            assert not (run / "release").exists()
        else:
            assert result.code == 0, result.err
            assert (run / "release" / "releases.safetensors").read_bytes() == released
    assert len(json.loads(sfumato("ledger", "show", ledger, "--json").out)["runs"]) == 1


def test_a_plain_stopped_run_stays_charged(train, sfumato, refused, ledger, tmp_path, monkeypatch):
    from sfumato.method._plan import Fitted

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Fitted, "save", full)
        assert train("run", "--ledger", ledger, "--total-epsilon", "1.5").code == 2
    refused("was not started with --resumable", "train", "--resume", tmp_path / "run")
    refused("which exists", "train", "gap", "--dataset", "campus", *EDGE, "--out", tmp_path / "run")
    result = train("again", "--ledger", ledger)
    assert result.code == 1
    assert "with epsilon 1, delta 1e-6 spent" in result.err


def test_a_resumable_run_keeps_the_number_of_threads_that_it_ran_with(stopped):
    """Not that nobody named one: another process may have another default, with which the bits differ."""
    assert json.loads((stopped / "private" / "state.json").read_text())["options"]["threads"] == torch.get_num_threads()


def test_a_torn_ledger_is_repeated_and_said(stopped, sfumato):
    ledger, state = stopped / "release" / "ledger.jsonl", stopped / "private" / "state.json"
    values = json.loads(state.read_text())
    del values["bound"]["aggregate/2"]
    state.write_text(json.dumps(values))
    ledger.write_bytes(ledger.read_bytes()[:-20])
    result = sfumato("train", "--resume", stopped)
    assert result.code == 0
    assert "ended inside a line" in result.err
    assert sfumato("verify", stopped).code == 0


THREADS = """
import os
import numpy as np
import torch
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum
from sfumato._threads import set_threads

for given, wanted in ((1, 1), (None, 2)):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    assert set_threads(given) == wanted
    arcs = Arcs(np.zeros(3, np.int64), np.zeros(0, np.int32))
    noisy_neighborhood_sum(arcs, np.zeros((2, 4), np.float32), 1.0, bytes(32))
    assert torch.get_num_threads() == wanted
    break
"""


def test_the_number_of_threads_holds_although_kernels_start_their_own():
    """It decides the bits of a fit, so a resumed run needs the number of the stopped one throughout."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
