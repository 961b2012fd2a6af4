"""Tables around a collection are read strictly by name; those of a simulation also by value."""

import csv
import math
import stat
import sys

import numpy as np
import pytest
from collect_fake import FEATURES, KEY, LABEL, schema_of

from sfumato.collect._drawing import outside
from sfumato.collect._keys import ServerKey
from sfumato.collect._tables import read_answers, read_codes, read_links, read_values, write_codes
from sfumato.errors import DataError, InputError

SCHEMA = schema_of()


def write(path, *rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def test_codes_are_read_back(tmp_path):
    users = ("ada", "bö", 'a "quoted", one')
    write_codes(tmp_path / "codes.csv", SCHEMA, KEY, users)
    assert stat.S_IMODE((tmp_path / "codes.csv").stat().st_mode) == 0o600
    assert read_codes(tmp_path / "codes.csv") == {user: KEY.code(SCHEMA, user) for user in users}


def test_codes_of_another_key_are_not_written(tmp_path):
    with pytest.raises(InputError, match="server key that the schema names"):
        write_codes(tmp_path / "codes.csv", SCHEMA, ServerKey.new(), ("ada",))
    assert not (tmp_path / "codes.csv").exists()


def test_values_are_read_by_name(tmp_path):
    rows = [
        ["genre", "books", "user", "age"],
        ["poetry", "3", "ada", "1e400"],
        ["", "9" * 5000, "bob", "0"],
        ["crime", "-1", "cid", "7"],
    ]
    (block,) = read_values(write(tmp_path / "v.csv", *rows), SCHEMA)
    assert block.users == ("ada", "bob", "cid")
    np.testing.assert_array_equal(block.features, [[math.inf, 3], [0, math.inf], [7, -1]])
    assert block.labels == (1, None, 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["x", "zebrafinch", "1", "crime"], r"row 2001 of v.csv to have a number in column 'age'"),
        (["x", "1", "nan", "crime"], r"row 2001 .* column 'books'"),
        (["x", "1", "", "crime"], r"row 2001 .* column 'books'"),
        (["x", "1", "2", "zebrafinch"], r"row 2001 .* a class of the schema, or nothing in column 'genre'"),
        (["u7", "1", "2", "crime"], r"one row for each user, got two for 'u7'"),
    ],
)
def test_odd_values_of_a_table_are_refused_by_their_place(tmp_path, row, message):
    rows = [["user", "age", "books", "genre"], *([f"u{i}", "1", "2", "crime"] for i in range(2000)), row]
    with pytest.raises(DataError, match=message) as caught:
        list(read_values(write(tmp_path / "v.csv", *rows), SCHEMA))
    assert "zebrafinch" not in str(caught.value)


def test_numbers_outside_are_counted():
    rows = np.array([[0.0, 10.0], [121.0, -10.5], [math.inf, 0.0]])
    assert outside(SCHEMA.features, rows) == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["user", "code"]], "a header alone"),
        ([["user", "code"], ["ada", "1"], ["ada", "1"]], "two for 'ada'"),
        ([["user"]], "the columns user,code"),
    ],
)
def test_codes_of_another_form_are_refused(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_codes(write(tmp_path / "c.csv", *rows))


def test_long_tables_come_in_blocks(tmp_path):
    rows = [["user", "genre"], *([f"u{i}", "crime"] for i in range(4001))]
    blocks = list(read_values(write(tmp_path / "v.csv", *rows), schema_of(label=LABEL)))
    assert [len(block.users) for block in blocks] == [2000, 2000, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "missing"),
        ([["user", "age", "books", "genre"]], "a header alone"),
        ([["user", "age", "books"]], "'genre' is missing"),
        ([["user", "age", "books", "genre", "height"]], "'height' is unknown"),
        ([["user", "age", "books", "genre", "age"]], "different names"),
        ([["user", "age", "books", "genre"], ["ada", "1", "2"]], "row 1 .* 4 cells, got 3"),
        ([["user", "age", "books", "genre"], [" ada", "1", "2", "crime"]], "user id"),
        ([["user", "age", "books", "genre"], [], ["ada", "1", "2"]], "row 1 .* 4 cells, got 3"),
        ([["user", "age", "books", "genre"], [], ["ada", "x", "2", "crime"]], "row 1 .* a number"),
    ],
)
def test_tables_of_another_form_are_refused(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        list(read_values(write(tmp_path / "v.csv", *rows), SCHEMA))


def test_bytes_that_are_no_text_are_told_by_their_line(tmp_path):
    (tmp_path / "v.csv").write_bytes(b"\xff")
    with pytest.raises(DataError, match="near line 1"):
        list(read_values(tmp_path / "v.csv", SCHEMA))


def test_names_that_would_be_one_column_are_refused(tmp_path):
    asked = schema_of(features=FEATURES, label={**LABEL, "name": "age"})
    with pytest.raises(DataError, match="different names"):
        list(read_values(write(tmp_path / "v.csv", ["user", "age", "books"]), asked))


def test_links_are_those_of_both_ends(tmp_path):
    path = write(tmp_path / "e.csv", ["source", "target"], ["ada", "bob"], ["cid", "ada"])
    (block,) = read_links(path, {"ada": 0, "bob": 1, "cid": 2}, ["cid", "ada"])
    assert (block.users, block.places, block.links) == (("cid", "ada"), (2, 0), ((0,), (1, 2)))


@pytest.mark.parametrize("rows", [[["source"]], [["source", "target"], ["ada", "ghostuser"]]])
def test_other_links_are_refused_without_their_ends(tmp_path, rows):
    with pytest.raises(DataError) as caught:
        list(read_links(write(tmp_path / "e.csv", *rows), {"ada": 0, "bob": 1}, ["ada"]))
    assert "ghostuser" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"), [("v.json", '{"label": "crime"}'), ("v.toml", 'label = "crime"'), ("v.txt", 'label = "crime"')]
)
def test_values_of_one_user_are_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_answers(tmp_path / name) == {"label": "crime"}


@pytest.mark.parametrize(("name", "form"), [("v.json", '{{"age": {}}}'), ("v.toml", "age = {}")])
def test_numbers_of_any_length_are_read(tmp_path, name, form):
    most = sys.get_int_max_str_digits()
    (tmp_path / name).write_text(form.format("9" * 5000))
    assert read_answers(tmp_path / name)["age"] > 10**4999
    assert sys.get_int_max_str_digits() == most


@pytest.mark.parametrize(
    ("name", "text"), [("v.json", '["zebrafinch"]'), ("v.toml", "label = zebrafinch"), ("v.json", "{zebrafinch")]
)
def test_values_of_another_form_are_not_told(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        read_answers(tmp_path / name)
    assert "zebrafinch" not in f"{caught.value}{caught.value.__cause__}"
