"""Figures of one run: a score beside its controls, released rows in two dimensions, learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._optional import require
from sfumato.report._drawing import MARKERS, PALETTE, Figure, canvas, finish, ink, legend, style

if TYPE_CHECKING:
    from sfumato.scoring._scores import Summary

MOST_NODES = 2000
THIS_RUN = "This run"
_FEW = 10


def quantity(released: Mapping[str, NDArray[Any]]) -> tuple[str, NDArray[Any]] | None:
    """Return name and rows of the last released table that is not all zero, with a row a node and at least two columns."""
    others = ("edges", "-reports")  # pairs of nodes; bits and places
    tables = {name: rows for name, rows in released.items() if not name.endswith(others)}
    names = [
        name for name, rows in tables.items() if rows.ndim == 2 and rows.shape[1] > 1 and len(rows) > 2 and rows.any()
    ]
    last = max(names, key=lambda name: [int(part) if part.isdigit() else -1 for part in name.split("/")], default=None)
    return None if last is None else (last, released[last])


def projections(
    name: str, rows: NDArray[Any], predicted: NDArray[np.int64] | None, classes: Sequence[str]
) -> tuple[Figure, ...]:
    """Draw PCA and t-SNE of released rows, of at most 2,000 nodes chosen by a fixed seed."""
    total = len(rows)
    kept = np.arange(total)
    if total > MOST_NODES:
        kept = np.sort(np.random.default_rng(0).choice(total, MOST_NODES, replace=False))
    sample = rows[kept].astype(np.float64)
    sample /= np.maximum(np.linalg.norm(sample, axis=1, keepdims=True), 1e-12)
    chosen = None if predicted is None else predicted[kept]
    size = f"{len(kept):,} of {total:,} nodes" if len(kept) < total else f"all {total:,} nodes"
    flat, shares = _pca(sample)
    share = f"The two axes hold {100 * shares[0]:.0f} % and {100 * shares[1]:.0f} % of the variance."
    labels = tuple(f"component {i + 1} ({100 * shares[i]:.0f} %)" for i in range(2))
    figures = [_scatter("pca", f"PCA of {name}, {size}", flat, chosen, classes, labels, share)]
    if len(kept) >= _FEW:
        text = "Distances between far groups mean nothing."
        labels = ("t-SNE 1", "t-SNE 2")
        figures.append(_scatter("t-sne", f"t-SNE of {name}, {size}", _tsne(sample), chosen, classes, labels, text))
    return tuple(figures)


def _pca(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First two principal components [n, 2], their signs fixed, and their shares of the variance."""
    left, values, right = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    signs = np.sign(right[np.arange(2), np.abs(right[:2]).argmax(1)])
    return left[:, :2] * values[:2] * signs, values[:2] ** 2 / max(float((values**2).sum()), 1e-300)


def _tsne(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    manifold = require("sklearn.manifold")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    found = manifold.TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=500).fit_transform(rows)
    return np.asarray(found, np.float64)


def _scatter(
    key: str,
    title: str,
    points: NDArray[np.float64],
    predicted: NDArray[np.int64] | None,
    classes: Sequence[str],
    labels: tuple[str, ...],
    words: str,
) -> Figure:
    groups: list[tuple[int | None, NDArray[Any]]] = [(None, np.arange(len(points)))]
    if predicted is not None:
        groups = [(i, np.flatnonzero(predicted == i)) for i in range(len(classes)) if (predicted == i).any()]
    with style():
        figure, axes = canvas(3.7 + (0.21 * len(groups) if predicted is not None else 0))
        handles, names = [], []
        for i, at in groups:
            color = ink() if i is None else PALETTE[i % len(PALETTE)]
            marker = "o" if i is None else MARKERS[i % len(MARKERS)]
            look = {"linestyle": "none", "color": color, "marker": marker, "markeredgewidth": 0}
            axes.plot(points[at, 0], points[at, 1], markersize=3, alpha=0.65, **look)
            handles += axes.plot([], [], **look)
            names.append("" if i is None else f"{classes[i]}: {len(at):,}")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        if predicted is not None:
            legend(figure, handles, names)
        counted = f" Predicted classes: {', '.join(names)}." if predicted is not None else ""
        return finish(figure, f"figure-{key}", title, f"{title}. {words}{counted}")


def price_figure(
    found: Sequence[tuple[str, Summary]], score: str = "Test accuracy", key: str = "figure-price"
) -> Figure:
    """Draw the score of a run and of its controls as points, with intervals over seeds, on an axis that shows differences."""
    with style():
        figure, axes = canvas(0.9 + 0.55 * len(found))
        start, end = visible(
            [100 * end for _, one in found for end in (one.mean, one.low, one.high) if end is not None]
        )
        for y, (name, one) in zip(reversed(range(len(found))), found, strict=True):
            own = name == THIS_RUN
            axes.hlines(y, start, end, color=ink(), alpha=0.13, linewidth=0.8)
            axes.text(start, y + 0.2, f"{name}: {one}", va="bottom", fontweight="bold" if own else "normal")
            if one.low is not None and one.high is not None:
                axes.hlines(y, 100 * one.low, 100 * one.high, color=ink(), linewidth=1.4)
            axes.plot([100 * one.mean], [y], marker="o" if own else "D", color=PALETTE[0 if own else 6], clip_on=False)
        axes.set_yticks([])
        axes.set_ylim(-0.4, len(found) - 0.25)
        axes.set_xlim(start, end)
        axes.set_xlabel(f"{score}, %" + (f" (the axis starts at {start:.4g})" if start else ""))
        axes.grid(False, axis="y")
        axes.spines["left"].set_visible(False)
        words = "; ".join(f"{name}: {one}" for name, one in found)
        title = f"{score} beside floor and ceiling"
        return finish(figure, key, title, f"{title}. {words}.")


def visible(percents: Sequence[float]) -> tuple[float, float]:
    """Return where an axis of percents starts and ends, so that differences can be seen."""
    low, high = min(percents), max(percents)
    step = next(step for step in (1.0, 5.0, 10.0) if high - low <= 6 * step or step == 10)
    return max(0.0, step * math.floor(low / step - 0.3)), min(100.0, step * math.ceil(high / step + 0.3))


def curves_figure(curves: Mapping[str, Any]) -> Figure | None:
    """Draw the training loss of each stage by epoch or step; None if nothing was recorded."""
    kept = {name: np.asarray(values, float) for name, values in curves.items() if isinstance(values, list) and values}
    kept = {name: values for name, values in kept.items() if np.isfinite(values).any()}
    if not kept:
        return None
    with style():
        figure, axes = canvas(2.9 + 0.21 * len(kept))
        handles = [
            axes.plot(np.arange(1, len(values) + 1), values, color=PALETTE[i % len(PALETTE)], linestyle=dashes)[0]
            for i, ((name, values), dashes) in enumerate(zip(kept.items(), ("-", "--", "-.", ":") * 9, strict=False))
        ]
        axes.set_xlabel("epoch")
        axes.set_ylabel("training loss")
        legend(figure, handles, list(kept))
        words = "; ".join(
            f"{name}: from {values[0]:.3g} to {values[-1]:.3g} in {len(values):,} epochs"
            for name, values in kept.items()
        )
        return finish(figure, "figure-curves", "Training loss", f"Training loss. {words}.")
