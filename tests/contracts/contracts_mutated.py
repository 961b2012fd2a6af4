"""Tables that went wrong on their way: bytes, cells, rows and words of two sound tables are mutated, and the readers driven.

``python tests/contracts/contracts_mutated.py 5000`` reads so many of them (from a seed, if one follows) and prints what came.
"""

import contextlib
import io
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

from sfumato.cli import invoke
from sfumato.errors import InputError, SfumatoWarning
from sfumato.graph import read_csv

MARKED = ("zebrafinch", "quokka", "7741903", "5.60613", "ghostuser")
"""Planted in private cells: a label, a category, a number, a weight, and an end of an edge that is no node."""
CELLS = (
    "", " ", "NA", "nan", "inf", "-inf", "Infinity", "1e400", "1e-400", "9007199254740993", "9" * 40, "-0", "0x10", "1_000",
    "1,5", "1,000", "3.33%", "$5", "true", "T", "yes", "2024-02-30", "2024-01-02", "12:00", "é", "\u200b", "x" * 3000,
    "'", '"', '""',
    "=1+1", "#", "# note", "\\", "\\N", "None", "null", "id", "[1, 2]", '{"a": 1}', "\x00", "\ufeff", "n0", "n1", *MARKED,
)  # fmt: skip
BYTES = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"|",
    b"\n",
    b"\r",
    b"\r\n",
    b"\\",
    b"#",
    b"\xc3",
    b"\x1a",
)
WEIGHED = {"edge_weight": "amount", "max_weight": 4.0}
WAYS = (
    {"label": "year"},
    {"label": "year", **WEIGHED},
    WEIGHED,
    {"label": "age"},
    {"label": "size"},
    {"label": ["flag", "flag2"]},
)
SCHEMAS = (
    {},
    {"classes": ["a", "b"], "columns": {"age": {"min": 0, "max": 99}, "dorm": {"categories": ["north", "south"]}}},
    {"columns": {"dorm": {"min": 0, "max": 9}, "size": {"categories": ["1", "2"]}}},
    {"target": "number", "target_range": [0, 9]},
)


def sound(rng: random.Random) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of a node table and an edge table with nothing wrong but the marked values."""
    part, name = (
        rng.choice((1, 4)),
        rng.choice("nn ").strip(),
    )  # whole numbers, or with fractions; ids as texts, or numbers
    nodes = [["id", "age", "dorm", "size", "flag", "flag2", "year"]] + [
        [
            f"{name}{v}",
            str(20 + v),
            ("north", "south")[v % 2],
            str(v / part if part > 1 else v),
            str(v % 2),
            str(v // 9),
            "ab"[v % 2],
        ]
        for v in range(16)
    ]
    edges = [["from", "to", "amount"]] + [
        [f"{name}{v}", f"{name}{v + 1}", str(v / part if part > 1 else v)] for v in range(15)
    ]
    nodes[6][1], nodes[8][2], nodes[10][6], edges[4][2] = (
        MARKED[2],
        MARKED[1],
        MARKED[0],
        MARKED[3] if part > 1 else MARKED[2],
    )
    return nodes, edges


def mutated(rows: list[list[str]], rng: random.Random) -> bytes:
    """Return a table with one to three mutations."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_OF_FORM if rng.random() < 0.2 else _OF_CELLS)(rows, rng)
    mark, end = rng.choice((",", ",", ",", ";", "\t", "|", " ")), rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    quoted = rng.random() < 0.9  # else as by a program that knows nothing of quotes
    data = "".join(mark.join(_quoted(cell, mark) if quoted else cell for cell in row) + end for row in rows).encode()
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 3)):
            data = rng.choice(_OF_BYTES)(data, rng)
    encoding = rng.choice(("utf-8",) * 12 + ("utf-8-sig", "utf-8-sig", "utf-16", "latin-1"))
    return data if encoding == "utf-8" else data.decode("utf-8", "replace").encode(encoding, "replace")


def _plain(rows):
    return "".join(",".join(row) + "\n" for row in rows).encode()


def _quoted(cell, mark):
    return '"' + cell.replace('"', '""') + '"' if mark in cell or '"' in cell else cell


def _place(rows, rng):
    row = rng.choice([row for row in rows if row] or [[""]])
    return row, rng.randrange(len(row) or 1)


def _put(rows, rng):
    row, at = _place(rows, rng)
    row[at : at + 1] = [rng.choice(CELLS)]


def _quote(rows, rng):
    row, at = _place(rows, rng)
    row[at : at + 1] = [rng.choice(('"{}"', '"{}', '{}"', "'{}'")).format("".join(row[at : at + 1]))]


def _drop_cell(rows, rng):
    row, at = _place(rows, rng)
    del row[at : at + 1]


def _double_cell(rows, rng):
    row, at = _place(rows, rng)
    row[at:at] = row[at : at + 1]


