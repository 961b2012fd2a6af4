"""What two tables were read as: a line for each column, who may know it, and a schema to start from.

Names and kinds of columns are public, as the names of features are. How many cells are missing is a fact about values: a line
holds it only where these are public.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.graph._dropped import nearly_all
from sfumato.graph._unique import LEAST_NODES, RARE, RARE_CLASSES, TEXTS, why
from sfumato.tables._cells import CATEGORY, NUMBER, TRUTH, ReadColumn

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.graph._schema import Schema

PARTS = {
    "id": "node_ids", "label": "labels", "role": "roles", "feature": "features", "text": "features", "bound": "node_ids",
    "owner": "node_ids",
    "end": "arcs", "weight": "arcs", "type": "arcs", "time": "arcs",
}  # fmt: skip
"""The part of the data that a column of each use belongs to, as units name what is public. Bounds of degrees are declared so."""
_HEAD = (
    "# A schema to start from, written by Sfumato: what anybody may know of the tables without seeing them.",
    "# Remove the # before what is known from elsewhere, and fill it in. A value that is read off protected data is not public.",
)
_FROM_DATA = (
    "# The classes and categories marked from_data were read off this data, as asked (--from-data): where labels or features are",
    "# protected, certificates list them as assumed public. Remove a mark where all values are known without the data.",
    f"# Ranges read off the data, and words of fewer than {LEAST_NODES} nodes, stand behind a #: they may be one person's.",
)


@dataclass(frozen=True)
class Outline:
    """What a node table and edge tables were read as: the place and the columns of each, the node table first."""

    tables: Sequence[tuple[str, Sequence[ReadColumn]]]
    graph: Graph

    @property
    def nodes(self) -> Sequence[ReadColumn]:
        return self.tables[0][1]

    def lines(self, public: Iterable[str] | None = None) -> Iterator[str]:
        known = None if public is None else {*public}
        edges = "" if known is not None and "arcs" not in known else f": {self.graph.num_edges:,} edges"
        rows = [f": {self.graph.num_nodes:,} nodes", edges if len(self.tables) == 2 else ""]
        for at, (place, columns) in enumerate(self.tables):
            yield f"{place}{rows[min(at, 1)]}"
            for column in columns:
                counted = known is None or PARTS.get(column.use) in known
                noted = self._noted(column) if counted else ""
                yield f"  {line(column, self.graph.num_nodes if counted else None)}{noted and f', {noted}'}"

    def _noted(self, column: ReadColumn) -> str:
        if column.use not in ("label", "feature"):
            return ""
        if nearly_all(self.graph.outside.get(column.name, 0), self.graph.num_nodes - column.missing):
            return "nearly all cells beyond the schema"
        named = None if column.use == "label" else column.name
        return why(self.graph.assumed_public, named)

    def to_dict(self) -> dict[str, Any]:
        return {
            "tables": [{"file": place, "columns": [vars(one) for one in columns]} for place, columns in self.tables]
        }

    def of(self, parts: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the columns that belong to parts of the data, by part, also where there is none."""
        columns = [column for _, columns in self.tables for column in columns]
        return {part: [one.name for one in columns if PARTS.get(one.use) == part] for part in parts}


def line(column: ReadColumn, num_rows: int | None = None) -> str:
    """Return one line about a column; with ``num_rows``, it says which share of its cells is missing.

    >>> line(ReadColumn("income", "feature", "number", missing=12), 300)
    'income: number, 4 % missing'
    >>> line(ReadColumn("year", "label", "category", 3, missing=12)), line(ReadColumn("note", "left out"))
    ('year: label, 3 classes', 'note: left out')
    """
    one, several = {"feature": ("category", "categories"), "label": ("class", "classes")}.get(column.use, ("", ""))
    kind = f"{column.count} {one if column.count == 1 else several}" if one and column.kind == CATEGORY else column.kind
    if column.use == "label" and column.kind == TRUTH:
        kind = "yes or no"
    words = {"feature": [kind], "label": ["label", kind]}.get(column.use, [column.use])
    if column.declared and column.use in ("feature", "label"):
        words.append("declared")
    if num_rows and column.missing:
        words.append(f"{_percent(column.missing / num_rows)} missing")
    return f"{column.name or '(no name)'}: {', '.join(filter(None, words))}"


