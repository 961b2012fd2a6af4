"""Figures of the parts of an evaluation: ranking by class, calibration, whom the top of a ranking finds, accuracy by degree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.report._drawing import PALETTE, Figure, canvas, finish, ink, legend, style
from sfumato.report._run_figures import visible
from sfumato.report._words import clean

MODELS = {"floor": "floor", "label_control": "control", "run": "this run", "ceiling": "ceiling"}
"""How pages call the models of an evaluation, in their order."""
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "floor": {"color": PALETTE[6], "marker": "D", "linestyle": ":"},
    "label_control": {"color": PALETTE[2], "marker": "^", "linestyle": "-."},
    "run": {"color": PALETTE[0], "marker": "o", "linestyle": "-"},
    "ceiling": {"color": PALETTE[1], "marker": "s", "linestyle": "--"},
}
_MOST_CLASSES, _LONGEST = 16, 12
Rows = Sequence[Mapping[str, Any]]


def models_in(found: Mapping[str, Any]) -> list[str]:
    """Return the names of the models that something was measured of, in the order of pages."""
    return [name for name in MODELS if name in found]


def class_figure(rows: Rows) -> Figure:
    """Draw the area under the ROC curve of each class against the rest, the smallest first; of many classes the smallest."""
    rows = rows[:_MOST_CLASSES]
    with style():
        figure, axes = canvas(3.6 + 0.21 * len(models_in(rows[0]["scores"])))
        points = {name: [100 * row["scores"][name]["roc_auc"] for row in rows] for name in models_in(rows[0]["scores"])}
        _dots(axes, points)
        axes.set_xticks(range(len(rows)), [_cut(row["name"]) for row in rows], rotation=35, ha="right")
        axes.set_xlim(-0.5, len(rows) - 0.5)
        _from(axes, [value for values in points.values() for value in values], "AUC, one class against the rest, %")
        _legend(figure, axes, points)
        title = "Ranking by class, smallest class first"
        words = "; ".join(
            f"{row['name']} ({row['nodes']:,} test nodes): "
            + ", ".join(f"{MODELS[name]} {values[at]:.1f} %" for name, values in points.items())
            for at, row in enumerate(rows)
        )
        return finish(figure, "figure-classes", title, f"{title}. Area under the ROC curve. {words}.")


def reliability_figure(found: Mapping[str, Any]) -> Figure:
    """Draw how often a probability came true, in ten groups of equally many nodes; ``found`` is that of metrics.json."""
    names = [name for name in models_in(found) if name in ("floor", "run", "ceiling")]
    what = "of the class that is told" if found["of"] is None else f"of class {clean(found['of'])}"
    with style():
        figure, axes = canvas(3.9 + 0.21 * len(names))
        ends = [100 * one[key] for name in names for one in found[name] for key in ("told", "true")]
        start, end = visible(ends)
        axes.plot([start, end], [start, end], color=ink(), alpha=0.4, linewidth=1)
        for name in names:
            told, true = ([100 * one[key] for one in found[name]] for key in ("told", "true"))
            axes.plot(told, true, **{**_LOOKS[name], "markersize": 5 if name == "run" else 3, "label": MODELS[name]})
        axes.set_xlim(start, end)
        axes.set_ylim(start, end)
        axes.set_xlabel(_said(f"probability {what}, %", start))
        axes.set_ylabel("how often it came true, %")
        legend(figure, *axes.get_legend_handles_labels())
        title = "Reliability of probabilities"
        words = ", ".join(f"{100 * one['told']:.1f} % came true in {100 * one['true']:.1f} %" for one in found["run"])
        text = f"{title} {what}, in ten groups of equally many test nodes; on the diagonal they come true as often as they say."
        return finish(figure, "figure-reliability", title, f"{text} This run: {words}.")


def lift_figure(found: Mapping[str, Any]) -> Figure:
    """Draw which share of a class is among the nodes with its highest probabilities; ``found`` is that of metrics.json."""
    names, tops = models_in(found), [100 * share for share in found["top"]]
    with style():
        figure, axes = canvas(3.4 + 0.21 * len(names))
        axes.plot([0, tops[-1]], [0, tops[-1]], color=ink(), alpha=0.4, linewidth=1)
        for name in names:
            values = [100 * one["recall"] for one in found[name]]
            axes.plot([0, *tops], [0, *values], markersize=4, label=MODELS[name], **_LOOKS[name])
        axes.set_xlim(0, tops[-1])
        axes.set_ylim(0, 100)
        axes.set_xlabel("share of test nodes with the highest probability, %")
        axes.set_ylabel("share of the class among them, %")
        legend(figure, *axes.get_legend_handles_labels())
        title = f"Whom the top of the ranking finds: class {clean(found['class'])}"
        words = "; ".join(
            f"top {top:g} %: " + ", ".join(f"{MODELS[name]} {100 * found[name][at]['recall']:.1f} %" for name in names)
            for at, top in enumerate(tops)
        )
        return finish(figure, "figure-lift", title, f"{title}. The thin line is a draw by chance. {words}.")


def degree_figure(rows: Rows) -> Figure:
    """Draw the accuracy by degree, of the run with 95 % Wilson intervals over nodes; ``rows`` are those of metrics.json."""
    with style():
        names = models_in(rows[0]["scores"])
        figure, axes = canvas(3.1 + 0.21 * len(names))
        points = {name: [100 * row["scores"][name]["accuracy"] for row in rows] for name in names}
        ends = [wilson(row["scores"]["run"]["accuracy"], row["nodes"]) for row in rows]
        aside = dict(zip(names, _places(len(names)), strict=True))["run"]
        for at, (low, high) in enumerate(ends):
            axes.vlines(at + aside, 100 * low, 100 * high, color=PALETTE[0], alpha=0.45, linewidth=3)
        _dots(axes, points)
        axes.set_xticks(
            range(len(rows)), [row["name"].replace(" to ", "-") for row in rows], rotation=35 * (len(rows) > 5)
        )
        axes.set_xlim(-0.5, len(rows) - 0.5)
        axes.set_xlabel("degree")
        values = [*(value for one in points.values() for value in one), *(100 * end for pair in ends for end in pair)]
        _from(axes, values, "test accuracy, %")
        _legend(figure, axes, points)
        shares = zip(rows, points["run"], strict=True)
        words = "; ".join(f"degree {row['name']}: {value:.1f} % of {row['nodes']:,} nodes" for row, value in shares)
        return finish(figure, "figure-degree", "Test accuracy by degree", f"Test accuracy by degree. {words}.")


def wilson(share: float, nodes: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share of ``nodes``."""
    z2 = 1.959963985**2
    middle = (share + z2 / (2 * nodes)) / (1 + z2 / nodes)
    half = math.sqrt(z2 * (share * (1 - share) / nodes + z2 / (4 * nodes * nodes))) / (1 + z2 / nodes)
    return max(0.0, middle - half), min(1.0, middle + half)


def _dots(axes: Any, points: Mapping[str, Sequence[float]]) -> None:
    """A point for each row and model, side by side so that none covers another."""
    places = _places(len(points))
    for (name, values), aside in zip(points.items(), places, strict=True):
        look = {**_LOOKS[name], "linestyle": "none", "markersize": 6 if name == "run" else 4}
        axes.plot([at + aside for at in range(len(values))], values, label=MODELS[name], **look)


def _places(count: int) -> Iterator[float]:
    return (0.14 * (at - (count - 1) / 2) for at in range(count))


def _from(axes: Any, percents: Sequence[float], label: str) -> None:
    """Start an axis where differences can be seen, and say so."""
    start, end = visible(percents)
    axes.set_ylim(start, end)
    axes.set_ylabel(_said(label, start, "\n"))


def _said(label: str, start: float, gap: str = " ") -> str:
    return f"{label}{gap}(axis from {start:.4g})" if start else label


def _legend(figure: Any, axes: Any, points: Mapping[str, Any]) -> None:
    if len(points) > 1:
        legend(figure, *axes.get_legend_handles_labels())


def _cut(name: str) -> str:
    text = clean(name) or "-"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
