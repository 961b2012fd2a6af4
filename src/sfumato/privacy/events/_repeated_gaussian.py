"""DP-SGD in which a record reaches several terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.privacy.events._event import SAMPLER
from sfumato.privacy.events._sampled import SampledEvent


@dataclass(frozen=True)
class RepeatedGaussianEvent(SampledEvent):
    """``steps`` Gaussian releases on Poisson samples of *terms*, where a record reaches at most ``occurrences`` terms.

    Each term has norm at most C and is drawn by its own coin with ``sampling_prob``. So k ~ Binomial(occurrences,
    sampling_prob) terms of a record enter a release. ``noise_multiplier`` z is standard deviation / C.

    * ``relation="add-remove"``: the terms vanish. The pair is sum_k P(k) N(k, z^2) against N(0, z^2).
    * ``relation="replace"``: each term is exchanged for another of norm at most C. The pair (k, N(2 k, z^2)) against
      (k, N(0, z^2)), with k revealed, dominates.
    * ``relation="leave"``: one term vanishes, and the others are exchanged. With b ~ Bernoulli(sampling_prob) for the one,
      k ~ Binomial(occurrences - 1, sampling_prob) for the others and both revealed, the sum moves by 2 k + b at most: the pair
      (2 k + b, N(2 k + b, z^2)) against (2 k + b, N(0, z^2)) dominates. It never costs more than ``replace``.

    Raises:
        InputError: a value is outside its range, or the relation is not known.

    >>> RepeatedGaussianEvent(sampling_prob=0.01, occurrences=11, noise_multiplier=4.0, steps=100).occurrences
    11
    """

    sampling_prob: float
    occurrences: int
    noise_multiplier: float
    steps: int
    relation: str = "add-remove"
    type: ClassVar[str] = "repeated-gaussian"
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace", "leave")
    mechanism: ClassVar[str] = "DP-SGD, repeated terms"
    citations: ClassVar[tuple[str, ...]] = ("abadi2016deep", "daigavane2021node", *SAMPLER)
