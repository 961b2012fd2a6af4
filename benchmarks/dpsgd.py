"""DP-SGD after Abadi et al. (2016): epsilon by epoch; accuracy on MNIST by noise, clipping norm, optimizer; prints Markdown.

    OMP_NUM_THREADS=1 python benchmarks/dpsgd.py [--seeds 1] [--log FILE] [--data-dir DIR]

The network has 1,000 hidden units with ReLU. It reads pixels, or 60 noisy principal components of the training images, as in the
paper. A lot holds each of the 60,000 images with probability 0.01; gradients are clipped to C over
all parameters jointly. Plain descent has the learning rate 0.05 of the paper, Adam 0.001; runs whose noise is calibrated to an
epsilon have the rate that was best of three at epsilon 2 on the last 10,000 training images, learning from the
other 50,000. No epoch is chosen: the last iterate is scored. Coins and noise come from Torch's generator, and sums are rounded in
float32: a study of accuracy, which certifies nothing.
"""

import math
from dataclasses import astuple, dataclass
from typing import Any

import study
import torch
from torch import Tensor, nn

from sfumato._threads import set_threads
from sfumato.datasets.images import load_images
from sfumato.nn._training import SGD, Adam
from sfumato.privacy import accounting
from sfumato.privacy._class_bounds import strong_composition_epsilon
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

ROWS, PIXELS, WIDTH, CLASSES, LOT = 60_000, 784, 1000, 10, 600
RATE = 0.5
COMPONENTS, PROJECTION = 60, GaussianEvent(16.0)
"""Principal components that the paper keeps, and what they cost: the upper triangle of the sum of outer products, with noise of
this deviation. A row of norm 1 changes the sum by its own outer product, whose norm is 1, and the triangle by no more."""
DELTAS = (1e-5, 1e-4, 1e-3, 1e-2)
EPOCHS = (1, 5, 10, 20, 50, 100, 200, 300, 400)
METHODS = ("strong composition", "moments", "exact")


@dataclass(frozen=True)
class Run:
    """A configuration: noise over C, C, the optimizer, its rate, the number of steps, and principal components (0: pixels)."""

    noise: float
    clip: float = 4.0
    optimizer: str = "SGD"
    rate: float = 0.05
    steps: int = 1000
    components: int = 0

    def events(self) -> list[PoissonGaussianEvent | GaussianEvent]:
        """What it costs."""
        steps = PoissonGaussianEvent(LOT / ROWS, self.noise, self.steps)
        return [steps, PROJECTION] if self.components else [steps]


def calibrated(epsilon: float, rate: float, steps: int = 500) -> Run:
    """The configuration that spends this epsilon at delta 1e-5; its noise is rounded up."""
    noise = calibrate(lambda noise: Run(noise, steps=steps).events(), epsilon, 1e-5)
    return Run(math.ceil(1000 * noise) / 1000, rate=rate, steps=steps)


NOISES = [Run(noise) for noise in (8, 4, 2)]
CLIPS = [Run(8, clip, steps=300) for clip in (1, 2, 4, 8)]
OPTIMIZERS = [Run(noise, 4, "Adam", 0.001) for noise in (8, 4, 2)]
PRINTED = {0.5: "90", 2.0: "95", 8.0: "97"}
"""Accuracy in percent by epsilon at delta 1e-5, with private principal components."""
CALIBRATED = [calibrated(epsilon, RATE) for epsilon in PRINTED]
PROJECTED = [Run(noise, steps=steps, components=COMPONENTS) for noise, steps in ((8, 10_000), (4, 38_000), (2, 40_000))]
"""The noise levels of the paper, with steps that cost less than 0.5, 2 and 8."""
PRINTED_FOR = dict(zip((*CALIBRATED, *PROJECTED), 2 * [*PRINTED.values()], strict=True))
FIRST_PROJECTION = 1_000_000
"""Seeds of projections begin here, those of training at 0."""


def main() -> None:
    """Print the epsilons, then train every configuration, and print the tables."""
    given = study.options(__doc__, log="dpsgd.jsonl", seeds=1)
    set_threads(None)
    curves = epsilons()
    lines = ((epoch, *(f"{curves[name][i]:.3f}" for name in METHODS)) for i, epoch in enumerate(EPOCHS))
    study.table(("epochs", *METHODS), lines, "### Epsilon by epoch (q = 0.01, sigma = 4, delta 1e-5)")
    asked = (
        (*astuple(run), seed)
        for seed in range(given.seeds)
        for run in (*CALIBRATED, *PROJECTED, *CLIPS, *NOISES, *OPTIMIZERS)
    )
    found = study.grouped(study.kept(given, asked, lambda *cell: measured(cell, given.data_dir)), -1)
    scores("Accuracy by epsilon", [*CALIBRATED, *PROJECTED], found)
    scores("Clipping norm", CLIPS, found)
    scores("Noise and optimizer", NOISES + OPTIMIZERS, found)


