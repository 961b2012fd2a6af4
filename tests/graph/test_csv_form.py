"""The form of a CSV file: the mark between cells, the row of names, the encoding, and how rows are counted in errors."""

import gzip

import pytest

from sfumato.errors import DataError
from sfumato.graph import read_csv
from sfumato.tables._importing import import_tables
from sfumato.tables._tables import FileTable, numbering


@pytest.fixture
def table(tmp_path):
    """Read a file as names and rows."""

    def reader(text):
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = FileTable(path)
        rows = found.whole().to_pylist()
        assert [row for part in found.batches(found.column_names, 2) for row in part.to_pylist()] == rows
        return found.column_names, [[*row.values()] for row in rows]

    return reader


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id;height, cm;y\na;1,5;x\nb;2;z\n", ["id", "height, cm", "y"]),
        ("id\tcity, country\ty\na\tParis\tx\n", ["id", "city, country", "y"]),
        ("id|a;b|c, d\n1|2|3;4\n5|6|7\n", ["id", "a;b", "c, d"]),
        ("id,a;b\n1,2\n", ["id", "a;b"]),
        ('"a,b";id\n1,5;x\n2,5;y\n', ["a,b", "id"]),
        ('id;"a,b"\nx;1,5\ny;2,5\n', ["id", "a,b"]),
        ('id; "a,b"\nx; "1,5"\n', ["id", "a,b"]),
        ('id|"a,b;c"\nx|1\n', ["id", "a,b;c"]),
        ('"a;b"\t"id"\n"1;2"\tb\n', ["a;b", "id"]),
        ('"a,b"\t"c;d"\n1,5\t2;6\n', ["a,b", "c;d"]),
        ("sep=;\nid;height, cm\na;1,5\nb;2,5\n", ["id", "height, cm"]),
        ('g|h\té\t1,52\n2x\tx y, z\t"o\np"\n', ["g|h", "é", "1,52"]),
        ("id;size, cm\n" + "a;1,5\n" * 3000 + "b;2\n", ["id", "size, cm"]),
        ("full name\nAnn Lee\nBob\n", ["full name"]),
        ("full name\nann\nbob\n", ["full name"]),
        ('"full name"\nAnn Lee\nBob Low\n', ["full name"]),
        ("from to\na b\nb c\n", ["from", "to"]),
        ('"from" "to"\n"a" b\n', ["from", "to"]),
        ("a\nx;y\n", ["a"]),
    ],
)
def test_the_mark_is_that_by_which_all_rows_have_as_many_cells(table, text, names):
    found, rows = table(text)
    assert found == names
    assert {len(row) for row in rows} == {len(names)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id;height, cm;y\na;1,5;x\nb;2,0;z\n", None),
        ("id;size, cm\na;1,5\nb;2,5\n", "comma and semicolon split every row alike. .* sep=;"),
        ("id;height, cm;y\na;1\n", "Expected 3 cells .* row 2 has 2"),
        ("id;f\na;1\nb\n", "Expected 2 cells .* row 3 has 1"),
        ("id   age\n1    2\n10   3\n", "has runs of spaces"),
        ("full name\nLee, Ann\n", "Expected 1 cells .* row 2 has 2"),
        ('"id" x,f\na,1\n', "quotes of .* row 1"),
    ],
)
def test_a_file_that_no_mark_fits_alone_is_refused(table, text, told):
    with pytest.raises(DataError, match=told or "split every row alike|to be told apart"):
        table(text)


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("#person\tcity\nann\tparis\nbob\tparis\n", ["person", "city"], "ann"),
        ("# a tool\n#person\tfriend\nann\tbob\nbob\tcyd\n", ["person", "friend"], "ann"),
        ("#person;age\nann;3\n", ["person", "age"], "ann"),
        ("#person,age\nann,NA\n", ["person", "age"], "ann"),
        ("#person,friend\nann,ann\n", ["person", "friend"], "ann"),
        ("#id\tcity\nann\tparis\nbob\trome\n", ["id", "city"], "ann"),
        ("#person\nann\nbob\nann\n", ["person"], "ann"),
        ("# Source,Target\nann,bob\n", ["Source", "Target"], "ann"),
        ("# FromNodeId\tToNodeId\n", ["FromNodeId", "ToNodeId"], None),
        ("# my data, v2\nperson,age\nann,3\nbob,4\n", ["person", "age"], "ann"),
        ("# id, from a tool\nperson,age\nann,3\n", ["person", "age"], "ann"),
        ("# my data, v2\nid,city\nann,paris\n", ["id", "city"], "ann"),
        ("# list of people\nid\nann\n", ["id"], "ann"),
        ("#person\tdue\tcost\nann\t2024-01-02\t1,5\nbob\tlate\t2\n", ["person", "due", "cost"], "ann"),
        ('# "the" data\nperson,city\nann,paris\n', ["person", "city"], "ann"),
        ("#person,city\nperson,city\nann,paris\n", ["person", "city"], "ann"),
        ("# 3,4\nperson,city\nann,paris\n", ["person", "city"], "ann"),
    ],
)
def test_a_comment_line_names_the_columns_if_the_first_row_does_not(table, text, names, first):
    found, rows = table(text)
    assert found == names
    assert (rows[0][0] if rows else None) == first


