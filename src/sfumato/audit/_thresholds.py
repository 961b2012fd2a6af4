r"""From scores with and without the canary to an epsilon that the mechanism exceeds, whatever threshold looked best.

A threshold that was chosen after the scores were seen makes the best of many bounds look better than it is. Each policy
here keeps the stated confidence; what is tried is fixed before the scores are:

* :class:`Explicit`: the caller fixes the threshold.
* :class:`Bonferroni`: ranks k of a fixed grid. The threshold lies just above the k-th largest score of the others, and the
  risk is divided by the number of ranks. Proof: let n others be drawn independently. With U the uniform quantiles of
  their scores, at most :math:`1 - U_{(k)}` of all others lie above this threshold, and :math:`1 - U_{(k)}` has the law
  Beta(k, n - k + 1). The bound of Clopper and Pearson on a share of which k - 1 in n were seen is the upper quantile of
  this law, so it holds although the threshold was read off the scores. Given the others, the threshold is fixed for the
  members, and their count above it is binomial. Equal scores only lower the share. So each rank holds at its share of the
  risk, and all hold together at its sum.
* :class:`Split`: the threshold is the best on every second score; the bound comes from the rest, which are independent.

A published implementation divides the risk by the number of corners of the convex hull of the ROC curve. This number
depends on the scores and is far below the number of thresholds that were searched, so the proof does not cover it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_int, check_real, fail
from sfumato.audit._bounds import Counts, epsilon_lower_bound
from sfumato.audit._evidence import CONFIDENCE, Evidence, check_scores
from sfumato.audit._gaussian import epsilon_of_mu, mu_lower_bound

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

DEFAULT_RANKS = 32
_RANKS_OF_A_SPLIT = 64
_PLAIN = "Clopper-Pearson on both error rates"
_GAUSSIAN = "Gaussian DP from both error rates (refutes the claimed noise)"


@dataclass(frozen=True)
class Explicit:
    """A threshold that was fixed before the scores were seen; a score at or above it says that the canary is in."""

    threshold: float

    def __post_init__(self) -> None:
        check_real(threshold=self.threshold)

    def __str__(self) -> str:
        return f"threshold {self.threshold:g}, fixed before"


@dataclass(frozen=True)
class Bonferroni:
    """The best of several ranks; the risk is divided by their number.

    ``ranks`` are close together at both ends; None takes every rank.
    """

    ranks: int | None = DEFAULT_RANKS

    def __post_init__(self) -> None:
        if self.ranks is not None:
            check_int(low=1, ranks=self.ranks)

    def __str__(self) -> str:
        return f"best of {'all' if self.ranks is None else self.ranks} ranks, Bonferroni"

    def of(self, total: int) -> Integers:
        """Return the ranks among ``total`` scores: without repetition, from 1 up to ``total``."""
        if self.ranks is None:
            return np.arange(1, total + 1)
        logits = np.log(total) * np.linspace(-1, 1, self.ranks)
        return np.unique(np.clip(np.rint(total / (1 + np.exp(-logits))), 1, total)).astype(np.int64)


@dataclass(frozen=True)
class Split:
    """A threshold that is the best on one half of the scores, for the bound on the other half."""

    def __str__(self) -> str:
        return "threshold from one half, bound from the other"


Policy = Explicit | Bonferroni | Split
BoundOfCounts = Callable[..., "float | NDArray[np.float64]"]


def certified(members: Floats, others: Floats, policy: Policy, bound: BoundOfCounts) -> float:
    """Return a lower bound that holds under the policy, from one that holds at a fixed threshold."""
    match policy:
        case Explicit(threshold):
            return _at(members, others, threshold, bound)
        case Bonferroni():
            return _searched(members, others, policy, bound)
    if min(len(members), len(others)) < 2:
        raise fail("members", min(len(members), len(others)), "and others to hold two scores each for a split")
    return _split(members, others, bound)


def _at(members: Floats, others: Floats, threshold: float, bound: BoundOfCounts) -> float:
    hits, alarms = int((members >= threshold).sum()), int((others >= threshold).sum())
    return float(np.max(bound(hits, len(members), alarms, len(others), comparisons=1)))


def _searched(members: Floats, others: Floats, policy: Bonferroni, bound: BoundOfCounts) -> float:
    ranks = policy.of(len(others))
    thresholds = np.nextafter(np.sort(others)[::-1][ranks - 1], np.inf)
    hits = len(members) - np.searchsorted(np.sort(members), thresholds)
    return float(np.max(bound(hits, len(members), ranks - 1, len(others), comparisons=len(ranks))))


def _split(members: Floats, others: Floats, bound: BoundOfCounts) -> float:
    (members, rest), (others, other_rest) = (members[::2], members[1::2]), (others[::2], others[1::2])
    tried = np.unique(np.sort(others)[::-1][Bonferroni(_RANKS_OF_A_SPLIT).of(len(others)) - 1])
    thresholds = np.nextafter(np.append(tried, members.min()), np.inf)
    hits, alarms = (len(side) - np.searchsorted(np.sort(side), thresholds) for side in (members, others))
    values = np.asarray(bound(hits, len(members), alarms, len(others), comparisons=1))
    return _at(rest, other_rest, float(thresholds[values.argmax()]), bound)


def audit_runs(
    members: ArrayLike,
    others: ArrayLike,
    *,
    name: str,
    knowledge: str,
    delta: float,
    confidence: float = CONFIDENCE,
    policy: Policy | None = None,
    gaussian: bool = False,
) -> Evidence:
    """Return the epsilon that scores of independent runs rule out, by exact binomial bounds on both error rates.

    **Formal guarantee.** If the mechanism is (epsilon, delta)-DP, the bound exceeds epsilon with probability at most
    1 - ``confidence``. Scores are independent: one for each run, or one for each of many canaries in one run of a
    mechanism that treats them independently. No law is assumed of them. Scores are never turned around: an attack that is
    worse than chance gives 0. With ``gaussian``: if it is mu-GDP, the bound exceeds the epsilon of mu at ``delta`` with at most
    this probability; this refutes the claimed noise of Gaussian releases, and not an (epsilon, delta) claim by itself.

    Source: Jagielski, Ullman and Oprea 2020, section 4; Nasr et al. 2021, section 3; Nasr et al. 2023, section 4 (Gaussian).
    """
    check_real(low=0, high=1, open_low=True, open_high=True, confidence=confidence)
    members, others, policy = check_scores("members", members), check_scores("others", others), policy or Bonferroni()

    def bound(hits: Counts, positives: int, alarms: Counts, negatives: int, comparisons: int) -> float | Floats:
        if not gaussian:
            rates = hits, positives, alarms, negatives
            return epsilon_lower_bound(*rates, delta=delta, confidence=confidence, comparisons=comparisons)
        one = 1 - (1 - confidence) / comparisons
        counts = zip(np.atleast_1d(hits).tolist(), np.atleast_1d(alarms).tolist(), strict=True)
        return np.array([mu_lower_bound(hit, positives, alarm, negatives, confidence=one) for hit, alarm in counts])

    perfect = np.full(len(members), np.inf), np.full(len(others), -np.inf)
    found, reach = (certified(one, two, policy, bound) for one, two in ((members, others), perfect))
    if gaussian:
        found, reach = epsilon_of_mu(found, delta), epsilon_of_mu(reach, delta)
    estimator = f"{_GAUSSIAN if gaussian else _PLAIN}, {policy}"
    trials = len(members) + len(others)
    return Evidence(name, knowledge, found, confidence, trials, estimator, members, others, reach)
