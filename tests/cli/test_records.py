"""A deployment record on its way from a file into a certificate, into a registry's fields and onto plain pages."""

import json

import pytest

from sfumato.record.deployment import ASKED
from sfumato.verify import verify

EDGE = ("--unit", "edge", "--epsilon", "2", "--delta", "1e-5")
RECORD = {name: f"{name} in words" for name in ASKED} | {"publication_date": "2026-12-01", "flavor": "Approximate DP"}


@pytest.fixture
def record(tmp_path):
    """Write a record with changes; None leaves a field out."""

    def write(**changes):
        path = tmp_path / "deployment.toml"
        kept = {name: text for name, text in (RECORD | changes).items() if text is not None}
        path.write_text("".join(f"{name} = {json.dumps(text)}\n" for name, text in kept.items()))
        return path

    return write


def certificate(run):
    return json.loads((run / "release" / "certificate.json").read_text())


def test_a_record_goes_into_the_certificate(sfumato, tables, record, tmp_path):
    run = tmp_path / "run"
    assert sfumato("train", "gap", *tables["first"], *EDGE, "--deployment", record(), "--out", run).code == 0
    assert certificate(run)["deployment"] == RECORD
    assert "checked by nobody: product: product in words" in (run / "guarantee.txt").read_text()
    told = sfumato("verify", run)
    assert told.code == 0
    assert "deployment record: product in words, by curator in words, 2026-12-01; a person wrote it" in told.out
    assert json.loads(sfumato("verify", run, "--json").out)["deployment"] == RECORD


@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize(
    ("changes", "unit", "named"),
    [
        ({"curator": None}, EDGE, "to have curator, got none. Write curator: who publishes it"),
        ({"flavor": "Pure DP"}, EDGE, "to be 'Approximate DP', since delta is 1e-05"),
        ({}, ("--unit", "none"), "nothing of such a run may be published"),
    ],
    ids=["missing", "flavor", "none"],
)
def test_a_record_that_does_not_fit_stops_a_run_before_it_spends(
    sfumato, tables, record, tmp_path, command, changes, unit, named
):
    ledger = () if "none" in unit else ("--ledger", tmp_path / "all.jsonl", "--total-epsilon", "9")
    options = ("--deployment", record(**changes), "--out", tmp_path / "run")
    result = sfumato(command, "gap", *tables["first"], *unit, *ledger, *options)
    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "all.jsonl").exists()


def test_a_tuned_run_keeps_its_record(sfumato, tables, record, tmp_path):
    run = tmp_path / "run"
    options = ("--trials", "2", "--deployment", record(), "--no-controls", "--out", run)
    assert sfumato("tune", "gap", *tables["first"], *EDGE, *options).code == 0
    assert certificate(run)["deployment"] == RECORD
    assert verify(run).valid


def test_scores_that_are_not_released_take_no_record(refused, tables, record, tmp_path):
    options = ("--task", "link", "--epsilon-x", "1", "--deployment", record(), "--out", tmp_path / "run")
    refused("Expected no --deployment with --task link", "train", "pgc", *tables["first"], *options)


def test_a_resumed_run_keeps_the_record_of_its_start(sfumato, tables, record, tmp_path, monkeypatch):
    run, path = tmp_path / "run", record()
    options = ("--deployment", path, "--resumable", "--out", run)
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.central.gap.noisy_neighborhood_sum", interrupt)
        assert sfumato("train", "gap", *tables["first"], *EDGE, *options).code == 130
    other = sfumato("train", "--resume", run, "--deployment", record(curator="Another"))
    assert other.code == 2
    assert "Expected --deployment the record of 'product in words', with which the run was started" in other.err
    path.unlink()
    assert sfumato("train", "--resume", run).code == 0
    assert certificate(run)["deployment"] == RECORD


def interrupt(*_, **__):
    raise KeyboardInterrupt
