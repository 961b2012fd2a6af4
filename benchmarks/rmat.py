"""Write an R-MAT graph of any size as two Parquet files, nodes.parquet and edges.parquet, in bounded memory.

python benchmarks/rmat.py FOLDER [--nodes 5000000] [--rows 50000000] [--features 64] [--classes 8] [--seed 0] [--exact | --codes]
python benchmarks/rmat.py FOLDER --like-46m

Each row is one undirected edge; `sfumato data import --directed` reads the same rows as arcs. Labels are uniform and features
Gaussian around a mean of the label: such a graph measures cost, and its accuracies mean nothing. --like-46m writes 116,713 nodes,
23 million different edges (46 million arcs) and 602 features; without it, some rows are the same.
--exact rounds features to eighths, which float16 holds; --codes writes a column of four categories for each four features.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import study

from sfumato.graph._synthetic import rmat_pairs

BLOCK = 1 << 22


def main() -> None:
    """Write both files."""
    options = study.options(
        __doc__, folder=Path, nodes=5_000_000, rows=50_000_000, features=64, classes=8, seed=0, like_46m=False,
        exact=False, codes=False,
    )  # fmt: skip
    if options.like_46m:
        options.nodes, options.rows, options.features = 116_713, 23_000_000, 602
    options.folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(options.seed)
    _write_nodes(options.folder / "nodes.parquet", options, generator)
    _write_edges(options.folder / "edges.parquet", options, generator)


def _write_nodes(path: Path, options: argparse.Namespace, generator: np.random.Generator) -> None:
    means = generator.normal(size=(options.classes, options.features)).astype(np.float32)
    rows = max(1 << 16, BLOCK // max(1, options.features))
    width = options.features // 4 if options.codes else options.features
    names = ["id", "label", *(f"f{column}" for column in range(width))]
    kinds = [pa.int64(), pa.int16(), *[pa.string() if options.codes else pa.float32()] * width]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=False) as file:
        for start in range(0, options.nodes, rows):
            ids = np.arange(start, min(start + rows, options.nodes))
            labels = generator.integers(options.classes, size=len(ids), dtype=np.int16)
            x = means[labels] + generator.standard_normal((len(ids), options.features), dtype=np.float32)
            x = (x * 8).round() / 8 if options.exact else x
            if options.codes:
                largest = x.reshape(len(ids), width, 4).argmax(axis=2)
                columns = [pa.array(np.array(["a", "b", "c", "d"])[column]) for column in largest.T]
            else:
                columns = [pa.array(column) for column in x.T.copy()]
            columns = [pa.array(ids), pa.array(labels), *columns]
            file.write_table(pa.table(columns, schema=schema))


def _write_edges(path: Path, options: argparse.Namespace, generator: np.random.Generator) -> None:
    pairs = rmat_pairs(options.nodes, options.rows, generator, BLOCK)
    pairs = _different(options, generator) if options.like_46m else pairs
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as file:
        for source, target in pairs:
            file.write_table(pa.table({"source": source.astype(np.int64), "target": target.astype(np.int64)}))


def _different(options: argparse.Namespace, generator: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """So many different edges, in random order, held in memory."""
    keys = np.empty(0, np.int64)
    for source, target in rmat_pairs(options.nodes, 100 * options.rows, generator, options.rows):
        low, high = np.minimum(source, target).astype(np.int64), np.maximum(source, target)
        keys = np.unique(np.concatenate([keys, (low * options.nodes + high)[low < high]]))
        if len(keys) >= options.rows:
            break
    for some in np.array_split(generator.permutation(keys)[: options.rows], max(1, options.rows // BLOCK)):
        yield np.divmod(some, options.nodes)


if __name__ == "__main__":
    main()
