"""`sfumato attack` on a trained run: what it writes, what it says, what it leaves alone, and what it refuses."""

import json

import pytest

from sfumato import verify


@pytest.fixture
def run(small_campus, run_of):
    return run_of("gap --dataset campus --unit edge --epsilon 1 --delta 1e-6")


def test_an_attack_is_told_beside_its_baseline_and_shown_in_the_report(sfumato, run):
    before = {path: path.read_bytes() for path in sorted(run.rglob("release/*"))}
    told = json.loads(sfumato("attack", "links", run, "--set", "most=500", "--json").out)
    assert {"auc", "auc_low", "auc_high", "tpr_at_1pct_fpr", "baseline", "measures", "out"} <= told.keys()
    kept = json.loads((run / "evaluation" / "attacks" / "links.json").read_text())
    assert kept["auc"] == told["auc"]
    assert kept["settings"]["most"] == 500
    assert len(kept["curve"]["tpr"]) == 31
    assert {path: path.read_bytes() for path in sorted(run.rglob("release/*"))} == before
    assert verify.verify(run).valid
    assert sfumato("report", run).code == 0
    page = (run / "reports" / "index.html").read_text()
    assert "Attacks on the model" in page
    assert "whether two nodes are linked" in page


def test_the_sentence_says_what_is_known_without_the_model(sfumato, run, tmp_path):
    result = sfumato("attack", "membership-confidence", run, "--out", tmp_path / "one.json")
    assert result.code == 0
    assert "without the model" in result.out
    assert json.loads((tmp_path / "one.json").read_text())["attack"] == "membership-confidence"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("guess",), "Expected attack to be one of membership"),
        (("links", "--set", "speed=3"), "with a setting of attack links"),
        (("links", "--set", "most=many"), "Expected most to be a whole number, got 'many'"),
        (("links", "--set", "features=perhaps"), "Expected features to be one of true, false"),
        (("links", "--seed", "-1"), "Expected seed"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(sfumato, run, tmp_path, words, said):
    name, *rest = words
    result = sfumato("attack", name, run, *rest, "--out", tmp_path / "one.json")
    assert result.code == 2
    assert said in result.err
    assert not list(tmp_path.iterdir())


def test_a_run_without_its_source_is_attacked_on_a_named_data_set(sfumato, run, tmp_path):
    import shutil

    copy = shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(copy / "evaluation")
    for folder in (copy, tmp_path):  # the other is no run at all
        assert sfumato("attack", "membership-confidence", folder).code == 2
    assert sfumato("attack", "membership-confidence", copy, "--dataset", "campus").code == 0


def test_files_of_the_run_are_never_overwritten(sfumato, run):
    for name in ("evaluation/source.json", "manifest.json", "release", "release/links.json"):
        result = sfumato("attack", "links", run, "--out", run / name)
        assert (result.code, "outside the run folder" in result.err) == (2, True)
