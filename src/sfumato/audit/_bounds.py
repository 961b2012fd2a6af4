"""From counts of an attack to an epsilon that the mechanism certainly exceeds: exact binomial statistics, NumPy only.

Every bound errs to one side: an interval is never narrower than the exact one, an epsilon never above it. Binomial
tails are the leading probability (by Stirling's series and deviances, Loader 2000) times a series of positive terms, so
that they hold to about 1e-11 relative, however small, up to 10 million trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sfumato._validate import SHARE, check_int, check_real, fail

_SLACK = 1e-10  # on log-tails; covers their rounding
_PRECISION = 1e-12  # relative, where a search stops
_MAX_STEPS = 100
_EXACT_BELOW = 16
_STIRLING_ERRORS = np.array(
    [0.0]
    + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - math.log(2 * math.pi) / 2 for n in range(1, _EXACT_BELOW)]
)
Counts = int | np.ndarray


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval that holds a binomial proportion with at least ``confidence``, whatever the proportion is.

    The ends p solve P[Bin(n, p) >= k] = (1 - confidence) / 2 and P[Bin(n, p) <= k] = (1 - confidence) / 2.

    Source: Clopper and Pearson 1934.
    """
    trials = check_int(low=1, trials=trials)
    successes = check_int(low=0, high=trials, successes=successes)
    risk = (1 - SHARE(confidence=confidence)) / 2
    return _proportion_below(successes, trials, risk), 1 - _proportion_below(trials - successes, trials, risk)


def epsilon_lower_bound(
    true_positives: Counts,
    positives: int,
    false_positives: Counts,
    negatives: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    comparisons: int = 1,
) -> float | np.ndarray:
    """Return an epsilon that a mechanism exceeds, from an attack that guesses which of two neighbors it was run on.

    An (epsilon, delta)-DP mechanism keeps both TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta. With t a
    lower bound on TPR and f an upper bound on FPR, each at risk (1 - confidence) / (2 comparisons), the result is
    max(0, log((t - delta) / f), log((1 - f - delta) / (1 - t))).

    **Formal guarantee.** If the mechanism is (epsilon, delta)-DP, the result exceeds epsilon with probability at most
    1 - confidence. Both directions follow from the same two bounds, so the larger is taken without a further correction.

    Source: Kairouz, Oh and Viswanath 2015, theorem 2.1; Jagielski, Ullman and Oprea 2020, section 4.
    """
    positives, negatives = check_int(low=1, positives=positives), check_int(low=1, negatives=negatives)
    delta = check_real(low=0, high=1, open_high=True, delta=delta)
    risk = (1 - SHARE(confidence=confidence)) / (2 * check_int(low=1, comparisons=comparisons))
    hits = _check_counts("true_positives", true_positives, positives)
    alarms = _check_counts("false_positives", false_positives, negatives)
    tpr = _each(hits, lambda count: _proportion_below(count, positives, risk))
    fpr = 1 - _each(alarms, lambda count: _proportion_below(negatives - count, negatives, risk))
    with np.errstate(divide="ignore"):
        bound = np.maximum(
            np.log(np.maximum(tpr - delta, 0)) - np.log(fpr),
            np.log(np.maximum(1 - fpr - delta, 0)) - np.log1p(-tpr),
        )
    bound = np.maximum(bound, 0)
    return float(bound) if bound.ndim == 0 else bound


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the probability, at most, that an (epsilon, delta)-DP mechanism lets so many guesses be right in one run.

    m canaries are each put in or left out by a fair coin of their own; the auditor guesses r of the coins from the
    output, abstains on the others, and is right v times. With f(v) = P[Bin(r, e^epsilon / (1 + e^epsilon)) >= v],

        P[at least v right] <= f(v) + 2 m delta max_{1 <= i <= v} (f(v - i) - f(v)) / i.

    **Formal guarantee.** Relation: add/remove of one canary. For mechanisms whose epsilon and delta are fixed, a number
    of guesses r fixed before the run, and any dependence between canaries.

    Source: Steinke, Nasr and Jagielski 2023, theorem 5.2.
    """
    canaries = check_int(low=1, canaries=canaries)
    guesses = check_int(low=0, high=canaries, guesses=guesses)
    correct = check_int(low=0, high=guesses, correct=correct)
    epsilon = check_real(low=0, epsilon=epsilon)
    delta = check_real(low=0, high=1, delta=delta)
    odds = math.exp(-epsilon)
    right, wrong = 1 / (1 + odds), odds / (1 + odds)
    p_value = math.exp(_log_tail(correct, guesses, right, wrong))
    if delta > 0 and correct > 0:
        just_below = np.exp(_log_pmf(np.arange(correct - 1, -1, -1), guesses, right, wrong))
        p_value += 2 * canaries * delta * float((just_below.cumsum() / np.arange(1, correct + 1)).max())
    return min(1.0, p_value * (1 + _SLACK))


def one_run_epsilon(
    correct: int, guesses: int, canaries: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Return an epsilon that a mechanism exceeds, from the guesses about many canaries in a single run.

    The largest epsilon at which :func:`one_run_p_value` is at most 1 - confidence; 0 where there is none.

    **Formal guarantee.** If the mechanism is (epsilon, delta)-DP under add/remove of one canary, the result exceeds
    epsilon with probability at most 1 - confidence. To choose among several numbers of guesses on one run, divide
    1 - confidence by how many were tried.

    Source: Steinke, Nasr and Jagielski 2023, theorem 5.2.
    """
    risk = 1 - check_real(low=0.5, high=1, open_low=True, open_high=True, confidence=confidence)

    def rejected(epsilon: float) -> bool:
        return one_run_p_value(correct, guesses, canaries, epsilon, delta) <= risk

    return largest_rejected(rejected, 0.0, _PRECISION)


