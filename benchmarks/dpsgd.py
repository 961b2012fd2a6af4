"""DP-SGD after Abadi et al. (2016): epsilon by epoch; accuracy on MNIST by noise, clipping norm, optimizer; writes Markdown.

    OMP_NUM_THREADS=1 python benchmarks/dpsgd.py [--seeds 1] [--out docs/results] [--log FILE] [--data-dir DIR]
    OMP_NUM_THREADS=1 python benchmarks/dpsgd.py --rates

The network has 1,000 hidden units with ReLU. It reads pixels, or 60 noisy principal components of the training images, as in the
paper. A lot holds each of the 60,000 images with probability 0.01; gradients are clipped to C over
all parameters jointly. Plain descent has the learning rate 0.05 of the paper, Adam 0.001; runs whose noise is calibrated to an
epsilon have the rate that was best of three with ``--rates``, at epsilon 2 on the last 10,000 training images, learning from the
other 50,000. No epoch is chosen: the last iterate is scored. Coins and noise come from Torch's generator, and sums are rounded in
float32: a study of accuracy, which certifies nothing. With ``--log``, a run that was stopped goes on where it was; ``--seeds 0``
writes what is known.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from sfumato._threads import set_threads
from sfumato.datasets.images import load_images
from sfumato.experiments._pages import stamped
from sfumato.nn._training import SGD, Adam
from sfumato.privacy import accounting
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent
from sfumato.report._drawing import MARKERS, PALETTE, Figure, canvas, finish, legend, style
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Items, Page, Section, Table

ROWS, PIXELS, WIDTH, CLASSES, LOT = 60_000, 784, 1000, 10, 600
RATE, RATES = 0.5, (0.1, 0.25, 0.5)
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
Found = dict[Run, dict[int, float]]


def main() -> None:
    """Write the epsilons, then train every configuration, seed by seed, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--log", type=Path, help="keeps what was found; nothing in it is trained again")
    parser.add_argument("--rates", action="store_true", help="compare rates on the last 10,000 training images")
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    found = before(options.log)
    curves = epsilons()
    write(options, found, curves)
    graph = load_images("mnist", options.data_dir)
    assert graph.y is not None
    x, y = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
    if options.rates:
        for rate in RATES:
            network = trained(x[:50_000], y[:50_000], calibrated(2, rate), 0)
            print(f"rate {rate:g}: {accuracy(network, x[50_000:ROWS], y[50_000:ROWS]):.4f}", flush=True)
        return
    for seed, run in product(range(options.seeds), found):
        if seed not in found[run]:
            start = time.perf_counter()
            seen = projected(x, run.components, seed) if run.components else x
            network = trained(seen[:ROWS], y[:ROWS], run, seed)
            found[run][seed] = accuracy(network, seen[ROWS:], y[ROWS:])
            print(f"seed {seed}, {run}: {found[run][seed]:.4f} in {time.perf_counter() - start:.0f} s", flush=True)
            if options.log is not None:
                with options.log.open("a") as file:
                    file.write(json.dumps([asdict(run), seed, found[run][seed]]) + "\n")
        write(options, found, curves)


def before(log: Path | None) -> Found:
    """All configurations, with what an earlier run found."""
    found: Found = {run: {} for run in (*CALIBRATED, *PROJECTED, *CLIPS, *NOISES, *OPTIMIZERS)}
    for line in log.read_text().splitlines() if log is not None and log.exists() else ():
        run, seed, value = json.loads(line)
        found[Run(**run)][seed] = value
    return found


def write(options: argparse.Namespace, found: Found, curves: dict[str, list[float]]) -> None:
    """Write the page with its figure."""
    made = page(found, curves)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "dpsgd.md").write_text(stamped(to_markdown(made)))
    for figure in made.figures():
        (options.out / f"{figure.name}.svg").write_text(figure.alone())


