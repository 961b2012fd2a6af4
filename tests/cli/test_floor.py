"""The floor of a run is named by the command that releases it, and saved beside the run where it spends nothing."""

import json
from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.method.card import FLOORS
from sfumato.record.release_folder import read_release

EDGE = ("--unit", "edge", "--epsilon", "0.1", "--delta", "1e-6")


@pytest.fixture(scope="module", autouse=True)
def one_floor():
    """The graph-free floor is the only control, so that runs are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sf.LabelMessages, "card", replace(sf.LabelMessages.card, controls=FLOORS[:1]))
        yield


def test_a_saved_floor_is_what_its_own_command_gives(tables, sfumato, tmp_path):
    run, floor, alone = (tmp_path / name for name in ("run", "floor", "alone"))
    told = sfumato("train", "label-messages", *tables["first"], *EDGE, "--save-floor", floor, "--out", run)
    assert told.code == 0, told.err
    assert f"The floor is saved in {floor}." in told.out
    assert "VALID" in sfumato("verify", floor).out
    assert sfumato("predict", floor).code == sfumato("evaluate", floor).code == 0
    release = json.loads((run / "evaluation" / "metrics.json").read_text())["floor_release"]
    assert (release["epsilon"], release["saved"]) == (0.0, str(floor))
    command = release["command"].split()[1:]
    assert command[:2] == ["train", "graph-free"]
    assert sfumato(*command[:-1], alone, "--no-controls").code == 0
    saved, bought = (read_release(one) for one in (floor, alone))
    assert saved.certificate["claim"] == bought.certificate["claim"] == {"epsilon": 0.0, "delta": 0.0}
    assert saved.certificate["releases"] == []
    assert all((bought.weights[name] == array).all() for name, array in saved.weights.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-controls",), "with controls"),
        (("--unit", "node"), "Buy it, beside what this run spends: sfumato train linear --nodes"),
        (("--unit", "none"), "trusted curator"),
        (("--save-floor", "RUN/floor"), "apart from --out"),
    ],
)
def test_a_floor_that_is_not_free_is_refused_before_anything_is_spent(tables, refused, tmp_path, words, message):
    run = tmp_path / "run"
    words = [word.replace("RUN", str(run)) for word in words]
    budget = ("--unit", "none") if "none" in words else EDGE
    command = ("train", "label-messages", *tables["first"], *budget, "--save-floor", tmp_path / "floor", *words)
    refused(message, *command, "--out", run)
    assert not run.exists()
    assert not (tmp_path / "floor").exists()
