"""From documents to predictions on the command line, and files of features between."""

import csv
import json
import sys

import numpy as np
import pytest

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-6", "--threads", "1", "--json", "--assume-public")
NODE = ("--unit", "node", "--max-degree", "5", "--epsilon", "8", "--delta", "1e-6", "--set", "epochs=5", *EDGE[-4:])
WORDS = (("graph", "edge", "node"), ("noise", "budget", "ledger"))


@pytest.fixture(scope="session")
def papers(tmp_path_factory):
    """Tables of 120 papers on two topics, of others without topics, and of two that arrive later; a public corpus."""
    root, generator = tmp_path_factory.mktemp("papers"), np.random.default_rng(0)
    for name, start in (("first", "p"), ("second", "q")):
        (root / name).mkdir()
        with (root / name / "nodes.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            labeled = name == "first"
            writer.writerow(["id", "title", "abstract", *(["topic"] if labeled else [])])
            for paper in range(120):
                topic = WORDS[paper % 2]
                texts = [" ".join([*generator.choice(topic, count), "common"]) for count in (1, 6)]
                label = [("graphs", "privacy")[paper % 2]] if labeled else []
                writer.writerow([f"{start}{paper}", texts[0], f"{texts[1]}, \nand more", *label])
        rows = [f"{start}{paper},{start}{(paper + step) % 120}\n" for paper in range(120) for step in (2, 4, 7)]
        (root / name / "edges.csv").write_text("a,b\n" + "".join(rows))
    (root / "new.csv").write_text("id,title,abstract,topic\nz1,graph,edge node graph,graphs\nz2,,,\n")
    (root / "new-edges.csv").write_text("a,b\nz1,p0\nz2,p1\n")
    (root / "corpus.txt").write_text("graph edge common\nnoise budget ledger common\n\nnode common\n")
    return root


def tables(papers, name="first", *, labeled=True):
    folder = papers / name
    files = ["--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv"]
    return [*files, *(["--label", "topic"] if labeled else [])]


TEXT = ("--text", "title", "--text", "abstract")


def test_one_line_from_documents_to_predictions(sfumato, papers, tmp_path):
    run = tmp_path / "run"
    options = [*tables(papers), *TEXT, "--text-features", "hashing:64", *EDGE, "--controls", "--out", run]
    result = sfumato("train", "auto", *options)
    assert result.code == 0, result.err
    assert json.loads(result.out)["floor"]["mean"] > 0.9, "words tell the topic"
    assert sfumato("verify", run).code == 0
    assert sfumato("predict", run).code == 0
    assert sfumato("evaluate", run, "--json").code == 0
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == [f"p{paper}" for paper in range(120)]
    source = json.loads((run / "evaluation" / "source.json").read_text())
    assert (source["text"], source["text_features"]) == (["title", "abstract"], "hashing:64")
    spec = json.loads((run / "release" / "spec.json").read_text())
    assert spec["graph"]["feature_names"][0] == "title+abstract:hashing:0"


def test_features_once_then_many_runs(sfumato, papers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = sfumato("text", "features", *tables(papers, labeled=False)[:2], *TEXT, "--out", "f.npz", "--json")
    assert (written.code, written.err) == (0, "")
    told = json.loads(written.out)
    assert (told["nodes"], told["features"], told["assumed_public"]) == (120, 4096, [])
    assert sfumato("train", "mlp", *tables(papers), *TEXT, "--text-features", "f.npz", *NODE, "--out", "run").code == 0
    monkeypatch.chdir(papers)
    result = sfumato("predict", tmp_path / "run", "--out", tmp_path / "p.csv")
    assert result.code == 0, "the run keeps the whole path of the file"
    plain = sfumato("text", "features", "--nodes", "first/nodes.csv", *TEXT, "--out", tmp_path / "g.npz")
    assert plain.out == f"Wrote 4,096 features of 120 nodes (hashing) to {tmp_path / 'g.npz'}.\n"


def test_a_vocabulary_of_the_texts_is_in_the_certificate(sfumato, papers, tmp_path):
    run, fact = tmp_path / "run", "categories of column title+abstract"
    texts = [*TEXT, "--text-features", "bag-of-words"]
    options = [*tables(papers), *texts, *NODE, "--out", run]
    assert sfumato("train", "mlp", *options).code == 0
    certificate = json.loads((run / "release" / "certificate.json").read_text())
    assert sorted(certificate["assumed_public"]) == sorted(["num_features", fact, "classes"])
    assert sfumato("verify", run).code == 0
    written = sfumato("text", "features", *tables(papers)[:2], *texts, "--out", tmp_path / "f.npz")
    assert written.out.endswith(f"Assumed public, read from the texts: num_features; {fact}.\n")


def test_a_public_vocabulary_with_public_weights(sfumato, papers, tmp_path):
    words, run = tmp_path / "words.txt", tmp_path / "run"
    result = sfumato("text", "vocabulary", papers / "corpus.txt", "--out", words)
    assert result.out == f"Wrote 7 words with their weights to {words}.\n"
    lines = dict(line.split("\t") for line in words.read_text().splitlines())
    assert float(lines["common"]) == pytest.approx(1 + np.log(5 / 4), abs=1e-6)
    assert float(lines["graph"]) == pytest.approx(1 + np.log(5 / 2), abs=1e-6)
    options = [*tables(papers), *TEXT, "--text-features", f"tf-idf:{words}", *NODE, "--out", run]
    assert sfumato("train", "mlp", *options).code == 0
    certificate = json.loads((run / "release" / "certificate.json").read_text())
    assert certificate["assumed_public"] == ["classes"], "no word was read off the texts"
    assert (
        json.loads(sfumato("text", "vocabulary", papers / "corpus.txt", "--out", tmp_path / "w", "--json").out)["words"]
        == 7
    )


@pytest.mark.parametrize("encoder", ["hashing:32", "bag-of-words"])
def test_nodes_that_arrive_have_texts_too(sfumato, papers, tmp_path, encoder):
    run = tmp_path / "run"
    trained = [*tables(papers), *TEXT, "--text-features", encoder, *EDGE, "--no-controls", "--out", run]
    assert sfumato("train", "label-messages", *trained).code == 0
    late = ["--new-nodes", papers / "new.csv", "--new-edges", papers / "new-edges.csv", "--out", tmp_path / "late.csv"]
    result = sfumato("predict", run, *late)
    assert result.code == 0, result.err
    with (tmp_path / "late.csv").open(newline="") as file:
        assert [row["node"] for row in csv.DictReader(file)] == ["z1", "z2"]


def test_another_graph_is_encoded_as_the_trained_one(sfumato, papers, tmp_path):
    run = tmp_path / "run"
    trained = [*tables(papers), *TEXT, "--text-features", "hashing:32", *NODE, "--no-controls", "--out", run]
    assert sfumato("train", "mlp", *trained).code == 0
    other = tables(papers, "second", labeled=False)
    assert sfumato("predict", run, *other, "--out", tmp_path / "other.csv").code == 0
    with (tmp_path / "other.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    right = [row["predicted"] == ("graphs", "privacy")[number % 2] for number, row in enumerate(rows)]
    assert len(rows) == 120
    assert np.mean(right) > 0.4, "of two classes; the noise is large"
    assert sfumato("predict", run, *other, "--text", "abstract", "--out", tmp_path / "less.csv").code == 2


def test_a_resumed_run_has_the_texts_of_its_start(signaled, sfumato, refused, papers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sfumato("text", "features", *tables(papers)[:2], *TEXT, "--out", "f.npz").code == 0
    texts = [*TEXT, "--text-features", "f.npz"]
    start = [*TEXT, "--text-features", tmp_path / "f.npz"]
    options = [*tables(papers), *start, *EDGE, "--no-controls", "--resumable", "--out", tmp_path / "run"]
    assert signaled("sfumato.method.hops.noisy_neighborhood_sum", "train", "gap", *options).code == 130
    refused("Expected --text title abstract", "train", "--resume", tmp_path / "run", "--text", "title")
    assert sfumato("train", "--resume", tmp_path / "run", *texts, "--json").code == 0


BAD = [
    ("no-encoder", ["--text", "abstract"], "--text and --text-features together"),
    ("no-column", ["--text-features", "hashing"], "--text and --text-features together"),
    ("unknown-column", ["--text", "abstrakt", "--text-features", "hashing"], "Did you mean 'abstract'"),
    ("label", ["--text", "topic", "--text-features", "hashing"], "other than id, label and role"),
    ("unknown-encoder", ["--text", "abstract", "--text-features", "bert"], "to be one of hashing"),
    (
        "no-such-file",
        ["--text", "abstract", "--text-features", "word-vectors:absent.txt"],
        "there is none at 'absent.txt'",
    ),
]


@pytest.mark.parametrize(("options", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_options_of_texts_are_refused(refused, papers, tmp_path, options, message):
    refused(message, "train", "mlp", *tables(papers), *options, *NODE, "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset", "text/cora_cane", "--data-dir", ".", "--text", "abstract"], "knows its documents"),
        (["--dataset", "campus"], "Only the data sets under text/ have documents"),
        ([], "either --dataset NAME or --nodes FILE --text COLUMN"),
        (["--nodes", "first/nodes.csv"], "Expected --text COLUMN beside --nodes"),
        (
            ["--nodes", "first/nodes.csv", "--text", "title", "--text-features", "transformer"],
            "a folder or hub name too",
        ),
        (["--nodes", "absent.csv", "--text", "title"], "but there is none"),
        (
            ["--dataset", "text/pokec", "--data-dir", "."],
            "`sfumato datasets text/pokec` says where the files come from.",
        ),
    ],
)
def test_bad_options_of_text_features_are_refused(refused, papers, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(papers)
    refused(message, "text", "features", *options, "--out", tmp_path / "f.npz")


def test_files_are_never_overwritten(refused, papers, tmp_path):
    taken, wrong = tmp_path / "f.npz", tmp_path / "f.csv"
    taken.touch()
    nodes = [*tables(papers)[:2], *TEXT]
    refused("never overwritten", "text", "features", *nodes, "--out", taken)
    refused("to end in .npz", "text", "features", *nodes, "--out", wrong)
    refused("to be a new file", "text", "vocabulary", papers / "corpus.txt", "--out", taken)
    (tmp_path / "empty.txt").write_text("\n\n")
    refused("no words", "text", "vocabulary", tmp_path / "empty.txt", "--out", tmp_path / "w.txt")
    refused("No such file", "text", "vocabulary", tmp_path / "absent.txt", "--out", tmp_path / "w.txt")


def test_an_absent_encoder_package_is_told_before_anything_is_charged(refused, papers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    options = ["--text", "abstract", "--text-features", "transformer:bert", *NODE, "--out", tmp_path / "run"]
    refused("pip install 'sfumato[text]'", "train", "mlp", *tables(papers), *options)


@pytest.mark.data
@pytest.mark.soak
def test_published_papers_end_to_end(sfumato, data_dir, tmp_path):
    papers = ["--dataset", "text/citeseer_text", "--data-dir", data_dir]
    options = [*papers, "--text-features", "hashing:512", *EDGE, "--no-controls", "--out", tmp_path / "run"]
    result = sfumato("train", "auto", *options)
    assert result.code == 0, result.err
    assert json.loads(result.out)["test_accuracy"]["mean"] > 0.45, "the most frequent class has a fifth"
    assert sfumato("predict", tmp_path / "run").code == 0


def test_a_column_of_texts_that_is_named_twice_is_refused(refused, papers, tmp_path):
    twice = (*tables(papers), "--text", "title", "--text", "title", "--text-features", "hashing")
    refused("Expected --text to name each column once", "train", "mlp", *twice, *NODE, "--out", tmp_path / "r")
