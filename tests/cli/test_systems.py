"""One command for each system of the sources, as docs/experiments.md lists them: each one is parsed and makes its method."""

import re
import shlex
import tomllib
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sfumato.catalog import WORDS, explained, method_for, words_with
from sfumato.cli._parse import checks, parse
from sfumato.cli._pate_options import PateOptions, asked_of_student, student_settings
from sfumato.cli._table import rows
from sfumato.datasets.images import from_arrays
from sfumato.experiments._spec import SPECS
from sfumato.graph import campus
from sfumato.method._settings import settings_of
from sfumato.pate._plan import STUDENTS

PAGE = Path(__file__).parents[2] / "docs" / "experiments.md"
PAIRS = {"link-prediction": "pgc-links"}
CAMPUS = campus().with_split()
IMAGES = from_arrays(np.zeros((4000, 28, 28), np.uint8), np.arange(4000) % 10).changed(cells=np.arange(4000) // 40)
IMAGES = IMAGES.with_split()
COMMANDS = re.findall(r"^\| .* \| `sfumato (.*)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("train ")])
def test_a_method_is_reached_by_its_command(command, sfumato, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("sfumato.cli._train._train", lambda options, *_: seen.append(options))
    words = shlex.split(command)
    unit = words[words.index("--unit") + 1] if "--unit" in words else "none"
    budget = () if unit == "none" else ("--epsilon", "8", "--delta", "1e-5")
    done = sfumato(*words, "--dataset", "campus", *budget, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    (options,) = seen
    for check in checks(options):
        check()
    made = method_for(options.method, asdict(options))
    assert made.name == WORDS[options.method] or options.preset is not None
    known = settings_of(type(made))
    for name, _, value in (one.partition("=") for one in options.set):
        assert known[name]._replace(default=vars(made)[name]).usual == value
    if options.task == "node":
        request = parse(options).request
        graph = IMAGES if options.method in (*words_with("network"), "scattering") else CAMPUS
        unit = request.unit_on(graph)
        plan = made.calibrate(request.budget, unit, graph.public_facts(unit, assume_public=True))
        assert plan.unit == unit  # the budget pays for the default settings, or for those that the page names


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("pate run")])
def test_a_student_is_reached_by_its_command(command):
    words = shlex.split(command)
    given = [word for flag, word in pairwise(words) if flag == "--set"]
    name = words[words.index("--student") + 1]
    assert list(asked_of_student(name, given)) == [one.partition("=")[0] for one in given]


def test_every_setting_of_a_published_table_has_an_option_or_a_name_for_set():
    """Of PATE a few words of a specification choose rows and labels of an experiment, not of a run."""
    known = {}
    for word, method in WORDS.items():
        known.setdefault(method, set()).update(explained(word))
    known["lpgnn"] |= set(explained("lpgnn", "lpgnn-2021"))
    known["pate"] = {*rows(PateOptions), "votes", "rows", "labels"}
    known["pate"] |= {f"student_{name}" for student in STUDENTS for name in student_settings(student)}
    named = [
        (run["method"], set(run.get("settings", {})))
        for path in SPECS.glob("*.toml")
        for run in tomllib.loads(path.read_text(encoding="utf-8"))["run"]
    ]
    assert len(named) > 500
    assert {(method, *names - known[PAIRS.get(method, method)]) for method, names in named} == {
        (method,) for method, _ in named
    }


def test_the_page_has_the_systems():
    assert len(COMMANDS) > 35
    assert {one.split()[0] for one in COMMANDS} == {"train", "pate", "invert", "attack", "budget"}
