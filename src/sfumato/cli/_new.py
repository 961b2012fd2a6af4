"""`sfumato new`: from two tables to a schema and a command line, with questions for what no file can tell."""

from __future__ import annotations

import csv
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._numbers import hint
from sfumato._optional import check_installed
from sfumato._validate import check_choice
from sfumato.cli._asking import Questions
from sfumato.cli._describe import kept
from sfumato.cli._options import of
from sfumato.errors import InputError, TextWarning
from sfumato.evaluation._kept import write_page

if TYPE_CHECKING:
    from sfumato.cli._describe import Columns
    from sfumato.tables._outline import Outline

_ENDINGS = (".csv", ".tsv", ".parquet", ".pq", ".csv.gz")
_LABELS = ("label", "class", "target", "y", "category")
_UNIT = {True: "edge", False: "node"}
"""What is protected, by whether all columns of the node table are public."""


def new(
    nodes: Path | None = typer.Argument(None, metavar="[NODES]", help="The table of nodes (default: found here)."),
    edges: Path | None = typer.Argument(None, metavar="[EDGES]", help="The table of edges (default: found here)."),
    label: str | None = typer.Option(None, "--label", help="The column to learn (default: asked)."),
    drop: list[str] | None = of("drop"),
    schema: Path = typer.Option(Path("schema.toml"), "--write-schema", help="The new file for the schema."),
    yes: bool = typer.Option(
        False, "--yes", help="Ask nothing: columns and labels are public, single edges are protected, epsilon is 1."
    ),
) -> None:
    """Start with your own tables: answer a few questions, and get a schema and a command line.

    It finds the tables, reads them, and asks only what no file can tell: what to learn, what is protected, and how much. It
    trains nothing and spends nothing. The command line is all that it prints on standard output.
    """
    check_installed("duckdb", "pyarrow", "numba")
    if schema.exists():
        raise InputError(f"Expected --write-schema to be a new file, got {str(schema)!r}, which exists. Name another.")
    asked = Questions(yes)
    nodes, edges = _tables(asked, nodes, edges)
    seen = _read(nodes, edges, None, drop=tuple(drop or ()))
    _say(*seen.lines())
    if names := _names(seen):
        _say(f"Left out, since nearly every row has another text: {', '.join(names)}.")
    drop = [*(drop or ()), *names]
    rest = [one.name for one in seen.nodes if one.use == "feature" and one.name not in drop]
    learned = _label(asked, label, rest)
    facts: dict[str, Any] = {"directed": asked.whether("Have links a direction, as in 'follows'?", False)}
    features = [name for name in rest if name != learned]
    facts |= {"label": learned} if learned else {}
    public = _public(asked, learned, features)
    bound = () if public else _protected(asked, seen, facts, learned, features)
    epsilon = asked.ask("Privacy budget epsilon (smaller is more private)?", _epsilon, "1")
    facts["drop"] = drop = [*dict.fromkeys((*drop, *facts.pop("left", ())))]
    outline = _read(nodes, edges, facts, drop=())
    if learned and outline.graph.num_classes < 2:
        raise InputError(f"Expected a column of several classes, got {learned!r}, which holds one. Name another.")
    text = _schema_text(outline, facts, drop)
    words = _command(nodes, edges, schema, (_UNIT[public], *bound), epsilon, outline.graph.num_nodes, learned)
    write_page(schema, text)
    free = " Look first, at no cost: put `check` in place of `train`." if learned else ""
    _say("", _promise(public, learned), f"Wrote {schema}.{free}")
    typer.echo(shlex.join(words))


def _say(*lines: str) -> None:
    for line in lines:
        typer.echo(line, err=True)


def _tables(asked: Questions, nodes: Path | None, edges: Path | None) -> tuple[Path, Path]:
    """Both tables: those that are named, else the two of this folder of which one alone looks as edges do, else asked."""
    from sfumato.tables._columns import usual_ends, usual_id
    from sfumato.tables._tables import FileTable, existing

    found: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted(Path().iterdir()) if nodes is None or edges is None else ():
        if path.is_file() and path.name.lower().endswith(_ENDINGS):
            try:
                names = FileTable(path).column_names
            except InputError:
                continue
            found[usual_ends(names) is not None and usual_id(names) is None].append(path.name)

    def one(given: Path | None, what: str, ends: bool) -> Path:
        if given is None and len(found[ends]) != 1:
            return asked.ask(f"File of {what} ({', '.join(found[ends]) or 'CSV or Parquet'})?", existing)
        return existing(given or found[ends][0])

    return one(nodes, "nodes, one row each", False), one(edges, "edges, one row each", True)


def _read(nodes: Path, edges: Path, schema: dict[str, Any] | None, drop: Sequence[str]) -> Outline:
    """Read the tables: what each column is taken for, and the graph."""
    from sfumato.evaluation._source import Source
    from sfumato.tables._io import read_csv, read_parquet
    from sfumato.tables._outline import Outline
    from sfumato.tables._tables import is_parquet

    told: list[Columns] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        if schema is None:
            graph = (
                Source(nodes=str(nodes), edges=str(edges), drop=tuple(drop)).check(labeled=False).load(told=kept(told))
            )
        else:
            graph = (read_parquet if is_parquet(nodes) else read_csv)(nodes, edges, schema=schema, told=kept(told))
    return Outline(told, graph)


