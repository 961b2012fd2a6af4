"""Collision: the best randomizer for sparse sets (bags of words, likes, memberships) from epsilon about 1 on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato._validate import check_int, fail
from sfumato.noise.coins import PublicWords, SecretWords, scaled_down, user_ids
from sfumato.noise.exact import WORDS, check_epsilon, probabilities
from sfumato.randomizers._randomizer import Drawn, Estimate, Layout, Pmf, Reports
from sfumato.randomizers._values import Floats, Values, check_values, to_csr

_BLOCK = 1 << 20
_MOST_BUCKETS = 1 << 20


@dataclass(frozen=True)
class Collision(Drawn):
    r"""Collision mechanism for sets: features are hashed to t buckets, and the buckets that are hit are reported more often.

    A user holds a set S of at most s of d features, and h is a public hash of the user to t > s buckets. Each of the k distinct
    buckets in h(S) is reported with probability :math:`p = e^\epsilon / (s e^\epsilon + t - s)`. The remaining probability,
    1 - k p, is shared evenly by the t - k other buckets.

    Report z supports feature j if h(j) = z. A member is supported with probability p, any other feature with exactly 1/t over
    the hash. The estimate of membership is :math:`(1[h(j) = z] - 1/t) / (p - 1/t)`. Its variance is
    :math:`p (1 - p) / (p - 1/t)^2` for members and :math:`\frac{1}{t}(1 - \frac{1}{t}) / (p - 1/t)^2` for other features. The
    number t minimizes the sum over s members and d - s others (it is near 2 s - 1 + s e^epsilon for small epsilon, and smaller
    for large epsilon).

    **Formal guarantee.** ``realized_epsilon``-LDP for the whole set, delta 0, whatever h is. Proof: a report has
    probability p if it is hit, else (1 - k p) / (t - k). The latter falls in k from 1/t to (1 - s p) / (t - s) = p /
    e^epsilon at k = s, so all probabilities are in [p / e^epsilon, p]. A bucket that is hit gets exactly H of 2^64 words,
    rounded so that the ratio is at most e^epsilon; the others are drawn by exact rejection.

    Args:
        num_features: number of features d.
        epsilon: budget of the whole report, > 0.
        cap: public size s. Of a larger set the device keeps s, by a public order of its own: the only bias.
        collection: public name that fixes all hashes; use a new one for every collection.
        buckets: number of buckets t; None takes the best.

    Shapes: values are [n, d]; entries above 0 are members. Reports hold buckets int32 [n, 1]; about n d / t entries in the
    estimate. Encoding is O(members).

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.randomizers import MultiBit
    >>> collision = Collision(1433, epsilon=1.0, cap=30)
    >>> collision.buckets_used, collision.bits
    (149, 8)
    >>> member, other = collision.member_variance
    >>> round(1433 * float(MultiBit(1433, epsilon=1.0).variance()[0]) / (30 * member + 1403 * other), 1)
    11.5

    Source: S. Wang et al. (2023), arXiv 2304.04410, the Collision mechanism for set-valued data.
    """

    num_features: int
    epsilon: float
    cap: int
    collection: str = "collection"
    buckets: int | None = None

    def __post_init__(self) -> None:
        check_int(low=1, high=2**32, num_features=self.num_features)
        check_int(low=1, high=self.num_features, cap=self.cap)
        check_epsilon(self.epsilon)
        if self.buckets is not None:
            check_int(
                "One bucket must be left that no feature hits.", low=self.cap + 1, high=2**31, buckets=self.buckets
            )
        _ = self.realized_epsilon

    @cached_property
    def buckets_used(self) -> int:
        """The number t of buckets."""
        if self.buckets is not None:
            return self.buckets
        s, power = self.cap, np.exp(min(self.epsilon, 20.0))
        t = np.arange(s + 1, min(4 * s * (power + 2), s + _MOST_BUCKETS), dtype=np.float64)
        p, q = power / (s * power + t - s), 1 / t
        total = (s * p * (1 - p) + (self.num_features - s) * q * (1 - q)) / (p - q) ** 2
        return int(t[total.argmin()])

    @property
    def _odds(self) -> tuple[int, ...]:
        return self.cap, self.buckets_used - self.cap

    @property
    def layout(self) -> Layout:
        """The number of a bucket."""
        return Layout(1, 0, self.buckets_used - 1)

    @property
    def _hit_and_chance(self) -> tuple[float, float]:
        return self._hit / WORDS, 1 / self.buckets_used

    @property
    def member_variance(self) -> tuple[float, float]:
        """Variance of the estimate for a member and for another feature."""
        p, q = self._hit_and_chance
        return p * (1 - p) / (p - q) ** 2, q * (1 - q) / (p - q) ** 2

    @cached_property
    def _hash(self) -> PublicWords:
        return PublicWords(self.collection, "collision")

    def members(self, values: Values, users: NDArray[np.integer] | None = None) -> sparse.csr_matrix:
        """Return the sets that are reported, as 0/1 rows: entries above 0, at most ``cap`` a row."""
        matrix = to_csr(check_values(values, self.num_features))
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        keep = matrix.data > 0
        rows, columns = rows[keep], matrix.indices[keep]
        if np.bincount(rows, minlength=1).max(initial=0) > self.cap:
            order = PublicWords(self.collection, "cap").at(user_ids(users, matrix.shape[0])[rows], columns)
            ranked = np.lexsort((order, rows))
            place = np.arange(len(rows)) - np.searchsorted(rows, rows)
            kept = np.sort(ranked[place < self.cap])
            rows, columns = rows[kept], columns[kept]
        starts = np.searchsorted(rows, np.arange(matrix.shape[0] + 1))
        return sparse.csr_matrix((np.ones(len(rows)), columns, starts), matrix.shape)

    def clipped(self, values: Values) -> sparse.csr_matrix:
        """Return the sets that are reported; see :meth:`members`."""
        return self.members(values)

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Report one bucket for each user; ``users`` are the public ids that fix the hashes (row numbers by default)."""
        members = self.members(values, users)
        n, t = members.shape[0], self.buckets_used
        ids = user_ids(users, n)
        keys, starts = self._hit_keys(members, ids)
        word, hit = source.words((n,)), np.uint64(self._hit)
        count = np.diff(starts)
        hits = word < count.astype(np.uint64) * hit
        reports = np.empty(n, np.int32)
        reports[hits] = keys[starts[:-1][hits] + (word[hits] // hit).astype(np.int64)] % t
        missed = np.flatnonzero(~hits)
        while missed.size:
            reports[missed] = source.below(t, (missed.size,))
            tried = missed * t + reports[missed]
            place = np.searchsorted(keys, tried)
            missed = (
                missed[(place < keys.size) & (keys[np.minimum(place, keys.size - 1)] == tried)]
                if keys.size
                else missed[:0]
            )
        return Reports(reports[:, None], users=ids)

    def _hit_keys(
        self, members: sparse.csr_matrix, ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct row * t + bucket, ascending, and where each row starts."""
        rows = np.repeat(np.arange(len(ids)), np.diff(members.indptr))
        buckets = scaled_down(self._hash.at(ids[rows], members.indices), self.buckets_used)
        keys = np.sort(rows * self.buckets_used + buckets)
        keys = keys[np.diff(keys, prepend=-1) > 0]
        return keys, np.searchsorted(keys, np.arange(len(ids) + 1) * self.buckets_used)

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate of membership: an entry for every feature that the reported bucket supports."""
        (p, q), d = self._hit_and_chance, self.num_features
        ids, starts, columns = user_ids(reports.users, len(reports)), [0], [np.empty(0, np.int32)]
        step = max(1, _BLOCK // d)
        for start in range(0, len(ids), step):
            rows = slice(start, start + step)
            found = scaled_down(self._hash.grid(ids[rows], d), self.buckets_used) == reports.values[rows]
            columns.append(np.nonzero(found)[1].astype(np.int32))
            starts.extend((starts[-1] + found.sum(axis=1).cumsum()).tolist())
        indices = np.concatenate(columns)
        matrix = sparse.csr_matrix((np.full(len(indices), 1 / (p - q)), indices, starts), (len(ids), d))
        return Estimate(matrix, np.full(d, -q / (p - q)))

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate over hash and report: [n, d], or the largest possible, [d]."""
        member, other = self.member_variance
        if values is None:
            return np.full(self.num_features, max(member, other))
        return np.where(self.members(values).toarray() > 0, member, other)

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every bucket, given the user's public hash."""
        t = self.buckets_used
        if t > _BLOCK:
            raise fail("buckets", t, f"to be at most {_BLOCK} for an exact pmf")
        ids = np.array([user])
        keys, _ = self._hit_keys(self.members(np.asarray(value)[None], ids), ids)
        hit, miss = probabilities(self._hit, keys.size, t - keys.size)
        held = set(keys.tolist())
        return {(bucket,): hit if bucket in held else miss for bucket in range(t)}
