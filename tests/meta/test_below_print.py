"""Every recorded row that is more than 2 points below print has a reason, and the page that lists them is up to date."""

import importlib.util
import sys
from pathlib import Path

import pytest

from sfumato.report.markdown import escape

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def script():
    path = ROOT / "benchmarks" / "below_print_page.py"
    spec = importlib.util.spec_from_file_location("below_print_page", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["below_print_page"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["below_print_page"]


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
