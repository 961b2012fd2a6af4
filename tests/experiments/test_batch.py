"""Many specifications in one go: what one of them meets does not stop the others, and what is left has a time."""

from dataclasses import replace

import pytest

from sfumato.experiments import _cells as cells
from sfumato.experiments import _runner as runner
from sfumato.experiments._batch import Left, quickest_first, run_all, what_is_left
from sfumato.experiments._spec import Quick, Spec, find


@pytest.fixture
def three(small, tmp_path):
    """Three specifications that differ by name; the data of the second are absent."""
    texts = [small.read_text().replace('"small"', f'"{name}"') for name in ("first", "second", "third")]
    texts[1] = texts[1].replace('"campus"', '"facebook100/Reed98"')
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.toml").write_text(text)
    return [Spec.read(tmp_path / f"{number}.toml") for number in range(3)]


@pytest.mark.parametrize(("profile", "order"), [("quick", ["second", "first"]), ("full", ["first", "second"])])
def test_the_quickest_comes_first_and_pate_last(three, profile, order):
    first, second, _ = three
    first = replace(first, quick=Quick(seeds=3, minutes=1.0))  # all of its 9 fits
    second = replace(second, quick=replace(second.quick, minutes=0.5))  # 4 of 9 fits
    pate = find("pate-table-3-3")
    pate = replace(pate, quick=replace(pate.quick, minutes=0.1))
    found = quickest_first([pate, first, second], profile)
    assert [spec.name for spec in found] == [*order, pate.name]


def test_a_stop_stops_all(three, monkeypatch, tmp_path):
    def run_cell(cell, data_dir):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_cell", run_cell)
    assert [one.state for one in run_all(three, tmp_path / "out")] == ["stopped"]


def test_a_cell_takes_what_the_nearest_cells_took(three, monkeypatch, tmp_path):
    took = {("GAP", 1.0): 7200.0, ("MLP", None): 360.0}

    def run_cell(cell, data_dir):
        row = cells.empty_row("done")
        row["metrics"] = {"accuracy": 0.5, "macro_f1": 0.25}
        row["seconds"]["total"] = took[cell.label, cell.epsilon]
        return row

    monkeypatch.setattr(runner, "run_cell", run_cell)
    out = tmp_path / "out"
    assert what_is_left(three[:1], out) == (Left("first", 9, 0, 0.0),)
    list(run_all(three[:1], out, profile="quick"))
    first, second, third = what_is_left(three, out)
    # Of 9 cells 4 are done; left are GAP at 1 and MLP of the third seed, and GAP at 4, which takes what GAP took.
    assert first == Left("first", 5, 5, 7200.0 + 360.0 + 3 * 7200.0)
    assert second == Left("second", 0, 0, 0.0)
    assert third == Left("third", 9, 0, 0.0)
    assert what_is_left(three[:1], out, profile="quick") == (Left("first", 0, 0, 0.0),)
