r"""A plan of many runs before the first: what each may spend, so that all of them together cost at most a total.

Three ways to add up, for runs at edge level that are pure (``lpgnet``), Gaussian (``gap``, ``progap``), or *counts* (``auto``,
``label-messages``), which are pure or Gaussian as leaves less noise:

* ``basic``: epsilons and deltas add up. Any run may be charged, whatever was decided after earlier ones.
* ``gdp``: squares of mu add up (:class:`~sfumato.privacy._filters.GaussianFilter`, :mod:`~sfumato.privacy._pure_gdp`). Counts
  have Gaussian noise here (:func:`~sfumato.privacy._pure_gdp.less_noise`), 0.56 times the deviation of Laplace noise of this mu.
* ``joint``: the exact cost of pure runs whose epsilons are all fixed before the first (:mod:`~sfumato.privacy._joint`); of
  Gaussian runs it is that of ``gdp``. No ledger adds up this way: it says how much the better of the other two leaves. Counts
  have less noise by rule ``gdp``, since Gaussian noise gives nothing away there, and Laplace noise does here.

**Early or late.** Each month's model is trained on its own release, with the noise of its own epsilon e. Let the gain be g(e).
Where g grows ever more slowly (is concave), the mean of g over the year is largest for equal epsilons, by Jensen's inequality.
Where e is so small that the graph is hardly used, g is convex: then fewer runs pay, not unequal ones. A larger last release
pays for who needs the model of the end of the year alone, a larger first one for who serves the first model for long:
:func:`shares` makes both, and neither changes the total. If the graph stays as it is, each model may read the mean of all
releases until then, weighed by the inverses of their variances: what is released early is read in every later month, and early
releases pay (:func:`told`). Under ``gdp`` the last of these means has the noise of one run that spends all, by any schedule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import accumulate

from sfumato._validate import check_choice, check_int, check_real
from sfumato.privacy._filters import GaussianFilter
from sfumato.privacy._joint import MOST_UNEQUAL, joint_epsilons
from sfumato.privacy._pure_gdp import less_noise, pure_epsilon

KINDS, RULES, SHAPES = ("pure", "gaussian", "counts"), ("basic", "gdp", "joint"), ("equal", "early", "late")
MOST_RUNS = 10_000
_RATIO = 4.0
"""How much larger the largest release is than the smallest, where they are not equal."""
_STEP = Decimal("0.000001")


@dataclass(frozen=True)
class Planned:
    """What a rule lets each of many runs spend: ``epsilons`` at ``delta`` each, and the deviation of the ``noise`` of a count.

    ``law`` is that of the noise: laplace, gaussian, or both in turn.
    """

    rule: str
    epsilons: tuple[float, ...]
    delta: float
    noise: tuple[float, ...]
    law: str

    @property
    def pooled(self) -> tuple[float, ...]:
        """Return the deviation, after each run, of the mean of all releases so far, weighed by the inverses of variances.

        >>> [round(one, 2) for one in Planned("gdp", (1.0, 1.0), 1e-6, (2.0, 1.0), "gaussian").pooled]
        [2.0, 0.89]
        """
        return tuple(1 / math.sqrt(known) for known in accumulate(1 / one**2 for one in self.noise))


def shares(runs: int, shape: str) -> list[Fraction]:
    """Return what part of the whole each run takes: equal ones, or falling (``early``) or rising (``late``) by a constant factor.

    >>> [round(float(share), 3) for share in shares(3, "early")]
    [0.571, 0.286, 0.143]
    """
    runs, shape = check_int(low=1, high=MOST_RUNS, runs=runs), check_choice(SHAPES, shape=shape)
    if shape == "equal" or runs == 1:
        return [Fraction(1, runs)] * runs
    weights = [Fraction(_RATIO ** (1 - place / (runs - 1))) for place in range(runs)]
    whole = sum(weights)
    found = [weight / whole for weight in weights]
    return found if shape == "early" else found[::-1]


def planned(
    runs: int, total_epsilon: float, total_delta: float, kind: str = "pure", shape: str = "equal"
) -> list[Planned]:
    """Return what each of so many runs may spend, by every rule. ``kind`` says what they release, as in the module.

    Epsilons are rounded down to six decimals, so that they add up to no more than the total. Under ``gdp``, ``delta`` is the one
    at which a Gaussian run is to be calibrated; the sum does not read it.

    >>> [(one.rule, one.epsilons[0]) for one in planned(12, 4.0, 1e-6)]
    [('basic', 0.333333), ('gdp', 0.193112), ('joint', 0.333387)]
    >>> [(one.law, round(one.noise[0], 2)) for one in planned(12, 4.0, 1e-6, "counts")[:2]]
    [('laplace', 4.24), ('gaussian', 4.13)]
    """
    kind = check_choice(KINDS, kind=kind)
    total_epsilon = check_real(low=0, high=700, open_low=True, total_epsilon=total_epsilon)
    total_delta = check_real(low=0, high=1, open_low=True, open_high=True, total_delta=total_delta)
    parts = shares(runs, shape)
    each = _digits(total_delta, len(parts))
    basic = [_down(float(part) * total_epsilon) for part in parts]
    whole = GaussianFilter(total_epsilon, total_delta).remaining["mu^2"]
    found: dict[str, list[float]]
    mus = [math.sqrt(whole * float(part)) for part in parts]
    if kind != "gaussian":
        pures = [_down(pure_epsilon(mu)) for mu in mus]
        found = {"basic": basic, "gdp": pures}
        if shape == "equal" or runs <= MOST_UNEQUAL:
            found["joint"] = [_down(one) for one in joint_epsilons(list(map(float, parts)), total_epsilon, total_delta)]
        plans = [Planned(rule, tuple(e), each, tuple(map(_laplace, e)), "laplace") for rule, e in found.items()]
        if kind == "counts":
            plans[1] = _of_mus("gdp", mus, total_delta, [less_noise(mu) for mu in mus])
        return plans
    gaussian = [("gaussian", 1 / mu) for mu in mus]
    return [
        Planned("basic", tuple(basic), each, tuple(_gaussian(e, each) for e in basic), "gaussian"),
        *(_of_mus(rule, mus, total_delta, gaussian) for rule in ("gdp", "joint")),
    ]


def _of_mus(rule: str, mus: list[float], delta: float, noise: list[tuple[str, float]]) -> Planned:
    """Runs that may each spend a mu, told as the epsilon of Gaussian noise at ``delta``."""
    laws = dict.fromkeys(law for law, _ in noise)
    epsilons = tuple(_down(_epsilon(mu, delta)) for mu in mus)
    return Planned(rule, epsilons, delta, tuple(one for _, one in noise), " and ".join(laws))


def told(
    runs: int, total_epsilon: float, total_delta: float, kind: str, rule: str
) -> dict[str, tuple[float, float, float, float]]:
    """Return what each schedule leaves by a rule: deviations of a count, for the year on average and in its last month.

    First where each month's model reads its own release, then where it reads the mean of all releases until then.

    >>> {shape: [round(one, 2) for one in told(12, 4.0, 1e-6, "counts", "gdp")[shape]] for shape in ("equal", "early")}
    {'equal': [4.13, 4.13, 1.93, 1.19], 'early': [4.43, 6.12, 1.62, 1.19]}
    """
    found = {}
    for shape in SHAPES:
        (one,) = (one for one in planned(runs, total_epsilon, total_delta, kind, shape) if one.rule == rule)
        own, pooled = one.noise, one.pooled
        found[shape] = (sum(own) / runs, own[-1], sum(pooled) / runs, pooled[-1])
    return found


def _down(epsilon: float) -> float:
    return float(Decimal(repr(epsilon)).quantize(_STEP, ROUND_FLOOR))


def _digits(delta: float, runs: int) -> float:
    """An equal share of delta, with six digits, rounded down."""
    return float(Context(prec=6, rounding=ROUND_FLOOR).divide(Decimal(repr(delta)), runs))


def _laplace(epsilon: float) -> float:
    """The deviation of discrete Laplace noise, in steps of 1 / 32767, on a count that a record moves by 1."""
    return math.sqrt(2) / epsilon if epsilon else math.inf


def _gaussian(epsilon: float, delta: float) -> float:
    from sfumato.privacy.calibration import gaussian_noise_multiplier

    return gaussian_noise_multiplier(epsilon, delta) if epsilon else math.inf


def _epsilon(mu: float, delta: float) -> float:
    from sfumato.privacy import accounting
    from sfumato.privacy.events import GaussianEvent

    return accounting.epsilon([GaussianEvent(1 / mu)], delta)


def left_for(left: Mapping[str, float], runs: int) -> dict[str, float]:
    """Return what each of so many more runs may spend of what is left in a ledger, rounded down.

    Under ``gdp``, of which ``left`` has mu^2, that is an epsilon of pure runs and the multiplier of Gaussian ones.

    >>> left_for({"epsilon": 1.0, "delta": 0.0}, 4), left_for({"mu^2": 0.04, "sampler delta": 1e-16}, 4)
    ({'epsilon': 0.25, 'delta': 0.0}, {'pure epsilon': 0.079797, 'noise multiplier': 10.0})
    """
    runs = check_int(low=1, high=MOST_RUNS, runs=runs)
    if "epsilon" in left:
        return {"epsilon": _down(left["epsilon"] / runs), "delta": _digits(left["delta"], runs)}
    mu = math.sqrt(left["mu^2"] / runs)
    return {"pure epsilon": _down(pure_epsilon(mu)), "noise multiplier": 1 / mu if mu else math.inf}
