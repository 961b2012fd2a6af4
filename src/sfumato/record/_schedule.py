"""A schedule: how much each run of a ledger may spend, fixed before the first. `sfumato budget plan --out FILE` writes one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato._validate import check_choice, check_real
from sfumato.errors import BudgetExceededError, InputError


@dataclass(frozen=True)
class Schedule:
    """The runs of a ledger, in order: each may spend its epsilon, and ``delta``; the rest is the ledger's header.

    >>> Schedule(1.0, 1e-6, "basic", 5e-7, (0.5, 0.5)).header()
    {'epsilons': [0.5, 0.5], 'delta': 5e-07}
    """

    total_epsilon: float
    total_delta: float
    composition: str
    delta: float
    epsilons: tuple[float, ...]

    @classmethod
    def read(cls, path: Path) -> Schedule:
        """Read a schedule, and refuse one that cannot be spent."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("format") != 1:
                raise ValueError("format")
            epsilons = tuple(check_real(low=0, open_low=True, epsilon=epsilon) for epsilon in values["epsilons"])
            most = check_real(low=0, open_low=True, total_epsilon=values["total_epsilon"])
            deltas = {
                name: check_real(low=0, high=1, open_high=True, **{name: values[name]})
                for name in ("total_delta", "delta")
            }
            found = cls(**{**values, **deltas, "epsilons": epsilons, "total_epsilon": most})  # 1.0 where a hand wrote 1
            check_choice(("basic", "gdp"), composition=found.composition)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"Expected --schedule to be a file that `sfumato budget plan --out` wrote, got {str(path)!r}. Make one."
            ) from error
        if found.composition == "basic":
            for name, each in (("epsilon", found.epsilons), ("delta", (found.delta,) * len(found.epsilons))):
                total = Fraction(repr(getattr(found, f"total_{name}")))
                if sum(Fraction(repr(float(one))) for one in each) > total:
                    raise InputError(
                        f"Expected a schedule whose runs spend at most {name} {float(total):g} together, got more in "
                        f"{str(path)!r}."
                    )
        return found

    def header(self) -> dict[str, Any]:
        """Return what a ledger keeps of it, beside its totals and its rule."""
        return {"epsilons": list(self.epsilons), "delta": self.delta}

    def to_json(self) -> str:
        return json.dumps({"format": 1, **asdict(self)}, indent=1) + "\n"


def check_next(schedule: Mapping[str, Any], runs: int, claim: tuple[float, float], path: Path | str) -> None:
    """Refuse a claim, epsilon and delta, above what the plan has for the run after so many; nothing is charged.

    Args:
        schedule: that of a ledger's header.
        runs: how many runs were charged.
        claim: epsilon and delta of the next run.
        path: the ledger, for the message.
    """
    epsilons, delta = schedule["epsilons"], schedule["delta"]
    if runs >= len(epsilons):
        raise BudgetExceededError(
            f"The plan of the ledger {path} is for {len(epsilons)} runs, which are all charged. Nothing was charged: the total "
            "was fixed before the first release."
        )
    for name, asked, allowed in (("epsilon", claim[0], epsilons[runs]), ("delta", claim[1], delta)):
        if asked > allowed:
            raise BudgetExceededError(
                f"Expected at most {name} {allowed:g}, which the plan of the ledger {path} has for run {runs + 1} of "
                f"{len(epsilons)}, got {asked:g}. Nothing was charged. Ask for less: what one run takes more, another one lacks."
            )


def is_schedule(values: Any) -> bool:
    """Return whether a header's schedule has the form that :meth:`Schedule.header` writes."""
    if not isinstance(values, dict) or set(values) != {"epsilons", "delta"} or not isinstance(values["epsilons"], list):
        return False
    return all(isinstance(one, float) and one >= 0 for one in (*values["epsilons"], values["delta"]))
