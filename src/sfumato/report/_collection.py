"""The figure of `sfumato collect estimate`: what reports say about each class and feature, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import whole_file
from sfumato.errors import InputError
from sfumato.report._drawing import MARKERS, PALETTE, WIDTH, canvas, finish, style, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.collect._estimate import Answer
    from sfumato.collect._estimate import Answers as OfReports
    from sfumato.collect.two._estimate import OpenedAnswers
    from sfumato.report._drawing import Figure

    Answers = OfReports | OpenedAnswers

MOST = 40
"""Most answers of a part that are drawn; the largest estimates are."""
_SUFFIXES = (".svg", ".png")
_TITLES = {"label": "Class shares", "features": "Features", "links": "Links"}


def check_figure(path: Path) -> None:
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"Expected --plot to name a file that ends with .svg or .png, got {path.name!r}. Rename it.")


def answers_figure(found: Answers) -> Figure:
    """Draw a row for each answer, with its estimate and 95 % interval."""
    with style():
        figure = _drawn(found)
        title = f"Estimates from reports to {found.collection}"
        words = " ".join(
            f"{_title(part, found)}, 95 % intervals: {_words(_shown(answers))}."
            for part, answers in found.answers.items()
        )
        return finish(figure, "estimates", title, f"{title}. {words}")


def write_figure(found: Answers, path: Path) -> None:
    check_figure(path)
    with whole_file(path) as file:
        if path.suffix.lower() == ".svg":
            file.write(answers_figure(found).alone().encode())
            return
        with style():
            _drawn(found).savefig(file, format="png", dpi=200, facecolor="white")


def _drawn(found: Answers) -> Any:
    parts = [(part, _shown(answers)) for part, answers in found.answers.items()]
    heights = [1.1 + 0.34 * len(answers) for _, answers in parts]
    figure, first = canvas(sum(heights), WIDTH)
    first.remove()
    boxes = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for number, (box, (part, answers)) in enumerate(zip(boxes, parts, strict=True)):
        axis = box.subplots()
        color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        if part == "links":
            answers = answers[:1]
        apart = len({(one.least, one.most) for one in answers}) > 1
        for row, one in enumerate(answers):
            low, high, middle = (_place(number, one, apart=apart) for number in (one.low, one.high, one.estimate))
            axis.plot([low, high], [row, row], color=color, linewidth=3, alpha=0.5)
            axis.plot([middle], [row], color=color, marker=marker, linestyle="none")
        axis.set_yticks(range(len(answers)), [wrapped(one.name) for one in answers])
        axis.set_ylim(len(answers) - 0.5, -0.5)
        share = "share of users, %" if answers[0].kind == "share" else answers[0].kind
        # Long names leave the axes little room, so words are set as wide as the figure.
        box.supxlabel("mean, % of the range of each feature" if apart else share, fontsize="medium")
        box.suptitle(f"{_title(part, found)}\n95 % intervals", x=0.02, ha="left", fontsize=10)
        axis.margins(x=0.06)
    return figure


def _place(number: float, one: Answer, *, apart: bool) -> float:
    """Where a number is drawn: in percent of what is possible for a share, and where answers have ranges of their own."""
    return 100 * (number - one.least) / (one.most - one.least) if apart or one.kind == "share" else number


def _shown(answers: Sequence[Answer]) -> Sequence[Answer]:
    if len(answers) <= MOST:
        return answers
    least = sorted((one.estimate for one in answers), reverse=True)[MOST - 1]
    return [one for one in answers if one.estimate >= least][:MOST]


def _title(part: str, found: Answers) -> str:
    left_out = len(found.answers[part]) - len(_shown(found.answers[part]))
    more = f", the {MOST} largest" if left_out else ""
    return f"{_TITLES[part]} of {found.counts[part]:,} user{'s' * (found.counts[part] != 1)}{more}"


def _words(answers: Sequence[Answer]) -> str:
    return "; ".join(f"{one.name} {one.estimate:.4g} ({one.low:.4g} to {one.high:.4g})" for one in answers)
