"""Private links from the command line: what is implied, both prices, and what is refused."""

import csv
import json

ASKED = ("--epsilon", "5")


def test_a_run_end_to_end(sfumato, tables, tmp_path):
    out, predictions, page = tmp_path / "run", tmp_path / "p.csv", tmp_path / "page.html"
    result = sfumato("train", "blink", *tables["first"], *ASKED, "--controls", "--out", out)
    assert result.code == 0
    shown = " ".join(result.out.split())
    for words in ("floor: MLP, no links", "blink (unit link)", "ceiling: GCN, links in the clear",
                  "epsilon = 5, delta = 0", "Against the floor, on the same"):  # fmt: skip
        assert words in shown, words
    assert "both of its ends report costs epsilon = 10" in (out / "guarantee.txt").read_text()
    values = json.loads((out / "evaluation" / "metrics.json").read_text())
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
