"""The page about a run of statistics: its numbers with intervals, groups as a heat map, degrees as a figure.

All of it follows from the releases, so anyone may see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.report._drawing import MARKERS, PALETTE, Figure, canvas, finish, legend, style
from sfumato.report._page import Part, Section, Table
from sfumato.report._words import capital, clean
from sfumato.statistics._words import COVERS, holds_words, interval_words, mark_words, number_words

if TYPE_CHECKING:
    from sfumato.statistics._answers import Answer, Described

TITLES = {
    "edges": "Edges",
    "mixing": "Edges by group",
    "degrees": "Degrees",
    "out-degrees": "Out-degrees",
    "in-degrees": "In-degrees",
    "triangles": "Triangles",
    "wedges": "Wedges",
    "stars": "Stars",
    "mutual": "Arcs in both directions",
    "weight": "Weights",
    "weights": "Edges by weight",
}
_MOST_GROUPS, _MOST_LINES = 30, 6
_LEAST = 0.5  # where a count of 0 stands on a logarithmic axis
_NO_GUESS = (
    "It says where the number of this very graph lies, not what another graph of its kind would have, and nothing about errors "
    "in the data."
)


def statistics_sections(found: Described) -> tuple[Section, ...]:
    """Return the sections with pictures and numbers of a run of statistics."""
    answers, percent = found.answers, f"{100 * found.confidence:g} %"
    parts: list[Part] = [f"{COVERS} {_NO_GUESS} {holds_words(answers, found.confidence)}", *mark_words(answers)]
    for name in dict.fromkeys(one.statistic for one in answers):
        some = [one for one in answers if one.statistic == name]
        title = TITLES.get(name, capital(name))
        below: list[Part] = []
        if name == "mixing" and len(found.groups) <= _MOST_GROUPS:
            below += [_matrix(found), *_contacts(found)]
        figure = degree_figure(name, some, percent)
        below += [] if figure is None else [figure]
        rows = tuple((one.what, number_words(one.value), interval_words(one)) for one in some)
        caption = f"{title}, with {percent} intervals"
        below.append(Table(f"answers-{name}", caption, ("What", "Number", "Interval"), rows))
        parts.append(Section(f"of-{name}", title, tuple(below)))
    return (Section("answers", "What the graph looks like", tuple(parts), kind="guarantee"),)


def _matrix(found: Described) -> Table:
    """Edges between each two groups, shaded by their number."""
    assert found.mixing is not None
    kept = [at for at in range(len(found.groups)) if found.has_nodes(at)]
    table, names = found.mixing[np.ix_(kept, kept)], [found.groups[at] for at in kept]
    shares = table / max(1, int(table.max()))
    how = (
        "rows are where arcs start, columns where they end" if found.directed else "an edge within a group counts once"
    )
    return Table(
        "mixing",
        f"Edges between groups ({how}); shades are shares of the largest number",
        ("Group", *names),
        tuple((name, *(f"{one:,}" for one in row)) for name, row in zip(names, table.tolist(), strict=True)),
        heat=tuple(map(tuple, shares.tolist())),
    )


def _contacts(found: Described) -> Iterator[Table]:
    """Mean numbers of edges of a node, by its group and that of the other end, where the sizes of groups are public."""
    if found.per_node is None:
        return
    kept = [at for at in range(len(found.groups)) if found.has_nodes(at)]
    table, names = found.per_node[np.ix_(kept, kept)], [found.groups[at] for at in kept]
    shares = table / max(1e-9, float(table.max()))
    yield Table(
        "contacts",
        f"Mean number of {'arcs from' if found.directed else 'edges of'} one node of a row to nodes of a column, by the "
        f"{'released' if found.public_sizes is None else 'public'} number of nodes in each group",
        ("Group", *names),
        tuple((name, *map(number_words, row)) for name, row in zip(names, table.tolist(), strict=True)),
        heat=tuple(map(tuple, shares.tolist())),
    )


def degree_figure(name: str, answers: Sequence[Answer], percent: str) -> Figure | None:
    """Draw how many nodes have degrees in each range, on logarithmic axes with intervals; None without such counts."""
    ranges = [one for one in answers if one.span is not None and one.value is not None]
    groups = list(dict.fromkeys(one.groups for one in ranges))
    if not ranges:
        return None
    shown, word = groups[:_MOST_LINES], name.removesuffix("s").replace("-", " ")
    with style():
        figure, axes = canvas(3.2 + 0.21 * (len(shown) if len(shown) > 1 else 0))
        handles = []
        for at, group in enumerate(shown):
            some = [one for one in ranges if one.groups == group]
            some = some[: 1 + max((place for place, one in enumerate(some) if one.value), default=0)]
            x = np.array([_middle(one) for one in some]) * 1.07 ** (at - (len(shown) - 1) / 2)
            low, high, value = (
                np.maximum([getattr(one, end) for one in some], _LEAST) for end in ("low", "high", "value")
            )
            color = PALETTE[at % len(PALETTE)]
            axes.vlines(x, low, high, color=color, alpha=0.45, linewidth=3)
            handles += axes.plot(x, value, color=color, marker=MARKERS[at % len(MARKERS)], linewidth=1, markersize=5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=_LEAST * 0.8)
        axes.set_xlabel(f"{word} (ranges that double; {_LEAST:g} stands for 0)")
        axes.set_ylabel(f"nodes ({_LEAST:g} stands for 0)")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda at, _place: f"{at:,.10g}")
        axes.minorticks_off()
        if len(shown) > 1:
            legend(figure, handles, [" ".join(group) for group in shown])
        title = f"Nodes by {word}, with {percent} intervals"
        more = f" The first {len(shown)} of {len(groups)} groups are drawn." if len(groups) > len(shown) else ""
        words = "; ".join(f"{clean(one.what)}: {number_words(one.value)} {interval_words(one)}" for one in ranges)
        return finish(figure, f"figure-{name}", title, f"{title}.{more} {words}.")


def _middle(one: Answer) -> float:
    assert one.span is not None
    first, last = (max(end, _LEAST) for end in one.span)
    return float(np.sqrt(first * last))
