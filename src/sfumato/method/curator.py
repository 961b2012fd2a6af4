"""Methods with a trusted curator: their noise is found for a budget, before any data is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato._validate import fail
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._checks import check_asked, check_target
from sfumato.method._derived import derived
from sfumato.method._plan import Plan
from sfumato.method.contract import Method
from sfumato.noise.exact import round_up
from sfumato.noise.gaussian import LEAST_STDDEV, MOST_STDDEV
from sfumato.privacy import accounting
from sfumato.privacy._splitting import MOST_SGD_NOISE
from sfumato.privacy.calibration import (
    LEAST_PURE_EPSILON,
    calibrate,
    effective_delta,
    gaussian_noise_multiplier,
    pure_cost,
)
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, SampledEvent
from sfumato.record._certificate import total_draws

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sfumato.graph._graph import PublicFacts
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release


@dataclass(frozen=True)
class CuratorMethod(Method):
    """A curator method reads values before noise is added: whoever runs it is trusted with them."""

    def check_noise(self, events: Sequence[Event], unit: Unit) -> None:
        """Refuse rounded noise that the samplers do not draw, before anything is charged.

        Args:
            events: those of a plan.
            unit: the unit of this plan.

        Raises:
            InputError: there is such noise.
        """
        check_drawn(events, self.grid_steps(unit))

    def grid_steps(self, unit: Unit) -> float:
        r"""Return how many steps of the grid noise of multiplier 1 has at most: those of a full row, by its sensitivity.

        No sum of rows has a larger one than :math:`2 \sqrt D` under ``unit``, or 2 without a cap.
        """
        return INT16_ONE * 2 * math.sqrt(unit.max_out_degree or 1)

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise for a budget before any data is seen, and warn of what is implausible about the plan.

        Args:
            budget: the most that may be spent, epsilon and delta; None without privacy.
            unit: the unit of privacy.
            public: what may be known of the graph under this unit.

        Raises:
            InputError: a budget is missing, or one is given without privacy, or it is too small for DP-SGD.
            UnsupportedUnitError: the method has no proof under this unit.
            UnsupportedTargetError: the method does not learn such targets.
        """
        check_asked(budget, unit, public)
        check_target(self, unit, public)
        if not unit.private:
            if budget is not None:
                raise fail(
                    "budget", budget, "to be None under NoPrivacy", "Choose a unit such as EdgeLevel to spend a budget."
                )
            return derived(Plan(self, unit, None, public, (), None, None))
        if unit.trust != "curator":
            raise UnsupportedUnitError(
                f"Method {self.name!r} has no proof under unit {unit.name}: it reads values before noise. Use sfumato.local."
            )
        if budget is None:
            raise fail(
                "budget", None, f"to be a Budget(epsilon, delta) under {type(unit).__name__}", "Say what may be spent."
            )
        unit.check_fit(public.directed)
        sketch = self.releases(unit, public, 1.0)
        if not sketch:
            return derived(Plan(self, unit, budget, public, (), 0.0, 0.0))
        events = [release.event for release in sketch]
        if (pure := pure_cost(events)) is not None and not total_draws(sketch):  # exact noise: no sampler to pay for
            releases = self.releases(unit, public, _pure_noise(events, pure, budget))
            epsilon = round_up(pure_cost([release.event for release in releases]) or pure)
            if epsilon > budget.epsilon:
                wanted = f"to pay for the pure releases of {self.name!r}, which cost {epsilon:g} at this noise"
                raise fail("budget", budget, wanted, "Their costs have to fall in inverse proportion to the noise.")
            return derived(Plan(self, unit, budget, public, releases, epsilon, budget.delta))
        if not budget.delta:
            wanted = f"to have a delta above 0 for method {self.name!r}, which has no guarantee without one here"
            raise fail("budget", budget, wanted, "Give a delta such as 1e-7, or use label-messages at edge level.")
        plan = self._calibrated(budget, unit, public, sketch)
        if total_draws(plan.releases) > total_draws(sketch):  # what is released may depend on how much noise it gets
            plan = self._calibrated(budget, unit, public, plan.releases)
        if (
            total_draws(plan.releases) > total_draws(sketch)
            and plan.epsilon is not None
            and plan.epsilon > budget.epsilon
        ):
            wanted = f"to pay for the draws of all releases of {self.name!r}, which cost {plan.epsilon:g} at this noise"
            raise fail(
                "budget", budget, wanted, "Raise delta, of which the sampler takes a large part at this epsilon."
            )
        return plan

    def _calibrated(self, budget: Budget, unit: Unit, public: PublicFacts, drawn: tuple[Release, ...]) -> Plan:
        """Find the noise at which releases are within a budget, if the sampler draws as for those that are ``drawn``."""
        sketch = self.releases(unit, public, 1.0)
        events = [release.event for release in sketch]
        delta = effective_delta(budget.delta, budget.epsilon, total_draws(drawn))
        gaussian = [event for event in events if isinstance(event, GaussianEvent) and event.noise_multiplier == 1]
        if len(gaussian) == len(sketch):
            noise = gaussian_noise_multiplier(budget.epsilon, delta, sum(event.count for event in gaussian))
        else:
            noise = calibrate(lambda z: [r.event for r in self.releases(unit, public, z)], budget.epsilon, delta)
        releases = self.releases(unit, public, noise)
        for release in releases:
            event = release.event
            if isinstance(event, SampledEvent) and event.noise_multiplier > MOST_SGD_NOISE:
                raise fail(
                    "budget",
                    budget,
                    f"to leave DP-SGD ({release.name}) a noise multiplier of at most {MOST_SGD_NOISE:g}",
                    "Raise epsilon or delta, or take smaller batches or fewer steps.",
                )
        epsilon = accounting.epsilon([release.event for release in releases], delta)
        return derived(Plan(self, unit, budget, public, releases, epsilon, budget.delta))


def check_drawn(events: Sequence[Event], steps: float) -> None:
    """Refuse Gaussian and Laplace noise that the samplers of rounded noise do not draw.

    Args:
        events: those of all releases.
        steps: how many steps of its grid noise of multiplier 1 has, at most; one at least.

    Raises:
        InputError: there is more noise, or less.

    >>> check_drawn([GaussianEvent(2.0**30)], 64.0)
    Traceback (most recent call last):
    ...
    sfumato.errors.InputError: Expected a budget that needs a noise multiplier below 1.07374e+09, got one that needs ...
    """
    for event in events:
        if not isinstance(event, GaussianEvent | LaplaceEvent):
            continue
        noise, most = event.noise_multiplier, MOST_STDDEV / steps
        if not LEAST_STDDEV <= noise < most:
            ends, remedy = f"below {most:g}", "Raise epsilon or delta: more noise cannot be drawn."
            if noise < LEAST_STDDEV:
                ends, remedy = f"of at least {LEAST_STDDEV:g}", "Lower epsilon: less noise cannot be drawn."
            raise InputError(
                f"Expected a budget that needs a noise multiplier {ends}, got one that needs {noise:g}. {remedy}"
            )


def _pure_noise(events: Sequence[Event], cost: Fraction, budget: Budget) -> float:
    """The noise multiplier at which a plan costs epsilon, if it costs ``cost`` at 1 and in inverse proportion elsewhere."""
    noise = float(cost) * (1 + 2.0**-48) / budget.epsilon
    if min(float(pure_cost([event]) or 0) for event in events) / noise < LEAST_PURE_EPSILON:
        wanted = f"to leave every release an epsilon of at least {LEAST_PURE_EPSILON:g}"
        raise fail("budget", budget, wanted, "Raise epsilon: more noise cannot be drawn.")
    return noise
