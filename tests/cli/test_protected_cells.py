"""Nothing that a command says unasked, and nothing in `spec.json`, depends on cells that the unit protects."""

import json

import pytest

from sfumato.tables._importing import import_tables

COUNT = 60
SCHEMA = """
label = "year"
classes = ["2004", "2005"]
[columns.income]
min = 0
max = 100
[columns.flag]
categories = ["false", "true"]
[columns.dorm]
categories = ["north", "south"]
"""


def row(v, income="50", flag="true", dorm="north", year=None):
    return f"p{v},{income},{flag},{dorm},{2004 + v % 2 if year is None else year}\n"


def usual(v):
    return row(v, flag=("true", "false")[v % 2], dorm=("north", "south")[v % 3 == 0])


def odd(**cells):
    """All but six rows hold this, so that one more or less is the tenth."""
    return lambda v: row(v, **cells) if v < 54 else usual(v)


CASES = {
    "beyond a range": (odd(income="500"), row(59, income="500")),
    "no category": (odd(dorm="west"), row(59, dorm="west")),
    "no boolean": (usual, row(59, flag="maybe")),
    "a boolean in capitals": (usual, row(59, flag="TRUE")),
    "no class": (odd(year="1999"), row(59, year="1999")),
    "a missing number": (usual, row(59, income="NA")),
    "nothing at all": (usual, "p59,,,,\n"),
    "written in another way": (lambda v: row(v, dorm="1,5".replace(",", ".")), row(59, dorm="7")),
}
UNITS = {"node": ("--max-degree", "3"), "node-incident": (), "record": ()}


def told(sfumato, folder, asked, unit, *, method="linear"):
    out, more = folder / "run", "--epsilon 8 --delta 1e-4 --no-controls"
    done = sfumato("train", method, *asked, "--unit", unit, *UNITS[unit], *more.split(), "--out", out)
    assert done.code == 0, done.err
    after = sfumato("predict", out, "--out", folder / "p.csv")
    assert after.code == 0, after.err
    said = f"{done.err}{after.out}{after.err}".replace(str(folder), "")
    assert "flag" in said or method == "gap"
    return said, json.loads((out / "release" / "spec.json").read_text())


def write(folder, rows):
    folder.mkdir()
    (folder / "n.csv").write_text("id,income,flag,dorm,year\n" + "".join(rows))
    (folder / "e.csv").write_text("source,target\n" + "".join(f"p{v},p{v + 1}\n" for v in range(COUNT - 1)))
    (folder / "s.toml").write_text(SCHEMA)
    return ["--nodes", folder / "n.csv", "--edges", folder / "e.csv", "--schema", folder / "s.toml"]


@pytest.fixture
def alike(tmp_path):
    """Check that the same is told of the two tables of a case, of which a function gets the folder and the options."""

    def check(case, tell):
        rows, other = CASES[case]
        both = []
        for name, last in (("one", rows(COUNT - 1)), ("two", other)):
            asked = write(tmp_path / name, [*map(rows, range(COUNT - 1)), last])
            both.append(tell(tmp_path / name, asked))
        assert both[0] == both[1]

    return check


@pytest.mark.parametrize(
    ("case", "unit"), [*((case, "node") for case in CASES), ("no class", "node-incident"), ("no boolean", "record")]
)
def test_neighbors_are_told_alike(case, unit, sfumato, alike):
    alike(case, lambda folder, asked: told(sfumato, folder, asked, unit))


@pytest.mark.parametrize("case", ["no class", "no boolean"])
def test_neighbors_are_told_alike_when_methods_are_tuned(case, sfumato, alike):
    def tuned(folder, asked):
        (folder / "c.toml").write_text("[[candidate]]\nepochs = 1\n[[candidate]]\nepochs = 2\n")
        unit = ("--unit", "node", "--max-degree", "3", "--epsilon", "8", "--delta", "1e-4", "--trials", "2")
        more = ("--candidates", folder / "c.toml", "--no-controls", "--out", folder / "run")
        done = sfumato("tune", "mlp", *asked, *unit, *more)
        assert done.code == 0, done.err
        return done.err.replace(str(folder), "")

    alike(case, tuned)


def test_neighbors_are_told_alike_from_a_store(sfumato, alike):
    def stored(folder, _):
        files = (folder / "n.csv", folder / "e.csv")
        store = import_tables(*files, folder / "store", schema=folder / "s.toml")
        return told(sfumato, folder, ["--graph", store], "node", method="gap")

    alike("beyond a range", stored)
