"""What recorded pages say of themselves, and the index that is made of it."""

from pathlib import Path

import pytest

from sfumato.experiments._index import Recorded, Row, index_page, of_experiment, read_page, stamp
from sfumato.experiments._measured import Measured, read_recorded
from sfumato.experiments._results import Line
from sfumato.experiments._sources import Document, Entry
from sfumato.experiments._spec import find
from sfumato.scoring._scores import Summary

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RECORDED = read_recorded(RESULTS / "experiments.jsonl")
SCRIPT = """# A page of a script

A lead.

| model | accuracy | seeds | seconds |
|---|---|---|---|
| one | 0.5 | 1 | 301 |
| two | 0.5 | 3 | 301 |
"""


def line(cell, seeds, seconds):
    where = (cell.label, "method", cell.unit, cell.epsilon, cell.at)
    return Line(*where, Summary(0.6, 0.5, 0.7, seeds), 0.5, seconds, 1.0, None, None)


def measured(spec):
    """Results of the first three lines of GAP's ways to combine hops: five seeds, three, and three slow ones."""
    runs = [cell for cell in spec.cells() if cell.seed == 0][:3]
    lines = map(line, runs, (5, 3, 3), (2.5, 299.0, 1300.5))
    return Measured((*lines, Line("Not run", "method", "edge", 4.0, None, *(None,) * 6)), date="2026-11-22")


def test_the_results_of_a_specification():
    spec = find("gap-combine")
    found = of_experiment(spec, measured(spec))
    assert (found.title, found.date, found.seeds) == (spec.title, "2026-11-22", (3, 5))
    assert found.rows == (Row(5, 2.5), Row(3, 299.0), Row(3, 1300.5), Row(0))
    assert [row.enough for row in (Row(0), Row(4), *found.rows)] == [False, False, True, False, True, False]


def test_a_page_of_a_script():
    assert read_page(SCRIPT).date is None
    page = read_page(SCRIPT.replace("A lead.", f"A lead.\n\n{stamp([1, 3])}"))
    assert (page.seeds, page.rows) == ((1, 3), (Row(1, 301.0), Row(3, 301.0)))
    assert read_page(f"# Sums\n\n{stamp([], '2026-01-02')}\n") == Recorded("Sums", "2026-01-02", None, ())


@pytest.mark.parametrize("path", sorted(set(RESULTS.glob("*.md")) - {RESULTS / "index.md"}), ids=lambda path: path.stem)
def test_recorded_pages_have_a_date_and_the_seeds_of_their_tables(path):
    if path.stem in RECORDED:
        return
    page = read_page(path.read_text())
    assert page.date
    counts = [row.seeds for row in page.rows if row.seeds]
    assert not counts or (page.seeds[0] <= min(counts) and max(counts) <= page.seeds[1])


def test_the_index():
    spec = find("gap-combine")
    pages = {
        "gap-combine": of_experiment(spec, measured(spec)),
        "alone": read_page(SCRIPT),
        "other": read_page(f"# Another page\n\n{stamp([2], '2026-01-02')}\n"),
    }
    entries = (
        Entry("Table 1", "A table", specs=("gap-combine",)),
        Entry("Table 2", "Another", specs=("gap-combine",), scripts=("a.py",), pages=("alone",), why="One seed."),
        Entry("Table 3", "A third", absent=("none",), why="No data."),
        Entry("Figure 1", "A drawing", kind="illustration"),
    )
    text = index_page([Document("a", "A. Author (2026), A paper", entries)], pages)
    assert "4 tables and figures, of which 3 report a measurement: 1 done, 1 in part, 1 skipped." in text
    assert "5 rows are recorded in tables that count seeds or runs. 3 (60 %) of them" in text
    assert "The full profiles of the 1 specifications whose data are at hand ask for 19 rows. 2 (11 %)" in text
    assert "With the 2 rows that scripts record it is 3 (14 %) of 21; rows that" in text
    assert "| Table 1 | A table | done | 3 to 5 |  | [`gap-combine`](gap-combine.md) | 2026-11-22 |" in text
    assert "| Table 3 | A third | skipped | - | No data. | `none` | - |" in text
    assert (
        "| Figure 1 | A drawing | no measurement | - | A drawing that explains; it reports no measurement. |  | - |"
        in text
    )
    assert "for the 1 specifications that have a page" in text
    assert "`python a.py`, [page](alone.md)" in text
    assert "| [Another page](other.md) | 2026-01-02 | 2 |" in text
    assert "[A page of a script]" not in text


def test_days_of_an_entry_are_the_first_and_the_last_of_its_pages():
    days = ("2026-11-23", "2026-11-22 to 2026-11-27", "2026-11-22 for some rows, 2026-11-21 for the others", None)
    pages = {str(k): Recorded("A page", day, (5, 5), ()) for k, day in enumerate(days)}
    text = index_page(
        [Document("a", "A. Author (2026), A paper", (Entry("Table 1", "A", scripts=("a.py",), pages=tuple(pages)),))],
        pages,
    )
    assert "| 2026-11-21 to 2026-11-27 |" in text


def test_the_index_answers_questions_first():
    pages = {"rare": read_page(f"# Rare classes\n\n{stamp([2], '2026-01-02')}\n")}
    questions = index_page([], pages).partition("## Tables and figures")[0]
    assert "| Is the default a good choice on other graphs? | [Rare classes](rare.md) |" in questions
    assert "What does an attacker learn?" not in questions
