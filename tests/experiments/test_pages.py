"""What recorded pages say of themselves, and the index that is made of it."""

from pathlib import Path

import pytest

from sfumato.experiments._index import index_page
from sfumato.experiments._pages import Recorded, Row, read_page, stamp, stamped
from sfumato.experiments._sources import Document, Entry
from sfumato.experiments._spec import SPECS, Spec
from sfumato.report import experiment_markdown

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SPECIFICATION = """# A table (table 1)

- Seeds: 5, each a fresh split and initialization
- Date: 2026-11-22 for the rows of GAP, 2026-11-21 for the others

| Run | Epsilon | Ours | 95 % interval | Macro-F1 | Seeds | Published |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| GAP \\| one arc | 1 | 60.0 | 59.0 to 61.0 | 58.0 | 5 | - |
| GAP | 4 | not run | - | - | - | 76.3 |
| Slow | - | 61.0 | - | 58.0 | 3 | - |
| Fast | - | 61.0 | - | 58.0 | 3 | - |

| Run | Stage | Seeds |
| --- | ---: | ---: |
| GAP | 1 | 9 |

| Run | Epsilon | Seconds | Peak MiB |
| --- | ---: | ---: | ---: |
| GAP | 1 | 2.50 | 500 |
| Slow | - | 1,300.50 | 1,500 |
| Fast | - | 299.00 | 500 |
"""
SCRIPT = """# A page of a script

A lead.

| model | accuracy | seeds | seconds |
|---|---|---|---|
| one | 0.5 | 1 | 301 |
| two | 0.5 | 3 | 301 |
"""


def test_a_page_of_a_specification():
    page = read_page(SPECIFICATION)
    assert (page.title, page.date, page.seeds) == ("A table (table 1)", "2026-11-22", (3, 5))
    assert sorted(page.rows, key=lambda row: row.seconds or 0) == [Row(0), Row(5, 2.5), Row(3, 299.0), Row(3, 1300.5)]
    assert [row.enough for row in (Row(0), Row(4), Row(5), Row(3, 299.0), Row(3, 301.0))] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_page_of_a_script():
    assert read_page(SCRIPT).date is None
    page = read_page(stamped(SCRIPT))
    assert (page.seeds, page.rows) == ((1, 3), (Row(1, 301.0), Row(3, 301.0)))
    assert read_page(stamped(SCRIPT, [7])).seeds == (7, 7)
    assert stamped(SCRIPT).split("\n\n")[1] == "A lead."
    assert read_page(f"# Sums\n\n{stamp([], '2026-01-02')}\n") == Recorded("Sums", "2026-01-02", None, ())


@pytest.mark.parametrize("path", sorted(set(RESULTS.glob("*.md")) - {RESULTS / "index.md"}), ids=lambda path: path.stem)
def test_recorded_pages_have_a_date_and_the_seeds_of_their_tables(path):
    page = read_page(path.read_text())
    assert page.date
    counts = [row.seeds for row in page.rows if row.seeds]
    assert not counts or (page.seeds[0] <= min(counts) and max(counts) <= page.seeds[1])


@pytest.mark.parametrize(
    "path",
    sorted(path for path in SPECS.glob("*.toml") if (RESULTS / f"{path.stem}.md").exists()),
    ids=lambda path: path.stem,
)
def test_a_recorded_page_says_what_its_specification_says(path):
    said = experiment_markdown(Spec.read(path), [])
    page = (RESULTS / f"{path.stem}.md").read_text()
    *_, comments = said.partition("## What differs")
    assert comments.partition("\n## ")[0] in page
    assert [
        line
        for line in said.splitlines()
        if line.startswith(("- Data set", "- Classes", "- Split")) and line not in page
    ] == []


def test_the_index(tmp_path):
    (tmp_path / "gap-combine.md").write_text(SPECIFICATION)
    (tmp_path / "alone.md").write_text(stamped(SCRIPT))
    (tmp_path / "other.md").write_text(f"# Another page\n\n{stamp([2], '2026-01-02')}\n")
    entries = (
        Entry("Table 1", "A table", specs=("gap-combine",)),
        Entry("Table 2", "Another", specs=("gap-combine",), scripts=("a.py",), pages=("alone",), why="One seed."),
        Entry("Table 3", "A third", absent=("none",), why="No data."),
        Entry("Figure 1", "A drawing", kind="illustration"),
    )
    text = index_page([Document("a", "A. Author (2026), A paper", entries)], tmp_path)
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


def test_the_index_answers_questions_first(tmp_path):
    (tmp_path / "ceiling.md").write_text(f"# The ceiling\n\n{stamp([2], '2026-01-02')}\n")
    questions = index_page([], tmp_path).partition("## Tables and figures")[0]
    assert "| Is the default a good choice on other graphs? | [The ceiling](ceiling.md) |" in questions
    assert "What does an attacker learn?" not in questions
