"""Nodes that arrive after a run: predicted once, kept by the run, covered by its claim at edge level, charged at node level."""

import csv
import json
import shutil

import numpy as np
import pytest
from arriving import write_tables

from sfumato.cli import invoke
from sfumato.record._dataset_ledger import read_account


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The tables, and a run of each kind on the first batch; tests work on copies."""
    folder = tmp_path_factory.mktemp("world")
    graph = write_tables(folder)
    tables = ["--nodes", folder / "n0.csv", "--edges", folder / "e0.csv", "--label", "year", "--json", "--no-controls"]
    ledger = ["--ledger", folder / "ledger.jsonl", "--total-epsilon", "4"]
    for name, options in {
        "edge": ["label-messages", "--unit", "edge", "--epsilon", "4", "--delta", "1e-6", *ledger],
        "node": ["label-messages", "--unit", "node", "--epsilon", "40", "--delta", "1e-5", "--assume-public"],
        "none": ["label-messages", "--unit", "none"],
        "mlp": ["mlp", "--unit", "edge", "--epsilon", "4", "--delta", "1e-6"],
        "groups": ["graph-split", "--unit", "node", "--epsilon", "4", "--delta", "1e-5", "--assume-public"],
        "gap": ["gap", "--unit", "edge", "--epsilon", "4", "--delta", "1e-6"],
    }.items():
        assert invoke([*map(str, ["train", *options, *tables, "--out", folder / name])]) == 0
    return folder, graph


@pytest.fixture
def at(world, tmp_path):
    """A copy of the world, and the command that predicts a batch there."""
    folder = shutil.copytree(world[0], tmp_path / "world")

    def command(run, batch, *more, edges=None):
        tables = ("--new-nodes", folder / f"n{batch}.csv", "--new-edges", folder / f"e{edges or batch}.csv")
        charged = (folder / run / "evaluation" / "ledger.json").exists() and "--ledger" not in more
        return ("predict", folder / run, *tables, *more, *(("--ledger", folder / "ledger.jsonl") if charged else ()))

    command.folder = folder
    return command


def predicted(path):
    with path.open() as file:
        return {row["node"]: row["predicted"] for row in csv.DictReader(file)}


def accuracy(path, graph):
    found = predicted(path)
    return np.mean([found[name] == str(2004 + int(graph.y[int(name[1:])])) for name in found])


def test_two_batches_cost_nothing_more_and_verify_with_the_run(sfumato, at, world):
    ledger = ("--ledger", at.folder / "ledger.jsonl")
    for batch, count in ((1, 30), (2, 20)):
        told = sfumato(*at("edge", batch), *ledger, "--json")
        assert told.code == 0, told
        out = at.folder / "edge" / "arrivals" / str(batch) / "predictions.csv"
        assert json.loads(told.out) == {"out": str(out), "nodes": count, "epsilon_spent": 0.0, "arrival": batch}
        assert accuracy(out, world[1]) > 0.8
    account = read_account(ledger[1])
    assert account.problem is None
    assert len(account.claims) == 1
    assert [len(one.nodes) for one, _ in account.arrivals] == [30, 20]
    assert float(account.spent()["epsilon"]) == account.claims[0].epsilon
    shown = json.loads(sfumato("ledger", "show", ledger[1], "--json").out)
    assert [one["nodes"] for one in shown["arrivals"]] == [30, 20]
    assert "50 nodes arrived after these runs, in 2 releases" in sfumato("ledger", "show", ledger[1]).out
    said = sfumato("verify", at.folder / "edge")
    assert said.code == 0, said.out
    assert "arrivals: 2 later releases for nodes that arrived, checked here: an edge pays once" in said.out
    alone = sfumato("verify", at.folder / "edge" / "arrivals" / "2")
    assert alone.code == 0, alone.out
    assert "an edge pays once, there or in one of its arrivals" in alone.out
    assert "not in this claim" not in alone.out


def test_a_server_answers_for_nodes_that_arrived(sfumato, at):
    from sfumato.cli._serve import _read
    from sfumato.method._decisions import Decision

    answers = {}
    for batch in (1, 2):
        assert sfumato(*at("edge", batch, "--out", at.folder / f"{batch}.csv")).code == 0
        answers |= predicted(at.folder / f"{batch}.csv")
    served = _read(at.folder / "edge", Decision())
    found = {node: served.tell(node) for node in answers}
    assert {node: one["predicted"] for node, one in found.items()} == answers
    assert served.about()["nodes"] == 250
    decided = _read(at.folder / "edge", Decision(coverage=0.8, positive="2005", threshold="cost=1:1"))
    assert "set" in decided.tell("n0")
    assert "set" not in decided.tell(next(iter(answers)))


def test_a_batch_is_answered_again_from_its_release(sfumato, at, refused, tmp_path):
    assert sfumato(*at("edge", 1)).code == 0
    first = at.folder / "edge" / "arrivals" / "1" / "predictions.csv"
    refused("Predictions are never overwritten", *at("edge", 1))
    again = sfumato(*at("edge", 1, "--out", tmp_path / "again.csv"))
    assert again.code == 0
    assert "their stored release answers" in again.err
    assert (tmp_path / "again.csv").read_bytes() == first.read_bytes()
    assert [path.name for path in (at.folder / "edge" / "arrivals").iterdir()] == ["1"]


def turn(path, *columns):
    """Put the rows of a table in another order, and the columns if they are named."""
    header, *rows = list(csv.reader(path.read_text().splitlines()))
    places = [header.index(name) for name in columns or header]
    lines = [[row[place] for place in places] for row in (header, *rows[::-1])]
    path.write_text("".join(",".join(line) + "\n" for line in lines))


def test_tables_of_the_run_and_of_arrivals_may_stand_in_another_order(sfumato, at, tmp_path):
    assert sfumato(*at("edge", 1)).code == 0
    first = at.folder / "edge" / "arrivals" / "1" / "predictions.csv"
    turn(at.folder / "n1.csv", "kind", "id", "f3", "f1", "year", "f0", "f2")
    turn(at.folder / "n0.csv")
    turn(at.folder / "e0.csv")
    known = ("--nodes", at.folder / "n0.csv", "--edges", at.folder / "e0.csv", "--label", "year")
    again = sfumato(*at("edge", 1, *known, "--out", tmp_path / "again.csv"))
    assert (again.code, "their stored release answers" in again.err) == (0, True), again
    header, *rows = first.read_text().splitlines()
    assert (tmp_path / "again.csv").read_text().splitlines() == [header, *rows[::-1]]
    assert sfumato(*at("edge", 2, *known)).code == 0
    assert sfumato("verify", at.folder / "edge").code == 0


def test_one_newcomer_may_have_nothing_but_an_id(sfumato, at, tmp_path):
    (at.folder / "n3.csv").write_text("id,year,kind,f0,f1,f2,f3\nzoe,,,,,,\n")
    (at.folder / "e3.csv").write_text("source,target\nzoe,n1\n")
    result = sfumato(*at("edge", 3, "--out", tmp_path / "p.csv"))
    assert result.code == 0, result
    assert list(predicted(tmp_path / "p.csv")) == ["zoe"]


def test_another_graph_with_the_ids_of_the_run_is_refused(refused, at):
    text = (at.folder / "n0.csv").read_text().replace(",x,", ",y,", 1)
    (at.folder / "n9.csv").write_text(text)
    known = ("--nodes", at.folder / "n9.csv", "--edges", at.folder / "e0.csv", "--label", "year")
    refused("as it was then, got the same node ids but other features", *at("edge", 1, *known))


def test_what_was_there_before_is_refused(sfumato, at, refused):
    assert sfumato(*at("edge", 1)).code == 0
    refused("row 2 links two nodes that were there before", *at("edge", 2, edges=1))
    (at.folder / "e3.csv").write_text("source,target\nn249,zoe\n")
    refused("row 2 of", *at("edge", 2, edges=3))
    mixed = (at.folder / "n1.csv").read_text() + (at.folder / "n2.csv").read_text().partition("\n")[2]
    (at.folder / "n3.csv").write_text(mixed)
    refused("'n200' was there before", *at("edge", 3, edges=2))
    (at.folder / "n3.csv").write_text((at.folder / "n0.csv").read_text())
    refused("'n0' was there before", *at("edge", 3, edges=2))


def test_words_for_newcomers(refused, at):
    run = at.folder / "edge"
    (at.folder / "e3.csv").write_text("source,target\n")
    others = ("--nodes", at.folder / "n1.csv", "--edges", at.folder / "e3.csv")
    refused("Expected --new-edges beside --new-nodes", *at("edge", 1)[:-4])
    refused("Expected --new-nodes beside --new-edges", "predict", run, "--new-edges", at.folder / "e1.csv")
    refused("each edge pays once, in the run or here", *at("edge", 1, "--epsilon", "1", "--delta", "1e-6"))
    refused("Expected no --new-run", *at("edge", 1, "--new-run", at.folder / "new"))
    refused("as it was then, got other node ids", *at("edge", 1, *others))
    refused("only label-messages has", *at("gap", 1))
    refused("this adds to their cost", *at("node", 1))
    refused(
        "--sign-key with --new-nodes only", "predict", run, "--sign-key", at.folder / "key", "--out", at.folder / "p"
    )
    (at.folder / "n1.csv").write_text("id,f0\nn201,1\n")
    refused("to have the column 'f1'", *at("edge", 1))


def test_an_arrival_is_no_run_to_predict_from(sfumato, refused, at):
    assert sfumato(*at("edge", 1)).code == 0
    refused(f"sfumato predict {at.folder / 'edge'} --new-nodes", "predict", at.folder / "edge" / "arrivals" / "1")


def test_node_level_is_charged_and_adds_up(sfumato, at, world, tmp_path):
    budget = ("--epsilon", "40", "--delta", "1e-5", "--json")
    told = json.loads(sfumato(*at("node", 1, *budget)).out)
    assert told["epsilon_spent"] == pytest.approx(40, rel=1e-3)
    assert accuracy(at.folder / "node" / "arrivals" / "1" / "predictions.csv", world[1]) > 0.6
    said = sfumato("verify", at.folder / "node")
    assert said.code == 0, said.out
    assert "each has a claim of its own, which adds up" in said.out
    certificate = json.loads((at.folder / "node/arrivals/1/release/certificate.json").read_text())
    assert "arrival" not in certificate
    assert len(certificate["composition"]["builds_on"]) == 1


def test_node_level_shares_the_ledger_of_the_trained_graph(sfumato, at, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.jsonl")
    tables = ("--nodes", at.folder / "n0.csv", "--edges", at.folder / "e0.csv", "--label", "year", "--no-controls")
    budget = ("--epsilon", "2", "--delta", "1e-5", "--json")
    train = ("train", "label-messages", "--unit", "node", *tables, *budget, *ledger, "--total-epsilon", "5")
    assert sfumato(*train, "--assume-public", "--out", at.folder / "run").code == 0
    assert sfumato(*at("run", 1, *budget, *ledger)).code == 0
    assert [claim.method for claim in read_account(ledger[1]).claims] == ["label-messages"] * 2
    told = sfumato(*at("run", 2, *budget, *ledger))
    assert (told.code, "short by" in told.err) == (1, True)
    assert not (at.folder / "run" / "arrivals" / "2").exists()


def test_without_privacy_and_without_the_graph(sfumato, at, world):
    assert sfumato(*at("none", 1)).code == 0
    assert accuracy(at.folder / "none" / "arrivals" / "1" / "predictions.csv", world[1]) > 0.9
    assert sfumato("verify", at.folder / "none").code == 0
    for run in ("mlp", "groups"):
        told = sfumato(*at(run, 1)[:-2], "--json")
        assert json.loads(told.out)["epsilon_spent"] == 0
        assert len(predicted(at.folder / run / "predictions-n1.csv")) == 30


def test_another_graph_without_labels_is_predicted_from_features(sfumato, refused, at, tmp_path):
    tables = ("--nodes", at.folder / "n1.csv", "--edges", at.folder / "none.csv")
    (at.folder / "none.csv").write_text("source,target\n")
    text = (at.folder / "n1.csv").read_text().splitlines()
    (at.folder / "n1.csv").write_text("\n".join(line.rpartition(",")[0] for line in text) + "\n")
    told = sfumato("predict", at.folder / "edge", *tables, "--out", tmp_path / "p.csv")
    assert told.code == 0, told
    assert "features alone predict. No edge is read, and nothing is spent." in told.err
    assert len(predicted(tmp_path / "p.csv")) == 30
    refused(
        "this spends nothing", "predict", at.folder / "edge", *tables, "--epsilon", "1", "--out", tmp_path / "q.csv"
    )


def test_newcomers_are_not_told_of_training_nodes(sfumato, at):
    late = sfumato(*at("edge", 1))
    known = sfumato("predict", at.folder / "edge", "--out", at.folder / "p.csv")
    assert (late.code, known.code) == (0, 0)
    assert "Training nodes" not in late.out + late.err
    assert "Training nodes have their known label" in known.out + known.err


def test_another_graph_with_labels_is_charged(sfumato, at, world, tmp_path):
    write_tables(tmp_path)
    lines = [(tmp_path / name).read_text().replace("n", "m") for name in ("n0.csv", "e0.csv")]
    (tmp_path / "n0.csv").write_text(lines[0].replace("kimd", "kind"))
    (tmp_path / "e0.csv").write_text(lines[1])
    tables = ("--nodes", tmp_path / "n0.csv", "--edges", tmp_path / "e0.csv", "--label", "year")
    more = ("--epsilon", "4", "--delta", "1e-6", "--new-run", tmp_path / "new", "--out", tmp_path / "p.csv", "--json")
    told = json.loads(sfumato("predict", at.folder / "edge", *tables, *more).out)
    assert told["epsilon_spent"] == pytest.approx(4, rel=1e-3)
    assert accuracy(tmp_path / "p.csv", world[1]) > 0.8
    assert sfumato("verify", tmp_path / "new").code == 0


def test_a_kill_leaves_nodes_that_cannot_arrive_again(signaled, sfumato, at):
    hop = "sfumato.central._counts.noisy_counts"
    ledger = ("--ledger", at.folder / "ledger.jsonl")
    assert signaled(hop, *at("edge", 1), *ledger, signal="SIGKILL").code == -9
    own = (at.folder / "edge/arrivals/1/release/ledger.jsonl").read_text().splitlines()
    assert len(own) == 2, "the plan and the first hop are on disk before it is computed"
    assert len(read_account(ledger[1]).arrivals) == 1
    told = sfumato(*at("edge", 1))
    assert (told.code, "the release of 'n200' was stopped (arrivals/1)" in told.err) == (2, True)
    assert sfumato("verify", at.folder / "edge").code == 0
    assert sfumato(*at("edge", 2, *ledger)).code == 2, "edges to lost nodes have no known end"
    shutil.rmtree(at.folder / "edge" / "arrivals")
    told = sfumato(*at("edge", 1, *ledger))
    assert "some of these nodes arrived before" in told.err


def test_ctrl_c_before_noise_leaves_nothing(signaled, sfumato, at):
    told = signaled("sfumato.method._plan.open_session", *at("edge", 1))
    assert told.code == 130
    assert "Nothing was released." in told.err
    assert not (at.folder / "edge" / "arrivals" / "1").exists()
    assert sfumato(*at("edge", 1)).code == 0


def test_an_old_copy_of_the_folder_is_refused_by_the_ledger(sfumato, at):
    ledger = ("--ledger", at.folder / "ledger.jsonl")
    shutil.copytree(at.folder / "edge", at.folder / "copy")
    assert sfumato(*at("edge", 1, *ledger)).code == 0
    before = ledger[1].read_bytes()
    told = sfumato(*at("copy", 1, *ledger))
    assert told.code != 0
    assert "an older copy was put in its place" in told.err
    assert ledger[1].read_bytes() == before
    other = sfumato(*at("mlp", 1, *ledger))
    assert other.code == 0, "nothing is charged or read there"


def test_a_run_that_was_charged_to_a_ledger_is_extended_with_it_only(sfumato, at):
    command = at("edge", 1)
    assert command[-2] == "--ledger"
    told = sfumato(*command[:-2])
    assert (told.code, "the run was charged to" in told.err) == (2, True)
    assert not list((at.folder / "edge" / "arrivals").glob("*/release"))


def test_an_arrival_that_was_moved_away_is_missed_by_predict_and_verify(sfumato, at, tmp_path):
    for batch in (1, 2):
        assert sfumato(*at("edge", batch)).code == 0
    shutil.move(at.folder / "edge" / "arrivals" / "1", tmp_path / "away")
    told = sfumato(*at("edge", 1))
    assert (told.code, "without a gap" in told.err) == (2, True)
    told = sfumato("verify", at.folder / "edge")
    assert (told.code, "arrivals/1: is missing" in told.out + told.err) == (1, True)


def test_a_ledger_without_the_run_is_refused(sfumato, at, tmp_path):
    told = sfumato(*at("edge", 1, "--ledger", tmp_path / "other.jsonl", "--total-epsilon", "9"))
    assert told.code == 2
    assert not (at.folder / "edge" / "arrivals" / "1").exists()


def test_the_table_of_an_earlier_batch_is_needed(sfumato, refused, at):
    assert sfumato(*at("edge", 1)).code == 0
    (at.folder / "n1.csv").rename(at.folder / "moved.csv")
    refused("The table of the nodes that arrived before cannot be read", *at("edge", 2))
    (at.folder / "moved.csv").rename(at.folder / "n1.csv")
    assert sfumato(*at("edge", 2)).code == 0
