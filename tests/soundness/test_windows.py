"""Windows of time, by brute force over small tables: an edge in one window is read by that window and by no other.

The proof is in `sfumato.record._windows`. The last tests enumerate all outcomes of adaptive releases that are charged by window.
"""

from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest

from sfumato._window import Window
from sfumato.graph import from_frames
from sfumato.graph._subgraph import adjacency
from sfumato.tables import _ends
from sfumato.tables._windows import inside

NODES = pa.table({"id": [0, 1, 2], "kind": ["a", "b", "a"]})
TIMES = {"2026-02-28": "02", "2026-03-01T00:30+01:00": "02", "2026-03-01": "03", "2026-03-31": "03", "2026-04-01": "04"}
"""Times at both ends of March, and the month in which each lies."""
ROWS = [(u, v, time) for (u, v), time in product(((0, 1), (0, 2)), TIMES)]
TABLES = [rows for size in range(3) for rows in combinations(ROWS, size)]
MONTHS = ("02", "03", "04")


def graphs(rows, known):
    """The edges that each month reads of a table."""
    if rows not in known:
        kinds = {"source": pa.int64(), "target": pa.int64(), "time": pa.string()}
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        edges = pa.table({name: pa.array(one, kinds[name]) for name, one in zip(kinds, columns, strict=True)})
        read = [from_frames(NODES, edges, label="kind", window=f"time=2026-{month}") for month in MONTHS]
        known[rows] = [{(u, v) for u, v in np.argwhere(adjacency(graph).toarray()).tolist() if u < v} for graph in read]
    return known[rows]


def most_changed(neighbors):
    """Over all pairs of tables: the most windows whose edges differ, and the most edges that differ in one."""
    known, windows, edges = {}, 0, 0
    for one, other in neighbors:
        changes = [len(a ^ b) for a, b in zip(graphs(one, known), graphs(other, known), strict=True)]
        windows, edges = max(windows, sum(map(bool, changes))), max(edges, *changes)
    return windows, edges


def records():
    """Each table, beside the table without one record: all rows of an edge in one month."""
    for rows in TABLES:
        for u, v, month in {(u, v, TIMES[time]) for u, v, time in rows}:
            yield rows, tuple(row for row in rows if (*row[:2], TIMES[row[2]]) != (u, v, month))


OWNERS = ("ann", "bob")


def of_owners(rows, gone=None, most=2):
    """The edges of each month that two persons own, who may both own one, without the rows of one (person, month)."""
    owned = [(u, v, time, OWNERS[at % 2]) for at, (u, v, time) in enumerate(rows * 2 + rows[:1])]
    owned = [row for row in owned if (row[3], TIMES[row[2]]) != gone]
    columns = dict(zip(("from", "to", "time", "who"), zip(*owned, strict=True) if owned else ((),) * 4, strict=True))
    edges = pa.table(
        {
            name: pa.array(list(one), pa.int64() if name in ("from", "to") else pa.string())
            for name, one in columns.items()
        }
    )
    how = {"label": "kind", "source": "from", "target": "to", "person": "who", "edges_per_person": most}
    read = [from_frames(NODES, edges, window=f"time=2026-{month}", **how) for month in MONTHS]
    return [{(u, v) for u, v in np.argwhere(adjacency(graph).toarray()).tolist() if u < v} for graph in read]


def test_a_person_in_a_month_is_read_by_one_window_and_is_at_most_the_bound_there():
    for rows in TABLES[::7]:
        whole = of_owners(rows)
        for gone in product(OWNERS, MONTHS):
            rest = of_owners(rows, gone)
            changes = [len(one - other) for one, other in zip(whole, rest, strict=True)]
            assert all(other <= one for one, other in zip(whole, rest, strict=True))
            assert sum(map(bool, changes)) <= 1
            assert max(changes) <= 2


def single_rows():
    return ((rows, tuple(row for row in rows if row != gone)) for rows in TABLES for gone in rows)


def moved():
    """Each table, beside one in which a row has another time."""
    for rows in TABLES:
        for row, time in product(rows, TIMES):
            later = (*row[:2], time)
            if later not in rows:
                yield rows, tuple(sorted({*rows, later} - {row}, key=ROWS.index))


def test_a_record_is_read_by_one_window_and_is_one_edge_there():
    assert most_changed(records()) == (1, 1)
    assert most_changed(single_rows()) == (1, 1)


def test_an_edge_that_moves_to_another_window_is_two_records():
    assert most_changed(moved()) == (2, 1)


def test_a_boundary_that_is_counted_in_both_windows_is_caught(monkeypatch):
    def closed(column, window, place, number):
        return inside(column, window, place, number) | np.isin(column.to_pylist(), [f"{window.last}", "2026-03-01"])

    monkeypatch.setattr(_ends, "inside", closed)
    assert most_changed(records())[0] > 1


def test_an_edge_that_is_dated_in_two_windows_is_caught(monkeypatch):
    def here_or_in_utc(column, window, place, number):
        as_written = pa.chunked_array([[time[:10] for time in column.to_pylist()]], pa.string())
        return inside(column, window, place, number) | inside(as_written, window, place, number)

    monkeypatch.setattr(_ends, "inside", here_or_in_utc)
    assert most_changed(records())[0] > 1


TOTAL = 1.0
PRICES = (0.5, 1.0)
CHOICES = [None, *product((0, 1), PRICES)]
"""What may be released next: nothing, or a randomized answer about one of two windows at a price."""


def worst(account):
    """The largest log-ratios of the outcomes of adaptive releases: if one window differs, and if both do.

    The analyst picks the first release, and the second one by the first answer, and so on: three in all. ``account`` says which
    window is charged. A history is one bit for each window: whether the edge was there.
    """
    histories = list(product((0, 1), repeat=2))

    def law(bit, answer, price):
        return np.exp(price * (bit == answer)) / (1 + np.exp(price))

    def ratios(spent, left):
        """For each pair of histories the largest log-ratio that remains, whatever is chosen from here on."""
        best = dict.fromkeys(product(histories, histories), 0.0)
        for window, price in CHOICES[1:] if left else ():
            charged = account(window, spent)
            if spent[charged] + price > TOTAL:
                continue
            after = ratios(tuple(amount + price * (at == charged) for at, amount in enumerate(spent)), left - 1)
            for (one, other), answer in product(best, (0, 1)):
                change = np.log(law(one[window], answer, price) / law(other[window], answer, price))
                best[one, other] = max(best[one, other], change + after[one, other])
        return best

    found = ratios((0.0, 0.0), 3)
    apart = {pair: sum(a != b for a, b in zip(*pair, strict=True)) for pair in found}
    return tuple(max(found[pair] for pair, count in apart.items() if count == k) for k in (1, 2))


def test_adaptive_releases_cost_an_edge_in_one_window_the_total_and_one_in_two_windows_twice_that():
    assert worst(lambda window, spent: window) == pytest.approx((TOTAL, 2 * TOTAL))


def test_charging_another_window_is_caught():
    assert worst(lambda window, spent: int(np.argmin(spent)))[0] > TOTAL + 0.4


def test_the_windows_of_the_tests_are_those_of_their_times():
    for time, month in TIMES.items():
        (found,) = inside(pa.chunked_array([[time]]), Window.parse(f"time=2026-{month}"), "edges", int)
        assert found
