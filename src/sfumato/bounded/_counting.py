r"""Noisy sums of messages that add up to 1, where one edge changes one row: Laplace or Gaussian noise, for any number of columns.

One hop sends from every node u a row :math:`m_u` with :math:`\|m_u\|_1 \le 1` along each of its arcs, such as the one-hot row of
a label or class probabilities: :math:`S_v = \sum_{u \to v} m_u` counts neighbors by class. Rows are held in whole steps of
1 / 32767, rounded toward zero, with :math:`\sum_c |q_{u,c}| \le 32767` checked in integers; sums are exact int64. The released
matrix is :math:`S + N`, with exact discrete Laplace noise on every entry: :math:`P(N = x) \propto e^{-|x| / b}` on whole steps.

A message of L1 norm 1 has L2 norm 1 as well, so one can choose the noise. Laplace noise of scale b full rows costs
:math:`\epsilon = 1 / b` and no delta, not even for the sampler, and its standard deviation is :math:`\sqrt 2 / \epsilon`.
At :math:`(\epsilon, \delta) = (1, 10^{-7})` that is 1.4, where Gaussian noise needs 4.7; it is smaller for every delta up to
1e-5 and epsilon from 0.01 to 20 (``tests/soundness/test_counting.py``), and larger where epsilon is not far above delta.

Where squares of mu add up over many releases, the same mu buys less Gaussian noise
(:func:`~sfumato.privacy._pure_gdp.less_noise`): :func:`gaussian_counts` releases :math:`S + \mathrm{round}(\sigma Z)`.

Sources: Dwork, McSherry, Nissim and Smith (2006), proposition 1 (Laplace noise of histograms); McSherry (2009), theorem 4
(parallel composition).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import let_go, spans
from sfumato._validate import check_real, fail
from sfumato.bounded._routing import kept
from sfumato.bounded.aggregation import Arcs, sum_in_blocks
from sfumato.errors import UnsupportedUnitError
from sfumato.loops._native import aligned, threads
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import EdgeLevel, PersonLevel, Unit, edges_in

_BLOCK, _PIECE = 1 << 16, 1 << 15


def count_sensitivity(unit: Unit) -> float:
    r"""Return the L1 sensitivity of one hop of counts whose arcs are routed, in units of a full row.

    **Formal guarantee** (sum of absolute changes of all entries; each message has L1 norm at most 1):

    * one arc, along which a message flows or not: 1;
    * one undirected edge, by :func:`~sfumato.bounded._routing.one_way`: one row changes by one message: 1;
    * one person, of at most k edges: k, the sum over the edges.

    With weights of arcs in [0, 1] an arc carries a share of its message, every coordinate of :math:`w q` rounded toward zero,
    of L1 norm at most that of q; and shares of two weights differ by at most :math:`|q_c|` in every coordinate, since both
    lie between 0 and :math:`q_c`. So an edge that comes, goes or changes its weight changes one row by at most 1.

    >>> count_sensitivity(EdgeLevel(directed=False)), count_sensitivity(PersonLevel(5, directed=False))
    (1.0, 5.0)
    """
    edges = edges_in(unit)
    if edges is None:
        raise UnsupportedUnitError(
            f"Counts of neighbors have no bounded sensitivity in L1 norm when the unit is {unit.describe()}: one record may "
            "be many arcs. Use EdgeLevel."
        )
    return float(edges)


def unrouted_sensitivity(unit: Unit) -> float:
    """Return the L1 sensitivity of one hop of counts along all arcs, in units of a full row.

    **Formal guarantee** (sum of absolute changes of all entries; each message has L1 norm at most 1 and does not move with an
    arc): one arc changes one row by one message: 1. One undirected edge (u, v) is two arcs: row v changes by the message of u,
    row u by that of v: 2. One person's k edges: k times as much.

    >>> unrouted_sensitivity(EdgeLevel(directed=False)), unrouted_sensitivity(EdgeLevel(directed=True))
    (2.0, 1.0)
    """
    count_sensitivity(unit)
    assert isinstance(unit, EdgeLevel | PersonLevel)
    return float(unit.arcs_per_record)


def from_senders(arcs: Arcs, sends: NDArray[np.bool_]) -> Arcs:
    """Keep the arcs that start at some nodes.

    **Formal guarantee.** If ``sends`` is public, the arcs from these nodes and the arcs from all others are disjoint sets that
    together hold every arc. So of two sums of counts, one over each set, an arc changes at most one. The second sum may send
    what was computed from the first: if neighboring graphs differ in an arc of the first set, the second sum is
    post-processing; if they differ in an arc of the second set, the first sum has the same law, and what is sent is fixed by
    its outcome. Both together cost what one costs. Of k arcs that come or go together, with a of them in the first set, the first
    sum changes by at most a messages and, for each of its outcomes, the second by at most k - a: together at most k.

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> from_senders(both, np.array([True, False])).sources.tolist()
    [0]
    """
    return kept(arcs, lambda sources, _: sends[sources])


def to_others(arcs: Arcs, known: NDArray[np.bool_]) -> Arcs:
    r"""Keep the arcs that end at other nodes than ``known`` ones, and none from a node to itself.

    **Formal guarantee.** Let ``known`` be public, let known nodes send rows of L1 norm at most 1, and all others rows of norm at
    most 1 / a, with a the number of arcs of a record: 2 of an undirected edge, else 1. Of two sums, one over the arcs of known
    nodes and one over those of the others (:func:`from_senders`), a record changes one alone, by at most 1 in L1 norm. *Proof:*
    an edge between a known node and another one has one arc here, in the first sum: one row changes by a row of norm at most 1.
    An edge between two others has a arcs, all in the second: a rows change by 1 / a each. Between known nodes there is none.

    >>> both = Arcs(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32))
    >>> to_others(both, np.array([True, False, False])).sources.tolist()
    [0, 2, 1]
    """
    return kept(arcs, lambda sources, ends: ~known[ends] & (sources != ends))


def to_count_steps(rows: NDArray[np.float32]) -> NDArray[np.int16]:
    """Put rows of L1 norm at most 1 on the grid of whole steps of 1 / 32767, rounding toward zero.

    No row leaves with more than 32767 steps.

    >>> to_count_steps(np.array([[0.5, 0.5], [0.0, 1.0]], np.float32)).tolist()
    [[16383, 16383], [0, 32767]]
    """
    if rows.ndim != 2:
        raise fail("rows", f"an array of shape {rows.shape}", "to be a finite matrix, one row a node")
    steps = aligned(*rows.shape)
    for first, last in spans(len(rows), _BLOCK):
        part = np.trunc(rows[first:last].astype(np.float64) * INT16_ONE)
        longest = np.abs(part).sum(axis=1).max(initial=0)
        if not np.isfinite(longest):
            raise fail("rows", f"an array of shape {rows.shape}", "to be a finite matrix, one row a node")
        if longest > INT16_ONE:
            raise fail(
                "rows", "a longer row", "to have L1 norm at most 1", "Divide rows by their sums before sending them."
            )
        steps[first:last] = part
        let_go(rows)
    return steps


def noisy_counts(arcs: Arcs, rows: NDArray[np.float32], noise_scale: float | Fraction, key: Key) -> NDArray[np.int64]:
    r"""Release one hop of counts: :math:`S + N` in steps of 1 / 32767.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PureEvent` of epsilon :func:`count_sensitivity` / ``noise_scale``.
    Proof: the steps of neighboring graphs differ by at most 32767 times the sensitivity in L1 norm, and
    P(N = x) / P(N = x + d) is at most :math:`e^{|d| / b}` in every entry. The noise is a function of ``key``, of a MAC of the
    exact steps, arcs and weights, and of (row, column), as in :func:`~sfumato.bounded.aggregation.noisy_neighborhood_sum`.

    ``noise_scale`` is b in units of a full row (standard deviation / sqrt 2), taken as an exact number; 0 protects nothing.
    Longer rows are an error.

    >>> both, rows = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32)), np.eye(2, dtype=np.float32)
    >>> noisy_counts(both, rows, 0.0, bytes(32)).tolist(), noisy_counts(both, rows, 2.0, bytes(32)).shape
    ([[0, 32767], [32767, 0]], (2, 2))
    """
    check_real(low=0, noise_scale=float(noise_scale))
    steps = _steps(arcs, rows)
    if not noise_scale:
        return sum_in_blocks(arcs, steps)
    release_key = derive_key(key, operand_mac(key, steps, *arcs.arrays))
    return sum_in_blocks(arcs, steps, _Laplace(release_key, Fraction(noise_scale) * INT16_ONE))


def gaussian_counts(arcs: Arcs, rows: NDArray[np.float32], noise_stddev: float, key: Key) -> NDArray[np.int64]:
    r"""Release one hop of counts with Gaussian noise: :math:`S + \mathrm{round}(\sigma Z)` in steps of 1 / 32767.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.GaussianEvent` of noise multiplier ``noise_stddev`` /
    :func:`count_sensitivity`, plus ``SAMPLER_TAU`` for each entry that an edge moves. Proof: the steps of neighboring graphs
    differ by at most 32767 times the sensitivity in L1 norm, and so in L2 norm, which is never larger. An edge that moves two
    rows by halves moves them by less. The noise is a function of ``key``, of a MAC of the exact steps, arcs and weights, and of
    (row, column).

    *Two parts.* If an edge is in one of two sums, by public facts, and the second may read the first
    (:func:`from_senders`), both together are one such event. Proof: for each outcome of the first part a test of the second has
    a type II error of at least that of the event, a convex function of its type I error, or the second part has one law; so the
    bound holds for the means over outcomes as well. Of k edges, a in the first and k - a in the second, both are composed
    Gaussian releases of changes a and k - a, and :math:`a^2 + (k - a)^2 \le k^2`.

    ``noise_stddev`` is in units of a full row; 0 protects nothing. Longer rows are an error.

    >>> both, rows = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32)), np.eye(2, dtype=np.float32)
    >>> gaussian_counts(both, rows, 0.0, bytes(32)).tolist(), gaussian_counts(both, rows, 2.0, bytes(32)).shape
    ([[0, 32767], [32767, 0]], (2, 2))
    """
    check_real(low=0, noise_stddev=noise_stddev)
    steps = _steps(arcs, rows)
    if not noise_stddev:
        return sum_in_blocks(arcs, steps)
    release_key = derive_key(key, "gaussian", operand_mac(key, steps, *arcs.arrays))
    return rounded_gaussian(release_key, noise_stddev * INT16_ONE, 0, steps.size, partial(sum_in_blocks, arcs, steps))


def _steps(arcs: Arcs, rows: NDArray[np.float32]) -> NDArray[np.int16]:
    if rows.ndim != 2 or len(rows) != arcs.num_nodes:
        raise fail("rows", f"an array of shape {rows.shape}", f"to be a matrix of {arcs.num_nodes} rows, one a node")
    return to_count_steps(rows)


@dataclass(frozen=True)
class _Laplace:
    """The noise of a release, which is drawn in pieces that stay in the cache, by as many threads as make the sums."""

    key: Key
    scale: Fraction
    compiled: None = None

    def add(self, sums: NDArray[np.int64], start: int) -> None:
        """Add the values of positions ``start`` and on to sums, an array in C order."""
        flat = sums.reshape(-1)

        def piece(ends: tuple[int, int]) -> None:
            low, high = ends
            flat[low:high] += keyed_discrete_laplace(self.key, self.scale, start + low, start + high)

        pieces = spans(len(flat), _PIECE)
        workers = min(threads(), len(pieces))
        if workers < 2:
            for ends in pieces:
                piece(ends)
            return
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(piece, pieces))
