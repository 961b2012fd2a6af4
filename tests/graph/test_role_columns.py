"""A column that says which nodes train is a feature only if it is declared to be one."""

import pandas as pd
import pytest

from sfumato.errors import DataError
from sfumato.graph import from_frames, read_csv
from sfumato.tables._importing import import_tables

EDGES = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})


def nodes(name, values):
    return pd.DataFrame({"id": range(4), "f": [0.5, 1.0, 1.5, 2.0], name: values})


@pytest.mark.parametrize(("name", "values"), [
    ("role", ["train", "val", "test", "train"]), ("mask", ["Train", "validation", "TEST", None]),
    ("part", ["train", "train", "test", "none"]), ("split", ["train", "valid", "train", "valid"]),
    ("train_mask", [True, False, False, True]), ("Test_Mask", [0, 0, 1, 1]),
])  # fmt: skip
def test_roles_that_nothing_declares_are_refused_with_what_to_do(name, values, tmp_path):
    table = nodes(name, values)
    table.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    paths = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    for read in (
        lambda: from_frames(table, EDGES), lambda: read_csv(*paths), lambda: import_tables(*paths, tmp_path / "store")
    ):  # fmt: skip
        with pytest.raises(
            DataError, match=f"{name!r} says which nodes train: .*role in Python.*leave it out with drop"
        ):
            read()
    assert from_frames(table, EDGES, drop=[name]).feature_names == ("f",)
    assert from_frames(table, EDGES, features=["f", name]).x.shape[1] > 1


def test_roles_and_other_words_are_read_as_before():
    roles = nodes("role", ["train", "val", "test", "none"])
    assert from_frames(roles, EDGES, role="role").roles.tolist() == [0, 1, 2, 3]
    declared = {"columns": {"role": {"categories": ["train", "val", "test", "none"]}}}
    assert from_frames(roles, EDGES, schema=declared).x.shape == (4, 5)
    for values in (["train", "bus", "train", "bus"], ["train"] * 4, ["test", "none", "test", "none"]):
        assert from_frames(nodes("way", values), EDGES).x is not None
