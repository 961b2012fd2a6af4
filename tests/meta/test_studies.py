"""Studies: what pages name exists with its options, finished fits are not repeated, and the folder stays small."""

import importlib.util
import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
COMMAND = re.compile(r"(benchmarks/\w+\.py)((?: --[a-z-]+| [\w./:-]+)*)")
SHARED = ("--data-dir", "--log", "--only-print")  # options of every study, or of those with a log
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "src").rglob("*.toml"),
    ROOT / "Makefile",
]


def faults(text):
    """What commands in a text name that is not there."""
    for file, words in COMMAND.findall(text):
        path = ROOT / file
        if not path.exists():
            yield file
            continue
        code = path.read_text()
        options = [word for word in words.split() if word.startswith("--") and word not in SHARED]
        yield from (f"{file} {one}" for one in options if f"{one[2:].replace('-', '_')}=" not in code)


@pytest.fixture
def study():
    spec = importlib.util.spec_from_file_location("study", FOLDER / "study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_on_pages_exist():
    texts = {path: path.read_text() for path in PAGES if path.name != "CHANGELOG.md"}
    assert {path: found for path, text in texts.items() if (found := list(faults(text)))} == {}
    assert list(faults("benchmarks/none.py\nbenchmarks/rare.py --sets 1")) == [
        "benchmarks/none.py",
        "benchmarks/rare.py --sets",
    ]


def test_studies_and_pages_are_few():
    assert sum(len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")) <= 6000
    assert sum(path.is_file() for path in (ROOT / "docs").rglob("*")) <= 120


def test_finished_fits_are_not_repeated(study, tmp_path, capsys):
    given, asked = Namespace(log=tmp_path / "runs" / "log.jsonl", only_print=False), [("a", None, 0), ("a", 1.0, 0)]
    ran = []

    def measure(*cell):
        ran.append(cell)
        return {"score": len(ran)}

    assert study.kept(given, asked[:1], measure) == {asked[0]: {"score": 1}}
    assert study.kept(given, asked, measure) == {asked[0]: {"score": 1}, asked[1]: {"score": 2}}
    assert ran == asked
    assert [json.loads(line) for line in given.log.read_text().splitlines()][1] == ["a", 1.0, 0, {"score": 2}]
    assert "1 of 1: a 1.0 0; 0 min left" in capsys.readouterr().err
    given.only_print = True
    assert study.kept(given, [("b", None, 0)], measure) == {}


def test_a_stopped_study_says_how_to_go_on(study, tmp_path, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit, match="130"):
        study.kept(Namespace(log=tmp_path / "log.jsonl", only_print=False), [("a", 0)], stop)
    assert "the same command goes on" in capsys.readouterr().err


def test_options_take_the_type_of_their_default(study, monkeypatch):
    words = ["study", "here", "--seeds", "2", "--epsilons", "1", "4", "--runs", "one", "--quick"]
    monkeypatch.setattr(sys, "argv", words)
    given = study.options(
        "A study.", folder=Path, seeds=5, epsilons=(8.0,), runs={"one": 1, "two": 2}, quick=False, word=None
    )
    assert (given.folder, given.seeds, given.epsilons, given.runs, given.quick, given.word) == (
        Path("here"), 2, [1.0, 4.0], ["one"], True, None,
    )  # fmt: skip


def test_means_and_tables(study, capsys):
    assert (study.told([0.5, 0.52]), study.told([1.0], 1, 2), study.told([0.5, float("nan")])) == (
        "51.0 ± 12.7",
        "1.00",
        "-",
    )
    assert study.told([-0.01, 0.03], sign="+").startswith("+1.0 ± ")
    study.table(("a", "b"), [(1, 2)], "### Title")
    assert capsys.readouterr().out.split("\n")[1:5] == ["### Title", "", "| a | b |", "|---|---|"]
