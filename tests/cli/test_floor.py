"""The floor of a run is named by the command that releases it, and saved beside the run where it spends nothing."""

import json

import pytest

from sfumato.central import _rows as heads
from sfumato.cli._options import Options
from sfumato.cli._table import DATA, NEEDED, RECORD, rows
from sfumato.record._release_folder import read_release

EDGE = ("--unit", "edge", "--epsilon", "0.1", "--delta", "1e-6")
pytestmark = pytest.mark.usefixtures("one_floor")


def test_a_saved_floor_is_what_its_own_command_gives(tables, sfumato, tmp_path):
    run, floor, alone = (tmp_path / name for name in ("run", "floor", "alone"))
    told = sfumato("train", "label-messages", *tables["first"], *EDGE, "--save-floor", floor, "--out", run)
    assert told.code == 0, told.err
    assert f"The floor is saved in {floor}." in told.out
    assert "VALID" in sfumato("verify", floor).out
    assert sfumato("predict", floor).code == sfumato("evaluate", floor).code == 0
    beside = json.loads(sfumato("evaluate", run, "--json").out)
    assert beside["control_scores"]["floor"] == json.loads(sfumato("evaluate", floor, "--json").out)["test_scores"]
    assert f"Its floor, in {floor}: accuracy" in sfumato("evaluate", run).out
    release = json.loads((run / "evaluation" / "metrics.json").read_text())["floor_release"]
    assert (release["epsilon"], release["saved"]) == (0.0, str(floor))
    command = release["command"].split()[1:]
    assert command[:2] == ["train", "graph-free"]
    assert sfumato(*command[:-1], alone, "--no-controls").code == 0
    saved, bought = (read_release(one) for one in (floor, alone))
    assert saved.certificate["claim"] == bought.certificate["claim"] == {"epsilon": 0.0, "delta": 0.0}
    assert saved.certificate["releases"] == []
    assert all((bought.weights[name] == array).all() for name, array in saved.weights.items())
    floor.rename(tmp_path / "elsewhere")
    assert json.loads(sfumato("evaluate", run, "--json").out)["control_scores"] == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-controls",), "with controls"),
        (("--unit", "node"), "Buy it, beside what this run spends: sfumato train linear --nodes"),
        (("--unit", "node", "--assume-public"), "--assume-public"),
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


def test_messages_that_were_dropped_are_told_wherever_the_run_is_shown(tables, sfumato, tmp_path, monkeypatch):
    """A head that learns nothing gives way to features, on which the floor stands too."""
    monkeypatch.setattr(heads, "train", lambda *args, **how: [])
    run = tmp_path / "run"
    told = sfumato("train", "label-messages", *tables["first"], *EDGE, "--out", run)
    assert told.code == 0, told.err
    assert "give the same answers" in told.out
    assert "To release the floor instead: sfumato train graph-free" in told.out
    said = "Messages are not used: features alone had the smaller log-loss"
    assert said in told.out
    assert said in (run / "guarantee.txt").read_text()
    assert said in json.loads((run / "evaluation" / "metrics.json").read_text())["unused"][0]
    assert said in sfumato("predict", run).err
    assert sfumato("report", run).code == 0
    page = (run / "reports" / "index.html").read_text()
    assert page.count(said) == 2  # beside the chart, and in the scope of the guarantee


def test_every_option_of_graph_unit_and_budget_is_named_again():
    """Arcs are in the word of the unit, public rows are those of a method, and the ledger knows its own totals."""
    known = {"method", "out", "collection", "arcs", "public_rows"}
    about = {name for name, row in rows(Options).items() if row.panel in (NEEDED, DATA, RECORD)} - known
    assert {name for name, row in rows(Options).items() if row.again} == about | {"split", "ledger"}
