"""Class-level privacy and model inversion beside chapter 4 of their publication; fits models and writes Markdown and pictures.

    OMP_NUM_THREADS=1 python benchmarks/class_level.py --dataset mnist [--seeds 3] [--quick] [--parts accuracy cells inversion]
        [--out docs/results] [--log FILE] [--data-dir DIR]

Data sets are mnist, fashion_mnist (the same settings, confirmed there) and orl_faces (in place of Faces94). Every row is a fit
of the method with its secret noise and exact accounting; seeds choose initial weights. With ``--log``, a run that was stopped
goes on where it was. ``--quick`` fits a few rows once. ``--parts`` with no word only writes the page of a log again.

Digits: all 60,000 training images are private; under centroids the first 5,000 are declared public, and no step reads them.
Settings were chosen on the last 10,000 training images of MNIST. Models of part ``inversion`` leave these 10,000 out, and their
accuracy on them says which noise gives record-DP and subclass-DP equal accuracy; test images choose nothing.

Faces: images 1 to 7 of a person train, 8 to 10 test. Settings were chosen by training on 1 to 6 and looking at 7.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from class_level_pages import write_page

from sfumato._threads import set_threads
from sfumato.attacks._inversion import Inversion
from sfumato.attacks._reconstruction import reconstruct
from sfumato.classlevel._class_dp import ClassDP, SubclassDP
from sfumato.classlevel._record import CNN
from sfumato.datasets.images import load_images
from sfumato.privacy import accounting
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import ClassLevel, NoPrivacy, RecordLevel, SubclassLevel

if TYPE_CHECKING:
    from sfumato.classlevel._images import ImageMethod
    from sfumato.graph._graph import Graph
    from sfumato.privacy.units import Unit

DIGITS, FACES = ("mnist", "fashion_mnist"), "orl_faces"
PARTS = ("accuracy", "cells", "inversion")
STEPS = {1.6: 249, 3.0: 258, 3.65: 299}
"""By sigma: steps whose exact epsilon rounds to the published one."""
CELLS = (1, 5, 10, 25, 50, 100)
PLAIN = NoPrivacy()
ATTACKS = {"enhanced": Inversion.digits(), "original": Inversion.original(), "faces": Inversion.faces()}


@dataclass(frozen=True)
class Row:
    """A model of the tables.

    Args:
        part: the part that it belongs to.
        label: what it is called in tables.
        method: the method with its settings.
        unit: the unit of privacy.
        noise: sigma; 0 without privacy.
        delta: that of the published claim.
        published: accuracy in percent and epsilon, as far as there are any.
        attacks: the names of the attacks that it meets.
        quick: whether the quick profile fits it.
        size: height and width of faces.
        cells: k_sub.
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
    """Fit every row, seed by seed, and write the page after each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=[*DIGITS, FACES], default="mnist")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--log", type=Path, help="keeps what was found; nothing in it is fitted again")
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    name = options.dataset
    rows = [row for row in (face_rows if name == FACES else digit_rows)() if row.quick or not options.quick]
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in options.log.read_text().splitlines() if options.log and options.log.exists() else ():
        one = json.loads(line)
        if one["dataset"] == name:
            found[one["key"]][one["seed"]] = one
    for seed in range(1 if options.quick else options.seeds):
        for row in rows:
            if row.part not in options.parts or seed in found[row.key]:
                continue
            one = {"dataset": name, "key": row.key, "seed": seed} | fit(row, name, seed, options.data_dir)
            print(name, row.key, seed, f"{one['accuracy']:.4f} {one['seconds']:.0f} s", flush=True)
            found[row.key][seed] = one
            if options.log:
                with options.log.open("a") as file:
                    file.write(json.dumps(one) + "\n")
    options.out.mkdir(parents=True, exist_ok=True)
    write_page(options.out, name, rows, found)


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


if __name__ == "__main__":
    main()
