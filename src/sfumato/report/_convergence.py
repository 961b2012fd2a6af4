"""Accuracy after every step of training in an experiment, over all stages: a figure and a table for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.experiments._results import CURVE_ROLES
from sfumato.report._drawing import PALETTE, Figure, canvas, finish, ink, legend, style
from sfumato.report._page import Section, Table
from sfumato.report._words import interval, percent, plain

if TYPE_CHECKING:
    from sfumato.experiments._results import Line

Stage = Mapping[str, Any]
"""The number of steps of a stage, some of them, and the mean accuracies after these, by role."""
_TEXT = (
    "Accuracy on training and validation nodes after every step of training, mean over seeds with its 95 % t-interval. Every "
    "step is measured with true labels, most at weights that are never released. No run reads it and no certificate covers "
    "it: where labels are private, it must not leave."
)


def convergence_section(name: str, lines: Sequence[Line]) -> Section | None:
    """Return figures and table of the lines that hold curves; None without such lines. ``name`` begins the figures' ids."""
    figures: list[Figure] = []
    ends: list[tuple[str, ...]] = []
    for line in lines:
        if line.curves:
            where = line.label, plain(line.epsilon), plain(line.at)
            label, epsilon, at = where
            shown = label + (f", epsilon {epsilon}" if epsilon != "-" else "") + (f", at {at}" if at != "-" else "")
            figures.append(_figure(f"{name}-convergence-{len(figures) + 1}", shown, line.curves))
            ends += [(*where, stage, *_end(found), str(line.seeds)) for stage, found in line.curves.items()]
    if not figures:
        return None
    table = Table(
        "convergence-ends",
        "Accuracy in percent after the last step of each stage",
        (
            "Run",
            "Epsilon",
            "At",
            "Stage",
            "Steps",
            "Training",
            "Training 95 % interval",
            "Validation",
            "Validation 95 % interval",
            "Seeds",
        ),
        tuple(ends),
        text=("Stage",),
    )
    return Section("convergence", "Convergence", (_TEXT, *figures, table.without_empty()), kind="outside")


def _end(found: Stage) -> tuple[str, ...]:
    shown = []
    for role in CURVE_ROLES:
        mean, low, high = found[role][-1] if found.get(role) else (None, None, None)
        shown += [percent(mean), interval(low, high)]
    return (f"{found['steps']:,}", *shown)


def _figure(key: str, label: str, stages: Mapping[str, Stage]) -> Figure:
    """Draw both accuracies over all stages, one after the other, with a rule where a stage ends."""
    bounds = np.cumsum([found["steps"] for found in stages.values()])
    starts = [0, *bounds[:-1].tolist()]
    kept = [start + at for start, found in zip(starts, stages.values(), strict=True) for at in found["at"]]
    roles = [role for role in CURVE_ROLES if all(found.get(role) for found in stages.values())]
    with style():
        figure, axes = canvas(3.2)
        handles = []
        for role, color, dashes in zip(roles, PALETTE, ("-", (0, (4, 1.5))), strict=False):
            shown = [point for found in stages.values() for point in found[role]]
            means = [100 * mean for mean, _, _ in shown]
            handles += axes.plot(kept, means, color=color, linestyle=dashes, linewidth=1.3)
            if all(low is not None for _, low, _ in shown):
                low, high = ([100 * point[end] for point in shown] for end in (1, 2))
                axes.fill_between(kept, low, high, color=color, alpha=0.16, linewidth=0)
        for bound in bounds[:-1]:
            axes.axvline(bound + 0.5, color=ink(), alpha=0.35, linewidth=0.8)
        axes.set_xlabel("training step, over all stages")
        axes.set_ylabel("accuracy, %")
        legend(figure, handles, [f"{role} nodes" for role in roles])
        title = f"Convergence of {label}"
        thinned = f" {len(kept):,} of {bounds[-1]:,} steps are drawn." if len(kept) < bounds[-1] else ""
        words = "; ".join(f"{stage}: {_in_words(found)}" for stage, found in stages.items())
        return finish(figure, key, title, f"{title}. Evaluation, never released. At the end of {words}.{thinned}")


def _in_words(found: Stage) -> str:
    ends = [(role, found[role][-1][0]) for role in CURVE_ROLES if found.get(role)]
    return ", ".join(f"{role} {percent(mean)} %" for role, mean in ends) or "nothing was measured"
