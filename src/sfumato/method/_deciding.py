"""Sets, thresholds and the top are applied to predictions here, with what they assume in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.method._choosing import (
    SLACK,
    NoisyCounts,
    balanced,
    conformal_sets,
    covered_between,
    least_probability,
    needed,
    public_numbers,
    sets_from_counts,
)
from sfumato.method._decisions import parsed
from sfumato.method.predictions import joined

if TYPE_CHECKING:
    from sfumato.method._decisions import Decision
    from sfumato.method.predictions import Predictions

_ALL = (
    "Every set holds every class, since these are too few nodes for this coverage. Ask for less, or train with a larger share of "
    "validation nodes.",
)
_FAR = 0.05  # below the coverage, a class is named


def decide(
    found: Predictions, decision: Decision, *, counts: bool = True, calibration: NoisyCounts | None = None
) -> Predictions:
    """Return predictions with what a decision asks for; without ``counts`` it is not told how many nodes are chosen.

    Where features are protected, this number is as well.
    """
    if not decision.asked:
        return found
    number = {name: at for at, name in enumerate(found.classes)}
    labels = np.array([number.get(name, -1) for name in found.known], np.int64)
    calibrates = np.where(np.array(found.roles) == "val", labels, -1)
    if decision.class_weight is not None:
        found = _balanced(found, labels, calibrates)
    if decision.coverage is not None and calibration is not None:
        found = _by_counts(found, decision.coverage, calibration)
    elif decision.coverage is not None:
        found = _with_sets(found, decision, labels, calibrates)
    if decision.threshold is not None:
        found = _with_threshold(found, decision, labels, calibrates, counts)
    return _with_top(found, decision, labels, calibrates) if decision.ranks else found


def _balanced(found: Predictions, labels: NDArray[np.int64], calibrates: NDArray[np.int64]) -> Predictions:
    """Each node is told the class whose probability is largest beside its share of training nodes."""
    trained = labels[(np.array(found.roles) == "train") & (labels >= 0)]
    if not len(trained):
        raise InputError(
            "Expected training nodes with a known label for balanced classes, got none whose roles are those of training. Name "
            "the graph as it was in training."
        )
    ways = {
        "balanced_accuracy": balanced(found.probabilities, trained),
        "most_probable": found.probabilities.argmax(axis=1),
    }
    told: tuple[str, ...] = (
        "Classes are balanced: each node is told the class that would be most probable if all classes were equally many.",
    )
    facts: dict[str, float] = {}
    kinds = np.unique(calibrates[calibrates >= 0])
    if len(kinds):
        facts = {
            name: float(np.mean([(said[calibrates == kind] == kind).mean() for kind in kinds]))
            for name, said in ways.items()
        }
        told += (
            f"On validation nodes the mean recall of the classes is {100 * facts['balanced_accuracy']:.1f} %; it is "
            f"{100 * facts['most_probable']:.1f} % if each node is told its most probable class.",
        )
    return replace(
        found,
        told=tuple(found.classes[label] for label in ways["balanced_accuracy"]),
        facts={**found.facts, "class_weight": facts},
        notes=(*found.notes, *told),
    )


def _with_sets(
    found: Predictions, decision: Decision, labels: NDArray[np.int64], calibrates: NDArray[np.int64]
) -> Predictions:
    coverage, own = decision.coverage or 0.0, calibrates[calibrates >= 0]
    count = len(own)
    if needed(coverage, count) > count:
        least = math.ceil(coverage / (1 - coverage) - SLACK)
        raise InputError(
            f"Expected {least} validation nodes with a known label, or more, for a coverage of {coverage:g}, got {count} whose "
            "roles are those of training. Train with a larger share of them (--split), or ask for less."
        )
    numbers = public_numbers(found.nodes)
    sets = conformal_sets(found.probabilities, numbers, calibrates, coverage, each_class=decision.each_class)
    held = sets[calibrates >= 0][np.arange(count), own]
    sets[found.returned] = labels[found.returned, None] == np.arange(len(found.classes))
    low, high = covered_between(coverage, count)
    sizes = sets[~found.returned].sum(axis=1)
    facts = {
        "coverage": coverage, "each_class": decision.each_class, "validation_nodes": count, "low": low, "high": high,
        "one_class": int((sizes == 1).sum()), "several": int((sizes > 1).sum()), "none": int((sizes == 0).sum()),
    }  # fmt: skip
    notes = (*found.notes, *_of_sets(found, facts, own, held))
    return replace(found, sets=sets, facts={**found.facts, "sets": facts}, notes=notes)


def _by_counts(found: Predictions, coverage: float, calibration: NoisyCounts) -> Predictions:
    """Sets by released counts alone. How many classes they hold follows from protected features, and is not told."""
    sets, low = sets_from_counts(found.probabilities, public_numbers(found.nodes), calibration, coverage)
    facts = {"coverage": coverage, "each_class": False, "validation_nodes": int(calibration.values.sum()), "low": low}
    told = (
        f"Sets hold the true class of {100 * coverage:.4g} % of new nodes or more on average, if new nodes are exchangeable with "
        "the validation nodes that calibrate the sets, that is, drawn at random with them. Roles from a column, labels that are "
        "missing for a reason, and nodes of another time are not.",
        f"Sets follow from released counts of {facts['validation_nodes']:,} validation nodes (a noisy number): in 19 of 20 draws "
        f"of these nodes and of the noise the share is {100 * low:.1f} % or more.",
        *(_ALL if low == 1.0 else ()),
    )
    return replace(found, sets=sets, facts={**found.facts, "sets": facts}, notes=(*found.notes, *told))


def _of_sets(
    found: Predictions, facts: Mapping[str, Any], own: NDArray[np.int64], held: NDArray[np.bool_]
) -> tuple[str, ...]:
    """What is promised of sets, under which assumption, and where it is thin."""
    coverage, counts = facts["coverage"], np.bincount(own, minlength=len(found.classes))
    whose = "the new nodes of each class" if facts["each_class"] else "new nodes"
    told = [
        f"Sets hold the true class of {100 * coverage:.4g} % of {whose} on average, if new nodes are exchangeable with the "
        f"{facts['validation_nodes']:,} validation nodes that calibrate the sets, that is, drawn at random with them. Roles from "
        "a column, labels that are missing for a reason, and nodes of another time are not.",
        f"One class: {facts['one_class']:,} sets; several: {facts['several']:,}; no class, where none is likely enough: "
        f"{facts['none']:,}.",
    ]
    if facts["each_class"]:
        known = zip(found.classes, counts.tolist(), strict=True)
        few = [name for name, there in known if needed(coverage, there) > there]
        if few:
            told.append(f"These classes have too few validation nodes to go by and are in every set: {joined(few)}.")
        return tuple(told)
    told.append(
        f"With so many validation nodes the share is between {100 * facts['low']:.1f} and {100 * facts['high']:.1f} % in 19 of "
        "20 draws of them."
    )
    shares = np.where(counts, np.bincount(own, held, len(counts)) / np.maximum(counts, 1), 1.0)
    worst = int(shares.argmin())
    if shares[worst] < coverage - _FAR:
        told.append(
            f"This covers all nodes together, and not each class: {100 * shares[worst]:.0f} % of the {counts[worst]:,} "
            f"validation nodes of class {found.classes[worst]!r}. --each-class (each_class=True) covers each class by itself."
        )
    return tuple(told)


def _with_threshold(
    found: Predictions,
    decision: Decision,
    labels: NDArray[np.int64],
    calibrates: NDArray[np.int64],
    counts: bool,
) -> Predictions:
    assert decision.threshold is not None
    assert decision.positive is not None
    positive = found.classes.index(decision.positive)
    of_class, seen = found.probabilities[:, positive], calibrates >= 0
    least = least_probability(decision.threshold, of_class[seen], calibrates[seen] == positive)
    chosen = of_class >= least
    chosen[found.returned] = labels[found.returned] == positive
    known = ", or whose known label it is" if found.returned.any() else ""
    who = f"whose probability of {decision.positive!r} is {least:.6g} or more{known}"
    facts: dict[str, float] = {"least": least}
    told = f"Chosen: the nodes {who}."
    if counts:
        facts |= {"chosen": int(chosen.sum()), **_on_validation(chosen, calibrates, positive)}
        told = f"Chosen: {facts['chosen']:,} of {len(chosen):,} nodes: those {who}.{_words(facts, decision.positive)}"
    if parsed(decision.threshold)[0] == "recall":
        recall, there = parsed(decision.threshold)[1], int(facts["validation_positive"])
        facts["low"], facts["high"] = covered_between(recall, there)
        told += (
            f" These {there:,} also set the threshold, so that this number says nothing more of new nodes: of those of class "
            f"{decision.positive!r}, {100 * recall:.4g} % or more are found on average over draws of validation nodes, if new "
            f"nodes are drawn at random with them, and between {100 * facts['low']:.1f} and {100 * facts['high']:.1f} % in 19 of "
            "20 draws."
        )
    return replace(found, chosen=chosen, facts={**found.facts, "threshold": facts}, notes=(*found.notes, told))


def _with_top(
    found: Predictions, decision: Decision, labels: NDArray[np.int64], calibrates: NDArray[np.int64]
) -> Predictions:
    assert decision.positive is not None
    positive, among, who = found.classes.index(decision.positive), labels < 0, "without a known label"
    of_class, numbers = found.probabilities[:, positive], public_numbers(found.nodes)
    if not among.any():
        among, who = np.array(found.roles) != "train", "that had no part in training"
    rows = np.flatnonzero(among)
    rows = rows[np.lexsort((numbers[rows], -of_class[rows]))]
    count = decision.top_count or max(1, int((decision.top_share or 0.0) * len(rows) + SLACK))
    count = min(count, len(rows))
    ranks, chosen = np.zeros(len(among), np.int64), np.zeros(len(among), np.bool_)
    ranks[rows], chosen[rows[:count]] = np.arange(1, len(rows) + 1), True
    last = of_class[rows[count - 1]] if count else np.inf
    tied = int((of_class[rows] == last).sum())
    facts = {"ranked": len(rows), "chosen": count, "least": float(last), "tied": tied}
    facts |= _on_validation(of_class >= last, calibrates, positive)
    more = decision.top_count is not None and decision.top_count > count
    asked = f" ({decision.top_count:,} were asked for)" if more else ""
    told = (
        f"Chosen: {count:,} of the {len(rows):,} nodes {who}{asked}: those whose probability of {decision.positive!r} is "
        f"largest, {last:.6g} or more.{_words(facts, decision.positive)}"
    )
    if tied > 1 and count < len(rows):
        told += f" {tied:,} nodes have just this probability; of these a public order of ids decides."
    return replace(found, chosen=chosen, ranks=ranks, facts={**found.facts, "top": facts}, notes=(*found.notes, told))


def _on_validation(chosen: NDArray[np.bool_], calibrates: NDArray[np.int64], positive: int) -> dict[str, int]:
    """How many validation nodes are chosen, how many have the class, and how many both; nothing where labels are protected."""
    seen, true = calibrates >= 0, calibrates == positive
    if not seen.any():
        return {}
    counts = {"validation_chosen": chosen & seen, "validation_positive": true, "validation_right": chosen & true}
    return {name: int(mask.sum()) for name, mask in counts.items()}


def _words(facts: Mapping[str, Any], positive: str) -> str:
    if "validation_chosen" not in facts:
        return ""
    chosen, right, true = (facts[f"validation_{name}"] for name in ("chosen", "right", "positive"))
    if not true:
        return f" No validation node is of class {positive!r}, so that nothing says whom this finds."
    return f" Among validation nodes this finds {right:,} of {true:,} of class {positive!r}, in {chosen:,} that are chosen."
