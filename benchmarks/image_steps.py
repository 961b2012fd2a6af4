"""Cost of one private step on images, beside a plain step on the same images; prints Markdown.

    OMP_NUM_THREADS=2 python benchmarks/image_steps.py [--rounds 7] [--data-dir DIR]

Cells: one step of class-DP (all images of the drawn cells, a call for each cell, clipped in whole numbers) beside plain mean
gradients of the same images in batches of 256. Examples: gradients of 64 single images, clipped and summed, of a convolutional
network whose filters learn, by our calls, by torch.func, and by Opacus with hooks and with ghost norms. The fixed filters of the
default network are applied before both. Ratios are medians of processor time over rounds in which all alternate.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from sfumato.bounded.clip_kernel import add_clipped
from sfumato.bounded.example_gradients import clipped_example_sum
from sfumato.datasets.images import load_images
from sfumato.nn._convolution import ConvNet, learning_part

CLIP, BATCH, EXAMPLES = 1.0, 256, 64
Calls = Mapping[str, Callable[[], object]]


def main() -> None:
    """Measure both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    graph = load_images("mnist", options.data_dir)
    x, y = torch.from_numpy(np.asarray(graph.x[:6000], np.float32)), torch.from_numpy(graph.y[:6000])
    print(f"threads {torch.get_num_threads()}; medians of {options.rounds} alternating rounds\n")
    print("| step | over plain | milliseconds |\n| :-- | --: | --: |")
    for per_cell in (16, 128, 600):
        show(f"cells of {per_cell} images", cell_calls(x, y, per_cell), options.rounds)
    show(f"{EXAMPLES} examples", example_calls(x[:EXAMPLES], y[:EXAMPLES]), options.rounds)


def show(name: str, calls: Calls, rounds: int) -> None:
    """Print a row for each call but the first, which is the plain step."""
    for call in calls.values():
        call()
    times = np.array([[seconds(call) for call in calls.values()] for _ in range(rounds)])
    for place, title in enumerate(calls):
        ratio = np.median(times[:, place] / times[:, 0])
        print(f"| {name}: {title} | {ratio:.2f} | {1e3 * np.median(times[:, place]):.1f} |", flush=True)


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def plain_gradient(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the mean loss as one vector."""
    loss = functional.cross_entropy(model(x), y)
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(model.parameters()))])


def cell_calls(x: Tensor, y: Tensor, per_cell: int) -> Calls:
    """A step over all images: plain batches, and one call for each cell."""
    describe, head = learning_part(ConvNet((1, 28, 28), 200, 10))
    assert describe is not None
    with torch.no_grad():
        found = torch.cat([describe(part) for part in x.split(1000)])
    batches, cells = list(zip(found.split(BATCH), y.split(BATCH), strict=True)), found.split(per_cell)
    labels, size = y.split(per_cell), sum(parameter.numel() for parameter in head.parameters())

    def private() -> np.ndarray[Any, Any]:
        total = np.zeros(size)
        for rows, targets in zip(cells, labels, strict=True):
            add_clipped(plain_gradient(head, rows, targets)[None].numpy(), np.ones(1, bool), CLIP, total)
        return total

    return {"plain": lambda: [plain_gradient(head, *batch) for batch in batches], "class-DP": private}


def network() -> nn.Sequential:
    """Two convolutions and two dense layers, all of which learn: the network of the source."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def example_calls(x: Tensor, y: Tensor) -> Calls:
    """Clipped sums of the gradients of single examples."""
    model = network()
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    hooked = GradSampleModule(network())
    ghost = GradSampleModuleFastGradientClipping(network(), max_grad_norm=CLIP, use_ghost_clipping=True)

    def one_loss(values: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(model, values, (row[None],)), label[None])

    def clipped(grads: list[Tensor]) -> list[Tensor]:
        flat = torch.cat([part.reshape(len(x), -1) for part in grads], 1)
        weights = (CLIP / flat.norm(dim=1)).clamp_max(1)
        return [torch.einsum("n,n...->...", weights, part) for part in grads]

    def by_func() -> list[Tensor]:
        return clipped(list(vmap(grad(one_loss), in_dims=(None, 0, 0))(parameters, x, y).values()))

    def by_hooks() -> list[Tensor]:
        functional.cross_entropy(hooked(x), y, reduction="sum").backward()
        made = clipped([parameter.grad_sample for parameter in hooked.parameters()])
        hooked.zero_grad()
        return made

    def by_ghost() -> list[Tensor]:
        losses = functional.cross_entropy(ghost(x), y, reduction="none")
        losses.sum().backward(retain_graph=True)
        weights = ghost.get_clipping_coef()
        for parameter in ghost.parameters():
            parameter.grad = None
        ghost.disable_hooks()
        (weights * losses).sum().backward()
        ghost.enable_hooks()
        made = [parameter.grad for parameter in ghost.parameters()]
        ghost.zero_grad()
        return made

    return {
        "plain": lambda: plain_gradient(model, x, y),
        "a call for each example, whole numbers (ours)": lambda: clipped_example_sum(model, x, y, CLIP),
        "torch.func": by_func,
        "Opacus, hooks": by_hooks,
        "Opacus, ghost norms": by_ghost,
    }


if __name__ == "__main__":
    main()
