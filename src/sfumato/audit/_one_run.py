"""From the scores of many canaries in one run to an epsilon: the highest scores are guessed to be in.

The number of guesses is the one thing that is chosen, and the proofs need it fixed before the run. So the best of a fixed
grid of numbers is reported, and the risk divided by their number. A split of the canaries, as in published code, is not
offered: both halves come from one output, so that a number of guesses chosen on one half depends on the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_int
from sfumato.audit._bounds import clopper_pearson, one_run_epsilon, one_run_p_value
from sfumato.audit._evidence import CONFIDENCE, Evidence, check_scores
from sfumato.audit._gaussian import epsilon_of_mu
from sfumato.audit._one_run_fdp import one_run_mu
from sfumato.audit._thresholds import Bonferroni

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_PLAIN = "one run with abstention"
_GAUSSIAN = "one run with abstention, Gaussian DP (refutes the claimed noise)"


def audit_one_run(
    members: ArrayLike,
    others: ArrayLike,
    *,
    name: str,
    knowledge: str,
    delta: float,
    confidence: float = CONFIDENCE,
    guesses: int | Bonferroni | None = None,
    gaussian: bool = False,
) -> Evidence:
    """Return the epsilon that the scores of canaries in one run rule out, each of them put in by a fair coin.

    The ``guesses`` highest scores are guessed to be in, and the auditor abstains on all others. Of equal scores, those of
    canaries that are out come first.

    **Formal guarantee.** Relation: add/remove of one canary. If the mechanism is (epsilon, delta)-DP, the bound exceeds
    epsilon with probability at most 1 - ``confidence``, however canaries depend on each other. With ``gaussian``: if it is
    mu-GDP, the bound exceeds the epsilon of mu at ``delta`` with at most this probability; this refutes the claimed noise
    of Gaussian releases, and not an (epsilon, delta) claim by itself.

    Source: Steinke, Nasr and Jagielski 2023, theorem 5.2; Mahloujifar, Melis and Chaudhuri 2025, algorithm 3.
    """
    members, others = check_scores("members", members), check_scores("others", others)
    canaries = len(members) + len(others)
    if isinstance(guesses, int):
        tried, how = np.array([check_int(low=1, high=canaries, guesses=guesses)]), f"{guesses} guesses, fixed before"
    else:
        policy = guesses or Bonferroni()
        tried, how = policy.of(canaries), str(policy)
    scores, is_member = np.concatenate([others, members]), np.arange(canaries) >= len(others)
    right = is_member[np.argsort(-scores, kind="stable")].cumsum()[tried - 1]
    risk = (1 - confidence) / len(tried)

    def bound(right: NDArray[np.int64]) -> float:
        if gaussian:
            return epsilon_of_mu(_best_mu(right, tried, canaries, 1 - risk), delta)
        return _best_epsilon(right, tried, canaries, delta, 1 - risk)

    estimator = f"{_GAUSSIAN if gaussian else _PLAIN}, {how}"
    reach = bound(np.minimum(tried, len(members)))
    return Evidence(name, knowledge, bound(right), confidence, canaries, estimator, members, others, reach)


def _promising(right: NDArray[np.int64], tried: NDArray[np.int64], confidence: float) -> list[tuple[int, int]]:
    """Return right guesses and guesses, those of the largest share that is sure to be right first."""
    pairs = zip(right.tolist(), tried.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: -clopper_pearson(pair[0], pair[1], confidence)[0])


def _best_mu(right: NDArray[np.int64], tried: NDArray[np.int64], canaries: int, confidence: float) -> float:
    best = 0.0
    for pair in _promising(right, tried, confidence):
        best = max(best, one_run_mu(*pair, canaries, confidence=confidence, one_sided=True, above=best))
    return best


def _best_epsilon(
    right: NDArray[np.int64], tried: NDArray[np.int64], canaries: int, delta: float, confidence: float
) -> float:
    best = 0.0
    for correct, guesses in _promising(right, tried, confidence):
        likely = correct / guesses <= 1 / (1 + math.exp(-best))  # a p-value of one half at least
        if not likely and one_run_p_value(correct, guesses, canaries, best, delta) <= 1 - confidence:
            best = max(best, one_run_epsilon(correct, guesses, canaries, delta=delta, confidence=confidence))
    return best
