"""How the claims of a data set's ledger add up: the verifier's own filters, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from ._documents import plain
from ._epsilon import SAMPLER_TAU
from .events import KINDS, simple_events
from .events._gaussian import gaussian_log_delta

_SHARE = Fraction(1, 2**32)  # of delta, for the noise samplers under rule gdp
_MARGIN = 1e-10
_UP = Context(prec=12, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Sum:
    """The sum of claims under the rule of a ledger's header.

    >>> Sum({"composition": "basic", "total_epsilon": 1.0, "total_delta": 1e-6}).spent([{"epsilon": 0.1, "delta": 0.0}] * 3)
    {'epsilon': ('0.3', '1'), 'delta': ('0', '0.000001')}
    """

    header: dict[str, Any]

    def faults(self, claims: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield a problem for a sum above its total, for a claim above the plan, and for one that the rule cannot add."""
        schedule = self.header.get("schedule")
        if schedule is not None:
            if len(claims) > len(schedule["epsilons"]):
                yield f"the plan is for {len(schedule['epsilons'])} runs, got {len(claims)}"
            for number, (claim, allowed) in enumerate(zip(claims, schedule["epsilons"], strict=False), start=1):
                if claim["epsilon"] > allowed or claim["delta"] > schedule["delta"]:
                    yield f"run {number} claims more than the plan has for it, epsilon {allowed} at delta {schedule['delta']}"
        if self.header["composition"] == "basic":
            for name in ("epsilon", "delta"):
                spent, total = _added(claims, name), exact(self.header[f"total_{name}"])
                if spent > total:
                    yield f"the sum of {name} is {shown(spent)}, above the total of {shown(total)}"
        elif any(claim["mu"] is None for claim in claims):
            yield "rule gdp: a claim states no mu, so nothing adds it up"
        else:
            epsilon, delta = self.header["total_epsilon"], self.header["total_delta"]
            mu = _root(_squares(claims))
            goal = math.log(delta) + math.log1p(-float(_SHARE)) if delta else -math.inf
            if mu and gaussian_log_delta(mu, epsilon) > goal + _MARGIN:
                allowed = f"epsilon {epsilon} at delta {delta}"
                yield f"rule gdp: all claims together are {shown(Fraction(mu))}-GDP, which exceeds {allowed}"
            draws = sum(claim["draws"] for claim in claims)
            price = draws * (1 + Fraction(math.exp(min(epsilon, 700.0)))) * Fraction(SAMPLER_TAU)
            if price > exact(delta) * _SHARE * (1 + Fraction(1, 10**9)):
                yield f"rule gdp: {plain(str(draws))} draws of noise exceed the samplers' share of delta"

    def spent(self, claims: Sequence[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        """Return each sum, rounded up, and its total, in words."""
        if self.header["composition"] == "basic":
            return {
                name: (shown(_added(claims, name)), shown(exact(self.header[f"total_{name}"])))
                for name in ("epsilon", "delta")
            }
        known = [claim for claim in claims if claim["mu"] is not None]
        whole = f"what epsilon {self.header['total_epsilon']} at delta {self.header['total_delta']} allows"
        return {"mu": (shown(Fraction(_root(_squares(known)))), whole)}


def mu_of(stated: float | None, releases: Sequence[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Return the mu that a claim states and what its releases imply, which are equal if the claim is that, rounded up.

    >>> mu_of(0.5, [{"event": {"type": "gaussian", "noise_multiplier": 2.0, "count": 1}}])
    (0.5, 0.5)
    """
    square = Fraction(0)
    for event, times in simple_events([release["event"] for release in releases]):
        if event["type"] == "gaussian":
            square += times / exact(event["noise_multiplier"]) ** 2
            continue
        kind = KINDS.get(event["type"])
        if kind is None or kind.part is None or not kind.pure:
            return stated, None
        mu = pure_mu(kind.part(event)[1])
        if math.isinf(mu):  # above epsilon 700, which no total allows
            return stated, mu
        square += times * Fraction(mu) ** 2
    implied = _root(square)
    fits = stated is not None and implied * (1 - 1e-12) <= stated <= implied * (1 + 1e-6)
    return stated, stated if fits else implied


def draws_of(releases: Sequence[dict[str, Any]]) -> int:
    """Return how many draws of noise a record can touch in these releases, which the samplers' share of delta pays for.

    >>> draws_of([{"event": {"type": "gaussian", "noise_multiplier": 2.0, "count": 3}, "affected_coordinates": 4}])
    12
    """
    return sum(
        release["affected_coordinates"] * times
        for release in releases
        for _, times in simple_events([release["event"]])
    )


def pure_mu(epsilon: float) -> float:
    """Return the mu of a pure event: where the curves of N(0, 1) against N(mu, 1) and of randomized response meet.

    The curve of the Gaussians is convex and meets that of every pure mechanism, two lines, in its ends and its corner, where
    both errors are q = 1 / (1 + e^epsilon); so it is below. Phi(-mu / 2) = q there.

    >>> round(pure_mu(1.0), 6)
    1.232035
    """
    small = epsilon < 1
    goal = math.tanh(epsilon / 2) if small else 2 / (1 + math.exp(min(epsilon, 700.0)))
    low, high = 0.0, 80.0
    while low < (middle := (low + high) / 2) < high:
        at = middle / math.sqrt(8)
        below = math.erf(at) < goal if small else math.erfc(at) > goal
        low, high = (middle, high) if below else (low, middle)
    return high if epsilon <= 700 else math.inf


def _added(claims: Sequence[dict[str, Any]], name: str) -> Fraction:
    return sum((exact(claim[name]) for claim in claims), Fraction())


def _squares(claims: Sequence[dict[str, Any]]) -> Fraction:
    return sum((exact(claim["mu"]) ** 2 for claim in claims), Fraction())


def _root(square: Fraction) -> float:
    return math.sqrt(square)


def exact(value: float) -> Fraction:
    """The decimal that a float prints as."""
    return Fraction(repr(float(value)))


def shown(amount: Fraction) -> str:
    value = _UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(_UP)
    return f"{value:f}" if value == 0 or value.adjusted() > -9 else f"{value:e}"
