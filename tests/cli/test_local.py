"""Locally private methods from the command line: what is implied, printed, written, charged and refused."""

import csv
import json

import pytest

from sfumato.cli import invoke

ASKED = ("--epsilon-y", "1")
BOTH = ("--epsilon-x", "2", *ASKED)


def loads(text):
    assert text.count("\n") == 1
    return json.loads(text)


@pytest.fixture(scope="module")
def trained(tables, tmp_path_factory):
    """A label-only run on the first graph; tests must not write into it."""
    out = tmp_path_factory.mktemp("local") / "run"
    assert invoke(["train", "label-only", *tables["first"], *ASKED, "--out", str(out), "--json"]) == 0
    return out


def test_a_local_run_end_to_end(sfumato, tmp_path):
    out = tmp_path / "run"
    result = sfumato("train", "label-only", "--dataset", "campus", *ASKED, "--out", out, "--threads", "1", "--json")
    assert (result.code, result.err) == (0, "")
    values = loads(result.out)
    assert values["privacy"] == {
        "unit": "local", "relation": "replace", "epsilon": 1.0, "delta": 0.0, "epsilon_x": 0.0, "epsilon_y": 1.0,
    }  # fmt: skip
    assert (values["unit"], values["method"], values["floor"], values["label_control"]) == (
        "local",
        "label-only",
        None,
        None,
    )
    assert values["test_accuracy"]["mean"] > 0.6
    assert values["ceiling"]["mean"] > 0.6
    assert values["graph_gain_recovered"] is None
    assert json.loads((out / "evaluation" / "source.json").read_text())["split"] == "50/25/25"
    assert loads(sfumato("verify", out, "--json").out) == {"valid": True, "problems": []}
    assert loads(sfumato("evaluate", out, "--json").out)["test_accuracy"] == values["test_accuracy"]["mean"]


def test_what_follows_training_works(trained, sfumato, tmp_path):
    predictions, page = tmp_path / "p.csv", tmp_path / "page.html"
    assert sfumato("predict", trained, "--out", predictions).code == 0
    with predictions.open() as file:
        assert len(list(csv.DictReader(file))) == 200
    assert sfumato("report", trained, "--out", page).code == 0
    text = page.read_text()
    assert "users trust nobody" in text
    assert "delta = 0" in text
    assert "sum over a user" in text
    assert "trusted curator" not in text
    assert "kondor2002diffusion" in sfumato("cite", trained).out


def test_lpgnn_stands_beside_labels_alone_and_features_that_tell_nothing(sfumato, tables, tmp_path):
    options = ("--preset", "lpgnn-2021", *BOTH, "--controls", "--threads", "1")
    result = sfumato("train", "lpgnn", *tables["first"], *options, "--out", tmp_path / "run")
    assert result.code == 0
    for words in ("floor: features that tell nothing", "control: labels alone", "control: no graph", "ceiling: GraphSAGE",
                  "lpgnn (unit local)", "epsilon = 3, delta = 0", "feature-reports 2, label-reports 1"):  # fmt: skip
        assert words in " ".join(result.out.split()), words
    values = json.loads((tmp_path / "run" / "evaluation" / "metrics.json").read_text())
    assert {"floor", "label_control", "mlp", "ceiling"} <= {key for key, value in values.items() if value}
    assert values["privacy"]["epsilon"] == 3.0


def test_lpgnn_is_the_hybrid_unless_a_preset_is_named(sfumato, tables, tmp_path):
    result = sfumato("train", "lpgnn", *tables["first"], *BOTH, "--controls", "--out", tmp_path / "run", "--json")
    assert result.code == 0
    values = loads(result.out)
    assert (values["method"], values["privacy"]["epsilon"]) == ("hybrid", 3.0)
    assert all(values[name] for name in ("floor", "label_control", "mlp", "ceiling"))
    assert sfumato("verify", tmp_path / "run").code == 0


def test_pgc_prints_what_a_user_spends_beside_what_a_feature_does(sfumato, tables, tmp_path):
    result = sfumato("train", "pgc", *tables["first"], "--epsilon-x", "1", "--out", tmp_path / "run", "--json")
    assert result.code == 0
    assert loads(result.out)["privacy"] == {
        "unit": "local", "relation": "replace", "epsilon": 4.0, "delta": 0.0, "epsilon_x": 1.0, "epsilon_y": None,
        "per_feature": True,
    }  # fmt: skip
    certificate = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text())
    assert certificate["unit"]["labels"] is False
    assert "on each of the 4 features" in certificate["caveats"][0]
    assert sfumato("verify", tmp_path / "run").code == 0


def test_everything_in_the_clear_is_unit_none(sfumato, tables, tmp_path):
    out, clear = tmp_path / "run", ("--epsilon-x", "inf", "--epsilon-y", "inf")
    result = sfumato("train", "pgc", *tables["first"], *clear, "--out", out, "--json")
    assert result.code == 0
    privacy = loads(result.out)["privacy"]
    assert (privacy["unit"], privacy["epsilon"], privacy["epsilon_x"], privacy["epsilon_y"]) == (
        "none",
        None,
        None,
        None,
    )
    assert sfumato("verify", out).code == 0


