"""What PATE costs and what its labels are worth, where no student is trained: prints Markdown.

    python benchmarks/pate_tables.py [--teachers 10 25 50 100 250 500]

Table 3.4 of the thesis has no accuracy here, for the images of SVHN are absent: its epsilons, from the official votes. Then the
trade-offs of PATE on MNIST: labels and cost against the noise (official votes), and against the number of teachers (kernel
teachers, trained here).
"""

from pathlib import Path

import numpy as np
import study
import torch
from numpy.typing import NDArray

from sfumato.pate._aggregation import REFUSED, ConfidentGNMax, GNMax, LNMax, Mechanism
from sfumato.pate._analysis import analyze
from sfumato.pate._data_dependent import log_answer_probability
from sfumato.pate._images import Images, load_images
from sfumato.pate._kernel import KernelEnsemble
from sfumato.pate._plan import POOL
from sfumato.pate._votes import Votes, read_votes

DELTA, SVHN_DELTA = 1e-5, 1e-6
ANSWERS = 3000
LESS = 3.96
EVALUATED = ((5.04, LNMax(20.0), 500), (8.19, LNMax(20.0), 1000), (4.96, ConfidentGNMax(300.0, 200.0, 40.0), 8500))
"""Of SVHN: epsilon as printed in the papers of PATE, mechanism, queries."""
PUBLISHED = ConfidentGNMax(300.0, 200.0, 40.0)
THRESHOLD_NOISE, COSTS = (200.0, 300.0), ("As published", "Proved", "Data-independent")
HUMP = 60.0  # about where the data-dependent bound has worn off
NOISE = np.array([5.0, 10.0, 20.0, 40.0, 80.0, 160.0])
ASKED = 1000
SHARE = 0.16  # noise of GNMax as a share of the teachers: 40 of 250
DRAWS = 3


def main() -> None:
    """Print the tables."""
    given = study.options(__doc__, teachers=(10, 25, 50, 100, 250, 500))
    torch.set_num_threads(1)
    folder, images = Path(given.data_dir) / "pate_votes", load_images("mnist", given.data_dir)
    official = read_votes(folder / "mnist_250_teachers.npy")
    svhn(read_votes(folder / "svhn_250_teachers.npy"))
    noise(official, images.test_y[:POOL])
    ensembles = [(f"{count}, kernel", trained(images, count)) for count in given.teachers]
    teachers([*ensembles, ("250, official", official)], images.test_y[:POOL])


def svhn(votes: Votes) -> None:
    """Published parameters, what noise gives the smaller published epsilon, and what the papers of PATE print."""
    found = [
        ("published", PUBLISHED),
        *((f"searched for {LESS:g}", searched(votes, first)) for first in THRESHOLD_NOISE),
    ]
    lines, published = [], []
    for name, one in found:
        rows = first_rows(votes, one.threshold_stddev)
        noise = f"{one.threshold:g}", f"{one.threshold_stddev:g}", f"{one.noise_stddev:.1f}"
        lines.append((name, *noise, len(rows), f"{100 * kept(rows, one):.1f}", *costs(rows, one, SVHN_DELTA)))
    for value, one, count in EVALUATED:
        rows = votes[:count]
        published.append((one.name, count, f"{100 * kept(rows, one):.1f}", f"{value:g}", *costs(rows, one, SVHN_DELTA)))
    heads = ("Noise", "T", "Sigma 1", "Sigma 2", "Queries", "Equal to plurality, %", *COSTS)
    study.table(
        heads, lines, f"### Table 3.4: {ANSWERS} expected answers to the first rows of SVHN, delta {SVHN_DELTA:g}"
    )
    study.table(("Mechanism", "Queries", "Equal to plurality, %", "Published", *COSTS), published)


def noise(votes: Votes, truth: NDArray[np.int64]) -> None:
    """Labels and cost of the first thousand rows against the noise."""
    rows = (
        (one.name, f"{b:g}", f"{right(votes, one, truth):.2f}", *costs(votes[:ASKED], one, DELTA))
        for make in (LNMax, GNMax) for b in NOISE for one in [make(b)]
    )  # fmt: skip
    study.table(("Mechanism", "Noise", "Right", *COSTS), rows, f"### Noise: {ASKED} answers at delta {DELTA:g}")


def teachers(ensembles: list[tuple[str, Votes]], truth: NDArray[np.int64]) -> None:
    """Labels and cost against the number of teachers, at the same noise and at noise that grows with them."""
    rows = []
    for name, votes in ensembles:
        count, top = int(votes[0].sum()), np.sort(votes, axis=1)[:, -2:]
        gap, best = float((top[:, 1] - top[:, 0]).mean()) / count, right(votes, None, truth)
        for one in (GNMax(40.0), GNMax(SHARE * count)) if count != 250 else (GNMax(40.0),):
            shown = (f"{gap:.3f}", f"{best:.2f}", f"{one.noise_stddev:g}", f"{right(votes, one, truth):.2f}")
            rows.append((name, *shown, *costs(votes[:ASKED], one, DELTA)))
    study.table(
        ("Teachers", "Gap", "Plurality right", "Noise", "Right", *COSTS), rows, "### Number of teachers (MNIST)"
    )


def costs(votes: Votes, mechanism: Mechanism, delta: float) -> tuple[str, str, str]:
    """Epsilon as published, as proved, and data-independent."""
    proved = analyze(votes, mechanism, delta)
    published = analyze(votes, mechanism, delta, as_published=True).epsilon
    return f"{published:.4f}", f"{proved.epsilon:.4f}", f"{proved.data_independent:.4f}"


def searched(every: Votes, first: float) -> ConfidentGNMax:
    """The sigma 2 beyond the hump at which the papers' accounting gives the smaller published epsilon, by bisection."""
    low, high, votes = HUMP, 4 * HUMP, first_rows(every, first)
    for _ in range(9):
        middle = (low * high) ** 0.5
        cost = analyze(votes, ConfidentGNMax(PUBLISHED.threshold, first, middle), SVHN_DELTA, as_published=True).epsilon
        low, high = (middle, high) if cost > LESS else (low, middle)
    return ConfidentGNMax(PUBLISHED.threshold, first, high)


def first_rows(votes: Votes, first: float) -> Votes:
    """As many first rows as give the expected answers."""
    passed = np.exp(log_answer_probability(votes.max(axis=1).astype(np.float64), PUBLISHED.threshold, first)[0])
    return votes[: int(np.searchsorted(passed.cumsum(), ANSWERS)) + 1]


def kept(votes: Votes, mechanism: Mechanism) -> float:
    """The share of answers that equal the plurality."""
    labels = mechanism.aggregate(votes).labels
    given = labels != REFUSED
    return float((labels[given] == votes[given].argmax(1)).mean())


def right(votes: Votes, mechanism: Mechanism | None, truth: NDArray[np.int64]) -> float:
    """Percent of labels that are right, over some draws; of the plurality without a mechanism."""
    if mechanism is None:
        return 100 * float((votes.argmax(1) == truth).mean())
    return 100 * float(np.mean([mechanism.aggregate(votes).labels == truth for _ in range(DRAWS)]))


def trained(images: Images, count: int) -> Votes:
    """Votes of an ensemble of this many teachers on the public pool."""
    ensemble = KernelEnsemble(count, images.num_classes, slanted=True)
    return ensemble.fit(images.train_x, images.train_y, range(len(images.train_y))).votes(images.test_x[:POOL])


if __name__ == "__main__":
    main()