def _percent(share: float) -> str:
    percent = 100 * share
    return "less than 1 %" if percent < 1 else "more than 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def schema_text(
    outline: Outline,
    declared: Schema,
    weight: tuple[str, float] | None,
    types: tuple[str, tuple[str, ...], tuple[str, ...]] | None = None,
    *,
    drop: Sequence[str] = (),
    from_data: bool = False,
    numbers: Callable[[str], np.ndarray | None] | None = None,
) -> str:
    """Return a schema to start from, which :meth:`Schema.read` takes and the same tables fit: no value of the data is in it."""
    by_use = {use: [column.name for column in outline.nodes if column.use == use] for use in PARTS}
    lines = [*_HEAD, *(_FROM_DATA if from_data else ()), "", f"directed = {json.dumps(outline.graph.directed)}"]
    lines += [f"id = {_string(name)}" for name in by_use["id"]]
    labels = [column for column in outline.nodes if column.use == "label"]
    if labels:
        names = by_use["label"]
        lines += [
            f"label = {_string(names[0]) if len(names) == 1 else _array(names)}",
            *_target(labels[0], outline.graph, declared, from_data),
        ]
    lines += [f"role = {_string(name)}" for name in by_use["role"]]
    lines += [f"degree_column = {_string(name)}" for name in by_use["bound"]]
    lines += [
        f"{key} = {getattr(declared, key)!r}"
        for key in ("num_features", "max_degree", "mean_degree")
        if getattr(declared, key) is not None
    ]
    left = dict.fromkeys((*declared.drop, *drop))
    lines += [f"drop = {_array(left)}" if left else '# drop = ["..."]  # columns to leave out']
    at = 0
    for column in outline.nodes:
        if column.use == "feature":
            made = outline.graph.feature_names[at : at + (1 if column.count is None else column.count)]
            values = [name[len(column.name) + 1 :] for name in made]
            noted = None if numbers is None or column.kind != NUMBER else numbers(column.name)
            lines += ["", *_feature(column, outline.graph, declared, from_data, values, noted)]
            at += len(made)
    if weight is not None:
        lines += ["", "[edges]", f"weight = {_string(weight[0])}", f"max = {weight[1]!r}"]
    if types is not None:
        lines += [
            "",
            "[edges]",
            f"type = {_string(types[0])}",
            f"types = {_array(types[1])}",
            f"public = {_array(types[2])}",
        ]
    return "\n".join(lines) + "\n"


def _target(label: ReadColumn, graph: Graph, declared: Schema, from_data: bool) -> list[str]:
    if label.kind == NUMBER:
        assert graph.targets is not None
        assert graph.targets.limits is not None
        if declared.target_range is None and not from_data:
            return ['target = "number"', "# target_range = [0, 100]"]
        unknown = "# " if declared.target_range is None else ""
        return ['target = "number"', f"{unknown}target_range = {[*graph.targets.limits]}"]
    if label.kind == TRUTH:
        return []
    if declared.classes is None and not from_data:
        return ['# classes = ["...", "..."]  # all of them']
    mark = ["classes_from_data = true"] * declared.assumes_classes
    return _behind([f"classes = {_array(graph.classes)}", *mark], RARE_CLASSES, graph)


def _behind(lines: list[str], fact: str, graph: Graph) -> list[str]:
    """The lines, behind a # if a word in them is that of few nodes: to remove it is to say that the words are known."""
    if fact not in graph.assumed_public:
        return lines
    return [f"# {lines[0]}  # holds words of fewer than {LEAST_NODES} nodes", *(f"# {line}" for line in lines[1:])]


def _feature(
    column: ReadColumn, graph: Graph, declared: Schema, from_data: bool, values: list[str], noted: np.ndarray | None
) -> list[str]:
    """The lines of a feature; ``values`` are its categories, and ``noted`` its numbers, if they are asked for."""
    head, own = f"[columns.{_string(column.name)}]", declared.columns.get(column.name)
    if column.kind == NUMBER:
        ends = {key: getattr(own, key, None) for key in ("min", "max")}
        if any(end is not None for end in ends.values()):
            return [head, *(f"{key} = {end!r}" for key, end in ends.items() if end is not None)]
        low, high = _range(noted) if from_data and noted is not None else (0, 100)
        return [head, f"# min = {low!r}", f"# max = {high!r}"]
    known = column.kind == TRUTH or (own is not None and not own.from_data)
    if TEXTS + column.name in graph.assumed_public:
        found = why(graph.assumed_public, column.name)
        return [f"# {head}  # {found}: leave it out, or declare what is known without this data"]
    if own is None and not known and not from_data:
        return [f"# {head}", '# categories = ["...", "..."]  # all of them']
    if not values:
        return [f"# {head}", "# categories = []  # every cell is missing"]
    lines = [head, f"categories = {_array(values)}", *["from_data = true"] * (not known)]
    return _behind(lines, f"{RARE}{column.name}", graph)


def _range(numbers: np.ndarray) -> tuple[float, float]:
    """The least and the largest number that is there; where they are one, a range around it."""
    there = numbers[np.isfinite(numbers)]
    if not len(there):
        return 0.0, 100.0
    low, high = float(there.min()), float(there.max())
    return (low, high) if low < high else (low - 1, high + 1)


def _array(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(_string, values)) + "]"


def _string(text: str) -> str:
    """A basic string of TOML, which is one of JSON but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
