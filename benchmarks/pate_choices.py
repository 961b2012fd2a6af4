"""Students on training images alone: what their settings were chosen on.

python benchmarks/pate_choices.py [--data-dir DIR] [--dataset fashion_mnist] [--students NAME ...] [--seeds 1] [--threads 1]

210 teachers of training rows 15000 and later answer 2,200 of rows 0 to 8999, the pool; rows 9000 to 14999 measure. Noise is
what 250 teachers have in table 3.1 of the thesis, in proportion: `4.05` by GNMax, `5.04` by Confident-GNMax. No test image is
read. ``--students`` takes beginnings of names; the others are left out.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import torch

from sfumato.nn._metrics import accuracy
from sfumato.pate._aggregation import REFUSED, ConfidentGNMax, GNMax
from sfumato.pate._images import load_images
from sfumato.pate._kernel import KernelEnsemble
from sfumato.pate._plan import POOL, choose_queries
from sfumato.students._cleansing import PATEPlusPlus
from sfumato.students._consistency import STUDENT_SETTINGS, ConsistencyStudent
from sfumato.students._coteaching import CoTeaching, PATEPlus
from sfumato.students._gan import GANStudent

TEACHERS, TAUGHT, QUERIES = 210, 15_000, 2200
SHARE = TEACHERS / 250
NOISE = {
    "4.05": (GNMax(85.0 * SHARE), 0.2, 0.318),
    "5.04": (ConfidentGNMax(100.0 * SHARE, 200.0 * SHARE, 22.0 * SHARE), 0.1, 0.091),
}


def main() -> None:
    """Print a line a row of the table, student and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="fashion_mnist", choices=("fashion_mnist", "mnist"))
    parser.add_argument("--students", nargs="+", default=[""])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images = load_images(given.dataset, given.data_dir)
    x, y, measured = images.train_x, images.train_y, slice(POOL, TAUGHT)
    for seed in range(given.seeds):
        slanted = STUDENT_SETTINGS[given.dataset].get("slanted", False)
        ensemble = KernelEnsemble(TEACHERS, images.num_classes, slanted=slanted, seed=seed)
        votes = ensemble.fit(x[TAUGHT:], y[TAUGHT:], range(TAUGHT, len(y))).votes(x[:POOL])
        rows = choose_queries(QUERIES, seed)
        for name, (mechanism, beta, tau) in NOISE.items():
            answers = mechanism.aggregate(votes[rows], bytes([seed]) * 32).labels
            asked, labels = rows[answers != REFUSED], answers[answers != REFUSED]
            wrong = 1 - accuracy(y[asked], labels)
            print(f"{name} seed {seed}: {len(asked)} answers, {100 * wrong:.1f} % wrong", flush=True)
            for title, student in students(given, beta, tau, seed).items():
                if not title.startswith(tuple(given.students)):
                    continue
                torch.set_num_threads(given.threads)
                start = time.process_time()
                trained = student.fit(x[asked], labels, x[np.setdiff1d(np.arange(POOL), asked)])
                score, seconds = accuracy(y[measured], trained.predict(x[measured])), time.process_time() - start
                print(f"{name} seed {seed} {title:32} {100 * score:.2f} %, {seconds:.0f} s", flush=True)


def students(given: argparse.Namespace, beta: float, tau: float, seed: int) -> dict[str, Any]:
    """All students of a row, by name."""
    shared: dict[str, Any] = {"widths": (300, 150), "epochs": given.epochs, "seed": seed}
    made: dict[str, Any] = {"consistency": ConsistencyStudent(10, seed=seed, **STUDENT_SETTINGS[given.dataset])}
    for network in ("edges", "mlp"):
        made[f"gan, {network}"] = GANStudent(10, network, **shared)
        made[f"coteaching, {network}"] = CoTeaching(10, network, noise_rate=beta, **shared)
        made[f"pate-plus, {network}"] = PATEPlus(10, network, noise_rate=beta, **shared)
        for title, per_class in (("pate-plus-plus", True), ("pate-plus-plus of all alike", False)):
            removing = {"removal": tau, "per_class": per_class}
            made[f"{title}, {network}"] = PATEPlusPlus(10, network, noise_rate=beta, **removing, **shared)
    return made


if __name__ == "__main__":
    main()
