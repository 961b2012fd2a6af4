"""Speed of single parts beside named peers, in alternating rounds of one run.

    python benchmarks/speed.py --parts hop noise gradients process steps [--rounds 5] [--nodes 1000000] [--arcs 20000000]

* *hop*: one hop in C and in Numba beside SciPy and torch CSR x dense float32, two threads; the same bits of all sums.
* *noise*: rounded Gaussian and Laplace noise beside torch.randn and NumPy, in blocks of a hop of width 16.
* *gradients*: exact sums of clipped gradients beside the same clipping in floating point and beside plain gradients: a full
  batch of sparse rows under a linear head, and a dense minibatch through an MLP. Processor time.
* *process*: whole processes of `sfumato train gap` and `auto` on Berkeley13 at edge level; cpu is the time of all threads.
* *steps*: test accuracy where a step of GAP or ProGAP reads at most so many training nodes (central/_learning.py).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import study
import torch
from torch import Tensor
from torch.nn import functional

from sfumato.bounded._exact import WholeRows
from sfumato.bounded._gradients import clipped_gradient_sum
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows, to_steps
from sfumato.central import _learning
from sfumato.loops import _native, _numba, kernels
from sfumato.nn._models import MLP, Linear, _to_torch
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel

WIDTH, CLIP, LAWS = 16, 1.0, ("uniform", "skewed")
STEP_DATA = ("facebook100/Berkeley13", "facebook100/Rutgers89", "facebook100/Cornell5", "facebook100/UCSC68", "musae/facebook",
             "npz/coauthor_cs", "npz/amazon_cs")  # fmt: skip


def arcs(random: np.random.Generator, nodes: int, count: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and sources of random arcs: destinations are uniform, sources uniform or skewed."""
    offsets = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(random.integers(0, nodes, count), minlength=nodes), out=offsets[1:])
    uniform = random.random(count)
    return offsets, (nodes * (uniform if law == "uniform" else uniform**2)).astype(np.int32)


def hop(given: Any) -> None:
    """Each compiled loop beside SciPy and torch, and whether all bits are the same."""
    random = np.random.default_rng(0)
    for law in LAWS:
        offsets, sources = arcs(random, given.nodes, given.arcs, law)
        rows = normalize_rows(random.normal(size=(given.nodes, WIDTH)))
        matrix = sp.csr_matrix((np.ones(given.arcs, np.float32), sources, offsets), shape=(given.nodes,) * 2)
        parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
        dense, tensor = torch.from_numpy(rows), torch.sparse_csr_tensor(*parts, size=matrix.shape)
        out = np.empty((given.nodes, WIDTH), np.int64)

        def summed(loops: Any, rows=rows, offsets=offsets, sources=sources, out=out) -> study.Call:
            packed = loops.pack(to_steps(rows))
            return lambda: loops.sum_rows(offsets, sources, packed, 0, out)

        compiled = _native.load()
        ours = {loops.NAME: summed(loops) for loops in ([compiled] if compiled else []) + [_numba]}
        print(f"hop, {law}, {given.nodes:,} nodes, {given.arcs:,} arcs; in use: {kernels.loops().NAME}")
        peers = {"SciPy float32": lambda m=matrix, r=rows: m @ r, "torch CSR float32": lambda t=tensor, d=dense: t @ d}
        study.compared(ours | peers, given.rounds)
        sums, releases = [(call(), out.copy())[1] for call in ours.values()], []
        for threads, block in ((2, 1 << 14), (1, 1 << 14), (2, 100_003)):
            numba.set_num_threads(threads)
            releases.append(noisy_neighborhood_sum(Arcs(offsets, sources), rows, 10.0, bytes(32), block=block))
        assert all(np.array_equal(group[0], other) for group in (sums, releases) for other in group[1:])
        print(f"  the same bits in {len(sums)} loops, and of the noisy release at 1 and 2 threads and other blocks")


def noise(given: Any, values: int = 10**8, block: int = 1 << 20) -> None:
    """Both samplers beside samplers without keys."""
    generator, scale = np.random.default_rng(0), 216815.0

    def drawn(draw: Callable[[int, int], object]) -> study.Call:
        return lambda: [draw(low, min(low + block, values)) for low in range(0, values, block)] and None

    study.compared(
        {
            "rounded Gaussian": drawn(lambda low, high: rounded_gaussian(bytes(32), scale, low, high)),
            "rounded Laplace": drawn(lambda low, high: rounded_laplace(bytes(32), scale, low, high)),
            "torch.randn float32": drawn(lambda low, high: torch.randn(high - low)),
            "NumPy standard_normal float64": drawn(lambda low, high: generator.standard_normal(high - low)),
        },
        given.rounds,
    )


def gradients(given: Any) -> None:
    """Exact sums, the same clipping in floating point, plain gradients."""
    for name, case in (("full batch, sparse head", sparse_head()), ("minibatch, dense MLP", dense_mlp())):
        print(name)
        named = zip(("exact", "clipping in floating point", "plain"), case, strict=True)
        study.compared(dict(named), given.rounds, time.process_time)


