"""The pages of class_level.py: tables and pictures of the models that were fitted so far."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from class_level_findings import FINDINGS
from scipy.stats import spearmanr
from scipy.stats import t as student

from sfumato.experiments._pages import stamped
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Items, Page, Section, Table
from sfumato.report._pictures import picture_grid

if TYPE_CHECKING:
    from sfumato.report._drawing import Figure

Found = Mapping[str, Mapping[int, dict[str, Any]]]
Rows = Sequence[Any]
DISTANCES = {
    "mia_distance": "distance",
    "matched_distance": "to as many training images",
    "heldout_distance": "to held-out images",
    "blank_distance": "of a blank image",
    "confidence": "confidence",
}
TABLE_4_1 = {
    "original": (8.02, 8.36, 9.14, 9.50, 8.35, 9.76, 9.64, 8.38, 8.79, 8.93),
    "enhanced": (5.93, 7.89, 8.51, 7.92, 8.2, 8.41, 8.51, 7.76, 8.06, 8.76),
}
TABLE_4_2 = {
    "original": (0.707, 0.663, 0.64, 0.681, 0.668, 0.707),
    "enhanced": (0.691, 0.643, 0.626, 0.664, 0.65, 0.692),
}
TITLES = {"faces": "enhanced"}
FILES = {"mnist": "class-level", "fashion_mnist": "class-level-fashion-mnist", "orl_faces": "class-level-faces"}
SOURCE = "The thesis on class-level privacy, chapter 4. "


def write_page(out: Path, dataset: str, rows: Rows, found: Found) -> None:
    """Write the page of a data set with its pictures."""
    done = [row for row in rows if found.get(row.key)]
    faces = dataset == "orl_faces"
    attack = "faces" if faces else "enhanced"
    sections = [Section("found", "What was found", (Items(FINDINGS[dataset]),))] if FINDINGS[dataset] else []
    sections += [
        Section("accuracy", "Accuracy", (accuracy([row for row in done if row.part == "accuracy"], found, dataset),)),
    ]
    swept = [row for row in done if row.cells and row.noise == 1.6]
    if any(row.part == "cells" for row in swept):
        sections.append(Section("cells", "Number of subclasses (figure 4.9)", (cells(swept, found, attack),)))
    attacked = [row for row in done if attack in row.attacks and of(found, row, "mia_distance", attack)]
    if attacked:
        parts: list[Any] = [inversion(attacked, found, attack)]
        if not faces and any(row.part == "inversion" for row in attacked):
            parts += [pairs(attacked, found), correlations(attacked, found)]
        parts += [by_class(attacked, found, faces)] if dataset != "fashion_mnist" else []
        grid = pictures(FILES[dataset], attacked, found, attack)
        (out / f"{grid.name}.svg").write_text(grid.alone())
        sections.append(Section("inversion", "Model inversion", (*parts, grid)))
    seeds = max(len(fits) for fits in found.values())
    command = f"python benchmarks/class_level.py --dataset {dataset} --seeds {seeds} --log LOG"
    sections.append(Section("again", "Run it again", (Code(command),)))
    lead = SOURCE + "Every fit is the method with its secret noise; epsilon is exact. Means with 95 % t-intervals."
    text = to_markdown(Page(f"Class-level privacy: {dataset}", lead, tuple(sections)))
    (out / f"{FILES[dataset]}.md").write_text(stamped(text))


def of(found: Found, row: Any, key: str, attack: str = "") -> list[float]:
    """One number of each seed; of those whose model met the attack, if one is named."""
    runs = found[row.key].values()
    return [(run["attacks"][attack] if attack else run)[key] for run in runs if not attack or attack in run["attacks"]]


def mean(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> str:
    """With half the width of its 95 % t-interval."""
    if len(values) < 2:
        return f"{scale * values[0]:.{digits}f}" if values else "-"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{scale * np.mean(values):.{digits}f} ± {scale * half:.{digits}f}"


def settings(row: Any) -> tuple[str, ...]:
    """The cells of a row that name it."""
    size = f" {row.size[0]} x {row.size[1]}" if row.size else ""
    cells = f", {row.cells} a class" if row.cells not in (0, 50) else ""
    return row.label + cells, row.method.network + size, f"{row.noise:g}" if row.noise else "-"


def exact(found: Found, row: Any) -> str:
    """The epsilon of a row."""
    return f"{of(found, row, 'epsilon')[0]:.2f}" if row.noise else "-"


def accuracy(rows: Rows, found: Found, dataset: str) -> Table:
    """Accuracies and epsilons beside the published ones."""
    lines = []
    for row in rows:
        known = [f"{value:g}" for value in row.published if dataset != "fashion_mnist"] + ["-", "-"]
        here = of(found, row, "accuracy")
        cost = (f"{row.delta:g}" if row.noise else "-", known[1], exact(found, row))
        seconds = f"{np.mean(of(found, row, 'seconds')):.0f}"
        lines.append((*settings(row), known[0], mean(here, 100), str(len(here)), *cost, seconds))
    columns = ("model", "network", "sigma", "accuracy (published)", "accuracy (here)", "seeds", "delta")
    columns += ("epsilon (published)", "epsilon (exact)", "seconds")
    caption = "Accuracy on test images in percent. Seconds are those of one fit on a shared machine"
    return Table("accuracy", caption, columns, tuple(lines), text=("model", "network")).without_empty()


def cells(rows: Rows, found: Found, attack: str) -> Table:
    """Accuracy and distance by the number of cells of a class."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.method.network, row.cells)):
        if row.part == "accuracy" and row.method.network == "softmax":
            continue
        hit = attack in row.attacks
        measured = [mean(of(found, row, key, attack)) if hit else "-" for key in DISTANCES]
        lines.append(
            (row.method.network, str(row.cells), exact(found, row), mean(of(found, row, "accuracy"), 100), *measured)
        )
    columns = ("network", "subclasses of a class", "epsilon", "accuracy", *DISTANCES.values())
    caption = "Subclass-DP at sigma 1.6 and q = 0.2. Softmax models leave the last 10,000 training images out"
    return Table("cells", caption, columns, tuple(lines), text=("network",))


