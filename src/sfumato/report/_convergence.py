"""Accuracy after every step of training in an experiment, over all stages: a figure and a table for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.report._drawing import PALETTE, Figure, canvas, finish, ink, legend, style
from sfumato.report._page import Section, Table
from sfumato.report._words import interval, percent, plain
from sfumato.scoring._scores import Summary

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row

Step = Mapping[str, Summary]
"""What the seeds measured after one step, by role."""
_MOST_POINTS = 600
_ROLES = ("train", "validation")
_TEXT = (
    "Accuracy on training and validation nodes after every step of training, mean over seeds with its 95 % t-interval. Every "
    "step is measured with true labels, most at weights that are never released. No run reads it and no certificate covers "
    "it: where labels are private, it must not leave."
)


def convergence_section(name: str, rows: Sequence[Row]) -> Section | None:
    """Return figures and table of the runs whose rows hold curves; None without such rows. ``name`` begins the figures' ids."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == "done" and row["metrics"].get("curves"):
            where = row["label"], plain(row["epsilon"]), plain(row["at"])
            groups.setdefault(where, []).append(row["metrics"]["curves"])
    if not groups:
        return None
    figures, ends = [], []
    for number, (where, curves) in enumerate(groups.items(), 1):
        stages = {stage: _steps([one.get(stage, {}) for one in curves]) for stage in curves[0]}
        label, epsilon, at = where
        shown = label + (f", epsilon {epsilon}" if epsilon != "-" else "") + (f", at {at}" if at != "-" else "")
        figures.append(_figure(f"{name}-convergence-{number}", shown, stages))
        ends += [(*where, stage, *_end(steps)) for stage, steps in stages.items()]
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


def _steps(curves: Sequence[Mapping[str, Sequence[float]]]) -> tuple[Step, ...]:
    """Sum up the seeds after each step of one stage, for the roles that every seed has."""
    roles = [role for role in _ROLES if all(role in one for one in curves)]
    count = min((len(one[role]) for one in curves for role in roles), default=0)
    return tuple({role: Summary.of([one[role][k] for one in curves]) for role in roles} for k in range(count))


def _end(steps: Sequence[Step]) -> tuple[str, ...]:
    found = []
    for role in _ROLES:
        last = steps[-1].get(role) if steps else None
        found += [percent(last.mean), interval(last.low, last.high)] if last else ["-", "-"]
    seeds = max((one.seeds for one in steps[-1].values()), default=0) if steps else 0
    return (f"{len(steps):,}", *found, str(seeds))


def _figure(key: str, label: str, stages: Mapping[str, Sequence[Step]]) -> Figure:
    """Draw both accuracies over all stages, one after the other, with a rule where a stage ends."""
    steps = [step for found in stages.values() for step in found]
    bounds = np.cumsum([len(found) for found in stages.values()])
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _MOST_POINTS)).astype(int))
    roles = [role for role in _ROLES if steps and all(role in step for step in steps)]
    with style():
        figure, axes = canvas(3.2)
        handles = []
        for role, color, dashes in zip(roles, PALETTE, ("-", (0, (4, 1.5))), strict=False):
            shown = [steps[i][role] for i in kept]
            handles += axes.plot(
                kept + 1, [100 * one.mean for one in shown], color=color, linestyle=dashes, linewidth=1.3
            )
            if all(one.low is not None for one in shown):
                low, high = ([100 * (getattr(one, end) or 0) for one in shown] for end in ("low", "high"))
                axes.fill_between(kept + 1, low, high, color=color, alpha=0.16, linewidth=0)
        for bound in bounds[:-1]:
            axes.axvline(bound + 0.5, color=ink(), alpha=0.35, linewidth=0.8)
        axes.set_xlabel("training step, over all stages")
        axes.set_ylabel("accuracy, %")
        legend(figure, handles, [f"{role} nodes" for role in roles])
        title = f"Convergence of {label}"
        thinned = f" {len(kept):,} of {len(steps):,} steps are drawn." if len(kept) < len(steps) else ""
        words = "; ".join(f"{stage}: {_in_words(found)}" for stage, found in stages.items())
        return finish(figure, key, title, f"{title}. Evaluation, never released. At the end of {words}.{thinned}")


def _in_words(steps: Sequence[Step]) -> str:
    if not steps:
        return "nothing was measured"
    return ", ".join(f"{role} {percent(one.mean)} %" for role, one in steps[-1].items())
