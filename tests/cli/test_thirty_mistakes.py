"""Mistakes of a first day: each is refused in one line that says what to do, with exit code 2, and nothing is written.

A case names what is wrong, the words that must be said, and the options that differ from a run that works.
"""

import sqlite3
from pathlib import Path
from shutil import copy

import pytest

from sfumato.errors import InputError

PRIVATE = "zebra"
NODES = "id,age,dorm,year\n" + "".join(
    f"{v},{20 + v},{'north' if v % 2 else 'south'},{2004 + v % 2}\n" for v in range(1, 41)
)
EDGES = "source,target\n" + "".join(f"{v},{v % 40 + 1}\n" for v in range(1, 41))
USUAL = {
    "--nodes": "n.csv",
    "--edges": "e.csv",
    "--label": "year",
    "--unit": "edge",
    "--epsilon": "1",
    "--delta": "1e-5",
}
COMMANDS = ("train", "check", "data import", "describe")
OF_LABELS = COMMANDS[:3]  # `describe` reads no column of the node table but ids


def column(place, value, text=NODES):
    head, *rows = (line.split(",") for line in text.splitlines())
    cells = ([*row[:place], value(at, row[place]), *row[place + 1 :]] for at, row in enumerate(rows))
    return "\n".join(",".join(row) for row in (head, *cells)) + "\n"


def nodes(place, value):
    return {"--nodes": column(place, value)}


def ends(value):
    return {"--edges": column(0, lambda _, v: value(v), column(1, lambda _, v: value(v), EDGES))}


