"""Privacy events: what a mechanism did, as data; :mod:`sfumato.privacy.accounting` analyses them.

An event holds everything that accounting needs and nothing else. The meaning of a class never changes: new behavior gets a
new class. A noise multiplier is noise scale over sensitivity *under the event's own relation*. So the relation is part of
the event, and no accountant doubles the sensitivity again. Only if an event has a field ``relation`` is the factor 2 of a
replaced record in the relation, not in the multiplier. **A new event is a file of this folder, and its import here.**
"""

from __future__ import annotations

from sfumato.privacy.events._approximate import ApproximateEvent
from sfumato.privacy.events._composed import ComposedEvent
from sfumato.privacy.events._event import KINDS as KINDS
from sfumato.privacy.events._event import MOST as MOST
from sfumato.privacy.events._event import Event, event_from_dict, failures, flatten, leaves
from sfumato.privacy.events._exponential import ExponentialEvent
from sfumato.privacy.events._gaussian import GaussianEvent
from sfumato.privacy.events._laplace import LaplaceEvent
from sfumato.privacy.events._poisson_gaussian import PoissonGaussianEvent
from sfumato.privacy.events._pure import PureEvent
from sfumato.privacy.events._randomized_response import RandomizedResponseEvent
from sfumato.privacy.events._repeated_gaussian import RepeatedGaussianEvent
from sfumato.privacy.events._sampled import SampledEvent as SampledEvent
from sfumato.privacy.events._selection import RULES as RULES
from sfumato.privacy.events._selection import SelectionEvent, check_rule
from sfumato.privacy.events._zcdp import ZCDPEvent

__all__ = [
    "ApproximateEvent",
    "ComposedEvent",
    "Event",
    "ExponentialEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "PoissonGaussianEvent",
    "PureEvent",
    "RandomizedResponseEvent",
    "RepeatedGaussianEvent",
    "SelectionEvent",
    "ZCDPEvent",
    "check_rule",
    "event_from_dict",
    "failures",
    "flatten",
    "leaves",
]
