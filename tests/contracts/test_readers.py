"""One table is one graph, however it is written: CSV, Parquet, pandas, Polars, Arrow, and a store of either."""

import random
import warnings

import contracts_tables as made
import pytest

from sfumato.errors import DroppedWarning
from sfumato.graph import Graph, from_frames, read_csv, read_parquet
from sfumato.tables._importing import import_tables


def _csv(tables, folder):
    files = [made.write_csv(folder / f"{name}.csv", part, tables.rng) for name, part in _parts(tables)]
    return read_csv(*files, **tables.how)


def _parquet(tables, folder):
    files = [made.write_parquet(folder / f"{name}.parquet", part, tables.rng) for name, part in _parts(tables)]
    return read_parquet(*files, **tables.how)


def _store(tables, folder):
    how = {name: value for name, value in tables.how.items() if name not in ("edge_weight", "max_weight")}
    write = tables.rng.choice((made.write_csv, made.write_parquet))
    ends = {name: made for name, made in tables.edges.items() if name != "amount"}
    suffix = "csv" if write is made.write_csv else "parquet"
    files = [write(folder / f"s-{n}.{suffix}", part, tables.rng) for n, part in (("n", tables.nodes), ("e", ends))]
    return Graph.load(import_tables(*files, folder / "store", **how))


def _frames(kind):
    return lambda tables, folder: from_frames(*(kind(part, tables.rng) for _, part in _parts(tables)), **tables.how)


def _parts(tables):
    return ("nodes", tables.nodes), ("edges", tables.edges)


READERS = {
    "csv": _csv,
    "parquet": _parquet,
    "pandas": _frames(made.pandas),
    "polars": _frames(made.polars),
    "arrow": _frames(made.arrow),
    "store": _store,
}


def check(seed, folder, readers):
    """Read one table in several ways, and compare each graph with what the table means."""
    tables = made.random_tables(seed)
    expected, weights = made.meant(tables), None
    for name in readers:
        tables.rng = random.Random(f"{seed} {name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DroppedWarning)
            graph = READERS[name](tables, folder)
        found = made.read_as(graph)
        assert {part: found[part] for part in expected if found[part] != expected[part]} == {}, f"{name}, table {seed}"
        if name != "store" and graph.weights is not None:
            weights = weights or graph.weights.values.tolist()
            assert graph.weights.values.tolist() == weights, name


@pytest.mark.parametrize("seed", range(12))
def test_a_table_is_one_graph_however_it_is_written(seed, tmp_path):
    check(seed, tmp_path, [name for name in READERS if name != "store" or seed % 4 == 0])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_tables_are_one_graph_each(seed, tmp_path):
    check(seed, tmp_path, READERS)
