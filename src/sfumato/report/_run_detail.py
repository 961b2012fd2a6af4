"""The parts of an evaluation on the page of a run: by class, confusion, calibration, lift, by degree and by declared group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.report._detail_figures import (
    MODELS,
    class_figure,
    degree_figure,
    lift_figure,
    models_in,
    reliability_figure,
    wilson,
)
from sfumato.report._page import Items, Part, Section, Table
from sfumato.report._words import capital, interval, percent
from sfumato.scoring._detail import RUN
from sfumato.scoring._paired import LEAST

_SEED = "test nodes of the first split"
_OF_CLASSES = {
    "recall": "Recall: nodes of the class that are told it",
    "precision": "Precision: nodes told the class that have it",
    "roc_auc": "AUC, the class against the rest",
    "average_precision": "Average precision, the class against the rest",
}


def detail_sections(found: Mapping[str, Any]) -> list[Part]:
    """Return warnings and sections about parts of the test nodes; ``found`` is the detail of metrics.json."""
    classes = sorted((row for row in found["classes"] if row["nodes"]), key=lambda row: row["nodes"])
    parts: list[Part] = []
    if found["warnings"]:
        parts.append(Section("below", "Below the floor", (Items(tuple(found["warnings"])),), kind="warning"))
    parts.append(Section("classes", "By class", tuple(_by_class(classes))))
    parts.append(Section("confusion", "Confusion matrix", (_matrix(found),)))
    parts.append(
        Section("reliability", "Can its probabilities be believed?", (reliability_figure(found["reliability"]),))
    )
    parts.append(Section("lift", "Whom the top finds", (lift_figure(found["lift"]), _lift(found["lift"]))))
    rows = found["degrees"]
    if rows:
        parts.append(
            Section("degree", "Degree against accuracy", (degree_figure(rows), _parts("degrees", "Degree", rows)))
        )
    if found["groups"]:
        column, rows = found["groups"]["column"], found["groups"]["rows"]
        parts.append(Section("groups", f"By {column}", (_parts("groups", column, rows),)))
    return parts


def _by_class(every: list[Mapping[str, Any]]) -> list[Part]:
    rows = [row for row in every if row["nodes"] >= LEAST]
    few = [f"{row['name']} ({row['nodes']})" for row in every if row["nodes"] < LEAST]
    left: list[Part] = (
        [f"No scores are told of classes with fewer than {LEAST} test nodes: {', '.join(few)}."] if few else []
    )
    if not rows:
        return left
    names = models_in(rows[0]["scores"])
    sizes = tuple((row["name"], f"{row['nodes']:,}", percent(row["share"])) for row in rows)
    found: list[Part] = [class_figure(rows), *left] if len(rows) > 2 else left
    found += _price_of_size(rows)
    return [
        *found,
        *(
            _table(
                f"classes-{score}",
                f"{title}, %: {_SEED}",
                ("Class", "Nodes", "Share, %"),
                sizes,
                _each(score, names, rows),
            )
            for score, title in _OF_CLASSES.items()
        ),
    ]


def _price_of_size(rows: list[Mapping[str, Any]]) -> list[Part]:
    """Whether privacy costs small classes more than large ones; of two classes the areas are the same."""
    if len(rows) < 3 or "ceiling" not in rows[0]["scores"]:
        return []
    ends = rows[0], rows[-1]
    lost = [100 * (one["scores"][RUN]["roc_auc"] - one["scores"]["ceiling"]["roc_auc"]) for one in ends]
    small, large = (
        f"{gap:+.1f} points in class {one['name']} ({one['nodes']:,} nodes)"
        for one, gap in zip(ends, lost, strict=True)
    )
    return [
        f"AUC of this run against the ceiling: {small}, the smallest; {large}, the largest. "
        "No interval says whether that is more than chance."
    ]


Column = tuple[str, tuple[str, ...]]


def _each(score: str, names: list[str], rows: list[Mapping[str, Any]], title: str = "") -> list[Column]:
    cells = {name: tuple(percent(row["scores"][name][score]) for row in rows) for name in names}
    return [(capital(f"{title} {MODELS[name]}".strip()), cells[name]) for name in names]


def _table(key: str, caption: str, head: tuple[str, ...], sizes: tuple[Any, ...], *columns: list[Column]) -> Table:
    flat = [column for group in columns for column in group]
    rows = tuple((*size, *(cells[at] for _, cells in flat)) for at, size in enumerate(sizes))
    return Table(key, caption, (*head, *(title for title, _ in flat)), rows)


def _matrix(found: Mapping[str, Any]) -> Table:
    names = [row["name"] for row in found["classes"]]
    shares = [[one / max(sum(row), 1) for one in row] for row in found["confusion"]]
    return Table(
        "matrix",
        f"{capital(_SEED)}: rows are true classes, columns predicted ones, shades the share of a row",
        ("True class", *names),
        tuple((name, *(f"{one:,}" for one in row)) for name, row in zip(names, found["confusion"], strict=True)),
        heat=tuple(map(tuple, shares)),
    )


def _lift(found: Mapping[str, Any]) -> Table:
    others = [name for name in models_in(found) if name != RUN]
    rows = []
    for at, (top, nodes, own) in enumerate(zip(found["top"], found["nodes"], found[RUN], strict=True)):
        cells = (percent(own["precision"]), f"{own['lift']:.2f}", percent(own["recall"]))
        beside = (percent(found[name][at]["precision"]) for name in others)
        rows.append((f"{100 * top:g} %", f"{nodes:,}", *cells, *beside))
    more = (f"{capital(MODELS[name])}: have it" for name in others)
    columns = ("Top", "Nodes", "Have it, %", "Lift", "Of the class, %", *more)
    caption = (
        f"Nodes with the highest probability of class {found['class']}, which {percent(found['share'])} % have: {_SEED}"
    )
    return Table("lift-table", caption, columns, tuple(rows))


def _parts(key: str, column: str, rows: list[Mapping[str, Any]]) -> Table:
    names = models_in(rows[0]["scores"])
    head = (capital(column), "Nodes", "Accuracy, %", "95 % interval")
    sizes = tuple(
        (row["name"], f"{row['nodes']:,}", percent(row["scores"][RUN]["accuracy"]),
         interval(*wilson(row["scores"][RUN]["accuracy"], row["nodes"])))
        for row in rows
    )  # fmt: skip
    others = [name for name in names if name != RUN]
    losses = [
        (f"Log-loss of {MODELS[name]}", tuple(f"{row['scores'][name]['log_loss']:.3f}" for row in rows))
        for name in names
    ]
    return _table(
        f"{key}-table", f"{capital(_SEED)}", head, sizes, _each("accuracy", others, rows, "accuracy of"), losses
    )
