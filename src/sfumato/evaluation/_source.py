"""Where a graph comes from: a named data set, a store, or tables on disk."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._files import write_json
from sfumato._validate import fail, nearest
from sfumato.errors import DataError, InputError
from sfumato.scoring._groups import MISSING, Groups, many

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.tables._cells import Told
    from sfumato.text._documents import Report

_LARGEST_SIDE = 1024
_OF_TABLES = ("label", "schema", "text", "text_features", "drop", "id_column")


@dataclass(frozen=True)
class Source:
    """A graph on disk. It is kept in `evaluation/source.json`, so that a run can find it again."""

    dataset: str | None = None
    data_dir: str | None = None
    nodes: str | None = None
    edges: str | None = None
    label: str | list[str] | None = None
    schema: str | None = None
    directed: bool | None = None  # None if the data set or the schema says it
    min_class_size: int | None = None
    split: str = "75/10/15"  # percentages of training, validation and test nodes, or public
    text: tuple[str, ...] = ()
    text_features: str | None = None  # names the encoder of texts
    image_size: str | None = None  # WIDTHxHEIGHT; None keeps the size of files
    graph: str | None = None  # the folder of a store
    labeled: bool = False  # nodes without a label get no role, which is sound only where labels are public
    edge_weight: str | None = None
    max_weight: float | None = None  # the public bound of weights; None takes the word of the schema
    edge_type: str | None = None
    edge_types: tuple[str, ...] = ()  # all of them, public; none takes the word of the schema
    public_types: tuple[str, ...] = ()  # those whose edges are no secret
    drop: tuple[str, ...] = ()  # beside what the schema drops
    id_column: str | None = None  # as a run remembers it
    ends: tuple[str, str] | None = None  # columns of the two ends, as a run remembers them
    window: str | None = None  # COLUMN=WINDOW: the edges of one window of time alone
    split_by_time: str | None = None  # COLUMN:DATE: the edges before this day alone; those from it on are scored
    recency: str | None = None  # COLUMN:HALFLIFE@DATE: edges weigh less with age
    person: str | None = None  # the column that names the owner of a row, of edges or of nodes
    edges_per_person: int | None = None  # the public bound of the edges of each
    nodes_per_person: int | None = None  # or of the nodes of each
    edges_of: tuple[str, ...] = ()  # TYPE=FILE: a table of edges for each type, in place of `edges`
    features: bool = True  # whether columns of the node table are read as features

    @property
    def named(self) -> bool:
        return self.dataset is not None

    @property
    def place(self) -> str:
        """The name of the data set, or the path of the store or of the node table."""
        return self.dataset or self.graph or str(self.nodes)

    @property
    def tables(self) -> str:
        """The two tables, as a command line names them."""
        return shlex.join([self.nodes, self.edges]) if self.nodes and self.edges else "NODES EDGES"

    @property
    def several(self) -> dict[str, str]:
        """The files of edges by their types, where each has one of its own."""
        from sfumato.tables._several import edge_files

        return edge_files(self.edges_of) if self.edges_of else {}

    def check(self, *, labeled: bool = True) -> Source:
        """Refuse a source that names several kinds, none, or half of one."""
        kinds = sum((self.named, self.graph is not None, bool(self.nodes or self.edges or self.edges_of)))
        if kinds != 1:
            raise InputError(
                "Expected either `dataset`, `graph`, or `nodes`, `edges` and `label`, got "
                + ("both." if kinds else "neither. For a first try take the data set campus.")
            )
        if self.graph is not None:
            self._check_store()
        tables = not self.named and self.graph is None
        if self.edges_of and (self.edges is not None or not tables):
            raise InputError("Expected `edges_of` with `nodes` only, in place of `edges`. Drop one of them.")
        for option in (
            "nodes",
            *(() if self.several else ("edges",)),
            *(("label",) if labeled and self._declared_label() is None else ()),
        ):
            if tables and getattr(self, option) is None:
                raise InputError(f"Expected `{option}` beside `nodes` and `edges`, got none. Name the {option}.")
        for refused, told in (
            (self.named and (self.edge_weight is not None or self.max_weight is not None),
             "Expected `edge_weight` and `max_weight` with `nodes` and `edges` only. Drop them."),
            (self.named and (self.edge_type or self.edge_types or self.public_types),
             "Expected `edge_type`, `edge_types` and `public_types` with `nodes` and `edges` only. Drop them."),
            (self.named and self.window is not None,
             "Expected `window` with `nodes` and `edges` only: a named data set has no times. Drop it."),
            (self.named and (self.split_by_time or self.recency) is not None,
             "Expected `split_by_time` and `recency` with `nodes` and `edges` only: a named data set has no times. Drop them."),
            (self.named and (self.person, self.edges_per_person, self.nodes_per_person) != (None, None, None),
             "Expected `person`, `edges_per_person` and `nodes_per_person` with `nodes` and `edges` only: nobody owns rows of a "
             "named data set. Drop them."),
            (self.named and self.drop,
             "Expected `drop` with `nodes` and `edges` only; a named data set has its own columns."),
            (tables and self.min_class_size is not None,
             "Expected `min_class_size` with `dataset` only. Filter your own tables before reading them."),
            (self.named and (self.label or self.schema),
             "Expected `label` and `schema` with `nodes` and `edges` only; a named data set has its own."),
            (self.named and self.text,
             "Expected `text` with `nodes` and `edges` only; a named data set knows its documents. Drop it."),
            (len(set(self.text)) < len(self.text),
             "Expected `text` to name each column once, got one twice. Drop the second."),
            (tables and bool(self.text) != (self.text_features is not None),
             "Expected `text` and `text_features` together, got one of them. Name both, such as abstract and hashing."),
        ):  # fmt: skip
            if refused:
                raise InputError(told)
        if self.text_features is not None:
            from sfumato.text._encoders import encoder_named

            encoder_named(self.text_features)
        if self.image_size is not None and not self.named:
            raise InputError("Expected `image_size` with `dataset` only: tables hold no images. Drop it.")
        self.pixels()
        if self.split != "public":
            from sfumato.graph._splits import parse_fractions

            parse_fractions(self.split)
        return self

    def _declared_label(self) -> str | tuple[str, ...] | None:
        from sfumato.graph._schema import Schema

        return None if self.schema is None else Schema.read(self.schema).label

    def _check_store(self) -> None:
        edges = (
            "edge_weight",
            "max_weight",
            "edge_type",
            "edge_types",
            "public_types",
            "window",
            "split_by_time",
            "recency",
            "edges_of",
            "person",
            "edges_per_person",
            "nodes_per_person",
        )
        fixed = (*_OF_TABLES[:4], "min_class_size", "image_size", *edges, "drop")
        option = next((name for name in fixed if getattr(self, name)), None)
        if option is not None:
            raise InputError(
                f"Expected no `{option}` with `graph`, a store that is read already. Give it to `sfumato data import`, if that "
                "takes it, or drop it."
            )

    def pixels(self) -> tuple[int, int] | None:
        """Return height and width that images are scaled to, or None."""
        if self.image_size is None:
            return None
        found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", self.image_size)
        if found is None:
            raise fail("image_size", self.image_size, "to be WIDTHxHEIGHT in pixels, such as 60x70")
        height, width = int(found[2]), int(found[1])
        if max(height, width) > _LARGEST_SIDE:
            raise fail("image_size", self.image_size, f"to be at most {_LARGEST_SIDE} pixels each way")
        return height, width

    def load(self, report: Report | None = None, told: Told | None = None) -> Graph:
        """Read the graph. Roles are not drawn yet, unless the data set or a role column has them.

        ``report`` is told how far texts are encoded, and ``told`` what the columns of tables were taken for.
        """
        if self.dataset is not None:
            from sfumato.datasets._loading import load_dataset

            split = "public" if self.split == "public" else None
            graph = load_dataset(
                self.dataset, self.data_dir, min_class_size=self.min_class_size, split=split,
                text_features=self.text_features, image_size=self.pixels(), report=report,
            )  # fmt: skip
            return self._as_declared(graph, f"Data set {self.dataset!r}")
        if self.graph is not None:
            from sfumato.graph._graph import Graph

            return self._as_declared(Graph.load(self.graph), f"Graph {self.graph!r}")
        from sfumato.tables._io import read_csv, read_parquet

        kinds = {
            Path(str(path)).suffix.lower() in (".parquet", ".pq")
            for path in (self.nodes, *(self.several.values() or [self.edges]))
        }
        if len(kinds) > 1:
            raise InputError("Expected `nodes` and `edges` of one kind, got CSV and Parquet. Convert one of them.")
        read = read_parquet if kinds.pop() else read_csv
        schema = self.schema if self.features else self._of_groups()
        return read(
            str(self.nodes), self.several or str(self.edges), label=self.label, schema=schema, directed=self.directed,
            text=self.text, text_features=self.text_features, report=report, edge_weight=self.edge_weight,
            max_weight=self.max_weight, drop=self.drop, told=told, window=self.window,
            edge_type=self.edge_type, edge_types=self.edge_types or None, public_types=self.public_types,
            person=self.person, edges_per_person=self.edges_per_person, nodes_per_person=self.nodes_per_person,
            features=None if self.features else (), split_by_time=self.split_by_time,
            recency=self.recency, **self._by_name(),
        )  # fmt: skip

    def _of_groups(self) -> Any:
        """The schema without features, whose label is the column of groups: one of its columns of categories may be it."""
        from sfumato.graph._schema import Column, Schema

        schema = Schema.read(self.schema)
        bare: dict[str, Any] = {"columns": {}, "num_features": None, "role": None, "target": None, "target_range": None}
        if self.label is not None and self.label != schema.label:
            column = schema.columns.get(str(self.label), Column())
            bare |= {"label": None, "classes": column.categories, "classes_from_data": column.from_data}
        elif schema.target is not None or schema.label is None or isinstance(schema.label, tuple):  # no classes
            bare |= {"label": None, "classes": None, "classes_from_data": False}
        return replace(schema, **bare)

    def _by_name(self) -> dict[str, Any]:
        """The columns of ids and ends that a run remembers, as arguments of readers; a schema that is named goes first."""
        from sfumato.graph._schema import Schema

        source, target = self.ends or (None, None)
        own = None if Schema.read(self.schema).id else self.id_column
        return {"id_column": own, "source": source, "target": target}

    def _remembered(self) -> dict[str, Any]:
        """The columns of ids and ends by which the tables were read, for whoever reads others later."""
        from sfumato.errors import SfumatoError
        from sfumato.tables._io import special_columns

        if self.nodes is None or self.edges is None or self.ends is not None:
            return {}
        weight: dict[str, Any] = {"edge_weight": self.edge_weight, "max_weight": self.max_weight, "window": self.window}
        owned = ("person", "edges_per_person", "nodes_per_person", "split_by_time")
        weight |= {name: getattr(self, name) for name in owned}
        weight |= {
            "edge_type": self.edge_type,
            "edge_types": self.edge_types or None,
            "public_types": self.public_types,
            "recency": self.recency,
        }
        try:
            own, *ends = special_columns(self.nodes, self.edges, schema=self.schema, drop=self.drop, **weight)
        except (SfumatoError, OSError):  # a run is kept, whatever became of its tables
            return {}
        return {"id_column": own, "ends": ends}

    def _fading(self) -> dict[str, Any]:
        """How weights fade, with the day from which ages are counted."""
        from sfumato.tables._reading import Reading

        reading = Reading(recency=self.recency, window=self.window, split_by_time=self.split_by_time)
        return {"recency": str(reading.fading)} if self.recency else {}

    def _as_declared(self, graph: Graph, name: str) -> Graph:
        if self.directed is not None and self.directed != graph.directed:
            found = "directed" if graph.directed else "undirected"
            raise DataError(f"{name} is {found}, which contradicts what was declared. Drop `directed`.")
        return graph

    def of_new_nodes(self) -> dict[str, Any]:
        """Return how the table of nodes that arrive is read: arguments of `sfumato.tables._newcomers.read_new_nodes`."""
        return {name: getattr(self, name) for name in _OF_TABLES}

    def with_roles(self, graph: Graph, seed: int) -> Graph:
        """Give the graph the roles of one seed; declared roles stay."""
        if graph.roles is not None:
            return graph
        if self.split == "public":
            raise InputError(f"Expected `split` A/B/C: {graph.name!r} has no public split. Try 75/10/15.")
        from sfumato.graph._splits import parse_fractions

        return graph.with_split(parse_fractions(self.split), seed=seed, labeled=self.labeled)

    def with_roles_of(self, graph: Graph, fitted: Fitted) -> Graph:
        """Give the graph of a run its roles and the order of its classes again, whatever its order is now.

        Roles were drawn in the order of training, and answers are numbers of the classes of training.
        """
        from sfumato.method._identity import in_classes

        graph = in_classes(graph, fitted.graph_key.classes)
        known = fitted.graph_key.identity
        rows = known.rows(graph) if known is not None and graph.roles is None else None
        if known is None or rows is None:
            return self.with_roles(graph, 0)
        drawn = self.with_roles(known.ordered(graph), 0).roles
        assert drawn is not None
        roles = drawn.copy()
        roles[rows] = drawn
        return graph.with_roles(roles)

    def write(self, run: Path) -> None:
        """Record the source under `evaluation/`, with absolute paths."""
        paths = ("data_dir", "nodes", "edges", "schema", "graph")
        absolute: dict[str, Any] = {
            name: str(Path(getattr(self, name)).resolve()) for name in paths if getattr(self, name)
        }
        if self.text_features is not None:
            from sfumato.text._encoders import absolute as whole

            absolute["text_features"] = whole(self.text_features)
        if self.edges_of:
            absolute["edges_of"] = [f"{name}={Path(path).resolve()}" for name, path in self.several.items()]
        if self.dataset is not None and Path(self.dataset).is_dir():
            absolute["dataset"] = str(Path(self.dataset).resolve())
        values = {**asdict(self), **absolute, **self._remembered(), **self._fading()}
        write_json(run / "evaluation" / "source.json", values)

    @staticmethod
    def write_ledger(run: Path, ledger: Path) -> None:
        """Write under `evaluation/` which ledger of the data set a run was charged to."""
        write_json(run / "evaluation" / "ledger.json", {"path": str(ledger.resolve())})

    @staticmethod
    def ledger_of(run: Path) -> str | None:
        """Return the ledger that a run was charged to; None if nothing says so."""
        try:
            path: str = json.loads((run / "evaluation" / "ledger.json").read_text())["path"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return path

    @classmethod
    def of_run(cls, run: Path) -> Source:
        path = run / "evaluation" / "source.json"
        try:
            values = json.loads(path.read_text())
            lists = {
                name: tuple(values.get(name, ())) for name in ("text", "drop", "edge_types", "public_types", "edges_of")
            }
            return cls(**{**values, **lists, "ends": tuple(values["ends"]) if values.get("ends") else None})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InputError(
                f"Expected {str(path)!r} to say where the graph is, but it cannot be read. A run that was saved from Python has "
                "none: score it with fitted.evaluate(graph), or predict with `dataset`, `graph` or `nodes`."
            ) from error


def groups_of(source: Source, graph: Graph, column: str) -> Groups:
    """Read the groups of the nodes of a graph, as :meth:`~sfumato.scoring._groups.Groups.of` makes them."""
    if graph.targets is not None:
        raise fail(
            "by", column, "to come with classes", "Targets that are no classes are not scored by group. Drop it."
        )
    if source.nodes is None:
        return _of_features(graph, column)
    from sfumato.tables._cells import numbers, words
    from sfumato.tables._io import read_column

    cells = read_column(source.nodes, column)
    values = numbers(cells)
    if values is not None and many(values):
        return Groups.of(column, values)
    return Groups.of(column, words(column, cells).to_pylist())


def _of_features(graph: Graph, column: str) -> Groups:
    names = [str(name) for name in graph.feature_names]
    parts = {name.removeprefix(f"{column}="): at for at, name in enumerate(names) if name.startswith(f"{column}=")}
    if column in names:
        return Groups.of(column, _dense(graph, [names.index(column)])[:, 0].astype(np.float64))
    if parts:
        rows = _dense(graph, list(parts.values()))
        told = np.array([*parts, MISSING], object)
        return Groups.of(column, told[np.where(rows.any(axis=1), rows.argmax(axis=1), len(parts))])
    known = sorted({name.partition("=")[0] for name in names})
    hint = nearest(column, known) or f"It has {', '.join(known[:8]) or 'no named features'}."
    raise fail("by", column, f"to be a feature of {graph.name!r}", hint)


def _dense(graph: Graph, columns: list[int]) -> NDArray[np.floating]:
    rows = graph.x[:, columns]  # type: ignore[index]
    return np.asarray(rows.todense() if hasattr(rows, "todense") else rows)
