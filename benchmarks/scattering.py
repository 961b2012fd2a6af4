"""Accuracy of private heads on scattering coefficients beside Tramer and Boneh (2021); prints Markdown.

    OMP_NUM_THREADS=1 python benchmarks/scattering.py [--seeds 3] [--head cnn] [--method] [--log FILE]

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
from sfumato.central._scattering import Scattering, coefficients
from sfumato.datasets.images import load_images
from sfumato.nn._training import Adam
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import RecordLevel

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

DELTA, UNIT, METHODS = 1e-5, RecordLevel(), {"linear": Scattering(), "cnn": Scattering(head="cnn")}
PUBLISHED = {
    "mnist": {
        1.2: ("98.1 ± 0.1", "97.8 ± 0.1"), 2.0: ("98.5", "98.4 ± 0.1"), 2.32: ("98.6", "98.5"), 2.5: ("98.7", "98.6"),
        2.93: ("98.7", "98.7 ± 0.1"),
    },
    "fashion_mnist": {2.7: ("89.5", "88.7 ± 0.1"), 3.0: ("89.7", "89.0 ± 0.1")},
}  # fmt: skip
"""By data set and epsilon: the published accuracy of ScatterNet with a linear and with a convolutional head, in percent."""


def main() -> None:
    """Train every row, seed by seed, and print the table."""
    given = study.options(__doc__, log="scattering.jsonl", seeds=3, datasets=PUBLISHED, method=False, head="linear")
    set_threads(None)
    kind = f"{given.head}, {'method' if given.method else 'seed'}"
    asked = (
        (name, epsilon, kind, seed)
        for name in given.datasets
        for seed in range(given.seeds)
        for epsilon in PUBLISHED[name]
    )
    at = list(METHODS).index(given.head)
    found = study.grouped(study.kept(given, asked, lambda *cell: measured(given, *cell)), 2)
    rows = (
        (*cell, PUBLISHED[cell[0]][cell[1]][at], study.told(fits, 100, 2), len(fits)) for cell, fits in found.items()
    )
    study.table(("data set", "epsilon", "accuracy (published)", kind, "fits"), rows)


def measured(given: Any, name: str, epsilon: float, kind: str, seed: int) -> float:
    """Test accuracy of one fit."""
    graph, method = load_images(name, given.data_dir), METHODS[given.head]
    if kind.endswith("method"):
        return study.accuracy(graph, study.fitted(method, Budget(epsilon, DELTA), UNIT, graph, seed))
    (release,) = method.calibrate(Budget(epsilon, DELTA), UNIT, graph.public_facts(UNIT)).releases
    return float_study(graph, method, release.event, seed)


def float_study(graph: Graph, method: Scattering, event: Any, seed: int) -> float:
    """Test accuracy of the same training in float32."""
    torch.manual_seed(seed)
    rows, y, head = coefficients(graph), torch.from_numpy(graph.y), method._build(graph.public_facts(UNIT))
    train, test = np.flatnonzero(graph.train_mask), np.flatnonzero(graph.test_mask)
    optimizer = Adam(head.parameters(), method.learning_rate)

    def loss(parameters: Any, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(torch.func.functional_call(head, parameters, x[None]), label[None])

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    for _ in range(event.steps):
        total = event.noise_multiplier * method.l2_clip_norm * torch.randn(len(optimizer.grad))
        drawn = train[torch.rand(len(train)).numpy() < event.sampling_prob]
        now = {name: one.detach() for name, one in head.named_parameters()}
        for part in np.array_split(drawn, 16):
            each = torch.cat([one.flatten(1) for one in gradients(now, rows.plain(part), y[part]).values()], 1)
            total += (method.l2_clip_norm / each.norm(dim=1)).clamp_max(1) @ each
        optimizer.grad.copy_(total / (event.sampling_prob * len(train)))
        optimizer.step()
    with torch.no_grad():
        return float((head(rows.plain(test)).argmax(1) == y[test]).double().mean())


if __name__ == "__main__":
    main()
