"""A small specification on the generated graph, and cells that cost nothing."""

import pytest
from spec_head import head, read_once

from sfumato.errors import InputError
from sfumato.experiments import _cells as cells
from sfumato.experiments import _runner as runner
from sfumato.experiments._spec import Spec

SMALL = """
name = "small"
title = "A small table"
source = "a test"
comments = ["No number is published."]
dataset = "campus"
split = "75/10/15"
seeds = 3
axis = "epsilon"

[quick]
seeds = 2
minutes = 0.1
epsilons = [1]

[[run]]
label = "GAP"
method = "gap"
unit = "edge"
epsilons = [1, 4]
delta = 1e-6
settings = { epochs = 1, num_hops = 1 }

[[run]]
label = "MLP"
method = "mlp"
unit = "edge"
role = "floor"
settings = { epochs = 1 }

[[published]]
label = "GAP"
epsilon = 4
value = 76.3
half_width = 0.21
source = "Table 1, row GAP"
"""


@pytest.fixture(scope="module", autouse=True)
def _read_once():
    with read_once():
        yield


@pytest.fixture
def spec_file(tmp_path):
    """Write a specification of these tables as a file of its name."""

    def write(name, tables, **first):
        path = tmp_path / f"{name}.toml"
        path.write_text(head(name, **first) + tables)
        return path

    return write


@pytest.fixture
def contradicts():
    """Check that a specification is refused once a text in it is another one."""

    def check(path, old, new, said):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match=said) as caught:
            Spec.read(path)
        return str(caught.value)

    return check


@pytest.fixture
def small(tmp_path):
    """The small specification as a file."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def instant(monkeypatch):
    """Cells that finish at once; the list of those that were computed."""
    ran = []

    def run_cell(cell, data_dir):
        ran.append(cell)
        return {**cells.empty_row("done"), "metrics": {"accuracy": 0.5 + cell.seed / 100, "macro_f1": 0.25}}

    monkeypatch.setattr(runner, "run_cell", run_cell)
    return ran
