"""What one number hides: scores by class, by degree and by a declared group, calibration, and whom a ranking finds.

The run stands beside its floor and its ceiling everywhere, on the test nodes of the first seed. Warnings compare run and floor on
the same nodes of all seeds, corrected for the number of comparisons. All of it reads true labels and arcs: it is
evaluation, outside the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.nn._metrics import one_against_rest, shared
from sfumato.scoring._answers import LEAST_CHANCE, Answers, Predictor, answers_of
from sfumato.scoring._enough import Enough, enough_of
from sfumato.scoring._paired import Classes, Part, difference
from sfumato.scoring._scores import check_scorable, scores_of, target_kind, without_information

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.scoring._groups import Groups

RUN = "run"
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_BINS, _DIGITS, _LEAST_RARE = 10, 6, 10
_WARNED = (
    "{what} is below its floor: its log-loss{rest} is {mean:+.3f} [{low:+.3f}, {high:+.3f}] against the floor, over {nodes:,} "
    "test nodes."
)
Mask = NDArray[np.bool_]


def detail(graph: Graph, found: Mapping[str, Sequence[Answers]], by: Groups | None = None) -> dict[str, Any]:
    """Return the scores of parts of the test nodes, as metrics.json holds them."""
    first = {name: answers[0] for name, answers in found.items()}
    own, classes = first[RUN], graph.classes
    degrees = list(_by_degree(graph, own.nodes))
    told: dict[str, Any] = {
        "nodes": len(own.nodes),
        "classes": [_class_scores(first, at, str(name)) for at, name in enumerate(classes)],
        "confusion": _confusion(own, len(classes)),
        "reliability": {"of": _reliable(own, classes), **{name: _reliability(one) for name, one in first.items()}},
        "lift": _lift(first, classes),
        "degrees": [{"name": name, **_part_scores(first, at)} for name, at in degrees],
        "groups": None,
    }
    asked = [_rare(own, classes)] if len(classes) == 2 else range(len(classes))  # of two both have the same loss
    tests = {f"Class {str(classes[at])!r}": _class_parts(found, at) for at in asked}
    warnings = _warnings(tests, " (one against the rest)")
    if by is not None:
        inside = [(name, by.codes == code) for code, name in enumerate(by.names)]
        rows = [{"name": name, **_part_scores(first, at[own.nodes])} for name, at in inside if at[own.nodes].any()]
        told["groups"] = {"column": by.column, "rows": rows}
        groups = {f"Group {by.column} = {name}": _group_parts(found, at) for name, at in inside}
        warnings += _warnings(groups, "")
    told["warnings"] = warnings
    return told


Test = tuple[Sequence[Part], Sequence[Classes] | None]


def _warnings(tests: Mapping[str, Test | None], rest: str) -> list[str]:
    """What is worse than the floor beyond chance, in whole sentences, by intervals that hold together."""
    asked = {name: test for name, test in tests.items() if test is not None}
    made = {name: difference(parts, strata, len(asked)) for name, (parts, strata) in asked.items()}
    return [
        _WARNED.format(what=name, rest=rest, mean=one.mean, low=one.low, high=one.high, nodes=one.nodes)
        for name, one in made.items()
        if one.clear and one.mean > 0
    ]


def _class_parts(found: Mapping[str, Sequence[Answers]], label: int) -> Test | None:
    """Of each seed the loss of one class against the rest, run less floor; nothing without a floor or enough nodes."""
    pairs = list(zip(found[RUN], found.get("floor", ()), strict=False))
    if not enough_of(label, [own for own, _ in pairs]):
        return None
    parts = [(own.nodes, (_against(own, label) - _against(floor, label))[:, None]) for own, floor in pairs]
    return parts, [(own.truth == label).astype(np.int64) for own, _ in pairs]


def _against(one: Answers, label: int) -> NDArray[np.float64]:
    chance = one.chances[:, label].astype(np.float64)
    return -np.log(np.maximum(np.where(one.truth == label, chance, 1 - chance), LEAST_CHANCE))


def _group_parts(found: Mapping[str, Sequence[Answers]], inside: Mask) -> Test | None:
    """Of each seed the loss inside a group, run less floor; nothing without a floor or enough nodes of more than one class."""
    pairs = zip(found[RUN], found.get("floor", ()), strict=False)
    at = [(own.among(inside), floor.among(inside)) for own, floor in pairs]
    enough = Enough.of([own for own, _ in at]) if at else None
    if enough is None or "log_loss" not in enough.names:
        return None
    parts = [(own.nodes, (own.each["log_loss"] - floor.each["log_loss"])[:, None]) for own, floor in at]
    return parts, enough.strata_of("log_loss")


def _class_scores(first: Mapping[str, Answers], label: int, name: str) -> dict[str, Any]:
    there = first[RUN].truth == label
    scores = {}
    for model, one in first.items():
        told, right = one.told == label, int(((one.told == label) & there).sum())
        area, precision = one_against_rest(there, one.chances[:, label]) if there.any() else (None, None)
        parts = {
            "recall": _ratio(right, int(there.sum())),
            "precision": _ratio(right, int(told.sum())),
            "f1": _ratio(2 * right, int(there.sum() + told.sum())),
            "roc_auc": area,
            "average_precision": precision,
        }
        scores[model] = {key: None if value is None else round(value, _DIGITS) for key, value in parts.items()}
    return {"name": name, "nodes": int(there.sum()), "share": round(float(there.mean()), _DIGITS), "scores": scores}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _confusion(one: Answers, classes: int) -> list[list[int]]:
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (one.truth, one.told), 1)
    found: list[list[int]] = counts.tolist()
    return found


def _rare(one: Answers, classes: Sequence[str]) -> int:
    """The class that is looked for: the rarer one of two; of more the rarest with ten test nodes, if any has, that occurs."""
    counts = np.bincount(one.truth, minlength=len(classes))
    known = np.flatnonzero(counts >= (_LEAST_RARE if len(classes) > 2 else 1))
    known = known if len(known) else np.flatnonzero(counts)
    return int(known[counts[known].argmin()])


def _reliable(one: Answers, classes: Sequence[str]) -> str | None:
    """The class whose probability is held against its frequency: of two the rarer, of more none, since the told one is."""
    return str(classes[_rare(one, classes)]) if len(classes) == 2 else None


def _reliability(one: Answers) -> list[dict[str, float]]:
    """Ten groups of equally many nodes, by their probability: what it is on average, and how often it comes true.

    Nodes of one probability share how often it does, so that a constant answer is no better or worse by the order of nodes.
    """
    if one.chances.shape[1] == 2:
        label = _rare(one, ("", ""))
        chance, true = one.chances[:, label].astype(np.float64), one.truth == label
    else:
        best = one.chances.argmax(axis=1)
        chance, true = one.chances.max(axis=1).astype(np.float64), one.truth == best
    parts = [part for part in np.array_split(np.argsort(chance, kind="stable"), _BINS) if len(part)]
    rate = shared(chance, true)
    means = [(len(part), float(chance[part].mean()), float(rate[part].mean())) for part in parts]
    return [{"nodes": n, "told": round(told, _DIGITS), "true": round(came, _DIGITS)} for n, told, came in means]


def _lift(first: Mapping[str, Answers], classes: Sequence[str]) -> dict[str, Any]:
    """Of the nodes with the highest probability of the rarest class: how many have it. Equal probabilities are drawn from."""
    own = first[RUN]
    label = _rare(own, classes)
    there = own.truth == label
    base, total = float(there.mean()), int(there.sum())
    tops = [max(1, round(share * len(there))) for share in _SHARES]
    told: dict[str, Any] = {
        "class": str(classes[label]),
        "share": round(base, _DIGITS),
        "top": list(_SHARES),
        "nodes": tops,
    }
    for name, one in first.items():
        chance = one.chances[:, label]
        order = np.argsort(-chance, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(chance[order]) != 0, True)) + 1
        hits = np.interp(tops, [0, *ends], [0, *np.cumsum(there[order])[ends - 1]])
        told[name] = [
            {
                "precision": round(n / top, _DIGITS),
                "recall": round(n / total, _DIGITS),
                "lift": round(n / top / base, _DIGITS),
            }
            for n, top in zip(hits.tolist(), tops, strict=True)
        ]
    return told


def _part_scores(first: Mapping[str, Answers], at: Mask) -> dict[str, Any]:
    scores = {}
    for name, one in first.items():
        scores[name] = {key: round(float(values[at].mean()), _DIGITS) for key, values in one.each.items()}
    return {"nodes": int(at.sum()), "scores": scores}


def _by_degree(graph: Graph, nodes: NDArray[np.int64]) -> Iterator[tuple[str, Mask]]:
    """Ranges of degrees that double, each with the test nodes inside."""
    degree = np.diff(graph.indptr)
    if graph.directed:
        degree = degree + np.diff(graph.transpose()[0])
    degree = degree[nodes]
    tops = [0, *(2**power for power in range(int(degree.max(initial=0)).bit_length() + 1))]
    for low, top in zip([-1, *tops], tops, strict=False):
        at = (degree > low) & (degree <= top)
        if at.any():
            yield str(top) if top - low == 1 else f"{low + 1} to {top}", at


def evaluated(models: Mapping[str, Predictor], graph: Graph, groups: Groups | None = None) -> dict[str, Any]:
    check_scorable(graph)
    if groups is not None and len(groups.codes) != graph.num_nodes:
        raise fail("by", len(groups.codes), f"to hold one value for each of {graph.num_nodes} nodes", "Pass as many.")
    if groups is not None and graph.targets is not None:
        remedy = "Targets that are no classes are not scored by group. Drop it."
        raise fail("by", groups.column, "to come with classes", remedy)
    found = {name: answers_of(model, graph, graph.test_mask) for name, model in models.items()}
    scores = {name: scores_of(one, graph) for name, one in found.items()}
    own, nothing = scores.pop(RUN), without_information(graph)
    return {
        "target": target_kind(graph),
        "test_scores": own,
        "test_accuracy": own.get("accuracy"),
        "test_macro_f1": own.get("macro_f1"),
        "majority": nothing.get("accuracy"),
        "without_information": nothing,
        "control_scores": scores,
        "detail": detail(graph, {name: [one] for name, one in found.items()}, groups)
        if graph.targets is None
        else None,
    }
