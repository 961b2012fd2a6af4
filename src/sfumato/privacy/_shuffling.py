r"""What a report costs its user against whoever sees it among others, in an order that says nothing.

**Shuffling.** n users draw one report each, by one and the same randomizer, which is :math:`(\epsilon_0, 0)`-private for any
two values, and what leaves is the set of the n reports. Neighboring inputs differ in the value of one user; all others are
fixed, and known.

**Claim.** Let :math:`C \sim \mathrm{Bin}(n - 1, e^{-\epsilon_0})`, let A be the number of heads in C fair coins, and B a bit
that is 1 with probability :math:`e^{\epsilon_0} / (1 + e^{\epsilon_0})`. Whatever the randomizers are, the reports of
neighboring inputs differ at most as :math:`(A + B, C - A + 1 - B)` and :math:`(A + 1 - B, C - A + B)` do: the hockey-stick
divergence of this pair, at :math:`e^\epsilon`, is a valid :math:`\delta(\epsilon)`.

*Proof.* Let a and b be the laws of the report of the one user under both values. Since :math:`e^{-\epsilon_0} \le a / b \le
e^{\epsilon_0}`, :math:`Q_0 = (e^{\epsilon_0} a - b) / (e^{\epsilon_0} - 1)` and :math:`Q_1 = (e^{\epsilon_0} b - a) /
(e^{\epsilon_0} - 1)` are laws; a draws from :math:`Q_{1 - B}`, b from :math:`Q_B`, and a + b = :math:`Q_0 + Q_1`. The report of
any other user has a law of at least :math:`e^{-\epsilon_0} (a + b) / 2 = e^{-\epsilon_0} (Q_0 + Q_1) / 2`. So with probability
:math:`e^{-\epsilon_0}` this user is a *clone*, who draws from :math:`Q_0` or :math:`Q_1` by a fair coin, and else draws from a
rest that both inputs share. Given the numbers of draws from :math:`Q_0` and from :math:`Q_1`, anybody makes the reports: the
others who are no clones are a uniform set of that size, as clones are chosen before and apart from all coins. So the reports
follow from the pair, and nothing that follows from a pair differs more than the pair. For the same reason more clones never
cost more.

Both laws of the pair give one another's mirror image, so one direction is enough. Given C = c and m = c + 1, x of the m draws
are from :math:`Q_0` with probability :math:`2^{-m} \binom{m}{x} \cdot 2 (e^{\epsilon_0} x + m - x) / (m (e^{\epsilon_0} + 1))`,
or with x and m - x exchanged in the bracket.

**Numbers.** :func:`shuffled_delta` sums this from above. Probabilities begin with a term of 40 digits and go on by ratios,
whose rounding grows by less than 1e-9 over a million terms and is added; what is cut off is added by bounds of Chernoff and
Hoeffding; where C is put into ranges, each counts as its least, and more users than ten million as so many.

**What it does not say.** The number of users is that of *honest* reports: whoever knows the reports of others, or sent them,
takes them away. Several answers of a user in one report are one report, whose cost is their sum. If each answer goes alone,
without anything that joins them, each question has a claim of its own, and the claims of all questions add up. Reports that are
private only up to a delta get no claim here. A published improvement replaces :math:`e^{-\epsilon_0}` by :math:`2 /
(e^{\epsilon_0} + 1)` (Feldman, McMillan and Talwar, 2023). The proof above does not give that for outputs that are as likely
under both values, so it is not used.

Source: Feldman, McMillan and Talwar (2021), "Hiding among the clones", theorems 3.1 and 3.2.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real

Floats = NDArray[np.float64]
MOST_USERS, MOST_LOCAL = 10**7, 20.0
_ROUNDING = 1 + 1e-9  # of at most a million ratios, each off by less than four roundings
_RANGES, _ROUNDS, _PRECISION, _LEAST = 128, 50, 1e-4, 1e-290
_ROOM = 1 - 4e-6  # for sums of six digits that are rounded upward, as those of the verifier


def closed_form(local: float, users: int, delta: float) -> float | None:
    r"""Return the published epsilon of n = ``users`` shuffled reports of epsilon ``local``, or None where its condition fails.

    .. math:: \log\left(1 + \frac{e^{\epsilon_0} - 1}{e^{\epsilon_0} + 1} \left(\frac{8 \sqrt{e^{\epsilon_0} \log(4 / \delta)}}
              {\sqrt n} + \frac{8 e^{\epsilon_0}}{n}\right)\right), \qquad \epsilon_0 \le \log\frac{n}{16 \log(2 / \delta)} .

    It is for comparison: :func:`shuffled_epsilon` is smaller.

    >>> [round(closed_form(1.0, users, 1e-6), 3) for users in (10_000, 100_000)]
    [0.214, 0.073]
    """
    _check(local, users)
    check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    if math.exp(local) * 16 * math.log(2 / delta) > users:
        return None
    growth = math.exp(local)
    inner = 8 * math.sqrt(growth * math.log(4 / delta) / users) + 8 * growth / users
    return math.log1p((growth - 1) / (growth + 1) * inner)


def shuffled_epsilon(local: float, users: int, delta: float) -> float:
    r"""Return an epsilon for which n = ``users`` shuffled reports are (epsilon, ``delta``)-private; it is at most ``local``.

    **Formal guarantee.** That of the module, central model, one user's value is replaced: ``users`` honest reports, each pure
    ``local``-private, of which the order and everything that came with them is hidden.

    >>> [round(shuffled_epsilon(1.0, users, 1e-6), 3) for users in (10_000, 100_000)]
    [0.053, 0.015]
    """
    _check(local, users)
    check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    low, high = 0.0, local
    for _ in range(_ROUNDS):
        if high - low <= _PRECISION * high:
            break
        middle = (low + high) / 2 if low else high / 4
        if shuffled_delta(local, middle, users) <= delta * _ROOM:
            high = middle
        else:
            low = middle
    return high


def shuffled_delta(local: float, epsilon: float, users: int) -> float:
    """Return a delta for which ``users`` shuffled reports of epsilon ``local`` are (``epsilon``, delta)-private, from above.

    >>> shuffled_delta(1.0, 1.0, 1000)
    0.0
    >>> shuffled_delta(1.0, 0.2, 1000) < 1e-4 < shuffled_delta(1.0, 0.2, 100)
    True
    """
    _check(local, users)
    check_real(low=0, epsilon=epsilon)
    if epsilon >= local:
        return 0.0
    starts, weights, below = _clones(min(users, MOST_USERS) - 1, local)
    total = below + math.fsum(
        weight * _divergence(int(clones) + 1, local, epsilon) for clones, weight in zip(starts, weights, strict=True)
    )
    return min(1.0, total * _ROUNDING)


@lru_cache(maxsize=8)
def _clones(others: int, local: float) -> tuple[Floats, Floats, float]:
    """Ranges of the number of clones: the least of each, its probability from above, and that of fewer than all of them."""
    share = math.exp(-local) * (1 - 1e-15)  # fewer clones cost more
    mean, deviation = others * share, math.sqrt(others * share * (1 - share))
    low = max(0, math.floor(mean - 9 * deviation - 40))
    high = min(others, math.ceil(mean + 9 * deviation + 40))
    top = min(high, max(low, int(mean)))
    rest = (1 - share) / share
    up, down = np.arange(top, high, dtype=np.float64), np.arange(top, low, -1, dtype=np.float64)
    first = _term(others, top, share)
    above = first * np.cumprod((others - up) / (up + 1) / rest)
    under = first * np.cumprod(down / (others - down + 1) * rest)
    masses = np.concatenate((under[::-1], [first], above)) * _ROUNDING
    width = -(-len(masses) // _RANGES)
    starts = np.arange(low, high + 1, width, dtype=np.float64)
    weights = np.add.reduceat(masses, np.arange(0, len(masses), width))
    weights[-1] += _chernoff(others, high + 1, share)
    return starts, weights, _chernoff(others, low - 1, share)


def _chernoff(trials: int, found: int, share: float) -> float:
    """Bound the probability of ``found`` or a number farther from the mean, 0 where there is none."""
    if not 0 <= found <= trials:
        return 0.0
    part = found / trials
    exponent = (part * math.log(part / share) if part else 0.0) + (
        (1 - part) * math.log((1 - part) / (1 - share)) if part < 1 else 0.0
    )
    return math.exp(-trials * exponent * (1 - 1e-6))


def _divergence(m: int, local: float, epsilon: float) -> float:
    """The hockey-stick divergence of the pair, given m draws from both laws, from above."""
    slope, level = math.expm1(local) * (1 + math.exp(epsilon)), math.expm1(local + epsilon)
    first = min(m, max(0, math.floor(m * (level / slope) * (1 - 1e-12))))
    last = min(m, max(first, m // 2) + math.ceil(7 * math.sqrt(m)) + 40)
    places = np.arange(first, last + 1, dtype=np.float64)
    steps = places[:-1]
    chances = _term(m, first, 0.5) * np.concatenate(([1.0], np.cumprod((m - steps) / (steps + 1))))
    scale = 2 / (math.exp(local) + 1)
    excess = np.maximum(slope * (places / m) - level, 0.0) + 4e-15 * (slope + level)
    beyond = 2 * math.exp(-2 * (last - m / 2) ** 2 / m) if last < m else 0.0
    return min(1.0, float(chances @ excess) * scale * _ROUNDING + beyond + _LEAST)


def _term(trials: int, found: int, share: float) -> float:
    """The probability of ``found`` of ``trials``, each with a chance of ``share``, to 12 digits."""
    import mpmath

    with mpmath.workdps(40):
        log = mpmath.loggamma(trials + 1) - mpmath.loggamma(found + 1) - mpmath.loggamma(trials - found + 1)
        if share < 1:
            log += found * mpmath.log(share) + (trials - found) * mpmath.log(1 - mpmath.mpf(share))
        return float(mpmath.exp(log))


def _check(local: float, users: int) -> None:
    check_real(low=0, high=MOST_LOCAL, open_low=True, local=local)
    check_int(low=1, users=users)
