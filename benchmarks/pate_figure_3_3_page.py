"""The page of figure 3.3: curves of one seed, noise rates by part of the training, and what taking labels away is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_smoothing_spline
from scipy.stats import t as student

from sfumato.experiments._pages import stamped
from sfumato.report._drawing import PALETTE, Figure, canvas, finish, legend, style
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Code, Items, Page, Part, Section, Table

Line = dict[str, Any]
Curves = Mapping[str, tuple[NDArray[Any], NDArray[Any], str]]  # name: epochs, values, line style
PARTS = 5  # of the training
TITLES = {
    "edges": "Our students: histograms of edges, noise in the layers, averaged weights",
    "networks": "As the source trains, reduced: seven convolutions, no noise, no averaging",
}
ABOUT = {
    "edges": "Two linear layers (300, 150), 60 epochs, 6,800 unlabeled images: the students of pate-table-3-1.",
    "networks": (
        "Reduced for two cores: images of 14 x 14 (means of 2 x 2 pixels), 8 and 16 channels where the source has 96 and 192, "
        "2,200 unlabeled images, so that an epoch is 22 steps, 200 epochs, a learning rate of 0.003 (0.01, which is printed, was "
        "unsteady on training images). The last weights predict."
    ),
}
PRINTED = {"PATE": "74.8", "PATE+": "76.5", "PATE with co-teaching": "77.3", "PATE++": "79.6"}
"""Table 3.1 at 4.05, the lowest first."""
KINDS = {
    "apart": "disagreement",
    "disputed": "disputed",
    "learned": "learned by PATE+",
    "easy": "small loss, of all",
}
"""Sets of labels whose noise rate is told: the two predict different classes; neither of these is the label; those with a small
loss among the first; those with a small loss among all labels, which co-teaching would learn."""


def write(lines: Sequence[Line], out: Path) -> None:
    """Write the page and its figures."""
    if not any("trace" in line for line in lines):
        print("No page: the log holds no PATE+ yet.")
        return
    days = sorted({line["date"] for line in lines})
    regimes = {name: own for name, own in ((name, of(lines, name)) for name in TITLES) if traces(own)}
    page = Page(
        "Disagreements of two discriminators, Fashion-MNIST (thesis figure 3.3)",
        "Q. Zhang (2021), Differentially Private Deep Learning, Emory University thesis, figure 3.3 and section 3.3.3. Which "
        "labels are wrong, and all accuracies, read true labels: evaluation, outside every guarantee.",
        (
            Section("claim", "What is asked", (CLAIM,)),
            Section("found", "What was found", (Items(tuple(findings(regimes))),)),
            *(Section(name, TITLES[name], tuple(regime(name, own))) for name, own in regimes.items()),
            Section(
                "again", "Run it again", (Code("python benchmarks/pate_figure_3_3.py --log runs/figure-3-3.jsonl"),)
            ),
        ),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "pate-figure-3-3.md").write_text(stamped(to_markdown(page), date=days[-1]))
    for figure in page.figures():
        (out / f"{figure.name}.svg").write_text(figure.alone())


CLAIM = (
    "PATE+ learns from labels whose class two discriminators disagree about. The source shows, for 2,200 labels of which 726 are "
    "wrong, that disagreements become few (less than 50 after 400 epochs), and that more of them are wrong than of all labels: "
    "at first about as many, then more, at last fewer again. PATE++ takes labels away on this ground: those that two "
    "discriminators dispute, which means that they predict different classes and neither is the label. Here 250 kernel teachers "
    "label 2,200 images under GNMax noise of 94 votes, which makes as many labels wrong. Predictions are those of the training "
    "steps; of a label that an epoch shows several times, the last. A label is learned if it is among those with the smallest "
    "loss of a disagreement; the last column takes the smallest losses of all labels, as co-teaching does."
)


def findings(regimes: Mapping[str, Sequence[Line]]) -> Iterator[str]:
    """What the numbers say, for each way of training."""
    for name, lines in regimes.items():
        watched = traces(lines)
        overall, apart = base(lines), np.array([rate(trace, "apart", slice(None)) for trace in watched])
        more = apart - overall
        counts = np.mean(
            [[np.mean(trace["apart"][part]) for part in (parts(trace)[0], parts(trace)[-1])] for trace in watched],
            axis=0,
        )
        disputed, easy = (
            np.array([rate(trace, kind, slice(None)) for trace in watched]) for kind in ("disputed", "easy")
        )
        verdict = "one seed says nothing of the spread"
        if len(more) > 1:
            verdict = "clearly more" if more.mean() > half(more) else "not clearly more"
            verdict += f", by {shown(more, sign=True)} points seed by seed"
        yield (
            f"{TITLES[name]}. Of disagreements {shown(apart)} % are wrong, of all {100 * overall.mean():.1f} %: {verdict}. "
            f"Of disputed labels {shown(disputed)} % are wrong, of those with a small loss {shown(easy)} %. Disagreements number "
            f"{counts[0]:.0f} a pass in the first fifth of the training and {counts[1]:.0f} in the last."
        )
        scores = accuracies(lines)
        for other in ("PATE++", "PATE++, of all labels alike", "a random share removed", "wrong labels removed"):
            both = sorted(set(scores.get(other, {})) & set(scores.get("PATE+", {})))
            if both:
                gain = np.array([scores[other][seed] - scores["PATE+"][seed] for seed in both])
                title = TITLES[name].split(":")[0]
                yield f"{title}: {other} against PATE+, same labels and seeds: {shown(gain, sign=True)} points."
        for seed in sorted({line["seed"] for line in lines}):
            own = {student: scores.get(student, {}).get(seed) for student in PRINTED}
            if None not in own.values():
                said = " < ".join(f"{student} {100 * own[student]:.1f}" for student in sorted(own, key=own.__getitem__))
                order = (
                    "that of table 3.1"
                    if [*sorted(own, key=own.__getitem__)] == [*PRINTED]
                    else "not that of table 3.1"
                )
                yield f"{TITLES[name].split(':')[0]}: the order of the four students at seed {seed} is {order}: {said}."


def regime(name: str, lines: Sequence[Line]) -> Iterator[Part]:
    """Curves and tables of one way of training."""
    yield ABOUT[name]
    watched = traces(lines)
    first, overall = watched[0], base(lines)
    epochs = np.arange(1, len(first["apart"]) + 1)
    stem = "pate-figure-3-3" + ("" if name == "edges" else f"-{name}")
    yield drawn(
        f"{stem}-accuracy",
        "(a) Training accuracy of the two discriminators, seed 0",
        "right by the given labels, %",
        {
            "discriminator 1": (epochs, 100 * np.array(first["first_fits"]), "-"),
            "discriminator 2": (epochs, 100 * np.array(first["second_fits"]), "--"),
            "both, of the wrong labels alone": (epochs, 100 * np.array(first["wrong_fitted"]), ":"),
        },
    )
    yield drawn(
        f"{stem}-count",
        "(b) Labels that the discriminators disagree about, of 2,200",
        "labels",
        {
            f"seed {seed}": (epochs, np.array(trace["apart"]), ("-", "--", ":", "-.")[seed % 4])
            for seed, trace in enumerate(watched)
        },
    )
    raw = np.array([np.divide(trace["apart_wrong"], np.maximum(trace["apart"], 1)) for trace in watched])
    easy = np.array([np.divide(trace["easy_wrong"], trace["easy"]) for trace in watched])
    smooth = (
        make_smoothing_spline(epochs.astype(float), 100 * raw.mean(0))(epochs) if len(epochs) > 4 else 100 * raw.mean(0)
    )
    yield drawn(
        f"{stem}-noise",
        "(c) Share of wrong labels, mean over seeds",
        "wrong, %",
        {
            "disagreements": (epochs, 100 * raw.mean(0), ":"),
            "disagreements, smoothing spline": (epochs, smooth, "-"),
            "all labels": (epochs, np.full(len(epochs), 100 * overall.mean()), "--"),
            "small loss among all labels": (epochs, 100 * easy.mean(0), "-."),
        },
    )
    yield noise_table(name, watched, overall)
    yield accuracy_table(name, lines)


def noise_table(name: str, watched: Sequence[Line], overall: NDArray[np.float64]) -> Table:
    rows = []
    for number, part in enumerate(parts(watched[0]), 1):
        span = f"{part.start + 1} to {part.stop}"
        count = np.mean([np.mean(trace["apart"][part]) for trace in watched])
        cells = (shown([rate(trace, kind, part) for trace in watched]) for kind in KINDS)
        rows.append((f"{number}: epochs {span}", f"{count:.0f}", *cells))
    caption = (
        f"Share of wrong labels in percent, mean with 95 % t-interval over seeds (here {len(watched)}); of all labels "
        f"{100 * overall.mean():.1f} are wrong"
    )
    return Table(
        f"{name}-noise",
        caption,
        ("Part", "Disagreements", *(word[0].upper() + word[1:] for word in KINDS.values())),
        tuple(rows),
    )


def accuracy_table(name: str, lines: Sequence[Line]) -> Table:
    rows = []
    for variant, scores in accuracies(lines).items():
        own = [line for line in lines if line["variant"] == variant and line.get("removed")]
        removed = f"{np.mean([line['removed'] for line in own]):.0f}" if own else "-"
        wrong = f"{np.mean([100 * line['removed_wrong'] / line['removed'] for line in own]):.1f}" if own else "-"
        rows.append(
            (variant, shown(list(scores.values())), str(len(scores)), removed, wrong, PRINTED.get(variant, "-"))
        )
    return Table(
        f"{name}-accuracy",
        "Test accuracy in percent, and which labels were taken away before the second training; printed is table 3.1 at 4.05 "
        "(labels under noise 94 of our teachers cost 3.64 as published)",
        ("Student", "Accuracy", "Seeds", "Labels removed", "Wrong among them, %", "Printed"),
        tuple(rows),
    )


def of(lines: Sequence[Line], name: str) -> list[Line]:
    return [line for line in lines if line["regime"] == name]


def traces(lines: Sequence[Line]) -> list[Line]:
    return [line["trace"] for line in sorted(lines, key=lambda line: line["seed"]) if "trace" in line]


def base(lines: Sequence[Line]) -> NDArray[np.float64]:
    """The share of wrong labels of each watched seed."""
    own = sorted((line for line in lines if "trace" in line), key=lambda line: line["seed"])
    return np.array([line["wrong"] / line["labels"] for line in own])


def accuracies(lines: Sequence[Line]) -> dict[str, dict[int, float]]:
    """Accuracy by student and seed."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        found.setdefault(line["variant"], {})[line["seed"]] = line["accuracy"]
    return found


