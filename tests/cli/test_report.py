"""`sfumato report` and `sfumato cite` on runs of the command line."""

import json
import shutil
from pathlib import Path

import pytest


def test_report_of_an_edge_level_run(sfumato, trained):
    run = trained["edge"]
    released = {path: path.read_bytes() for path in (run / "release").iterdir()}
    result = sfumato("report", run)
    assert (result.code, result.err) == (0, "")
    page = (run / "reports" / "index.html").read_text()
    assert "learns at most epsilon = 2" in page or "learns at most epsilon = 1.99" in page
    for words in (
        "Confusion matrix",
        "Degree against accuracy",
        "Learning curves",
        "PCA of aggregate/2",
        "Predicted classes",
    ):
        assert words in page
    assert {path: path.read_bytes() for path in (run / "release").iterdir()} == released
    assert sfumato("verify", run).code == 0


def test_report_without_privacy(sfumato, trained, tmp_path):
    out = tmp_path / "new" / "page.html"
    result = sfumato("report", trained["none"], "--out", out, "--json")
    assert json.loads(result.out) == {"out": str(out)}
    assert "without any guarantee" in out.read_text()


def test_report_without_its_data(sfumato, trained, tmp_path):
    run = Path(shutil.copytree(trained["edge"], tmp_path / "run"))
    shutil.rmtree(run / "evaluation")
    assert sfumato("report", run).code == 0
    page = (run / "reports" / "index.html").read_text()
    assert "Confusion matrix and accuracy by degree are not shown" in page
    assert "Predicted classes are not shown" in page


@pytest.mark.parametrize(
    ("out", "fragment"), [("notes.txt", "to end in .html"), ("{run}/release/page.html", "to be outside release/")]
)
def test_wrong_outputs_are_refused(refused, trained, out, fragment):
    run = trained["edge"]
    before = sorted(run.rglob("*"))
    refused(fragment, "report", run, "--out", out.format(run=run))
    assert sorted(run.rglob("*")) == before


def test_folders_that_are_no_run_are_refused(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    refused("finished run folder", "report", tmp_path / "empty")
    refused("has no release/manifest.json. Train again", "cite", tmp_path / "absent")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "results.jsonl").write_text("")
    for command in ("report", "cite"):
        refused(
            "got results of an experiment. Write their page with `sfumato experiment report`",
            command,
            tmp_path / "small",
        )
        refused("`sfumato experiment report`", command, tmp_path / "small" / "results.jsonl")


def test_broken_evaluation_is_named(refused, trained, tmp_path):
    run = Path(shutil.copytree(trained["edge"], tmp_path / "run"))
    (run / "evaluation" / "metrics.json").write_text("{")
    refused("metrics.json", "report", run)


def test_cite(sfumato, trained):
    private, bare = sfumato("cite", trained["edge"]), sfumato("cite", trained["none"])
    assert private.code == bare.code == 0
    assert "@inproceedings{sajadmanesh2023gap," in private.out
    assert "balle2018improving" in private.out
    assert "balle2018improving" not in bare.out
