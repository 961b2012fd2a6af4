"""Private links in specifications: epsilons are budgets of one bit of one list, and no delta comes with them."""

import pytest

from sfumato.experiments import _cells as cells
from sfumato.experiments._results import read
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec
from sfumato.graph._synthetic import stochastic_block_model

LINKS = """
[[run]]
label = "Blink"
method = "blink"
unit = "link"
epsilons = [1, 5]
settings = { epochs = 2 }

[[published]]
label = "Blink"
epsilon = 5
value = 84.5
source = "Table 1"
"""


@pytest.fixture
def path(spec_file):
    return spec_file("links", LINKS)


def test_cells_run_at_their_epsilon(path, tmp_path, monkeypatch):
    graph = stochastic_block_model(80, 3, mean_degree=12, num_features=3, seed=0)
    monkeypatch.setattr(cells, "_load", lambda *_: graph)
    outcome = run(Spec.read(path), tmp_path / "out")
    rows = read(outcome.path)
    assert [(row["unit"], row["epsilon"], row["delta"]) for row in rows] == [("link", 1, None), ("link", 5, None)]
    for row in rows:
        assert row["certificate"]["claim"] == {"epsilon": pytest.approx(row["epsilon"]), "delta": 0.0}
        assert row["certificate"]["settings"]["epsilon"] == row["epsilon"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilons = [1, 5]", "epsilons = []", "epsilons to hold budgets and come without delta with unit link"),
        ("epsilons = [1, 5]", "epsilons = [1, 5]\ndelta = 1e-6", "epsilons to hold budgets and come without delta"),
        ("epochs = 2", "epochs = 2, epsilon = 3", "epsilon to stand in epsilons with unit link"),
        ('unit = "link"', 'unit = "edge"\ndelta = 1e-6', "unit to be link, as blink needs"),
        ('unit = "link"', 'unit = "local"', "epsilons to be left out with unit local"),
        ('method = "blink"', 'method = "gap"', "unit to be another, as gap needs"),
    ],
)
def test_what_contradicts_link_privacy_is_refused(path, contradicts, old, new, said):
    contradicts(path, old, new, said)
