r"""The default method is label messages or features, compared for free at edge level and by a charged pilot at node level.

The choice between methods is a fixed rule of public facts: unit, budget, counts, and the mean degree d that a schema may
promise. It reads no data and costs nothing.

* *Edge level*, and without privacy: label messages (:mod:`~sfumato.central._labels`). Features and labels are public
  there, so whether messages help is seen for nothing. Where a ledger adds up squares of mu, their counts have Gaussian noise,
  if that is smaller at the same mu (:func:`~sfumato.central._counts.least_noise`).
* *Node level, owned arcs*: piloted messages (:mod:`~sfumato.central._piloted`), which find out within the budget. The
  pilot is left out, and the whole budget goes to features (:mod:`~sfumato.central._linear`), in four cases: its test would
  say nothing, because noise moves the measured correlation by more than 0.07; or the budget is so small that DP-SGD cannot
  add the noise of its last steps (:data:`~sfumato.central._piloted.MOST_NOISE`); or features are so many that they need every
  bit of the budget; or a promised mean degree puts the expected signal to noise of a row below 1:

  .. math:: \frac{z}{\sqrt{0.015}\, L} > 0.07, \qquad \frac{z \sqrt{F}}{n} > 0.01, \qquad
      \frac{t d}{z \sqrt{\max(1, \rho d)}} < 1,

  with z the noise multiplier of one Gaussian release at the whole budget, L the number of learners, F the number of
  features, n the number of training nodes, t their share, and :math:`\rho` the share of nodes that receive
  (:mod:`~sfumato.central._labels`).
* *Node level, incident arcs*: promised messages (:mod:`~sfumato.central._promised`), with a public bound on degrees or with
  one that they find. They learn within the budget whether messages pay. The whole budget goes to features if noise moves the
  test of their pilot by more than 0.07, or the head by more than 0.015 (0.01 if no bound is public), or if the budget is so
  small that DP-SGD cannot add its noise, or if a promised mean degree d puts the expected signal to noise of a row below 1:

  .. math:: \frac{z \sqrt 2}{\sqrt{0.01}\, n} > 0.07, \qquad \frac{z \sqrt F}{n} > 0.015, \qquad
      \frac{2 \sqrt 2\, \tau d}{z \sqrt B} < 1,

  with :math:`\tau` the share of training nodes, and B the promised bound, or 230 z if that is less: about the least that is
  found.
* *Other units*: features.

Targets that are no classes (:class:`~sfumato.graph._targets.Targets`) have no messages of labels: at edge level and
without privacy gap learns them, and elsewhere the whole budget goes to the graph-free network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from sfumato._validate import check_fields, one_of
from sfumato.bounded._promise import protects_every_arc
from sfumato.bounded._routing import can_route
from sfumato.central._labels import LabelMessages
from sfumato.method._checks import check_asked
from sfumato.method.card import Card
from sfumato.method.contract import Listed
from sfumato.privacy.calibration import gaussian_noise_multiplier

if TYPE_CHECKING:
    from sfumato.graph._graph import PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.method.contract import Method
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

_MOST_TEST_NOISE, _MOST_FEATURE_NOISE, _LEAST_SIGNAL = 0.07, 0.01, 1.0
_MOST_PROMISED_FEATURE_NOISE, _LEAST_FOUND = 0.015, 230


@dataclass(frozen=True)
class Auto(Listed):
    """The recommended default picks a method by a public rule; there is nothing to tune.

    **Formal guarantee.** That of the chosen method: :class:`~sfumato.central._labels.LabelMessages`,
    :class:`~sfumato.central._piloted.PilotedMessages`, :class:`~sfumato.central._promised.PromisedMessages` or
    :class:`~sfumato.central._linear.Linear`. The choice between them reads public facts alone, so it costs nothing.

    Args:
        composition: how what is charged adds up, ``basic`` or ``gdp``. ``sfumato train --ledger`` takes it from the ledger.

    Raises:
        InputError: ``composition`` is neither.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=20000, num_train=15000, num_features=50, num_classes=6, directed=False)
    >>> Auto().choose(Budget(1.0, 1e-6), NodeLevel(), facts).name
    'piloted-messages'
    >>> Auto().choose(Budget(0.1, 1e-6), NodeLevel(), facts).name
    'linear'
    """

    composition: str = "basic"
    card: ClassVar[Card] = Card(name="auto", summary="label messages or features, as the budget allows (recommended)")

    def __post_init__(self) -> None:
        check_fields(self, composition=one_of("basic", "gdp"))

    def charged_to(self, composition: str) -> Auto:
        """Return the default for a ledger of this rule."""
        return replace(self, composition=composition)

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan for a run of the chosen method within ``budget`` under ``unit``, by ``public`` facts; no data is seen."""
        check_asked(budget, unit, public)
        return self.choose(budget, unit, public).calibrate(budget, unit, public)

    def choose(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Method:
        """Choose the method for a unit, a budget and public facts.

        Args:
            budget: the most that may be spent; None without privacy.
            unit: the unit of privacy.
            public: facts of the graph.
        """
        if public.target is not None:
            from sfumato.central._baselines import MLP
            from sfumato.central._gap import GAP

            return GAP() if "labels" in unit.public or not unit.private else MLP()
        routed = public.num_classes > 1 and (can_route(unit) or not unit.private)
        if routed and (budget is None or "labels" in unit.public):
            return LabelMessages().charged_to(self.composition)
        # These need Torch, whose import takes longer than all of label messages.
        from sfumato.central._linear import Linear
        from sfumato.central._piloted import MOST_NOISE, TEST, PilotedMessages
        from sfumato.central._promised import PromisedMessages

        if public.num_classes < 2:
            return Linear()
        if budget is not None and protects_every_arc(unit):
            return PromisedMessages() if _promise_pays(budget, unit, public) else Linear()
        if budget is None or not routed:
            return Linear()
        learners, noise = public.num_train * LabelMessages().shared(unit), noise_of(budget, unit)
        signal = math.inf if public.mean_degree is None else signal_to_noise(budget, unit, public)
        pays = (
            noise / math.sqrt(TEST[2]) <= _MOST_TEST_NOISE * learners
            and noise <= MOST_NOISE
            and noise * math.sqrt(public.num_features) <= _MOST_FEATURE_NOISE * public.num_train
            and signal >= _LEAST_SIGNAL
        )
        return PilotedMessages() if pays else Linear()


def _promise_pays(budget: Budget, unit: Unit, public: PublicFacts) -> bool:
    """Whether promised messages can find out within the budget what pays."""
    from sfumato.central._promised import MOST_NOISE
    from sfumato.central._promised_releases import TEST, most_degree

    noise, train = noise_of(budget, unit), max(public.num_train, 1)
    if noise * math.sqrt(2 / TEST) > _MOST_TEST_NOISE * train or noise > MOST_NOISE:
        return False
    declared = public.degree_bounds or public.max_degree is not None
    most = _MOST_PROMISED_FEATURE_NOISE if declared else _MOST_FEATURE_NOISE
    if noise * math.sqrt(public.num_features) > most * train:
        return False
    if public.mean_degree is None or public.degree_bounds:
        return True
    received = train / public.num_nodes * public.mean_degree
    bound = min(most_degree(public), _LEAST_FOUND * noise)
    return 2 * math.sqrt(2) * received >= _LEAST_SIGNAL * noise * math.sqrt(bound)


def noise_of(budget: Budget, unit: Unit) -> float:
    """Return the noise of one Gaussian release at the whole budget, over the norm that one record may add."""
    return gaussian_noise_multiplier(budget.epsilon, budget.delta) * (1 + (unit.relation == "replace"))


def signal_to_noise(budget: Budget, unit: Unit, public: PublicFacts) -> float:
    """Compute the expected number of messages in a row over its noise, at node level, for a promised mean degree."""
    degree, sends = public.mean_degree or 0.0, public.num_train / public.num_nodes
    receives = 1 - sends * (1 - LabelMessages().shared(unit))
    return sends * degree / (noise_of(budget, unit) * math.sqrt(max(1.0, receives * degree)))
