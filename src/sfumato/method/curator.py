"""Methods with a trusted curator: their noise is found for a budget, before any data is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato._validate import fail
from sfumato.errors import UnsupportedUnitError
from sfumato.method.contract import Method
from sfumato.method.plan import Plan
from sfumato.privacy import accounting
from sfumato.privacy.calibration import (
    LAPLACE_NOISE,
    calibrate,
    effective_delta,
    gaussian_noise_multiplier,
    laplace_noise_multiplier,
)
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PoissonGaussianEvent, leaves
from sfumato.privacy.splitting import MOST_SGD_NOISE
from sfumato.record.certificate import total_draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.graph.graph import PublicFacts
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release


@dataclass(frozen=True)
class CuratorMethod(Method):
    """A curator method reads values before noise is added: whoever runs it is trusted with them."""

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise for a budget before any data is seen, and warn of what is implausible about the plan.

        Args:
            budget: the most that may be spent, epsilon and delta; None without privacy.
            unit: the unit of privacy.
            public: what may be known of the graph under this unit.

        Raises:
            InputError: a budget is missing, or one is given without privacy, or it is too small for DP-SGD.
            UnsupportedUnitError: the method has no proof under this unit.
        """
        if not unit.private:
            if budget is not None:
                raise fail(
                    "budget", budget, "to be None under NoPrivacy", "Choose a unit such as EdgeLevel to spend a budget."
                )
            return Plan(self, unit, None, public, (), None, None).warned()
        if unit.trust != "curator":
            raise UnsupportedUnitError(
                f"Method {self.name!r} has no proof under unit {unit.name}: it reads values before noise. Use sfumato.local."
            )
        if budget is None:
            raise fail(
                "budget", None, f"to be a Budget(epsilon, delta) under {type(unit).__name__}", "Say what may be spent."
            )
        unit.check_direction(public.directed)
        sketch = self.releases(unit, public, 1.0)
        if not sketch:
            return Plan(self, unit, budget, public, (), 0.0, 0.0).warned()
        delta = effective_delta(budget.delta, budget.epsilon, total_draws(sketch))
        gaussian = [r.event for r in sketch if isinstance(r.event, GaussianEvent) and r.event.noise_multiplier == 1]
        if len(gaussian) == len(sketch):
            noise = gaussian_noise_multiplier(budget.epsilon, delta, sum(event.count for event in gaussian))
        elif [release.event for release in sketch] == [LaplaceEvent(1.0)]:
            noise = laplace_noise_multiplier(budget.epsilon)
        else:
            noise = calibrate(lambda z: [r.event for r in self.releases(unit, public, z)], budget.epsilon, delta)
        releases = self.releases(unit, public, noise)
        low, high = LAPLACE_NOISE
        for event in leaves([release.event for release in releases]):
            if isinstance(event, LaplaceEvent) and not low <= event.noise_multiplier <= high:
                wanted = f"to have an epsilon from {1 / high:.1g} to {1 / low:.1g}"
                raise fail("budget", budget, wanted, "Laplace noise beyond cannot be drawn.")
        for release in releases:
            if isinstance(release.event, PoissonGaussianEvent) and release.event.noise_multiplier > MOST_SGD_NOISE:
                raise fail(
                    "budget",
                    budget,
                    f"to leave DP-SGD ({release.name}) a noise multiplier of at most {MOST_SGD_NOISE:g}",
                    "Raise epsilon or delta.",
                )
        epsilon = cost_of(releases, delta)
        return Plan(self, unit, budget, public, releases, epsilon, budget.delta).warned()


def cost_of(releases: Sequence[Release], delta: float) -> float:
    """Return the epsilon of releases at ``delta``; of one Laplace release, what it costs without any delta.

    >>> from sfumato.record.ledger import Release
    >>> cost_of([Release("aggregate/1", LaplaceEvent(2.0), (4, 6), 3)], 0.1)
    0.5
    """
    events = [release.event for release in releases]
    if len(events) == 1 and isinstance(events[0], LaplaceEvent) and events[0].count == 1:
        return 1 / events[0].noise_multiplier
    return accounting.epsilon(events, delta)
