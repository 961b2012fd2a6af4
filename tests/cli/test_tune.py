"""`sfumato tune`: the cost comes first, and what is shown and written never depends on how many trials there were."""

import json
import re
import time

import pytest

from sfumato.central import _tuned as tuned
from sfumato.evaluation._source import Source

SETTINGS = "[[candidate]]\nnum_hops = 1\nepochs = 1\n[[candidate]]\nnum_hops = 1\nepochs = 2\n"
BUDGET = ["--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--trials", "3"]


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "candidates.toml"
    path.write_text(SETTINGS)
    return ["--candidates", path]


def tune(sfumato, tables, settings, out, *more):
    return sfumato("tune", "gap", *tables["first"], *settings, *BUDGET, "--out", out, *more)


SCORES = ("test_scores", "test_accuracy", "test_macro_f1")


def numbers_away(text):
    """A text without accuracies and without which candidate won."""
    text = re.sub(r"(gap \(unit \w+\)) .*|All \d+ nodes are told .*", r"\1", re.sub(r"\d+\.\d %", "# %", text))
    return re.sub(r"\s+", " ", text)


def contents(run):
    """Every file: the JSON ones without what may follow from the winner; the others by size alone."""
    found = {}
    for path in sorted(run.rglob("*")):
        if path.suffix == ".json":
            values = json.loads(path.read_text())
            drawn = ("key", "digests", "roles") if path.name == "identity.json" else ()  # afresh for each run
            for key in ("settings", "files", *SCORES, "unused", "detail", "out", *drawn):
                values.pop(key, None)
            values.get("tuning", {}).pop("chosen", None)
            found[path.name] = values
        elif path.is_file():
            found[path.name] = path.read_text() if path.suffix == ".jsonl" else path.stat().st_size
    return found


def test_all_candidates_share_the_settings_that_are_given(sfumato, tables, settings, tmp_path):
    out = tmp_path / "run"
    assert tune(sfumato, tables, settings, out, "--set", "width=3", "--set", "combine=sum", "--no-controls").code == 0
    stored = json.loads((out / "release" / "spec.json").read_text())["settings"]
    assert (stored["width"], stored["combine"], stored["num_hops"]) == (3, "sum", 1)
    assert sfumato("verify", out).code == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ("--hops", "3"),
            "Expected no --hops with tune, since the default list varies it. Drop it, or list candidates of your",
        ),
        (("--set", "widht=3"), "Did you mean 'width'"),
        (("--set", "batch_size=3"), "--set batch_size only where labels are private, got it with --unit edge"),
    ],
)
def test_settings_that_tuning_tries_or_that_do_not_fit_are_refused(refused, tables, given, message):
    refused(message, "tune", "gap", *tables["first"], *BUDGET, "--dry-run", *given)


def test_a_file_of_candidates_names_the_one_that_varies_a_setting(refused, tables, settings):
    refused("candidates.toml: candidate 1 varies it", "tune", "gap", *tables["first"], *settings, *BUDGET,
            "--dry-run", "--set", "epochs=4")  # fmt: skip


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_nothing_tells_the_number_of_trials(sfumato, tables, settings, tmp_path, monkeypatch, unit):
    seen = []
    run_trial = tuned._run
    monkeypatch.setattr(tuned, "_run", lambda *args: seen.append(1) or run_trial(*args))
    results = {}
    more = ["--unit", "node", "--max-degree", "9", "--assume-public"] if unit == "node" else []
    more.append("--no-controls")
    for count in (1, 6):
        seen.clear()
        monkeypatch.setattr(tuned, "draw_trials", lambda *law, count=count: count)
        result = tune(sfumato, tables, settings, tmp_path / f"run{count}", *more)
        assert result.code == 0, result
        assert len(seen) == count
        results[count] = result
    assert results[1].err == results[6].err
    assert numbers_away(results[1].out).replace("run1", "run6") == numbers_away(results[6].out)
    assert contents(tmp_path / "run1") == contents(tmp_path / "run6")
    assert sfumato("verify", tmp_path / "run6").code == 0
    assert sfumato("evaluate", tmp_path / "run6").code == 0
    assert sfumato("predict", tmp_path / "run6").code == 0


def test_files_do_not_tell_how_long_the_trials_took(sfumato, tables, settings, tmp_path, monkeypatch):
    run_trial = tuned._run
    monkeypatch.setattr(tuned, "_run", lambda *args: time.sleep(0.2) or run_trial(*args))
    monkeypatch.setattr(tuned, "draw_trials", lambda *law: 2)
    before = time.time()
    ledger = ("--ledger", tmp_path / "l.jsonl", "--total-epsilon", 5)
    assert tune(sfumato, tables, settings, tmp_path / "run", *ledger).code == 0
    dates = {path.stat().st_mtime for path in (tmp_path / "run", *(tmp_path / "run").rglob("*"))}
    assert len(dates) == 1
    assert before < dates.pop() < (tmp_path / "l.jsonl").stat().st_mtime + 0.2
    assert sfumato("verify", tmp_path / "run").code == 0


