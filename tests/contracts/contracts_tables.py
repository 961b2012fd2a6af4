"""Random tables: what they mean, the graph that they stand for, and the many ways in which people write them down."""

import gzip
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

MISSING = ("", "NA", "N/A", "null", "NaN")
WORDS = (
    "north",
    "south",
    "yes",
    "no",
    "T",
    "F",
    "Zoë",
    "two words",
    "a,b",
    "x;y|z",
    'say "hi"',
    "tab\there",
    "line\nend",
    "#1",
)


@dataclass
class Made:
    """One column: what its cells mean (None for missing), their texts in a file, and whether frames hold texts too."""

    kind: str
    values: list
    texts: list
    as_text: bool = False


@dataclass
class Tables:
    """A node table and an edge table, how they are read, and the graph that they stand for."""

    nodes: dict[str, Made]
    edges: dict[str, Made]
    how: dict
    ids: list
    rng: random.Random = field(repr=False)


def random_tables(seed: int) -> Tables:
    """Make tables of 12 to 40 nodes; every choice follows from the seed."""
    rng = random.Random(seed)
    count = rng.randint(12, 40)
    ids = _ids(rng, count)
    columns = {"id": Made("id", ids, [str(one) for one in ids])}
    columns |= {
        f"{kind}{at}": _column(rng, kind, count)
        for at, kind in enumerate(rng.choices(list(_MADE), k=rng.randint(1, 4)))
    }
    for name in ("height, cm", "a;b", "column1"):
        if rng.random() < 0.3:
            columns[name] = _column(rng, "float", count)
    how = {"label": "year", "directed": rng.random() < 0.5}
    columns["year"] = _column(rng, rng.choice(("whole label", "word")), count)
    columns = dict(rng.sample(list(columns.items()), len(columns)))
    ends = [[rng.choice(ids) for _ in range(2 * count)] for _ in range(2)]
    edges = {
        name: Made("id", values, [str(one) for one in values])
        for name, values in zip(("from", "to"), ends, strict=True)
    }
    if rng.random() < 0.3:
        weights = [rng.choice((0.0, 1.0, 2.5, 7.0)) for _ in range(2 * count)]
        edges["amount"] = Made("float", weights, [_number(rng, one) for one in weights])
        how |= {"edge_weight": "amount", "max_weight": 4.0}
    edges = dict(rng.sample(list(edges.items()), len(edges)))
    if rng.random() < 0.5:
        how["schema"] = _schema(rng, columns)
    return Tables(columns, edges, how, ids, rng)


def _ids(rng, count):
    if rng.random() < 0.4:
        return rng.sample(range(-50, 2000), count)
    return [f"{rng.choice(('n', '00', 'Ä', '#'))}{at}" for at in rng.sample(range(1000), count)]


def _whole(rng, count):
    return [rng.choice((0, 1, -3, 7, 20_000, 2**40)) for _ in range(count)]


def _float(rng, count):
    return [rng.choice((0.1, -2.5, 1e-3, 12345.678, 3.0, 1e12)) for _ in range(count)]


def _word(rng, count):
    few = rng.sample(WORDS, 3)
    return [rng.choice(few) for _ in range(count)]


_MADE = {
    "whole": _whole,
    "float": _float,
    "word": _word,
    "bool": lambda rng, count: [rng.random() < 0.5 for _ in range(count)],
}


def _column(rng, kind, count):
    values = _MADE[kind](rng, count) if kind in _MADE else [rng.choice((9, 10, 2004)) for _ in range(count)]
    share, words = rng.choice((0, 0, 0.2)), rng.sample(MISSING, rng.randint(1, 3))
    if rng.random() < 0.3:  # after what a reader might take for a sample
        share = share and 0.5
    values = [None if at > 2 and rng.random() < share else value for at, value in enumerate(values)]
    texts = [rng.choice(words) if value is None else _text(rng, value) for value in values]
    return Made(kind.split()[0], values, texts, as_text=kind != "bool" and rng.random() < 0.3)


def _text(rng, value):
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else _number(rng, value)


def _number(rng, value):
    if isinstance(value, int):
        return rng.choice((str(value), str(value), f"{value:+d}", f"{value:06d}", f"{value}.0", f"{value}."))
    return rng.choice((repr(value), f"{value:.17e}", f"{value:+.17g}"))


def _schema(rng, columns):
    declared, schema = {}, {}
    for name, made in columns.items():
        if made.kind in ("whole", "float") and name != "year" and rng.random() < 0.5:
            declared[name] = {"min": -1, "max": rng.choice((1, 100.5))}
        if made.kind == "word" and name != "year" and rng.random() < 0.5:
            declared[name] = {"categories": [*sorted({*made.values} - {None})[:2], "never"]}
    if rng.random() < 0.5:
        schema["classes"] = sorted({str(one) for one in columns["year"].values if one is not None})
    return schema | ({"columns": declared} if declared else {})


