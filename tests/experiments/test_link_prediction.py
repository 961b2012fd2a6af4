"""Link prediction in specifications: links are held out by the seed, the score is the AUC, and each fit says what users spend."""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import DataError
from sfumato.experiments import _cells as cells
from sfumato.experiments._results import read, summarize
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.report import experiment_markdown

LINKS = """
[[run]]
label = "reports"
method = "link-prediction"
unit = "local"
settings = { max_epochs = 20 }
vary = "epsilon_x"
values = [2, 4]

[[run]]
label = "in the clear"
method = "link-prediction"
unit = "none"
role = "ceiling"
settings = { epsilon_x = "inf", max_epochs = 20 }

[[published]]
label = "reports"
at = 4
value = 80
source = "Table 1"
"""


@pytest.fixture
def path(spec_file):
    return spec_file("held-out", LINKS, split="85/5/10", seeds=2, axis="epsilon_x")


@pytest.fixture
def finished(path, tmp_path, monkeypatch):
    """The specification and the results of its two seeds."""
    graph = stochastic_block_model(150, 3, mean_degree=8, homophily=0.9, num_features=6, seed=1)
    monkeypatch.setattr(cells, "_load", lambda *_: replace(graph, x=(graph.x > 0).astype(np.float32)))
    spec = Spec.read(path)
    return spec, run(spec, tmp_path / "out").path


def test_cells_are_scored_by_auc_and_say_what_a_user_spends(finished):
    spec, path = finished
    two, four, clear = (row for row in read(path) if row["seed"] == 0)
    assert all(0.5 < row["metrics"]["auc"] <= 1 for row in (two, four, clear))
    assert [round(row["certificate"]["claim"]["epsilon"], 3) for row in (two, four)] == [12, 24]  # 6 features
    assert two["certificate"]["protects"].startswith("one user's features,")
    assert [release["name"] for release in two["certificate"]["releases"]] == ["feature-reports"]
    assert "each of the 6 features" in two["certificate"]["caveats"][0]
    assert any("exceeds 10" in caveat for caveat in two["certificate"]["caveats"])
    assert clear["certificate"] is None
    lines = summarize(read(path), spec)
    assert [(line.at, line.seeds, line.macro_f1) for line in lines] == [(2, 2, None), (4, 2, None), (None, 2, None)]
    assert lines[1].mean == np.mean([row["metrics"]["auc"] for row in read(path) if row["at"] == 4])


def test_its_page_speaks_of_auc(finished):
    spec, path = finished
    page = experiment_markdown(spec, read(path))
    assert "85/5/10, train/validation/test percent of links" in page
    assert "Test AUC in percent" in page
    assert "AUC against epsilon of features" in page
    assert "writes no certificate" in page
    assert "accuracy" not in page.replace("held-out-accuracy.svg", "").lower()


def test_a_line_without_auc_is_no_result(finished):
    _, path = finished
    path.write_text(path.read_text().replace('"auc"', '"accuracy"'))
    with pytest.raises(DataError, match="line 1 of"):
        read(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"85/5/10"', '"50/25/25"', "a specification of its own, with split 85/5/10"),
        ('"link-prediction"\nunit = "none"\nrole = "ceiling"\nsettings = { epsilon_x = "inf", max_epochs = 20 }',
         '"sage"\nunit = "none"', "a specification of its own"),
        ('unit = "local"', 'unit = "none"', "unit to be local, as epsilon_x needs, got 'none'"),
        ('unit = "none"', 'unit = "local"', "unit to be none, as epsilon_x needs"),
        ("{ max_epochs = 20 }", "{ max_epoch = 20 }", "setting of link-prediction .*Did you mean 'max_epochs'"),
        ("{ max_epochs = 20 }", "{ max_epochs = 0 }", "max_epochs to be an integer >= 1"),
        ("{ max_epochs = 20 }", '{ max_epochs = 20 }\npreset = "pgc-2020"', "method to come without a preset"),
        ('unit = "local"', 'unit = "local"\nepsilons = [1]', "epsilons to be left out with unit local"),
        ("values = [2, 4]", "values = [2, 4, -1]", "epsilon_x"),
    ],
)  # fmt: skip
def test_what_contradicts_link_prediction_is_refused(path, contradicts, old, new, said):
    contradicts(path, old, new, said)


def test_the_page_says_what_the_reports_protect_and_no_label(finished):
    spec, path = finished
    text = experiment_markdown(spec, read(path))
    assert "one user's features, from everyone" in text.partition("## AUC")[0]
    assert "features and label" not in text
