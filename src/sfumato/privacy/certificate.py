"""The certificate: what is claimed, about what, released to whom, under which assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from sfumato.errors import LedgerError
from sfumato.privacy.ledger import Ledger, Release, canonical_json
from sfumato.privacy.noise import SAMPLER_TAU
from sfumato.privacy.units import Unit, unit_to_dict

FORMAT = 1
ASSUMPTIONS = (
    "The party that runs the training is trusted with the data (trusted curator).",
    "Noise comes from AES-256 and HMAC-SHA256 keyed by the operating system; the guarantee is computational.",
    "The fit key, the sampling coins and unreleased intermediate values stay secret.",
    "Other releases about the same data add up: this certificate covers this one run.",
    "Running time and memory use are not protected.",
)


@dataclass(frozen=True)
class Certificate:
    """A claim of privacy for one run; exists only when the ledger holds exactly the plan's releases.

    ``values`` is the JSON form (`certificate.json`); ``str()`` gives the plain words.
    """

    values: Mapping[str, Any]

    @property
    def epsilon(self) -> float | None:
        """The claimed epsilon; None without privacy."""
        return self.values["claim"]["epsilon"]

    @property
    def delta(self) -> float | None:
        """The claimed delta; None without privacy."""
        return self.values["claim"]["delta"]

    def to_json(self) -> str:
        """The canonical JSON text."""
        return canonical_json(self.values) + "\n"

    def __str__(self) -> str:
        claim, unit = self.values["claim"], self.values["unit"]
        if claim["epsilon"] is None:
            return "No privacy: this run was trained without any guarantee; nothing of it may be released."
        lines = [
            f"Protects {self.values['protects']}.",
            f"Whoever sees the release learns at most epsilon = {round_up(claim['epsilon'])}, delta = {claim['delta']:.3g} "
            f"about it (unit {unit['name']}, relation {unit['relation']}).",
            f"Trust model: {self.values['trust_model']}.",
        ]
        for who, what in self.values["who_may_see"].items():
            if what:
                lines.append(
                    f"{who.capitalize()} may see: {'; '.join(what)}."
                    if who != "never"
                    else f"Never to be shown: {'; '.join(what)}."
                )
        if self.values["assumed_public"]:
            lines.append("Assumed public, read from the data: " + "; ".join(self.values["assumed_public"]) + ".")
        lines += list(self.values["assumptions"])
        return "\n".join(lines)


def certify(
    ledger: Ledger,
    *,
    version: str,
    settings: Mapping[str, Any],
    unit: Unit,
    budget: Mapping[str, float] | None,
    accounting: str,
    public_facts: Mapping[str, Any],
    assumed_public: Sequence[str],
    who_may_see: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
) -> Certificate:
    """Write the certificate of a finished run.

    Raises:
        LedgerError: the ledger does not hold every planned release.
    """
    if not ledger.complete:
        raise LedgerError(
            f"Expected {len(ledger.releases)} releases in the ledger, got {len(ledger.entries) - 1}. "
            "No certificate is written for a run that did not finish its plan."
        )
    plan = ledger.plan
    return Certificate(
        {
            "format": FORMAT,
            "version": version,
            "method": plan["method"],
            "settings": dict(settings),
            "unit": unit_to_dict(unit),
            "protects": unit.describe(),
            "trust_model": "trusted curator",
            "claim": plan["claim"],
            "budget": dict(budget) if budget else {"epsilon": None, "delta": None},
            "releases": [release.to_dict() for release in ledger.releases],
            "accounting": {"method": accounting, "delta_sampler": plan["delta_sampler"], "sampler_tau": SAMPLER_TAU},
            "public_facts": dict(public_facts),
            "assumed_public": list(assumed_public),
            "who_may_see": {who: list(what) for who, what in who_may_see.items()},
            "assumptions": [*ASSUMPTIONS, *notes],
            "ledger_head": ledger.head,
        }
    )


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    >>> round_up(10.0)
    '10'
    """
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), ROUND_CEILING).normalize():f}"


def total_draws(releases: Sequence[Release]) -> int:
    """Noise draws that one record can touch in a plan: the factor of ``SAMPLER_TAU`` in delta."""
    return sum(release.draws for release in releases)
