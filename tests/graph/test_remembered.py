"""A run knows the columns of its tables by their names: other tables are read by these, in whatever order they stand."""

import json

import pytest

from sfumato.cli import invoke
from sfumato.errors import DataError
from sfumato.evaluation._source import Source
from sfumato.graph import Graph, from_frames, read_new_nodes, read_newcomers
from sfumato.tables._newcomers import node_names

pd = pytest.importorskip("pandas")

NODES = pd.DataFrame({"person": [f"p{v}" for v in range(30)], "age": [v % 5 for v in range(30)]})
NODES["year"] = [2004 + v % 2 for v in range(30)]
EDGES = pd.DataFrame({"who": [f"p{v}" for v in range(29)], "likes": [f"p{v + 1}" for v in range(29)], "amount": 1.5})


def kept(folder, **how):
    """The source of a run on these tables, as its folder keeps it."""
    NODES.to_csv(folder / "nodes.csv", index=False)
    EDGES.to_csv(folder / "edges.csv", index=False)
    tables = {"nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv"), "label": "year"}
    (folder / "run" / "evaluation").mkdir(parents=True)
    Source(**tables, directed=True, **how).write(folder / "run")
    return Source.of_run(folder / "run")


def turned(frame, path):
    frame[frame.columns[::-1]].to_csv(path, index=False)


@pytest.mark.parametrize("how", [{}, {"edge_weight": "amount", "max_weight": 2.0}, {"drop": ("amount",)}])
def test_tables_in_another_order_are_the_same_graph(tmp_path, how):
    source = kept(tmp_path, **how)
    assert (source.id_column, source.ends) == ("person", ("who", "likes"))
    before = source.load()
    turned(NODES, tmp_path / "nodes.csv")
    turned(EDGES, tmp_path / "edges.csv")
    after = source.load()
    assert after.node_ids.tolist() == before.node_ids.tolist()
    assert (after.feature_names, after.indices.tolist()) == (before.feature_names, before.indices.tolist())
    assert after.indptr.tolist() == [*range(30), 29]
    turned(NODES.rename(columns={"person": "id"}), tmp_path / "nodes.csv")
    with pytest.raises(DataError, match=r"to have the column 'person', got the columns year, age, id"):
        source.load()


def test_what_a_schema_says_goes_before_what_is_remembered(tmp_path):
    (tmp_path / "schema.toml").write_text("id = 'person'\nlabel = 'year'\n")
    source = kept(tmp_path)
    NODES.assign(other=range(30)).to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / "other.toml").write_text("id = 'other'\nlabel = 'year'\ndrop = ['person']\n")
    other = Source(**{**vars(source), "schema": str(tmp_path / "other.toml"), "edges": str(tmp_path / "none.csv")})
    (tmp_path / "none.csv").write_text("who,likes\n")
    assert other.load().node_ids.tolist() == [*range(30)]


@pytest.fixture(scope="module")
def trained():
    how = {"id_column": "person", "source": "who", "target": "likes", "features": ["age"]}
    return from_frames(NODES, EDGES[["who", "likes"]], label="year", directed=True, **how)


NEW = pd.DataFrame({"person": ["q1", "q2"], "age": [7, 8], "year": [None, None], "city": ["x", "y"]})


@pytest.mark.parametrize("columns", [["person", "age"], ["age", "person"], ["city", "year", "age", "person"]])
def test_newcomers_are_read_by_the_names_of_the_run(trained, columns):
    nodes = read_new_nodes(trained, NEW[columns], label="year", id_column="person")
    assert (node_names(nodes), nodes.x.ravel().tolist()) == (["q1", "q2"], [7, 8])
    ends = pd.DataFrame({"likes": ["p1", "q1"], "when": [1, 2], "who": ["q1", "q2"]})
    late = read_newcomers(nodes, [trained], ends, ends=("who", "likes"))
    assert late.reach_indices.tolist() == [0]
    with pytest.raises(DataError, match="to have the column 'who', got the columns likes, from"):
        read_newcomers(nodes, [trained], ends.rename(columns={"who": "from"})[["likes", "from"]], ends=("who", "likes"))


def test_without_names_nothing_is_found_by_its_place(trained):
    assert node_names(read_new_nodes(trained, NEW[["age", "person"]])) == ["q1", "q2"]
    assert node_names(read_new_nodes(trained, NEW.rename(columns={"person": "ID"}))) == ["q1", "q2"]
    for table in (NEW, NEW[["city", "person", "age"]]):
        with pytest.raises(DataError, match="Call it id, or name it: id_column, or id in the schema"):
            read_new_nodes(trained, table, label="year")
    with pytest.raises(DataError, match="to have the column 'person', got"):
        read_new_nodes(trained, NEW[["age", "city"]], id_column="person")
    bare = Graph.from_edges([0], [1], 2, directed=False, x=[[1], [2]])
    with pytest.raises(DataError, match="Call it id, or name it"):
        read_new_nodes(bare, NEW[["person", "age"]])
    nodes = read_new_nodes(trained, NEW, id_column="person")
    with pytest.raises(DataError, match="Call them source and target, or name them"):
        read_newcomers(nodes, [trained], pd.DataFrame({"likes": ["p1"], "who": ["q1"]}))


def test_ends_of_newcomers_are_folded_as_in_training(tmp_path):
    known = from_frames(pd.DataFrame({"id": [100, 2], "f": [1, 2]}), pd.DataFrame({"from": [2], "to": [100]}))
    (tmp_path / "new.csv").write_text("f,id\n3,101.0\n4,4\n")
    (tmp_path / "ends.csv").write_text("from,to\n101.0,4.0\n101,2.0\n")
    nodes = read_new_nodes(known, tmp_path / "new.csv")
    for ends in (tmp_path / "ends.csv", pd.read_csv(tmp_path / "ends.csv")):
        late = read_newcomers(nodes, [known], ends)
        assert late.reach_indices.tolist() == [1, 0, 0]


def test_the_command_line_reads_by_the_names_of_the_run(tmp_path):
    kept(tmp_path)
    run, tables = tmp_path / "fit", [f"--nodes={tmp_path / 'nodes.csv'}", f"--edges={tmp_path / 'edges.csv'}"]
    fit = ["train", "linear", *tables, "--label=year", "--unit=edge", "--epsilon=1", "--delta=1e-6", "--no-controls"]
    assert invoke([*fit, f"--out={run}"]) == 0
    assert json.loads((run / "evaluation" / "source.json").read_text())["ends"] == ["who", "likes"]
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert invoke(["predict", str(run), f"--out={first}"]) == 0
    turned(NODES, tmp_path / "nodes.csv")
    turned(EDGES, tmp_path / "edges.csv")
    assert invoke(["predict", str(run), *tables, "--label=year", f"--out={second}"]) == 0
    assert second.read_text() == first.read_text()
    turned(NEW, tmp_path / "new.csv")
    assert (
        invoke(["predict", str(run), f"--new-nodes={tmp_path / 'new.csv'}", f"--out={tmp_path / 'new-out.csv'}"]) == 0
    )
    assert (tmp_path / "new-out.csv").read_text().splitlines()[1].startswith("q1,")
