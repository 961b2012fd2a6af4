"""``--delta 0``: methods without Gaussian noise train, verify, are tuned, reported and charged; others say what to do."""

import json

import pytest

from sfumato.record._dataset_ledger import read_account

PURE = ("--dataset", "campus", "--unit", "edge", "--epsilon", "2", "--delta", "0", "--no-controls")
pytestmark = pytest.mark.usefixtures("small_campus")


@pytest.mark.parametrize("word", ["auto", "edgerand", "lapgraph", "lpgnet"])
def test_a_run_without_delta_from_training_to_report(sfumato, tmp_path, word):
    told = sfumato("train", word, *PURE, "--json", "--out", tmp_path / "run")
    assert told.code == 0, told.err
    privacy = json.loads(told.out)["privacy"]
    assert privacy["delta"] == 0
    assert privacy["epsilon"] <= 2
    said = sfumato("verify", tmp_path / "run")
    assert said.code == 0
    assert "claim: epsilon 2, delta 0" in said.out
    assert sfumato("report", tmp_path / "run").code == 0
    page = next((tmp_path / "run" / "reports").glob("*.html")).read_text()
    assert ("any number" in page) == (word in ("edgerand", "lapgraph"))


def test_methods_that_need_a_delta_say_so_before_anything_is_written(refused, tmp_path):
    refused(
        "Expected budget to have a delta above 0 for method 'gap'", "train", "gap", *PURE, "--out", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()


def test_a_ledger_of_runs_without_delta(sfumato, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.jsonl")
    first = ("train", "lpgnet", *PURE, *ledger, "--total-epsilon", "5", "--out", tmp_path / "one")
    told = sfumato(*first)
    assert (told.code, "The run claims no delta: pass --total-delta" in told.err) == (2, True)
    assert not ledger[1].exists()
    assert sfumato(*first, "--total-delta", "0").code == 0
    assert sfumato("train", "edgerand", *PURE, *ledger, "--out", tmp_path / "two").code == 0
    spent = read_account(ledger[1]).spent()
    assert float(spent["delta"]) == 0
    assert float(spent["epsilon"]) <= 4
    told = sfumato("train", "edgerand", *PURE, *ledger, "--out", tmp_path / "three")
    assert (told.code, "short by" in told.err) == (1, True)


def test_tuning_asks_for_a_delta_and_says_what_needs_none(refused, tmp_path):
    tune = ("tune", "label-messages", "--dataset", "campus", "--unit", "edge", "--epsilon", "2", "--delta", "0")
    refused("Expected delta to be above 0 for a choice among settings", *tune, "--out", tmp_path / "t")


def test_tuning_without_gaussian_noise_says_what_it_costs(sfumato, tmp_path):
    told = sfumato("tune", "edgerand", *PURE[:-3], "--delta", "1e-6", "--dry-run", "--json", "--out", tmp_path / "t")
    assert told.code == 0, told.err
    rows = json.loads(told.out)["candidates"]
    assert all(row["noise_multiplier"] > row["untuned"] > 0 for row in rows)
