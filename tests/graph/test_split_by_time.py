"""A split by time: the graph holds the past alone, later links are kept apart, and nothing of them reaches a release."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato._window import TimeSplit
from sfumato.cli import invoke
from sfumato.errors import DataError, InputError
from sfumato.evaluation._links import hold_out
from sfumato.graph import from_frames, read_csv, read_parquet
from sfumato.graph._graph import Graph
from sfumato.graph._subgraph import adjacency, induced
from sfumato.tables._windows import inside

NODES = pd.DataFrame({"id": ["ann", "bob", "cat", "dan"], "age": [1, 2, 3, 4]})
DAY = "date:2026-03-01"


def edges(*rows, **more):
    return pd.DataFrame([(u, v, day) for u, v, day in rows], columns=["from", "to", "date"]).assign(**more)


TABLE = edges(
    ("ann", "bob", "2026-01-05"), ("bob", "ann", "2026-03-05"), ("bob", "cat", "2026-02-28T23:30:00-01:00"),
    ("cat", "bob", "2026-03-02"), ("cat", "dan", "2026-02-28T23:30:00Z"), ("dan", "dan", "2026-04-01"),
    ("dan", "ann", "2026-04-01"), ("ann", "dan", "2026-05"),
)  # fmt: skip


def neighbors(graph):
    return adjacency(graph).toarray().astype(int).tolist()


def test_the_graph_holds_the_past_and_later_links_are_new_pairs_without_loops(tmp_path):
    graph = from_frames(NODES, TABLE, split_by_time=DAY)
    assert neighbors(graph) == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert graph.later.pairs.tolist() == [[0, 1], [3, 2]]  # bob and cat: the clock says February, UTC says March
    directed = from_frames(NODES, TABLE, split_by_time=DAY, directed=True)
    assert directed.later.pairs.tolist() == [[0, 1, 1, 2, 3], [3, 0, 2, 1, 0]]
    NODES.to_csv(tmp_path / "n.csv", index=False)
    TABLE.to_csv(tmp_path / "e.csv", index=False)
    NODES.to_parquet(tmp_path / "n.parquet")
    TABLE.to_parquet(tmp_path / "e.parquet")
    for read, kind in ((read_csv, "csv"), (read_parquet, "parquet")):
        again = read(tmp_path / f"n.{kind}", tmp_path / f"e.{kind}", split_by_time="date:2026-03")
        assert again.later.pairs.tolist() == graph.later.pairs.tolist()
        assert np.array_equal(again.indices, graph.indices)
    assert induced(graph, [0, 3]).later is None  # its rows are others
    assert graph.window is None


def test_a_row_that_is_later_changes_no_bit_of_the_graph_and_one_of_the_past_at_most_one_edge():
    draws = np.random.default_rng(0)
    names = NODES["id"].to_numpy()
    for _ in range(40):
        rows = [(*draws.choice(names, 2), f"2026-0{draws.integers(1, 6)}-01") for _ in range(draws.integers(4, 12))]
        for owner in ({}, {"person": "who", "edges_per_person": 2}):
            table = edges(*rows, who=draws.integers(3, size=len(rows)))
            try:
                whole = from_frames(NODES, table, split_by_time=DAY, **owner)
            except DataError:  # nothing on one side
                continue
            for at in range(len(rows)):
                try:
                    less = from_frames(NODES, table.drop(index=at), split_by_time=DAY, **owner)
                except DataError:
                    continue
                moved = np.abs(np.array(neighbors(whole)) - np.array(neighbors(less))).sum() // 2
                assert moved <= (0 if rows[at][2] >= "2026-03" else 2 if owner else 1)


@pytest.mark.parametrize(
    ("cell", "says"),
    [("2026", "a year, which does not say on which side of the split"), ("2026-Q1", "a quarter, which"), ("", "no date"),
     ("2026-03-01T12:00", "a time without a zone"), ("1.3.2026", "no date of ISO 8601"), ("ann", "no date of ISO")],
)  # fmt: skip
def test_a_date_that_says_no_side_is_refused_with_its_row_and_without_its_value(cell, says):
    table = TABLE.copy()
    table.loc[2, "date"] = cell
    with pytest.raises(DataError, match=f"row 3, column 'date', has {says}") as caught:
        from_frames(NODES, table, split_by_time=DAY)
    assert "bob" not in str(caught.value)


def test_cells_that_decide_the_side_are_read():
    import pyarrow as pa

    cells = {"2025": True, "2026-02": True, "2026-W09": True, "2026-W10": False, "2026-Q2": False, "2027": False}
    found = inside(pa.chunked_array([[*cells]]), TimeSplit.parse("day:2026-03-02"), "e", int).tolist()
    assert found == [*cells.values()]


@pytest.mark.parametrize("text", ["date", "date:", ":2026", "date:2026-13-01", "date:soon", "date:2026-02-30", 7])
def test_a_split_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="COLUMN:DATE"):
        from_frames(NODES, TABLE, split_by_time=text)


def test_one_side_alone_is_refused_and_so_are_a_window_and_a_split():
    for day, why in (("2030", "none is from 2030 on"), ("2020", "none is before 2020")):
        with pytest.raises(DataError, match=why):
            from_frames(NODES, TABLE, split_by_time=f"date:{day}")
    repeated = TABLE.iloc[:2]
    with pytest.raises(DataError, match="link no two nodes that were not linked before"):
        from_frames(NODES, repeated, split_by_time=DAY)
    with pytest.raises(InputError, match="`window` or `split_by_time`"):
        from_frames(NODES, TABLE, split_by_time=DAY, window="date=2026-03")
    with pytest.raises(DataError, match="to have the column 'day'"):
        from_frames(NODES, TABLE, split_by_time="day:2026")


SIZE = 200


def shifting(folder, seed=0):
    """Tables of people of four kinds: until March they link with their own kind, from then on with the second next one."""
    draws = np.random.default_rng(seed)
    with (folder / "n.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "kind"], *([v, f"k{v % 4}"] for v in range(SIZE))])
    rows = []
    for month, shift in ((1, 0), (2, 0), (3, 2), (4, 2)):
        source = draws.integers(SIZE, size=700)
        target = (source + shift + 4 * draws.integers(1, SIZE // 4 - 1, size=700)) % SIZE
        rows += [(u, v, f"2026-0{month}-15") for u, v in zip(source, target, strict=True)]
    with (folder / "e.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["from", "to", "date"], *rows])
    return [
        "--nodes",
        folder / "n.csv",
        "--edges",
        folder / "e.csv",
        "--label",
        "kind",
        "--split-by-time",
        "date:2026-03",
    ]


def auc(graph, held):
    unit = sf.NoPrivacy()
    fitted = sf.LinkMessages().calibrate(None, unit, graph.public_facts(unit)).fit(graph)
    return held.score(lambda pairs: fitted.score_pairs(graph, pairs))[0]


def test_the_future_is_found_by_who_leaks_it_and_by_nobody_else(tmp_path):
    shifting(tmp_path)
    past = read_csv(tmp_path / "n.csv", tmp_path / "e.csv", label="kind", split_by_time="date:2026-03").with_split()
    held = hold_out(past, 0)
    links, others = ({tuple(pair) for pair in pairs.T.tolist()} for pairs in (held.links, held.others))
    linked = {tuple(sorted(pair)) for pair in np.argwhere(adjacency(past).toarray() > 0).tolist()}
    assert not links & linked
    assert not others & (links | linked)
    assert len(others) > 500
    assert held.links.tolist() == hold_out(past, 1).links.tolist()
    assert held.graph.later is None
    assert held.graph.num_edges == past.num_edges
    ends = np.argwhere(np.triu(adjacency(past).toarray())).T
    leaking = Graph.from_edges(
        *np.hstack((ends, past.later.pairs)), SIZE, directed=False, y=past.y, classes=past.classes
    ).with_split()
    assert auc(held.graph, held) < 0.5 < 0.7 < auc(leaking, held)


def test_a_run_scores_the_future_and_predicts_from_the_past(tmp_path, capsys):
    how, run = ("--unit", "edge", "--epsilon", "4", "--delta", "0"), tmp_path / "run"

    def asked(*words):
        code = invoke([str(word) for word in words])
        return code, capsys.readouterr()

    tables = shifting(tmp_path)
    code, told = asked("train", "link-messages", "--task", "link", *tables, *how, "--out", run, "--json")
    assert code == 0, told.err
    result = json.loads(told.out)
    assert result["held_out"] == "date:2026-03"
    assert result["test_auc"]["mean"] < 0.5
    assert "date:2026-03" not in "".join(path.read_text("latin1") for path in (run / "release").iterdir())
    assert asked("verify", run)[0] == asked("report", run)[0] == 0
    assert "AUC of new links from date:2026-03 on" in (run / "reports/index.html").read_text()
    assert asked("predict", run, "--top", "2", "--out", tmp_path / "top.csv")[0] == 0
    code, told = asked("train", "auto", *tables, *how, "--out", tmp_path / "other")
    assert code == 2
    assert "a method that learns links" in told.err
    code, told = asked("data", "import", *tables[:4], "--out", tmp_path / "store", "--split-by-time", "date:2026")
    assert code == 2
