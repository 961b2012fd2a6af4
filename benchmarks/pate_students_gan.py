"""The four published students on images with planted label noise: accuracy, wrong labels found, seconds, hours to expect.

    python benchmarks/pate_students_gan.py --seeds 0 1 --epochs 25 --students pate co-teaching pate+ pate++

Labels of the first test images are made wrong at random (the published Fashion-MNIST run had 726 wrong of 2,200, a share of
0.33); the next test images are the unlabeled pool, and all the others measure. Hours are for 2,200 labels, 6,800 unlabeled
images and ``--hours-epochs`` epochs on the threads of this run.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.pate._images import Images, load_images
from sfumato.students._cleansing import CleansedStudent, PATEPlusPlus
from sfumato.students._coteaching import CoTeaching, PATEPlus
from sfumato.students._gan import GANStudent

STUDENTS = {"pate": GANStudent, "co-teaching": CoTeaching, "pate+": PATEPlus, "pate++": PATEPlusPlus}
WIDTHS = {"edges": (300, 150), "cnn": (32, 64, 128), "mlp": (300, 150)}
PUBLISHED_POOL = 6800


def main() -> None:
    """Print one line a student and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="fashion_mnist", choices=("fashion_mnist", "mnist"))
    parser.add_argument("--students", nargs="+", default=list(STUDENTS), choices=list(STUDENTS))
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--pool", type=int, default=4000)
    parser.add_argument("--noise", type=float, default=0.33, help="share of labels that are made wrong")
    parser.add_argument("--noise-rate", type=float, default=0.3, help="beta, the students' guess of it")
    parser.add_argument("--removal", type=float, default=0.318, help="tau of PATE++")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--hours-epochs", type=int, default=600)
    parser.add_argument("--network", default="edges", choices=sorted(WIDTHS))
    parser.add_argument("--learning-rate", type=float, default=GANStudent(10).learning_rate)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--as-published", action="store_true", help="with the faults of the published co-teaching code")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images = load_images(given.dataset, given.data_dir)
    print(
        f"{given.dataset}, {given.labels} labels, {given.noise:.0%} wrong, {given.pool} unlabeled, {given.epochs} epochs"
    )
    for seed in given.seeds:
        y, wrong = planted(images.test_y[: given.labels], given.noise, seed)
        for name in given.students:
            print(line(given, name, seed, images, y, wrong), flush=True)


def line(
    given: argparse.Namespace, name: str, seed: int, images: Images, y: NDArray[np.int64], wrong: NDArray[np.bool_]
) -> str:
    """Train one student and say what came of it."""
    settings = {"noise_rate": given.noise_rate, "as_published": given.as_published} if name != "pate" else {}
    settings |= {"removal": given.removal} if name == "pate++" else {}
    for shared in ("network", "epochs", "learning_rate", "device"):
        settings[shared] = getattr(given, shared)
    student = STUDENTS[name](images.num_classes, widths=WIDTHS[given.network], seed=seed, **settings)
    x, pool, held_out = np.split(images.test_x, [given.labels, given.labels + given.pool])
    wall, start = time.perf_counter(), time.process_time()
    trained = student.fit(x, y, pool)
    wall, seconds = time.perf_counter() - wall, time.process_time() - start
    accuracy = (trained.predict(held_out) == images.test_y[-len(held_out) :]).mean()
    hours = seconds / given.epochs * given.hours_epochs * PUBLISHED_POOL / max(len(x), len(pool)) / 3600
    fitted = (trained.predict(x) == y)[wrong].mean()
    text = f"seed {seed} {name:12s} accuracy {accuracy:.3f}, wrong labels learned {fitted:.3f}, {wall:6.1f} s, "
    text += f"{seconds / given.epochs:.2f} CPU s an epoch, {hours:.1f} CPU hours published"
    if isinstance(trained, CleansedStudent):
        text += f", of {len(trained.moved)} moved {wrong[trained.moved].mean():.3f} wrong"
    return text


def planted(labels: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Labels with an exact share made wrong, any other class alike, and which ones."""
    draw = np.random.default_rng([seed, 7])
    wrong = draw.permutation(len(labels)) < round(share * len(labels))
    return np.where(wrong, (labels + draw.integers(1, 10, len(labels))) % 10, labels), wrong


if __name__ == "__main__":
    main()