def meant(tables: Tables) -> dict:
    """Return the graph that the tables stand for, by rules written anew: names, features, classes, labels and arcs."""
    schema = tables.how.get("schema", {})
    names, parts, there = [], [], np.zeros(len(tables.ids), bool)
    for name, made in tables.nodes.items():
        if name in ("id", "year"):
            continue
        declared = schema.get("columns", {}).get(name, {})
        if made.kind in ("whole", "float"):
            names.append(name)
            parts.append(_meant_number(made.values, declared))
            there |= [one is not None for one in made.values]
            continue
        words = [str(one).lower() if isinstance(one, bool) else one for one in made.values]
        listed = declared.get("categories") or sorted({"false", "true"} if made.kind == "bool" else {*words} - {None})
        names += [f"{name}={word}" for word in listed]
        parts += [[float(one == word) for one in words] for word in listed]
        there |= [one in listed for one in words]
    labels = tables.nodes["year"].values
    classes = schema.get("classes") or [str(one) for one in sorted({*labels} - {None})]
    y = [-1 if one is None else classes.index(str(one)) for one in labels]
    at = {one: row for row, one in enumerate(tables.ids)}
    arcs = {
        (at[s], at[t]) for s, t in zip(tables.edges["from"].values, tables.edges["to"].values, strict=True) if s != t
    }
    arcs |= set() if tables.how["directed"] else {(t, s) for s, t in arcs}
    x = np.array(parts, np.float64).T.astype(np.float32) * there[:, None]  # a row without any value is zero
    return {
        "ids": tables.ids,
        "names": tuple(names),
        "x": x.tolist(),
        "classes": tuple(classes),
        "y": y,
        "arcs": sorted(arcs),
    }


def _meant_number(values, declared):
    low, high = declared.get("min"), declared.get("max")
    if low is None:
        return [0.0 if one is None else float(one) for one in values]
    middle = (low + high) / 2
    return [(min(max(middle if one is None else one, low), high) - low) / (high - low) for one in values]


def read_as(graph) -> dict:
    """Return of a graph what :func:`meant` returns of tables."""
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    return {
        "ids": graph.node_ids.tolist(), "names": graph.feature_names, "x": x.tolist(), "classes": graph.classes,
        "y": graph.y.tolist(), "arcs": list(zip(source.tolist(), graph.indices.tolist(), strict=True)),
    }  # fmt: skip


def write_csv(path: Path, columns: dict[str, Made], rng: random.Random) -> Path:
    """Write a CSV file as programs write them: delimiter, quotes, line ends, comments, byte order mark, gzip."""
    mark, end = rng.choice(",;|\t"), rng.choice(("\n", "\r\n"))
    always, padded, last = rng.random() < 0.3, rng.random() < 0.2, rng.choice((end, ""))

    def cell(text, kind):
        text = f" {text}" if padded and kind in ("whole", "float") else text
        if always or any(sign in text for sign in ',;|\t"\n\r') or rng.random() < 0.1:
            return '"' + text.replace('"', '""') + '"'
        return text

    rows = [mark.join(cell(name, "name") for name in columns)]
    rows += [
        mark.join(cell(text, made.kind) for text, made in zip(row, columns.values(), strict=True))
        for row in zip(*(made.texts for made in columns.values()), strict=True)
    ]
    if rng.random() < 0.2 and len(columns) > 1 and not any(row.startswith("#") for row in rows):
        rows[0] = f"#{rows[0]}"
    elif rng.random() < 0.2:
        rows = [part for row in rows for part in ("", row)]
    encoded = (end.join(rows) + last).encode(rng.choice(("utf-8", "utf-8-sig")))
    if rng.random() < 0.2:
        path, encoded = path.with_suffix(".csv.gz"), gzip.compress(encoded)
    path.write_bytes(encoded)
    return path


def arrow(columns: dict[str, Made], rng: random.Random, *, views: bool = True) -> pa.Table:
    """Return an Arrow table; texts and numbers are of any of Arrow's many types."""
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())] + [pa.string_view()] * views
    arrays = {}
    for name, made in columns.items():
        array = pa.array(made.texts if made.as_text else made.values)
        if pa.types.is_string(array.type):
            array = array.dictionary_encode() if (kind := rng.choice(kinds)) == kinds[2] else array.cast(kind)
        elif pa.types.is_int64(array.type) and rng.random() < 0.5:
            array = array.cast(rng.choice((pa.float64(), pa.decimal128(38, 0), pa.decimal128(30, 2))))
        elif pa.types.is_boolean(array.type) and rng.random() < 0.3:
            array = pa.ExtensionArray.from_storage(pa.bool8(), array.cast(pa.int8()))
        cut = rng.randint(0, len(array))
        arrays[rng.choice((name, name, f" {name}", f"{name} "))] = pa.chunked_array([array[:cut], array[cut:]])
    return pa.table(arrays)


def write_parquet(path: Path, columns: dict[str, Made], rng: random.Random) -> Path:
    """Write a Parquet file."""
    pq.write_table(arrow(columns, rng, views=False), path)
    return path


def pandas(columns: dict[str, Made], rng: random.Random) -> pd.DataFrame:
    """Return a frame of pandas; now and then its texts are categorical, or its ids are the index."""
    frame = pd.DataFrame({name: made.texts if made.as_text else made.values for name, made in columns.items()})
    for name, made in columns.items():
        if made.kind == "bool" and None not in made.values:
            frame[name] = frame[name].astype(bool)
        if made.kind == "bool" and None in made.values:
            frame[name] = frame[name].astype("boolean")
        if made.kind == "word" and rng.random() < 0.5:
            frame[name] = frame[name].astype("category")
    return frame.set_index("id") if "id" in columns and rng.random() < 0.3 else frame


def polars(columns: dict[str, Made], rng: random.Random) -> pl.DataFrame:
    """Return a frame of Polars; its texts are plain, categorical or an enumeration."""
    frame = pl.DataFrame({name: made.texts if made.as_text else made.values for name, made in columns.items()})
    for name, made in columns.items():
        if made.kind == "word":
            seen = sorted({one for one in frame[name].to_list() if one is not None})
            frame = frame.with_columns(pl.col(name).cast(rng.choice((pl.String, pl.Categorical, pl.Enum(seen)))))
    return frame
