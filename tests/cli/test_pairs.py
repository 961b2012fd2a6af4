"""Links from the command line: train, verify, report, score pairs, write rows, and what is refused."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

ASKED = ("--task", "link", "--unit", "edge", "--epsilon", "2", "--delta", "0")


@pytest.fixture
def run(small_campus, run_of):
    return run_of("link-messages --dataset campus --task link --unit edge --epsilon 2 --delta 0")


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_train_prints_scores_beside_controls(sfumato, tables, tmp_path):
    more = ("--controls", "--seeds", 2, "--out", tmp_path / "run")
    result = sfumato("train", "link-messages", *tables["first"], *ASKED, *more)
    assert result.code == 0
    for words in ("AUC", "average precision", "floor: public likeness", "ceiling: the same", "Adamic-Adar", "--pairs "):
        assert words in result.out
    metrics = json.loads((tmp_path / "run" / "evaluation" / "metrics.json").read_text())
    assert (metrics["task"], metrics["test_auc"]["seeds"], metrics["privacy"]["delta"]) == ("link", 2, 0)
    assert sfumato("report", tmp_path / "run").code == 0
    page = (tmp_path / "run" / "reports" / "index.html").read_text()
    assert "AUC of held-out links beside its controls" in page
    assert "Floor: public likeness, no edge" in page
    assert "Confusion matrix" not in page


def test_a_run_verifies_and_scores_pairs_in_their_order(sfumato, run, tmp_path):
    assert sfumato("verify", run).code == 0
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("from,to,note\n3,7,x\n7,3,y\n0,1,z\n")
    told = json.loads(sfumato("predict", run, "--pairs", pairs, "--out", tmp_path / "scores.csv", "--json").out)
    assert told == {"out": str(tmp_path / "scores.csv"), "pairs": 3, "epsilon_spent": 0.0}
    header, *lines = read(tmp_path / "scores.csv")
    assert header == ["from", "to", "score"]
    assert [line[:2] for line in lines] == [["3", "7"], ["7", "3"], ["0", "1"]]
    assert lines[0][2] == lines[1][2] != lines[2][2]


def test_rows_are_written_for_other_tools(sfumato, run, tmp_path):
    result = sfumato("predict", run, "--embeddings", tmp_path / "rows.csv")
    assert "Anyone may see them." in result.out
    header, *lines = read(tmp_path / "rows.csv")
    assert header == ["node", *(f"e{column}" for column in range(6))]
    assert [line[0] for line in lines] == [str(node) for node in range(len(lines))]


def test_the_best_others_of_each_node_are_written_whether_linked_or_not(sfumato, refused, run, tmp_path):
    from sfumato import load
    from sfumato.graph import Graph, campus

    out = tmp_path / "best.csv"
    told = json.loads(sfumato("predict", run, "--top", 3, "--out", out, "--json").out)
    header, *lines = read(out)
    fitted, graph = load(run), campus(300)
    count = graph.num_nodes
    assert (header, told["pairs"], len(lines)) == (["node", "other", "score"], 3 * count, 3 * count)
    others = np.delete(np.arange(count), 7)
    scores = fitted.score_pairs(graph, np.stack([np.full(count - 1, 7), others]))
    best = np.argsort(-scores, kind="stable")[:3]
    wanted = [["7", str(others[at]), f"{scores[at]:.6f}"] for at in best]
    assert lines[21:24] == wanted
    linked = [graph.indices[graph.indptr[int(a)] : graph.indptr[int(a) + 1]].tolist() for a, _, _ in lines]
    assert any(int(line[1]) in near for line, near in zip(lines, linked, strict=True))
    arcs = Graph.from_edges([0], [1], count, directed=False)
    bare = replace(graph, indptr=arcs.indptr, indices=arcs.indices, merged=arcs.merged)
    assert fitted.best_pairs(bare, 3)[0].T.tolist() == [[int(node), int(other)] for node, other, _ in lines]
    refused("Expected top to be from 1 to", "predict", run, "--top", 0, "--out", tmp_path / "none.csv")
    refused("Expected top to be from 1 to", "predict", run, "--top", count, "--out", tmp_path / "none.csv")


def test_lists_for_one_viewer_within_a_column_and_among_candidates(sfumato, refused, run, tmp_path):
    file, known = tmp_path / "list.csv", tmp_path / "mine.csv"
    assert sfumato("predict", run, "--top", 4, "--for", 7, "--out", file).code == 0
    whole = [line[1] for line in read(file)[1:]]
    assert len(whole) == 4
    known.write_text(f"friend\n{whole[1]}\n{whole[0]}\n")
    shown = sfumato("predict", run, "--top", 2, "--for", 7, "--linked", known, "--out", file, "--force")
    assert [line[:2] for line in read(file)[1:]] == [["7", other] for other in whole[2:]]
    assert "the list is for 7 alone" in shown.out
    told = json.loads(
        sfumato("predict", run, "--top", 3, "--within", "label", "--among", 40, "--out", file, "--force", "--json").out
    )
    assert 0.3 < told["share_found"] <= 1
    assert f"{told['pairs']}" == f"{len(read(file)) - 1}"
    more = sfumato("predict", run, "--top", 3, "--among", 60, "--out", file, "--force")
    assert "Of the best others of 100 nodes, or fewer," in more.out
    none = ("--out", tmp_path / "none.csv")
    refused("Expected --within with --top", "predict", run, "--within", "label", *none)
    refused("Expected --linked with --for", "predict", run, "--top", 3, "--linked", known, *none)
    refused("without --within", "predict", run, "--top", 3, "--for", 7, "--linked", known, "--within", "label", *none)
    refused("got 'nobody'", "predict", run, "--top", 3, "--for", "nobody", *none)
    refused("Expected column to be a column", "predict", run, "--top", 3, "--within", "nothing", *none)
    refused("Expected among", "predict", run, "--top", 3, "--among", 2, *none)
    known.write_text("friend\nnobody\n")
    refused("got 'nobody'", "predict", run, "--top", 3, "--for", 7, "--linked", known, *none)
    assert not (tmp_path / "none.csv").exists()


def test_force_replaces_what_the_command_wrote_and_nothing_else(sfumato, refused, run, tmp_path):
    pairs, scores, rows = tmp_path / "pairs.csv", tmp_path / "scores.csv", tmp_path / "rows.csv"
    pairs.write_text("from,to\n3,7\n")
    score, embed = ("predict", run, "--pairs", pairs, "--out"), ("predict", run, "--embeddings")
    for command, file in ((score, scores), (embed, rows)):
        assert sfumato(*command, file).code == 0
        before = file.read_bytes()
        refused("with --force, which replaces only what this command wrote", *command, file)
        assert sfumato(*command, file, "--force").code == 0
        assert file.read_bytes() == before
    assert sfumato(*score, rows, "--force").code == 0
    for text in ("from,to,score\n3,7,high\n", "from,to,score\n3,7,0.5\n", "node\n3\n", "node,e0,e2\n1,2,3\n", ""):
        scores.write_text(text)
        refused("which replaces only what this command wrote", *score, scores, "--force")
        assert scores.read_text() == text
    refused("which replaces only what this command wrote", *score, pairs, "--force")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n0,nobody\n", "got 'nobody' in line 2"),
        ("a,b\n0\n", "got one in line 2"),
        (None, "pairs to be a CSV file with two columns of node ids"),
    ],
)
def test_pairs_that_cannot_be_read_are_refused(text, said, refused, run, tmp_path):
    pairs = tmp_path / "pairs.csv"
    if text is not None:
        pairs.write_text(text)
    refused(said, "predict", run, "--pairs", pairs, "--out", tmp_path / "scores.csv")
    assert not (tmp_path / "scores.csv").exists()


def test_what_a_link_run_cannot_do_is_refused(refused, run, tables, tmp_path):
    refused("Expected task to be link", "predict", run, "--out", tmp_path / "classes.csv")
    refused("Expected task to be link", "evaluate", run)
    several = ("--pairs", "a.csv", "--embeddings", tmp_path / "b.csv")
    refused("--pairs, --top, --embeddings and --explain, got several", "predict", run, *several)
    refused("for the graph of the run alone", "predict", run, "--pairs", "a.csv", "--epsilon", "1")
    out = ("--out", tmp_path / "run")
    edge = ("--unit", "edge", "--epsilon", "1", "--delta", "0")
    refused("Expected --task link with method link-messages", "train", "link-messages", *tables["first"], *edge, *out)
    refused("--task link with method link-messages or pgc", "train", "gap", *tables["first"], *ASKED, *out)
    node = ("--task", "link", "--unit", "node", "--epsilon", "1", "--delta", "1e-7", "--max-degree", "5")
    refused("no proof when the unit is", "train", "link-messages", *tables["first"], *node, *out)
    assert not (tmp_path / "run").exists()


def test_all_purchases_of_a_buyer_are_protected_in_a_bipartite_graph(sfumato, tmp_path):
    from sfumato import PersonLevel, load
    from sfumato.bounded._pairs import pair_sensitivity
    from sfumato.central._counts import laplace_scale

    coins = np.random.default_rng(0)
    liked = [(u, i) for u in range(90) for i in range(40) if coins.random() < (0.3 if u % 4 == i % 4 else 0.05)]
    nodes = [f"u{u},user," for u in range(90)] + [f"i{i},item,g{i % 4}" for i in range(40)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,kind,genre", *nodes]) + "\n")
    (tmp_path / "edges.csv").write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in liked))
    words = (
        "train", "link-messages", "--task", "link", "--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv",
        "--label", "genre", "--sides", "kind=user", "--person", "user", "--edges-per-person", 3, "--unit", "person",
        "--epsilon", 6, "--delta", 0, "--assume-public", "--undirected",
    )  # fmt: skip
    assert sfumato(*words, "--out", tmp_path / "run").code == 0
    assert sfumato("verify", tmp_path / "run").code == 0
    plan = load(tmp_path / "run").plan
    assert plan.unit == PersonLevel(3, directed=False)
    scale = laplace_scale(plan, "links", pair_sensitivity)
    assert float(scale) == pytest.approx(3 * 2 / 6, rel=1e-9)  # three edges, two messages each
    assert sfumato("predict", tmp_path / "run", "--top", 5, "--out", tmp_path / "best.csv").code == 0
    _, *lines = read(tmp_path / "best.csv")
    assert len(lines) == 90 * 5
    assert {(node[0], other[0]) for node, other, _ in lines} == {("u", "i")}
