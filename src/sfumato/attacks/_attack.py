"""The contract that is the same for every attack on a fitted model: what an attack file provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from sfumato.attacks._scores import Attacked
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

Progress = Callable[[str, int, int], None]
"""Told the stage in words, how many steps of it are done, and of how many."""


@dataclass(frozen=True)
class Attack(ABC):
    """An attack is a frozen dataclass of public settings below this class; it says what it infers and what the attacker knows.

    **Formal guarantee.** None, and an attack is none: one that fails does not show that a model is safe. It reads the true
    answers, to mark itself. So a result is private, and belongs with evaluations, outside what a certificate covers.

    A subclass sets the class variables ``name``, as the command line and :data:`~sfumato.attacks._listing.ATTACKS` have it;
    ``target``, what is inferred, in words; ``knowledge``, what the attacker holds; ``summary``, what the attack does, in a few
    words for help texts; and ``citations``, keys in ``report/references.bib``.
    """

    name: ClassVar[str]
    target: ClassVar[str]
    knowledge: ClassVar[str]
    summary: ClassVar[str]
    citations: ClassVar[tuple[str, ...]]

    @abstractmethod
    def run(self, fitted: Fitted, graph: Graph, *, seed: int, progress: Progress | None = None) -> Attacked:
        """Score every candidate, higher for those that are more likely to be in, beside what is known without the model.

        The run and the graph are read and never changed. The same seed gives the same scores, except where shadow models are
        trained under privacy, whose noise nobody can repeat.
        """