def test_gaussian_noise_takes_a_delta(sfumato, tables, tmp_path):
    options = ("--preset", "lpgnn-2021", *BOTH, "--mechanism", "gaussian", "--delta", "1e-6")
    result = sfumato("train", "lpgnn", *tables["first"], *options, "--out", tmp_path / "run", "--json")
    assert result.code == 0
    privacy = loads(result.out)["privacy"]
    assert privacy["epsilon"] == pytest.approx(3, rel=1e-6)
    assert privacy["epsilon"] <= 3
    assert privacy["delta"] == 1e-6
    assert sfumato("verify", tmp_path / "run").code == 0


def test_links_have_scores_and_no_release(sfumato, tables, tmp_path):
    out = tmp_path / "run"
    result = sfumato("train", "pgc", "--task", "link", *tables["first"], "--epsilon-x", "1", "--out", out, "--json")
    assert result.code == 0
    values = loads(result.out)
    assert (values["task"], values["privacy"]["epsilon"], values["privacy"]["epsilon_x"]) == ("link", 4.0, 1.0)
    assert 0 <= values["test_auc"]["mean"] <= 1
    assert {path.name for path in out.iterdir()} == {"evaluation"}


def test_the_ledger_of_a_data_set_counts_local_runs(sfumato, tables, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.jsonl", "--total-epsilon", "1.5")
    first = sfumato("train", "label-only", *tables["first"], *ASKED, *ledger, "--out", tmp_path / "one")
    assert first.code == 0
    shown = loads(sfumato("ledger", "show", tmp_path / "ledger.jsonl", "--json").out)
    assert shown["spent"] == {"epsilon": 1.0, "delta": 0.0}
    second = sfumato("train", "label-only", *tables["first"], *ASKED, *ledger[:2], "--out", tmp_path / "two")
    assert second.code == 1
    assert "short by 0.5" in second.err


REFUSED = {
    "no budget": ((), "Expected --epsilon-y with label-only"),
    "one epsilon": ((*ASKED, "--epsilon", "1"), "--epsilon-x and --epsilon-y with label-only"),
    "delta": ((*ASKED, "--delta", "1e-6"), "--delta with --mechanism gaussian only"),
    "another unit": ((*ASKED, "--unit", "edge"), "Expected --unit local with label-only"),
    "unit none": ((*ASKED, "--unit", "none"), "Expected --unit local with label-only"),
    "unit local in the clear": (("--epsilon-y", "inf", "--unit", "local"), "or none with both epsilons inf"),
    "features": (BOTH, "epsilon_x to be 0 for label-only"),
    "resumable": ((*ASKED, "--resumable"), "no --resumable with label-only"),
    "mechanism": ((*ASKED, "--mechanism", "pgc"), "no --mechanism with label-only"),
    "preset": ((*ASKED, "--preset", "lpgnn-2021"), "--preset lpgnn-2021 with lpgnn"),
    "links": ((*ASKED, "--task", "link"), "--task link with method pgc"),
    "hops": ((*ASKED, "--hops", "2"), "--hops with one of"),
    "degree": ((*ASKED, "--max-degree", "9"), "--max-degree with --unit node"),
    "negative": (("--epsilon-y", "-1"), "epsilon_y"),
}


@pytest.mark.parametrize(("extra", "said"), REFUSED.values(), ids=REFUSED)
def test_what_contradicts_local_privacy_is_refused(extra, said, refused, tables, tmp_path):
    refused(said, "train", "label-only", *tables["first"], *extra, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("method", "extra", "said"),
    [
        ("lpgnn", ("--preset", "lpgnn-2020", *BOTH), "preset to be one of lpgnn-2021, pgc-2020"),
        ("lpgnn", ("--preset", "lpgnn-2021", *ASKED), "Expected --epsilon-x with lpgnn"),
        ("lpgnn", ("--preset", "lpgnn-2021", "--mechanism", "magic", *BOTH), "mechanism to be one of multi-bit"),
        ("pgc", ("--preset", "lpgnn-2021", *BOTH), "--preset lpgnn-2021 with lpgnn"),
        ("gap", ("--epsilon-x", "1", "--unit", "edge"), "--epsilon-x with one of lpgnn, pgc, label-only"),
        ("gap", ("--unit", "local"), "--unit local with one of lpgnn, pgc, label-only"),
        ("gap", ("--unit", "link"), "--unit link with one of blink, got method 'gap'"),
        ("lpgnn", ("--unit", "link", *BOTH), "Expected --unit local with lpgnn"),
        ("gap", ("--task", "link", "--unit", "edge"), "--task with one of"),
    ],
)
def test_options_of_one_family_are_refused_with_the_other(method, extra, said, refused, tables, tmp_path):
    refused(said, "train", method, *tables["first"], *extra, "--out", tmp_path / "run")