def rate(trace: Line, kind: str, part: slice) -> float:
    """The share of wrong labels in a set, over the epochs of a part."""
    return float(sum(trace[f"{kind}_wrong"][part]) / max(sum(trace[kind][part]), 1))


def parts(trace: Line) -> list[slice]:
    ends = np.linspace(0, len(trace["apart"]), PARTS + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def half(values: NDArray[np.float64]) -> float:
    """Half of the 95 % t-interval of a mean."""
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)


def shown(values: Sequence[float] | NDArray[np.float64], *, sign: bool = False) -> str:
    """A mean of shares in percent with its interval, if there are several."""
    found = 100 * np.asarray(values)
    mean = f"{found.mean():{'+' if sign else ''}.1f}"
    return mean if len(found) < 2 else f"{mean} ({found.mean() - half(found):.1f} to {found.mean() + half(found):.1f})"


def drawn(name: str, title: str, unit: str, lines: Curves) -> Figure:
    """Lines over epochs."""
    with style():
        figure, axes = canvas(2.7 + 0.21 * len(lines))
        handles = []
        for i, (epochs, values, dashes) in enumerate(lines.values()):
            handles += axes.plot(epochs, values, dashes, color=PALETTE[i])
        axes.set_xlabel("epoch")
        axes.set_ylabel(unit)
        legend(figure, handles, list(lines))
        words = (
            f"{label}: {values[0]:.1f} at first, {values[-1]:.1f} at last" for label, (_, values, _) in lines.items()
        )
        return finish(figure, name, title, f"{title}. " + "; ".join(words) + ".")
