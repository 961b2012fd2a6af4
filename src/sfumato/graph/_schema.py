"""The public schema says what anybody may know of a table before seeing it.

It is read from a TOML file, such as

    directed = false
    id = "person"
    label = "year"
    classes = ["2004", "2005", "2006"]
    max_degree = 500            # promised: no node has more arcs
    degree_column = "friends"   # public: no node has more arcs than its number here
    drop = ["joined"]           # columns of either table that are left out

    [columns.dorm]
    categories = ["north", "south"]

    [columns.age]
    min = 0
    max = 120

    [edges]
    weight = "amount"           # a column of the edge table
    max = 100.0                 # larger weights are clipped to it

or, if there are several kinds of links,

    [edges]
    type = "kind"               # a column of the edge table
    types = ["friend", "school"]
    public = ["school"]         # edges of these types are no secret

or, if rows of the edge table have owners (beside weights or alone),

    [edges]
    person = "patient"          # a column of the edge table
    edges_per_person = 5        # no more edges of one person are read

What a schema does not declare is read off the data, and listed as assumed public; so are categories marked
``from_data = true`` and classes beside ``classes_from_data = true``, which somebody read off the data for the schema. What the
data says beyond the schema never changes it, and is not told: a number outside ``min`` and ``max`` is clipped, a category or
class that is not listed counts as missing. ``Graph.outside`` counts such values, for evaluation only. A missing number counts as
the middle of its range (:attr:`Column.default`), a missing category as none, and a row without any value as the empty record,
which is zero in every column.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from sfumato._encoding import decoded
from sfumato._validate import check_int, check_real, nearest
from sfumato.errors import SchemaError
from sfumato.graph._targets import check_limits
from sfumato.graph._types import check_type_names
from sfumato.graph._weights import check_bound

CATEGORIES = "categories of column "
"""How a fact begins that was read off a column; the column's name follows."""


