"""`sfumato data describe`: a line for each column, who may know it, a schema to start from; other commands say the same lines."""

import json
import random
import warnings
from pathlib import Path

import pytest

from sfumato.cli._describe import _by_unit
from sfumato.errors import SfumatoWarning
from sfumato.graph import from_frames, read_csv
from sfumato.graph._schema import Schema
from sfumato.privacy.units import UNITS

pd = pytest.importorskip("pandas")

RNG = random.Random(7)
HEAD = "person,income,city,employed,note,year\n"
ROWS = [
    [
        f"p{v}",
        "" if v % 10 == 0 else f"{RNG.gauss(3e4, 1e4):.2f}",
        f"city{v % 4}",
        ("true", "false")[v % 2],
        "x",
        str(2004 + v % 3),
    ]
    for v in range(40)
]
NODES = HEAD + "".join(",".join(row) + "\n" for row in ROWS)
EDGES = "person,friend,since\n" + "".join(f"p{v},p{(v * 7 + 1) % 40},2020\n" for v in range(40))
LINES = [
    "person: id",
    "income: number, 10 % missing",
    "city: 4 categories",
    "employed: boolean",
    "note: left out",
    "year: label, 3 classes",
]


@pytest.fixture
def files(tmp_path):
    return write(tmp_path, NODES, EDGES)


def write(folder: Path, nodes, edges):
    paths = folder / "nodes.csv", folder / "edges.csv"
    for path, content in zip(paths, (nodes, edges), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def lines(text):
    return [line.strip() for line in text.splitlines() if line.startswith("  ") and ":" in line]


def test_every_column_has_a_line(files, sfumato):
    done = sfumato("data", "describe", *files, "--label", "year", "--drop", "note")
    assert done.code == 0
    assert lines(done.out)[: len(LINES)] == LINES
    assert f"{files[0]}: 40 nodes" in done.out
    told = json.loads(sfumato("data", "describe", *files, "--label", "year", "--drop", "note", "--json").out)
    income = told["tables"][0]["columns"][1]
    assert (income["name"], income["kind"], income["missing"]) == ("income", "number", 4)
    assert "categories of column city" in told["assumed_public"]


def test_units_themselves_say_what_is_public(files, sfumato):
    shown = sfumato("data", "describe", *files, "--label", "year").out
    groups = list(_by_unit())
    assert sorted(word for words, _, _ in groups for word in words) == sorted(
        w for unit in UNITS for w in unit.spelled()
    )
    for unit in UNITS:
        for word, forms in zip(unit.words, unit.forms().values(), strict=False):
            public = next(public for words, public, _ in groups if word in words)
            assert {*public} == {*forms[0].public} - {"owners"}  # who owns a node is no column of these tables
    node = shown.split("--unit node")[1].split("--unit")[0]
    assert "public: ids (person)" in node
    assert "features (income, city, employed, note), labels (year), edges (person, friend)" in node.split("private")[1]


@pytest.mark.parametrize("from_data", [False, True])
def test_the_schema_is_one_that_the_tables_fit(from_data, files, sfumato, tmp_path):
    out, asked = tmp_path / "schema.toml", ["--from-data"] if from_data else []
    assert (
        sfumato("data", "describe", *files, "--label", "year", "--drop", "note", "--write-schema", out, *asked).code
        == 0
    )
    written = out.read_text()
    plain, again = read_csv(*files, label="year", drop=["note"]), read_csv(*files, schema=out)
    assert (again.feature_names, again.classes, again.y.tolist()) == (
        plain.feature_names,
        plain.classes,
        plain.y.tolist(),
    )
    frames = from_frames(*(pd.read_csv(path) for path in files), schema=out)
    assert frames.x.tolist() == again.x.tolist()
    if from_data:
        assert again.assumed_public == plain.assumed_public
        assert written.count("from_data = true") == 2
        assert "\n# min = " in written
    else:
        assert again.x.tolist() == plain.x.tolist()
        private = [cell for row in ROWS for cell in row[1:] if cell not in ("", "x", "true", "false")]
        assert not [cell for cell in private if cell in written]
    twice = tmp_path / "again.toml"
    assert sfumato("data", "describe", *files, "--schema", out, "--write-schema", twice, *asked).code == 0
    assert Schema.read(twice) == Schema.read(out)
    tables = ("--nodes", files[0], "--edges", files[1], "--schema", out, "--no-controls", "--out", tmp_path / "run")
    assert sfumato("train", "linear", *tables, "--unit", "edge", "--epsilon", "1", "--delta", "1e-6").code == 0


def test_a_schema_is_never_written_over(files, sfumato, tmp_path):
    (tmp_path / "s.toml").write_text("kept")
    done = sfumato("data", "describe", *files, "--write-schema", tmp_path / "s.toml")
    assert (done.code, (tmp_path / "s.toml").read_text()) == (2, "kept")
    assert sfumato("data", "describe", *files, "--from-data").code == 2


def test_what_is_protected_is_not_counted_by_other_commands(files, sfumato, tmp_path):
    tables = ("--nodes", files[0], "--edges", files[1], "--label", "year", "--drop", "note")
    fit = ("train", "mlp", *tables, "--no-controls", "--delta", "1e-3", "--epsilon", "8")
    edge = sfumato(*fit, "--unit", "edge", "--out", tmp_path / "edge")
    node = sfumato(*fit, "--unit", "node", "--max-degree", "4", "--assume-public", "--out", tmp_path / "node")
    store = sfumato("data", "import", *tables, "--out", tmp_path / "store")
    assert (edge.code, node.code, store.code) == (0, 0, 0), (edge.err, node.err, store.err)
    assert [line for line in LINES if line in edge.err] == LINES
    for told in (node.err, store.err):
        assert "income: number\n" in told
        assert "city: 4 categories" in told
        assert "missing" not in told
    assert f"{files[1]}: " not in edge.err + node.err + store.err  # nor the number of edges


def quoted(text):
    """As Excel saves it: all cells quoted, Windows line ends, and a mark at the beginning."""
    rows = ['"' + row.replace(",", '","') + '"' for row in text.splitlines()]
    return b"\xef\xbb\xbf" + "".join(f"{row}\r\n" for row in rows).encode()


def numbered(text):
    """As pandas saves a frame with its index."""
    return "".join(f"{at - 1 if at else ''},{row}\n" for at, row in enumerate(text.splitlines()))


def with_cells(text, name, value):
    """The table with one more column."""
    return "".join(f"{row},{value(at) if at else name}\n" for at, row in enumerate(text.splitlines()))


SNAP = "# from SNAP\n# person\tfriend\tsince\n" + EDGES.split("\n", 1)[1].replace(",", "\t")
TEN = {  # tables of nodes and edges, what they are refused or warned with, and the lines that describe their columns
    "semicolons, and decimal commas": (
        (NODES.replace(",", ";").replace(".", ","), EDGES.replace(",", ";")),
        "Expected column 'income' to hold numbers or categories, got numbers that are written in another way. Write 1.5", "", []),
    "saved by Excel": ((quoted(NODES), quoted(EDGES)), None, "", ["person: id", "income: number, 10 % missing"]),
    "the index of a frame": (
        (numbered(NODES), numbered(EDGES)), None, "", ["Unnamed: 0: left out", "person: id", "person: end", "friend: end"]),
    "dates": (
        (with_cells(NODES, "joined", lambda at: f"2024-01-{at % 28 + 1:02d}"), EDGES),
        "Expected column 'joined' to hold numbers or categories, got dates or times. Convert them", "", []),
    "names": (
        (with_cells(NODES, "email", lambda at: f"p{at}@example.org"), EDGES), None, "or leave it out: --drop email",
        ["email: 40 categories, nearly one text a node"]),
    "words for what is missing": (
        (NODES.replace("city3", "NA").replace("city2", "unknown").replace(",2004", ",n/a"), EDGES), None, "",
        ["city: 2 categories, 50 % missing", "year: label, 2 classes, 35 % missing"]),
    "yes and no": ((NODES.replace("true", "yes").replace("false", "no"), EDGES), None, "", ["employed: 2 categories"]),
    "no row of names": ((NODES.split("\n", 1)[1], EDGES), "to name the columns", "", []),
    "a row with a cell too many": ((NODES.replace("p17,", "p17,,"), EDGES), "row 19 has 7", "", []),
    "UTF-16 with tabs, and comments": (
        (NODES.replace(",", "\t").encode("utf-16"), SNAP), None, "",
        ["person: id", "income: number, 10 % missing", "person: end", "friend: end"]),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "refusal", "warning", "told"), TEN.values(), ids=TEN)
