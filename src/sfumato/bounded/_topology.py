r"""Private copies of a topology: every pair of nodes answers for itself, and the cost is that of the pairs that come out.

A graph on n nodes is one bit for each of M pairs of different nodes: ordered pairs if the unit is one arc, unordered pairs if
it is one undirected edge (both of its arcs are one bit, and come out together). A record is one bit, so neighboring graphs
differ in one of the M bits. Nothing here makes an n x n array: the pairs without an edge that come out are drawn as rare
successes among many trials (:mod:`~sfumato.noise._geometric`), with the exact law of a coin for every pair.

Sources: Warner (1965), randomized response; Wu, Long, Zhang and Li (2022), LinkTeller, algorithms 2 and 3 (EdgeRand, LapGraph);
Imola, Murakami and Chaudhuri (2022), section 4.1 (asymmetric randomized response).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.errors import UnsupportedUnitError
from sfumato.noise._geometric import Rate, discrete_laplace, geometric_from, successes
from sfumato.noise.exact import WORDS, hit_share, probabilities
from sfumato.privacy.units import EdgeLevel, Unit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.noise.coins import SecretWords

_STEPS = 1 << 20  # of a bit: so fine that ties are rare
_SLACK = 10.0  # standard deviations by which more pairs pass the threshold than are wanted


@dataclass(frozen=True)
class Pairs:
    """All pairs of different nodes, numbered row by row; unordered pairs have the smaller end first.

    >>> Pairs(4, directed=False).total, Pairs(4, directed=True).total
    (6, 12)
    >>> Pairs(4, directed=False).ends(np.arange(6)).T.tolist()
    [[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]]
    """

    num_nodes: int
    directed: bool

    @property
    def total(self) -> int:
        """The number M of pairs."""
        return self.num_nodes * (self.num_nodes - 1) // (1 if self.directed else 2)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """The number of the first pair of each row, and M."""
        n = np.arange(self.num_nodes + 1, dtype=np.int64)
        return n * (self.num_nodes - 1) if self.directed else n * (2 * self.num_nodes - n - 1) // 2

    def numbers(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the numbers of pairs, int64 [m]; of unordered pairs the source must be the smaller end."""
        sources, targets = sources.astype(np.int64), targets.astype(np.int64)
        shift = (targets > sources) if self.directed else sources + 1
        return np.asarray(self._starts[sources] + targets - shift)

    def ends(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the two ends of numbered pairs, int64 [m, 2]."""
        sources = np.searchsorted(self._starts, numbers, side="right") - 1
        places = numbers - self._starts[sources]
        targets = places + (places >= sources if self.directed else sources + 1)
        return np.stack([sources, targets], axis=1)


def pairs_of(unit: Unit, num_nodes: int) -> Pairs:
    """Return the pairs of nodes of which a record of the unit is one bit.

    >>> pairs_of(EdgeLevel(directed=False), 5).total
    10
    """
    if type(unit) is not EdgeLevel:
        raise UnsupportedUnitError(
            f"A perturbed topology has no proof when the unit is {unit.describe()}: one record may be many pairs of nodes. "
            "Use EdgeLevel."
        )
    return Pairs(num_nodes, unit.directed)


def edge_numbers(pairs: Pairs, graph: Graph) -> NDArray[np.int64]:
    """Return the numbers of the pairs that have an edge, ascending. Not private. An arc from a node to itself is left out.

    Both arcs of an undirected edge are one pair if ``pairs`` are unordered.

    >>> from sfumato.graph._graph import Graph
    >>> path = Graph.from_edges([0, 1], [1, 2], 3, directed=False)
    >>> edge_numbers(Pairs(3, directed=False), path).tolist(), edge_numbers(Pairs(3, directed=True), path).tolist()
    ([0, 2], [0, 2, 3, 5])
    """
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = sources != graph.indices if pairs.directed else sources < graph.indices
    return np.sort(pairs.numbers(sources[kept], graph.indices[kept]))


def sampling_share(pairs: Pairs, epsilon: float, wanted: int) -> Fraction:
    r"""Return the share of the pairs that randomized response lets out to keep, so that about ``wanted`` are left.

    If m pairs have an edge, :math:`m p + (M - m)(1 - p)` come out, p the probability that a bit is kept; m is taken to be
    ``wanted``. The result is a multiple of 2^-64, above 0 and at most 1.

    >>> float(sampling_share(Pairs(100, directed=False), 2.0, 400))
    0.4470811670302316
    """
    keep = probabilities(hit_share(epsilon, 1, 1), 1, 1)[0]
    expected = wanted * keep + (pairs.total - wanted) * (1 - keep)
    return min(Fraction(1), Fraction(max(1, int(wanted / expected * WORDS)), WORDS))


def randomized_pairs(
    pairs: Pairs, present: NDArray[np.int64], epsilon: float, share: Fraction, source: SecretWords
) -> NDArray[np.int64]:
    r"""Release a set of pairs: each bit is kept with probability p, or flipped; then each 1 stays with the public ``share``.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.RandomizedResponseEvent` of this epsilon; delta is 0. Proof: each
    pair comes out independently, with probability :math:`\rho p` if it has an edge and :math:`\rho (1 - p)` if not, rationals
    with :math:`p / (1 - p) \le e^\epsilon` (:mod:`~sfumato.noise.exact`). Keeping a share is post-processing of randomized
    response, one bit of which is the record. So the ratio of the laws of one pair is at most :math:`e^\epsilon`, and
    all other pairs have the same law. (Directly: :math:`\rho p / \rho (1 - p) \le e^\epsilon` and
    :math:`(1 - \rho (1 - p)) / (1 - \rho p) \le p / (1 - p)`.)

    Numbers of pairs are ascending and distinct. ``share`` (rho) is a public multiple of 2^-64 above 0, or computed from an
    earlier release.

    >>> from sfumato.noise.coins import SecretWords
    >>> few = randomized_pairs(Pairs(1000, directed=False), np.arange(100), 5.0, Fraction(1), SecretWords(bytes(32)))
    >>> bool(80 < (few < 100).sum() <= 100), bool(3000 < len(few) < 3700)
    (True, True)
    """
    keep = hit_share(epsilon, 1, 1)
    flips = successes(Rate.of_chance(Fraction(WORDS - keep, WORDS) * share), source, pairs.total)
    kept = source.words(present.shape) < np.uint64(keep)
    if share < 1:
        kept &= source.words(present.shape) < np.uint64(int(share * WORDS))
    return np.sort(np.concatenate([present[kept], _without(flips, present)]))


def noisy_edge_count(pairs: Pairs, present: NDArray[np.int64], epsilon: float, source: SecretWords) -> int:
    """Release the number of pairs that have an edge, with discrete Laplace noise.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PureEvent` of this epsilon: one bit changes the count by 1.

    The count is cut to 1, ..., M, which is post-processing.

    >>> from sfumato.noise.coins import SecretWords
    >>> noisy_edge_count(Pairs(10, directed=False), np.arange(20), 100.0, SecretWords(bytes(32)))
    20
    """
    noise = discrete_laplace(source, 1 / Fraction(epsilon), 1)
    return int(np.clip(len(present) + noise[0], 1, pairs.total))


def largest_pairs(
    pairs: Pairs, present: NDArray[np.int64], epsilon: float, wanted: int, source: SecretWords
) -> NDArray[np.int64]:
    r"""Release the pairs whose bit is largest after discrete Laplace noise.

    Bits are held in steps of :math:`2^{-20}`, so an edge is :math:`s = 2^{20}` and the noise has scale :math:`b = s / \epsilon`
    steps. Only pairs above a threshold t come out, and of these the ``wanted`` largest; the earlier number goes first among
    equal ones. The threshold follows from M, ``wanted`` and epsilon, and leaves more than ``wanted`` in all likelihood.
    A pair without an edge passes with probability :math:`e^{-t / b} / (1 + e^{-1 / b})`, and its excess over t is geometric.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PureEvent` of this epsilon. Proof: all M noisy bits together are one
    release with L1 sensitivity s and noise of scale :math:`s / \epsilon`; what comes out is a function of them and of
    public numbers or earlier releases. Bits below t are never drawn, and have no part in the result.

    ``wanted`` is public, or from an earlier release. Fewer pairs come out where fewer pass, as in very dense graphs.

    >>> from sfumato.noise.coins import SecretWords
    >>> found = largest_pairs(Pairs(1000, directed=False), np.arange(100), 20.0, 100, SecretWords(bytes(32)))
    >>> len(found), bool((found < 100).sum() > 90)
    (100, True)
    """
    check_int(low=1, wanted=wanted)
    rate = Fraction(epsilon) / _STEPS
    threshold = _threshold(pairs.total, float(rate), wanted)
    others = _without(successes(_above(rate, threshold), source, pairs.total), present)
    excess = geometric_from(source, Rate.of(rate), len(others)) + threshold
    values = discrete_laplace(source, 1 / rate, len(present)) + _STEPS
    passed = values >= threshold
    numbers, values = np.concatenate([present[passed], others]), np.concatenate([values[passed], excess])
    return np.sort(numbers[np.lexsort((numbers, -values))[:wanted]])


def _threshold(total: int, rate: float, wanted: int) -> int:
    """The largest t >= 1 above which more pairs are expected than are wanted, if about ``wanted`` have an edge."""
    goal = wanted + _SLACK * math.sqrt(wanted) + _SLACK**2

    def expected(t: int) -> float:
        beyond = math.exp(-rate * t) / (1 + math.exp(-rate))
        gap = t - _STEPS
        edges = math.exp(-rate * gap) / 2 if gap > 0 else 1 - math.exp(rate * gap) / 2
        return (total - wanted) * beyond + wanted * edges

    low, high = 1, 2
    while expected(high) >= goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected(middle) >= goal else (low, middle)
    return low


def _above(rate: Fraction, threshold: int) -> Rate:
    """Of the failures before a bit without an edge is at least ``threshold`` after noise."""

    def value(context: Context) -> Decimal:
        wide = Context(prec=2 * context.prec)  # the threshold lets pairs pass, so chances are above 1 / M
        each = wide.divide(rate.numerator, rate.denominator)
        chance = wide.divide(
            wide.exp(wide.minus(wide.multiply(each, threshold))), wide.add(1, wide.exp(wide.minus(each)))
        )
        return context.minus(wide.ln(wide.subtract(1, chance)))

    return Rate(value)


def _without(numbers: NDArray[np.int64], present: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of ascending numbers that are not among others."""
    if not len(present):
        return numbers
    place = np.minimum(np.searchsorted(present, numbers), len(present) - 1)
    return np.asarray(numbers[present[place] != numbers])
