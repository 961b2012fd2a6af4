"""Class-level privacy and model inversion beside chapter 4 of their publication; prints Markdown tables, and writes pictures.

    OMP_NUM_THREADS=1 python benchmarks/class_level.py --dataset mnist [--seeds 3] [--quick] [--parts accuracy cells inversion]
        [--log FILE] [--only-print] [--pictures docs/results] [--data-dir DIR]

Data sets are mnist, fashion_mnist (the same settings, confirmed there) and orl_faces (in place of Faces94). Every row is a fit
of the method with its secret noise and exact accounting; seeds choose initial weights. ``--quick`` fits a few rows once.

Digits: all 60,000 training images are private; under centroids the first 5,000 are declared public, and no step reads them.
Settings were chosen on the last 10,000 training images of MNIST. Models of part ``inversion`` leave these 10,000 out, and their
accuracy on them says which noise gives record-DP and subclass-DP equal accuracy; test images choose nothing.

Faces: images 1 to 7 of a person train, 8 to 10 test. Settings were chosen by training on 1 to 6 and looking at 7.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import study
import torch
from scipy.stats import spearmanr

from sfumato._threads import set_threads
from sfumato.attacks._inversion import Inversion
from sfumato.attacks._reconstruction import reconstruct
from sfumato.classlevel._class_dp import ClassDP, SubclassDP
from sfumato.classlevel._record import CNN
from sfumato.datasets.images import load_images
from sfumato.privacy import accounting
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import ClassLevel, NoPrivacy, RecordLevel, SubclassLevel
from sfumato.report._pictures import picture_grid

if TYPE_CHECKING:
    from sfumato.classlevel._images import ImageMethod
    from sfumato.graph._graph import Graph
    from sfumato.privacy.units import Unit

DIGITS, FACES = ("mnist", "fashion_mnist"), "orl_faces"
PARTS = {"accuracy", "cells", "inversion"}
STEPS = {1.6: 249, 3.0: 258, 3.65: 299}
"""By sigma: steps whose exact epsilon rounds to the published one."""
CELLS = (1, 5, 10, 25, 50, 100)
PLAIN = NoPrivacy()
DISTANCES = {
    "mia_distance": "distance",
    "matched_distance": "to as many training images",
    "heldout_distance": "to held-out images",
    "blank_distance": "of a blank image",
    "confidence": "confidence",
}
PUBLISHED_DISTANCES = {
    "mnist": {
        "original": (8.02, 8.36, 9.14, 9.50, 8.35, 9.76, 9.64, 8.38, 8.79, 8.93),
        "enhanced": (5.93, 7.89, 8.51, 7.92, 8.2, 8.41, 8.51, 7.76, 8.06, 8.76),
    },
    "orl_faces": {
        "original": (0.707, 0.663, 0.64, 0.681, 0.668, 0.707),
        "enhanced": (0.691, 0.643, 0.626, 0.664, 0.65, 0.692),
    },
}
"""Tables 4.1 and 4.2: the smallest distance to training images of each class."""
PICTURES = {"mnist": "class-level", "fashion_mnist": "class-level-fashion-mnist", "orl_faces": "class-level-faces"}
Found = dict[str, dict[int, dict[str, Any]]]
ATTACKS = {"enhanced": Inversion.digits(), "original": Inversion.original(), "faces": Inversion.faces()}


@dataclass(frozen=True)
class Row:
    """A model of the tables: noise is sigma (0 without privacy), delta that of the published claim, ``published`` accuracy in
    percent and epsilon, ``attacks`` those that it meets, ``size`` that of faces, and ``cells`` k_sub.
    """

    part: str
    label: str
    method: ImageMethod
    unit: Unit = PLAIN
    noise: float = 0.0
    delta: float = 0.0
    published: tuple[float, ...] = ()
    attacks: tuple[str, ...] = ()
    quick: bool = False
    size: tuple[int, int] | None = None
    cells: int = 0

    @property
    def key(self) -> str:
        """Name the fits of this row in a log."""
        place = "x".join(map(str, self.size or ())) or "leaves 10,000 out" * (self.part == "inversion")
        return " | ".join((self.label, self.method.network, f"{self.noise:g}", f"{self.cells}", place))


def subclass(part: str, noise: float, network: str = "cnn", cells: int = 50, **more: Any) -> Row:
    """A row of subclass-DP with public centroids."""
    method = SubclassDP(network=network, steps=STEPS.get(noise, 299), public_rows=5000)
    return Row(part, "subclass-DP", method, SubclassLevel(cells, "centroids"), noise, 1e-3, cells=cells, **more)


def digit_rows() -> list[Row]:
    """All rows on MNIST and Fashion-MNIST."""
    both = {"attacks": ("enhanced",)}
    rows = []
    for noise, known in ((0.65, (96, 6)), (1.0, (93, 1.6)), (1.8, (91, 0.5))):
        last: dict[str, Any] = both if noise == 1.8 else {}
        rows.append(Row("accuracy", "record-DP", CNN(), RecordLevel(), noise, 1e-5, known, quick=noise == 1.8, **last))
    for noise, known in ((1.6, (96, 18.6)), (3.0, (93, 8.2)), (3.65, (91, 7))):
        last = both if noise == 3.65 else {}
        rows.append(subclass("accuracy", noise, published=known, quick=noise == 3.65, **last))
    others = (
        ("subclass-DP, directions", SubclassDP(steps=249), SubclassLevel(50)),
        ("subclass-DP, private k-means", SubclassDP(steps=249, kmeans=True), SubclassLevel(500, "declared")),
        ("class-DP", ClassDP(steps=249), ClassLevel()),
    )
    rows += [Row("accuracy", label, method, unit, 1.6, 1e-3) for label, method, unit in others]
    rows.append(subclass("accuracy", 1.6, "softmax"))
    control = CNN(network="softmax", steps=150)
    rows.append(Row("accuracy", "record-DP", control, RecordLevel(), 0.65, 1e-5))
    rows.append(Row("accuracy", "vanilla", CNN(), published=(98.9,), **both))
    rows += [subclass("cells", 1.6, cells=cells) for cells in CELLS if cells != 50]
    rows += [Row("inversion", "vanilla", CNN(network="softmax"), attacks=("enhanced", "original"), quick=True)]
    for noise in (0.65, 1.8, 4.0, 5.0, 6.0, 8.0, 10.0, 16.0):
        one = CNN(network="softmax", steps=150)
        rows.append(Row("inversion", "record-DP", one, RecordLevel(), noise, 1e-5, quick=noise == 4, **both))
    for noise in (1.6, 3.0, 3.65, 6.0, 10.0):
        rows.append(subclass("inversion", noise, "softmax", quick=noise == 3.65, **both))
    rows += [subclass("inversion", 1.6, "softmax", cells, **both) for cells in CELLS if cells != 50]
    return rows


def face_rows() -> list[Row]:
    """All rows on faces: a convolutional network, softmax regression on small images, and as published."""
    rows = []
    for network, size in (("cnn", (42, 36)), ("softmax", (28, 24)), ("softmax", (70, 60))):
        printed = size == (70, 60)
        plain, both = CNN(network=network, width=64), ("faces",) + ("original",) * (network == "softmax")
        whole = (100.0,) * printed
        rows.append(Row("accuracy", "vanilla", plain, published=whole, attacks=both, quick=True, size=size))
        more: dict[str, Any] = {"size": size, "attacks": ("faces",)}
        for noise, steps, known in ((0.8, 104, (99.5, 62)), (1.2, 215, (99.2, 45.5)), (1.6, 316, (99, 40.5))):
            cells = ClassDP(
                network=network, width=64, steps=steps, sampling_prob=0.33, l2_clip_norm=10.0, learning_rate=0.1
            )
            more |= {"published": known * printed, "quick": noise == 0.8}
            rows.append(Row("accuracy", "class-DP", cells, ClassLevel(), noise, 1e-2, **more))
        for noise, steps, known in ((0.8, 72, (99.5, 9.1)), (1.1, 52, (99.2, 4.2)), (1.4, 49, (99, 2.7))):
            records = CNN(network=network, width=64, steps=steps, batch_size=32, learning_rate=100.0)
            more |= {"published": known * printed, "quick": noise == 0.8}
            rows.append(Row("accuracy", "record-DP", records, RecordLevel(), noise, 1e-4, **more))
    return rows


def main() -> None:
    """Fit every row, seed by seed, and print the tables."""
    given = study.options(
        __doc__, log="class_level.jsonl", dataset="mnist", seeds=3, parts=PARTS, quick=False, pictures=None
    )
    set_threads(None)
    name, attack = given.dataset, "faces" if given.dataset == FACES else "enhanced"
    rows = [row for row in (face_rows if name == FACES else digit_rows)() if row.quick or not given.quick]
    rows = [row for row in rows if row.part in given.parts]
    by_key = {row.key: row for row in rows}
    cells = ((name, row.key, seed) for seed in range(1 if given.quick else given.seeds) for row in rows)
    found: Found = {}
    for (_, key, seed), one in study.kept(
        given, cells, lambda _, key, seed: fit(by_key[key], name, seed, given.data_dir)
    ).items():
        found.setdefault(key, {})[seed] = one
    done = [row for row in rows if row.key in found]
    accuracy([row for row in done if row.part == "accuracy"], found, name != "fashion_mnist")
    counted([row for row in done if row.cells and row.noise == 1.6], found, attack)
    attacked = [row for row in done if attack in row.attacks and of(found, row, "mia_distance", attack)]
    inversion(attacked, found, attack)
    if name in DIGITS:
        pairs_and_ranks(attacked, found)
    if name in PUBLISHED_DISTANCES:
        by_class(attacked, found, name)
    if given.pictures:
        figure = pictures_of(PICTURES[name], attacked, found, attack)
        (Path(given.pictures) / f"{figure.name}.svg").write_text(figure.alone())


def fit(row: Row, dataset: str, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit a row once, attack it, and return what tables need; pictures of seed 0 alone."""
    graph = images(dataset, data_dir, row.size)
    if row.part == "inversion" and dataset in DIGITS:
        graph = graph.with_roles(np.where(np.arange(graph.num_nodes) // 10_000 == 5, 1, graph.roles))
    facts, budget = graph.public_facts(row.unit), None
    if row.unit.private:
        event = row.method.event(row.unit, facts, row.noise)
        budget = Budget(accounting.epsilon([event], row.delta), row.delta)
    plan = row.method.calibrate(budget, row.unit, facts)
    start = time.perf_counter()
    fitted = plan.fit(graph, seed=seed)
    seconds = time.perf_counter() - start
    network = row.method.pixel_network(fitted.ran, fitted.weights)

    def right(role: np.ndarray) -> float | None:
        with torch.no_grad():
            parts = [network(torch.from_numpy(graph.x[at])) for at in np.array_split(np.flatnonzero(role), 10)]
        return float((torch.cat(parts).argmax(1).numpy() == graph.y[role]).mean()) if role.any() else None

    found = {
        "accuracy": right(graph.test_mask),
        "validation": right(graph.val_mask),
        "epsilon": plan.epsilon if row.unit.private else None,
        "seconds": seconds,
        "attacks": {},
    }
    for name in row.attacks:
        distance = "euclidean" if dataset in DIGITS else "ssim"
        made = reconstruct(fitted, graph, ATTACKS[name], distance)
        found["attacks"][name] = made.to_dict() | ({} if seed else pictures(made.images, made.samples))
    return found


@cache
def images(dataset: str, data_dir: str, size: tuple[int, int] | None) -> Graph:
    """A data set, read once."""
    return load_images(dataset, data_dir, size=size)


def pictures(images: np.ndarray, samples: np.ndarray) -> dict[str, Any]:
    """Pixels as bytes in text, for the log."""
    shown = {"images": images, "samples": samples}
    packed = {k: base64.b64encode(np.rint(255 * v).astype(np.uint8).tobytes()).decode() for k, v in shown.items()}
    return packed | {"shape": list(images.shape)}


def of(found: Found, row: Row, key: str, attack: str = "") -> list[float]:
    """One number of each seed; of those whose model met the attack, if one is named."""
    runs = found[row.key].values()
    return [(run["attacks"][attack] if attack else run)[key] for run in runs if not attack or attack in run["attacks"]]


def told(found: Found, row: Row, key: str, attack: str = "") -> str:
    """A mean over seeds; accuracies in percent."""
    return study.told(of(found, row, key, attack), 100 if key in ("accuracy", "validation") else 1, 2)


def settings(row: Row) -> tuple[str, str, str]:
    """The cells of a row that name it."""
    size = f" {row.size[0]} x {row.size[1]}" if row.size else ""
    cells = f", {row.cells} a class" if row.cells not in (0, 50) else ""
    return row.label + cells, row.method.network + size, f"{row.noise:g}" if row.noise else "-"


def exact(found: Found, row: Row) -> str:
    """The epsilon of a row."""
    return f"{of(found, row, 'epsilon')[0]:.2f}" if row.noise else "-"


def accuracy(rows: list[Row], found: Found, published: bool) -> None:
    """Accuracies and epsilons beside the published ones; seconds are those of one fit."""
    lines = []
    for row in rows:
        known = [f"{value:g}" for value in row.published if published] + ["-", "-"]
        cost = (f"{row.delta:g}" if row.noise else "-", known[1], exact(found, row))
        seconds = f"{np.mean(of(found, row, 'seconds')):.0f}"
        lines.append((*settings(row), known[0], told(found, row, "accuracy"), len(found[row.key]), *cost, seconds))
    columns = ("model", "network", "sigma", "accuracy (published)", "accuracy (here)", "seeds", "delta")
    study.table((*columns, "epsilon (published)", "epsilon (exact)", "seconds"), lines, "### Accuracy")


def counted(rows: list[Row], found: Found, attack: str) -> None:
    """Accuracy and distance by the number of cells of a class (figure 4.9)."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.method.network, row.cells)):
        if row.part != "accuracy" or row.method.network != "softmax":
            hit = attack in row.attacks
            measured = [told(found, row, key, attack) if hit else "-" for key in DISTANCES]
            lines.append((row.method.network, row.cells, exact(found, row), told(found, row, "accuracy"), *measured))
    columns = ("network", "subclasses of a class", "epsilon", "accuracy", *DISTANCES.values())
    study.table(columns, lines, "### Number of subclasses (figure 4.9)")


def inversion(rows: list[Row], found: Found, attack: str) -> None:
    """Distances of every attacked model; accuracy is that on validation images, where there are any."""
    lines = []
    for row in rows:
        right = told(found, row, "accuracy" if of(found, row, "validation")[0] is None else "validation")
        measured = [told(found, row, key, attack) for key in DISTANCES]
        seeds = len(of(found, row, "mia_distance", attack))
        lines.append((*settings(row), exact(found, row), right, seeds, *measured))
    columns = ("model", "network", "sigma", "epsilon", "accuracy", "seeds", *DISTANCES.values())
    study.table(columns, lines, "### Model inversion")


def pairs_and_ranks(rows: list[Row], found: Found) -> None:
    """Softmax models of nearest validation accuracy side by side; and rank correlations of epsilon with each number."""
    chosen = [row for row in rows if row.part == "inversion" and row.cells in (0, 50) and row.noise]
    both = {label: [row for row in chosen if row.label == label] for label in ("record-DP", "subclass-DP")}

    def mean(row: Row, key: str, attack: str = "") -> float:
        return float(np.mean(of(found, row, key, attack)))

    lines, ranks = [], []
    for row in both["subclass-DP"]:
        right = mean(row, "validation")
        other = min(both["record-DP"], key=lambda one: abs(mean(one, "validation") - right))
        cells = [f"{row.noise:g} / {other.noise:g}", f"{100 * right:.2f} / {100 * mean(other, 'validation'):.2f}"]
        cells += [" / ".join(f"{mean(one, key, 'enhanced'):.2f}" for one in (row, other)) for key in DISTANCES]
        lines.append(cells)
    for label, family in both.items():
        costs = [of(found, row, "epsilon")[0] for row in family]
        values = [[mean(row, key, "enhanced") for row in family] for key in DISTANCES]
        ranks.append((label, len(family), *(f"{spearmanr(costs, one).statistic:+.2f}" for one in values)))
    study.table(("sigma", "accuracy", *DISTANCES.values()), lines, "Subclass-DP / record-DP at about equal accuracy")
    study.table(
        ("models", "number", *DISTANCES.values()), ranks, "Rank correlation (Spearman) of epsilon with each number"
    )


def by_class(rows: list[Row], found: Found, name: str) -> None:
    """Tables 4.1 and 4.2: the original and the enhanced attack on models without privacy."""
    known, digits = PUBLISHED_DISTANCES[name], 3 if name == FACES else 2
    width = len(known["original"])

    def line(label: str, values: Any) -> tuple[str, ...]:
        return (label, *(f"{one:.{digits}f}" for one in values[:width]), f"{np.mean(values[:width]):.{digits}f}")

    lines = [line(f"published, {attack}", values) for attack, values in known.items()]
    for row in rows:
        if not row.noise and "original" in row.attacks:
            for attack in reversed(row.attacks):
                runs = [run["attacks"][attack]["classes"].values() for run in found[row.key].values()]
                classes = np.array([[one["train"] for one in run] for run in runs]).mean(0)
                lines.append(line(f"{settings(row)[1]}, {'enhanced' if attack == 'faces' else attack}", classes))
    first = int(name == FACES)
    study.table(
        ("attack", *range(first, width + first), "mean"), lines, "Smallest distance to training images by class"
    )


def pictures_of(name: str, rows: list[Row], found: Found, attack: str) -> Any:
    """A picture grid of the first ten classes: a training image, then what the attack finds."""

    def unpacked(one: dict[str, Any], key: str) -> np.ndarray:
        return np.frombuffer(base64.b64decode(one[key]), np.uint8).reshape(one["shape"])[:10].astype(np.float32) / 255

    lines: list[tuple[str, np.ndarray]] = []
    for row in rows:
        run = found[row.key].get(0)
        if run is not None and row.cells in (0, 50):
            one, (label, network, noise) = run["attacks"][attack], settings(row)
            lines += [] if lines else [("first training image", unpacked(one, "samples"))]
            text = f"{label}, {network}, sigma {noise}, accuracy {100 * run['accuracy']:.1f}"
            lines.append((text, unpacked(one, "images")))
    columns = [str(one + (attack == "faces")) for one in range(10)]
    title = "Model inversion: a training image of each class, and what the attack finds in each model"
    return picture_grid(name, title, "; ".join(line for line, _ in lines) + ".", lines, columns)


if __name__ == "__main__":
    main()
