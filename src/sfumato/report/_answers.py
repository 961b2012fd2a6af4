"""What teachers answered in an experiment with PATE, and what the answers cost: read off its lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.report._page import Section, Table
from sfumato.report._words import percent, plain

if TYPE_CHECKING:
    from sfumato.experiments._results import Line

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
