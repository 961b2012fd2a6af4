r"""Answers before training: class shares, feature means and degrees, unbiased, from the reports alone.

An interval holds each mean m that the estimate does not contradict: the two differ by at most :math:`1.96 \sqrt{v(m) / n}`, where
n is the number of reports and v the variance of the randomizer in closed form, exact for labels, sets, noise and links, and else
at least the true one. So an interval near an end of the range stays wide although a rare answer did not occur (Wilson, 1927). It
covers the mean **of the users who reported** in about 95 % of all draws of their coins, if they are more than about 30; for sets
and directions, whose hashes follow from schema and user ids, of all draws of these too. It says nothing about users who did not
report, nor of how they would differ. Each interval stands alone: of twenty, one is expected to miss.

Noisy numbers of links are clipped to -n..2n for n users. That shifts their mean by at most
:math:`\mathrm{E}(Z - n)^+ = \alpha^{n + 1} / (1 - \alpha^2)` for geometric noise Z with :math:`\alpha = e^{-\epsilon}`, which
the interval is wider by on both sides.

**Formal guarantee.** Post-processing of the reports; spends nothing, however often it runs, also while a collection is open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.collect._central import Privacy, privacy_of
from sfumato.collect._questions import Links
from sfumato.collect._wire import public_id
from sfumato.errors import DataError
from sfumato.local._collection import unpacked
from sfumato.local._drop import Z
from sfumato.randomizers._collision import Collision
from sfumato.randomizers._piecewise import Piecewise
from sfumato.randomizers._randomized_response import Labels
from sfumato.randomizers._randomizer import Reports

if TYPE_CHECKING:
    from sfumato.collect._closed import Closed, Stream
    from sfumato.collect._schema import Schema
    from sfumato.randomizers._randomizer import Randomizer
    from sfumato.randomizers._values import Floats

_BLOCK, _USERS = 1 << 22, 1 << 14


@dataclass(frozen=True)
class Answer:
    """An answer is one number about the users who reported, with its 95 % interval.

    ``low`` and ``high`` are ends of the interval, within what is possible; ``estimate`` has no bias (links: see above), so it
    may lie outside.
    """

    name: str
    kind: str
    estimate: float
    low: float
    high: float
    least: float
    most: float


@dataclass(frozen=True)
class Answers:
    """Answers are what reports say so far; ``sha256`` names the closed collection, None while it is open."""

    collection: str
    schema: str
    counts: Mapping[str, int]
    answers: Mapping[str, tuple[Answer, ...]]
    reports: int
    privacy: Privacy
    sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        found = {part: [asdict(one) for one in answers] for part, answers in self.answers.items()}
        known: dict[str, Any] = {"collection": self.collection, "sha256": self.sha256}
        known |= {"schema": self.schema, "reports": self.reports}
        known |= {"counts": dict(self.counts), "privacy": self.privacy.to_dict()}
        return {**known, "confidence": 0.95, "answers": found}


def estimate(closed: Closed | Stream, *, delta: float | None = None, dishonest: int | None = None) -> Answers:
    """Estimate what a collection was asked about. Memory does not grow with the number of reports that a stream passes on.

    Args:
        closed: the reports.
        delta: of the central claim of an anonymous survey, at most a tenth of one in the number of its reports; None takes 1e-6,
            or that if it is less.
        dishonest: how many of its reports are from users who act together, or from nobody; None takes half of them for such.
    """
    schema, reports = closed.schema, 0
    sums = {part: _Sums(schema, part) for part in schema.parts}
    for report in closed.reports:
        reports += 1
        for part, answer in report.answers.items():
            sums[part].add(report.user, answer)
    counts = {part: one.count for part, one in sums.items()}
    if not any(counts.values()):
        raise DataError("Expected at least one report, got none. Wait until devices have reported.")
    privacy = privacy_of(schema, reports, delta, dishonest)
    found = {part: _part(schema, part, one) for part, one in sums.items() if one.count}
    return Answers(schema.collection, schema.sha256, counts, found, reports, privacy, closed.sha256)


class _Sums:
    """The sum of what single reports about one part estimate, in blocks, since some estimates are dense."""

    def __init__(self, schema: Schema, part: str) -> None:
        self._schema, self._asked = schema, schema.parts[part]
        width = self._asked.users if isinstance(self._asked, Links) else len(self._asked.randomizer.variance())
        self._most = max(1, min(_USERS, _BLOCK // width))
        self._rows: list[tuple[int, ...]] = []
        self._users: list[int] = []
        self._total: Floats | float = 0.0
        self.count = 0

    def add(self, user: str, answer: tuple[int, ...]) -> None:
        self._rows.append(answer)
        self._users.append(public_id(self._schema, user))
        self.count += 1
        if len(self._rows) == self._most:
            self._sum_up()

    @property
    def means(self) -> Floats:
        self._sum_up()
        return np.asarray(self._total / self.count)

    def _sum_up(self) -> None:
        if not self._rows:
            return
        rows = np.array(self._rows)
        if isinstance(self._asked, Links):
            self._total = self._total + _of_links(self._asked, rows)
        else:
            randomizer: Randomizer = self._asked.randomizer
            some = unpacked(rows, randomizer)
            part = randomizer.estimate(Reports(some.values, some.indices, np.array(self._users)))
            self._total = self._total + np.asarray(part.sparse.sum(axis=0)).ravel() + part.shape[0] * part.offset
        self._rows, self._users = [], []


def _part(schema: Schema, part: str, sums: _Sums) -> tuple[Answer, ...]:
    if schema.links is not None:
        return _links(schema.links, sums.means, sums.count)
    asked, means = schema.parts[part], sums.means
    assert not isinstance(asked, Links)
    randomizer: Randomizer = asked.randomizer
    ends = [_end(randomizer, means, sums.count, side) for side in (0.0, 1.0)]
    if schema.label is not None and part == "label":
        return answers_of(schema.label.classes, "share", means, ends[0], ends[1], 0.0, 1.0)
    assert schema.features is not None
    columns = schema.features.columns
    if isinstance(randomizer, Collision):
        return answers_of(tuple(columns), "share", means, ends[0], ends[1], 0.0, 1.0)
    low, high = np.array(list(columns.values()), np.float64).T
    scaled = [low + (high - low) * one for one in (means, ends[0], ends[1])]
    return answers_of(tuple(columns), "mean", scaled[0], scaled[1], scaled[2], low, high)


def _end(randomizer: Randomizer, means: Floats, count: int, side: float) -> Floats:
    """The mean from 0 to 1, on the given side of the estimates, from which on they would contradict it; by bisection."""
    inner, outer = np.clip(means, 0.0, 1.0), np.full(len(means), side)
    for _ in range(60):
        middle = (inner + outer) / 2
        fits = np.abs(means - middle) <= Z * np.sqrt(mean_variance(randomizer, middle) / count)
        inner, outer = np.where(fits, middle, inner), np.where(fits, outer, middle)
    return np.asarray(np.where(np.abs(inner - side) < 1e-15, side, inner))


def mean_variance(randomizer: Randomizer, means: Floats) -> Floats:
    """Return the variance of a report's estimate, on average over users whose values have these ``means``, or a bound on it, [d].

    Exact where the variance is affine in the value (classes, sets) or the same for all; where it is concave, that at the mean is
    a bound (Jensen); for Piecewise it is the largest. ``randomizer`` is what users reported by.
    """
    if isinstance(randomizer, Collision):
        member, other = randomizer.member_variance
    elif isinstance(randomizer, Labels):
        member, other = randomizer.variance(np.array([0]))[0, :2]
    elif isinstance(randomizer, Piecewise):
        return randomizer.variance()
    else:
        return np.asarray(randomizer.variance(means[None])[0])
    shares = np.clip(means, 0.0, 1.0)
    return shares * member + (1 - shares) * other


def answers_of(
    names: Sequence[str],
    kind: str,
    means: Floats,
    low: Floats,
    high: Floats,
    least: Floats | float,
    most: Floats | float,
) -> tuple[Answer, ...]:
    """Return an answer for each name; ends of intervals are cut at what is possible."""
    numbers = np.broadcast_arrays(means, np.clip(low, least, most), np.clip(high, least, most), least, most)
    return tuple(Answer(name, kind, *map(float, row)) for name, *row in zip(names, *numbers, strict=True))


def _of_links(asked: Links, rows: Any) -> Floats:
    keep, flip = map(float, asked.randomizer.bit_law)
    return np.array([float(rows[:, 0].sum()), float(((rows[:, 1:] - flip) / (keep - flip)).sum())])


def _links(asked: Links, means: Floats, count: int) -> tuple[Answer, ...]:
    """Mean degree from noisy lengths and from bits, weighted by their variances; the number of links follows if all are alike."""
    keep, flip = map(float, asked.randomizer.bit_law)
    decay = math.exp(-float(asked.randomizer.degree_epsilon))
    of_lengths, of_bits = 2 * decay / (1 - decay) ** 2, (asked.users - 1) * keep * flip / (keep - flip) ** 2
    length, bits = means
    mean = (of_bits * length + of_lengths * bits) / (of_bits + of_lengths)
    shift = decay ** (asked.users + 1) / (1 - decay**2) * of_bits / (of_bits + of_lengths)
    half = shift + Z * math.sqrt(of_bits * of_lengths / (of_bits + of_lengths) / count)
    around = mean + half * np.array([[0.0], [-1.0], [1.0]])
    (degree,) = answers_of(
        ["links of a user"], "mean number of links", around[0], around[1], around[2], 0.0, asked.users - 1.0
    )
    pairs = asked.users / 2
    scaled = [pairs * number for number in (degree.estimate, degree.low, degree.high, degree.least, degree.most)]
    return degree, Answer("links of all users", "number of links", *scaled)
