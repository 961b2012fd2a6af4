"""Private links from the command line: what is implied, both prices, and what is refused."""

import csv
import json

import pytest

ASKED = ("--epsilon", "5")


def test_a_run_end_to_end(sfumato, tables, tmp_path):
    out, predictions, page = tmp_path / "run", tmp_path / "p.csv", tmp_path / "page.html"
    result = sfumato("train", "blink", *tables["first"], *ASKED, "--controls", "--out", out, "--json")
    assert result.code == 0
    values = json.loads(result.out)
    assert values["privacy"] == {
        "unit": "link", "relation": "replace", "epsilon": 5.0, "delta": 0.0, "relationship_epsilon": 10.0,
    }  # fmt: skip
    assert (values["unit"], values["method"], values["label_control"]) == ("link", "blink", None)
    assert {"floor", "ceiling"} <= {name for name, value in values.items() if value}
    assert json.loads((out / "evaluation" / "source.json").read_text())["split"] == "50/25/25"
    assert json.loads(sfumato("verify", out, "--json").out) == {
        "valid": True,
        "arrivals": 0, "problems": [], "unit": {"name": "link", "relation": "replace"},
        "claim": {"epsilon": 5.0, "delta": 0.0}, "key": None, "origin_checked": False, "caveats": [], "prices": [], "aside": [],
    }  # fmt: skip
    assert "a relationship that both ends report: epsilon 10" in sfumato("verify", out).out
    assert json.loads(sfumato("evaluate", out, "--json").out)["test_accuracy"] == values["test_accuracy"]["mean"]
    assert sfumato("predict", out, "--out", predictions).code == 0
    with predictions.open() as file:
        assert len(list(csv.DictReader(file))) == 200
    assert sfumato("report", out, "--out", page).code == 0
    text = page.read_text()
    for words in (
        "users trust nobody",
        "costs epsilon = 10",
        "Floor: MLP, no links",
        "Unit</dt><dd>link, relation replace",
    ):
        assert words in text
    assert "trusted curator" not in text
    assert "zhu2023blink" in sfumato("cite", out).out


def test_both_prices_and_both_controls_are_printed(sfumato, tables, tmp_path):
    result = sfumato("train", "blink", *tables["first"], *ASKED, "--controls", "--out", tmp_path / "run")
    assert result.code == 0
    shown = " ".join(result.out.split())
    for words in ("floor: MLP, no links", "blink (unit link)", "ceiling: GCN, links in the clear",
                  "epsilon = 5, delta = 0", "Against the floor, on the same"):  # fmt: skip
        assert words in shown, words
    assert "both of its ends report costs epsilon = 10" in (tmp_path / "run" / "guarantee.txt").read_text()


def test_the_ledger_of_a_data_set_counts_link_runs(sfumato, tables, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.jsonl", "--total-epsilon", "6")
    assert sfumato("train", "blink", *tables["first"], *ASKED, *ledger, "--out", tmp_path / "one").code == 0
    second = sfumato("train", "blink", *tables["first"], *ASKED, *ledger[:2], "--out", tmp_path / "two")
    assert second.code == 1
    assert "short by 4" in second.err


REFUSED = {
    "no budget": ((), "Expected --epsilon with blink, got none"),
    "delta": ((*ASKED, "--delta", "1e-6"), "Expected no --delta with blink"),
    "another unit": ((*ASKED, "--unit", "edge"), "Expected --unit link with blink, got edge"),
    "unit of values": ((*ASKED, "--unit", "local"), "Expected --unit link with blink, got local"),
    "unit none": (("--unit", "none"), "Expected --unit link with blink, got none"),
    "features": (
        (*ASKED, "--epsilon-x", "1"),
        "--epsilon-x with one of lpgnn, pgc, label-only, pgc-links, got method 'blink'",
    ),
    "mechanism": ((*ASKED, "--mechanism", "pgc"), "--mechanism with one of lpgnn, pgc, pgc-links, got"),
    "preset": ((*ASKED, "--preset", "lpgnn-2021"), "--preset with lpgnn, got method 'blink'"),
    "task": ((*ASKED, "--task", "link"), "--task link with method link-messages or pgc, got 'blink'"),
    "resumable": ((*ASKED, "--resumable"), "no --resumable with blink"),
    "hops": ((*ASKED, "--hops", "2"), "--hops with one of"),
    "degree": ((*ASKED, "--max-degree", "9"), "--max-degree with --unit node"),
    "negative": (("--epsilon", "-1"), "epsilon to be"),
    "directed": ((*ASKED, "--directed"), "directed to be False"),
}


@pytest.mark.parametrize(("extra", "said"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_link_privacy_is_refused(extra, said, refused, tables, tmp_path):
    refused(said, "train", "blink", *tables["first"], *extra, "--out", tmp_path / "run")
