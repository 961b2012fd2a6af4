"""Figures of an experiment: accuracy curves with floor and ceiling, or a list of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.report._drawing import MARKERS, PALETTE, Figure, canvas, finish, ink, legend, style, wrapped
from sfumato.report._words import AXES, capital, interval, percent, plain

if TYPE_CHECKING:
    from sfumato.experiments._results import Line

_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_FLAT: dict[str, Any] = {
    "floor": (0, (1, 1.5)),
    "ceiling": (0, (6, 2)),
    "label-control": (0, (6, 2, 1, 2)),
    "no-information": (0, (1, 1)),
    "method": (0, (4, 1)),
}


@dataclass(frozen=True)
class Curve:
    """Lines of a run that differ only along the axis; a ``flat`` curve has no value there and is drawn across all of it."""

    label: str
    role: str
    lines: tuple[Line, ...]
    flat: bool


def curves_of(lines: Sequence[Line], axis: str) -> tuple[Curve, ...]:
    """Split lines into curves: over epsilon, or over what is varied, with a curve for each epsilon."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        other = line.at if axis == "epsilon" else line.epsilon
        groups.setdefault((line.label, repr(other)), []).append(line)
    several = {label: sum(one == label for one, _ in groups) > 1 for label, _ in groups}
    curves = []
    for (label, _), group in groups.items():
        other = group[0].at if axis == "epsilon" else group[0].epsilon
        name = AXES.get("epsilon" if axis != "epsilon" else "", "at")
        shown = f"{label}, {name} {plain(other)}" if several[label] and other is not None else label
        curves.append(Curve(shown, group[0].role, tuple(group), all(place(line, axis) is None for line in group)))
    return tuple(curves)


def place(line: Line, axis: str) -> Any:
    """Return the value of a line on the axis; None if the line holds everywhere."""
    return line.epsilon if axis == "epsilon" else line.at


def accuracy_figure(
    name: str, lines: Sequence[Line], axis: str, dataset: str, measure: str = "accuracy"
) -> Figure | None:
    """Draw curves with 95 % bands if something varies along the axis, else a list of points; None without results."""
    if not any(line.score for line in lines):
        return None
    curves = curves_of(lines, axis)
    if any(len({place(line, axis) for line in curve.lines if line.score}) > 1 for curve in curves):
        return _curves(name, curves, axis, dataset, measure)
    return _points(name, lines, dataset, measure)


def _curves(name: str, curves: Sequence[Curve], axis: str, dataset: str, measure: str) -> Figure:
    word = AXES.get(axis, axis.replace("_", " "))
    places = sorted(
        {place(line, axis) for curve in curves for line in curve.lines} - {None}, key=lambda at: (str(type(at)), at)
    )
    numbers = all(isinstance(at, (int, float)) and not isinstance(at, bool) for at in places)
    x = {at: at if numbers else index for index, at in enumerate(places)}
    with style():
        figure, axes = canvas(2.9 + 0.21 * len(curves))
        handles = [_curve(axes, curve, number, axis, x) for number, curve in enumerate(curves)]
        _ground(axes, numbers, places)
        axes.set_xlabel(word if numbers else f"{word} (a setting)")
        axes.set_ylabel(f"test {measure}, %")
        published = any(line.published for curve in curves for line in curve.lines)
        labels = [curve.label for curve in curves] + ["hollow: published"] * published
        hollow = axes.plot([], [], linestyle="none", marker="o", markerfacecolor="none", color=ink())
        legend(figure, handles + hollow * published, labels)
        title = f"{capital(measure)} against {word} on {dataset}"
        return finish(figure, name, title, f"{title}. " + " ".join(_curve_words(curve, axis) for curve in curves))


def _curve(axes: Any, curve: Curve, number: int, axis: str, x: dict[Any, Any]) -> Any:
    """Draw one curve: mean, band, and hollow marks for what was published; its handle for the legend."""
    color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
    done = [line for line in curve.lines if line.score]
    if curve.flat:
        dashes = _FLAT[curve.role]
        (handle,) = axes.plot([], [], color=color, linestyle=dashes)
        for line in done:
            axes.axhline(100 * line.mean, color=color, linestyle=dashes)
            if line.score is not None and line.score.low is not None and line.score.high is not None:
                axes.axhspan(100 * line.score.low, 100 * line.score.high, color=color, alpha=0.13, linewidth=0)
        for line in curve.lines:
            if line.published is not None:
                _published(axes, [1.0], line, color, marker, transform=axes.get_yaxis_transform(), clip_on=False)
        return handle
    dashes = _DASHES[number % len(_DASHES)] if curve.role == "method" else _FLAT[curve.role]
    where = [x[place(line, axis)] for line in done]
    (handle,) = axes.plot(where, [100 * line.mean for line in done], color=color, marker=marker, linestyle=dashes)
    banded = [
        (at, line.score) for at, line in zip(where, done, strict=True) if line.score and line.score.low is not None
    ]
    if banded:
        low, high = ([100 * (getattr(score, end) or 0) for _, score in banded] for end in ("low", "high"))
        axes.fill_between([at for at, _ in banded], low, high, color=color, alpha=0.16, linewidth=0)
    for line in curve.lines:
        if line.published is not None:
            _published(axes, [x[place(line, axis)]], line, color, marker)
    return handle


