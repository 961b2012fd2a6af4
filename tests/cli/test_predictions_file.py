"""What a file of predictions says beside them: roles, known labels where they are public, and where a prediction comes from."""

import csv
from pathlib import Path

import pytest

CLASSES = ("2004", "2005", "2006")
EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5")
NODE = ("--unit", "node", "--epsilon", "8", "--delta", "1e-5", "--assume-public")


@pytest.fixture
def some_labels(tables, tmp_path):
    """Options of the first graph, of which every fifth node has no label; the labels of the others by node."""
    rows = list(csv.reader(Path(tables["first"][1]).read_text().splitlines()))
    rows[1:] = [[*row[:-1], "" if i % 5 == 0 else row[-1]] for i, row in enumerate(rows[1:])]
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("\n".join(",".join(row) for row in rows) + "\n")
    return ["--nodes", nodes, *tables["first"][2:]], {row[0]: row[-1] for row in rows[1:]}


@pytest.fixture
def predicted(sfumato, tmp_path):
    """Train and predict; rows of the file, the file, and what was said on standard error."""

    def run(method, *options, on=(), **names):
        out, file = tmp_path / names.get("out", "run"), tmp_path / names.get("file", "p.csv")
        if not out.exists():
            assert sfumato("train", method, *options, "--no-controls", "--out", out).code == 0
        result = sfumato("predict", out, *on, "--out", file)
        assert result.code == 0, result.err
        return list(csv.DictReader(file.read_text().splitlines())), file, result.err

    return run


def model_says(row):
    """The most probable class of a row."""
    return max(CLASSES, key=lambda name: float(row[f"p({name})"]))


def counts(rows, column):
    return {value: sum(row[column] == value for row in rows) for value in {row[column] for row in rows}}


def test_labeled_training_nodes_of_label_messages_get_their_known_label(predicted, some_labels):
    options, labels = some_labels
    rows, file, said = predicted("label-messages", *options, *EDGE, "--split", "50/25/25")
    assert list(rows[0]) == ["node", "predicted", *(f"p({name})" for name in CLASSES), "role", "known_label", "source"]
    assert counts(rows, "role") == {"train": 80, "val": 40, "test": 40, "none": 40}
    assert {row["node"] for row in rows if row["role"] == "none"} == {
        node for node, label in labels.items() if not label
    }
    assert {row["node"]: row["known_label"] for row in rows} == labels
    for row in rows:
        known = row["role"] == "train"
        assert row["source"] == ("known" if known else "model")
        assert row["predicted"] == (labels[row["node"]] if known else model_says(row))
    assert any(row["predicted"] != model_says(row) for row in rows)
    assert "Training nodes have their known label (source: known)" in said
    assert "Anyone may see the file. Its known_label holds true labels, which are public under this unit." in said
    _, again, _ = predicted("label-messages", on=options, file="named.csv")  # tables that do not name the split
    assert again.read_bytes() == file.read_bytes()


def test_private_labels_are_not_in_the_file(predicted, tables):
    rows, _, said = predicted("label-messages", *tables["first"], *NODE)
    assert counts(rows, "role") == {"train": 150, "val": 20, "test": 30}
    assert counts(rows, "known_label") == {"": 200}
    assert counts(rows, "source") == {"model": 200}
    assert all(row["predicted"] == model_says(row) for row in rows)
    assert "Lines of training nodes lean on features." in said
    assert "shown to its own node only: it reads that node's features. The file must not be published." in said
    assert "Anyone" not in said
    rows, _, said = predicted("label-only", *tables["first"], "--epsilon-y", "1", out="local", file="local.csv")
    assert counts(rows, "known_label") == {"": 200}
    assert counts(rows, "role") == {"train": 100, "val": 50, "test": 50}
    assert "raining nodes" not in said
    assert "Anyone may see the file.\n" in said
    _, _, said = predicted("gap", *tables["first"], "--unit", "none", out="open", file="open.csv")
    assert "This run has no privacy: the file must stay." in said


def test_a_method_that_learns_no_less_about_training_nodes_answers_for_all(predicted, tables):
    rows, *_ = predicted("progap", *tables["first"], "--unit", "arc", *EDGE[2:])
    assert counts(rows, "source") == {"model": 200}
    assert all(row["predicted"] == model_says(row) and row["known_label"] for row in rows)


def test_nodes_of_another_graph_have_no_role(predicted, tables, tmp_path):
    budget = ("--epsilon", "2", "--delta", "1e-6", "--new-run", tmp_path / "new")
    rows, *_ = predicted("gap", *tables["first"], *EDGE, on=(*tables["second"], *budget))
    assert counts(rows, "role") == {"": 200}
    assert all(row["known_label"] for row in rows)


def test_another_graph_needs_no_public_split(predicted, tables, tmp_path):
    predicted("gap", *tables["first"], *EDGE)
    source = tmp_path / "run" / "evaluation" / "source.json"
    source.write_text(source.read_text().replace("75/10/15", "public"))
    budget = ("--epsilon", "2", "--delta", "1e-6", "--new-run", tmp_path / "new")
    rows, *_ = predicted("gap", on=(*tables["second"], *budget), file="other.csv")
    assert counts(rows, "role") == {"": 200}


def test_roles_are_left_out_where_the_run_no_longer_says_them(predicted, tables, tmp_path):
    predicted("label-messages", *tables["first"], *EDGE, "--split", "50/25/25")
    (tmp_path / "run" / "evaluation" / "source.json").unlink()
    rows, *_ = predicted("label-messages", on=tables["first"], file="named.csv")
    assert counts(rows, "role") == {"": 200}
    assert counts(rows, "source") == {"model": 200}
