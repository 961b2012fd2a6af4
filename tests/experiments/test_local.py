"""Local methods in specifications: budgets are settings, and what is read in the clear is written as inf."""

import json
from dataclasses import replace

import pytest

from sfumato.errors import InputError
from sfumato.experiments import _cells as cells
from sfumato.experiments._results import read
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local._controls import CHOSEN

LOCAL = """
values = [1, inf]

[[run]]
label = "labels"
method = "label-only"
unit = "local"
vary = "epsilon_y"
values = [0.5, 1, inf]

[[run]]
label = "in the clear"
method = "label-only"
unit = "none"
role = "ceiling"
settings = { epsilon_x = "inf", epsilon_y = inf }

[[published]]
label = "labels"
at = inf
value = 80
source = "Table 1"
"""


@pytest.fixture
def path(spec_file):
    return spec_file("local", LOCAL, seeds=2, axis="epsilon_y")


@pytest.fixture
def tiny(monkeypatch):
    graph = stochastic_block_model(80, 3, mean_degree=12, num_features=3, seed=0)
    monkeypatch.setattr(cells, "_load", lambda *_: graph)


def test_infinity_has_one_written_form_and_is_none_to_the_method(path):
    spec = Spec.read(path)
    assert spec.runs[0].values == (0.5, 1, "inf")
    assert dict(spec.runs[1].settings) == {"epsilon_x": "inf", "epsilon_y": "inf"}
    assert [cell.at for cell in spec.cells("quick")] == [1, "inf", None]
    assert all(json.dumps(cell.to_dict(), allow_nan=False) for cell in spec.cells())
    text = path.read_text()
    path.write_text(text.replace("inf]", '"inf"]').replace("= inf }", '= "inf" }').replace("at = inf", 'at = "inf"'))
    assert Spec.read(path).digest == spec.digest


def test_cells_run_under_the_unit_that_the_questions_imply(path, tiny, tmp_path):
    spec = replace(Spec.read(path), seeds=1)
    outcome = run(spec, tmp_path / "out")
    assert outcome.done == 4
    half, one, labels_clear, clear = read(outcome.path)
    assert [row["certificate"]["claim"] for row in (half, one, labels_clear)] == [
        {"epsilon": 0.5, "delta": 0.0}, {"epsilon": 1.0, "delta": 0.0}, {"epsilon": 0.0, "delta": 0.0},
    ]  # fmt: skip
    assert labels_clear["certificate"]["unit"]["labels"] is False
    assert clear["certificate"] is None
    assert all(row["certificate"]["notes"] == [CHOSEN] for row in (half, one, labels_clear))
    assert (one["unit"], one["epsilon"], one["at"], labels_clear["at"]) == ("local", None, 1, "inf")
    assert all(0 < row["metrics"]["accuracy"] <= 1 for row in (half, one, labels_clear, clear))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "local"', 'unit = "local"\nepsilons = [1]\ndelta = 1e-6', "epsilons to be left out with unit local"),
        ('unit = "local"', 'unit = "local"\ndelta = 1e-6', "epsilons to be left out with unit local"),
        ('unit = "local"', 'unit = "edge"', "unit to be local, as label-only needs"),
        ("epsilon_y = inf }", "epsilon_y = 1 }", "unit to be local, as label-only needs"),
        ('method = "label-only"\nunit = "local"\nvary = "epsilon_y"\nvalues = [0.5, 1, inf]',
         'method = "mlp"\nunit = "local"', "unit to be another, as mlp needs"),
        ("values = [0.5, 1, inf]", "values = [0.5, 1, -1, inf]", "epsilon_y"),
        ("values = [0.5, 1, inf]", "values = [0.5, 1, inf, inf]", "to appear once"),
    ],
)  # fmt: skip
def test_what_contradicts_local_privacy_is_refused(path, contradicts, old, new, said):
    contradicts(path, old, new, said)


def test_a_preset_gives_the_settings_of_its_data_set_and_budgets(path):
    lines = [
        'label = "published"',
        'method = "lpgnn"',
        'unit = "local"',
        'preset = "lpgnn-2021"',
        "settings = { epsilon_x = 1.0, dropout = 0.1 }",
        'vary = "epsilon_y"',
        "values = [1.0, inf]",
    ]
    path.write_text(path.read_text() + "\n[[run]]\n" + "\n".join(lines) + "\n")
    spec = Spec.read(path)
    for dataset, steps in (("planetoid/cora", {1.0: 2, "inf": 16}), ("musae/facebook", {1.0: 2, "inf": 8})):
        cells = [cell for cell in spec.on(dataset).cells() if cell.label == "published" and cell.seed == 0]
        settings = {cell.at: dict(cell.settings) for cell in cells}
        assert {at: found["steps_x"] for at, found in settings.items()} == steps
        assert all(found["dropout"] == 0.1 and found["paper_rule"] for found in settings.values())
        assert settings["inf"]["epsilon_y"] == "inf"
    assert len({cell.id for cell in spec.cells()}) == len(spec.cells())


@pytest.mark.parametrize(("method", "preset"), [("lpgnn", "lpgnn-2022"), ("label-only", "lpgnn-2021")])
def test_a_preset_that_is_not_of_the_method_is_refused(path, method, preset):
    run_lines = f'label = "wrong"\nmethod = "{method}"\nunit = "local"\npreset = "{preset}"\n'
    path.write_text(path.read_text() + "\n[[run]]\n" + run_lines)
    with pytest.raises(InputError, match="preset"):
        Spec.read(path)
