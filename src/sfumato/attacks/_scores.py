"""The interface that attacks share: a score for each candidate, higher for those that are more likely to be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import binom, binomtest, norm, rankdata

from sfumato._validate import check_real, fail

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """Scores of candidates whose truth is known: those that are in, and the others.

    >>> scores = Scores(np.array([0.9, 0.8, 0.3]), np.array([0.1, 0.2, 0.7]))
    >>> round(scores.auc().value, 4), scores.tpr_at(0.0).value
    (0.8889, 0.6666666666666666)
    """

    members: NDArray[np.float64]
    others: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("members", "others"):
            values = np.asarray(getattr(self, name), np.float64)
            if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
                raise fail(name, f"an array of shape {values.shape}", "to be a list of finite scores, at least one")
            object.__setattr__(self, name, values)

    def auc(self) -> Interval:
        r"""Return :math:`P[\text{member} > \text{other}] + P[\text{equal}] / 2` with its 95 % interval.

        It is below 0.5 where the attack is worse than chance; it is never turned around, since an attacker does not know
        the truth. The interval is that of DeLong, DeLong and Clarke-Pearson (1988), cut at 0 and 1; if scores separate
        both sides wholly, its variance is 0, and the ends are those of one more wrong pair among the smaller side.
        """
        m, n = len(self.members), len(self.others)
        ranks = rankdata(np.concatenate([self.members, self.others]))
        above = (ranks[:m] - rankdata(self.members)) / n
        below = 1 - (ranks[m:] - rankdata(self.others)) / m
        value = float(above.mean())
        variance = sum(part.var(ddof=1) / len(part) if len(part) > 1 else 0.25 for part in (above, below))
        half = float(norm.ppf((1 + CONFIDENCE) / 2)) * max(float(variance), 0.0) ** 0.5
        if value in (0.0, 1.0):
            half = 1 / min(m, n)
        return Interval(value, max(0.0, value - half), min(1.0, value + half))

    def tpr_at(self, fpr: float) -> Interval:
        """Return the share of members above the threshold that at most a share ``fpr`` of the others exceeds.

        The interval holds at 95 % for the true threshold, which is not known: of n others, so many as a binomial number allows
        lie above it. Half of the risk goes to these two ranks, half to the intervals of Clopper and Pearson for the members
        above them. With fewer than 1 / ``fpr`` others the share is that at no false alarm, and its lower end is 0.
        """
        check_real(low=0, high=1, fpr=fpr)
        n, each = len(self.others), (1 + CONFIDENCE) / 2
        falling = np.concatenate([[np.inf], np.sort(self.others)[::-1], [-np.inf]])

        def hits(rank: int) -> Any:
            return binomtest(int((self.members > falling[rank]).sum()), len(self.members))

        fewest, most = (int(rank) for rank in binom.ppf(((1 - each) / 2, (1 + each) / 2), n, fpr))
        low, high = (hits(rank).proportion_ci(each, "exact") for rank in (fewest, most + 1))
        found = hits(int(fpr * n) + 1)
        return Interval(float(found.statistic), float(low.low), float(high.high))


@dataclass(frozen=True)
class Attacked:
    """What one attack on a model found, beside what can be known without the model.

    ``baselines`` are scores of the same candidates without the model, and ``measures`` other figures, both by name.
    """

    attack: str
    target: str
    knowledge: str
    scores: Scores
    baselines: Mapping[str, Scores] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values. ``baseline`` is the largest AUC without the model, 0.5 if there is none.

        A share found at few false alarms is None if there are too few others to measure it: 1,000 for 0.1 %, 100 for 1 %.
        """
        auc = self.scores.auc()
        rates: dict[str, float | None] = {
            f"tpr_at_{word}pct_fpr{end}": getattr(self.scores.tpr_at(fpr), part)
            for word, fpr in (("0.1", 0.001), ("1", 0.01))
            for end, part in (("", "value"), ("_low", "low"), ("_high", "high"))
        }
        for word, least in (("0.1", 1000), ("1", 100)):
            if len(self.scores.others) < least:
                rates[f"tpr_at_{word}pct_fpr"] = None
        known = {name: one.auc() for name, one in self.baselines.items()}
        best = max(known, key=lambda name: known[name].value, default="")
        return {
            "attack": self.attack,
            "target": self.target,
            "knowledge": self.knowledge,
            "auc": auc.value,
            "auc_low": auc.low,
            "auc_high": auc.high,
            **rates,
            "baseline": known[best].value if best else 0.5,
            "baseline_low": known[best].low if best else 0.5,
            "baseline_high": known[best].high if best else 0.5,
            "baseline_name": best or "a guess",
            "baselines": {name: one.value for name, one in known.items()},
            "measures": dict(self.measures),
        }
