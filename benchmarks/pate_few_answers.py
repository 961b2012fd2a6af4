"""Classes that neighbors give to all images when answers are few, or a class has one right answer: how much is PRIOR worth?

python benchmarks/pate_few_answers.py [--data-dir DIR] [--datasets NAME ...] [--priors 0 10 1000] [--seeds 3]

Four sets of images, none of them test images of PATE: training rows 0 to 8999 of MNIST and Fashion-MNIST, on which PRIOR was
chosen, and as other families the 1,797 digits of scikit-learn, enlarged to 28 x 28, and 400 faces of 40 people (ORL), reduced
to it. Answers are true classes, some replaced by a class drawn uniformly, which may be the true one:

* `one of a class`: of one class, drawn anew each time, one right answer is left;
* `half the classes`: from a pool that has images of half the classes alone;
* `skewed`: from a pool in which each class has 0.7 times as many images as the one before, at least 20.

A line has the accuracy on images without an answer and on those with one, and the share that is found of the class with one right
answer (means over seeds).
"""

from __future__ import annotations

import numpy as np
import study
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

from sfumato.evaluation._source import Source
from sfumato.pate._images import load_images
from sfumato.pate._plan import POOL
from sfumato.students import _neighborhood as neighborhood
from sfumato.students._histograms import edge_histograms, upright

# Answers, and the share of them that is replaced.
ASKED = {
    "100": (100, 0.03),
    "100, one of a class": (100, 0.03),
    "100, half the classes": (100, 0.1),
    "300, skewed": (300, 0.03),
    "300, skewed and noisy": (300, 0.2),
    "2200, noisy": (2200, 0.3),
}


def main() -> None:
    """Print a row for each set of images, situation and prior."""
    given = study.options(
        __doc__, datasets=("mnist", "fashion_mnist", "digits", "faces"), priors=(0.0, 10.0, 1000.0), seeds=3
    )
    torch.set_num_threads(1)
    lines = []
    for name in given.datasets:
        rows, y = described(name, given.data_dir)
        for title, (count, _) in ASKED.items():
            if count <= len(y) / (4 if "half" in title else 2):
                for prior in given.priors:
                    neighborhood.PRIOR = prior
                    scores = zip(*(measured(rows, y, title, seed) for seed in range(given.seeds)), strict=True)
                    lines.append((name, title, f"{prior:g}", *map(study.told, scores)))
    study.table(("images", "answers", "prior", "others right, %", "answered", "of the class"), lines)


def measured(rows: torch.Tensor, y: np.ndarray, title: str, seed: int) -> tuple[float, float, float]:
    """Accuracy on images without an answer and on those with one, and the share found of a class with one right answer."""
    (count, wrong), classes, draw = ASKED[title], int(y.max()) + 1, np.random.default_rng(seed)
    pool = skewed(y, draw) if "skewed" in title else draw.permutation(len(y))
    pool = pool[y[pool] < classes // 2] if "half" in title else pool
    rare = int(draw.integers(classes)) if "one" in title else None
    asked = chosen(pool, y, count, rare)
    rest = np.setdiff1d(pool, asked)
    labels = np.where(draw.random(len(asked)) < wrong, draw.integers(classes, size=len(asked)), y[asked])
    labels = np.where(y[asked] == rare, y[asked], labels)
    ids = np.concatenate([asked, rest])
    right = neighborhood.label_all(rows[ids], torch.from_numpy(labels), classes, seed=seed).numpy() == y[ids]
    own, others = right[: len(asked)], right[len(asked) :]
    return others.mean(), own.mean(), others[y[rest] == rare].mean() if rare is not None else np.nan


def described(name: str, data_dir: str) -> tuple[torch.Tensor, np.ndarray]:
    """Histograms of edges and classes of a set of images."""
    if name in ("mnist", "fashion_mnist"):
        images = load_images(name, data_dir)
        x, y = torch.from_numpy(images.train_x[:POOL]), images.train_y[:POOL]
    elif name == "digits":
        images = load_digits()
        x, y = torch.from_numpy(images.images / 16).float()[:, None], images.target
    else:
        graph = Source("orl_faces", data_dir=data_dir, image_size="28x28").load()
        assert graph.y is not None
        x, y = torch.from_numpy(np.asarray(graph.x, np.float32)).reshape(-1, 1, 28, 28), graph.y
    x = functional.interpolate(x, size=(28, 28), mode="bilinear") if x.shape[-1] != 28 else x
    return edge_histograms(upright(x) if name in ("mnist", "digits") else x), np.asarray(y, np.int64)


def skewed(y: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Ids of a pool in which each class, in a random order, has 0.7 times as many images as the one before, at least 20."""
    ids = [draw.permutation(np.flatnonzero(y == one)) for one in draw.permutation(y.max() + 1)]
    return draw.permutation(np.concatenate([part[: max(int(len(part) * 0.7**k), 20)] for k, part in enumerate(ids)]))


def chosen(pool: np.ndarray, y: np.ndarray, count: int, rare: int | None) -> np.ndarray:
    """The first ids of the pool, or one of the rare class and the first of the others."""
    if rare is None:
        return pool[:count]
    return np.concatenate([pool[y[pool] == rare][:1], pool[y[pool] != rare][: count - 1]])


if __name__ == "__main__":
    main()