def _names(outline: Outline) -> list[str]:
    """The columns that hold nearly one text a node."""
    from sfumato.graph._unique import TEXTS

    facts = outline.graph.assumed_public
    return [fact.removeprefix(TEXTS) for fact in facts if fact.startswith(TEXTS)]


def _label(asked: Questions, label: str | None, names: Sequence[str]) -> str | None:
    """The column to learn, or None."""
    usual = next((name for name in names if name.lower() in _LABELS), "none")

    def read(answer: str) -> str | None:
        if answer == "none":
            return None
        check_choice((*names, "none"), **{"the column to learn": answer})
        return answer

    return asked.ask(f"Column to learn ({', '.join(names)}, or none)?", read, usual) if label is None else read(label)


def _public(asked: Questions, learned: str | None, features: Sequence[str]) -> bool:
    """Whether links alone are protected: without a label no other column is read."""
    if learned is None:
        return not asked.whether("Protect whole persons with all their links, and not only single links?", False)
    names = " and ".join(filter(None, (", ".join(features), learned)))
    question = f"May anybody know {names} of every node, so that the links alone are protected?"
    return asked.whether(question, True if asked.yes else None)


def _protected(
    asked: Questions, seen: Outline, facts: dict[str, Any], learned: str | None, features: Sequence[str]
) -> tuple[str, ...]:
    """Ask what is known of protected rows without the tables. The answer bounds the links of a person, in words of a command."""
    if not asked.whether("Is one row of the node table one person, with everything of them that is protected?"):
        raise InputError(
            "Expected one row a person, since a row is what is protected. Merge the rows of a person into one."
        )
    if learned is None:
        question = "Most links that any person can have, known without the tables, such as the limit of a platform?"
        return "--arcs", "incident", "--max-degree", str(asked.ask(question, _count))
    degree = asked.ask("How many links of one person count at most?", _count, "20")
    _say("What is protected cannot be read off the tables: say what is known without them.")
    kinds = {one.name: one.kind for one in seen.nodes}
    facts |= {"columns": {}, "left": []}
    for name in features:
        if kinds[name] == "boolean":
            continue
        number, leave = kinds[name] == "number", "Enter leaves the column out"
        what = (
            f"least and greatest value, such as 0, 100 ({leave})"
            if number
            else f"all values, with commas between ({leave})"
        )
        answer = asked.ask(f"{name}: {what}?", _range if number else _values)
        facts["columns"] |= {name: answer} if answer else {}
        facts["left"] += [] if answer else [name]
    facts["classes"] = asked.ask(f"{learned}: all classes, with commas between?", _classes)
    return "--max-degree", str(degree)


def _cells(answer: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([answer], skipinitialspace=True), []) if cell.strip()]


def _range(answer: str) -> dict[str, Any]:
    ends = [_number(cell) for cell in _cells(answer)]
    if len(ends) not in (0, 2) or ends != sorted(set(ends)):
        raise InputError("Expected the least and the greatest value with a comma between. Such as 0, 100.")
    return dict(zip(("min", "max"), ends, strict=False))


def _values(answer: str) -> dict[str, Any]:
    return {"categories": cells} if (cells := _cells(answer)) else {}


def _classes(answer: str) -> list[str]:
    if len(set(_cells(answer))) < 2:
        raise InputError("Expected two classes or more. Write all of them, with commas between.")
    return _cells(answer)


def _number(answer: str) -> float:
    try:
        return float(answer)
    except ValueError:
        raise InputError(f"Expected a number, got {answer!r}. {hint(answer)}".rstrip()) from None


def _count(answer: str) -> int:
    if not answer.isdecimal() or int(answer) < 1:
        raise InputError(f"Expected a whole number of at least 1, got {answer!r}. {hint(answer, whole=True)}".rstrip())
    return int(answer)


def _epsilon(answer: str) -> float:
    from sfumato.privacy.budget import Budget

    return Budget(_number(answer), 0.0).epsilon


def _schema_text(outline: Outline, facts: dict[str, Any], drop: Sequence[str]) -> str:
    from sfumato.graph._schema import Schema
    from sfumato.tables._outline import schema_text

    return schema_text(outline, Schema.read(facts), None, drop=drop)


def _promise(public: bool, learned: str | None) -> str:
    if public:
        return f"Protected: any single link. Public: who is in the table{', and its columns' if learned else ''}."
    links = "the links that start there" if learned else "all links"
    return f"Protected: any one person, with all columns and {links}. Public: who is in the table."


def _command(
    nodes: Path, edges: Path, schema: Path, unit: Sequence[str], epsilon: float, size: int, label: str | None
) -> list[str]:
    """The words of a command line that reads the tables so; delta is far below one in the number of nodes, which is public."""
    delta = f"1e-{max(6, len(str(size)) + 2)}"
    out = next(path for n in range(1, 1000) if not (path := Path("runs", f"run-{n}")).exists())
    begin = ["sfumato", *(("train", "auto") if label else ("describe",))]
    tables = ["--nodes", str(nodes), "--edges", str(edges), "--schema", str(schema)]
    return [*begin, *tables, "--unit", *unit, "--epsilon", f"{epsilon:.12g}", "--delta", delta, "--out", str(out)]