@pytest.mark.parametrize(
    "text",
    [
        "#person\tcity\nann\tparis\nbob\trome\n",
        "# my data, v2\nperson,city\nann,paris\nbob,rome\n",
        "# list of people\nperson\nann\n",
        "#full name\nann\nbob\n",
        "# id, from a tool\nperson,city\nann,paris\n",
        "#id,y\n#x,a\n#z,b\nq,a\nw,a\n",
    ],
)
def test_where_nothing_tells_the_names_the_file_is_refused(table, text):
    with pytest.raises(DataError, match=r"Expected one row of .* to name the columns.*Remove the #"):
        table(text)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("text", "row"), [(b"id,caf\xe9\na,1\n", 1), (b"id,f\na,1\n\nb,\xe9\n", 4), (b"# M\xfcller\nid,f\na,1\n", 1)]
)
def test_latin_1_is_told_wherever_it_stands(table, compress, text, row):
    with pytest.raises(DataError, match=f"not UTF-8 in row {row}. Save it as UTF-8"):
        table(compress(text))


def test_names_that_a_library_would_make_up_are_names(read):
    graph = read("column0,column1,column2\na,1,2\nb,3,4\n", "column0,column1\na,b\n")
    assert (graph.feature_names, graph.num_edges) == (("column1", "column2"), 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("top", ["", "# a note\n\n", "sep=,\n"])
def test_rows_are_counted_as_an_editor_counts_lines(tmp_path, top, end):
    text = (top + 'id,f\n\n\na,"x\ny"\n\nb,1\n\n').replace("\n", end)
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    before = top.count("\n")
    assert [numbering(path)(row) - before for row in range(2)] == [4, 7]
    path.write_bytes((text + f"c{end}").encode())
    with pytest.raises(DataError, match=f"row {before + 9} has 1"):
        FileTable(path).whole()


@pytest.mark.parametrize(
    ("nodes", "edges", "told"),
    [
        ('id,f\n\na,"x\ny"\n\na,z\n', "source,target\n", "'a' in rows 3 and 6"),
        ('id,f\na,"x\ny"\n\n,z\n', "source,target\n", "row 5 has none in column 'id'"),
        ("id,f\na,x\n", "source,target\n\na,a\n\na,c\n", "row 5 of .*edges.csv has an unknown node"),
        ("id,f\na,x\n", 'source,target,w\na,a,"1\n"\n\na,a,-1\n', "row 5 of .*edges.csv has none in 'w'"),
        ("id,f\na,x\n", "source,target,w\n\na,a,x\n", "row 3 has something else"),
    ],
)
def test_errors_name_the_line(written, tmp_path, nodes, edges, told):
    paths, weight = written(nodes, edges), {"edge_weight": "w", "max_weight": 2} if "w" in edges[:16] else {}
    with pytest.raises(DataError, match=told):
        read_csv(*paths, **weight)
    if not weight:
        with pytest.raises(DataError, match=told):
            import_tables(*paths, tmp_path / "store")


def test_empty_lines_are_no_rows_of_one_column(table):
    assert table("id\na\n\nb\n\n") == (["id"], [["a"], ["b"]])
    assert table('id\r\na\r\n""\r\n') == (["id"], [["a"], [""]])
    assert table("id\na\n\rb\n\n")[1] == [["a"], ["b"]]


def test_a_name_with_an_unusual_line_end_is_a_name(table):
    assert table("id,f\u2028g\na,1\n")[0] == ["id", "f\u2028g"]
