"""Numbers that stand for words: one rule by which +1, 01 and 1.0 are the declared 1, and what is missing in any capitals."""

import pytest

from sfumato.errors import DataError
from sfumato.graph import from_frames
from sfumato.tables._cells import coded, kind_of, numbers

pa = pytest.importorskip("pyarrow")

LINKS = pa.table({"source": ["n0"], "target": ["n1"]})


def read(*cells, **how):
    nodes = pa.table({"id": [f"n{row}" for row in range(len(cells))], "f": pa.array(cells)})
    return from_frames(nodes, LINKS, **how)


@pytest.mark.parametrize(
    ("known", "cells", "codes"),
    [
        (
            ["1", "2"],
            ["1", "+1", "01", "1.0", "001.", " 1 ", "-1", "1.5", "1e0", "11"],
            [0, 0, 0, 0, 0, 0, -1, -1, 0, -1],
        ),
        (["01", "02"], ["01", "1", "2.0", "+02", "3"], [0, 0, 1, 1, -1]),
        (["1", "01"], ["1", "01", "+1", "001"], [0, 1, 0, 0]),
        (["01", "001"], ["01", "001", "1"], [0, 1, -1]),
        (["+1", "-1", "0"], ["1", "-1.0", "-0", "+0"], [0, 1, 2, 2]),
        (["007", "x"], ["7", "x", "X"], [0, 1, -1]),
        (["1.0", "2.5"], ["1", "2.5", "2.50"], [0, 1, -1]),
    ],
)
def test_a_cell_is_the_declared_word_or_the_same_whole_number(known, cells, codes):
    if known[0] != "1.0":
        padded = [cell.strip() for cell in cells]
        assert coded(pa.array(padded), known).tolist() == codes
    columns = {"columns": {"f": {"categories": known}}}
    assert read(*cells, schema=columns).x.tolist() == [
        [float(at == code) for at in range(len(known))] for code in codes
    ]
    labels = read(*cells, label="f", schema={"classes": known})
    assert labels.y.tolist() == codes
    assert labels.outside == ({"f": codes.count(-1)} if -1 in codes else {})


def test_numbers_of_a_frame_are_the_words_that_a_file_would_hold():
    for cells in ([1.0, 2.5, None], ["1.0", "2.5", ""], ["1", "2.5", "NA"]):
        graph = read(*cells, schema={"columns": {"f": {"categories": ["1", "2.5"]}}})
        assert graph.x.tolist() == [[1, 0], [0, 1], [0, 0]]
        assert read(*cells, label="f", schema={"classes": ["1", "2.5"]}).y.tolist() == [0, 1, -1]


@pytest.mark.parametrize("word", ["NAN", "-nan", "-NaN", "nan", ".", "?", "NA", "null", " . "])
def test_a_word_for_nothing_is_one_in_numbers_and_in_classes(word):
    assert read("1", word, "2").x.tolist() == [[1], [0], [2]]
    for cells, classes in ((("1", word, "2"), ("1", "2")), (("u", word, "v"), ("u", "v"))):
        graph = read(*cells, label="f")
        assert (graph.classes, graph.y.tolist()) == (classes, [0, -1, 1])
    declared = read("u", word, "v", label="f", schema={"classes": ["u", "v", word.strip()]})
    assert declared.y.tolist() == [0, 2, 1]


@pytest.mark.parametrize("word", ["+nan", "nan(7)", "Nan"])
def test_words_that_arrow_takes_for_no_number_are_words(word):
    assert numbers(pa.array(["1", word])) is None
    assert kind_of(pa.array([word, "u"])) == "category"


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (["1", "2", "x", "3"], 2),
        (["1", "2", "-", "-"], 2),
        (["a", "b", "c", "7"], 3),
        (["true", "false", "1"], 2),
        (["2004", "2004.5", "other", "2005"], 2),
    ],
)
def test_classes_are_all_numbers_or_all_words_unless_declared(cells, row):
    with pytest.raises(
        DataError, match=f"all numbers or all words, but node 'n{row}' has .* declare them in the schema"
    ):
        read(*cells, label="f")
    assert read(*cells, label="f", schema={"classes": cells[:3]}).y.tolist()[:2] == [0, 1]


@pytest.mark.parametrize("cells", [["1st", "2nd", "x"], ["inf", "math", "bio"], ["2024-01", "x", "y"]])
def test_words_with_digits_are_words(cells):
    assert read(*cells, label="f").classes == tuple(sorted(cells))
