"""Every recorded row that is more than 2 points below print has a reason, and the page that lists them is up to date."""

import importlib.util
import sys
from pathlib import Path

import pytest

from sfumato.report._markdown import escape

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


MODULES = ("below_print_reasons", "below_print_page", "graph_split_published", "below_print")
"""In the order in which they import each other."""


@pytest.fixture(scope="module")
def benchmarks():
    loaded = {}
    for name in MODULES:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        loaded[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[name])
    yield loaded
    for name in MODULES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def script(benchmarks):
    return benchmarks["below_print_page"]


def test_every_row_below_print_has_a_reason_on_the_page(script):
    listed = (RESULTS / "below-print.md").read_text()
    rows = list(script.below(RESULTS))
    assert len(rows) > 20
    for row in rows:
        assert script.reason(row)
        assert f"| {escape(f'{row.page}: {row.run}')} | {escape(row.at or '-')} | {row.ours:.1f} |" in listed


def test_a_row_that_nothing_was_written_about_is_refused(script, tmp_path):
    (tmp_path / "new.md").write_text(
        "| Run | Epsilon | Ours | Published |\n| --- | --- | --- | --- |\n| A | 1 | 50.0 | 53.0 ± 1 |\n"
    )
    (row,) = script.below(tmp_path)
    assert (row.page, row.run, row.at, row.ours, row.printed) == ("new", "A", "epsilon 1", 50.0, 53.0)
    with pytest.raises(ValueError, match="Expected a reason"):
        script.reason(row)


@pytest.mark.parametrize("published", ["51.9", "-"])
def test_a_row_near_print_or_without_it_is_none(script, tmp_path, published):
    (tmp_path / "new.md").write_text(f"| Run | Ours | Published |\n| --- | --- | --- |\n| A | 50.0 | {published} |\n")
    assert list(script.below(tmp_path)) == []


@pytest.mark.parametrize(
    ("head", "row", "at", "numbers"),
    [
        (
            "lot | noise | accuracy (printed) | accuracy (here) | seeds",
            "600 | 4 | 90 ± 2 | 83.1 | 1",
            "noise 4",
            (83.1, 90),
        ),
        (
            "model | network | sigma | accuracy (published) | accuracy (here)",
            "A | cnn | - | 100 | 90 ± 1",
            "network cnn",
            (90, 100),
        ),
        (
            "data set | epsilon | accuracy (printed) | method | study in float32",
            "A | 1.2 | 98.1 | - | 95.0",
            "epsilon 1.2",
            (95.0, 98.1),
        ),
        ("method | AUC (printed) | AUC | runs", "A | 81.67 | 64.0 ± 2 | 5", "", (64.0, 81.67)),
        ("Student | Accuracy | Seeds | Printed", "A | 68.3 (48.0 to 88.6) | 2 | 74.8", "", (68.3, 74.8)),
    ],
)
def test_rows_of_scripts_are_read(script, tmp_path, head, row, at, numbers):
    columns = head.count("|") + 1
    (tmp_path / "new.md").write_text(f"| {head} |\n|{' --- |' * columns}\n| {row} |\n")
    (found,) = script.below(tmp_path)
    assert (found.at, found.ours, found.printed) == (at, *numbers)


def test_a_number_of_another_form_is_compared_too(script, tmp_path):
    head = "| Run | Ours | Published |\n| --- | --- | --- |\n"
    (tmp_path / "progap-table-5-2.md").write_text(head + "| DP-GNN, own features at inference | 46.3 | - |\n")
    (found,) = script.below(tmp_path)
    assert (found.ours, found.printed) == (46.3, 62.6)


def test_loops_have_the_noise_of_their_stated_epsilon(benchmarks):
    for group, _, _, loop in benchmarks["below_print"].loops():
        assert loop.stated == pytest.approx(float(group.rpartition(" ")[2]), rel=0.02)
