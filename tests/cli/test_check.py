"""`sfumato check` and `train --dry-run`: all problems at once, the plan, what to expect; nothing is spent or written."""

import json

import numpy as np
import pytest

COUNT = 120
BUDGET = ("--epsilon", "4", "--delta", "1e-5", "--no-controls")
SOUND = ("--drop", "joined", "--drop", "mixed", "--unit", "edge")  # columns that cannot be read are left out


@pytest.fixture
def files(tmp_path):
    """Tables of 120 customers, with a column of dates and one of two kinds; the options that name them."""
    coins = np.random.default_rng(0)
    rows = [
        f"c{v},{20 + v % 50},{'oslo' if v % 2 else 'rome'},2024-01-{1 + v % 28:02d},{v if v % 2 else 'abc'},"
        f"{'yes' if v % 12 == 0 else 'no'}"
        for v in range(COUNT)
    ]
    (tmp_path / "n.csv").write_text("\n".join(["id,age,city,joined,mixed,churned", *rows]) + "\n")
    pairs = coins.integers(COUNT, size=(400, 2))
    (tmp_path / "e.csv").write_text("from,to\n" + "".join(f"c{u},c{v}\n" for u, v in pairs))
    return ("--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv", "--label", "churned")


def test_all_problems_are_listed_at_once_and_nothing_is_written(files, sfumato, tmp_path):
    before = sorted(tmp_path.iterdir())
    asked = ("auto", *files, "--unit", "node", "--max-degree", "8", *BUDGET)
    done = sfumato("check", *asked)
    assert done.code == 2
    said = done.out.split("Problems: 3\n")[1]
    for number, part in enumerate(
        ("column 'joined'", "column 'mixed'", "no range of age; no categories of city; no classes"), 1
    ):
        assert f"  {number}. Expected " in said
        assert part in said
    assert f"sfumato data describe {files[1]} {files[3]} --write-schema" in said
    assert "The rest was looked at without joined, mixed." in said
    for line in ("age: number", "city: 2 categories", "churned: label, 2 classes", "joined: left out"):
        assert line in done.out
    assert "Cost: epsilon = " in done.out
    assert "releases " in done.out
    assert said.endswith("Nothing was spent, and nothing was written.\n")
    assert sorted(tmp_path.iterdir()) == before
    again = sfumato("train", *asked, "--dry-run")
    assert (again.code, again.out) == (2, done.out), "one path"


def test_a_sound_run_is_told_what_to_expect(files, sfumato, tmp_path):
    out = tmp_path / "run"
    asked = ("auto", *files, *SOUND, *BUDGET, "--out", out)
    done = sfumato("check", *asked)
    assert done.code == 0
    assert "Problems: none" in done.out
    assert "auto: label-messages, by unit, budget and public facts." in done.out
    assert "planetoid/cora" in done.out
    assert "Of what the graph adds, " in done.out
    assert "AUC of one rare class of auto in percent, at epsilon 4 (edge level)" in done.out
    told = json.loads(sfumato("check", *asked, "--json").out)
    assert (told["problems"], told["plan"]["method"], out.exists()) == ([], "label-messages", False)
    assert told["plan"]["privacy"]["epsilon"] <= 4
    assert {one["score"] for one in told["expected"]} == {"accuracy", "auc"}
    assert sfumato("train", *asked, "--json").code == 0
    used = sfumato("check", *asked)
    assert (used.code, "Problems: 1\n" in used.out) == (2, True), "the folder is there now"


def test_the_settings_that_count_are_listed_and_whose_figures_these_are(files, sfumato):
    asked = ("check", "gap", *files, *SOUND, *BUDGET)
    done = sfumato(*asked, "--set", "width=3")
    listed = (
        "  Settings: width=3, epochs=none, learning_rate=0.01, num_hops=none, encoder=true, combine=cat, by_type=false."
    )
    assert listed.split() == done.out[done.out.index("  Settings:") :].split()[: len(listed.split())]
    assert "No public figure is kept for gap with these settings. Below are those of auto." in done.out
    told = json.loads(sfumato(*asked, "--set", "width=3", "--json").out)
    assert (told["plan"]["settings"]["width"], {one["method"] for one in told["expected"]}) == (3, {"auto"})
    assert "No public figure is kept for" not in sfumato("check", "auto", *files, *SOUND, *BUDGET).out
    local = sfumato("check", "lpgnn", *files, "--epsilon-y", "1").out
    assert "Settings: epsilon_x=0, epsilon_y=1, label_mechanism=subset.\n" in local
    assert "lpgnn: hybrid" not in local