def _published(
    axes: Any, at: list[Any], line: Line, color: str, marker: str, across: bool = False, **more: Any
) -> None:
    """A hollow mark with its published half-width; ``across`` if accuracy runs to the right."""
    number = line.published
    assert number is not None
    spot = ([number.value], at) if across else (at, [number.value])
    hollow = {"marker": marker, "markerfacecolor": "none", "markersize": 9, "markeredgewidth": 1.6, "linestyle": "none"}
    axes.plot(*spot, color=color, **hollow, **more)
    if number.half_width and not more:
        width = {"xerr" if across else "yerr": [number.half_width]}
        axes.errorbar(*spot, **width, color=color, linewidth=1.2, capsize=2, linestyle="none")


def _ground(axes: Any, numbers: bool, places: Sequence[Any]) -> None:
    """Ticks at the places that were run, on a logarithmic axis where they spread widely."""
    if not numbers:
        axes.set_xticks(range(len(places)), [wrapped(plain(at)) for at in places])
        axes.set_xlim(-0.4, len(places) - 0.6)
        return
    spread = places[0] > 0 and places[-1] / places[0] > 6
    if spread:
        axes.set_xscale("log")
        axes.minorticks_off()
    kept = _apart([math.log(at) if spread else float(at) for at in places])
    axes.set_xticks([places[i] for i in kept], [plain(float(places[i])) for i in kept])


def _apart(places: Sequence[float]) -> list[int]:
    """Which of the sorted places to write a tick at: first, last, and those between that have room for their text."""
    room = 0.09 * (places[-1] - places[0])
    kept = [0]
    for i in range(1, len(places) - 1):
        if places[i] - places[kept[-1]] >= room and places[-1] - places[i] >= room:
            kept.append(i)
    return [*kept, len(places) - 1] if len(places) > 1 else kept


def _curve_words(curve: Curve, axis: str) -> str:
    return f"{curve.label}: " + "; ".join(_line_words(line, place(line, axis)) for line in curve.lines) + "."


def _line_words(line: Line, at: Any) -> str:
    where = "" if at is None else f" at {plain(at)}"
    if line.score is None:
        ours = "not run"
    else:
        ours = f"{percent(line.mean)} %"
        ours += f" ({interval(line.score.low, line.score.high)})" if line.score.low is not None else ""
    theirs = f", published {line.published.value:g} %" if line.published else ""
    return ours + where + theirs


def _points(name: str, lines: Sequence[Line], dataset: str, measure: str) -> Figure:
    """One row a line: its label above, our mean with its interval, and the published number hollow."""
    labels = [_named(line) for line in lines]
    with style():
        figure, axes, rows = _rows(labels)
        for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
            color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
            if line.score is not None:
                if line.score.low is not None and line.score.high is not None:
                    ends = [100 * line.score.low, 100 * line.score.high]
                    axes.plot(ends, [row, row], color=color, linewidth=3, alpha=0.5)
                axes.plot([100 * line.mean], [row], color=color, marker=marker, linestyle="none")
            if line.published is not None:
                _published(axes, [row], line, color, marker, across=True)
        published = " (hollow: published)" if any(line.published for line in lines) else ""
        axes.set_xlabel(f"test {measure}, %{published}")
        axes.margins(x=0.06)
        title = f"{capital(measure)} on {dataset}"
        words = "; ".join(f"{label}: {_line_words(line, None)}" for label, line in zip(labels, lines, strict=True))
        return finish(figure, name, title, f"{title}. {words}.")


def _rows(labels: Sequence[str]) -> tuple[Any, Any, list[float]]:
    """A figure with a row for each label, which stands above its marks, and where the rows are."""
    texts = [wrapped(label) for label in labels]
    rows, end = [], -0.85
    for text in texts:
        end += 1 + 0.36 * text.count("\n")
        rows.append(end - 0.15)
    figure, axes = canvas(0.7 + 0.46 * (end + 0.85))
    axes.set_ylim(end + 0.25, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for row, text in zip(rows, texts, strict=True):
        axes.text(0, row - 0.3, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=9.5)
    return figure, axes, rows


def _named(line: Line) -> str:
    budget = "" if line.epsilon is None else f", epsilon {plain(line.epsilon)}"
    return line.label + budget + ("" if line.at is None else f", at {plain(line.at)}")
