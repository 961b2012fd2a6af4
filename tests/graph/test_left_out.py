"""Columns that are left out: by an argument, by the schema, by the command line, and later by the run itself."""

import json
import warnings

import pytest

from sfumato.cli import invoke
from sfumato.errors import DataError, SchemaError
from sfumato.graph import Graph, from_frames, read_csv
from sfumato.tables._importing import import_tables

pd = pytest.importorskip("pandas")

NODES = "row,person,joined,age,year\n" + "".join(
    f"{v},p{v},2024-01-0{1 + v % 9},{v % 5},{2004 + v % 2}\n" for v in range(30)
)
EDGES = "row,person,friend,since\n" + "".join(f"{v},p{v},p{v + 1},2020\n" for v in range(29))
LEFT = ("row", "joined", "since")


@pytest.fixture
def files(written, tmp_path):
    (tmp_path / "schema.toml").write_text(f"label = 'year'\ndrop = {json.dumps(LEFT)}\n")
    return written(NODES, EDGES)


def check(graph):
    """The first column that is left is the id, and the first two that are left are the ends."""
    assert graph.node_ids.tolist() == [f"p{v}" for v in range(30)]
    assert (graph.feature_names, graph.num_edges) == (("age",), 29)


def test_columns_are_left_out_of_both_tables(files, tmp_path):
    schema = tmp_path / "schema.toml"
    with warnings.catch_warnings():  # what is left out on purpose needs no warning
        warnings.simplefilter("error")
        check(read_csv(*files, label="year", drop=LEFT))
        check(read_csv(*files, schema=schema))
        check(read_csv(*files, drop=["row"], schema={"label": "year", "drop": ["joined", "since"]}))
        check(from_frames(*(pd.read_csv(path) for path in files), schema=schema))
        check(Graph.load(import_tables(*files, tmp_path / "store", label="year", drop=LEFT)))


@pytest.mark.parametrize(
    ("how", "error", "fragment"),
    [
        ({"drop": ["jointed"]}, DataError, "columns of {} or {}, got 'jointed'. They have 'row', 'person', 'joined'"),
        ({"drop": ["year"], "label": "year"}, DataError, "'year' is read as label"),
        ({"drop": ["age"], "features": ["age"]}, DataError, "got 'age' in both"),
        ({"schema": {"drop": ["age"], "columns": {"age": {}}}}, SchemaError, "that nothing else names, got 'age'"),
        ({"schema": {"drop": "age"}}, SchemaError, "Expected drop to be a list"),
        ({"drop": ["row", "joined", "friend", "since"]}, DataError, "two columns of node ids"),
        (
            {"drop": ["person", "joined"]},
            DataError,
            "'person' of {1} is read as end, since it stands among the first two",
        ),
        ({"drop": ["person"], "id_column": "person"}, DataError, "'person' of {0} is read as id. Drop another"),
        ({"drop": ["person", "joined"], "source": "row", "target": "person"}, DataError, "read as end"),
        (
            {"drop": ["friend", "joined"], "source": "person", "target": "friend", "id_column": "person"},
            DataError,
            "'friend' of {1} is read as end",
        ),
        (
            {"drop": ["since", "joined", "row"], "edge_weight": "since", "max_weight": 1.0},
            DataError,
            "'since' of {1} is read as weight",
        ),
        ({"drop": ["age"], "label": ["age", "year"]}, DataError, "'age' is read as label"),
        ({"drop": ["age"], "role": "age"}, DataError, "'age' is read as label, role"),
    ],
)
def test_what_cannot_be_left_out_is_refused(how, error, fragment, files):
    with pytest.raises(error) as caught:
        read_csv(*files, **how)
    assert fragment.format(*files) in str(caught.value)


def test_a_run_remembers_what_it_left_out(files, tmp_path, capsys):
    tables = [f"--nodes={files[0]}", f"--edges={files[1]}", "--label=year"]
    drop = [f"--drop={name}" for name in LEFT]
    run = tmp_path / "run"
    fit = ["train", "linear", *tables, "--unit=edge", "--epsilon=1", "--delta=1e-6", "--no-controls", f"--out={run}"]
    assert invoke([*fit, *drop]) == 0
    assert json.loads((run / "evaluation" / "source.json").read_text())["drop"] == list(LEFT)
    assert invoke(["evaluate", str(run)]) == 0
    assert invoke(["predict", str(run)]) == 0
    assert invoke(["predict", str(run), *tables, "--out", str(tmp_path / "again.csv")]) == 0
    new, ends = tmp_path / "new.csv", tmp_path / "ends.csv"
    new.write_text(NODES.splitlines()[0] + "\n99,p99,2024-01-01,3,\n")
    ends.write_text("person,friend\np99,p1\n")
    assert invoke(["predict", str(run), f"--new-nodes={new}", f"--new-edges={ends}"]) == 0
    assert invoke([*fit[:-1], f"--out={tmp_path / 'other'}", "--drop=jointed"]) == 2
    assert "got 'jointed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("nodes", "edges", "drop", "told"),
    [
        (
            "person,dorm\nann,x\nbob,y\n",
            "a,b\n",
            ["person"],
            "'person' of .*nodes.csv is read as id, since it stands first",
        ),
        ("person,f\n7,1\n5,2\n3,4\n", "who,whom,f\n7,3,5\n5,7,3\n", ["who"], "'who' of .*edges.csv is read as end"),
        ("row,f\n7,1\n5,2\n3,4\n", "row,whom,who\n7,3,5\n5,7,3\n", ["row"], "'row' of .*nodes.csv is read as id"),
        ("row,id,f\n1,7,1\n2,5,2\n", "row,whom,who\n1,5,7\n2,7,5\n", ["row"], None),
        ("row,person,f\n1,7,1\n2,5,2\n", "row,whom,who\n1,5,7\n2,7,5\n", ["row"], None),
        ("row,person,f\n1,1,1\n2,2,2\n", "row,whom,who\n1,1,2\n2,2,1\n", ["row"], None),
        ("dorm,person,f\nx,1,1\nx,2,2\n", "when,whom,who\n9,1,2\n8,2,1\n", ["dorm", "when"], None),
    ],
)
def test_what_stands_first_is_left_out_if_nothing_needs_it(nodes, edges, drop, told, written, tmp_path):
    files = written(nodes, edges)
    for read in (read_csv, lambda *tables, **how: Graph.load(import_tables(*tables, tmp_path / "store", **how))):
        if told is None:
            assert read(*files, drop=drop, features=["f"]).num_edges == 1
            continue
        with pytest.raises(DataError, match=told):
            read(*files, drop=drop)


def test_a_named_data_set_and_a_store_have_no_columns_to_leave_out(tmp_path, capsys):
    out = ["--label=year", "--unit=none", f"--out={tmp_path / 'run'}", "--drop=row"]
    assert invoke(["train", "linear", "--dataset=campus", *out[1:]]) == 2
    assert "Expected --drop with --nodes and --edges only" in capsys.readouterr().err
    assert invoke(["train", "linear", f"--graph={tmp_path}", *out[1:]]) == 2
    assert "Expected no --drop with --graph, a store" in capsys.readouterr().err


def test_a_column_without_a_name_stays_without_one(read):
    edges = "when,,person,friend\n2020,0,3,2\n2021,1,1,2\n"
    graph = read("person,f\n0,1\n1,2\n2,3\n3,4\n", edges, drop=["when"])
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 0, 1, 3, 4], [2, 1, 3, 2])
