"""The times of edges: what is read, what is refused and with which row, and that only rows inside a window are read."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato._window import PERIODS, Window, days_of, window_of
from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph import Graph, from_frames, read_csv, read_parquet
from sfumato.tables._windows import inside
from sfumato.verify._windows import is_window

MARCH = Window.parse("day=2026-03")


def rows(values, window=MARCH, kind=None):
    return inside(pa.chunked_array([pa.array(values, kind)]), window, "edges.csv", lambda row: row + 2).tolist()


@pytest.mark.parametrize("period", PERIODS)
def test_every_day_lies_in_one_window_and_windows_abut(period):
    day, last = date(2019, 12, 25), date(2031, 1, 10)
    while day < last:
        found = days_of(window_of(day, period))
        assert found[:2] == (period, window_of(day, period))
        assert found[2] <= day <= found[3]
        assert window_of(found[3] + timedelta(days=1), period) != found[1]
        assert window_of(found[2] - timedelta(days=1), period) != found[1]
        day += timedelta(days=1)


@pytest.mark.parametrize(
    "name",
    ["2026-13", "2026-00", "2026-3", "2026-W54", "2025-W53", "2026-W00", "2026-Q5", "2026-Q0", "2026-02-29", "0000", "26", "",
     "2026-03-1", "20260301", "March 2026", "\u0662\u0660\u0662\u0666", "2026-W05-1", "2026-03/2026-04", "9999-W53"],
)  # fmt: skip
def test_a_window_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="to be a window that there is"):
        Window.parse(f"day={name}")


def test_the_verifier_has_the_same_calendar():
    numbers = [
        f"{year}-{mark}{n:02}" for year in ("2026", "2020", "0000", "9999") for mark in ("", "W") for n in range(56)
    ]
    quarters = [f"2026-Q{n}" for n in range(6)]
    for name in (*numbers, *quarters, "2026", "0000", "226", "2024-02-29", "2026-02-29", "2026-2-1", "2026-03 "):
        found = days_of(name)
        assert [period for period in PERIODS if is_window(period, name)] == ([] if found is None else [found[0]])


@pytest.mark.parametrize("text", ["2026-03", "=2026-03", f"{'c' * 81}=2026-03", "a\nb=2026-03", 7])
def test_a_window_without_a_column_is_refused(text):
    with pytest.raises(InputError, match="COLUMN=WINDOW"):
        Window.parse(text)


def test_times_are_read_as_days_in_utc():
    told = {
        "2026-03-01": True, " 2026-03-31 ": True, "2026-02-28": False, "2026-04-01": False,
        "2026-04-01T00:30:00+02:00": True, "2026-03-01 00:30+0200": False, "2026-03-31T23:59:59.999999Z": True,
        "2026-03-31T23:30-01": False, "2026-03-31 23:59+00:00": True, "2026-04-01T00:00:00+00": False,
        "2026-W09-7": True, "2026-03": True, "2026-W11": True, "2026-04": False,
    }  # fmt: skip
    assert rows(list(told)) == list(told.values())
    assert rows(["2026", "2027"], Window.parse("day=2026")) == [True, False]
    assert rows([2026, 2027], Window.parse("day=2026")) == [True, False]
    assert rows(["2026-02", "2026-Q2"], Window.parse("day=2026-Q1")) == [True, False]
    days = [date(2026, 3, 1), date(2026, 3, 31), date(2026, 4, 1), date(1969, 3, 1)]
    assert rows(days) == rows(days, kind=pa.date64()) == [True, True, False, False]
    moments = [datetime(2026, 3, 31, 23, 59, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)]
    for unit in ("s", "ms", "us", "ns"):
        assert rows(moments, kind=pa.timestamp(unit, "Asia/Tokyo")) == [True, False]
    before = [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    assert rows(before, Window.parse("day=1969-12-31"), pa.timestamp("us", "UTC")) == [True]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, "no date"), ("", "no date"), ("  ", "no date"), ("2026-03-01T10:00", "a time without a zone"),
        ("2026-03-01 10:00:00", "a time without a zone"), ("2026-02-30", "no date of ISO 8601"), ("NA", "no date of ISO 8601"),
        ("01.03.2026", "no date of ISO 8601"), ("03/01/2026", "no date of ISO 8601"), ("20260301", "no date of ISO 8601"),
        ("2026-03-01T25:00Z", "no date of ISO 8601"),
        ("2026-02-30T10:00Z", "no date of ISO 8601"),
        ("2026-03-01T10:00Z\n2027-01-01T10:00Z", "no date of ISO 8601"),
        ("0000-03-01T10:00Z", "no date of ISO 8601"), ("0001-01-01T00:00+05:00", "no date of ISO 8601"),
        ("1772323200", "no date of ISO 8601"), ("2026", "a year, which does not say the month"),
        ("2026-W09", "a week, which does not say the month"), ("2026-Q1", "a quarter, which does not say the month"),
    ],
)  # fmt: skip
def test_a_time_that_is_none_is_refused_with_its_row(cell, said):
    with pytest.raises(DataError, match=f"row 4, column 'day', has {said}"):
        rows(["2026-03-01", "2027-01-01", cell])


def test_times_are_read_in_parts(monkeypatch):
    times = [f"2026-{month:02}-01" for month in (3, 1, 3, 3, 2)]
    whole = rows(times)
    monkeypatch.setattr("sfumato.tables._windows._ROWS", 2)
    assert rows(times) == whole == [True, False, True, True, False]
    with pytest.raises(DataError, match="row 7, column 'day', has no date of ISO 8601"):
        rows([*times, "x"])


def test_no_error_shows_a_time():
    with pytest.raises(DataError) as told:
        rows(["1987-06-05T04:03"])
    assert "1987" not in str(told.value)


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ([datetime(2026, 3, 1)], pa.timestamp("ns"), "a time without a zone"), ([1.5], None, "no date of ISO 8601"),
        ([True], None, "no date of ISO 8601"), ([None], pa.null(), "no date"), ([20260301], None, "no date of ISO 8601"),
        ([date(2026, 3, 1), None], None, "no date"),
    ],
)  # fmt: skip
def test_a_column_of_another_kind_is_refused(values, kind, said):
    with pytest.raises(DataError, match=f"has {said}"):
        rows(values, kind=kind)


NODES = {"id": ["ann", "bob", "cid"], "kind": ["a", "b", "a"]}
EDGES = {
    "source": ["ann", "ann", "gone", "bob"], "target": ["bob", "cid", "ann", "cid"], "sum": [1, 2, 3, 4],
    "day": ["2026-03-01", "2026-04-01", "2026-02-01", "2026-03-31"],
}  # fmt: skip


def table(folder, name, values):
    lines = [",".join(values), *(",".join(map(str, row)) for row in zip(*values.values(), strict=True))]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder / name


def test_only_rows_inside_a_window_are_read(tmp_path):
    files = table(tmp_path, "nodes.csv", NODES), table(tmp_path, "edges.csv", EDGES)
    for name, values in (("nodes", NODES), ("edges", EDGES)):
        pq.write_table(pa.table(values), tmp_path / f"{name}.parquet")
    told = {}
    how = {"label": "kind", "window": "day=2026-03", "edge_weight": "sum", "max_weight": 10}
    graph = read_csv(*files, told=lambda place, found: told.update({place: found}), **how)
    assert graph.indices.tolist() == [1, 0, 2, 1]
    assert graph.weights.values.tolist() == pytest.approx([1, 1, 4, 4], abs=1e-3)
    assert graph.window == "day=2026-03"
    assert [(one.name, one.use) for one in told[str(files[1])]][2:] == [("sum", "weight"), ("day", "time")]
    graph.save(tmp_path / "stored")
    for other in (
        from_frames(pa.table(NODES), pa.table(EDGES), **how),
        read_parquet(tmp_path / "nodes.parquet", tmp_path / "edges.parquet", **how),
        Graph.load(tmp_path / "stored"),
    ):
        assert (other.indices.tolist(), other.window) == (graph.indices.tolist(), graph.window)
    with pytest.warns(DroppedWarning, match="Not read: sum of"):
        april = read_csv(*files, label="kind", window="day=2026-04")
    assert april.indices.tolist() == [2, 0]
    with pytest.raises(DataError, match=r"row 4 of .* has an unknown node"):
        read_csv(*files, label="kind", window="day=2026-02", drop=["sum"])


def test_errors_name_the_row_of_the_file_and_not_of_the_window(tmp_path):
    files = table(tmp_path, "nodes.csv", NODES), table(tmp_path, "edges.csv", {**EDGES, "sum": [1, 2, 3, "x"]})
    with pytest.raises(DataError, match="row 5"):
        read_csv(*files, label="kind", window="day=2026-03", edge_weight="sum", max_weight=10)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"window": "when=2026-03"}, "to have the column 'when'"),
        ({"window": "source=2026-03"}, "beside its ends, weights and types"),
        ({"window": "day=2026-03", "drop": ["day"]}, "is read as time"),
        ({"window": "day=2026-03", "edge_weight": "day", "max_weight": 1.0}, "beside its ends, weights and types"),
        ({"window": "day=2026-03", "self_loops": "error"}, "self_loops"),
        ({"window": "day=2026-13"}, "a window that there is"),
    ],
)
def test_a_column_that_cannot_be_the_time_is_refused(how, said):
    with pytest.raises((DataError, InputError), match=said):
        from_frames(pa.table(NODES), pa.table(EDGES), label="kind", **how)


def test_ends_are_not_found_by_their_place_among_other_columns():
    unnamed = pa.table(dict(zip(("one", "other", "sum", "day"), EDGES.values(), strict=True)))
    with pytest.raises(DataError, match="to be called source and target where a window is read"):
        from_frames(pa.table(NODES), unnamed, label="kind", window="day=2026-03")
    graph = from_frames(pa.table(NODES), unnamed, label="kind", window="day=2026-03", drop=["sum"])
    assert graph.indices.tolist() == [1, 0, 2, 1]