def sparse_head(rows: int = 200_000, columns: int = 1000, classes: int = 10) -> tuple[study.Call, ...]:
    """The node-level head of label messages."""
    generator = np.random.default_rng(0)
    indices = generator.integers(0, columns, (rows, 30)).astype(np.int32).ravel()
    x = sp.csr_matrix((np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, 30)), shape=(rows, columns))
    x.sum_duplicates()
    y, head = torch.from_numpy(generator.integers(0, classes, rows)), Linear(columns, classes).double()
    whole, floats, transposed = WholeRows.of_csr(x), _to_torch(x, torch.float64), _to_torch(x.T.tocsr(), torch.float64)
    squares = torch.from_numpy(np.asarray(x.multiply(x).sum(1)).ravel() + 1.0)

    def scored(clip: bool) -> Tensor:
        with torch.no_grad():
            scores = floats @ head.weight.T + head.bias
        grad = torch.softmax(scores, 1) - functional.one_hot(y, classes)
        if clip:
            grad *= (CLIP / (grad.square().sum(1) * squares).sqrt().clamp_min(CLIP))[:, None]
        return torch.cat([(transposed @ grad).T.reshape(-1), grad.sum(0)])

    return lambda: clipped_gradient_sum(head, [whole], y, CLIP), lambda: scored(True), lambda: scored(False)


def dense_mlp(rows: int = 512, widths: tuple[int, ...] = (500, 64, 10)) -> tuple[study.Call, ...]:
    """A minibatch through two layers."""
    torch.manual_seed(0)
    model, x = MLP(widths).double(), torch.randn(rows, widths[0], dtype=torch.float64)
    y = torch.arange(rows) % widths[-1]

    def clipped() -> Tensor:
        met: list[tuple[Tensor, Tensor]] = []
        hooks = [layer.register_forward_hook(lambda _, args, out: met.append((args[0], out))) for layer in model.layers]
        loss = functional.cross_entropy(model(x), y, reduction="sum")
        for hook in hooks:
            hook.remove()
        grads = torch.autograd.grad(loss, [out for _, out in met])
        squares: Any = sum(
            g.square().sum(1) * (a.detach().square().sum(1) + 1) for g, (a, _) in zip(grads, met, strict=True)
        )
        weight = (CLIP / squares.sqrt().clamp_min(CLIP))[:, None]
        pairs = [(grad * weight, entered.detach()) for grad, (entered, _) in zip(grads, met, strict=True)]
        return torch.cat([part.reshape(-1) for g, a in pairs for part in (g.T @ a, g.sum(0))])

    def plain() -> object:
        return torch.autograd.grad(functional.cross_entropy(model(x), y, reduction="sum"), list(model.parameters()))

    return lambda: clipped_gradient_sum(model, [x], y, CLIP), clipped, plain


def process(given: Any) -> None:
    """Medians of whole processes after a warm-up, with least and largest."""
    rounds = [{method: once(method, given.data_dir) for method in ("gap", "auto")} for _ in range(given.rounds + 1)]
    for method in rounds[0]:
        for name in ("process", "cpu", "load", "train", "peak_mb"):
            values = [one[method][name] for one in rounds[1:]]
            print(f"{method} {name}: {np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")


def once(method: str, data_dir: str) -> dict[str, float]:
    """What one training takes."""
    with tempfile.TemporaryDirectory() as folder:
        command = "-m sfumato train --dataset facebook100/Berkeley13 --unit edge --epsilon 1 --delta 1e-7 --no-controls --json"
        before = os.times()
        out = ("--data-dir", data_dir, "--out", f"{folder}/run")
        printed, wall, peak, _ = study.process(*command.split(), method, *out)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"process": wall, "cpu": cpu, "peak_mb": peak, **json.loads(printed)["seconds"]}


def steps(given: Any, limits: tuple[int, ...] = (1 << 15, 1 << 11)) -> None:
    """Accuracy by the most nodes of a step; seed i draws split i and the initialization."""

    def cell(name: str, method: str, limit: int) -> str:
        _learning.MOST_IN_STEP = limit
        unit, found = EdgeLevel(directed=False), []
        for seed in range(given.rounds):
            graph = study.graph_of(name, given.data_dir, seed)
            found.append(study.accuracy(graph, study.fitted(method, Budget(1.0, 1e-6), unit, graph, seed)))
        return study.told(found)

    rows = (
        (name, method, *(cell(name, method, limit) for limit in limits))
        for name in STEP_DATA
        for method in ("gap", "progap")
    )
    study.table(("data set", "method", *(f"at most {limit:,}" for limit in limits)), rows)


if __name__ == "__main__":
    parts = {part.__name__: part for part in (hop, noise, gradients, process, steps)}
    given = study.options(__doc__, parts=parts, rounds=5, nodes=1_000_000, arcs=20_000_000)
    numba.set_num_threads(2)
    torch.set_num_threads(2)
    for name in given.parts:
        parts[name](given)
