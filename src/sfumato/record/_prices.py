r"""What a claim about one node and the arcs it owns costs if arcs that other nodes own go with it.

Under owned arcs a claim does not cover the arcs that other nodes own and that point at the node. Removing a record together
with k of them is a path of neighboring data sets: the k arcs vanish, one after another, then the record. Along a path
sensitivities add (triangle inequality). A Gaussian release of multiplier z, which one such arc moves by at most r times its
sensitivity (:attr:`~sfumato.record.ledger.Release.arc_change`), therefore is one of multiplier :math:`z / (1 + k r)` between
the ends of the path, whatever earlier releases were. A release with r = 0 costs what it cost. All of them are composed anew:
that is the price for k.

Of DP-SGD in which a record reaches R terms, r says how many more terms one such arc reaches, over R: record and k arcs together
reach R (1 + k r), of which one vanishes if the record leaves.

Of another mechanism that arcs move, or where no r is proved, no price is known. A selection has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.accounting import epsilon as epsilon_of
from sfumato.privacy.events import Event, GaussianEvent, RepeatedGaussianEvent

if TYPE_CHECKING:
    from sfumato.record.ledger import Release

ARCS = (1, 5, 25)
"""The numbers of arcs for which a price is stated."""
MOST = 30.0
"""The largest price that is stated. Above it e^epsilon times the precision of the noise soon exceeds every delta."""


def prices(releases: Sequence[Release], claim: Mapping[str, float | None]) -> list[dict[str, Any]] | None:
    r"""Return epsilon, at the claim's delta, for a record together with 1, 5 and 25 arcs that other nodes own.

    **Formal guarantee.** With :math:`A_k` the draws of noise that a record can touch, and all those of releases that arcs
    move, and :math:`\tau` the distance of the noise sampler from its law, the stated epsilon is at most 30, and the events at
    noise :math:`z / (1 + k r)` cost at most that at :math:`\delta - (1 + e^{30}) \tau A_k`. So the sampler's share fits too.

    Returns ``arcs`` and ``epsilon`` of each, with epsilon None if it is above 30 or not bounded; None if no price is known.
    """
    epsilon, delta = claim["epsilon"], claim["delta"]
    if epsilon is None or delta is None or not all(map(_known, releases)):
        return None
    moved = any(release.arc_change for release in releases)
    return [{"arcs": k, "epsilon": _price(tuple(releases), k, delta) if moved else epsilon} for k in ARCS]


def _known(release: Release) -> bool:
    """Whether the release has a price: no arc moves it, or its noise is Gaussian and the change by one arc is bounded."""
    if not release.arc_change:
        return release.arc_change is not None
    return isinstance(release.event, GaussianEvent | RepeatedGaussianEvent) and None not in release.shape


@lru_cache(maxsize=256)
def _price(releases: tuple[Release, ...], arcs: int, delta: float) -> float | None:
    draws = sum(release.draws + _drawn(release) for release in releases)
    left = delta - (1 + math.exp(MOST)) * SAMPLER_TAU * draws
    if left <= 0:
        return None
    found = epsilon_of([with_arcs(release, arcs) for release in releases], left)
    return found if found <= MOST else None


def _drawn(release: Release) -> int:
    """How many draws of noise the arcs may touch: all of the release, or none."""
    return math.prod(size or 0 for size in release.shape) * release.event.repeats() if release.arc_change else 0


def with_arcs(release: Release, arcs: int) -> Event:
    """Return the event of a release between data sets that differ in a record and so many ``arcs`` of others."""
    event = release.event
    if not release.arc_change:
        return event
    more = 1 + arcs * release.arc_change
    if isinstance(event, RepeatedGaussianEvent):
        return replace(event, occurrences=round(event.occurrences * more))
    assert isinstance(event, GaussianEvent)
    return replace(event, noise_multiplier=event.noise_multiplier / more)
