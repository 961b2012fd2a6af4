"""Privacy events: what a mechanism did, as data; :mod:`sfumato.privacy.accounting` analyses them.

An event holds everything that accounting needs and nothing else. Meanings never change: new behaviour gets a
new class. A noise multiplier is noise standard deviation over L2 sensitivity *under the event's own relation*, so
adjacency is part of the event and is never doubled again by an accountant.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from sfumato._validate import check_choice, check_int, check_real


@dataclass(frozen=True)
class GaussianEvent:
    """``count`` Gaussian releases with the same noise multiplier (standard deviation / L2 sensitivity).

    >>> GaussianEvent(noise_multiplier=2.0, count=3).count
    3
    """

    noise_multiplier: float
    count: int = 1
    type: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, count=self.count)


@dataclass(frozen=True)
class PoissonGaussianEvent:
    """``steps`` Gaussian releases, each on a Poisson sample that holds a record with ``sampling_prob``.

    ``relation="add-remove"``: a record contributes a vector of norm at most C or nothing. ``"replace"``: it
    contributes one of two vectors of norm at most C. ``noise_multiplier`` is standard deviation / C in both cases:
    here alone the relation, not the multiplier, carries the factor 2.

    >>> PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000).relation
    'add-remove'
    """

    sampling_prob: float
    noise_multiplier: float
    steps: int
    relation: str = "add-remove"
    type: ClassVar[str] = "poisson-gaussian"

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, sampling_prob=self.sampling_prob)
        check_real(low=0, open_low=True, noise_multiplier=self.noise_multiplier)
        check_int(low=1, steps=self.steps)
        check_choice(("add-remove", "replace"), relation=self.relation)


Event = GaussianEvent | PoissonGaussianEvent
_BY_TYPE: dict[str, type] = {cls.type: cls for cls in (GaussianEvent, PoissonGaussianEvent)}


def event_to_dict(event: Event) -> dict[str, Any]:
    """Write an event as JSON-ready values.

    >>> event_to_dict(GaussianEvent(2.0))
    {'type': 'gaussian', 'noise_multiplier': 2.0, 'count': 1}
    """
    return {"type": event.type, **asdict(event)}


def event_from_dict(values: dict[str, Any]) -> Event:
    """Read back what :func:`event_to_dict` wrote.

    >>> event_from_dict({'type': 'gaussian', 'noise_multiplier': 2.0, 'count': 1})
    GaussianEvent(noise_multiplier=2.0, count=1)
    """
    fields = {key: value for key, value in values.items() if key != "type"}
    return _BY_TYPE[check_choice(tuple(_BY_TYPE), type=values.get("type"))](**fields)
