"""`sfumato audit` of a method and of a run: the certified bound beside the claim, exit codes, and what it refuses."""

import json
import textwrap
from pathlib import Path

import pytest

from sfumato.errors import InputError

SMALL = ("--size", "0.02", "--fits", "2")
CLAIM = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def run(small_campus, run_of):
    return run_of("label-messages --dataset campus --unit edge --epsilon 1 --delta 1e-6")


def test_a_method_stands_and_prints_what_scripts_read(sfumato):
    result = sfumato("audit", "label-messages", *CLAIM, *SMALL, "--json")
    told = json.loads(result.out)
    assert (result.code, told["flagged"], told["confidence"]) == (0, False, 0.999)
    assert 0.999 < told["claimed"] <= 1
    assert 0 <= told["epsilon_lower_bound"] <= 1
    assert told["evidence"]


def test_the_settings_of_a_method_are_audited(sfumato, monkeypatch):
    found = []

    def audited(method, *_, **__):
        found.append(method)
        raise InputError("Seen.")

    monkeypatch.setattr("sfumato.audit._auditor.audit", audited)
    monkeypatch.setattr("sfumato.audit._reports.audit_reports", audited)
    sfumato("audit", "gap", *CLAIM, "--hops", "1", "--set", "combine=sum")
    sfumato("audit", "lpgnn", "--epsilon-x", "1", "--epsilon-y", "1", "--mechanism", "multi-bit", "--set", "low=-1")
    assert [(one.name, one.settings.get("combine"), one.settings.get("low")) for one in found] == [
        ("gap", "sum", None), ("hybrid", None, -1.0)
    ]  # fmt: skip


def test_a_run_carries_its_audit_and_the_report_shows_it(sfumato, run):
    result = sfumato("audit", run, *SMALL)
    assert result.code == 0
    assert "does not refute it" in result.out
    assert json.loads((run / "evaluation" / "audit.json").read_text())["method"] == "label-messages"
    assert "Audit of" in (run / "evaluation" / "audit.html").read_text()
    assert sfumato("verify", run).code == 0
    sfumato("report", run)
    assert "Audit of the claim" in (run / "reports" / "index.html").read_text()


def test_a_folder_that_does_not_verify_is_flagged(sfumato, run, tmp_path):
    import shutil

    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "release" / "extra.txt").write_text("more")
    result = sfumato("audit", copy, *SMALL)
    assert result.code == 1
    assert "The verifier refuses the folder" in result.out
    assert "The claim is refuted" in result.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "to be the folder of a run, FILE.py:NAME or one of auto"),
        (("gap", "--epsilon", "1", "--delta", "1e-6"), "Expected --unit with METHOD, got none"),
        (("gap", "--unit", "edge", "--delta", "1e-6"), "Expected --epsilon and --delta with METHOD"),
        (("gap", *CLAIM, "--confidence", "0.3"), "Expected confidence"),
        (("gap", *CLAIM, "--fits", "1"), "Expected fits"),
        (("gap", *CLAIM, "--set", "widht=1"), "Did you mean 'width'"),
        (
            ("gap", *CLAIM, "--set", "batch_size=1"),
            "--set batch_size only where labels are private, got it with --unit edge",
        ),
        (("mlp", *CLAIM, "--hops", "1"), "Expected --hops with one of label-messages"),
        (("label-only", "--epsilon-y", "1", "--mechanism", "pgc"), "Expected --mechanism with one of lpgnn"),
        (("gap", "--unit", "class", "--epsilon", "1", "--delta", "1e-6"), "no bounded sensitivity"),
    ],
)
def test_wrong_options_are_refused(sfumato, words, said):
    result = sfumato("audit", *words)
    assert result.code == 2
    assert said in result.err


def test_a_local_method_is_audited_by_its_reports(sfumato):
    told = json.loads(sfumato("audit", "label-only", "--epsilon-y", "1", "--size", "0.1", "--json").out)
    assert (told["flagged"], told["claimed"]) == (False, 1.0)
    assert told["evidence"][0]["epsilon_lower_bound"] > 0


@pytest.mark.parametrize(
    "words",
    [
        ("lpgnn", "--epsilon-y", "1", "--unit", "edge"),
        ("gap", *CLAIM, "--epsilon-y", "3"),
        ("label-only", "--delta", "1e-5"),
    ],
)
def test_options_that_would_be_ignored_are_refused(sfumato, words):
    result = sfumato("audit", *words)
    assert (result.code, "Drop them" in result.err) == (2, True)


def test_a_run_states_its_own_claim(sfumato, run):
    result = sfumato("audit", run, "--epsilon", "2")
    assert (result.code, "it states them" in result.err) == (2, True)


def test_a_function_in_a_file_is_audited(sfumato, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "attacks.md").read_text()
    toys = tmp_path / "toys.py"
    text = page.partition("```python\n# toys.py\n")[2].partition("```")[0]
    toys.write_text(text.replace("default_rng()", "default_rng(0)"))
    claim = ("--epsilon", 1, "--delta", 0, "--size", 0.2)
    done = sfumato("audit", f"{toys}:bare", *claim, "--out", tmp_path / "made")
    assert done.code == 1
    assert "The claim is refuted" in done.out
    assert (tmp_path / "made" / "audit.html").exists()
    assert sfumato("audit", f"{toys}:both_ends", "--pair", "links", *claim).code == 0
    other = tmp_path / "other.py"
    other.write_text(
        textwrap.dedent("""
        def pair():
            return 1
        def release(data):
            return data
    """)
    )
    for words, said in (
        ((f"{toys}:nothing", *claim), "Define it there"),
        ((f"{other}:release", *claim), "two data sets"),
        (("missing.py:release", *claim), "Check the path"),
        ((f"{toys}:bare", "--epsilon", 1), "--epsilon and --delta"),
        ((f"{toys}:bare", *claim, "--unit", "edge"), "Expected no --unit with FILE.py:NAME"),
    ):
        done = sfumato("audit", *words)
        assert done.code == 2
        assert said in done.err
