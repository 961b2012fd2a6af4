"""Class-level privacy and model inversion beside chapter 4 of their publication; prints Markdown tables, and writes pictures.

    OMP_NUM_THREADS=1 python benchmarks/class_level.py --dataset mnist [--seeds 3] [--quick] [--parts filters changes ...]
        [--log FILE] [--only-print] [--pictures docs/results] [--data-dir DIR]

Data sets are mnist, fashion_mnist (the same settings, confirmed there) and orl_faces (in place of Faces94). Every row is a fit
of the method with its secret noise and exact accounting; seeds choose initial weights. ``--quick`` fits a few rows once.
Digits: all 60,000 training images are private; under centroids the first 5,000 are declared public, and no step reads them.
Settings were chosen on the last 10,000 training images of MNIST. Models of part ``inversion`` leave these 10,000 out, and their
accuracy on them says which noise gives record-DP and subclass-DP equal accuracy; test images choose nothing. All layers learn in
part ``filters``, as in the source, and part ``changes`` goes from the defaults of subclass-DP to Algorithm 5, one by one.

Faces: images 1 to 7 of a person train, 8 to 10 test. Settings were chosen by training on 1 to 6 and looking at 7.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
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
    from sfumato.privacy.units import Unit

DIGITS, FACES = ("mnist", "fashion_mnist"), "orl_faces"
PARTS = {"accuracy", "cells", "inversion", "filters", "changes"}
STEPS = {1.6: 249, 3.0: 258, 3.65: 299}
"""By sigma: steps whose exact epsilon rounds to the published one."""
FLAT_NOISES = (0.65, 1.8, 4.0, 5.0, 6.0, 8.0, 10.0, 16.0)
CELLS = (1, 5, 10, 25, 50, 100)
PLAIN = NoPrivacy()
DISTANCES = {
    "mia_distance": "distance", "matched_distance": "to as many training images", "heldout_distance": "to held-out images",
    "blank_distance": "of a blank image", "confidence": "confidence",
}  # fmt: skip
PUBLISHED_DISTANCES = {
    "mnist": {"original": (8.02, 8.36, 9.14, 9.50, 8.35, 9.76, 9.64, 8.38, 8.79, 8.93),
              "enhanced": (5.93, 7.89, 8.51, 7.92, 8.2, 8.41, 8.51, 7.76, 8.06, 8.76)},
    "orl_faces": {"original": (0.707, 0.663, 0.64, 0.681, 0.668, 0.707),
                  "enhanced": (0.691, 0.643, 0.626, 0.664, 0.65, 0.692)},
}  # fmt: skip
"""Tables 4.1 and 4.2: the smallest distance to training images of each class."""
RECORDS = ((0.65, (96, 6)), (1.0, (93, 1.6)), (1.8, (91, 0.5)))
SUBCLASSES = ((1.6, (96, 18.6)), (3.0, (93, 8.2)), (3.65, (91, 7)))  # sigma; published accuracy and epsilon
FACE_MODELS = (
    ("class-DP", ClassLevel(), 1e-2, ((0.8, 104, (99.5, 62)), (1.2, 215, (99.2, 45.5)), (1.6, 316, (99, 40.5)))),
    ("record-DP", RecordLevel(), 1e-4, ((0.8, 72, (99.5, 9.1)), (1.1, 52, (99.2, 4.2)), (1.4, 49, (99, 2.7)))),
)
CHANGES: dict[str, dict[str, Any]] = {
    "all records": {"records_per_cell": None},
    **{f"plain descent, rate {rate:g}": {"optimizer": "sgd", "learning_rate": rate} for rate in (0.33, 1, 3.3)},
    "loss itself": {"loss_scale": 1.0},
    "loss itself, S 0.01, rate 100": {"loss_scale": 1.0, "l2_clip_norm": 0.01, "learning_rate": 100.0},
}
PICTURES = {"mnist": "class-level", "fashion_mnist": "class-level-fashion-mnist", "orl_faces": "class-level-faces"}
images = cache(load_images)
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
        return " | ".join((self.label, self.network, f"{self.noise:g}", f"{self.cells}", place))

    @property
    def network(self) -> str:
        return self.method.network + ", all layers" * self.method.learn_filters


def subclass(part: str, noise: float, network: str = "cnn", cells: int = 50, **more: Any) -> Row:
    """A row of subclass-DP with public centroids."""
    method = SubclassDP(network=network, steps=STEPS.get(noise, 299), public_rows=5000)
    return Row(part, "subclass-DP", method, SubclassLevel(cells, "centroids"), noise, 1e-3, cells=cells, **more)


def digit_rows() -> list[Row]:
    """All rows on MNIST and Fashion-MNIST; those of part ``filters`` have convolutions that learn, as in the source."""
    one: dict[str, Any] = {"attacks": ("enhanced",)}
    both: dict[str, Any] = {"attacks": ("enhanced", "original")}
    rows = [Row("filters", "vanilla", CNN(learn_filters=True), published=(98.9,), **both)]
    for noise, known in RECORDS:
        row = Row("accuracy", "record-DP", CNN(), RecordLevel(), noise, 1e-5, known, quick=noise == 1.8)
        rows += [row, altered(replace(row, part="filters", **both))]
    for noise, known in SUBCLASSES:
        row = subclass("accuracy", noise, published=known, quick=noise == 3.65)
        rows += [row, altered(replace(row, part="filters", **both))]
    others = (
        ("subclass-DP, directions", SubclassDP(steps=249), SubclassLevel(50)),
        ("subclass-DP, private k-means", SubclassDP(steps=249, kmeans=True), SubclassLevel(500, "declared")),
        ("class-DP", ClassDP(steps=249), ClassLevel()),
    )
    rows += [Row("accuracy", label, method, unit, 1.6, 1e-3) for label, method, unit in others]
    rows.append(subclass("accuracy", 1.6, "softmax"))
    rows.append(Row("accuracy", "record-DP", CNN(network="softmax", steps=150), RecordLevel(), 0.65, 1e-5))
    rows += [subclass("cells", 1.6, cells=cells) for cells in CELLS]
    rows += [altered(subclass("filters", 1.6, cells=cells, **both)) for cells in CELLS]
    rows += [altered(subclass("changes", 1.6), name, **settings) for name, settings in CHANGES.items()]
    method = SubclassDP(steps=249, kmeans=True, learn_filters=True, records_per_cell=None)
    method = replace(method, optimizer="sgd", loss_scale=1.0)
    rows.append(Row("changes", "Algorithm 5", method, SubclassLevel(500, "declared"), 1.6, 1e-3))
    rows += [Row("inversion", "vanilla", CNN(network="softmax"), quick=True, **both)]
    flat: dict[str, Any] = {"method": CNN(network="softmax", steps=150), "unit": RecordLevel(), "delta": 1e-5, **one}
    rows += [Row("inversion", "record-DP", noise=noise, quick=noise == 4, **flat) for noise in FLAT_NOISES]
    rows += [subclass("inversion", noise, "softmax", quick=noise == 3.65, **one) for noise in (*STEPS, 6.0, 10.0)]
    rows += [subclass("inversion", 1.6, "softmax", cells, **one) for cells in CELLS]
    return list({row.key: row for row in reversed(rows)}.values())[::-1]


def altered(row: Row, label: str = "", **settings: Any) -> Row:
    """The row with other settings of its method; convolutions that learn, if none are named."""
    method = replace(row.method, **(settings or {"learn_filters": True}))
    return replace(row, method=method, label=label or row.label)


def face_rows() -> list[Row]:
    """All rows on faces: a convolutional network, softmax regression on small images, and as published."""
    rows = []
    for network, size in (("cnn", (42, 36)), ("softmax", (28, 24)), ("softmax", (70, 60))):
        printed = size == (70, 60)
        both, net = ("faces",) + ("original",) * (network == "softmax"), {"network": network, "width": 64}
        rows.append(Row("accuracy", "vanilla", CNN(**net), PLAIN, 0.0, 0.0, (100.0,) * printed, both, True, size))
        for label, unit, delta, models in FACE_MODELS:
            for noise, steps, known in models:
                method = CNN(**net, steps=steps, batch_size=32, learning_rate=100.0)
                if label == "class-DP":
                    method = ClassDP(**net, steps=steps, sampling_prob=0.33, l2_clip_norm=10.0, learning_rate=0.1)
                more = (known * printed, ("faces",), noise == 0.8, size)
                rows.append(Row("accuracy", label, method, unit, noise, delta, *more))
    return rows


def main() -> None:
    """Fit every row, seed by seed, and print the tables."""
    more: dict[str, Any] = {"parts": PARTS, "quick": False, "pictures": None}
    given = study.options(__doc__, log="class_level.jsonl", dataset="mnist", seeds=3, **more)
    set_threads(None)
    name, attack = given.dataset, "faces" if given.dataset == FACES else "enhanced"
    rows = [row for row in (face_rows if name == FACES else digit_rows)() if row.quick or not given.quick]
    rows = [row for row in rows if row.part in given.parts]
    by_key = {row.key: row for row in rows}
    cells = ((name, row.key, seed) for seed in range(1 if given.quick else given.seeds) for row in rows)
    found: Found = {}
    fits = study.kept(given, cells, lambda _, key, seed: fit(by_key[key], name, seed, given.data_dir))
    for (_, key, seed), one in fits.items():
        found.setdefault(key, {})[seed] = one
    done = [row for row in rows if row.key in found]
    chapter = [row for row in done if row.part in ("accuracy", "filters") and row.cells in (0, 50)]
    accuracy(chapter, found, name != "fashion_mnist", "### Accuracy")
    accuracy([row for row in done if row.part == "changes"], found, True, "### What each change is worth")
    counted([row for row in done if row.cells and row.noise == 1.6 and row.part != "changes"], found, attack)
    attacked = [row for row in done if row.attacks and of(found, row, "mia_distance", row.attacks[0])]
    inversion(attacked, found)
    for part in ("filters", "inversion"):
        pairs_and_ranks([row for row in attacked if row.part == part and row.noise and row.cells in (0, 50)], found)
    if name in PUBLISHED_DISTANCES:
        by_class(attacked, found, name)
    if given.pictures:
        figure = pictures_of(PICTURES[name], attacked, found)
        (Path(given.pictures) / f"{figure.name}.svg").write_text(figure.alone())


def fit(row: Row, dataset: str, seed: int, data_dir: str) -> dict[str, Any]:
    """Fit a row once, attack it, and return what tables need; pictures of seed 0 alone."""
    graph = images(dataset, data_dir, size=row.size)
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
        "accuracy": right(graph.test_mask), "validation": right(graph.val_mask),
        "epsilon": plan.epsilon if row.unit.private else None, "seconds": seconds, "attacks": {},
    }  # fmt: skip
    for name in row.attacks:
        distance = "euclidean" if dataset in DIGITS else "ssim"
        made = reconstruct(fitted, graph, ATTACKS[name], distance)
        found["attacks"][name] = made.to_dict() | ({} if seed else pictures(made.images, made.samples))
    return found


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


def settings(row: Row, found: Found) -> tuple[str, str, str, str]:
    """The cells of a row that name it, and its epsilon."""
    size = f" {row.size[0]} x {row.size[1]}" if row.size else ""
    cells = f", {row.cells} a class" if row.cells not in (0, 50) else ""
    cost = (f"{row.noise:g}", f"{of(found, row, 'epsilon')[0]:.2f}") if row.noise else ("-", "-")
    return row.label + cells, row.network + size, *cost


def accuracy(rows: list[Row], found: Found, published: bool, title: str) -> None:
    """Accuracies and epsilons beside the published ones; seconds are those of one fit."""
    lines = []
    for row in rows:
        known = [f"{value:g}" for value in row.published if published] + ["-", "-"]
        measured = (told(found, row, "accuracy"), len(found[row.key]), f"{np.mean(of(found, row, 'seconds')):.0f}")
        lines.append((*settings(row, found), *known[1::-1], *measured))
    columns = ("model", "network", "sigma", "epsilon (exact)", "epsilon (published)", "accuracy (published)")
    study.table((*columns, "accuracy (here)", "seeds", "seconds"), lines, title)


def counted(rows: list[Row], found: Found, attack: str) -> None:
    """Accuracy and distance by the number of cells of a class (figure 4.9)."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.network, row.cells)):
        if row.part != "accuracy" or row.method.network != "softmax":
            measured = [told(found, row, key, attack) if attack in row.attacks else "-" for key in DISTANCES]
            lines.append((row.network, row.cells, told(found, row, "accuracy"), len(found[row.key]), *measured))
    columns = ("network", "subclasses of a class", "accuracy", "seeds", *DISTANCES.values())
    study.table(columns, lines, "### Number of subclasses (figure 4.9)")


