"""`sfumato new` asks what no file can tell, and ends with a schema and a command line that runs."""

import io
import shlex

import pytest

from sfumato.graph import Schema

NODES = "person;age;dorm;member;name;year\n" + "".join(
    f"p{v};{20 + v % 30};{'north' if v % 2 else 'south'};{'true' if v % 3 else 'false'};Ann {v};{2004 + v % 2}\n"
    for v in range(60)
)
EDGES = "source,target\n" + "".join(f"p{v},p{(v + step) % 60}\n" for v in range(60) for step in (1, 2, 5))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(NODES)
    (tmp_path / "friends.csv").write_text(EDGES)
    return tmp_path


@pytest.fixture
def answered(sfumato, monkeypatch):
    """Run the command with lines of answers."""

    def run(answers, *arguments):
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        return sfumato("new", *arguments)

    return run


ANSWERS = {
    "links alone": ("year\nn\ny\n\n", "--unit edge --epsilon 1 --delta 1e-6", {"label": "year", "directed": False}),
    "a direction": ("year\ny\ny\n2\n", "--unit edge --epsilon 2", {"directed": True}),
    "persons": (
        "year\nn\nn\ny\n10\n0, 120\nnorth, south, west\n2004, 2005\n1\n",
        "--unit node --max-degree 10 --epsilon 1",
        {"classes": ("2004", "2005"), "drop": ("name",)},
    ),
    "a column without a public range": (
        "year\nn\nn\ny\n10\n\nnorth, south\n2004, 2005\n1\n", "--unit node", {"drop": ("name", "age")},
    ),
    "wrong answers are asked again": (
        "yeer\nyear\nperhaps\nn\ny\n1,5\n0\n1.5\n", "--epsilon 1.5", {"label": "year"},
    ),
    "numbers about the graph": ("none\nn\nn\n1\n", "--unit edge", {"label": None}),
    "numbers about a graph of persons": ("none\nn\ny\ny\n60\n1\n", "--unit node --arcs incident --max-degree 60", {}),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "fragment", "declared"), ANSWERS.values(), ids=ANSWERS)
def test_the_command_line_runs(answers, fragment, declared, answered, sfumato, folder):
    done = answered(answers)
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    assert fragment in done.out
    schema = Schema.read("schema.toml")
    assert {name: getattr(schema, name) for name in declared} == declared
    _, *words = shlex.split(done.out)
    dry = ["--dry-run"] if words[0] == "describe" else []
    checked = sfumato(*({"train": "check"}.get(word, word) for word in words), *dry)
    assert checked.code == 0, checked.out + checked.err
    if "directed = true" not in (folder / "schema.toml").read_text() and "describe" not in words:
        assert sfumato(*words, "--no-controls").code == 0
        assert sfumato("verify", words[-1]).code == 0


def test_nobody_is_asked_with_yes(answered, sfumato):
    done = answered("", "--yes", "--label", "year")
    assert done.code == 0, done.err
    assert "Left out, since nearly every row has another text: name." in done.err
    assert "Protected: any single link. Public: who is in the table, and its columns." in done.err
    assert done.out == (
        "sfumato train auto --nodes people.csv --edges friends.csv --schema schema.toml --unit edge --epsilon 1 --delta 1e-6 "
        "--out runs/run-1\n"
    )
    again = answered("", "--yes")
    assert (again.code, "schema.toml', which exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("answers", "arguments", "fragment"),
    [
        ("year\nn\n", (), "Expected an answer to"),
        ("year\nn\nn\nn\n", (), "Merge the rows of a person into one"),
        ("", ("--yes", "--label", "yeer"), "Did you mean 'year'?"),
        ("", ("--yes", "absent.csv", "friends.csv"), "absent.csv to be a file"),
        ("", ("--yes", "friends.csv", "people.csv"), "Swap them"),
    ],
)
def test_a_stop_writes_nothing(answers, arguments, fragment, answered, folder):
    done = answered(answers, *arguments)
    assert (done.code, done.out) == (2, "")
    assert fragment in done.err.splitlines()[-1]
    assert not (folder / "schema.toml").exists()


def test_ctrl_c_writes_nothing(sfumato, folder, monkeypatch):
    class Stopped(io.StringIO):
        def readline(self):
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Stopped())
    done = sfumato("new")
    assert (done.code, done.out) == (130, "")
    assert sorted(one.name for one in folder.iterdir()) == ["friends.csv", "people.csv"]


def test_tables_that_no_name_tells_apart_are_asked_for(answered, folder):
    (folder / "more.csv").write_text(NODES)
    done = answered("people.csv\nyear\nn\ny\n1\n")
    assert done.code == 0, done.err
    assert "File of nodes, one row each (more.csv, people.csv)?" in done.err
    assert "--nodes people.csv --edges friends.csv" in done.out