def test_a_wrong_setting_hides_no_other_problem(files, sfumato):
    done = sfumato("check", "gap", *files, "--unit", "edge", *BUDGET, "--set", "batch_size=9", "--threads", "0")
    said = done.out.split("Problems: 4\n")[1]
    for part in ("--set batch_size only where labels are private", "threads", "column 'joined'", "column 'mixed'"):
        assert part in said


def test_wrong_options_are_told_beside_what_the_tables_hold(files, sfumato, tmp_path):
    asked = ("gap", *files, "--unit", "edge", "--threads", "0", "--public-degrees")
    done = sfumato("check", *asked, "--sign-key", tmp_path / "none.pem")
    assert done.code == 2
    for part in ("threads", "--public-degrees", "--epsilon", "--delta", "column 'joined'", "column 'mixed'"):
        assert part in done.out.split("Problems: 5\n")[1], part
    key = sfumato("check", "gap", *files, *SOUND, *BUDGET, "--sign-key", tmp_path / "none.pem")
    assert "sign_key" in key.out.split("Problems: 1\n")[1]
    assert sfumato("check", "nothing", *files, "--unit", "edge").code == 2
    assert sfumato("check", *files).code == 2


@pytest.mark.parametrize("epsilon", [(), ("--epsilon", "-1")])
def test_a_wrong_delta_is_told_beside_an_epsilon_that_is_wrong_or_missing(files, sfumato, epsilon):
    asked = (*files, *SOUND, *epsilon, "--delta", "2")
    said = sfumato("check", "gap", *asked).out.split("Problems: 2\n")[1]
    assert "epsilon" in said
    assert "Expected delta to be a finite number >= 0 and < 1, got 2.0" in said


def test_edges_that_cannot_be_read_hide_no_other_problem(files, sfumato):
    files[3].write_text("from,to\nc0,nobody\n")
    done = sfumato("check", "auto", *files, "--unit", "node", *BUDGET, "--drop", "joined", "--drop", "mixed")
    said = done.out.split("Problems: 2\n")[1]
    assert "nobody" in said or "row 2" in said
    assert "no range of age" in said


def test_a_ledger_with_too_little_left_is_told(files, sfumato, tmp_path):
    ledger = ("--ledger", tmp_path / "l.jsonl")
    asked = (*files, *SOUND, *BUDGET)
    assert sfumato("check", "auto", *asked, *ledger, "--total-epsilon", "5").code == 0
    assert not (tmp_path / "l.jsonl").exists()
    run = ("train", "auto", *asked, *ledger, "--total-epsilon", "5", "--out", tmp_path / "run", "--json")
    assert sfumato(*run).code == 0
    before = (tmp_path / "l.jsonl").read_bytes()
    done = sfumato("check", "auto", *asked, *ledger)
    assert done.code == 2
    assert "left" in done.out.split("Problems: 1\n")[1]
    assert (tmp_path / "l.jsonl").read_bytes() == before


def test_other_forms_of_graphs_are_looked_at_too(sfumato, tmp_path):
    named = sfumato("check", "auto", "--dataset", "campus", "--unit", "node", "--epsilon", "8", "--delta", "1e-5")
    assert (named.code, "facebook100/" in named.out) == (0, True)
    nowhere = ("--nodes", tmp_path / "no.csv", "--edges", tmp_path / "no.csv", "--label", "y")
    missing = sfumato("check", "auto", *nowhere, "--unit", "edge", *BUDGET)
    assert (missing.code, "no.csv" in missing.out) == (2, True)
    unproved = sfumato("check", "sage", "--dataset", "campus", "--unit", "node", "--epsilon", "8", "--delta", "1e-5")
    assert (unproved.code, "sage" in unproved.out.split("Problems: 1\n")[1]) == (2, True)
    none = sfumato("check", "sage", "--dataset", "campus", "--unit", "none")
    assert (none.code, "No public figure is kept" in none.out) == (0, True)
