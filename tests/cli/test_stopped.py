"""Ctrl-C: exit code 130, and words on what is charged, what is left, how to go on; checked against the ledgers on disk."""

import json
from fractions import Fraction

import pytest

from sfumato.privacy._filters import show
from sfumato.record._dataset_ledger import read_account

EDGE = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--threads", "1")
HOP = "sfumato.method.hops.noisy_neighborhood_sum"


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def stopped(sfumato, monkeypatch):
    """Run a command that is interrupted where it calls the function of this name."""

    def run(at, *command):
        with monkeypatch.context() as patch:
            patch.setattr(at, interrupt)
            return sfumato(*command)

    return run


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def last_line(err):
    return err.strip().splitlines()[-1]


def charged(tmp_path):
    """The sentence about the one claim in the data set's ledger."""
    path = tmp_path / "l.jsonl"
    account = read_account(path)
    (claim,) = account.claims
    left = ", ".join(f"{name} {show(Fraction(repr(one)), up=False)}" for name, one in account.left().items())
    assert claim.epsilon == pytest.approx(1, rel=1e-5)
    return f"epsilon = 1 and delta = 1e-06 stay charged to the ledger {path}, in which {left} are left."


@pytest.fixture
def shared(tmp_path):
    return ("--ledger", tmp_path / "l.jsonl", "--total-epsilon", "3")


@pytest.fixture
def train(tables, shared, tmp_path):
    return ("train", "gap", *tables["first"], *EDGE, *shared, "--out", tmp_path / "run")


def test_training_tells_its_charge(signaled, train, tmp_path):
    result = signaled(HOP, *train)
    assert (result.code, result.out) == (130, "")
    assert last_line(result.err) == (
        f"Stopped. {charged(tmp_path)} This run cannot go on, since its noise cannot be repeated: a new one costs again. "
        "With --resumable it could."
    )
    assert names(tmp_path / "run") == {"release", "release/ledger.jsonl"}


def test_without_a_data_set_ledger_the_run_names_its_own(stopped, tables, tmp_path):
    result = stopped(HOP, "train", "gap", *tables["first"], *EDGE, "--out", tmp_path / "run")
    assert result.code == 130
    own = tmp_path / "run" / "release" / "ledger.jsonl"
    assert f"Stopped. epsilon = 1 and delta = 1e-06 stay charged: {own} names aggregate/1." in last_line(result.err)


def test_before_the_charge_nothing_stays(stopped, train, tmp_path):
    for at in ("sfumato.evaluation._source.Source.load", "sfumato.method._engine.Claim.of"):
        for more in ((), ("--resumable",)):
            result = stopped(at, *train, *more)
            assert (result.code, last_line(result.err)) == (130, "Stopped. Nothing was charged.")
            assert not (tmp_path / "run").exists()


def test_a_claim_without_a_ledger_of_the_run_is_told_too(sfumato, train, tmp_path, monkeypatch):
    reserve = "sfumato.record._dataset_ledger.DatasetLedger.reserve"
    from sfumato.record._dataset_ledger import DatasetLedger

    real = DatasetLedger.reserve
    monkeypatch.setattr(reserve, lambda *args, **given: interrupt(real(*args, **given)))
    result = sfumato(*train)
    assert result.code == 130
    assert charged(tmp_path) in result.err
    assert not (tmp_path / "run").exists() or not names(tmp_path / "run")


def test_a_resumable_run_goes_on_without_another_charge(stopped, sfumato, train, tmp_path):
    result = stopped(HOP, *train, "--resumable")
    run = tmp_path / "run"
    said = f"Stopped. {charged(tmp_path)} To go on without another charge: sfumato train --resume {run}"
    assert (result.code, last_line(result.err)) == (130, said)
    assert sfumato("train", "--resume", run, "--json").code == 0
    assert sfumato("verify", run).code == 0
    charged(tmp_path)


def test_a_run_that_goes_on_begins_no_ledger_in_place_of_a_lost_one(stopped, sfumato, train, tmp_path):
    assert stopped(HOP, *train, "--resumable").code == 130
    run, kept = tmp_path / "run", {path: path.read_bytes() for path in tmp_path.glob("l.jsonl*")}
    for path in kept:
        path.unlink()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    result = sfumato("train", "--resume", run)
    assert (result.code, "Put it back there with its .head file" in result.err) == (2, True), result.err
    assert not (tmp_path / "l.jsonl").exists()
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    for path, content in kept.items():
        path.write_bytes(content)
    assert sfumato("train", "--resume", run, "--json").code == 0
    charged(tmp_path)


