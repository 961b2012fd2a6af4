"""Train the published recipe of GAP or ProGAP in plain torch on the Parquet files of benchmarks/rmat.py.

    python benchmarks/plain_recipes.py gap FOLDER

Dense features, torch.sparse CSR, torch.optim, full batch, 100 epochs for each network, Gaussian noise of a fixed size. It is the
peer of benchmarks/large.py: it tells how long such code takes, and its noise has no guarantee.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.nn import functional
from training import fit

HOPS, WIDTH, NOISE = {"gap": 2, "progap": 5}, 16, 10.0


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    x, y = nodes(folder / "nodes.parquet")
    adjacency = arcs(folder / "edges.parquet", len(x))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, val = (torch.zeros(len(x), dtype=torch.bool) for _ in range(2))
    train[order[: 75 * len(x) // 100]] = True
    val[order[75 * len(x) // 100 : 85 * len(x) // 100]] = True
    {"gap": gap, "progap": progap}[name](x, y, train, val, adjacency)


def nodes(path: Path) -> tuple[Tensor, Tensor]:
    """Features float32 [num_nodes, d] and labels."""
    table = pq.read_table(path)
    columns = [table[name].to_numpy() for name in table.column_names if name not in {"id", "label"}]
    return torch.from_numpy(np.column_stack(columns)), torch.from_numpy(table["label"].to_numpy().astype(np.int64))


def arcs(path: Path, num_nodes: int) -> Tensor:
    """The adjacency matrix of undirected rows."""
    table = pq.read_table(path)
    src, dst = (torch.from_numpy(table[name].to_numpy()) for name in table.column_names[:2])
    both = torch.stack([torch.cat([dst, src]), torch.cat([src, dst])])
    return torch.sparse_coo_tensor(both, torch.ones(both.shape[1]), (num_nodes, num_nodes)).to_sparse_csr()


def block(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, WIDTH), nn.BatchNorm1d(WIDTH), nn.SELU())


def hop(adjacency: Tensor, rows: Tensor) -> Tensor:
    sums = adjacency @ rows
    return functional.normalize(sums + NOISE * torch.randn_like(sums), dim=1)


def gap(x: Tensor, y: Tensor, train: Tensor, val: Tensor, adjacency: Tensor) -> None:
    """Encoder, hops, classifier."""
    classes = int(y.max()) + 1
    encoder, head = nn.Sequential(block(x.shape[1]), block(WIDTH)), nn.Linear(WIDTH, classes)
    fit(nn.ModuleList([encoder, head]), lambda rows: head(functional.normalize(encoder(rows), dim=1)), x, y, train, val)
    with torch.no_grad():
        hops = [functional.normalize(encoder(x), dim=1)]
        for _ in range(HOPS["gap"]):
            hops.append(hop(adjacency, hops[-1]))
    base, out = nn.ModuleList([block(WIDTH) for _ in hops]), nn.Linear(WIDTH * len(hops), classes)

    def classify(rows: Tensor) -> Tensor:
        return out(torch.cat([layer(rows[:, k]) for k, layer in enumerate(base)], dim=1))

    fit(nn.ModuleList([base, out]), classify, torch.stack(hops, dim=1), y, train, val)


def progap(x: Tensor, y: Tensor, train: Tensor, val: Tensor, adjacency: Tensor) -> None:
    """One stage after the other; each trains all that came before once more."""
    classes, bases, inputs = int(y.max()) + 1, nn.ModuleList([block(x.shape[1])]), x

    def embed(rows: Tensor) -> Tensor:
        parts = rows.split([x.shape[1], *[WIDTH] * (len(bases) - 1)], dim=1)
        return torch.cat([layer(part) for layer, part in zip(bases, parts, strict=True)], dim=1)

    for stage in range(HOPS["progap"] + 1):
        if stage:
            with torch.no_grad():
                messages = functional.normalize(embed(inputs)[:, -WIDTH:], dim=1)
            inputs = torch.cat([inputs, hop(adjacency, messages)], dim=1)
            bases.append(block(WIDTH))
        head = nn.Linear(WIDTH * len(bases), classes)
        fit(nn.ModuleList([bases, head]), lambda rows, head=head: head(embed(rows)), inputs, y, train, val)


if __name__ == "__main__":
    main()
