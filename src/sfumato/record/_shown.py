"""What a certificate shows of itself, and how a claim is put into words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from sfumato._shown import Shown, bar
from sfumato.privacy._meaning import right_guesses
from sfumato.privacy.units import unit_from_dict

_MOST_IN_WORDS = 10.0
NO_PRIVACY = "No privacy: this run was trained without any guarantee; nothing of it may be released."
NO_RELEASE = "No release depends on what is protected, so no noise was needed."


class ShownCertificate(Shown):
    """A certificate shows its claim."""

    values: Mapping[str, Any]

    @property
    def not_protected(self) -> str:
        """What the unit leaves open, in one sentence: parts of the data that a release may tell."""
        parts = ", ".join(part.replace("_", " ") for part in unit_from_dict(self.values["unit"]).public)
        return f"Not protected, since the unit takes them for public: {parts}."

    def facts(self) -> Mapping[str, str]:
        claim, unit = self.values["claim"], self.values["unit"]
        return {
            "protects": self.values["protects"],
            "cost": claim_words(claim["epsilon"], claim["delta"]),
            "unit": unit["name"],
            "relation": unit["relation"],
            "trust model": self.values["trust_model"],
        }

    def more(self) -> Mapping[str, str]:
        claim = self.values["claim"]
        return meaning(claim["epsilon"], claim["delta"])


def meaning(epsilon: float | None, delta: float | None) -> dict[str, str]:
    """Return, for a notebook, how often a guess about what is protected can be right; nothing without privacy."""
    if epsilon is None or delta is None:
        return {}
    right = right_guesses(epsilon, delta)
    words = f"a guess whether it is in the data is right at most {right} times of 100 (a coin: 50)"
    return {"means": bar(float(right), 50, 100, words)}


def claim_words(epsilon: float | None, delta: float | None) -> str:
    """Return epsilon and delta of a claim in words; both are None without privacy."""
    return (
        "no privacy"
        if epsilon is None or delta is None
        else f"epsilon = {round_up(epsilon)}, delta = {delta_up(delta)}"
    )


def origin_words(run: Mapping[str, Any]) -> str:
    """Say that weights come from another run, which a certificate names in ``builds_on``."""
    return (
        f"The weights come from another run (ledger {run['ledger_head'][:16]}, epsilon {run['epsilon']}, delta {run['delta']}), "
        "which this certificate does not cover: for records in both graphs the costs add up."
    )


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, or three digits where it is smaller than they tell, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    >>> round_up(10.0)
    '10'
    >>> round_up(1.2341e-9)
    '0.00000000124'
    """
    if 0 < epsilon < 1e-6:
        return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(epsilon):f}"
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), ROUND_CEILING).normalize():f}"


def factor_words(claim: Mapping[str, Any]) -> list[str]:
    """Say a claim in everyday words, as long as the factor e^epsilon is one that a reader can imagine."""
    epsilon, delta = claim["epsilon"], claim["delta"]
    if epsilon > _MOST_IN_WORDS:
        return []
    times = math.ceil(100 * math.exp(epsilon) * (1 + 1e-12)) / 100
    apart = f", apart from an added probability of at most {delta_up(delta)}" if delta else ""
    several = "k of them at k times this epsilon" + (", and with a larger delta" if delta else "")
    return [
        f"So no outcome of what this run released to everybody becomes more than {times:.2f} times as likely because of one such "
        f"record{apart}. Several of them together are protected less: {several}."
    ]


def delta_up(delta: float) -> str:
    """Print a delta with three digits, never below its value."""
    exact = Decimal(repr(delta))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)):.3g}" if delta else "0"
