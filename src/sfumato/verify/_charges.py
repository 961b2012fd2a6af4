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
from .events import simple_events
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
        """Yield a problem for a sum above its total, and for a claim that the rule cannot add."""
        if self.header["composition"] == "basic":
            for name in ("epsilon", "delta"):
                spent, total = _added(claims, name), _exact(self.header[f"total_{name}"])
                if spent > total:
                    yield f"the sum of {name} is {_shown(spent)}, above the total of {_shown(total)}"
        elif any(claim["mu"] is None for claim in claims):
            yield "rule gdp: a claim states no mu, so nothing adds it up"
        else:
            epsilon, delta = self.header["total_epsilon"], self.header["total_delta"]
            mu = _root(_squares(claims))
            goal = math.log(delta) + math.log1p(-float(_SHARE)) if delta else -math.inf
            if mu and gaussian_log_delta(mu, epsilon) > goal + _MARGIN:
                allowed = f"epsilon {epsilon} at delta {delta}"
                yield f"rule gdp: all claims together are {_shown(Fraction(mu))}-GDP, which exceeds {allowed}"
            draws = sum(claim["draws"] for claim in claims)
            price = draws * (1 + Fraction(math.exp(min(epsilon, 700.0)))) * Fraction(SAMPLER_TAU)
            if price > _exact(delta) * _SHARE * (1 + Fraction(1, 10**9)):
                yield f"rule gdp: {plain(str(draws))} draws of noise exceed the samplers' share of delta"

    def spent(self, claims: Sequence[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        """Return each sum, rounded up, and its total, in words."""
        if self.header["composition"] == "basic":
            return {
                name: (_shown(_added(claims, name)), _shown(_exact(self.header[f"total_{name}"])))
                for name in ("epsilon", "delta")
            }
        known = [claim for claim in claims if claim["mu"] is not None]
        whole = f"what epsilon {self.header['total_epsilon']} at delta {self.header['total_delta']} allows"
        return {"mu": (_shown(Fraction(_root(_squares(known)))), whole)}


def mu_of(stated: float | None, releases: Sequence[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Return the mu that a claim states and what its releases imply, which are equal if the claim is not too small.

    >>> mu_of(0.5, [{"event": {"type": "gaussian", "noise_multiplier": 2.0, "count": 1}}])
    (0.5, 0.5)
    """
    square = Fraction(0)
    for event, times in simple_events([release["event"] for release in releases]):
        if event["type"] != "gaussian":
            return stated, None
        square += times / _exact(event["noise_multiplier"]) ** 2
    implied = _root(square)
    fits = stated is not None and implied * (1 - 1e-12) <= stated
    return stated, stated if fits else implied


def _added(claims: Sequence[dict[str, Any]], name: str) -> Fraction:
    return sum((_exact(claim[name]) for claim in claims), Fraction())


def _squares(claims: Sequence[dict[str, Any]]) -> Fraction:
    return sum((_exact(claim["mu"]) ** 2 for claim in claims), Fraction())


def _root(square: Fraction) -> float:
    return math.sqrt(square)


def _exact(value: float) -> Fraction:
    """The decimal that a float prints as."""
    return Fraction(repr(float(value)))


def _shown(amount: Fraction) -> str:
    value = _UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize(_UP)
    return f"{value:f}" if value == 0 or value.adjusted() > -9 else f"{value:e}"
