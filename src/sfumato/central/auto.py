r"""The default method takes label messages, or a network without the graph where noise would drown the graph.

The choice is a fixed rule of public facts: unit, budget, counts, and the mean degree d that a schema promises. It reads no
data and costs nothing. The rule compares what a row of a routed hop is expected to hold with the standard deviation of its
noise:

.. math:: r_{edge} = \frac{t d}{z}, \qquad r_{node} = \frac{t d}{z \sqrt{\max(1, \rho d)}},

with t the share of training nodes, :math:`\rho` the share of nodes that receive (:mod:`~sfumato.central.labels`), and z the
noise multiplier of one Gaussian release at the whole budget. Below 1/4 (edge level) or 1 (node level) the graph-free network
is taken. At edge level it costs epsilon 0; at node level its one DP-SGD run gets the whole budget. The thresholds were read
off Rutgers89 and UCSC68 with edges thinned to mean degrees from 1 to 32 (docs/decisions/0008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.bounded.routing import can_route
from sfumato.central.baselines import MLP
from sfumato.central.labels import LabelMessages
from sfumato.method.card import Card
from sfumato.method.contract import Listed
from sfumato.privacy.calibration import gaussian_noise_multiplier

if TYPE_CHECKING:
    from sfumato.graph.graph import PublicFacts
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

_EDGE_LEAST, _NODE_LEAST = 0.25, 1.0


@dataclass(frozen=True)
class Auto(Listed):
    """The recommended default picks a method by a public rule; there is nothing to tune.

    **Formal guarantee.** That of the chosen method, :class:`~sfumato.central.labels.LabelMessages` or
    :class:`~sfumato.central.baselines.MLP`. The choice reads public facts alone, so it costs nothing.

    >>> from sfumato.graph.graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> Auto().calibrate(Budget(1.0, 1e-6), NodeLevel(), PublicFacts(3000, 2250, 50, 6, False, mean_degree=4.0)).method.name
    'mlp'
    """

    card: ClassVar[Card] = Card(name="auto", summary="label-messages or mlp, by a public rule (recommended)")

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Make a plan for a run of the chosen method within ``budget``; no data is seen.

        ``unit`` and ``public`` are those of :meth:`~sfumato.method.contract.Method.calibrate`.
        """
        return self.choose(budget, unit, public).calibrate(budget, unit, public)

    def choose(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> LabelMessages | MLP:
        """Choose the method for a unit, a budget and public facts.

        Args:
            budget: the most that may be spent; None without privacy.
            unit: the unit of privacy.
            public: facts of the graph. Without a ``mean_degree``, label messages are taken wherever hops have a bounded
                sensitivity under the unit and there are at least two classes.
        """
        if (unit.private and not can_route(unit)) or public.num_classes < 2:
            return MLP()
        if budget is None or not unit.private or public.mean_degree is None:
            return LabelMessages()
        least = _EDGE_LEAST if "labels" in unit.public else _NODE_LEAST
        return LabelMessages() if signal_to_noise(budget, unit, public) >= least else MLP()


def signal_to_noise(budget: Budget, unit: Unit, public: PublicFacts) -> float:
    """Compute the expected number of messages in a row over the noise of a coordinate, for a promised mean degree.

    Args:
        budget: the most that may be spent.
        unit: the unit of privacy.
        public: facts of the graph: ``mean_degree`` and the share of training nodes are read.

    >>> from sfumato.graph.graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = PublicFacts(20000, 15000, 400, 6, False, mean_degree=70.0)
    >>> round(signal_to_noise(Budget(1.0, 1e-7), EdgeLevel(directed=False), facts), 1)
    11.2
    """
    degree, sends = public.mean_degree or 0.0, public.num_train / public.num_nodes
    noise = gaussian_noise_multiplier(budget.epsilon, budget.delta)
    if "labels" not in unit.public:
        receives = 1 - sends * (1 - LabelMessages().shared(unit))
        noise *= math.sqrt(max(1.0, receives * degree)) * (1 + (unit.relation == "replace"))
    return sends * degree / noise
