"""What an audit found: lower bounds on epsilon with their confidence, and broken promises, beside the claim."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_real, fail

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.999


def check_scores(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return scores as a vector of finite numbers."""
    scores = np.asarray(values, np.float64)
    if scores.ndim != 1 or not scores.size or not np.isfinite(scores).all():
        raise fail(
            name,
            f"an array of shape {scores.shape}, {int((~np.isfinite(scores)).sum())} of its entries not finite",
            "to be a vector of finite scores, at least one",
            "Find out why a score is not finite, or put a large finite number in the place of infinity.",
        )
    return scores


@dataclass(frozen=True)
class Evidence:
    """A lower bound on epsilon that one attack of the auditor proved.

    The mechanism is not (epsilon, delta)-DP for any epsilon below ``epsilon_lower_bound``, at the ``confidence`` of this bound
    alone. ``members`` are scores with the canary, higher where the attack finds it; they may be empty. ``reach`` is the largest
    bound that so many scores could have given; None if nothing limits it.
    """

    name: str
    knowledge: str
    epsilon_lower_bound: float
    confidence: float
    trials: int
    estimator: str
    members: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    others: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    reach: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the scores, as JSON values."""
        shown = (one.name for one in fields(self) if one.repr)
        return {name: getattr(self, name) for name in shown}


@dataclass(frozen=True)
class Audit:
    """An audit holds what was tried against one claim, and what came of it.

    **Formal guarantee.** Each bound holds at its own confidence, and the largest of k bounds at 1 - sum of their risks. The
    auditor divides its risk by the number of attacks, so that all hold together at ``confidence``. A claim that stands
    after an audit is not proved by it: another attack may find more.

    ``broken`` are sentences about promises that are broken whatever epsilon is, and ``untested`` planned releases that no
    attack of this audit reads.
    """

    method: str
    unit: str
    claimed: float | None
    delta: float
    confidence: float
    evidence: tuple[Evidence, ...]
    broken: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, open_high=True, confidence=self.confidence)

    @property
    def epsilon_lower_bound(self) -> float:
        """Return the largest bound, 0 without any."""
        return max((one.epsilon_lower_bound for one in self.evidence), default=0.0)

    @property
    def reach(self) -> float | None:
        """Return the largest bound that these attacks could have given: None if nothing limits one, 0 without any."""
        limits = [one.reach for one in self.evidence if one.reach is not None]
        return max(limits, default=0.0) if len(limits) == len(self.evidence) else None

    @property
    def flagged(self) -> bool:
        """Return whether the claim is refuted: a bound exceeds it, or a promise is broken."""
        return bool(self.broken) or (self.claimed is not None and self.epsilon_lower_bound > self.claimed)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the scores, as JSON values."""
        return {
            "method": self.method,
            "unit": self.unit,
            "claimed": self.claimed,
            "delta": self.delta,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "reach": self.reach,
            "confidence": self.confidence,
            "flagged": self.flagged,
            "broken": list(self.broken),
            "untested": list(self.untested),
            "evidence": [one.to_dict() for one in self.evidence],
        }