def score(found: Found, row: Row) -> str:
    """The name of the accuracy that models are compared by: on validation images, where there are any."""
    return "accuracy" if of(found, row, "validation")[0] is None else "validation"


def inversion(rows: list[Row], found: Found) -> None:
    """Distances of every attacked model."""
    lines = []
    for row in rows:
        for attack in row.attacks:
            measured = [told(found, row, key, attack) for key in DISTANCES]
            right, seeds = told(found, row, score(found, row)), len(of(found, row, "mia_distance", attack))
            lines.append((*settings(row, found), right, seeds, attack, *measured))
    columns = ("model", "network", "sigma", "epsilon", "accuracy", "seeds", "attack", *DISTANCES.values())
    study.table(columns, lines, "### Model inversion")


def pairs_and_ranks(rows: list[Row], found: Found) -> None:
    """Models of nearest accuracy side by side; and rank correlations of epsilon with each number."""
    both = {label: [row for row in rows if row.label == label] for label in ("record-DP", "subclass-DP")}
    if not all(both.values()):
        return

    def mean(row: Row, key: str = "") -> float:
        return float(np.mean(of(found, row, key, "enhanced") if key else of(found, row, score(found, row))))

    lines, ranks = [], []
    for row in both["subclass-DP"]:
        other = min(both["record-DP"], key=lambda one: abs(mean(one) - mean(row)))
        cells = [f"{row.noise:g} / {other.noise:g}", f"{100 * mean(row):.2f} / {100 * mean(other):.2f}"]
        lines.append(cells + [f"{mean(row, key):.2f} / {mean(other, key):.2f}" for key in DISTANCES])
    for label, family in both.items():
        costs = [of(found, row, "epsilon")[0] for row in family]
        values = [spearmanr(costs, [mean(row, key) for row in family]).statistic for key in DISTANCES]
        ranks.append((label, len(family), *(f"{one:+.2f}" for one in values)))
    study.table(("sigma", "accuracy", *DISTANCES.values()), lines, f"Subclass-DP / record-DP, {rows[0].network}")
    study.table(("models", "number", *DISTANCES.values()), ranks, "Rank correlation of epsilon with each number")


