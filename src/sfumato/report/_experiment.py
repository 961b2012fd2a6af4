"""The page about an experiment: what is compared under which unit, our numbers beside the published ones, and why.

Drawn from a specification and its rows alone; see :mod:`sfumato.experiments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.experiments._measured import Measured
from sfumato.privacy.units import class_for
from sfumato.report._convergence import convergence_section
from sfumato.report._figures import accuracy_figure
from sfumato.report._html import to_html
from sfumato.report._markdown import to_markdown
from sfumato.report._page import Items, Page, Part, Section, Table
from sfumato.report._ran import compared_section, reproduce_section, skipped_section
from sfumato.report._words import AXES, capital, claim_words, event_words, interval, percent, plain
from sfumato.scoring._scores import graph_gain_recovered

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row
    from sfumato.experiments._results import Line
    from sfumato.experiments._spec import Spec

_OUTSIDE = {
    "accuracy": "Accuracies read true labels. They are evaluation by whoever holds the data, outside every guarantee: where "
    "labels are private, this page must not leave.",
    "AUC": "AUC is the chance that a held-out link scores above a pair without one. Links are public here, but rows without "
    "privacy read features in the clear, and one user answers many fits: where features are private, this page must not leave.",
}


def experiment_page(spec: Spec, rows: Sequence[Row], *, date: str | None = None) -> str:
    """Return an HTML page about an experiment in a single file: nothing is loaded, and no script runs.

    Args:
        spec: the specification of the experiment.
        rows: its results, done and skipped.
        date: the day of the run, which is shown; None shows none.
    """
    return to_html(page_of(spec, Measured.of(spec, rows, date)))


def experiment_markdown(spec: Spec, rows: Sequence[Row], *, date: str | None = None) -> str:
    """Return the same page as Markdown. It shows the files of :func:`experiment_figures`, which must be beside it.

    ``spec``, ``rows`` and ``date`` are those of :func:`experiment_page`.
    """
    return to_markdown(page_of(spec, Measured.of(spec, rows, date)))


def experiment_figures(spec: Spec, rows: Sequence[Row]) -> dict[str, str]:
    """Return the SVG files of the page, by file name. They are readable on light and dark; equal input gives equal bytes."""
    return markdown_files(spec, Measured.of(spec, rows))[1]


def markdown_files(spec: Spec, measured: Measured) -> tuple[str, dict[str, str]]:
    """Return the page of what was measured as Markdown, and the SVG files beside it, by file name."""
    page = page_of(spec, measured)
    return to_markdown(page), {f"{figure.name}.svg": figure.alone() for figure in page.figures()}


def page_of(spec: Spec, measured: Measured) -> Page:
    """Return the page about what an experiment measured, before it is HTML or Markdown."""
    lines = measured.lines
    sections = (
        compared_section(spec, measured),
        _accuracy(spec, lines),
        convergence_section(spec.name, lines),
        answers_section(lines, measured.teachers) if spec.images else _gain(lines),
        _privacy(spec, measured),
        _cost(lines),
        skipped_section(measured.skipped),
        Section("comments", "What differs, and what the source leaves out", (Items(tuple(spec.comments)),)),
        reproduce_section(spec, measured),
    )
    shown = tuple(
        section for section in sections if section is not None and (section.key != "comments" or spec.comments)
    )
    return Page(spec.title, f"Source: {spec.source}.", shown)


def _accuracy(spec: Spec, lines: Sequence[Line]) -> Section:
    figure = accuracy_figure(f"{spec.name}-accuracy", lines, spec.axis, spec.dataset, spec.measure)
    axis = AXES.get(spec.axis, spec.axis)
    table = Table(
        "accuracy",
        f"Test {spec.measure} in percent, mean over seeds with its 95 % t-interval, beside the published number",
        (
            "Run",
            "Epsilon",
            axis.capitalize() if spec.axis != "epsilon" else "At",
            "Ours",
            "95 % interval",
            "Macro-F1",
            "Seeds",
            "Published",
            "Ours minus published",
            "Where published",
        ),
        tuple(
            (
                line.label,
                plain(line.epsilon),
                plain(line.at),
                percent(line.mean) if line.score else "not run",
                interval(line.score.low, line.score.high) if line.score else "-",
                percent(line.macro_f1),
                str(line.score.seeds) if line.score else "-",
                _published(line),
                f"{100 * line.mean - line.published.value:+.1f}" if line.score and line.published else "-",
                line.published.source if line.published else "-",
            )
            for line in lines
        ),
        text=("Where published",),
    )
    parts: tuple[Part, ...] = (
        _OUTSIDE[spec.measure],
        *([figure] if figure else ["Nothing has been run yet."]),
        table.without_empty(),
    )
    return Section("results", f"{capital(spec.measure)}, ours beside published", parts, kind="outside")


def _published(line: Line) -> str:
    if line.published is None:
        return "-"
    width = "" if line.published.half_width is None else f" ± {line.published.half_width:g}"
    value = f"{line.published.value:g}"
    return (value if "." in value else f"{value}.0") + width


def _gain(lines: Sequence[Line]) -> Section | None:
    rows = []
    for line in lines:
        gain = (
            gain_of(line, lines) if line.role in ("method", "label-control", "no-information") and line.score else None
        )
        floor, ceiling = floor_of(line, lines), ceiling_of(line, lines)
        if gain is not None and floor is not None and ceiling is not None:
            where = line.label, plain(line.epsilon), plain(line.at), percent(line.mean)
            rows.append(
                (*where, percent(floor.mean), floor.label, percent(ceiling.mean), ceiling.label, f"{100 * gain:.0f}")
            )
    if not rows:
        return None
    table = Table(
        "gain",
        "Share of the graph's gain that is kept under privacy, in percent",
        ("Run", "Epsilon", "At", "Accuracy", "Floor", "Floor is", "Ceiling", "Ceiling is", "Gain kept"),
        tuple(rows),
        text=("Floor is", "Ceiling is"),
    )
    text = (
        "(accuracy - floor) / (ceiling - floor): 0 is what features alone reach at the same unit and budget, 100 what "
        "the graph adds without privacy. Below 0 the graph-free method is the better choice."
    )
    return Section("graph-gain", "Graph gain kept", (text, table.without_empty()), kind="outside")


def _privacy(spec: Spec, measured: Measured) -> Section:
    rows: dict[tuple[str, ...], None] = {}
    for line in measured.lines:
        if line.certificate is None:
            if line.score is not None:
                rows[(line.label, "-", "-", "nothing: no guarantee", "no guarantee", "none")] = None
            continue
        values = line.certificate
        noise = "; ".join(_releases(values["releases"])) or "nothing is released that depends on what is protected"
        where = line.label, plain(line.epsilon), plain(line.at)
        rows[(*where, values["protects"], claim_words(values["claim"]), noise)] = None
    source = "of one fit; link prediction writes no certificate" if spec.links else "certificate of one fit"
    table = Table(
        "privacy",
        f"What each run protects, what it claims, and its noise ({source})",
        ("Run", "Epsilon", "At", "Protects", "Claim", "Releases and noise"),
        tuple(rows),
        text=("Protects", "Claim", "Releases and noise"),
    )
    return Section(
        "statements",
        "Privacy statements",
        (table.without_empty(), *((Items(measured.words),) if measured.words else ())),
    )


def _releases(releases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Releases in words, those with the same noise together."""
    groups: dict[str, list[str]] = {}
    for release in releases:
        groups.setdefault(event_words(release["event"]), []).append(release["name"])
    yield from (f"{', '.join(names)}: {noise}" for noise, names in groups.items())