def largest_rejected(rejected: Callable[[float], bool], low: float, precision: float) -> float:
    """Return the largest number that is rejected, or one just below it; 0 if ``low`` is not.

    The relative ``precision`` says where the bisection stops. Every number below a rejected one is rejected.
    """
    if not rejected(low):
        return 0.0
    high = 2 * low or 1.0
    while rejected(high):
        low, high = high, 2 * high
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def _check_counts(name: str, counts: Counts, total: int) -> np.ndarray:
    values = np.asarray(counts)
    if values.dtype.kind not in "iu" or np.any((values < 0) | (values > total)):
        raise fail(name, counts, f"to be integers from 0 to {total}")
    return values


def _each(counts: np.ndarray, bound: Callable[[int], float]) -> np.ndarray:
    """Apply ``bound`` to every count, once for equal ones."""
    values, place = np.unique(counts, return_inverse=True)
    return np.array([bound(int(value)) for value in values])[place].reshape(counts.shape)


@lru_cache(maxsize=1 << 14)
def _proportion_below(successes: int, trials: int, risk: float) -> float:
    """Return p with P[Bin(trials, p) >= successes] = risk, or a little less.

    The log-tail is concave in log p (its slope is successes * pmf / tail), so Newton's steps end below the root.
    """
    if successes == 0:
        return 0.0
    goal = math.log(risk) - _SLACK
    if successes == trials:
        return math.exp(goal / trials)
    log_p = math.log(successes / trials)
    for _ in range(_MAX_STEPS):
        log_tail, log_pmf = _above_mean(successes, trials, math.exp(log_p), -math.expm1(log_p))
        step = (goal - log_tail) / (successes * math.exp(log_pmf - log_tail))
        log_p += step
        if abs(step) <= _PRECISION:
            break
    return math.exp(log_p)


def _log_tail(count: int, trials: int, p: float, q: float) -> float:
    """Return log P[Bin(trials, p) >= count], with q = 1 - p > 0; below the mean, from the other tail."""
    if count <= 0:
        return 0.0
    if count < trials * p:
        return math.log1p(-math.exp(_above_mean(trials - count + 1, trials, q, p)[0]))
    return _above_mean(count, trials, p, q)[0]


def _above_mean(count: int, trials: int, p: float, q: float) -> tuple[float, float]:
    """Return the logarithms of P[Bin(trials, p) >= count] and of P[... = count], for counts not below the mean.

    The probabilities fall at least as fast as from the mode on, hence below 1e-17 of the first within twelve standard
    deviations (Bernstein).
    """
    after = np.arange(count, min(trials, count + 40 + int(12 * math.sqrt(trials * p * q))), dtype=float)
    series = np.cumprod((trials - after) / (after + 1) * (p / q)).sum()
    log_pmf = float(_log_pmf(np.array([count]), trials, p, q)[0])
    return log_pmf + math.log1p(series), log_pmf


def _log_pmf(count: np.ndarray, trials: int, p: float, q: float) -> np.ndarray:
    """Return log P[Bin(trials, p) = count] for 0 < p < 1, with q = 1 - p."""
    if trials == 0:
        return np.zeros(count.shape)
    k = count.astype(float)
    inside = np.clip(k, 1, max(1, trials - 1))
    rest = trials - inside
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (
            _stirling_error(np.array([trials]))
            - _stirling_error(inside)
            - _stirling_error(rest)
            - _deviance(inside, trials * p)
            - _deviance(rest, trials * q)
            + 0.5 * np.log(trials / (2 * math.pi * inside * rest))
        )
    return np.where(k == 0, trials * _log(q, p), np.where(k == trials, trials * _log(p, q), middle))


def _log(p: float, q: float) -> float:
    """Return log p for p + q = 1, from the smaller of the two."""
    return math.log(p) if p < q else math.log1p(-q)


def _stirling_error(n: np.ndarray) -> np.ndarray:
    """Return log n! - log(sqrt(2 pi n) (n / e)^n)."""
    m = np.maximum(n, _EXACT_BELOW).astype(float)
    square = m * m
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / m
    return np.where(n < _EXACT_BELOW, _STIRLING_ERRORS[np.minimum(n, _EXACT_BELOW - 1).astype(int)], series)


def _deviance(observed: np.ndarray, expected: float) -> np.ndarray:
    """Return observed log(observed / expected) + expected - observed."""
    excess = (observed - expected) / expected
    return expected * ((1 + excess) * np.log1p(excess) - excess)
