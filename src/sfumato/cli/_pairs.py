"""What `sfumato predict` writes beside classes: scores of pairs of nodes, and embeddings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

from sfumato._encoding import decoded
from sfumato._files import whole_file
from sfumato._validate import check_int, fail
from sfumato.cli._output import free_file, stage_bars
from sfumato.errors import DataError, InputError

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Progress


@dataclass(frozen=True)
class Rows:
    """Other answers are asked for instead of classes, at most one: pairs, the best of each node, released rows, a reason."""

    pairs: Path | None
    top: int | None
    embeddings: Path | None
    explain: str | None = None
    viewer: str | None = None
    linked: Path | None = None
    within: str | None = None
    among: int | None = None

    @property
    def asked(self) -> int:
        """How many of them are asked for."""
        return sum(value is not None for value in (self.pairs, self.top, self.embeddings, self.explain))

    def check(self) -> None:
        """Refuse options that shape lists where no lists are asked for, and links without a viewer."""
        shapes = {"--for": self.viewer, "--linked": self.linked, "--within": self.within, "--among": self.among}
        idle = [name for name, value in shapes.items() if value is not None]
        if idle and self.top is None:
            raise InputError(f"Expected {idle[0]} with --top, got it alone. Say how long lists are, such as --top 10.")
        if self.linked is not None and (self.viewer is None or self.within is not None or self.among is not None):
            raise InputError(
                "Expected --linked with --for, and without --within and --among: one viewer knows the links, and all others are "
                "scored. Correct the options."
            )


def answer_rows(
    run: Path, fitted: Fitted, graph: Graph, rows: Rows, out: Path | None, *, force: bool, as_json: bool
) -> None:
    """Write scores of pairs or embeddings, and say who may see them."""
    if rows.asked > 1:
        raise InputError(
            "Expected one of --pairs, --top, --embeddings and --explain, got several. Run the command for each."
        )
    if rows.embeddings is not None:
        told = write_embeddings(fitted, graph, free_file(rows.embeddings, force))
        wrote = f"rows of {told['nodes']:,} nodes"
    else:
        file = free_file(out or run / "scores.csv", force)
        told = (
            write_best(fitted, graph, rows, file, quiet=as_json)
            if rows.pairs is None
            else write_scores(fitted, graph, rows.pairs, file)
        )
        wrote = f"scores of {told['pairs']:,} pairs"
    seen = (
        "Anyone who may know every link may see them." if "arcs" in fitted.plan.unit.public else "Anyone may see them."
    )
    seen = "This run has no privacy: they must stay." if fitted.plan.epsilon is None else seen
    seen = seen if rows.linked is None else f"What was left out tells links: the list is for {rows.viewer} alone."
    if "share_found" in told:
        seen += f" Of the best others of 100 nodes, or fewer, {100 * told['share_found']:.1f} % are in their lists."
    typer.echo(json.dumps(told) if as_json else f"Wrote {wrote} to {told['out']}. This spent nothing. {seen}")


def write_best(fitted: Fitted, graph: Graph, rows: Rows, out: Path, *, quiet: bool) -> dict[str, Any]:
    """Write the best-scored others of each node while they are found, and return what was written."""
    assert rows.top is not None
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    nodes = None if rows.viewer is None else _places(graph, [rows.viewer], "--for")
    if nodes is not None and rows.linked is not None:
        _, named = _read(rows.linked, 1)
        known = _places(graph, [line[0] for line in named], repr(str(rows.linked)))
        mine = fitted.list_for(graph, int(nodes[0]), known, check_int(low=1, top=rows.top))
        own = ((ids[nodes[0]], ids[at], f"{score:.6f}") for at, score in zip(mine.pairs[1], mine.scores, strict=True))
        write_lines(out, ("node", "other", "score"), own)
        return {"out": str(out), "pairs": len(mine.scores), "epsilon_spent": 0.0}
    found, count = fitted.suggestions(graph, rows.top, nodes=nodes, within=rows.within, among=rows.among), 0

    def lines_of(report: Progress | None) -> Iterator[tuple[Any, Any, str]]:
        nonlocal count
        done = 0
        for block in found:
            count, done = count + len(block.scores), done + block.num_nodes
            named, scores = ids[block.pairs].tolist(), block.scores.tolist()
            yield from zip(*named, map("{:.6f}".format, scores), strict=True)
            if report is not None:
                report("lists of nodes", done, len(found.nodes))

    with stage_bars(quiet) as report:
        write_lines(out, ("node", "other", "score"), lines_of(report))
    share = found.share_found
    told = {"out": str(out), "pairs": count, "epsilon_spent": 0.0}
    return told if share is None else {**told, "share_found": share}


def write_scores(fitted: Fitted, graph: Graph, pairs: Path, out: Path) -> dict[str, Any]:
    """Write the score of each pair of a table, in its order, and return what was written."""
    header, lines = _read(pairs)
    scores = fitted.score_pairs(graph, _rows(graph, pairs, header, lines))
    write_lines(out, (*header, "score"), ((*ids, f"{score:.6f}") for ids, score in zip(lines, scores, strict=True)))
    return {"out": str(out), "pairs": len(lines), "epsilon_spent": 0.0}


def write_embeddings(fitted: Fitted, graph: Graph, out: Path) -> dict[str, Any]:
    """Write a line for each node, its id and its released row, and return what was written."""
    rows = fitted.embeddings(graph)
    lines = ((node, *(f"{value:.6g}" for value in row)) for node, row in zip(_ids(graph), rows, strict=True))
    write_lines(out, ("node", *(f"e{column}" for column in range(rows.shape[1]))), lines)
    return {"out": str(out), "nodes": len(rows), "columns": rows.shape[1], "epsilon_spent": 0.0}


def _ids(graph: Graph) -> list[Any]:
    return list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()


def _read(path: Path, columns: int = 2) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    name, what = ("pairs", "two columns") if columns == 2 else ("linked", "a column")
    if not path.is_file():
        raise fail(name, str(path), f"to be a CSV file with {what} of node ids", "Check the path.")
    try:
        table = [line for line in csv.reader(io.StringIO(decoded(path.read_bytes()), newline="")) if line]
    except UnicodeDecodeError:
        raise DataError(f"Expected {str(path)!r} to be UTF-8 text, got other bytes. Save it as UTF-8.") from None
    except csv.Error:
        raise DataError(
            f"Expected {str(path)!r} to be CSV, got a cell that is too long or not closed. Check its quotes."
        ) from None
    for number, line in enumerate(table, 1):
        if len(line) < columns:
            raise DataError(
                f"Expected two columns of node ids in {str(path)!r}, got one in line {number}. Add the other."
            )
    header, *lines = [tuple(cell.strip() for cell in line[:columns]) for line in table] or [("",) * columns]
    return header, lines


def _places(graph: Graph, ids: Sequence[str], where: str) -> NDArray[np.int64]:
    """The rows of nodes with these ids."""
    places = {str(node): row for row, node in enumerate(_ids(graph))}
    unknown = next((node for node in ids if node.strip() not in places), None)
    if unknown is not None:
        raise DataError(f"Expected node ids of the run in {where}, got {unknown!r}. Ids are those of the node table.")
    return np.array([places[node.strip()] for node in ids], np.int64)


def _rows(graph: Graph, path: Path, header: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    places = {str(node): row for row, node in enumerate(_ids(graph))}
    if {*header} <= places.keys():
        raise DataError(
            f"Expected the first line of {str(path)!r} to name the columns, got two node ids. Add a header."
        )
    for number, ids in enumerate(lines, 2):
        for node in ids:
            if node not in places:
                raise DataError(
                    f"Expected node ids of the run in {str(path)!r}, got {node!r} in line {number}. The first line is the "
                    "header; ids are those of the node table."
                )
    return np.array([[places[node] for node in ids] for ids in lines], np.int64).reshape(-1, 2).T


def write_lines(out: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file with these columns."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(lines)
        file.detach()  # its text is written; the file is still to be synced
