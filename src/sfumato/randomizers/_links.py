r"""Links as private values: every user randomizes its own neighbor list; features and labels are public here.

A device sends its degree with discrete Laplace noise, and one bit for each other user by randomized response. The
server's side is in :mod:`sfumato.local._denoising` and :mod:`sfumato.local._blink`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_real, fail
from sfumato.noise._discrete import discrete_laplace
from sfumato.noise._geometric import Rate, successes
from sfumato.noise.exact import check_epsilon, hit_share, probabilities, realized, round_up

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_STEPS = 1 << 20  # of the degree's epsilon: a small denominator keeps the exact sampler quick
_PAIRS = 1 << 20  # pairs unpacked at a time
_BIT = np.uint8(1) << np.arange(8, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class LinkReports:
    """What n users send: a bit about every pair of users from either end, packed, and a noisy degree for each user.

    Shapes: ``degrees`` int64 [n]; ``bits`` uint8 [n, ceil(n / 8)], where bit j % 8 of byte j // 8 of row i is what i says of j.
    A user sends no bit about itself (0).
    """

    degrees: NDArray[np.int64]
    bits: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.degrees)

    def ones(self, pairs: Any) -> NDArray[np.uint8]:
        """Return what the first user of each pair says about the second."""
        first, second = np.asarray(pairs).T
        bits: NDArray[np.uint8] = (self.bits[first, second // 8] >> (second % 8).astype(np.uint8)) & 1
        return bits

    def among(self, rows: NDArray[np.integer]) -> LinkReports:
        """Return what some users say of each other; ``rows`` are their numbers, ascending. Their degrees stay as they are."""
        if len(rows) == len(self):
            return self
        kept = np.empty((len(rows), -(-len(rows) // 8)), np.uint8)
        step = max(1, _PAIRS // len(self))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            said = np.unpackbits(self.bits[some], axis=1, count=len(self), bitorder="little")[:, rows]
            kept[start : start + step] = np.packbits(said, axis=1, bitorder="little")
        return LinkReports(self.degrees[rows], kept)

    def agreement(self) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Yield blocks of rows [r, n] that count how many ends of a pair report the link: 0, 1 or 2.

        The memory is O(r n) bytes.
        """
        n = len(self)
        step = max(8, _PAIRS // n // 8 * 8)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            columns = self.bits[:, start // 8 : -(-rows.stop // 8)]
            said = np.unpackbits(self.bits[rows], axis=1, count=n, bitorder="little")
            heard = np.unpackbits(columns, axis=1, count=rows.stop - start, bitorder="little")
            yield rows, said + heard.T


@dataclass(frozen=True)
class NeighborLists:
    r"""Randomizer of neighbor lists: the degree plus discrete Laplace noise, and every bit, kept with probability p or flipped.

    The degree gets :math:`\epsilon_d` of the budget, and the bits :math:`\epsilon_b = \epsilon - \epsilon_d`. Then
    :math:`P(\text{noise} = x) \propto e^{-\epsilon_d |x|}` and :math:`p = e^{\epsilon_b} / (e^{\epsilon_b} + 1)`.

    **Formal guarantee.** Local DP of one bit of one list: two lists that differ in *one bit* give reports within
    :math:`e^{\epsilon}`, where epsilon is ``realized_epsilon`` and delta is 0. Proof: the degrees of the lists differ by
    1, so the noisy degree has ratio at most :math:`e^{\epsilon_d}`. One bit of n - 1 has another law, of ratio
    p / (1 - p), at most :math:`e^{\epsilon_b}` for the rationals in use. All draws are independent. A *relationship* that
    both ends report is a bit of two lists, each with its own coins: ``relationship_epsilon`` = 2 epsilon. A whole list of
    k links costs its owner k epsilon. The guarantee is computational: coins come from AES-256.

    Args:
        epsilon: budget of one bit of one list, > 0.
        degree_share: the part of epsilon that is spent on the degree, above 0 and below 1.

    Raises:
        InputError: a setting is out of range.

    >>> lists = NeighborLists(4.0)
    >>> round(lists.realized_epsilon, 6), round(lists.relationship_epsilon, 6)
    (4.0, 8.0)

    Source: Zhu, Tan and Xiao (2023), Blink: Link Local Differential Privacy in Graph Neural Networks, algorithm 1.
    """

    epsilon: float
    degree_share: float = 0.1

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_real(low=0, high=1, open_low=True, open_high=True, degree_share=self.degree_share)
        if self.degree_epsilon <= 0:
            raise fail("epsilon", self.epsilon, f"to leave the degree at least {1 / _STEPS:.1g}", "Raise degree_share.")
        _ = self.realized_epsilon

    @cached_property
    def degree_epsilon(self) -> Fraction:
        """The exact cost of the noisy degree: the share rounded down to a multiple of 2^-20."""
        return Fraction(int(Fraction(self.epsilon) * Fraction(self.degree_share) * _STEPS), _STEPS)

    @cached_property
    def _hit(self) -> int:
        rest = Fraction(self.epsilon) - self.degree_epsilon
        return hit_share(-round_up(-rest), 1, 1)

    @property
    def bit_law(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities that a bit is kept, and flipped."""
        return probabilities(self._hit, 1, 1)

    @cached_property
    def bits_epsilon(self) -> float:
        """The cost of the bits, rounded upward."""
        return realized(self._hit, 1, 1)

    @cached_property
    def realized_epsilon(self) -> float:
        """The guarantee for one bit of one list, rounded upward."""
        return round_up(self.degree_epsilon + Fraction(self.bits_epsilon))

    @property
    def relationship_epsilon(self) -> float:
        """The guarantee for a relationship that both of its ends report."""
        return 2 * self.realized_epsilon

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The public numbers that the guarantee rests on: the degree's epsilon in steps of 2^-20, and the law of the bits.

        ``hit``, ``favored``, ``others`` and ``parts`` are those of :mod:`sfumato.noise.exact`, for a bit.
        """
        degree = int(self.degree_epsilon * _STEPS)
        return {"degree_steps": degree, "hit": self._hit, "favored": 1, "others": 1, "parts": 1}

    def describe(self) -> str:
        """Return both guarantees in words: that of a bit, and that of a relationship."""
        one, both = self.realized_epsilon, self.relationship_epsilon
        return f"one bit of one neighbor list: epsilon {one:.6g}; a relationship, which both ends report: epsilon {both:.6g}"

    def bits(self, num_users: int) -> int:
        """Return the size of one report in bits, for a number of users."""
        return num_users - 1 + (3 * num_users).bit_length()

    def encode(self, lists: Any, source: SecretWords, owners: NDArray[np.integer] | None = None) -> LinkReports:
        """Randomize the lists of r users among n. This is the only call that reads them.

        Args:
            lists: CSR [r, n], an entry (not zero, not NaN) for each bit of row i's list; its owner is no part of a list.
            source: the secret coins of the devices.
            owners: the column of the user that each row belongs to, [r]; None for all users in order.

        Returns:
            Reports of the r users. Degrees are clipped to -n..2n, which is post-processing.

        Raises:
            InputError: ``lists`` does not fit ``owners``, or has fewer than two columns.
        """
        r, n = lists.shape
        own = np.arange(n) if owners is None else np.asarray(owners)
        if own.shape != (r,) or n < 2:
            raise fail("lists", lists.shape, "to be n lists over n >= 2 users", "Pass one row and one column a user.")
        entries = lists.tocoo()
        real = (entries.data != 0) & ~np.isnan(entries.data) & (own[entries.row] != entries.col)
        rows, columns = np.unique(np.stack((entries.row[real], entries.col[real])), axis=1).astype(np.int64)
        noise = discrete_laplace(source.bytes(32), 1 / self.degree_epsilon, 0, r)
        degrees = np.clip(noise, -4 * n, 4 * n) + np.bincount(rows, minlength=r)
        bits = self._flips(r, n, source)
        np.bitwise_xor.at(bits, (rows, columns // 8), _BIT[columns % 8])
        bits[np.arange(r), own // 8] &= ~_BIT[own % 8]
        if n % 8:
            bits[:, -1] &= np.uint8((1 << n % 8) - 1)
        return LinkReports(np.clip(degrees, -n, 2 * n).astype(np.int64), bits)

    def _flips(self, r: int, n: int, source: SecretWords) -> NDArray[np.uint8]:
        """Packed coins [r, ceil(n / 8)], each 1 with the exact probability of a flip."""
        width = -(-n // 8)
        flipped = successes(Rate.of_chance(self.bit_law[1]), source, 8 * r * width)
        bits = np.zeros(r * width, np.uint8)
        np.bitwise_or.at(bits, flipped // 8, _BIT[flipped % 8])
        return bits.reshape(r, width)