@dataclass(frozen=True)
class Column:
    """A column declares what is public about one feature: its ``categories``, or its range from ``min`` to ``max``.

    Categories ``from_data`` were read off the data themselves: they count as assumed public, not as known without it.
    """

    categories: tuple[str, ...] | None = None
    min: float | None = None
    max: float | None = None
    from_data: bool = False

    def __post_init__(self) -> None:
        _check_from_data("from_data", self.from_data, "categories", self.categories)
        low, high = (_real(name, getattr(self, name)) for name in ("min", "max"))
        if self.categories is not None:
            if low is not None or high is not None:
                raise SchemaError("Expected a column to have categories or min and max, got both. Remove one of them.")
            object.__setattr__(self, "categories", _names("categories", self.categories))
        elif low is not None and high is not None and low > high:
            raise SchemaError(f"Expected min to be at most max, got min={low:g} and max={high:g}. Exchange them.")

    @property
    def default(self) -> float:
        """What a missing number counts as: the middle of the range, or with one end or none the allowed number nearest to 0.

        It is a function of the declaration alone: a mean or median would be a fact about protected data.
        """
        if self.min is not None and self.max is not None:
            return self.min + (self.max - self.min) / 2
        return float(self.clip(np.zeros(())))

    def clip(self, values: np.ndarray) -> np.ndarray:
        """Move numbers outside the range to its nearer end."""
        low, high = -np.inf if self.min is None else self.min, np.inf if self.max is None else self.max
        return np.clip(values, low, high)


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of the edge table that are read: ``weight``, with the public bound ``max`` that larger weights are clipped to.

    A bound is required. The largest weight of the data is a fact about one private edge. In place of weights ``type`` names a
    column of types, of which ``types`` lists all and ``public`` those that are no secret (:mod:`sfumato.graph._types`).
    ``person`` names a column of owners, of whom each keeps at most ``edges_per_person`` edges (:mod:`sfumato.graph._persons`).
    """

    weight: str | None = None
    max: float | None = None
    type: str | None = None
    types: tuple[str, ...] | None = None
    public: tuple[str, ...] = ()
    person: str | None = None
    edges_per_person: int | None = None

    def __post_init__(self) -> None:
        if self.person is not None or self.edges_per_person is not None:
            self._check_persons()
            if self.weight is None and self.max is None and self.type is None:
                return
        if self.type is not None or self.types is not None or self.public:
            self._check_types()
            return
        if not isinstance(self.weight, str) or self.max is None:
            raise SchemaError(
                "Expected [edges] to have weight, a column name, and max, the largest weight that may count, got one of them. "
                "Choose max without looking at the data: larger weights are clipped to it."
            )
        object.__setattr__(self, "weight", trimmed(self.weight))
        object.__setattr__(self, "max", check_bound(self.max))

    def _check_persons(self) -> None:
        if not isinstance(self.person, str) or type(self.edges_per_person) is not int or self.edges_per_person < 1:
            raise SchemaError(
                "Expected [edges] to have person, a column name, and edges_per_person, the most edges of one person that count, "
                "an integer of at least 1, got others. Choose the bound without looking at the data."
            )
        object.__setattr__(self, "person", trimmed(self.person))

    def _check_types(self) -> None:
        if not isinstance(self.type, str) or self.types is None or self.weight is not None or self.max is not None:
            raise SchemaError(
                "Expected [edges] to have type, a column name, and types, the list of all types, without weight and max, got "
                "others. A type that only the data tells would be a fact about private edges: list those that there may be."
            )
        names, public = check_type_names(
            *(_names(*one) if one[1] else () for one in (("types", self.types), ("public", self.public)))
        )
        for name, value in (("type", trimmed(self.type)), ("types", names), ("public", public)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Schema:
    """A schema declares public facts about a graph's tables before the data is read.

    ``label`` names one column of classes, or several columns of labels that a node has or has not. With ``target`` "number" it
    names a column of numbers, from the first to the second of ``target_range``.
    ``columns`` are feature columns; ``id``, ``label``, ``role`` and ``degree_column`` name special columns of the node table;
    ``num_features`` counts columns after one-hot encoding; ``max_degree`` bounds the out-arcs and in-arcs of every
    node, ``mean_degree`` is a public estimate; a graph refuses either above its number of nodes. ``edges`` declares the weights
    or types of edges, ``sides`` is the feature column that tells the two sides of a bipartite graph apart (or ``COLUMN=VALUE``,
    for whose nodes suggestions are made), and ``drop`` names columns that are left out. ``person`` is the column that says who
    owns a node, of whom at most ``nodes_per_person`` nodes are read (:mod:`sfumato.graph._owned`). Errors:
    :class:`~sfumato.errors.SchemaError` for an unknown key or a malformed value.

    Raises:
        SchemaError: a key is unknown, or a value is malformed.
        InputError: a number is out of range.

    ``directed`` declares the direction, and ``classes`` lists the values of the label. With ``classes_from_data`` they were read
    off the data themselves, and count as assumed public.

    >>> schema = Schema.from_dict({"classes": [2004, 2005], "columns": {"age": {"min": 0, "max": 120}}})
    >>> schema.classes, schema.columns["age"].max
    (('2004', '2005'), 120)
    """

    classes: tuple[str, ...] | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    id: str | None = None
    label: str | tuple[str, ...] | None = None
    role: str | None = None
    num_features: int | None = None
    max_degree: int | None = None
    mean_degree: float | None = None
    directed: bool | None = None
    degree_column: str | None = None
    target: str | None = None
    target_range: tuple[float, float] | None = None
    edges: EdgeColumns | None = None
    sides: str | None = None
    drop: tuple[str, ...] = ()
    person: str | None = None
    nodes_per_person: int | None = None
    classes_from_data: bool = False

    def __post_init__(self) -> None:
        for name in ("id", "label", "role", "degree_column", "drop", "person"):
            object.__setattr__(self, name, trimmed(getattr(self, name)))
        object.__setattr__(self, "columns", _trimmed_keys(self.columns))
        _check_from_data("classes_from_data", self.classes_from_data, "classes", self.classes)
        if self.classes is not None:
            object.__setattr__(self, "classes", _names("classes", self.classes))
        for name in ("id", "role", "degree_column", "person"):
            _expect(name, getattr(self, name), str, "a column name")
        self._check_target()
        _expect("directed", self.directed, bool, "true or false")
        _expect("sides", self.sides, str, "a column name, or COLUMN=VALUE")
        if (self.person is None) != (self.nodes_per_person is None):
            raise SchemaError(
                "Expected person, the column of the node table that says who owns a node, and nodes_per_person, the most nodes "
                "of one person that are read, got one of them. Owners of edges stand under [edges], with edges_per_person."
            )
        for name in ("num_features", "max_degree"):
            if getattr(self, name) is not None:
                check_int(low=0 if name == "num_features" else 1, **{name: getattr(self, name)})
        if self.mean_degree is not None:
            check_real(low=0, high=self.max_degree or np.inf, mean_degree=self.mean_degree)
        if self.nodes_per_person is not None:
            check_int(low=1, nodes_per_person=self.nodes_per_person)
        special = {*filter(None, (self.id, *label_columns(self.label), self.role, self.degree_column, self.person))}
        for name in special & set(self.columns):
            raise SchemaError(f"Expected columns to hold features only, got {name!r}. Remove [columns.{name}].")
        if self.drop:
            object.__setattr__(self, "drop", _names("drop", self.drop))
        for name in {*self.drop} & {*special, *self.columns}:
            raise SchemaError(
                f"Expected drop to name columns that nothing else names, got {name!r}. Remove one of the two."
            )

    def _check_target(self) -> None:
        if isinstance(self.label, list | tuple):
            object.__setattr__(self, "label", _names("label", self.label))
        else:
            _expect("label", self.label, str, "a column name, or a list of them")
        if self.target not in (None, "number"):
            raise SchemaError(
                f'Expected target to be "number", got {self.target!r}. Leave it out for classes and labels.'
            )
        if (self.target or len(label_columns(self.label)) > 1) and self.classes:
            raise SchemaError("Expected classes for one column of classes, got another target. Remove classes.")
        if self.target_range is not None:
            if self.target is None or not isinstance(self.target_range, list | tuple):
                raise SchemaError(
                    'Expected target_range to be [least, largest] beside target = "number". Correct the schema.'
                )
            object.__setattr__(self, "target_range", check_limits(self.target_range))

    @property
    def assumes_classes(self) -> bool:
        """Whether the classes are read off the data, by a reader or by whoever wrote the schema."""
        return self.classes is None or self.classes_from_data

    def fixes(self, columns: Iterable[str]) -> bool:
        """Return whether the schema alone fixes how many columns these become once encoded.

        >>> Schema.from_dict({"columns": {"age": {"max": 120}}}).fixes(["age"])
        True
        """
        known = {name for name, column in self.columns.items() if not column.from_data}
        return self.num_features is not None or {*columns} <= known

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """Build a schema from plain values; a key that is not known fails, naming the nearest one."""
        _check_keys(values, [item.name for item in fields(cls)], "the schema")
        columns = values.get("columns", {})
        _expect("columns", columns, Mapping, "a table of columns")
        declared: dict[str, Any] = {"columns": {name: _column(name, facts) for name, facts in columns.items()}}
        if (edges := values.get("edges")) is not None:
            _expect("edges", edges, Mapping, "a table with weight and max, or type and types")
            _check_keys(edges, [item.name for item in fields(EdgeColumns)], "[edges]")
            declared["edges"] = EdgeColumns(**edges)
        return cls(**{**values, **declared})

    @classmethod
    def read(cls, source: Schema | Mapping[str, Any] | str | Path | None) -> Schema:
        """Read a schema from a TOML file; a :class:`Schema` passes through, and None is an empty one.

        Raises:
            SchemaError: there is no such file, or its content is no schema.
        """
        if source is None:
            return cls()
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            return cls.from_dict(source)
        if not isinstance(source, str | Path):
            raise SchemaError(
                f"Expected schema to be a Schema, a dictionary or the path of a file, got {type(source).__name__}."
            )
        path = Path(source)
        try:
            return cls.from_dict(tomllib.loads(decoded(path.read_bytes())))
        except OSError as error:
            raise SchemaError(f"Expected schema {path} to be a file, got: {error.strerror}. Check the path.") from None
        except ValueError as error:
            if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".json", ".yaml", ".yml"):
                raise SchemaError(
                    f"Expected schema {path} to be a file in TOML, got one that is called {path.suffix}. "
                    "`sfumato data describe NODES EDGES --write-schema schema.toml` drafts one."
                ) from None
            reason = str(error).replace("\n", " ")
            raise SchemaError(f"In schema {path}: {reason}") from None


def trimmed(named: Any) -> Any:
    """Return the name of a column, or several, without white space at their ends, as tables have them; what is no text stays."""
    if isinstance(named, str):
        return named.strip()
    if isinstance(named, list | tuple):
        return tuple(name.strip() if isinstance(name, str) else name for name in named)
    return named


def label_columns(label: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that a ``label`` names: one, several, or none."""
    return () if label is None else (label,) if isinstance(label, str) else tuple(label)