def test_a_saved_run_lacks_its_scores_alone(stopped, sfumato, train, tmp_path):
    run = tmp_path / "run"
    result = stopped("sfumato.evaluation._request.scores_of", *train)
    said = f"Stopped. {charged(tmp_path)} The run is saved in {run}. Its scores are not: sfumato evaluate {run}"
    assert (result.code, last_line(result.err)) == (130, said)
    assert sfumato("verify", run).code == 0
    assert sfumato("evaluate", run).code == 0


def test_tuning_tells_its_charge(signaled, tables, shared, tmp_path):
    candidates = tmp_path / "candidates.toml"
    candidates.write_text("[[candidate]]\nepochs = 1\n[[candidate]]\nepochs = 2\n")
    more = ("--candidates", candidates, "--trials", "2", "--out", tmp_path / "run")
    result = signaled("sfumato.central._tuned.draw_trials", "tune", "gap", *tables["first"], *EDGE, *shared, *more)
    assert (result.code, result.out) == (130, "")
    said = last_line(result.err)
    claim = read_account(tmp_path / "l.jsonl").claims[0]
    assert "stay charged to the ledger" in said
    assert "This run cannot go on" in said
    assert claim.epsilon <= 1


def test_predicting_tells_its_charge(sfumato, signaled, tables, shared, tmp_path):
    run, new = tmp_path / "run", tmp_path / "new"
    assert sfumato("train", "gap", *tables["first"], *EDGE, "--out", run, "--json").code == 0
    other = ("predict", run, *tables["second"], "--epsilon", "1", "--delta", "1e-6", "--new-run", new, *shared)
    result = signaled(HOP, *other)
    assert (result.code, result.out) == (130, "")
    how = "This run cannot go on, since its noise cannot be repeated: a new one costs again."
    assert last_line(result.err) == f"Stopped. {charged(tmp_path)} {how}"
    assert names(new) == {"release", "release/ledger.jsonl"}


TOY = """
import numpy as np
from sfumato.pate import _plan as plan
from sfumato.pate import _run as run
from sfumato.pate._images import Images
x, y = np.random.default_rng(0).random((80, 1, 28, 28)).astype(np.float32), np.arange(80) % 2
toy = Images("toy", x[:40], y[:40], x, y, num_classes=2)
plan.POOL = run.POOL = 60
run.QUICK = {"consistency": {"width": 4, "steps": 3, "batch_size": 8}}
patch("sfumato.pate._images.load_images", lambda *_: toy).start()
"""
STAGES = {
    "teachers": ("sfumato.pate._run._ask", "The same command goes on with this charge."),
    "answers": ("sfumato.pate._run.answer", "since its answers are lost: a new one costs again, in another folder."),
    "student": ("sfumato.pate._run.fit_student", "the same command goes on from them, and charges nothing."),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_of_pate_tells_its_charge(signaled, pate, stage, tmp_path):
    at, how = STAGES[stage]
    command = (*pate, "--ledger", tmp_path / "l.jsonl", "--total-epsilon", "150", "--out", tmp_path / "run")
    result = signaled(at, *command, before=TOY)
    said = last_line(result.err)
    assert (result.code, result.out) == (130, "")
    assert said.startswith("Stopped. ")
    assert f"epsilon = 50 and delta = 1e-05 stay charged to the ledger {tmp_path / 'l.jsonl'}" in said
    assert how in said


def test_what_charges_nothing_says_so(stopped):
    result = stopped("sfumato.datasets._listing.list_datasets", "datasets")
    assert (result.code, result.out, result.err) == (130, "", "Stopped. Nothing was charged.\n")


def test_a_data_set_ledger_that_cannot_be_read_is_named(sfumato, train, tmp_path, monkeypatch):
    def unreadable(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sfumato.record._stopped.read_account", unreadable)
    monkeypatch.setattr(HOP, interrupt)
    result = sfumato(*train)
    assert "What is charged cannot be read: see" in last_line(result.err)
    assert json.loads((tmp_path / "run" / "release" / "ledger.jsonl").read_text().splitlines()[1])["kind"] == "release"
