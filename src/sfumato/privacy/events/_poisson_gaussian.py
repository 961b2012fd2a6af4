"""DP-SGD in which a record is one example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.privacy.events._event import SAMPLER
from sfumato.privacy.events._sampled import SampledEvent


@dataclass(frozen=True)
class PoissonGaussianEvent(SampledEvent):
    """``steps`` Gaussian releases, each on a Poisson sample that holds a record with ``sampling_prob``.

    ``relation="add-remove"``: a record contributes a vector of norm at most C or nothing. ``"replace"``: it
    contributes one of two vectors of norm at most C. ``noise_multiplier`` is standard deviation / C in both cases.

    Raises:
        InputError: a value is outside its range, or the relation is not known.

    >>> PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000).relation
    'add-remove'
    """

    sampling_prob: float
    noise_multiplier: float
    steps: int
    relation: str = "add-remove"
    type: ClassVar[str] = "poisson-gaussian"
    mechanism: ClassVar[str] = "DP-SGD"
    citations: ClassVar[tuple[str, ...]] = ("abadi2016deep", *SAMPLER)
