"""Commands know the graph of a run again in any order of rows and columns, and never take another one for it."""

import csv
import json
import random
from pathlib import Path

import pytest

from sfumato.cli import invoke


def shuffled(path, seed, columns=None):
    """The rows of a table in another order, and its columns too."""
    header, *rows = list(csv.reader(Path(path).read_text().splitlines()))
    random.Random(seed).shuffle(rows)
    places = [header.index(name) for name in columns or header]
    return "".join(",".join(row[place] for place in places) + "\n" for row in (header, *rows))


def lines(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def trained(tables, tmp_path_factory):
    """A run on the first graph, whose tables may be turned in place."""
    folder = tmp_path_factory.mktemp("same")
    for name in ("nodes", "edges"):
        (folder / f"{name}.csv").write_text((Path(tables["first"][1]).parent / f"{name}.csv").read_text())
    named = ["--nodes", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv"), "--label", "year"]
    claim = ["--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--json", "--no-controls"]
    assert invoke(["train", "label-messages", *named, *claim, "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def turned(trained, tmp_path):
    """Both tables with rows and columns in another order, as options."""
    (tmp_path / "nodes.csv").write_text(shuffled(trained / "nodes.csv", 1, ["f2", "year", "id", "f0", "f3", "f1"]))
    (tmp_path / "edges.csv").write_text(shuffled(trained / "edges.csv", 2))
    return ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv"]


def test_shuffled_tables_are_answered_in_their_order_and_for_free(trained, turned, sfumato, tmp_path):
    assert sfumato("predict", trained / "run", "--out", tmp_path / "p.csv").code == 0
    for label in (["--label", "year"], []):
        columns = ["id", "f3", "f1", "f0", "f2", *label[1:]]
        (tmp_path / "nodes.csv").write_text(shuffled(trained / "nodes.csv", 1, columns))
        result = sfumato("predict", trained / "run", *turned, *label, "--out", tmp_path / "q.csv", "--force")
        assert (result.code, "cached releases answer, no edge is read" in result.err) == (0, True)
        asked = [row["id"] for row in lines(tmp_path / "nodes.csv")]
        expected = {row["node"]: row for row in lines(tmp_path / "p.csv")}
        found = lines(tmp_path / "q.csv")
        assert [row["node"] for row in found] == asked
        same = ("role", "p(2004)", *(("predicted", "known_label", "source") if label else ()))
        for name in same:
            assert [row[name] for row in found] == [expected[row["node"]][name] for row in found]


def test_a_table_that_was_sorted_since_is_scored_on_the_same_test_nodes(trained, turned, sfumato):
    before = json.loads(sfumato("evaluate", trained / "run", "--json").out)
    kept = (trained / "nodes.csv").read_text()
    (trained / "nodes.csv").write_text(shuffled(trained / "nodes.csv", 3))
    try:
        assert json.loads(sfumato("evaluate", trained / "run", "--json").out) == before
    finally:
        (trained / "nodes.csv").write_text(kept)


@pytest.fixture
def others(tables, tmp_path):
    """Another graph with the node ids of the run."""
    named = []
    for name in ("nodes", "edges"):
        text = (Path(tables["second"][1]).parent / f"{name}.csv").read_text()
        (tmp_path / f"other-{name}.csv").write_text(text.replace("m", "n"))
        named += [f"--{name}", tmp_path / f"other-{name}.csv"]
    return [*named, "--label", "year"]


def test_another_graph_with_the_same_ids_is_refused_and_then_charged(trained, others, refused, sfumato, tmp_path):
    out = ("--out", tmp_path / "p.csv")
    refused("with the same node ids but other features, which are public: aggregating another private graph spends budget",
            "predict", trained / "run", *others, *out)  # fmt: skip
    charged = ("--epsilon", "2", "--delta", "1e-6", "--new-run", tmp_path / "new", "--json")
    result = sfumato("predict", trained / "run", *others, *out, *charged)
    assert (result.code, json.loads(result.out)["epsilon_spent"]) == (0, pytest.approx(2, rel=1e-3))


def test_a_new_run_is_taken_at_its_word(trained, turned, refused, sfumato, tmp_path):
    """The same people, features and labels at another time: only who says it knows that it is another graph."""
    named = ("predict", trained / "run", *turned, "--label", "year", "--out", tmp_path / "p.csv")
    budget = ("--epsilon", "2", "--delta", "1e-6")
    refused("predicting on this one is free. Drop them.", *named, *budget, "--json")
    result = sfumato(*named, *budget, "--new-run", tmp_path / "new")
    assert (result.code, "is read and charged as another one" in result.err) == (0, True)
    certificate = json.loads((tmp_path / "new" / "release" / "certificate.json").read_text())
    assert certificate["claim"]["epsilon"] == pytest.approx(2, rel=1e-3)


def test_a_label_that_was_emptied_is_named_before_the_paid_way(trained, refused, tmp_path):
    header, first, *rows = (trained / "nodes.csv").read_text().splitlines()
    (tmp_path / "nodes.csv").write_text("\n".join([header, first.rpartition(",")[0] + ",", *rows]) + "\n")
    named = ("--nodes", tmp_path / "nodes.csv", "--edges", trained / "edges.csv", "--label", "year")
    refused("put its labels back as they were in training (a label that was emptied since is another one): that costs nothing",
            "predict", trained / "run", *named, "--out", tmp_path / "p.csv")  # fmt: skip


def test_classes_declared_in_another_order_are_scored_by_name(trained, sfumato, tmp_path):
    run, schema = tmp_path / "run", tmp_path / "schema.toml"
    asked = ["--nodes", trained / "nodes.csv", "--edges", trained / "edges.csv", "--label", "year", "--schema", schema]
    classes = sorted({line.rpartition(",")[2] for line in (trained / "nodes.csv").read_text().splitlines()[1:]})
    schema.write_text(f"classes = {json.dumps(classes)}\n")
    claim = ["--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--no-controls"]
    assert sfumato("train", "label-messages", *asked, *claim, "--out", run).code == 0
    before = json.loads(sfumato("evaluate", run, "--json").out)
    schema.write_text(f"classes = {json.dumps(classes[::-1])}\n")
    assert json.loads(sfumato("evaluate", run, "--json").out) == before
    assert sfumato("predict", run, "--out", tmp_path / "p.csv").code == 0
