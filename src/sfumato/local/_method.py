"""Every locally private method asks each user once, then learns from the reports alone; this is what they share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import DataError, UnsupportedUnitError
from sfumato.local._collection import Collection, asked_reports, encode, received
from sfumato.local._drop import Agreement
from sfumato.local._smoothed import MOST_CONDITION
from sfumato.method._checks import check_asked, check_target
from sfumato.method._derived import derived
from sfumato.method._plan import Plan
from sfumato.method.contract import Arrays, Method, Outcome, Planned, Session
from sfumato.noise.coins import SecretWords
from sfumato.noise.exact import round_up
from sfumato.noise.keys import derive_key
from sfumato.privacy import accounting
from sfumato.privacy.calibration import effective_delta, pure_cost
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.units import LocalLevel, NoPrivacy, Unit
from sfumato.randomizers._questions import Questions
from sfumato.record._certificate import total_draws

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.budget import Budget
    from sfumato.record.ledger import Release


class AskingMethod(Method):
    """The server of an asking method only ever holds what users were asked for, once, and randomized themselves.

    Noise follows from its settings, not from the ``noise_multiplier`` of :meth:`releases`.
    """

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """Return the only unit under which there is a proof."""

    @abstractmethod
    def _claim(self, releases: tuple[Release, ...]) -> tuple[float, float]:
        """Epsilon, rounded upward, and delta of all releases together."""

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan of the collection; no data is seen. A budget is only a limit: the settings decide what is spent."""
        check_asked(budget, unit, public)
        check_target(self, unit, public)
        releases = self.releases(unit, public, 1.0)
        if not unit.private:
            if budget is not None:
                raise fail("budget", budget, "to be None where everything is read in the clear", "Drop it.")
            return derived(Plan(self, unit, None, public, (), None, None))
        epsilon, delta = self._claim(releases)
        if budget is not None and (epsilon > budget.epsilon or delta > budget.delta):
            expected = f"to cover epsilon = {epsilon:g}, delta = {delta:g}, which the reports of {self.name!r} cost"
            raise fail("budget", budget, expected, "Raise it, or lower the method's own epsilon.")
        return derived(Plan(self, unit, budget, public, releases, epsilon, delta))


@dataclass(frozen=True)
class ReportingMethod(Questions, AskingMethod):
    r"""A reporting method is its own :class:`~sfumato.randomizers._questions.Questions`: they set what is protected and claimed.

    **Formal guarantee.** ``calibrate`` claims :math:`\epsilon = \sum_i \epsilon_i` over a user's reports, exactly, rounded
    upward (with Gaussian noise: its epsilon at ``delta``, and that delta; else delta is 0), under :attr:`unit`.
    """

    @property
    def unit(self) -> Unit:
        if self.epsilon_x is None and self.epsilon_y is None:
            return NoPrivacy()
        return LocalLevel(features=self.epsilon_x is not None, labels=self.epsilon_y is not None)

    @property
    def shares(self) -> dict[str, Any]:
        """Return what is asked for features and for the label; None where they are read in the clear."""
        each = {"per_feature": True} if self.per_feature else {}
        return {"epsilon_x": self.epsilon_x, "epsilon_y": self.epsilon_y, **each}

    @classmethod
    def _asked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a command line gives: an infinite budget reads in the clear."""
        asked = super()._asked(options)
        return {
            name: None if name.startswith("epsilon_") and value == math.inf else value for name, value in asked.items()
        }

    @classmethod
    def _spent(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings, and that "pgc" spends for each feature, its only form."""
        return {"per_feature": True, **settings} if settings.get("mechanism") == "pgc" else settings

    def _answers(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        """Charge the reports, then ask every user, unless devices were asked already."""
        for release in plan.releases:
            session.charge(release.name)
        return encode(self, graph, plan.public, coins(session)) if session.reports is None else dict(session.reports)

    def _claim(self, releases: tuple[Release, ...]) -> tuple[float, float]:
        noisy = [release.event for release in releases if isinstance(release.event, GaussianEvent)]
        pure = pure_cost([release.event for release in releases if release.event not in noisy])
        assert pure is not None
        if not noisy:
            return round_up(pure), 0.0
        most = float(self.epsilon_x or 0.0) + float(pure)
        left = effective_delta(self.delta, most, total_draws(releases))
        return round_up(pure + Fraction(accounting.epsilon(noisy, left))), self.delta

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float = 1.0) -> tuple[Release, ...]:
        """List what every user sends. The questions set the noise, so ``noise_multiplier`` is not read."""
        if unit != self.unit:
            asked = f"epsilon_x={self.epsilon_x}, epsilon_y={self.epsilon_y}"
            raise UnsupportedUnitError(f"Method {self.name!r} with {asked} has no proof under {unit}. Use {self.unit}.")
        if self.epsilon_x != 0 and not public.num_features:
            remedy = "Add columns, or ask for none with epsilon_x=0, where the method learns from labels."
            raise fail("num_features", 0, f"to be 1 or more with epsilon_x={self.epsilon_x}", remedy)
        return asked_reports(self, public)