def measured(cell: tuple[Any, ...], data_dir: str) -> float:
    """Test accuracy of a configuration and a seed."""
    *parts, seed = cell
    run, graph = Run(*parts), load_images("mnist", data_dir)
    x, y = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
    seen = projected(x, run.components, seed) if run.components else x
    return accuracy(trained(seen[:ROWS], y[:ROWS], run, seed), seen[ROWS:], y[ROWS:])


def epsilons(noise: float = 4.0, delta: float = 1e-5) -> dict[str, list[float]]:
    """Epsilon after each number of epochs, by method."""
    runs = [PoissonGaussianEvent(LOT / ROWS, noise, epochs * ROWS // LOT) for epochs in EPOCHS]
    return {
        "strong composition": [strong_composition_epsilon(run.sampling_prob, noise, run.steps, delta) for run in runs],
        "moments": [accounting.epsilon([run], delta, method="moments") for run in runs],
        "exact": [accounting.epsilon([run], delta) for run in runs],
    }


def projected(x: Tensor, components: int, seed: int) -> Tensor:
    """Images on the principal components of the training images, from a noisy sum of outer products of rows of norm 1.

    Its noise has a seed of its own: with that of the steps both would be made of the same numbers, which no sum of costs covers.
    """
    rows, draw = nn.functional.normalize(x[:ROWS]), torch.Generator().manual_seed(FIRST_PROJECTION + seed)
    noise = PROJECTION.noise_multiplier * torch.randn(PIXELS, PIXELS, generator=draw)
    _, directions = torch.linalg.eigh(rows.T @ rows + noise.triu() + noise.triu(1).T)
    return x @ directions[:, -components:]


@torch.no_grad()
def trained(x: Tensor, y: Tensor, run: Run, seed: int) -> nn.Sequential:
    """The network after training: norms of gradients come from what enters and leaves each layer."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(x.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    first, second = network[0], network[2]
    optimizer = (SGD if run.optimizer == "SGD" else Adam)(network.parameters(), run.rate)
    squares = x.square().sum(1) + 1
    for _ in range(run.steps):
        drawn = torch.nonzero(torch.rand(len(x)) < LOT / ROWS).ravel()
        rows = x[drawn]
        hidden = torch.relu(first(rows))
        missed = torch.softmax(second(hidden), 1)
        missed[torch.arange(len(drawn)), y[drawn]] -= 1
        back = (missed @ second.weight) * (hidden > 0)
        norms = back.square().sum(1) * squares[drawn] + missed.square().sum(1) * (hidden.square().sum(1) + 1)
        factors = (run.clip / norms.sqrt()).clamp_max(1)[:, None]
        back, missed = back * factors, missed * factors
        torch.randn(len(optimizer.grad), out=optimizer.grad)
        optimizer.grad.mul_(run.noise * run.clip)
        sums = (back.T @ rows, back.sum(0), missed.T @ hidden, missed.sum(0))
        for parameter, part in zip(network.parameters(), sums, strict=True):
            parameter.grad.add_(part)
        optimizer.grad.div_(LOT)
        optimizer.step()
    return network


@torch.no_grad()
def accuracy(network: nn.Module, x: Tensor, y: Tensor) -> float:
    """The share of images that the network gets right."""
    return float((network(x).argmax(1) == y).double().mean())


def scores(title: str, runs: list[Run], found: dict[Any, list[float]]) -> None:
    """Each configuration with its accuracy, and the epsilon of its steps for each delta."""
    rows = []
    for run in runs:
        if fits := found.get(astuple(run)):
            costs = [f"{accounting.epsilon(run.events(), delta):.2f}" for delta in DELTAS]
            kind = (f"DP-{run.optimizer}", f"{run.noise:g}", f"{run.clip:g}", f"{run.rate:g}", f"{run.steps:,}")
            rows.append((*kind, run.components or "-", *costs, PRINTED_FOR.get(run, "-"), study.told(fits), len(fits)))
    columns = ("optimizer", "sigma", "C", "rate", "steps", "components", *(f"epsilon at {delta:g}" for delta in DELTAS))
    study.table((*columns, "accuracy (published)", "accuracy (here)", "seeds"), rows, f"### {title}")


if __name__ == "__main__":
    main()
