"""What came of a request: the fits of a plan over all seeds, beside those of its controls, as metrics.json holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.evaluation._controls import names
from sfumato.evaluation._verdict import verdict
from sfumato.graph._targets import CLASS
from sfumato.scoring._answers import Answers, alike_words
from sfumato.scoring._scores import Summary, graph_gain_recovered

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted, Plan

_ENDS = ("floor", "ceiling")


@dataclass(frozen=True)
class Outcome:
    """Repeated fits of one method, of which the first is kept."""

    first: Fitted
    scores: dict[str, Summary]  # over all seeds
    seconds: float  # of the first fit; 0 if it was given
    answers: tuple[Answers, ...]  # about the test nodes of each seed
    held_out: float  # the mean loss on validation nodes, or on test nodes if none of those has a label

    @property
    def score(self) -> Summary:
        """*The* score, by which runs are compared: of classes, the accuracy."""
        return next(iter(self.scores.values()))


@dataclass(frozen=True)
class Scored:
    """The scores of a ``plan`` on its task; ``left_out`` says why controls were not fitted, a sentence for each of them."""

    plan: Plan
    left_out: tuple[str, ...] = field(default=(), kw_only=True)

    def to_dict(self, unit: str) -> dict[str, Any]:
        """Return what metrics.json holds of scores and privacy; ``unit`` is the word that was asked for."""
        plan = self.plan
        privacy = {"unit": unit, "relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta}
        told = {"method": plan.method.name, "unit": unit, "privacy": privacy | plan.method.shares}
        return {**told, "evaluation_private": False}


@dataclass(frozen=True)
class Evaluation(Scored):
    """The scores of a plan that learns classes, labels or numbers of nodes, beside its controls."""

    outcome: Outcome
    controls: dict[str, Outcome]  # the best candidate for each

    def to_dict(self, unit: str) -> dict[str, Any]:
        plan, outcome, beside = self.plan, self.outcome, self.controls
        low, high = (beside[name].score.mean if name in beside else None for name in _ENDS)
        shares, scores = plan.method.shares, {name: one.to_dict() for name, one in outcome.scores.items()}
        low = None if "epsilon_y" in shares else low  # features that tell nothing still have the graph
        return {
            **super().to_dict(unit),
            "task": "node",
            "target": plan.public.target or CLASS,
            "score": next(iter(scores)),
            "test_scores": scores,
            "test_accuracy": scores.get("accuracy"),
            "test_macro_f1": scores.get("macro_f1"),
            **dict.fromkeys(("floor", "label_control", "ceiling")),
            **{name: beside[name].score.to_dict() if name in beside else None for name in names(plan.method.name)},
            "control_scores": {
                name: {score: found.to_dict() for score, found in one.scores.items()} for name, one in beside.items()
            },
            **{f"{name}_method": beside[name].first.plan.method.name if name in beside else None for name in _ENDS},
            "graph_gain_recovered": graph_gain_recovered(outcome.score.mean, low, high),
            "unused": [*outcome.first.unused, *self._alike()],
            "verdict": self._verdict(gain=low is not None),
        }

    def _verdict(self, *, gain: bool) -> dict[str, Any] | None:
        found = {name: one.answers for name, one in self.controls.items()}
        ceiling = found.get("ceiling") if gain else None
        return verdict(self.outcome.answers, found.get("floor", ()), ceiling, self.outcome.first.graph_key.classes)

    def _alike(self) -> tuple[str, ...]:
        """Whether the fit that is kept tells all test nodes the same class, if it tells classes."""
        one = self.outcome.answers[0]
        return alike_words(one.told, one.chances, self.outcome.first.graph_key.classes) if one.kind == CLASS else ()
