"""`sfumato pate run --set NAME=VALUE` and `sfumato pate students`: every setting of every student, from the command line."""

import json
from types import SimpleNamespace

import pytest

from sfumato.cli._pate_options import asked_of_student, complete_student_setting, student_settings
from sfumato.errors import InputError
from sfumato.pate._plan import STUDENTS


@pytest.mark.parametrize("name", STUDENTS)
def test_every_setting_has_a_meaning_and_reads_its_own_default(name):
    known = student_settings(name)
    for setting in known.values():
        assert setting.meaning.endswith("."), setting.name
        assert setting.read(setting.usual) == setting.default
    assert asked_of_student(name, [f"{one.name}={one.usual}" for one in known.values()]) == {
        one.name: one.default for one in known.values()
    }


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("pate-plus", "noise_rat=0.3", "Did you mean 'noise_rate'\\? `sfumato pate students pate-plus` explains them"),
        ("pate-plus", "noise_rate=2", "Expected noise_rate to be a finite number"),
        ("pate-plus", "widths=0", "Expected widths"),
        ("pate-plus", "widths=a,b", "Expected setting widths to be integers with commas between, got 'a,b'"),
        ("pate-plus", "seed=3", "Expected --set with pate-plus to be one of"),
        ("consistency", "threshold=3", "Expected threshold to be"),
        ("pate", "epochs=3", "Expected --student to be one of"),
    ],
)
def test_wrong_settings_are_refused(name, given, message):
    with pytest.raises(InputError, match=message):
        asked_of_student(name, (given,))


def test_settings_reach_the_student_and_the_release(sfumato, pate, tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.pate._run.QUICK", {"pate-plus-plus": {"epochs": 3}})
    words = ("--student", "pate-plus-plus", "--set", "epochs=1", "--set", "noise_rate=0.4", "--set", "removal=0.2")
    out = tmp_path / "run"
    done = sfumato(*pate, *words, "--set", "widths=4,4", "--set", "batch_size=10", "--out", out)
    assert done.code == 0, done.err
    stored = json.loads((out / "release" / "spec.json").read_text())["settings"]["student"]
    held = {name: stored[name] for name in ("epochs", "noise_rate", "removal", "widths")}
    assert held == {"epochs": 1, "noise_rate": 0.4, "removal": 0.2, "widths": [4, 4]}
    assert sfumato("verify", out).code == 0


def test_a_wrong_setting_costs_nothing(refused, pate, tmp_path):
    refused(
        "Expected noise_rate to be", *pate, "--student", "pate-plus", "--set", "noise_rate=7", "--out", tmp_path / "o"
    )


def test_students_are_listed_and_explained(sfumato):
    assert "pate-plus-plus: PATE++ trains PATE+" in sfumato("pate", "students").out
    shown = sfumato("pate", "students", "pate-plus-plus").out
    assert "removal: a number (default: 0.318)" in shown
    assert "sfumato pate run --student pate-plus-plus --set" in shown
    told = json.loads(sfumato("pate", "students", "gan", "--json").out)
    assert [one["name"] for one in told["settings"]] == list(student_settings("gan"))
    assert list(json.loads(sfumato("pate", "students", "--json").out)) == list(STUDENTS)
    assert sfumato("pate", "students", "nobody").code == 2


def test_settings_are_completed():
    context = SimpleNamespace(params={"student": "pate-plus-plus"})
    assert {name for name, _ in complete_student_setting(context, "re")} == {"removal="}
    assert not list(complete_student_setting(SimpleNamespace(params={"student": "x"}), "re"))