def _cost(lines: Sequence[Line]) -> Section | None:
    done = [line for line in lines if line.score is not None and line.seconds is not None and line.peak_mb is not None]
    if not done:
        return None
    table = Table(
        "costs",
        "Mean cost of a fit: seconds of training, and peak memory of its process in MiB",
        ("Run", "Epsilon", "At", "Seconds", "Peak MiB"),
        tuple(
            (line.label, plain(line.epsilon), plain(line.at), f"{line.seconds:.2f}", f"{line.peak_mb:,.0f}")
            for line in done
        ),
    )
    return Section("cost", "Cost", (table.without_empty(),))


def floor_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """Return the best graph-free line under the same unit and budget; None without one.

    Arc and edge count as the same unit here, because they are words of one unit.
    """
    fitting = [
        one
        for one in lines
        if one.role == "floor"
        and one.score is not None
        and (one.unit == line.unit or {one.unit, line.unit} <= class_for(line.unit).words.keys())
        and one.epsilon in (None, line.epsilon)
        and one.at in (None, line.at)
    ]
    return max(fitting, key=lambda one: one.mean, default=None)


def ceiling_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """Return the best line without privacy, at the same varied value if there are several; None without one."""
    fitting = [one for one in lines if one.role == "ceiling" and one.score is not None and one.at in (None, line.at)]
    return max(fitting, key=lambda one: one.mean, default=None)


def gain_of(line: Line, lines: Sequence[Line]) -> float | None:
    """Return (accuracy - floor) / (ceiling - floor), or None if a control is missing."""
    floor, ceiling = floor_of(line, lines), ceiling_of(line, lines)
    if floor is None or ceiling is None:
        return None
    return graph_gain_recovered(line.mean, floor.mean, ceiling.mean)


_TEXT = (
    "Means over seeds. The epsilon as published depends on clean votes: it is no guarantee, and must not be told where the "
    "records are private. The data-independent one holds for all votes, with every query answered up to the cap. Shares of "
    "right labels read true labels."
)


def answers_section(lines: Sequence[Line], seconds: float | None) -> Section | None:
    """Return the answers and their cost by run, epsilon and varied value; None without such lines."""
    answered = [(line, line.answers) for line in lines if line.answers is not None]
    if not answered:
        return None
    table = Table(
        "answers",
        "Answers, how many are right in percent, and what they cost",
        ("Run", "Epsilon", "At", "Answers", "Right", "Plurality right", "As published", "Data-independent"),
        tuple(
            (
                line.label,
                plain(line.epsilon),
                plain(line.at),
                f"{found['answered']:.0f}",
                percent(found["noisy_label_accuracy"]),
                percent(found["plurality_accuracy"]),
                f"{found['published_epsilon']:.4f}",
                f"{found['data_independent_epsilon']:.4f}",
            )
            for line, found in answered
        ),
    )
    time = () if seconds is None else (f"Teachers of a seed took up to {seconds:.0f} s, once for all its students.",)
    return Section("answers", "Answers of the teachers", (_TEXT, table.without_empty(), *time), kind="outside")
