"""What a certificate shows of itself, and how a claim is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from sfumato._shown import Shown


class ShownCertificate(Shown):
    """A certificate shows its claim.

    >>> claim = {"protects": "any one record", "claim": {"epsilon": 1.0, "delta": 1e-6}, "trust_model": "trusted curator"}
    >>> shown = ShownCertificate()
    >>> shown.values = {**claim, "unit": {"name": "record", "relation": "replace"}}
    >>> shown.facts()["cost"]
    'epsilon = 1, delta = 1e-06'
    """

    values: Mapping[str, Any]

    def facts(self) -> Mapping[str, str]:
        """Return the claim: what it protects, its cost, and whom it trusts."""
        claim, unit = self.values["claim"], self.values["unit"]
        return {
            "protects": self.values["protects"],
            "cost": claim_words(claim["epsilon"], claim["delta"]),
            "unit": unit["name"],
            "relation": unit["relation"],
            "trust model": self.values["trust_model"],
        }


def claim_words(epsilon: float | None, delta: float | None) -> str:
    """Return epsilon and delta of a claim in words; both are None without privacy.

    >>> claim_words(1.0, 1e-6)
    'epsilon = 1, delta = 1e-06'
    """
    return "no privacy" if epsilon is None or delta is None else f"epsilon = {round_up(epsilon)}, delta = {delta:.3g}"


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    >>> round_up(10.0)
    '10'
    """
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), ROUND_CEILING).normalize():f}"