def _drop_row(rows, rng):
    if len(rows) > 1:
        del rows[rng.randrange(len(rows))]


def _double_row(rows, rng):
    rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))


def _swap_cells(rows, rng):
    (first, at), (second, to) = _place(rows, rng), _place(rows, rng)
    if first and second:
        first[at], second[to] = second[to], first[at]


def _swap_columns(rows, rng):
    one, other = rng.randrange(len(rows[0]) or 1), rng.randrange(len(rows[0]) or 1)
    for row in rows:
        if len(row) > max(one, other):
            row[one], row[other] = row[other], row[one]


def _column(rows, rng):
    at, words = rng.randrange(len(rows[0]) or 1), rng.choices(CELLS, k=rng.choice((1, 2, 30)))
    for row in rows[1:]:
        if len(row) > at:
            row[at] = rng.choice(words)


def _drop_column(rows, rng):
    at = rng.randrange(len(rows[0]) or 1)
    for row in rows:
        del row[at : at + 1]


def _comment(rows, rng):
    rows.insert(rng.choice((0, rng.randrange(len(rows) + 1))), [rng.choice(("# made by a tool", "", "sep=;", "id"))])


def _cut(data, rng):
    return data[: rng.randrange(len(data) + 1)]


def _insert(data, rng):
    at = rng.choice((0, rng.randrange(len(data) + 1)))
    return data[:at] + rng.choice(BYTES) + data[at:]


def _delete(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randint(1, 4) :]


def _flip(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


_OF_CELLS = (_put, _put, _put, _put, _swap_cells, _swap_columns, _column, _column, _column)
_OF_FORM = (_quote, _drop_cell, _double_cell, _drop_row, _double_row, _drop_column, _comment)
_OF_BYTES = (_cut, _insert, _insert, _delete, _flip)


def one(seed: int, folder: Path) -> tuple[str, str]:
    """Read one pair of mutated tables; return what came (a graph, an error of ours, or a fault) and what was said."""
    rng = random.Random(seed)
    chosen = rng.choice(((0,), (0,), (1,), (0, 1)))
    tables = [mutated(rows, rng) if at in chosen else _plain(rows) for at, rows in enumerate(sound(rng))]
    paths = [folder / name for name in ("nodes.csv", "edges.csv")]
    for path, data in zip(paths, tables, strict=True):
        path.write_bytes(data)
    way, schema = rng.choice(WAYS), rng.choice(SCHEMAS)
    try:
        came, said = _command(paths, way, rng) if seed % 8 == 0 else _reader(paths, way, schema)
    except Exception:
        return "fault", traceback.format_exc()
    return ("told" if any(word in said for word in MARKED if _private(word, tables)) else came), said


def _reader(paths, way, schema):
    with warnings.catch_warnings(record=True, action="always") as told:
        try:
            repr(read_csv(*paths, **way, schema=schema))
            came, said = "graph", ""
        except InputError as error:
            came, said = "error", str(error)
    stray = [str(one.message) for one in told if not issubclass(one.category, SfumatoWarning)]
    assert not stray, stray
    return came, " ".join([said, *(str(one.message) for one in told)])


def _command(paths, way, rng):
    out, err = io.StringIO(), io.StringIO()
    named = [f"--{name}={path}" for name, path in zip(("nodes", "edges"), paths, strict=True)]
    named += (
        [f"--label={name}" for name in ([way["label"]] if isinstance(way["label"], str) else way["label"])]
        if "label" in way
        else []
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(["data", "import", *named, "--out", f"{folder}/store"])
    assert code in (0, 2), f"exit code {code}: {err.getvalue()}"
    return ("graph", "error")[code // 2], out.getvalue() + err.getvalue()


def _private(word: str, tables: list[bytes]) -> bool:
    """Whether a word stands in no header and is no id: these are public, also where a mutation moved it there."""
    texts = [data.replace(b"\x00", b"").decode("utf-8", "replace").lstrip("\ufeff").splitlines() for data in tables]
    heads = [line for lines in texts for line in lines[:2]]
    return not any(word in head for head in heads) and not any(
        word in cell
        for line in texts[0]
        for cell in (line.replace(";", ",").replace("\t", ",").replace("|", ",").split(",")[:1])
    )


def run(count: int, seed: int = 0) -> tuple[Counter, list[tuple[int, str, str]]]:
    """Read so many mutated tables; return what came, and the faults with their seeds."""
    came, faults = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for at in range(seed, seed + count):
            what, said = one(at, Path(folder))
            came[what] += 1
            if what in ("fault", "told"):
                faults.append((at, what, said))
    return came, faults


if __name__ == "__main__":
    result, found = run(*map(int, sys.argv[1:]))
    for place, what, said in found[:40]:
        print(f"seed {place}: {what}: {said[-600:]}\n")
    print(dict(result))
    sys.exit(bool(found))
