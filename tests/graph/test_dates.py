"""What is read as a date or a time, in any cell of a column."""

import pytest

from sfumato.errors import DataError
from sfumato.graph import from_frames
from sfumato.tables._dates import dates, is_date

pa = pytest.importorskip("pyarrow")

DATES = {
    "days": [
        "2024-01-02", "2024/1/2", "2024.01.02", "02.01.2024", "1/2/24", "1-2-2024", "2. 1. 2024",
    ],
    "months, quarters and weeks": [
        "2024-01", "2024/12", "01/2024", "2024-Q1", "Q3-2024", "2024W05", "2024-W05-1",
    ],
    "names of months": [
        "05-Jan-24", "01/Jan/2024", "5.Jan.2024", "5Jan2024", "Jan-24", "2024-Jan-05", "05-JAN-2024", "Jan 5, 2024",
        "5 January 2024", "January 5", "5 Jan", "Jan. 2024", "2024 Jan", "Sept 5, 2024", "5 de enero de 2024",
        "5. März 2024", "Friday, 27 November 2026",
    ],
    "times": [
        "12:30", "12:30:15", "12:30:15.123", "3:30PM", "3pm", "12:30Z", "3:30 PM", "3 p.m.",
    ],
    "days with times": [
        "20240102T101530Z", "2024-01-02T10:00", "2024-01-02T10:00:00Z", "2024-01-02T10:00:00.000+01:00",
        "2024-01-02T10:00:00+0100", "2024-01-02T10:00:00+01:00[Europe/Berlin]", "01/Jan/2024:10:30:00",
        "10:30 2024-01-02", "2024-01-02 10:00", "2024-01-02 10:00:00 UTC", "2024-01-02 3:30 pm CEST",
        "1/2/2024, 3:30 PM", "Tue, 02 Jan 2024 10:00:00 GMT", "Fri Nov 27 00:42:05 UTC 2026",
        "2024-01-02 10:00 (CET)",
    ],
}  # fmt: skip
NONE = [
    "2024", "7", "1.5", "May", "Monday", "a", "3-4", "1-2", "10-20", "1/2", "12-13", "2024-13", "1234-12", "9999/01",
    "v1.2", "12-abc-34", "room", "12:3", "1:2", "pm", "q1", "2024-001-5", "AB-12-2024", "north", "007", "1.2.3",
    "A1", "5Jan", "3 of 4", "5 apples", "10 may be",
]  # fmt: skip


@pytest.mark.parametrize("kind", DATES)
def test_what_is_a_date(kind):
    assert [text for text in DATES[kind] if not is_date(text) or not is_date(text.upper())] == []


def test_what_is_none():
    assert [text for text in NONE if is_date(text) or is_date(text.upper())] == []


def test_more_than_half_of_the_words_decide():
    assert dates(["2024-01", "2024-02", "never"])
    assert not dates(["2024-01", "never"])


@pytest.mark.parametrize("last", ["05-Jan-24", "never"])
def test_a_column_of_dates_is_refused_by_all_of_its_rows(last):
    cells = ["01/Jan/2024", "NA", "3:30 PM", "2024-01", last]
    nodes = pa.table({"id": range(5), "when": cells})
    with pytest.raises(
        DataError, match=r"'when' to hold numbers or categories, got dates or times.*--drop when"
    ) as caught:
        from_frames(nodes, pa.table({"from": [1], "to": [2]}))
    assert not any(cell in str(caught.value) for cell in cells if cell != "NA")