@dataclass(frozen=True)
class LocalMethod(ReportingMethod):
    r"""A local method learns the classes of nodes, and never sees a user's values.

    A subclass is a frozen dataclass of flat public settings with a ``card``, :meth:`learn` and :meth:`predict`. Both get
    a :class:`~sfumato.local._collection.Collection` and no graph, so whatever they do is post-processing.
    """

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan of the collection; no data is seen. Arguments are those of :meth:`AskingMethod.calibrate`.

        Raises:
            InputError: label reports would say next to nothing, so that no server could use them.
        """
        check_asked(budget, unit, public)
        check_target(self, unit, public)
        labels = self.labels(public)
        if labels is not None and np.linalg.cond(labels.transition) > MOST_CONDITION:
            expected = "to leave the label something in its report"
            raise fail("epsilon_y", self.epsilon_y, expected, "Choose more: 0.1 is already very private.")
        return super().calibrate(budget, unit, public)

    def check(self, graph: Graph) -> None:
        """Refuse roles under which nobody could learn, before anyone is asked. Who has a label to report is public.

        Raises:
            DataError: too few users in the training or validation role have a label.
        """
        assert graph.y is not None
        for mask, role, least in ((graph.train_mask, "training", 2), (graph.val_mask, "validation", 1)):
            count = int((mask & (graph.y >= 0)).sum())
            if count < least:
                raise DataError(
                    f"Expected at least {least} users with a label in the {role} role, got {count}. Split 50/25/25, or name "
                    "roles that leave some."
                )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Ask every user, unless devices were asked already, then learn from what was received."""
        reports = self._answers(plan, graph, session)
        collection = received(self, graph, plan.public, reports)
        return Outcome(self.learn(collection, plan.public.num_classes, session), reports)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute log-probabilities [n, C] from released reports, topology and roles."""
        return self.predict(weights, received(self, graph, plan.public, released))

    def held_out(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Compute log-probabilities as :meth:`predict`, but without reading the label report of the node in question.

        This holds for nodes in the validation role, which so tell how good predictions are for a user who reports no label. A
        network has read their reports all the same where it chose an epoch, and where Drop smooths them into its targets: of this
        little remains, and nothing corrects it. ``weights`` and ``collection`` are those of :meth:`predict`.
        """
        return self.predict(weights, collection)

    def validation(self, weights: Arrays, collection: Collection) -> tuple[float, float, float]:
        """Estimate the accuracy on validation nodes from their reports, without bias from noise, and its 95 % interval.

        ``weights`` and ``collection`` are those of :meth:`predict`.
        """
        nodes, agreement = np.flatnonzero(collection.val_mask), Agreement(collection.transition)
        guesses = self.held_out(weights, collection)[nodes].argmax(axis=1)
        return agreement.accuracy(agreement.share(guesses, collection.labels[nodes]), len(nodes))

    @abstractmethod
    def learn(self, collection: Collection, num_classes: int, session: Session) -> Arrays:
        """Train weights (float32 arrays by name) from reports.

        Args:
            collection: what the server holds.
            num_classes: C, the number of classes.
            session: gives a public seed, and progress.
        """

    @abstractmethod
    def predict(self, weights: Arrays, collection: Collection) -> NDArray[np.float32]:
        """Compute log-probabilities of every node, float32 [n, C]."""


def coins(session: Session) -> SecretWords:
    """Return the coins of all reports of a fit: secret and new, and the same again when the fit is resumed on the same graph."""
    return SecretWords(derive_key(session.key, "reports"))