def test_ten_messy_tables_are_described_or_refused_with_the_reason(tables, refusal, warning, told, sfumato, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        done = sfumato("data", "describe", *write(tmp_path, *tables), "--label", "year")
    assert warning in done.err
    assert ("Read as categories" in done.err) == bool(warning)
    assert done.code == (0 if refusal is None else 2), done.err
    assert (refusal or "") in done.err
    assert [line for line in told if line not in lines(done.out)] == []


def test_words_of_few_nodes_stand_behind_a_sign_in_a_schema_from_data(sfumato, tmp_path):
    rows = [
        (at, "village of ann" if at < 3 else ("berlin", "rome")[at % 2], "ab"[at % 2] if at else "c")
        for at in range(40)
    ]
    (tmp_path / "nodes.csv").write_text("id,city,y\n" + "".join(f"{at},{city},{y}\n" for at, city, y in rows))
    (tmp_path / "edges.csv").write_text("s,t\n" + "".join(f"{at},{(7 * at + 1) % 40}\n" for at in range(40)))
    tables, out = (tmp_path / "nodes.csv", tmp_path / "edges.csv"), tmp_path / "schema.toml"
    assert sfumato("data", "describe", *tables, "--label", "y", "--from-data", "--write-schema", out).code == 0
    behind = [line for line in out.read_text().splitlines() if line.startswith("# ")]
    assert '# classes = ["a", "b", "c"]  # holds words of fewer than 10 nodes' in behind
    assert '# [columns."city"]  # holds words of fewer than 10 nodes' in behind
    assert '# categories = ["berlin", "rome", "village of ann"]' in behind
    assert not [line for line in out.read_text().splitlines() if "ann" in line and line not in behind]
    refused = ("train", "linear", "--nodes", tables[0], "--edges", tables[1], "--schema", out, "--unit", "node")
    done = sfumato(*refused, "--epsilon", "4", "--delta", "1e-4", "--out", tmp_path / "run")
    assert done.code == 2
    assert "fewer than 10 nodes" in done.err
    assert "ann" not in done.err