TABLES = {
    "ids with leading zeros": (ends(lambda v: f"{v:0>5}"), "but for leading zeros. Read ids as text"),
    "ids with a prefix": (ends(lambda v: f"u{v}"), "before or behind their digits. Write it in both"),
    "ids in capitals": (ends(lambda v: f"u{v}") | nodes(0, lambda at, v: f"U{v}"), "but for capitals. Write them alike"),
    "ids counted from 0": (ends(lambda v: f"{int(v) - 1}"), "add 1 to the ids of the edges"),
    "an edge to nobody": ({"--edges": EDGES + "7,99\n"}, "an unknown node in column 'target'. Add the node"),
    "swapped tables": ({"--nodes": EDGES, "--edges": NODES}, "Swap them"),
    "two bytes a letter": ({"--nodes": NODES.encode("utf-16-le")}, "iconv -f UTF-16LE -t UTF-8"),
    "JSON lines": ({"--nodes": 9 * f'{{"id": 1, "name": "{PRIVATE}"}}\n'}, "pandas.read_json(FILE, lines=True)"),
    "JSON": ({"--nodes": f'[\n {{"id": 1, "name": "{PRIVATE}"}}\n]'}, "got JSON. Convert it"),
    "an Excel file": ({"--nodes": b"PK\x03\x04\x14\0xl/workbook.xml\0"}, "an Excel workbook. Save its sheet as 'CSV UTF-8'"),
    "an archive": ({"--nodes": b"PK\x03\x04\x14\0nodes.csv\0"}, "a zip archive. Unpack it"),
    "a web page": ({"--nodes": "<!DOCTYPE html>\n<html></html>\n"}, "a web page. Download the file itself"),
    "a large file of Git": ({"--nodes": "version https://git-lfs.github.com/spec/v1\noid x\n"}, "git lfs pull"),
    "no row of names": ({"--nodes": NODES.split("\n", 1)[1]}, "add a row of names before it"),
}  # fmt: skip
CELLS = {
    "a cell of 3 MB": (nodes(2, lambda at, v: PRIVATE * 600_000 if at == 5 else v), "--text dorm --text-features hashing"),
    "dates": (nodes(2, lambda at, v: f"2024-01-{at % 28 + 1:02d}"), "dates or times. Convert them to numbers, such as days"),
    "times with a zone": (nodes(2, lambda at, v: f"2024-01-{at % 28 + 1:02d}T10:00:00+02:00"), "got dates or times"),
    "decimal commas": (nodes(1, lambda at, v: f'"{v},5"'), "Write 1.5 for 1,5"),
    "percent": (nodes(1, lambda at, v: f"{v} %"), "3.33 for 3.33%"),
    "truth in several spellings": (nodes(2, lambda at, v: ("True", "1", "no")[at % 3]), "Write true and false throughout"),
    "lists": (nodes(2, lambda at, v: f'"[{at}, 2]"'), "got lists or objects. Write one column for each number"),
    "floats as classes": (nodes(3, lambda at, v: f"{at}.5"), 'target = "number"'),
    "one class": (nodes(3, lambda at, v: PRIVATE), "got one, which there is nothing to tell from. Name another label column"),
    "dates as classes": (nodes(3, lambda at, v: f"2024-01-{at % 28 + 1:02d}"), "such as the year"),
    "ids as classes": ({"--label": "id"}, "which holds their ids. Name another column"),
    "a column that is none": ({"--label": "yeer"}, "Did you mean 'year'?"),
    "a schema for other columns": ({"--schema": '[columns.salary]\nmin = 0\n'}, "the column 'salary' of the schema"),
    "a schema for other classes": ({"--schema": 'classes = ["a", "b"]\n'}, "Correct the names of the classes"),
    "a table as schema": ({"--schema": "n.csv"}, "to be a file in TOML, got one that is called .csv"),
}  # fmt: skip
OPTIONS = {
    "epsilon 0": ({"--epsilon": "0"}, "Smaller means more private; 1 is a common choice"),
    "epsilon below 0": ({"--epsilon": "-1"}, "to be a finite number > 0, got -1.0"),
    "epsilon with a comma": ({"--epsilon": "1,5"}, "Expected --epsilon to be a number, got '1,5'. Write 1.5."),
    "a confidence in percent": ({"--epsilon": "95%"}, "Write 0.95."),
    "a power of ten": ({"--delta": "10^-5"}, "Write 1e-5."),
    "delta 1": ({"--delta": "1"}, "well below 1 / (number of records)"),
    "no delta": ({"--delta": None}, "Expected --delta with --unit edge"),
    "a misspelled unit": ({"--unit": "egde"}, "Did you mean 'edge'?"),
    "a unit by its class": ({"--unit": "edge-level"}, "Did you mean 'edge'?"),
    "a person as unit": ({"--unit": "person"}, "A person who is one node is protected by node"),
    "thousands": ({"--max-degree": "1,000"}, "Expected --max-degree to be a whole number, got '1,000'. Write 1000."),
    "shares of a split": ({"--split": "0.75/0.1/0.15"}, "Write 75/10/15."),
    "a split with commas": ({"--split": "75,10,15"}, "Write 75/10/15."),
    "a folder": ({"--nodes": "folder"}, "got a folder. Name a file in it"),
    "an address": ({"--nodes": "https://example.org/n.csv"}, "Download the file first"),
    "a moved table": ({"--nodes": "nn.csv"}, "Did you mean 'n.csv'?"),
    "a table as store": ({"--nodes": None, "--edges": None, "--label": None, "--graph": "n.csv"}, "that `sfumato data import`"),
    "a used folder": ({"--out": "folder"}, "which exists. Choose another name or remove it"),
    "a folder below a file": ({"--out": "n.csv/run"}, "Check the path, its rights and the disk"),
}  # fmt: skip
WORDS = {
    "a misspelled command": ("trian gap", "Did you mean 'train'"),
    "a command of other libraries": ("fit gap", "`sfumato --help` lists all commands"),
    "a misspelled method": ("train gpa --unit edge --out new", "Did you mean 'gap'?"),
    "tables without options": ("train gap n.csv e.csv", "such as --nodes FILE"),
    "a data set without its folder": (
        "train gap --dataset coraa --data-dir . --unit edge --epsilon 1 --delta 1e-5 --out new",
        "Did you mean 'planetoid/cora'?",
    ),
    "a run that is none": ("predict folder", "to be a finished run folder"),
    "a damaged ledger": ("ledger show n.csv", "to be the ledger of a data set"),
    "a share above 1": (
        "describe --nodes n.csv --edges e.csv --unit edge --epsilon 1 --out new --confidence 95",
        "0.95",
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.csv").write_text(NODES)
    (tmp_path / "e.csv").write_text(EDGES)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").touch()
    return tmp_path


def options(changed, command):
    """The words of a command line; a value that is the content of a file is written to it."""
    words = []
    for name, value in (USUAL | {"--out": "new"} | changed).items():
        if isinstance(value, bytes) or "\n" in (value or ""):
            file = {"--nodes": "n.csv", "--edges": "e.csv", "--schema": "schema.toml"}[name]
            Path(file).write_bytes(value if isinstance(value, bytes) else value.encode())
            value = file
        said = value is not None and not (name in _BUDGET and command == "data import")
        words += [name, value] if said and not (name == "--label" and command == "describe") else []
    return [*words, *["--no-controls"] * (command == "train")]


_BUDGET = ("--unit", "--epsilon", "--delta")


def refuse(sfumato, folder, command, words, fragment):
    before = sorted(folder.rglob("*"))
    done = sfumato(*command, *words)
    said = done.err + done.out
    assert done.code == 2, said
    assert fragment in " ".join(said.split()), said
    assert done.err.count("Error: ") == (command != ["check", "gap"] or not done.out), said
    assert "Traceback" not in said
    assert PRIVATE not in said
    assert sorted(folder.rglob("*")) == before


def cases(of, commands):
    return [pytest.param(command, *case, id=f"{name}-{command}") for name, case in of.items() for command in commands]


@pytest.mark.parametrize(
    ("command", "changed", "fragment"),
    [*cases(TABLES, COMMANDS), *cases(CELLS, ("train", "check")), *cases(OPTIONS, ("train",))],
)
def test_a_mistake_is_refused_with_what_to_do(command, changed, fragment, sfumato, folder):
    words = options(changed, command)
    refuse(sfumato, folder, [*command.split(), *["gap"] * (command in ("train", "check"))], words, fragment)


@pytest.mark.parametrize(("line", "fragment"), WORDS.values(), ids=WORDS)
def test_a_command_line_is_refused_with_what_to_do(line, fragment, sfumato, folder):
    refuse(sfumato, folder, line.split(), [], fragment)


def test_files_of_other_programs_are_named(sfumato, folder):
    import duckdb
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    table = pa.table({"id": [1, 2], "name": [PRIVATE, "b"]})
    duckdb.connect("g.duckdb").execute("CREATE TABLE nodes AS SELECT 1 AS id").close()
    sqlite3.connect("g.sqlite").execute("CREATE TABLE nodes (id)").connection.close()
    pq.write_table(table, "g.parquet")
    feather.write_feather(table, "g.feather")
    for file, fragment in {
        "g.duckdb": "a DuckDB database. Read its tables with sf.graph.read_sql",
        "g.sqlite": "a SQLite database",
        "g.parquet": "to be CSV, as it is called, got Parquet. Rename it to end in .parquet",
        "g.feather": "Write it as Parquet",
    }.items():
        copy(file, "n.csv")
        refuse(sfumato, folder, ["train", "gap"], options({}, "train"), fragment)
    copy("e.csv", "n.parquet")
    copy("e.csv", "e.parquet")
    changed = {"--nodes": "n.parquet", "--edges": "e.parquet"}
    refuse(sfumato, folder, ["train", "gap"], options(changed, "train"), "Rename it to end in .csv if it is CSV")
    pq.write_table(pa.table({"id": [1, 2], "v": [[1.0], [2.0]], "year": ["a", "b"]}), "n.parquet")
    pq.write_table(pa.table({"source": [1], "target": [2]}), "e.parquet")
    refuse(sfumato, folder, ["train", "gap"], options(changed, "train"), "Write one column for each number in it")


def test_objects_of_other_libraries_are_named():
    import pandas as pd
    import torch
    from torch_geometric.data import TemporalData

    import sfumato as sf

    frame = pd.DataFrame({"id": [1, 2]})
    with pytest.raises(InputError, match=r"got 'DataFrame'. Data frames are read by from_frames"):
        sf.graph.read_csv(frame, frame)
    events = TemporalData(src=torch.tensor([0]), dst=torch.tensor([1]), t=torch.tensor([5]))
    with pytest.raises(InputError, match=r"beside TemporalData, whose events.* Pass nodes=Data\(x=x"):
        sf.graph.from_pyg(events, directed=True)


def test_no_permission_and_a_full_disk_are_one_line(sfumato, folder, monkeypatch):
    for number, said in ((13, "Permission denied"), (28, "No space left on device")):

        def fails(self, *arguments, number=number, said=said, **named):
            raise OSError(number, said, str(self))

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", fails)
            fragment = f"Error: {said}: n.csv. Check the path, its rights and the disk."
            refuse(sfumato, folder, ["train", "gap"], options({}, "train"), fragment)


def test_a_run_of_an_older_version_and_a_cut_ledger_are_one_line(sfumato, folder):
    import hashlib
    import json

    ledger = ["--ledger", "spent.jsonl", "--total-epsilon", "5"]
    words = options({"--out": "run"}, "train")
    assert sfumato("train", "label-messages", *words, *ledger).code == 0
    cut = folder / "spent.jsonl"
    cut.write_text(cut.read_text()[:-20])
    again = sfumato("train", "label-messages", *options({}, "train"), "--ledger", "spent.jsonl")
    assert (again.code, again.err.count("\n")) == (1, 1), again.err
    assert "What to do: sfumato ledger check spent.jsonl" in again.err
    assert not (folder / "new").exists()
    release = folder / "run" / "release"
    old = {**json.loads((release / "certificate.json").read_text()), "format": 99}
    (release / "certificate.json").write_text(json.dumps(old))
    listed = json.loads((release / "manifest.json").read_text())
    digest = hashlib.sha256((release / "certificate.json").read_bytes()).hexdigest()
    (release / "manifest.json").write_text(json.dumps(listed).replace(listed["files"]["certificate.json"], digest))
    refuse(sfumato, folder, ["predict", "run"], [], "to be a run of format 2 to 3, got 99")
