"""Specifications on data sets with texts, whose encoder stands after a plus sign."""

import pytest

from sfumato.errors import InputError
from sfumato.experiments._results import read
from sfumato.experiments._runner import run
from sfumato.experiments._spec import Spec


def write_papers(root, num_papers=60):
    """Papers on two topics, linked along a ring."""
    folder = root / "text" / "cora_cane"
    folder.mkdir(parents=True)
    texts = [("graph edge node", "noise budget ledger")[paper % 2] for paper in range(num_papers)]
    (folder / "data.txt").write_text("".join(f"{text}\n" for text in texts))
    (folder / "group.txt").write_text("\n".join(str(paper % 2) for paper in range(num_papers)))
    (folder / "graph.txt").write_text("".join(f"{paper}\t{(paper + 2) % num_papers}\n" for paper in range(num_papers)))


def test_cells_learn_from_texts(small, tmp_path):
    write_papers(tmp_path)
    small.write_text(
        small.read_text().replace('"campus"', '"text/cora_cane+hashing:64"').replace("epochs = 1", "epochs = 30")
    )
    spec = Spec.read(small)
    assert spec.dataset == "text/cora_cane+hashing:64"
    run(spec, tmp_path / "results", profile="quick", data_dir=tmp_path)
    rows = [row for row in read(tmp_path / "results" / "small") if row["method"] == "mlp"]
    assert [row["status"] for row in rows] == ["done", "done"]
    assert rows[0]["dataset"] == "text/cora_cane+hashing:64"
    assert min(row["metrics"]["accuracy"] for row in rows) > 0.9, "words tell the topic, and nothing is noised"


def test_absent_texts_and_wrong_encoders(small, tmp_path):
    small.write_text(small.read_text().replace('"campus"', '"text/cora_cane+hash"'))
    with pytest.raises(InputError, match="one of hashing, bag-of-words"):
        Spec.read(small)
    small.write_text(small.read_text().replace("+hash", "+hashing"))
    run(Spec.read(small), tmp_path / "results", profile="quick", data_dir=tmp_path)
    reasons = {row["reason"] for row in read(tmp_path / "results" / "small")}
    assert len(reasons) == 1
    assert reasons.pop().startswith("The files of text/cora_cane are not in the data folder")
