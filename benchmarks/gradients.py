"""Cost of exact sums of clipped gradients: beside the same clipping in floating point, and beside plain gradients.

    OMP_NUM_THREADS=2 python benchmarks/gradients.py [--rounds 9]

Two cases: a full batch of sparse rows under a linear head (the node-level head of label messages), and a dense
minibatch through an MLP. Seconds are of processor time, which other work on the machine changes less; ratios are
medians over rounds in which all alternate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.bounded._exact import WholeRows
from sfumato.bounded._gradients import clipped_gradient_sum
from sfumato.nn._models import MLP, Linear, _to_torch

CLIP = 1.0
Case = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(f"threads {torch.get_num_threads()}; medians of {rounds}, alternating")
    for name, case in (("full batch, sparse head", sparse_head()), ("minibatch, dense MLP", dense_mlp())):
        for call in case:
            call()
        exact, floating, plain = np.array([[seconds(call) for call in case] for _ in range(rounds)]).T
        print(f"{name}: exact {1e3 * np.median(exact):.2f} ms; ", end="")
        print(f"over clipping in floating point {np.median(exact / floating):.2f}; ", end="")
        print(f"over plain gradients {np.median(exact / plain):.2f}")


def sparse_head(rows: int = 200_000, columns: int = 1000, classes: int = 10) -> Case:
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
        grad = output_gradient(scores, y)
        if clip:
            grad *= (CLIP / (grad.square().sum(1) * squares).sqrt().clamp_min(CLIP))[:, None]
        return torch.cat([(transposed @ grad).T.reshape(-1), grad.sum(0)])

    return lambda: clipped_gradient_sum(head, [whole], y, CLIP), lambda: scored(True), lambda: scored(False)


def dense_mlp(rows: int = 512, widths: Sequence[int] = (500, 64, 10)) -> Case:
    torch.manual_seed(0)
    model, x = MLP(widths).double(), torch.randn(rows, widths[0], dtype=torch.float64)
    y = torch.arange(rows) % widths[-1]
    layers = list(model.layers)

    def clipped() -> Tensor:
        met: list[tuple[Tensor, Tensor]] = []
        hooks = [layer.register_forward_hook(lambda _, args, out: met.append((args[0], out))) for layer in layers]
        loss = functional.cross_entropy(model(x), y, reduction="sum")
        for hook in hooks:
            hook.remove()
        grads = torch.autograd.grad(loss, [out for _, out in met])
        squares: Tensor = sum(
            g.square().sum(1) * (a.detach().square().sum(1) + 1) for g, (a, _) in zip(grads, met, strict=True)
        )
        finite, weight = torch.isfinite(squares)[:, None], (CLIP / squares.sqrt().clamp_min(CLIP))[:, None]
        weighted = [torch.where(finite, grad * weight, 0.0) for grad in grads]
        entered = [torch.where(finite, a.detach(), 0.0) for a, _ in met]
        return torch.cat(
            [part.reshape(-1) for g, a in zip(weighted, entered, strict=True) for part in (g.T @ a, g.sum(0))]
        )

    def plain() -> Tensor:
        grads = torch.autograd.grad(functional.cross_entropy(model(x), y, reduction="sum"), list(model.parameters()))
        return torch.cat([grad.reshape(-1) for grad in grads])

    return lambda: clipped_gradient_sum(model, [x], y, CLIP), clipped, plain


def output_gradient(scores: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(scores, 1) - nn.functional.one_hot(y, scores.shape[1])


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
