"""Accuracy of private logistic regression on scattering coefficients beside Tramer and Boneh (2021); prints Markdown.

    OMP_NUM_THREADS=1 python benchmarks/scattering.py [--seeds 3] [--method] [--log FILE]

All 60,000 training images are private, delta is 1e-5, noise is found by exact accounting, and settings are the defaults of
method ``scattering``. Rows of seeds are a study in float32: clipping and sampling are those of the method, but coins and noise
come from Torch's generator. With ``--method`` the method itself is fitted, with secret noise on exact sums, as often as
``--seeds`` says. Test images are read at the end of each fit and choose nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import study
import torch
from torch.nn import functional

from sfumato._threads import set_threads
from sfumato.central._heads import zero_head
from sfumato.central._scattering import Scattering, coefficients
from sfumato.datasets.images import load_images
from sfumato.nn._training import Adam
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.privacy.units import RecordLevel

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

DELTA, UNIT, METHOD = 1e-5, RecordLevel(), Scattering()
PUBLISHED = {
    "mnist": {1.2: "98.1 ± 0.1", 2.0: "98.5", 2.32: "98.6", 2.5: "98.7", 2.93: "98.7"},
    "fashion_mnist": {2.7: "89.5", 3.0: "89.7"},
}
"""By data set and epsilon: the published accuracy of ScatterNet with a linear head, in percent."""


def main() -> None:
    """Train every row, seed by seed, and print the table; or print the ratio of steps."""
    given = study.options(__doc__, log="scattering.jsonl", seeds=3, datasets=PUBLISHED, method=False)
    set_threads(None)
    kind = "method" if given.method else "seed"
    asked = (
        (name, epsilon, kind, seed)
        for name in given.datasets
        for seed in range(given.seeds)
        for epsilon in PUBLISHED[name]
    )
    found = study.grouped(study.kept(given, asked, lambda *cell: measured(given, *cell)), 2)
    rows = ((*cell, PUBLISHED[cell[0]][cell[1]], study.told(fits, 100, 2), len(fits)) for cell, fits in found.items())
    study.table(("data set", "epsilon", "accuracy (published)", kind, "fits"), rows)


def measured(given: Any, name: str, epsilon: float, kind: str, seed: int) -> float:
    """Test accuracy of one fit."""
    graph = load_images(name, given.data_dir)
    if kind == "seed":
        return float_study(graph, epsilon, seed)
    return study.accuracy(graph, study.fitted(METHOD, Budget(epsilon, DELTA), UNIT, graph, seed))


def event_of(graph: Graph, epsilon: float) -> PoissonGaussianEvent:
    """The DP-SGD run that this epsilon pays for."""
    (release,) = METHOD.calibrate(Budget(epsilon, DELTA), UNIT, graph.public_facts(UNIT)).releases
    assert isinstance(release.event, PoissonGaussianEvent)
    return release.event


@torch.no_grad()
def float_study(graph: Graph, epsilon: float, seed: int) -> float:
    """Test accuracy of the same training in float32."""
    torch.manual_seed(seed)
    event, rows, y = event_of(graph, epsilon), coefficients(graph), torch.from_numpy(graph.y)
    train, test = np.flatnonzero(graph.train_mask), np.flatnonzero(graph.test_mask)
    head = zero_head(rows.matrix.shape[1], graph.num_classes)
    optimizer = Adam(head.parameters(), METHOD.learning_rate)
    for _ in range(event.steps):
        drawn = train[torch.rand(len(train)).numpy() < event.sampling_prob]
        x = rows.plain(drawn)
        missed = torch.softmax(head(x), 1) - functional.one_hot(y[drawn], graph.num_classes)
        missed *= (METHOD.l2_clip_norm / (missed.norm(dim=1) * rows.norms[drawn])).clamp_max(1).float()[:, None]
        total = torch.cat([(missed.T @ x).reshape(-1), missed.sum(0)])
        total += event.noise_multiplier * METHOD.l2_clip_norm * torch.randn_like(total)
        optimizer.grad.copy_(total / (event.sampling_prob * len(train)))
        optimizer.step()
    return float((head(rows.plain(test)).argmax(1) == y[test]).double().mean())


if __name__ == "__main__":
    main()
