"""What teachers answered in an experiment with PATE, and what the answers cost: read off its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.report._page import Section, Table
from sfumato.report._words import percent, plain

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row

_TEXT = (
    "Means over seeds. The epsilon as published depends on clean votes: it is no guarantee, and must not be told where the "
    "records are private. The data-independent one holds for all votes, with every query answered up to the cap. Shares of "
    "right labels read true labels."
)


def answers_section(rows: Sequence[Row]) -> Section | None:
    """Return the answers and their cost by run, epsilon and varied value; None without such rows."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["status"] == "done" and "answered" in row["metrics"]:
            groups.setdefault((row["label"], plain(row["epsilon"]), plain(row["at"])), []).append(row)
    if not groups:
        return None

    def mean(found: Sequence[Row], what: str) -> float:
        return sum(row["metrics"][what] for row in found) / len(found)

    table = Table(
        "answers",
        "Answers, how many are right in percent, and what they cost",
        ("Run", "Epsilon", "At", "Answers", "Right", "Plurality right", "As published", "Data-independent"),
        tuple(
            (
                *where,
                f"{mean(found, 'answered'):.0f}",
                percent(mean(found, "noisy_label_accuracy")),
                percent(mean(found, "plurality_accuracy")),
                f"{mean(found, 'published_epsilon'):.4f}",
                f"{mean(found, 'data_independent_epsilon'):.4f}",
            )
            for where, found in groups.items()
        ),
    )
    seconds = max(row["seconds"]["teachers"] for found in groups.values() for row in found)
    time = f"Teachers of a seed took up to {seconds:.0f} s, once for all its students."
    return Section("answers", "Answers of the teachers", (_TEXT, table.without_empty(), time), kind="outside")
