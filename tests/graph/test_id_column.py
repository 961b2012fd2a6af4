"""Which column holds the ids: a usual name, the name of an end, else the first, unless that merely numbers the rows."""

import pyarrow as pa
import pytest

from sfumato.errors import DataError
from sfumato.graph import from_frames, read_csv
from sfumato.tables._importing import import_tables

EDGES = "user_id,friend_id\n1,2\n3,1\n4,2\n"
RANKED = "rank,user_id,f\n1,4,0.5\n2,3,0.5\n3,2,1.5\n4,1,2\n"
COUNTED = "row,name,f\n0,12,0.5\n1,11,0.5\n2,10,1.5\n3,13,2\n"


def frame(text):
    names, *rows = (line.split(",") for line in text.split())
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


def test_an_id_is_called_as_an_end_of_the_edges(written, tmp_path):
    told = {}
    graphs = [
        read_csv(*written(RANKED, EDGES), told=lambda place, columns: told.update({place: columns})),
        from_frames(frame(RANKED), frame(EDGES)),
    ]
    assert [column.name for column in told[str(tmp_path / "nodes.csv")] if column.use == "id"] == ["user_id"]
    for graph in graphs:
        assert (graph.node_ids.tolist(), graph.feature_names) == ([4, 3, 2, 1], ("rank", "f"))
    import_tables(*written(RANKED, EDGES), tmp_path / "store")


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (COUNTED, "'row' merely numbers the rows and 'name'"),
        ("row,word,f\n1,ann,1\n2,bob,1\n3,eve,1\n", "'row' merely numbers the rows and 'word'"),
        ("node,id,f\n1,4,1\n2,3,1\n3,2,1\n", "got 'node' and 'id'"),
        ("income,name\n50000,a\n51000,b\n50000,c\n", "taken from its first column 'income'"),
    ],
)
def test_ids_that_nothing_tells_are_refused(nodes, told, written, tmp_path):
    edges = "a,b\n1,2\n"
    for read in (
        lambda: read_csv(*written(nodes, edges)),
        lambda: from_frames(frame(nodes), frame(edges)),
        lambda: import_tables(*written(nodes, edges), tmp_path / "store"),
    ):
        with pytest.raises(DataError, match=told) as caught:
            read()
        assert "50000" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "how"),
    [
        (COUNTED, {"id_column": "row"}),
        (COUNTED, {"drop": ["name"]}),
        (COUNTED, {"schema": {"columns": {"name": {}}}}),
        (COUNTED.replace("12", "11"), {}),
        (COUNTED.replace("row", "id"), {}),
    ],
)
def test_ids_may_count_where_no_other_column_is_meant(nodes, how, written):
    assert read_csv(*written(nodes, "a,b\n1,2\n"), **how).node_ids.tolist() == [0, 1, 2, 3]


def test_an_end_that_counts_is_an_end_where_no_other_column_can_be(written):
    edges = "a,b,strength\n1,2,0.5\n2,3,0.5\n3,4,0.5\n"
    assert read_csv(*written("id,f\n1,1\n2,1\n3,1\n4,1\n", edges)).num_edges == 3


def test_a_row_of_names_may_not_begin_with_a_bare_comment_sign(written):
    with pytest.raises(DataError, match="begins with # and was read as a comment"):
        read_csv(*written("#,f,y\n1,2,3\n2,3,4\n", EDGES))


@pytest.mark.parametrize("said", ["# people\nsep=;\n", "SEP=;\n"])
def test_a_stated_mark_may_stand_below_comments_and_in_capitals(said, written):
    assert read_csv(*written(said + "id;f,g\n1;2\n2;3\n3;3\n4;3\n", EDGES)).feature_names == ("f,g",)


def test_roles_have_further_words(written):
    nodes = "id,role\n1,valid\n2,validation\n3,0\n4,3\n"
    assert read_csv(*written(nodes, EDGES), role="role").roles.tolist() == [1, 1, 0, 3]
