"""`sfumato twin`: tables of a synthetic graph, with the claim that it inherits and what it answers."""

import csv
import json

import pytest

import sfumato as sf
from sfumato.statistics._statistics import Statistics

EDGE = sf.EdgeLevel(directed=False)


@pytest.fixture(scope="module")
def run(tables, tmp_path_factory):
    named = dict(zip(tables["first"][::2], tables["first"][1::2], strict=True))
    graph = sf.graph.read_csv(named["--nodes"], named["--edges"], label=named["--label"], directed=False)
    method = Statistics("edges,mixing,degrees,triangles,wedges")
    fitted = method.calibrate(sf.Budget(2.0, 1e-6), EDGE, graph.public_facts(EDGE)).fit(graph)
    folder = tmp_path_factory.mktemp("runs") / "run"
    fitted.save(folder)
    return folder, named, fitted


def rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_twin_is_written_from_the_release_and_the_table_of_nodes(sfumato, run, tmp_path, kind):
    folder, named, fitted = run
    out = tmp_path / "twin"
    asked = ("twin", folder, "--nodes", named["--nodes"], "--label", "year", "--out", out, "--format", kind)
    done = sfumato(*asked)
    assert done.code == 0, done.err
    assert sorted(path.name for path in out.iterdir()) == [
        "README.txt", f"edges.{kind}", f"nodes.{kind}", "twin.json",
    ]  # fmt: skip
    told = json.loads((out / "twin.json").read_text())
    assert told["ledger_head"] == fitted.ledger.head
    assert told["claim"]["epsilon"] == fitted.certificate.epsilon
    read = sf.graph.read_csv if kind == "csv" else sf.graph.read_parquet
    back = read(out / f"nodes.{kind}", out / f"edges.{kind}", label="label", directed=False)
    assert (back.num_nodes, back.num_edges) == (200, told["edges"])
    assert back.indices.tolist() == sf.twin(fitted, sf.graph.read_csv(
        named["--nodes"], named["--edges"], label="year", directed=False
    )).indices.tolist()  # fmt: skip
    words = (out / "README.txt").read_text()
    for expected in (fitted.certificate.sentence, "number of edges", "Questions it does not answer", "public seed"):
        assert expected in words
    again = sfumato(*asked)
    assert again.code == 2
    assert "new folder" in again.err


def test_json_and_features(sfumato, run, tmp_path):
    folder, named, _ = run
    out = tmp_path / "twin"
    done = sfumato("twin", folder, "--nodes", named["--nodes"], "--label", "year", "--out", out, "--features", "--json")
    told = json.loads(done.out)
    assert told["kept"] <= told["compared"] > 20
    assert rows(out / "nodes.csv")[0] == ["id", "label", "f0", "f1", "f2", "f3"]


def test_other_nodes_and_half_named_ones_write_nothing(sfumato, run, tables, tmp_path):
    folder, named, _ = run
    other = dict(zip(tables["second"][::2], tables["second"][1::2], strict=True))["--nodes"]
    for words, options in (
        ("nodes of the run", ("--nodes", other, "--label", "year")),
        ("Drop one", ("--nodes", named["--nodes"], "--dataset", "campus")),
        ("name --nodes", ("--label", "year")),
        ("saved from Python", ()),
        ("csv", ("--format", "xlsx")),
    ):
        done = sfumato("twin", folder, "--out", tmp_path / "twin", *options)
        assert (done.code, words in done.err) == (2, True), done.err
    assert not list(tmp_path.iterdir())
