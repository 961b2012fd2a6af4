"""One table for each type of edges, and events of PyTorch Geometric: the same graphs as from one table with a column."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data, TemporalData

import sfumato as sf
from sfumato.cli import invoke
from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph import from_frames, from_pyg, read_csv, read_parquet, read_sql

NODES = pd.DataFrame({"id": ["ann", "bob", "cat", "dan"], "age": [1, 2, 3, 4]})
FRIENDS = pd.DataFrame({"source": ["ann", "cat", "ann"], "target": ["bob", "dan", "bob"]})
CALLS = pd.DataFrame({"caller": ["bob", "ann"], "called": ["ann", "cat"]})
BOTH = {"friend": FRIENDS, "call": CALLS}
WHOLE = pd.concat([FRIENDS.assign(kind="friend"), CALLS.set_axis(["source", "target"], axis=1).assign(kind="call")])


def same(one, other):
    return (
        np.array_equal(one.indices, other.indices)
        and np.array_equal(one.types.marks, other.types.marks)
        and (one.types.names, one.types.public) == (other.types.names, other.types.public)
    )


@pytest.mark.parametrize("directed", [False, True])
def test_a_table_for_each_type_is_one_table_with_a_column(directed, tmp_path):
    for public in ((), ("call",)):
        whole = from_frames(
            NODES, WHOLE, edge_type="kind", edge_types=["friend", "call"], public_types=public, directed=directed
        )
        assert same(from_frames(NODES, BOTH, public_types=public, directed=directed), whole)
        NODES.to_csv(tmp_path / "n.csv", index=False)
        NODES.to_parquet(tmp_path / "n.parquet")
        for name, table in BOTH.items():
            table.to_csv(tmp_path / f"{name}.csv", index=False)
            table.to_parquet(tmp_path / f"{name}.parquet")
        for read, kind in ((read_csv, "csv"), (read_parquet, "parquet")):
            files = {name: tmp_path / f"{name}.{kind}" for name in BOTH}
            assert same(read(tmp_path / f"n.{kind}", files, public_types=public, directed=directed), whole)
        import duckdb

        with duckdb.connect() as connection:
            queries = {name: f"SELECT * FROM '{tmp_path / name}.csv'" for name in BOTH}
            nodes = f"SELECT * FROM '{tmp_path / 'n.csv'}'"
            assert same(read_sql(connection, nodes, queries, public_types=public, directed=directed), whole)


def test_columns_by_name_are_a_table_and_one_type_alone_is_the_plain_graph():
    plain = from_frames(NODES, {"source": ["ann", "cat"], "target": ["bob", "dan"]})
    assert plain.types is None
    assert from_frames(NODES, {"friend": FRIENDS}).types is None


def test_an_error_names_the_table_and_its_row_and_no_value(tmp_path):
    wrong = {**BOTH, "call": pd.DataFrame({"caller": ["bob", "zoe"], "called": ["ann", "cat"]})}
    with pytest.raises(DataError, match=r"row 2 of edges\['call'\]") as caught:
        from_frames(NODES, wrong)
    assert "zoe" not in str(caught.value)
    with pytest.warns(DroppedWarning, match=r"Not read: since of edges\['call'\]"):
        from_frames(NODES, {**BOTH, "call": CALLS.assign(since=[1, 2])})
    for how, why in (
        ({"edge_type": "kind", "edge_types": ["a"]}, "the names of the tables are the types"),
        ({"public_types": ["calls"]}, "to be among the types friend, call"),
        ({"public_types": ["friend", "call"]}, "to leave a type that is protected"),
        ({"edge_weight": "w", "max_weight": 1.0}, "types or weights"),
        ({"person": "source", "edges_per_person": 1}, "types of edges or owners"),
    ):
        with pytest.raises(InputError, match=why):
            from_frames(NODES, BOTH, **how)
    with pytest.raises(InputError, match="letters, digits"):
        from_frames(NODES, {"a/b": FRIENDS, "call": CALLS})


def test_tables_are_split_by_time_together():
    friends, calls = FRIENDS.assign(date=["2026-01-01"] * 3), CALLS.assign(date=["2026-02-01", "2026-04-01"])
    calls = calls.set_axis(["source", "target", "date"], axis=1)
    graph = from_frames(NODES, {"friend": friends, "call": calls}, split_by_time="date:2026-03")
    assert graph.types.of("call").sum() == 2
    assert graph.later.pairs.tolist() == [[0], [2]]


def events(**more):
    src, dst, t = torch.tensor([0, 1, 0, 2, 3]), torch.tensor([1, 0, 2, 3, 0]), torch.tensor([1, 5, 9, 4, 30])
    return TemporalData(src=src, dst=dst, t=t, **more)


PEOPLE = Data(x=torch.eye(4), y=torch.tensor([0, 1, 0, 1]))


def test_events_are_edges_and_windows_their_types():
    graph = from_pyg(events(), False, nodes=PEOPLE)
    assert (graph.num_edges, graph.types, graph.num_features, graph.num_classes) == (4, None, 4, 2)
    typed = from_pyg(events(), False, nodes=PEOPLE, boundaries=[5, 9], public_types=["from 9"])
    assert typed.types.names == ("before 5", "5 to 9", "from 9")
    assert [int(typed.types.of(name).sum()) for name in typed.types.names] == [4, 2, 4]
    assert typed.types.public == ("from 9",)
    split = from_pyg(events(), False, nodes=Data(num_nodes=5), split_by_time=9, boundaries=[5])
    assert (split.num_nodes, split.num_edges, split.later.split) == (5, 2, "t:9")
    assert split.later.pairs.tolist() == [[0, 0], [2, 3]]
    plan = sf.LabelMessages().calibrate(
        sf.Budget(1.0, 0.0), sf.EdgeLevel(directed=False), typed.with_split().public_facts(sf.EdgeLevel(directed=False))
    )
    assert plan.fit(typed.with_split()).certificate.epsilon == pytest.approx(1)


def test_what_events_lack_is_refused_with_words():
    for how, why in (
        ({}, "whose events have no nodes of their own"),
        ({"nodes": Data()}, "to say how many there are"),
        ({"nodes": PEOPLE, "public_types": ["x"]}, "windows between"),
        ({"nodes": PEOPLE, "boundaries": [5, 5]}, "increasing"),
        ({"nodes": PEOPLE, "boundaries": ["soon"]}, "numbers in the unit of t"),
        ({"nodes": PEOPLE, "label": "y"}, "None for TemporalData"),
        ({"nodes": PEOPLE, "split_by_time": 100}, "none is from 100 on"),
        ({"nodes": Data(num_nodes=3)}, "src"),
    ):
        with pytest.raises((DataError, InputError), match=why):
            from_pyg(events(), False, **how)
    with pytest.raises(DataError, match="event 1 has none"):
        from_pyg(TemporalData(src=[0, 1], dst=[1, 0], t=torch.tensor([1.0, float("nan")])), False, nodes=PEOPLE)
    with pytest.warns(DroppedWarning, match="Not read: msg of events"):
        from_pyg(events(msg=torch.ones(5, 2)), False, nodes=PEOPLE)
    with pytest.raises(InputError, match="to come with TemporalData"):
        from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 0]])), False, nodes=PEOPLE)


def test_the_command_line_reads_a_table_for_each_type_and_the_run_remembers_them(tmp_path, capsys):
    draws = np.random.default_rng(0)
    pd.DataFrame({"id": range(90), "kind": [f"k{v % 3}" for v in range(90)]}).to_csv(tmp_path / "n.csv", index=False)
    options = ["--nodes", tmp_path / "n.csv", "--label", "kind", "--unit", "edge", "--epsilon", "1", "--delta", "0"]
    for name, step in (("friend", 3), ("call", 1)):
        source = draws.integers(90, size=400)
        table = pd.DataFrame({"a": source, "b": (source + step * draws.integers(1, 29, size=400)) % 90})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        options += ["--edges-of", f"{name}={tmp_path / name}.csv"]

    def asked(*words):
        code = invoke([str(word) for word in words])
        return code, capsys.readouterr()

    run = tmp_path / "run"
    code, told = asked("train", "auto", *options, "--out", run)
    assert code == 0, told.err
    certificate = json.loads((run / "release/certificate.json").read_text())
    assert "call" in json.dumps(certificate["public_facts"])
    assert asked("verify", run)[0] == asked("evaluate", run)[0] == asked("predict", run)[0] == 0
    for more, why in (
        (["--edges", tmp_path / "friend.csv"], "in place of --edges"),
        (["--edges-of", "friend=x.csv"], "each type once"),
        (["--edges-of", "friends"], "TYPE=FILE"),
        (["--edge-type", "kind", "--edge-types", "a"], "the names of the tables are the types"),
    ):
        code, told = asked("train", "auto", *options, *more, "--out", tmp_path / "other")
        assert code == 2
        assert why in told.err


def test_large_times_keep_all_their_digits():
    """Seconds since 1970 have names of their own, and no two splits are called the same."""

    def late(at):
        found = events()
        found.t = found.t + at
        return found

    typed = from_pyg(late(1_700_000_000), False, nodes=PEOPLE, boundaries=[1_700_000_005, 1_700_000_009])
    assert typed.types.names == ("before 1700000005", "1700000005 to 1700000009", "from 1700000009")
    named = {
        from_pyg(late(1_700_000_000), False, nodes=PEOPLE, split_by_time=1_700_000_005 + i).later.split for i in (0, 1)
    }
    assert len(named) == 2