def contradiction(column: str, row_id: Any, expected: str) -> SchemaError:
    """Build the error for a value of another kind than declared; it names the row, never the value."""
    row_id = row_id.item() if isinstance(row_id, np.generic) else row_id
    return SchemaError(
        f"Expected column {column!r} to hold {expected}, but the row of node {row_id!r} does not. Look at that row, and "
        "correct it there."
    )


def _trimmed_keys(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Declared columns by names without white space at their ends, each once."""
    found = {name.strip(): column for name, column in columns.items()}
    if len(found) < len(columns):
        raise SchemaError(
            "Expected every column of the schema once, got one twice but for white space. Remove one of them."
        )
    return found


def _column(name: str, values: Any) -> Column:
    _expect(f"columns.{name}", values, Mapping, "a table with categories, or min and max")
    _check_keys(values, [item.name for item in fields(Column)], f"column {name!r}")
    try:
        return Column(**values)
    except SchemaError as error:
        raise SchemaError(f"In column {name!r}: {error}") from None


def _check_keys(values: Iterable[str], known: list[str], where: str) -> None:
    for key in values:
        if key not in known:
            hint = nearest(key, known) or "Remove it."
            raise SchemaError(f"Expected {where} to have the keys {', '.join(known)}, got {key!r}. {hint}")


def _expect(name: str, value: Any, kind: type, expected: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise SchemaError(f"Expected {name} to be {expected}, got {value!r}. Correct the schema.")


def _check_from_data(name: str, value: Any, what: str, declared: Any) -> None:
    _expect(name, value, bool, "true or false")
    if value and declared is None:
        raise SchemaError(f"Expected {name} beside {what}, got none. Remove {name}, or list them.")


def _real(name: str, value: Any) -> float | None:
    return None if value is None else check_real("Correct the schema.", **{name: value})


def _names(name: str, values: Any) -> tuple[str, ...]:
    """Return distinct names as strings, the way that column values are compared with them."""
    if not isinstance(values, list | tuple) or not values or not all(isinstance(v, str | int) for v in values):
        raise SchemaError(f"Expected {name} to be a list of strings or integers, got {values!r}. Correct the schema.")
    names = tuple(str(value).lower() if isinstance(value, bool) else str(value).strip() for value in values)
    if len(set(names)) < len(names):
        raise SchemaError(f"Expected {name} to be distinct, got {list(names)}. Remove the repeated one.")
    return names