def test_the_cost_is_shown_before_it_is_spent(sfumato, tables, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(tuned.Tuned, "run", lambda *args: pytest.fail("spent"))
    result = tune(sfumato, tables, settings, tmp_path / "run", "--dry-run")
    assert result.code == 0
    assert not (tmp_path / "run").exists()
    lines = result.err[result.err.index("Tuning") :].splitlines()
    assert "3 trials on average (logarithmic), whose number stays secret" in lines[0]
    assert re.search(r"epsilon = 3\.99\d*, delta = 1e-05, charged as one event", lines[1])
    assert re.search(r"epochs 1: noise multiplier [\d.]+, 1\.\d+ times that without tuning", lines[2])
    assert "tuning ..." not in result.err


def test_json_is_that_of_train_with_the_tuning(sfumato, tables, settings, tmp_path):
    common = [*tables["first"], "--json"]
    trained = sfumato("train", "gap", *common, *BUDGET[:-2], "--hops", 1, "--out", tmp_path / "trained")
    result = tune(sfumato, tables, settings, tmp_path / "run", "--json")
    values = json.loads(result.out)
    assert values.keys() == json.loads(trained.out).keys() | {"tuning"}
    assert (values["tuning"]["rule"], values["tuning"]["mean_trials"]) == ("logarithmic", 3.0)
    assert values["tuning"]["chosen"]["epochs"] in (1, 2)
    assert set(values["seconds"].values()) == {values["peak_mb"]} == {None}
    assert 3.99 < values["privacy"]["epsilon"] <= 4
    assert result.err.index("Cost of everything") < result.err.index("tuning ...")
    certificate = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text())
    assert certificate["settings"] == values["tuning"]["chosen"]
    dry = sfumato("tune", "gap", *common, *settings, *BUDGET, "--dry-run")
    assert json.loads(dry.out)["privacy"]["epsilon"] == values["privacy"]["epsilon"]


def test_the_data_sets_ledger_is_charged_once(sfumato, tables, settings, tmp_path):
    ledger = ["--ledger", tmp_path / "people.jsonl", "--total-epsilon", 5]
    assert tune(sfumato, tables, settings, tmp_path / "run", *ledger).code == 0
    assert Source.ledger_of(tmp_path / "run") == str(tmp_path / "people.jsonl")  # which a later charge asks for
    refused = tune(sfumato, tables, settings, tmp_path / "again", *ledger)
    assert refused.code == 1
    assert "epsilon" in refused.err
    assert not (tmp_path / "again" / "release" / "manifest.json").exists()


def test_an_empty_selection_says_so_and_stays_charged(sfumato, tables, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(tuned, "draw_trials", lambda *law: 0)
    result = tune(sfumato, tables, settings, tmp_path / "run", "--rule", "poisson")
    assert result.code == 1
    assert "came out empty" in result.err
    assert [path.name for path in (tmp_path / "run" / "release").iterdir()] == ["ledger.jsonl"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[candidate]]\nnum_hop = 1\n", "'num_hops'"),
        ("[[candidates]]\nnum_hops = 1\n", "Did you mean 'candidate'"),
        ("[[candidate]]\nnum_hops = 0\n[[candidate]]\n", "candidate 1: Expected num_hops"),
        ("[[candidate]]\nnum_hops = 2\n", "at least two"),
        ("[[candidate]]\nnum_hops = 2\n[[candidate]]\nnum_hops = 2\n", "all different"),
        ("candidate = 3\n", "[[candidate]]"),
        ("[[candidate]\n", "to be TOML"),
        ("", "at least two"),
    ],
)
def test_a_wrong_list_is_refused(refused, tables, tmp_path, text, said):
    path = tmp_path / "candidates.toml"
    path.write_text(text)
    arguments = [*tables["first"], *BUDGET, "--out", tmp_path / "run"]
    refused(said, "tune", "gap", "--candidates", path, *arguments)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--trials", "1"], "mean_trials"),
        (["--trials", "20000"], "mean_trials"),
        (["--rule", "uniform"], "logarithmic"),
        (["--epsilon", "1e-4"], "noise multipliers"),
        (["--candidates", "missing.toml"], "missing.toml"),
        (["--unit", "record"], "no bounded sensitivity"),
        (["--split", "90/0/10"], "validation nodes"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(refused, tables, tmp_path, change, said):
    refused(said, "tune", "gap", *tables["first"], *BUDGET, "--out", tmp_path / "run", *change)


def test_a_method_without_privacy_is_refused(refused, tables, tmp_path):
    named = "one of label-messages, progap, gap, lpgnet, edgerand, lapgraph, mlp, linear, scattering, graph-split, dpgnn, dpar"
    asked = (*tables["first"], *BUDGET)
    refused(f"{named}, got 'sage'", "tune", "sage", *asked, "--out", tmp_path / "run")
    refused(f"Expected METHOD with tune, got none. Name {named}.", "tune", *asked)


def test_nothing_is_charged_for_what_reads_no_edge(sfumato, tables):
    result = sfumato("tune", "mlp", *tables["first"], *BUDGET, "--dry-run")
    assert "epsilon = 0, delta = 0, so nothing is charged." in result.err
    assert "charged as one event" not in result.err
