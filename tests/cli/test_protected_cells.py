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
    out = folder / "run"
    given = (
        "train",
        method,
        *asked,
        "--unit",
        unit,
        *UNITS[unit],
        "--epsilon",
        "8",
        "--delta",
        "1e-4",
        "--no-controls",
    )
    done = sfumato(*given, "--out", out)
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


@pytest.mark.parametrize(
    ("case", "unit"), [*((case, "node") for case in CASES), ("no class", "node-incident"), ("no boolean", "record")]
)
def test_neighbors_are_told_alike(case, unit, sfumato, tmp_path):
    rows, other = CASES[case]
    both = []
    for name, last in (("one", rows(COUNT - 1)), ("two", other)):
        asked = write(tmp_path / name, [*map(rows, range(COUNT - 1)), last])
        both.append(told(sfumato, tmp_path / name, asked, unit))
    assert both[0] == both[1]


@pytest.mark.parametrize("case", ["no class", "no boolean"])
def test_neighbors_are_told_alike_when_methods_are_tuned(case, sfumato, tmp_path):
    rows, other = CASES[case]
    both = []
    for name, last in (("one", rows(COUNT - 1)), ("two", other)):
        asked = write(tmp_path / name, [*map(rows, range(COUNT - 1)), last])
        (tmp_path / name / "c.toml").write_text("[[candidate]]\nepochs = 1\n[[candidate]]\nepochs = 2\n")
        unit = ("--unit", "node", "--max-degree", "3", "--epsilon", "8", "--delta", "1e-4", "--trials", "2")
        more = ("--candidates", tmp_path / name / "c.toml", "--no-controls", "--out", tmp_path / name / "run")
        done = sfumato("tune", "mlp", *asked, *unit, *more)
        assert done.code == 0, done.err
        both.append(done.err.replace(str(tmp_path / name), ""))
    assert both[0] == both[1]


def test_neighbors_are_told_alike_from_a_store(sfumato, tmp_path):
    rows, other = CASES["beyond a range"]
    both = []
    for name, last in (("one", rows(COUNT - 1)), ("two", other)):
        write(tmp_path / name, [*map(rows, range(COUNT - 1)), last])
        files = tmp_path / name / "n.csv", tmp_path / name / "e.csv"
        store = import_tables(*files, tmp_path / name / "store", schema=tmp_path / name / "s.toml")
        both.append(told(sfumato, tmp_path / name, ["--graph", store], "node", method="gap"))
    assert both[0] == both[1]
