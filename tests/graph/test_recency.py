"""Weights that fade with age: a function of a row and of public numbers; a reference that the table chooses is caught."""

import csv
import json
from datetime import date
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato._window import Recency
from sfumato.bounded.aggregation import hop_sensitivity
from sfumato.cli import invoke
from sfumato.errors import DataError, InputError
from sfumato.graph import from_frames, read_csv
from sfumato.graph._weights import FULL

NODES = pd.DataFrame({"id": [0, 1, 2, 3], "age": [1, 2, 3, 4]})
RULE = "date:10d@2026-03-31"


def edges(*rows, **more):
    return pd.DataFrame([(u, v, day) for u, v, day in rows], columns=["source", "target", "date"]).assign(**more)


TABLE = edges((0, 1, "2026-03-31"), (1, 2, "2026-03-21"), (2, 3, "2026-03-11T23:30-01:00"), (3, 0, "2026-04-30"))


def weight(graph, u, v):
    row = slice(graph.indptr[u], graph.indptr[u + 1])
    place = np.flatnonzero(graph.indices[row] == v)
    return float(graph.weights.values[row][place][0]) if len(place) else 0.0


def test_weights_halve_with_age_on_a_public_day_and_are_at_most_1():
    graph = from_frames(NODES, TABLE, recency=RULE)
    assert graph.weights.bound == 1
    found = [weight(graph, *pair) for pair in ((0, 1), (2, 1), (3, 2), (0, 3))]
    assert found == pytest.approx([1, 0.5, 2**-1.9, 1], abs=2 / FULL)
    both = edges((0, 1, "2026-03-21"), (1, 0, "2026-03-21"), (0, 1, "2026-03-21"), (1, 2, "2026-03-11"))
    graph = from_frames(NODES, both, recency=RULE)
    assert (weight(graph, 0, 1), weight(graph, 1, 2)) == (1, 0.25)  # rows add up, and are clipped
    paid = from_frames(NODES, both.assign(paid=[4, 0, 8, 20]), recency=RULE, edge_weight="paid", max_weight=8.0)
    assert (weight(paid, 0, 1), weight(paid, 1, 2)) == (6, 5)
    two = from_frames(NODES, both, recency=RULE, max_weight=2.0)
    assert weight(two, 0, 1) == 1.5


def test_the_day_is_that_of_a_split_or_the_last_of_a_window_and_never_the_newest_of_the_table():
    split = from_frames(NODES, TABLE, recency="date:10d", split_by_time="date:2026-03-31")
    assert weight(split, 1, 2) == 0.5
    window = from_frames(NODES, TABLE, recency="date:10d", window="date=2026-03")
    assert (weight(window, 1, 2), weight(window, 0, 1), weight(window, 0, 3)) == (0.5, 1, 0)
    with pytest.raises(InputError, match="newest date of the table is a fact about one private edge"):
        from_frames(NODES, TABLE, recency="date:10d")


@pytest.mark.parametrize(
    "text", ["date", "date:d", "date:0d", "date:90", "date:3m", ":9d", "date:9d@", "date:9d@soon", 7]
)
def test_a_rule_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="COLUMN:HALFLIFE"):
        from_frames(NODES, TABLE, recency=text)


@pytest.mark.parametrize("cell", ["2026-03", "", "ann", "2026-03-01T12:00"])
def test_a_row_without_a_day_is_refused_without_its_value(cell):
    table = TABLE.copy()
    table.loc[1, "date"] = cell
    with pytest.raises(DataError, match=r"column 'date',.* row 2 has") as caught:
        from_frames(NODES, table, recency=RULE)
    assert "ann" not in str(caught.value)


def test_types_and_recency_are_refused_together():
    with pytest.raises(InputError, match="Windows of time are types"):
        from_frames(NODES, TABLE.assign(kind="a"), recency=RULE, edge_type="kind", edge_types=["a", "b"])


def by_newest(table):
    """A near miss: ages are counted from the newest date of the table."""
    return Recency("date", 1, max(date.fromisoformat(day) for day in table["date"]))


def moved(table, at, rule):
    """How far one hop of rows of norm 1 moves, in L2, and how many arcs change, when all rows of one edge go."""
    ends = {frozenset(table.loc[at, ["source", "target"]])}
    gone = [i for i in table.index if frozenset(table.loc[i, ["source", "target"]]) in ends]
    graphs = [from_frames(NODES, one, recency=str(rule(one))) for one in (table, table.drop(index=gone))]
    matrices = [np.array([[weight(graph, u, v) for v in range(4)] for u in range(4)]) for graph in graphs]
    rows = np.eye(4)
    change = matrices[0] - matrices[1]
    return float(np.linalg.norm(change @ rows)), int((np.abs(change) > 1e-9).sum())


def test_one_edge_moves_its_own_weight_alone_and_a_newest_date_moves_them_all():
    bound = hop_sensitivity(sf.EdgeLevel(directed=False), released_messages=True)
    draws, fixed, newest = np.random.default_rng(0), [], []
    pairs = list(combinations(range(4), 2))
    for _ in range(30):
        chosen = draws.choice(len(pairs), draws.integers(3, 7))
        days = [f"2026-03-{day:02}" for day in draws.integers(1, 31, len(chosen))]
        table = edges(*((*pairs[at], day) for at, day in zip(chosen, days, strict=True)))
        if len(set(chosen)) < 2:
            continue
        for at in table.index:
            fixed.append(moved(table, at, lambda _: Recency.parse("date:1d@2026-03-31")))
            newest.append(moved(table, at, by_newest))
    assert max(change for change, _ in fixed) <= bound + 1e-6
    assert max(arcs for _, arcs in fixed) <= 2
    assert max(change for change, _ in newest) > bound * 1.2
    assert max(arcs for _, arcs in newest) > 2


def test_a_run_with_recency_is_verified_and_predicts_other_tables_by_the_same_day(tmp_path, capsys):
    draws = np.random.default_rng(0)
    with (tmp_path / "n.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "kind"], *([v, f"k{v % 2}"] for v in range(120))])
    for name in ("e", "other"):
        ends = draws.integers(120, size=(2, 700))
        rows = [
            (u, v, f"2026-{draws.integers(1, 4):02}-09") for u, v in ends.T if u % 2 == v % 2 or draws.random() < 0.2
        ]
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["source", "target", "date"], *rows])
    tables = ["--nodes", tmp_path / "n.csv", "--edges", tmp_path / "e.csv", "--label", "kind"]
    how = ["--unit", "edge", "--epsilon", "2", "--delta", "0"]

    def asked(*words):
        code = invoke([str(word) for word in words])
        told = capsys.readouterr()
        assert code == 0, told.err
        return told.out

    told = asked("train", "auto", *tables, *how, "--recency", "date:30d@2026-04", "--out", tmp_path / "run", "--json")
    assert json.loads(told)["test_accuracy"]["mean"] > 0.6
    asked("verify", tmp_path / "run")
    facts = json.loads((tmp_path / "run/release/certificate.json").read_text())["public_facts"]
    assert facts["max_weight"] == 1
    source = json.loads((tmp_path / "run/evaluation/source.json").read_text())
    assert source["recency"] == "date:30d@2026-04-01"
    assert read_csv(tmp_path / "n.csv", tmp_path / "e.csv", recency=source["recency"]).weights.bound == 1
