"""Teachers trained together against the same teachers trained one after another, in one run.

python benchmarks/pate_teachers.py [--data-dir DIR] [--dataset mnist] [--teachers 25] [--steps 60] [--threads 1]
    [--network cnn|mlp] [--batch-size 24]

Each teacher has the records that it has among 250. `together` is in stacks; `one ensemble a teacher` is the same code with one
member; `plain torch` is the same network and the same number of rows through torch.nn layers, without augmentation. The last line
extrapolates to 250 teachers and the settings' own number of steps; the accuracy is that of so few steps and teachers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from sfumato.pate._ensemble import IMAGE_SETTINGS, Ensemble, TorchTeacher
from sfumato.pate._images import load_images
from sfumato.pate._teachers import assign, train_each

ALL = 250
WIDTHS = {"cnn": (16, 32), "mlp": (32,)}


def main() -> None:
    """Print seconds, ratios and an extrapolation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="mnist", choices=sorted(IMAGE_SETTINGS))
    parser.add_argument("--teachers", type=int, default=25)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--network", default="cnn", choices=list(WIDTHS))
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images = load_images(given.dataset, given.data_dir)
    ids = np.flatnonzero(assign(np.arange(len(images.train_y)), ALL) < given.teachers)
    x, y = images.train_x[ids], images.train_y[ids]
    settings = Ensemble(
        given.teachers,
        images.num_classes,
        network=given.network,
        widths=WIDTHS[given.network],
        steps=given.steps,
        batch_size=given.batch_size,
        **IMAGE_SETTINGS[given.dataset],
    )

    trained, together = timed(lambda: settings.fit(x, y, ids))
    votes, asking = timed(lambda: trained.votes(images.test_x[:1000]))
    one = replace(settings, num_teachers=1)
    parts = assign(ids, given.teachers)
    _, apart = timed(lambda: [one.fit(x[parts == t], y[parts == t], ids[parts == t]) for t in range(given.teachers)])
    _, plain = timed(
        lambda: train_each(
            lambda teacher: TorchTeacher(
                network(settings), steps=given.steps, batch_size=given.batch_size, seed=teacher
            ),
            x,
            y,
            ids,
            num_teachers=given.teachers,
            num_classes=images.num_classes,
        )
    )
    whole = together * ALL / given.teachers * Ensemble(1, 2).steps / given.steps
    print(f"{given.teachers} teachers, {given.steps} steps of {settings.batch_size} rows, {given.threads} threads")
    print(f"together               {together:7.2f} s")
    print(f"one ensemble a teacher {apart:7.2f} s, {apart / together:.2f} times")
    print(f"plain torch            {plain:7.2f} s, {plain / together:.2f} times")
    print(
        f"1000 queries           {asking:7.2f} s, plurality right {(votes.argmax(1) == images.test_y[:1000]).mean():.4f}"
    )
    answers = asking * 9 * ALL / given.teachers
    print(
        f"{ALL} teachers, {Ensemble(1, 2).steps} steps: {whole / 60:.1f} minutes; 9000 queries: {answers / 60:.1f} minutes"
    )


def network(settings: Ensemble) -> nn.Module:
    """The ensemble's network for one teacher, from plain layers."""
    if settings.network == "mlp":
        (width,) = settings.widths
        return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, settings.num_classes))
    a, b = settings.widths
    return nn.Sequential(
        nn.Conv2d(1, a, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(a, b, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36 * b, settings.num_classes),
    )


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds it took."""
    start = time.perf_counter()
    return run(), time.perf_counter() - start


if __name__ == "__main__":
    main()