def inversion(rows: Rows, found: Found, attack: str) -> Table:
    """Distances of every attacked model."""
    lines = []
    for row in rows:
        scored = of(found, row, "validation")
        right = mean(scored if scored[0] is not None else of(found, row, "accuracy"), 100)
        seeds = str(len(of(found, row, next(iter(DISTANCES)), attack)))
        measured = [mean(of(found, row, key, attack)) for key in DISTANCES]
        lines.append((*settings(row), exact(found, row), right, seeds, *measured))
    columns = ("model", "network", "sigma", "epsilon", "accuracy", "seeds", *DISTANCES.values())
    caption = (
        "Enhanced attack: smallest distance to training images of the class, mean over classes (Euclidean for digits, 1 - SSIM "
        "for faces). Accuracy is that on validation images, where there are any, else on test images"
    )
    return Table("inversion", caption, columns, tuple(lines), text=("model", "network"))


def families(rows: Rows) -> dict[str, list[Any]]:
    """The attacked softmax models of each private method, with 50 subclasses of a class."""
    chosen = [row for row in rows if row.part == "inversion" and row.cells in (0, 50) and row.noise]
    return {label: [row for row in chosen if row.label == label] for label in ("record-DP", "subclass-DP")}


def pairs(rows: Rows, found: Found) -> Table:
    """Each subclass-DP model beside the record-DP model of nearest validation accuracy."""
    lines = []
    both = families(rows)
    for row in both["subclass-DP"]:
        right = np.mean(of(found, row, "validation"))
        other = min(both["record-DP"], key=lambda one: abs(np.mean(of(found, one, "validation")) - right))
        line = [f"{row.noise:g} / {other.noise:g}"]
        line.append(f"{100 * right:.2f} / {100 * np.mean(of(found, other, 'validation')):.2f}")
        for key in DISTANCES:
            line.append(" / ".join(f"{np.mean(of(found, one, key, 'enhanced')):.2f}" for one in (row, other)))
        lines.append(tuple(line))
    columns = ("sigma", "accuracy", *DISTANCES.values())
    return Table("pairs", "Subclass-DP / record-DP at about equal validation accuracy, softmax", columns, tuple(lines))


def correlations(rows: Rows, found: Found) -> Table:
    """Rank correlation of epsilon with what the attack finds."""
    lines = []
    for label, family in families(rows).items():
        costs = [of(found, row, "epsilon")[0] for row in family]
        line = [label, str(len(family))]
        for key in DISTANCES:
            values = [np.mean(of(found, row, key, "enhanced")) for row in family]
            same = len(family) < 3 or len(set(values)) == 1
            line.append("-" if same else f"{spearmanr(costs, values).statistic:+.2f}")
        lines.append(tuple(line))
    columns = ("models", "number", *DISTANCES.values())
    caption = "Rank correlation (Spearman) of epsilon with each number over the noise levels above, softmax"
    return Table("correlations", caption, columns, tuple(lines))


def by_class(rows: Rows, found: Found, faces: bool) -> Table:
    """Tables 4.1 and 4.2: the original and the enhanced attack on models without privacy."""
    known, digits = (TABLE_4_2, 3) if faces else (TABLE_4_1, 2)
    width = len(known["original"])
    lines = [
        (f"published, {name}", *(f"{one:g}" for one in values), f"{np.mean(values):.{digits}f}")
        for name, values in known.items()
    ]
    for row in rows:
        if row.noise or "original" not in row.attacks:
            continue
        for name in reversed(row.attacks):
            classes = np.array(
                [[one["train"] for one in run["attacks"][name]["classes"].values()] for run in found[row.key].values()]
            ).mean(0)
            shown = (f"{one:.{digits}f}" for one in classes[:width])
            network = " ".join(filter(None, (row.method.network, " x ".join(map(str, row.size or ())))))
            lines.append((f"{network}, {TITLES.get(name, name)}", *shown, f"{classes[:width].mean():.{digits}f}"))
    columns = ("attack", *(str(one) for one in range(1 if faces else 0, width + (1 if faces else 0))), "mean")
    caption = f"Table 4.{2 if faces else 1}: smallest distance to training images of the class, models without privacy"
    return Table("by-class", caption, columns, tuple(lines))


def pictures(name: str, rows: Rows, found: Found, attack: str) -> Figure:
    """A picture grid of the first ten classes: a training image, then what the attack finds."""
    lines: list[tuple[str, np.ndarray]] = []
    for row in rows:
        run = found[row.key].get(0)
        if run is None or row.cells not in (0, 50):
            continue
        one = run["attacks"][attack]
        if not lines:
            lines.append(("first training image", unpacked(one, "samples")))
        told = f"accuracy {100 * run['accuracy']:.1f}"
        label, network, noise = settings(row)
        lines.append((f"{label}, {network}, sigma {noise}, {told}", unpacked(one, "images")))
    columns = [str(one + (attack == "faces")) for one in range(10)]
    title = "Model inversion: a training image of each class, and what the attack finds in each model"
    return picture_grid(name, title, "; ".join(line for line, _ in lines) + ".", lines, columns)


def unpacked(attack: Mapping[str, Any], key: str) -> np.ndarray:
    """Pixels of the first ten classes from the text of a log."""
    packed = np.frombuffer(base64.b64decode(attack[key]), np.uint8).reshape(attack["shape"])
    return packed[:10].astype(np.float32) / 255
