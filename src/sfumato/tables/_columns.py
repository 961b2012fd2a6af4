"""Which columns of two tables mean what: by arguments, by the schema, by usual names, else by their place.

A column without a name (the index of a frame that was saved along) is never taken for ids, ends or features. A table whose
row of names looks like data is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sfumato._validate import nearest
from sfumato.errors import DataError, SchemaError
from sfumato.graph._schema import label_columns
from sfumato.tables._form import looks_like_number
from sfumato.tables._tables import known

if TYPE_CHECKING:
    from sfumato.graph._schema import Schema
    from sfumato.tables._reading import Reading

_ID_NAMES = ("id", "node_id", "node", "nodeid")
_SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "source_id", "from_id", "fromnodeid", "from_node_id")
_TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "target_id", "to_id", "tonodeid", "to_node_id")
_MASKS = ("train_mask", "val_mask", "valid_mask", "validation_mask", "test_mask")
_TRAIN, _OTHERS = {"train", "training"}, {"val", "valid", "validation", "dev", "test", "testing"}
_NO_ROLE = {"none", "unlabeled"}
_UNNAMED = re.compile(r"\s*|Unnamed: (\d+)|__index_level_\d+__")
_NAMES_FIRST = "If the first row holds values, add a row of names before it, such as "


def has_name(names: Sequence[str], place: int) -> bool:
    """Say whether a column has a name of its own: not that of an index, or what pandas says where there is none."""
    found = _UNNAMED.fullmatch(names[place])
    return not found or (found[1] is not None and int(found[1]) != place)


def named(names: Sequence[str]) -> list[str]:
    return [name for place, name in enumerate(names) if has_name(names, place)]


def left(names: Sequence[str], how: Reading) -> list[str]:
    without = how.left_out
    return [name for name in names if name not in without]


def needed(name: str, how: Reading, place: str, use: str) -> str:
    if name in how.left_out:
        raise DataError(
            f"Expected drop to leave out columns that nothing needs, but {name!r} of {place} is read as {use}. Drop another; a "
            "name that both tables have is left out of both."
        )
    return name


def id_name(names: list[str], how: Reading, schema: Schema, place: str) -> str:
    said = known(names, how.id_column or schema.id, place)
    if said is None:
        other = meant(how, schema)
        usual = [name for name in usual_ids(left(names, how)) if name not in other]
        check_one(usual, place)
        said = next(iter(usual), None) or usual_id(names)
    if said is not None:
        return needed(said, how, place, "id")
    own = left(named(names), how)
    _check_header(own, 1, place, "id,...", "name the column of ids with id_column (id in the schema)")
    return own[0]


def check_order(nodes: Sequence[str], edges: Sequence[str], how: Reading, places: tuple[str, str]) -> None:
    """Refuse tables of which the first looks as one of edges does, and the second does not."""
    labels, ends = {*label_columns(how.label)}, None if usual_id(nodes) else usual_ends(nodes)
    elsewhere = labels and labels <= {*edges} and labels.isdisjoint(nodes)
    if how.id_column or how.source or how.target or usual_ends(edges) or not (ends or elsewhere):
        return
    why = f"{places[0]} has the columns {ends[0]!r} and {ends[1]!r}" if ends else f"{places[1]} has the label"
    raise DataError(
        f"Expected the table of nodes first and that of edges second, but {why}, and the other has not. Swap them, or name the "
        "column of ids with id_column (id in the schema)."
    )


def usual_id(names: Sequence[str]) -> str | None:
    return next(iter(usual_ids(names)), None)


def usual_ids(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.lower() in _ID_NAMES]


def check_one(usual: Sequence[str], place: str) -> None:
    if len(usual) > 1:
        raise DataError(
            f"Expected one column of {place} to be called as ids usually are, got {usual[0]!r} and {usual[1]!r}. Name the column "
            "of ids with id_column (id in the schema), or leave the other out with drop."
        )


def meant(how: Reading, schema: Schema) -> set[str | None]:
    """Return the columns that a reading or its schema names as something else than ids, ends and weights."""
    labels = label_columns(how.label or schema.label)
    return {*labels, how.role or schema.role, schema.degree_column, *how.text, *(how.features or ()), *schema.columns}


def edge_names(names: list[str], how: Reading, place: str) -> tuple[str, str]:
    found = [known(names, name, place) for name in (how.source, how.target)]
    if None in found:
        usual = usual_ends(left(names, how)) or usual_ends(names) or _by_place(names, how, place)
        one, other = usual[:2]
        found = [found[0] or (one if one != found[1] else other), found[1] or (other if other != found[0] else one)]
    source, target = (needed(name or "", how, place, "end") for name in found)
    return source, target


def by_place(names: list[str], how: Reading) -> list[str]:
    """Return the columns among which the first two are the ends of edges, since nothing names them; none if something does."""
    if how.source or how.target or usual_ends(names):
        return []
    return left(_unused(names, how), how)


def _unused(names: Sequence[str], how: Reading) -> list[str]:
    """The columns with a name that are read as neither weights, types nor times, nor as owners, who may be ends themselves."""
    rest = [name for name in named(names) if name not in how.of_edges]
    others = [name for name in rest if not how.owner or name != how.owner[0]]
    return others if len(others) > 1 else rest


def passed(names: list[str], how: Reading) -> list[str]:
    """Return the columns with a name that are left out and stand before all others: by their place they were ids or ends."""
    own, first = named(names), left(named(names), how)[:1]
    return own[: own.index(first[0])] if first else own


def _by_place(names: list[str], how: Reading, place: str) -> list[str]:
    own = _unused(names, how)
    rest = left(own, how)
    _check_header(rest, 2, place, "source,target", "name the columns of ends with source and target")
    if rest[0] == own[0]:
        needed(own[1], how, place, "end, since it stands among the first two")
    odd = usual_id(by_place(names, how)[:2])
    if len(rest) > 2 and odd is not None:
        raise row_number(odd, place)
    return rest


def row_number(name: str, place: str) -> DataError:
    """Return the error about a column that is read as an end by its place, and may number the rows."""
    return DataError(
        f"Expected ends of edges in the first two columns of {place}, but {name!r} may number the rows: it counts them, "
        "or is called as their ids often are, and another column may be the end. Call the two columns of ends source and target, "
        "name them, or leave the others out with drop, so that two remain."
    )


def usual_ends(names: Sequence[str]) -> tuple[str, str] | None:
    lower = [name.lower() for name in names]
    for source, target in zip(_SOURCE_NAMES, _TARGET_NAMES, strict=True):
        if source in lower and target in lower:
            return names[lower.index(source)], names[lower.index(target)]
    return None


def _check_header(own: Sequence[str], least: int, place: str, example: str, hint: str) -> None:
    if len(own) < least:
        what = "two columns of node ids" if least == 2 else "a column of ids"
        raise DataError(
            f"Expected {place} to have {what}, got {', '.join(own) or 'no column with a name'}. Add what is missing; a column "
            "without a name is not read."
        )
    if any(map(looks_like_number, own)):
        raise DataError(
            f"Expected the first row of {place} to name the columns, got numbers. {_NAMES_FIRST}{example}. If they are names, "
            f"{hint}."
        )


def weight_name(names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str | None:
    weight = known(names, how.weight and how.weight[0], place)
    if weight in ends:
        raise DataError(
            f"Expected weights of {place} beside its ends, got the column {weight!r} as both. Name another."
        )
    return weight and needed(weight, how, place, "weight")


def type_name(names: list[str], ends: tuple[str, str], how: Reading, place: str) -> str | None:
    column = known(names, how.types and how.types[0], place)
    if column in ends:
        raise DataError(f"Expected types of {place} beside its ends, got the column {column!r} as both. Name another.")
    return column and needed(column, how, place, "type")


def check_ends(
    names: tuple[str, str], columns: Sequence[str], how: Reading, place: str, found: Callable[[str], bool]
) -> None:
    """Refuse an edge table whose ends were found by place, and whose names of them are both ids: it has no row of names."""
    if how.source or how.target or usual_ends(left(columns, how)):
        return
    if all(found(name) for name in names):
        raise DataError(
            f"Expected the first row of {place} to name the columns, got two ids of nodes. {_NAMES_FIRST}source,target. If they "
            "are names, name the columns of ends with source and target."
        )


def check_words(name: str, seen: Sequence[str], names: Sequence[str], how: Reading, schema: Schema, place: str) -> None:
    """Refuse a node table whose ids were found by place, and in which a column has its own name for a value."""
    if name in seen and not (how.id_column or schema.id or usual_id(left(names, how))):
        raise DataError(
            f"Expected the first row of {place} to name the columns, but the name of column {name!r} is also one of its values. "
            f"{_NAMES_FIRST}id,... If it is a name, name the column of ids with id_column (id in the schema)."
        )


def check_no_roles(name: str, seen: Sequence[str], place: str) -> None:
    """Refuse a column that would be a feature, and says of each node whether it trains: as a feature it would be no role."""
    words = {word.lower() for word in seen}
    roles = not (words.isdisjoint(_TRAIN) or words.isdisjoint(_OTHERS) or words - _TRAIN - _OTHERS - _NO_ROLE)
    if roles or name.lower() in _MASKS:
        kept = "one column of" if roles else "one column of train, val and test instead of masks, with"
        raise DataError(
            f"Expected the columns of {place} that nothing declares to be features, but {name!r} says which nodes train: as a "
            f"feature it keeps no node from training. If it is meant, name {kept} roles (role = "
            f"{name if roles else 'split'!r} in the schema, role in Python). If not, leave it out with drop, or declare it as a "
            "feature in the schema."
        )


def feature_names(
    names: list[str], how: Reading, schema: Schema, special: tuple[str | None, ...], place: str
) -> list[str]:
    """Return the columns of features: those that are asked for, else all with a name that mean nothing else."""
    missing = [column for column in schema.columns if column not in names]
    if missing:
        raise SchemaError(
            f"Expected {place} to have the column {missing[0]!r} of the schema, got the columns {', '.join(names)}. "
            f"{nearest(missing[0], names)} Add it or remove it from the schema.".lstrip()
        )
    declared = [column for column in special if column in schema.columns]
    if declared:
        raise SchemaError(
            f"Expected the columns of the schema to be features, but {declared[0]!r} is read as id, label, role or text. "
            f"Remove [columns.{declared[0]}]; classes belong under classes."
        )
    unread = next((column for column in special if column in how.left_out), None)
    if unread is not None:
        raise DataError(
            f"Expected drop to leave out features, but {unread!r} is read as label, role, bound or text. Drop another."
        )
    if how.features is None:
        return [column for column in named(names) if column not in (*special, *how.left_out)]
    chosen = [column for column in how.features if known(names, column, place)]
    for column in chosen:
        if column in special:
            raise DataError(f"Expected features to leave out ids, labels, roles and texts, got {column!r}. Remove it.")
        if column in how.left_out:
            raise DataError(f"Expected a column in features or in drop, got {column!r} in both. Remove it from one.")
    return chosen


def unread(names: Sequence[str], used: Sequence[Any]) -> list[str]:
    return [name for name in named(names) if name not in used]
