"""DP-SGD on MNIST with lots of 600, 6,000 and 60,000 images, after table 4 of Igamberdiev and Habernal (2022); prints Markdown.

    OMP_NUM_THREADS=1 python benchmarks/lots.py [--seeds 1] [--passes 100] [--log FILE] [--data-dir DIR]

The network is 784-512-10 with ReLU and dropout of one half. Each image's gradient is clipped to norm 1 over all parameters
jointly; a lot holds each image with probability lot / 60,000; noise of standard deviation ``noise`` is added to the sum, which is
divided by the lot; steps are plain descent. The learning rate 0.01 is the paper's (appendix A). It prints no number of steps: 100
passes give its epsilons (``tests/golden/test_graph_split.py``). There is no early stopping: it would read labels.

Beside the published rows stand lots with a learning rate in proportion to them, so that all go the same way in fewer, larger
steps (a rule, not a choice: nothing was tuned), lots that are trained as the authors' code trains graphs (nothing is clipped, and
noise is added to the mean of the gradients), and lots with neither clipping nor noise, at the printed rate. Coins and noise
come from Torch's generator, and sums are rounded in float32: this is a study of accuracy, which certifies nothing. A
configuration takes three to six minutes of one free core.
"""

from dataclasses import astuple, dataclass
from typing import Any

import study
import torch
from torch import Tensor, nn

from sfumato._threads import set_threads
from sfumato.pate._images import load_images
from sfumato.privacy import accounting
from sfumato.privacy.events import PoissonGaussianEvent

ROWS, PIXELS, WIDTH, CLASSES = 60_000, 784, 512, 10
CLIP, DELTA, DROPOUT, CHUNK = 1.0, 1e-5, 0.5, 2048
PUBLISHED = {
    (600, 4): "1.26 | 90 ± 2", (6000, 4): "4.24 | 84 ± 1", (60000, 4): "15.13 | 45 ± 4", (60000, 50): "0.98 | 39 ± 15",
    (60000, 100): "0.50 | 10 ± 1",
}  # fmt: skip
"""By lot and noise: the printed epsilon, the printed score and its standard deviation in percent."""


@dataclass(frozen=True)
class Run:
    """A configuration. Without ``private`` nothing is clipped, and noise is added to the mean of the gradients, not the sum."""

    lot: int
    noise: float
    learning_rate: float = 0.01
    private: bool = True

    def steps(self, passes: int) -> int:
        return round(passes * ROWS / self.lot)

    def epsilon(self, passes: int, accountant: str) -> str:
        if not self.private:
            return "-"
        event = PoissonGaussianEvent(self.lot / ROWS, self.noise, self.steps(passes))
        return f"{accounting.epsilon([event], DELTA, method=accountant):.2f}"


TABLE = [Run(lot, noise) for lot, noise in PUBLISHED]
SCALED = [Run(lot, noise, 0.01 * lot / 600) for lot, noise in PUBLISHED if lot > 600]
LOOP = [Run(lot, noise, private=False) for lot, noise in PUBLISHED]
SECTIONS = {
    "As published": TABLE,
    "As the authors' code trains graphs: no clipping, noise on the mean": LOOP,
    "Learning rate in proportion to the lot": SCALED,
    "Neither clipping nor noise": [Run(lot, 0, private=False) for lot in (60000, 6000, 600)],
}


def main() -> None:
    """Train every configuration, seed by seed, and print the tables."""
    given = study.options(__doc__, log="lots.jsonl", seeds=1, passes=100)
    set_threads(None)
    asked = (
        (*astuple(run), given.passes, seed) for seed in range(given.seeds) for runs in SECTIONS.values() for run in runs
    )
    found = study.grouped(study.kept(given, asked, lambda *cell: measured(cell, given.data_dir)), -2)
    for title, runs in SECTIONS.items():
        section(title, runs, found, given.passes)


def measured(cell: tuple[Any, ...], data_dir: str) -> float:
    """Test accuracy of a configuration and a seed."""
    *parts, passes, seed = cell
    run, images = Run(*parts), load_images("mnist", data_dir)
    x, test_x = (torch.from_numpy(part.reshape(len(part), -1)) for part in (images.train_x, images.test_x))
    y, test_y = (torch.from_numpy(part) for part in (images.train_y, images.test_y))
    return accuracy(trained(x, y, run, run.steps(passes), seed), test_x, test_y)


@torch.no_grad()
def trained(x: Tensor, y: Tensor, run: Run, steps: int, seed: int) -> list[nn.Linear]:
    """The two layers after training."""
    torch.manual_seed(seed)
    layers = [nn.Linear(PIXELS, WIDTH), nn.Linear(WIDTH, CLASSES)]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    for _ in range(steps):
        drawn = torch.nonzero(torch.rand(len(x)) < run.lot / ROWS).ravel()
        sums = [torch.zeros_like(parameter) for parameter in parameters]
        for chunk in drawn.split(CHUNK):
            add_gradients(layers, x[chunk], y[chunk], sums, clipped=run.private)
        for parameter, part in zip(parameters, sums, strict=True):
            noise = run.noise * (CLIP if run.private else run.lot) * torch.randn_like(part)
            parameter -= (part + noise) * (run.learning_rate / run.lot)
    return layers


def add_gradients(layers: list[nn.Linear], x: Tensor, y: Tensor, sums: list[Tensor], *, clipped: bool) -> None:
    """Add the gradients of some images; their norms come from what enters and leaves each layer."""
    first, second = layers
    kept = (torch.rand(len(x), WIDTH) >= DROPOUT).float() / (1 - DROPOUT)
    hidden = torch.relu(first(x)) * kept
    missed = torch.softmax(second(hidden), 1)
    missed[torch.arange(len(y)), y] -= 1
    back = (missed @ second.weight) * kept * (hidden > 0)
    if clipped:
        pairs = ((back, x), (missed, hidden))
        squares = sum(left.square().sum(1) * (1 + entering.square().sum(1)) for left, entering in pairs)
        factors = (CLIP / torch.as_tensor(squares).sqrt()).clamp_max(1)[:, None]
        back, missed = back * factors, missed * factors
    for total, part in zip(sums, (back.T @ x, back.sum(0), missed.T @ hidden, missed.sum(0)), strict=True):
        total += part


@torch.no_grad()
def accuracy(layers: list[nn.Linear], x: Tensor, y: Tensor) -> float:
    """The share of images that the network without dropout gets right."""
    return float((layers[1](torch.relu(layers[0](x))).argmax(1) == y).double().mean())


def section(title: str, runs: list[Run], found: dict[Any, list[float]], passes: int) -> None:
    """Each configuration that was run, with both epsilons and both accuracies."""
    heads = [f"epsilon ({one})" for one in ("published", "2016", "exact")]
    heads += ["accuracy (published)", "accuracy (here)", "seeds"]
    rows = []
    for run in runs:
        if fits := found.get(astuple(run)):
            epsilon, score = (PUBLISHED[run.lot, int(run.noise)] if run in TABLE + LOOP else "- | -").split(" | ")
            cells = (f"{run.lot:,}", f"{run.noise:g}", f"{run.learning_rate:g}", f"{run.steps(passes):,}")
            costs = (epsilon, run.epsilon(passes, "moments"), run.epsilon(passes, "best"))
            rows.append((*cells, *costs, score, study.told(fits), len(fits)))
    study.table(("lot", "noise", "learning rate", "steps", *heads), rows, f"### {title}")


if __name__ == "__main__":
    main()