def epsilons(noise: float = 4.0, delta: float = 1e-5) -> dict[str, list[float]]:
    """Epsilon after each number of epochs, by method."""
    runs = [PoissonGaussianEvent(LOT / ROWS, noise, epochs * ROWS // LOT) for epochs in EPOCHS]
    return {
        "strong composition": [strong_composition(run.sampling_prob, noise, run.steps, delta) for run in runs],
        "moments": [accounting.epsilon([run], delta, method="moments") for run in runs],
        "exact": [accounting.epsilon([run], delta) for run in runs],
    }


def strong_composition(sampling_prob: float, noise: float, steps: int, delta: float) -> float:
    """The comparison of 2016, which is no guarantee: :mod:`sfumato.privacy.composition` says which steps have no proof."""
    step_delta = delta / 2 / (sampling_prob * steps)
    step = sampling_prob * math.sqrt(2 * math.log(1.25 / step_delta)) / noise
    return math.sqrt(2 * steps * math.log(2 / delta)) * step + steps * step**2


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


def page(found: Found, curves: dict[str, list[float]]) -> Page:
    """The page of what was found so far."""
    seeds = max(map(len, found.values()))
    rows = tuple((str(epoch), *(f"{curves[name][i]:.3f}" for name in METHODS)) for i, epoch in enumerate(EPOCHS))
    caption = "Epsilon of DP-SGD with q = 0.01, sigma = 4, delta 1e-5; printed for 100 epochs: 9.34 and 1.26"
    by_epoch = (figure(curves), Table("epsilons", caption, ("epochs", *METHODS), rows), NOTE)
    sections = [Section("epsilon", "Epsilon by epoch", by_epoch)]
    if any(found[run] for run in CALIBRATED):
        sections.append(scores("budget", "Accuracy by epsilon", [*CALIBRATED, *PROJECTED], found, BUDGET))
    if any(found[run] for run in CLIPS):
        sections.append(scores("clip", "Clipping norm", CLIPS, found))
    if any(found[run] for run in (*NOISES, *OPTIMIZERS)):
        sections.append(scores("noise", "Noise and optimizer", NOISES + OPTIMIZERS, found))
    sections.append(Section("gaps", "What was not run", (GAPS,)))
    again = Code(f"python benchmarks/dpsgd.py --seeds {max(seeds, 1)}")
    return Page(
        "DP-SGD on MNIST",
        "M. Abadi et al. (2016), Deep Learning with Differential Privacy, sections 4 and 5. Accuracies are a study in float32 "
        "with noise of a common generator, which certifies nothing: lots of 600, a network with 1,000 hidden units that reads "
        "pixels, for up to 1,000 steps, or 60 noisy principal components, as in the paper, for up to 40,000; on the 10,000 test "
        "images.",
        (*sections, Section("again", "Run it again", (again,))),
    )


NOTE = Items(
    (
        "Strong composition is the comparison of 2016: its steps have no proof at this noise (sfumato.privacy.composition). "
        "Moments is the accountant of 2016. Exact: privacy loss distributions of Poisson sampling, one image added or removed.",
    )
)


BUDGET = Items(
    (
        "Printed at epsilon 0.5 / 2 / 8 and delta 1e-5: "
        + " / ".join(PRINTED.values())
        + " %, with up to 40,000 steps, 60 private principal components and the accountant of 2016.",
        "The rate of 0.5 was chosen on the last 10,000 training images (--rates), at a cost that no epsilon here has.",
        "On pixels 500 steps do not reach the printed 95 and 97 % at epsilon 2 and 8, and less noise hardly helps. With the "
        "steps of the paper and 60 principal components the distance is less than 2 points, at a smaller epsilon. Method "
        "scattering reaches 98 % at epsilon 1.2.",
    )
)
GAPS = Items(
    (
        f"Rates above {RATE:g} on pixels, the largest of {', '.join(map(str, RATES))} that were compared (89.8, 91.3 and 92.4 % "
        "in this order): a larger one may be better.",
        "CIFAR-10 at epsilon 2 / 4 / 8: no copy of the images was at hand (data set cifar10 reads them), and the network with "
        "two convolutions was not built for it.",
    )
)


def scores(key: str, title: str, runs: list[Run], found: Found, *notes: Items) -> Section:
    """Each configuration with its accuracy, and the epsilon of its steps for each delta."""
    rows = []
    for run in runs:
        if found[run]:
            costs = [f"{accounting.epsilon(run.events(), delta):.2f}" for delta in DELTAS]
            kind = (f"DP-{run.optimizer}", f"{run.noise:g}", f"{run.clip:g}", f"{run.rate:g}", f"{run.steps:,}")
            score = (PRINTED_FOR.get(run, "-"), mean([*found[run].values()]), str(len(found[run])))
            rows.append((*kind, str(run.components or "-"), *costs, *score))
    deltas = [f"epsilon at {delta:g}" for delta in DELTAS]
    reads, score = "components", ("accuracy (printed)", "accuracy (here)", "seeds")
    columns = ("optimizer", "sigma", "C", "rate", "steps", reads, *deltas, *score)
    table = Table(key, "Lots of 600 images on average", columns, tuple(rows), text=("optimizer",))
    return Section(key, title, (table.without_empty(), *notes))


def mean(values: list[float]) -> str:
    """With half the width of its 95 % t-interval, in percent."""
    if len(values) < 2:
        return f"{100 * values[0]:.1f}"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{100 * np.mean(values):.1f} ± {100 * half:.1f}"


def figure(curves: dict[str, list[float]]) -> Figure:
    """Epsilon against epochs."""
    title = "Epsilon of DP-SGD by epoch"
    with style():
        drawn, axes = canvas(3.4)
        handles = []
        for i, name in enumerate(METHODS):
            handles += axes.plot(EPOCHS, curves[name], color=PALETTE[i], marker=MARKERS[i])
        axes.set_xlabel("epochs")
        axes.set_ylabel("epsilon")
        axes.set_ylim(bottom=0)
        legend(drawn, handles, [*METHODS])
        at = EPOCHS.index(100)
        words = "; ".join(
            f"{name}: {curves[name][at]:.2f} after 100 epochs, {curves[name][-1]:.2f} after 400" for name in METHODS
        )
        return finish(drawn, "dpsgd-epsilon", title, f"{title}, q = 0.01, sigma = 4, delta 1e-5. {words}.")


if __name__ == "__main__":
    main()