def by_class(rows: list[Row], found: Found, name: str) -> None:
    """Tables 4.1 and 4.2: the original and the enhanced attack on models without privacy, and controls."""
    known, digits, first = PUBLISHED_DISTANCES[name], 3 if name == FACES else 2, int(name == FACES)
    width = len(known["original"])
    lines = [(f"published, {attack}", values) for attack, values in known.items()]
    for row in rows:
        for attack in row.attacks if not row.noise and "original" in row.attacks else ():
            runs = [run["attacks"][attack]["classes"].values() for run in found[row.key].values()]
            for key in ("train", "train_matched", "heldout", "blank"):
                values = np.array([[one[key] for one in run] for run in runs]).mean(0)
                lines.append((f"{settings(row, found)[1]}, {attack}, {key}", values))
    told_lines = [(label, *(f"{one:.{digits}f}" for one in (*v[:width], np.mean(v[:width])))) for label, v in lines]
    columns = ("attack", *range(first, width + first), "mean")
    study.table(columns, told_lines, "Smallest distance to images of the class")


def pictures_of(name: str, rows: list[Row], found: Found) -> Any:
    """A picture grid of the first ten classes: a training image, then what attacks find."""

    def unpacked(one: dict[str, Any], key: str) -> np.ndarray:
        return np.frombuffer(base64.b64decode(one[key]), np.uint8).reshape(one["shape"])[:10].astype(np.float32) / 255

    lines: list[tuple[str, np.ndarray]] = []
    for row in rows:
        run = found[row.key].get(0)
        for attack in row.attacks[: 1 if row.noise else 2] if run and row.cells in (0, 50) else ():
            one, (label, network, noise, _) = run["attacks"][attack], settings(row, found)
            lines += [] if lines else [("first training image", unpacked(one, "samples"))]
            text = f"{label}, {network}, sigma {noise}, accuracy {100 * run['accuracy']:.1f}, {attack}"
            lines.append((text, unpacked(one, "images")))
    columns = [str(one + (name == PICTURES[FACES])) for one in range(10)]
    title = "Model inversion: a training image of each class, and what the attack finds in each model"
    return picture_grid(name, title, "; ".join(line for line, _ in lines) + ".", lines, columns)


if __name__ == "__main__":
    main()
