"""The options of `sfumato describe` that no other command has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sfumato.cli._table import ASKED, option

_asked = partial(option, panel=ASKED, commands="describe", first=True)


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions:
    """What is asked of a graph, and how answers are shown."""

    stats: str = _asked(
        "Which statistics, with commas between, each with a share of the budget after a colon if not the usual one: "
        "edges,mixing,degrees:3. --list explains them (default: auto, the usual ones for this unit and graph).",
        default="auto",
    )
    grouped: bool = _asked("Count degrees in each group, and triangles within groups.", default=False)
    confidence: float = _asked("The chance with which each interval holds its number.", default=0.95)
    least: float = _asked(
        "Leave out counts whose interval ends below this number. It protects nobody, and costs nothing.", default=0.0
    )
    widest: float | None = _asked(
        "Leave out numbers whose interval reaches further than this share of them, such as 0.5. It protects nobody, and costs "
        "nothing."
    )
    from_run: Path | None = _asked("Print the answers of this finished run again. It costs nothing.", decides=False)
    list_all: bool = _asked(
        "List what can be asked, under which unit, and stop.", flags="--list", default=False, decides=False
    )
