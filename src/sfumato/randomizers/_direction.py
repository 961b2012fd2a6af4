"""A report of one private bit: on which side of a public random direction the user's vector lies."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato._validate import check_int, check_real
from sfumato.noise.coins import PublicWords, SecretWords, normals, user_ids
from sfumato.noise.exact import WORDS, check_epsilon
from sfumato.randomizers._randomizer import Drawn, Estimate, Layout, Pmf, Reports
from sfumato.randomizers._values import Floats, Values, check_values, csr_blocks, dense, finite


def pad(block: Floats, norm: float) -> Floats:
    """Scale rows longer than ``norm`` down to it, and pad every row with one more entry so that all have that norm."""
    block = finite(block)
    factor, rest = shrink(np.linalg.norm(block, axis=1), norm)
    return np.hstack([block * factor[:, None], rest[:, None]])


def shrink(lengths: Floats, norm: float) -> tuple[Floats, Floats]:
    """Return the factor that brings a row of each length within ``norm``, and the entry that pads the row to ``norm``."""
    rest = np.sqrt(np.maximum(norm**2 - np.minimum(lengths, norm) ** 2, 0.0))
    return norm / np.maximum(lengths, norm), rest


@dataclass(frozen=True)
class Capped(Drawn):
    """The common part of randomizers of vectors within a public norm. It is not used alone."""

    num_features: int
    epsilon: float
    norm: float
    collection: str = "collection"

    def __post_init__(self) -> None:
        check_int(low=1, high=2**31, num_features=self.num_features)
        check_epsilon(self.epsilon)
        check_real(low=0, high=1e100, open_low=True, norm=self.norm)  # so that its square is a float
        _ = self.realized_epsilon

    def clipped(self, values: Values) -> Floats:
        """Return finite vectors, scaled down to the norm."""
        return pad(dense(check_values(values, self.num_features)), self.norm)[:, :-1]


@dataclass(frozen=True)
class Direction(Capped):
    r"""1-bit random direction: the sign of :math:`\langle g, x \rangle`, kept with odds :math:`e^\epsilon` to 1.

    The direction g is standard normal in d + 1 dimensions. It is public: it follows from the collection and the user's id. The
    vector x is scaled down to the public norm R, and padded by one coordinate to that norm, so that the report does not show
    its length. Since :math:`E[g \, \mathrm{sign} \langle g, x \rangle] = \sqrt{2/\pi} \, x / R`, the estimate is
    :math:`\sqrt{\pi/2} \, R \, g \, b / (2 p - 1)` without its last coordinate, where p is the probability that the sign is kept.
    Its variance is :math:`\frac{\pi}{2} R^2 / (2p - 1)^2 - x_j^2` for coordinate j, over direction and report.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0, whatever g is. Proof: given g, the true sign is a fixed function
    of x (0 counts as +). It is kept if one of 2^64 words is below an integer H, so the ratio is H / (2^64 - H) <= e^epsilon.
    Rounding of <g, x> in floating point can change which sign is true, but never the ratio.

    Args:
        num_features: number of features d.
        epsilon: budget of the whole report, > 0.
        norm: public norm R; longer vectors are scaled down on the device. sqrt(s) for sets of at most s.
        collection: public name that fixes all directions; use a new one for every collection.

    Shapes: reports hold bits uint8 [n, 1]; the estimate is dense, n d entries: put a
    :class:`~sfumato.randomizers._sketch.Sketch` in front of wide data. Encoding is O(non-zero entries).

    Raises:
        InputError: a setting is out of range.

    >>> direction = Direction(1433, epsilon=1.0, norm=30 ** 0.5)
    >>> direction.bits, round(float(direction.variance()[0]), 1)
    (1, 220.7)

    Source: Duchi, Jordan and Wainwright (2013); Bassily and Smith (2015); public directions as in Vadhan and Zheng (2020).
    """

    _odds = (1, 1)

    @property
    def layout(self) -> Layout:
        """A single bit, the sign."""
        return Layout(1, 0, 1)

    @property
    def _scale(self) -> float:
        return sqrt(pi / 2) * self.norm / float(Fraction(2 * self._hit - WORDS, WORDS))

    def directions(self, users: NDArray[np.integer]) -> Floats:
        """Return the public directions of users, [len(users), d + 1]."""
        return normals(PublicWords(self.collection, "direction").grid(users, self.num_features + 1))

    def _signs(self, values: Values, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each user is on the positive side. Only the entries of directions at non-zero values are computed."""
        words, positive = PublicWords(self.collection, "direction"), np.empty(len(ids), np.bool_)
        for rows, block in csr_blocks(values):
            users, owner = ids[rows], np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            lengths = np.sqrt(np.bincount(owner, np.square(block.data), block.shape[0]))
            factor, rest = shrink(lengths, self.norm)
            along = block.data * normals(words.at(users[owner], block.indices))
            products = factor * np.bincount(owner, along, block.shape[0])
            last = normals(words.at(users, np.full(len(users), self.num_features)))
            positive[rows] = products + rest * last >= 0
        return positive

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Send one bit for each user; ``users`` are the public ids that fix the directions (row numbers by default)."""
        values = check_values(values, self.num_features)
        ids = user_ids(users, values.shape[0])
        bits = self._signs(values, ids)
        bits ^= source.words(bits.shape) >= np.uint64(self._hit)
        return Reports(bits.view(np.uint8)[:, None], users=ids)

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate. It is dense, because a direction has d entries."""
        ids = user_ids(reports.users, len(reports))
        data = self.directions(ids)[:, :-1] * (self._scale * (2.0 * reports.values - 1.0))
        return Estimate(sparse.csr_matrix(data), np.zeros(self.num_features))

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate over direction and report: [n, d], or the largest (at x = 0), [d]."""
        largest = np.full(self.num_features, self._scale**2)
        return largest if values is None else largest - self.clipped(values) ** 2

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of both bits, given the user's public direction."""
        values, kept = check_values(np.asarray(value)[None], self.num_features), Fraction(self._hit, WORDS)
        (positive,) = self._signs(values, np.array([user]))
        return {(bit,): kept if bit == positive else 1 - kept for bit in (0, 1)}
