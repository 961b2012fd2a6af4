"""PrivUnit with finitely many reports: the index of one of N public random directions, in which near directions are favored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import bdtr, ndtr

from sfumato._validate import check_int
from sfumato.noise.coins import PublicWords, SecretWords, normals, user_ids
from sfumato.noise.exact import hit_share, probabilities
from sfumato.randomizers._direction import Capped, pad
from sfumato.randomizers._randomizer import Estimate, Layout, Pmf, Reports
from sfumato.randomizers._values import Floats, Values, check_values, row_blocks


@dataclass(frozen=True)
class PrivUnit(Capped):
    r"""PrivUnitG on N public candidates: of N directions, the k nearest to x are each :math:`e^\epsilon` times as likely.

    The candidates :math:`z_1, \dots, z_N` of a user are standard normal in d + 1 dimensions; they follow from the
    collection and the user's id. The vector x is scaled down to the public norm R and padded to it. A report is an index.
    Each of the k candidates of largest :math:`\langle z_i, x \rangle` has probability
    :math:`h = e^\epsilon / (k e^\epsilon + N - k)`, each other candidate :math:`l = h / e^\epsilon`.

    By symmetry :math:`E[z_I] = c \, x / R`, with :math:`c = (h - l) M_1` and :math:`M_1` the mean sum of the k largest of
    N normal draws. The estimate is :math:`R \, z_I / c`, and k maximizes c. With :math:`a = x_j / R`, and :math:`M_2` the
    mean sum of squares, its variance is :math:`R^2 (1 - a^2 + a^2 ((h - l) M_2 + l N)) / c^2 - x_j^2`. As N tends to
    infinity, this becomes PrivUnitG, which draws z itself with the threshold <z, x / R> >= gamma.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0, whatever the candidates are. Proof: the nearest k are a fixed
    function of x. Exactly k candidates get H of 2^64 words each, and the N - k others share the rest evenly, so every
    index has probability h or l, with h / l <= e^epsilon. The normalization does not depend on x. Floating point can
    change which candidates count as nearest, but never the ratio.

    Args:
        num_features: number of features d.
        epsilon: budget of the whole report, > 0.
        norm: public norm R; longer vectors are scaled down on the device.
        collection: public name that fixes all candidates; use a new one for every collection.
        candidates: number N. More come closer to PrivUnitG and cost O(N d) a user on the device; the server needs O(d).

    Shapes: reports hold indices int32 [n, 1]; the estimate is dense, n d entries: put a
    :class:`~sfumato.randomizers._sketch.Sketch` in front of wide data.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.randomizers import Direction
    >>> one_bit, unit = Direction(64, epsilon=3.0, norm=1.0), PrivUnit(64, epsilon=3.0, norm=1.0, candidates=256)
    >>> round(float(one_bit.variance()[0] / unit.variance()[0]), 2), unit.bits
    (2.56, 8)

    Source: Bhowmick et al. (2018); Asi, Feldman and Talwar (2022), Optimal Algorithms for Mean Estimation under LDP, section 4.
    """

    candidates: int = 64

    def __post_init__(self) -> None:
        check_int(low=2, high=2**16, candidates=self.candidates)
        super().__post_init__()

    @cached_property
    def _design(self) -> tuple[int, float, float]:
        """The best k, its c, and the second moment of <z_I, x / R>."""
        total, best = self.candidates, (1, 0.0, 1.0)
        x = np.linspace(-9, 9, 1801)
        density, above = np.exp(-(x**2) / 2) * total * (x[1] - x[0]) / np.sqrt(2 * np.pi), ndtr(-x)
        for nearest in range(1, total // 2 + 1):
            among = density * bdtr(nearest - 1, total - 1, above)
            hit = hit_share(self.epsilon, nearest, total - nearest)
            near, far = map(float, probabilities(hit, nearest, total - nearest))
            along = (near - far) * float(among @ x)
            if along <= best[1]:
                break
            best = nearest, along, (near - far) * float(among @ x**2) + far * total
        return best

    @property
    def nearest(self) -> int:
        """The number k of favored candidates."""
        return self._design[0]

    @property
    def _odds(self) -> tuple[int, ...]:
        return self.nearest, self.candidates - self.nearest

    @property
    def layout(self) -> Layout:
        """The number of a candidate."""
        return Layout(1, 0, self.candidates - 1)

    @cached_property
    def _words(self) -> PublicWords:
        return PublicWords(self.collection, "privunit")

    def _rankings(self, values: Values, ids: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Yield the candidates of each user, the nearest k first."""
        width = self.num_features + 1
        for rows, block in row_blocks(values, self.candidates * width):
            words = self._words.grid(ids[rows], self.candidates * width)
            directions = normals(words).reshape(-1, self.candidates, width)
            products = np.einsum("inj,ij->in", directions, pad(block, self.norm))
            yield rows, np.argpartition(-products, self.nearest - 1, axis=1)

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Send one index for each user; ``users`` are the public ids that fix the candidates (row numbers by default)."""
        values = check_values(values, self.num_features)
        ids = user_ids(users, values.shape[0])
        word, hit = source.words(ids.shape), np.uint64(self._hit)
        others = self.nearest + source.below(self.candidates - self.nearest, ids.shape)
        rank = np.where(word < hit * np.uint64(self.nearest), (word // hit).astype(np.int64), others)
        reports = np.empty(ids.shape, np.int32)
        for rows, ranking in self._rankings(values, ids):
            reports[rows] = ranking[np.arange(len(ranking)), rank[rows]]
        return Reports(reports[:, None], users=ids)

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate. It is dense, because a direction has d entries."""
        ids, d = user_ids(reports.users, len(reports)), self.num_features
        items = reports.values.astype(np.int64) * (d + 1) + np.arange(d)
        directions = normals(self._words.at(np.repeat(ids, d), items.ravel())).reshape(-1, d)
        return Estimate(sparse.csr_matrix(directions * (self.norm / self._design[1])), np.zeros(d))

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate over candidates and report: [n, d], or the largest possible, [d]."""
        _, along, square = self._design
        scale, growth = (self.norm / along) ** 2, (square - 1 - along**2) / along**2
        if values is None:
            return np.full(self.num_features, scale + max(0.0, growth) * self.norm**2)
        return scale + growth * self.clipped(values) ** 2

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every index, given the user's public candidates."""
        values = check_values(np.asarray(value)[None], self.num_features)
        ((_, (ranking,)),) = self._rankings(values, np.array([user]))
        near, far = probabilities(self._hit, *self._odds)
        return {(int(i),): near if place < self.nearest else far for place, i in enumerate(ranking)}
