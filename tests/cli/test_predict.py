"""Predicting on another private graph: charged to a data set's ledger first, kept in a run folder, and never paid twice."""

import json

import pytest

from sfumato.record._dataset_ledger import read_account

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--json")


@pytest.fixture
def trained(run_of):
    return run_of("gap --unit edge --epsilon 4 --delta 1e-5")


@pytest.fixture
def other(trained, tables, tmp_path):
    """The command that predicts on the second graph, into folders of these names."""

    def command(new="new", out="p.csv"):
        budget = ("--epsilon", "2", "--delta", "1e-6", "--new-run", tmp_path / new, "--out", tmp_path / out)
        return ("predict", trained, *tables["second"], *budget)

    return command


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "second.jsonl"


def test_predictions_share_a_ledger_until_it_refuses(sfumato, other, ledger, tmp_path):
    assert sfumato(*other(), "--ledger", ledger, "--total-epsilon", "3").code == 0
    account = read_account(ledger)
    plan = json.loads((tmp_path / "new" / "release" / "ledger.jsonl").read_text().splitlines()[0])
    assert [claim.plan for claim in account.claims] == [plan["hash"]]
    assert account.claims[0].epsilon == pytest.approx(2, rel=1e-3)
    before = ledger.read_bytes()
    result = sfumato(*other("more", "more.csv"), "--ledger", ledger)
    assert (result.code, result.out) == (1, "")
    assert "of 3 left, short by 1" in result.err
    assert ledger.read_bytes() == before
    assert not (tmp_path / "more").exists()
    assert not (tmp_path / "more.csv").exists()
    assert sfumato("verify", tmp_path / "new").code == 0


def test_a_kill_before_the_first_release_leaves_the_charge_in_both_ledgers(signaled, sfumato, other, ledger, tmp_path):
    hop = "sfumato.method.hops.noisy_neighborhood_sum"
    result = signaled(hop, *other(), "--ledger", ledger, "--total-epsilon", "3", signal="SIGKILL")
    assert result.code == -9
    account = read_account(ledger)
    own = (tmp_path / "new" / "release" / "ledger.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in own]
    assert account.problem is None
    assert [claim.plan for claim in account.claims] == [entries[0]["hash"]]
    assert [entry["release"]["name"] for entry in entries[1:]] == ["aggregate/1"]
    assert [path.name for path in tmp_path.rglob("*") if path.suffix in (".csv", ".safetensors", ".partial")] == []
    again = sfumato(*other(), "--ledger", ledger)
    assert again.code == 2
    assert "whose prediction was stopped. It cannot go on, and what its ledgers name stays charged." in again.err


def test_a_ledger_is_checked_in_the_words_of_train(refused, sfumato, other, trained, tables, ledger, tmp_path):
    refused("--total-epsilon with --ledger FILE only", *other(), "--total-epsilon", "2")
    refused("--composition with --ledger FILE only", *other(), "--composition", "gdp")
    refused("--total-epsilon E", *other(), "--ledger", ledger)
    refused("folder of the ledger to exist", *other(), "--ledger", tmp_path / "no" / "l", "--total-epsilon", "2")
    refused("free. Drop them", "predict", trained, "--out", tmp_path / "p", "--ledger", ledger, "--total-epsilon", "2")
    train = ("train", "gap", *tables["first"], *EDGE, "--ledger", ledger, "--total-epsilon", "9")
    assert sfumato(*train, "--out", tmp_path / "first").code == 0
    refused("that data set's own ledger", *other(), "--ledger", ledger, "--json")
    refused("Expected --total-epsilon 9.0", *other(), "--ledger", ledger, "--total-epsilon", "8", "--json")


def test_a_run_without_privacy_takes_no_ledger(sfumato, refused, tables, ledger, tmp_path):
    run = tmp_path / "run"
    assert sfumato("train", "gap", *tables["first"], "--unit", "none", "--out", run, "--json").code == 0
    shared = ("--ledger", ledger, "--total-epsilon", "2", "--out", tmp_path / "p.csv")
    refused("Expected --ledger with a privacy unit, got none", "predict", run, *tables["second"], *shared)
    assert sfumato("predict", run, *tables["second"], "--out", tmp_path / "p.csv").code == 0


def test_a_second_prediction_is_free_and_says_where(sfumato, refused, other, tmp_path):
    assert sfumato(*other()).code == 0
    refused("or replace it with --force, which replaces only what this command wrote.", *other())
    refused(f"predict from it for free: sfumato predict {tmp_path / 'new'} --out FILE.", *other(out="q.csv"))
    again = sfumato("predict", tmp_path / "new", "--out", tmp_path / "q.csv", "--json")
    assert json.loads(again.out)["epsilon_spent"] == 0
    assert (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    refused("with --force", "predict", tmp_path / "new", "--out", tmp_path / "q.csv")
    (tmp_path / "q.csv").write_text("node,predicted,old\n")
    assert sfumato("predict", tmp_path / "new", "--out", tmp_path / "q.csv", "--force").code == 0
    assert (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    private, ledger = (tmp_path / "new" / name for name in ("guarantee.txt", "release/ledger.jsonl"))
    assert private.exists()
    refused("which replaces only what this command wrote", "predict", tmp_path / "new", "--out", private, "--force")
    refused("outside release/", "predict", tmp_path / "new", "--out", ledger, "--force")


def test_predictions_that_cannot_be_written_are_not_paid_again(sfumato, other, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:

        def full(*_, **__):
            raise OSError(28, "No space left on device", str(tmp_path / "p.csv"))

        patch.setattr("sfumato.cli._predictions.whole_file", full)
        result = sfumato(*other())
    assert (result.code, result.out) == (2, "")
    assert "stay charged" in result.err
    assert f"cost nothing more: sfumato predict {tmp_path / 'new'} --out FILE" in result.err
    assert sfumato("predict", tmp_path / "new", "--out", tmp_path / "p.csv").code == 0
