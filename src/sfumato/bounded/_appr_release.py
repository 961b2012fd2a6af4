r"""Noisy PageRank rows: of each row the K entries that are largest after noise, Gaussian or by one-shot Gumbel selection.

**What is hidden.** All guarantees here compare *any* two matrices of the same shape with non-negative entries. So they hold for
any change of arcs, such as all arcs of one node in and out (``NodeLevel(arcs="incident")``), and for every other unit, as long
as ids and roots are public. A single arc is hidden at the same price.

**Gaussian rows.** A row is clipped to norm :math:`C_1`. Two clipped rows a, b have no negative entry, so
:math:`a \cdot b \ge 0` and

.. math:: \|a - b\|^2 = \|a\|^2 + \|b\|^2 - 2 a \cdot b \le 2 C_1^2 .

All M rows may change, so the matrix has L2 sensitivity :math:`\sqrt{2 M} C_1`. (The source takes :math:`C_1` for a row. That is
exceeded when a removed node moves most of a row's weight elsewhere.) Noise is added to *every* coordinate, zeros too; the K
largest are kept afterward.

**Exponential rows.** Entries are clipped to :math:`C_2`. The one-shot form adds Gumbel noise of scale b to all entries and takes
the K largest. Noisy entries in descending order have the law of draws *without replacement* by weights
:math:`w_i = e^{u_i / b}`: the first is i with probability :math:`w_i / \sum w`, and so on with the rest. (Exponential clocks of
rates :math:`w_i` ring in this order, and minus the logarithm of a clock's time is :math:`u_i / b` plus Gumbel noise.) So
no noise is drawn here. Weights are integers: ``lightest`` for all entries that are zero, as one group, and for others
:math:`e^{u_i / b}` times that, rounded, and forced into ``lightest`` ... ``heaviest``. A pick is a uniform integer below
the total, by rejection: exact. A pick of the group takes a uniform member, so no vector of the length of the graph is needed.

*Claim:* a pick has pure :math:`\epsilon = 2 C_2 / b`, and this range. *Proof:* :math:`R` = heaviest / lightest is at most
:math:`e^{C_2 / b}`, computed in decimals and rounded down. For two rows and the same earlier picks, each weight and the total
of those left change by a factor between 1 / R and R. So a probability changes by at most :math:`R^2`; and two probabilities
change by factors whose ratio is at most :math:`R^2`, since the totals cancel. Nothing else of the weights is used: floating
point that rounds them costs no privacy. M rows of K picks are :math:`K M` such events, one after another.

**Values.** With ``laplace_scale``, each picked entry is released with fresh noise. Given the picks, a row's K values lie in
:math:`[0, C_2]`, so they change by at most :math:`K C_2` in L1. Without it each weighs 1 / K, which costs nothing.

Source: Durfee and Rogers (2019), lemma 4.2, for the one-shot form; algorithms 7 and 8 of Zhang et al. (2024), DPAR, for the rows.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded._appr_kernel import draw_picks
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, Stream, derive_key, operand_mac
from sfumato.privacy.events import Event, ExponentialEvent, GaussianEvent, LaplaceEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 2**20
"""A clipped row or entry holds integers, in steps of the clipping threshold / STEPS."""
_BLOCK = 1 << 22
_TOTAL_BITS, _MOST_RANGE = 60, 16.0
_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR)
_SHRINK = 1 - Decimal("1e-50")  # outweighs the rounding of exp, which is off by one unit in the last of 60 places


def gaussian_row_event(rows: int, clip: float, noise_stddev: float) -> GaussianEvent:
    r"""Return the event of :func:`gaussian_rows`: ``rows`` releases of sensitivity :math:`\sqrt 2 C_1` each.

    **Formal guarantee.** Any change of the graph behind the rows, at :math:`\mu = \sqrt{2 M} C_1 / \sigma`.

    >>> round(gaussian_row_event(70, 0.01, 0.1).noise_multiplier, 4)
    7.0711
    """
    return GaussianEvent(noise_stddev / (math.sqrt(2) * clip), rows)


def exponential_row_events(
    rows: int, clip: float, gumbel_scale: float, top_k: int, laplace_scale: float | None = None
) -> tuple[Event, ...]:
    r"""Return the events of :func:`exponential_rows`: K M picks of :math:`2 C_2 / b` each, and the values if they are released.

    **Formal guarantee.** Any change of the graph behind the rows. Without values it is pure.

    >>> [(event.type, event.count) for event in exponential_row_events(70, 0.001, 0.01, 4, 0.1)]
    [('exponential', 280), ('laplace', 70)]
    """
    picks = ExponentialEvent(2 * (clip / gumbel_scale), rows * top_k)
    return (picks,) if laplace_scale is None else (picks, LaplaceEvent(laplace_scale / (top_k * clip), rows))


def gaussian_rows(matrix: sp.csr_array, clip: float, noise_stddev: float, top_k: int, key: Key) -> sp.csr_array:
    r"""Release rows with Gaussian noise on every coordinate, and keep the K largest of each.

    **Formal guarantee.** :func:`gaussian_row_event`, plus ``SAMPLER_TAU`` for each of the rows x nodes coordinates. Rows are
    rounded to whole steps toward zero, and the squares of a row are checked in integers to sum to at most
    :math:`C_1^2`; a row beyond it counts as zero. The noise follows from ``key``, the clipped matrix and the position.

    ``matrix`` [rows, nodes] has no negative entry, and ``clip`` is :math:`C_1`; a row of the result stores ``top_k`` entries.

    >>> rows = sp.csr_array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]])
    >>> gaussian_rows(rows, 0.1, 1e-4, 1, bytes(32)).toarray().round(2).tolist()[0]
    [0.1, 0.0, 0.0]
    """
    check_real(low=0, open_low=True, noise_stddev=noise_stddev)
    steps = clipped_rows(_checked(matrix, clip, top_k), clip)
    release = derive_key(key, operand_mac(key, steps.indptr, steps.indices, steps.data))
    num_rows, num_nodes = steps.shape
    parts = [np.empty((0, top_k), np.int64)], [np.empty((0, top_k), np.int64)]
    for first, last in _blocks(num_rows, num_nodes):
        noise = rounded_gaussian(release, noise_stddev / clip * STEPS, first * num_nodes, last * num_nodes)
        noisy = steps[first:last].toarray() + noise.reshape(-1, num_nodes)
        columns = np.sort(np.argpartition(noisy, num_nodes - top_k, axis=1)[:, num_nodes - top_k :], axis=1)
        parts[0].append(columns)
        parts[1].append(np.take_along_axis(noisy, columns, axis=1))
    return _rows(np.concatenate(parts[0]), np.concatenate(parts[1]) * (clip / STEPS), num_nodes)


def exponential_rows(
    matrix: sp.csr_array, clip: float, gumbel_scale: float, top_k: int, key: Key, laplace_scale: float | None = None
) -> sp.csr_array:
    r"""Release the one-shot Gumbel selection of each row, over all nodes, with equal weights or with noisy values.

    **Formal guarantee.** :func:`exponential_row_events`. Picks are exact; with values ``SAMPLER_TAU`` is added for each of
    rows x ``top_k`` values. Coins and noise follow from ``key``, the matrix and the position.

    ``matrix`` [rows, nodes] has no negative entry, and ``clip`` is :math:`C_2`. A ``gumbel_scale`` below :math:`C_2 / 16`
    counts as that. With ``laplace_scale`` values are released with noise (EM-v1); without it each pick weighs 1 / K (EM-v0).

    >>> rows = sp.csr_array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]])
    >>> exponential_rows(rows, 0.1, 0.001, 2, bytes(32)).toarray().tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    """
    matrix = _checked(matrix, clip, top_k)
    weights, lightest = pick_weights(matrix, clip, gumbel_scale)
    law = float(clip).hex(), float(gumbel_scale).hex(), top_k
    release = derive_key(key, operand_mac(key, matrix.indptr, matrix.indices, matrix.data), *law)
    picks = np.sort(_all_picks(weights, lightest, top_k, Stream(derive_key(release, "picks"))), axis=1)
    values = np.full(picks.shape, 1 / top_k)
    if laplace_scale is not None:
        check_real(low=0, open_low=True, laplace_scale=laplace_scale)
        noise = rounded_laplace(derive_key(release, "values"), laplace_scale / clip * STEPS, 0, picks.size)
        values = (_entries(matrix, clip, picks) + noise.reshape(picks.shape)) * (clip / STEPS)
    return _rows(picks, values, matrix.shape[1])


def largest_entries(matrix: sp.csr_array, top_k: int) -> sp.csr_array:
    """Keep the K largest entries of each row, without noise: nothing is protected.

    A row that has fewer keeps all. Equal entries go by the smaller column.

    >>> largest_entries(sp.csr_array([[0.2, 0.5, 0.3]]), 2).toarray().tolist()
    [[0.0, 0.5, 0.3]]
    """
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, owner))
    kept = order[np.arange(len(order)) - matrix.indptr[owner] < top_k]
    ends = owner[kept], matrix.indices[kept]
    return sp.csr_array((matrix.data[kept], ends), shape=matrix.shape)


def clipped_rows(matrix: sp.csr_array, clip: float) -> sp.csr_array:
    """Clip rows to L2 norm ``clip``, in whole steps of ``clip`` / STEPS toward zero.

    **Formal guarantee.** No entry is negative, and the squares of a row sum to at most STEPS^2, in integers.

    >>> clipped_rows(sp.csr_array([[0.3, 0.4]]), 0.1).toarray().tolist()
    [[629145, 838860]]
    """
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))

    def squares(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(owner, values**2, minlength=matrix.shape[0]).astype(np.float64)

    shrunk = STEPS * (1 - 2.0**-40) / np.maximum(np.sqrt(squares(matrix.data)), clip)
    steps = np.minimum(np.floor(matrix.data * shrunk[owner]), STEPS)
    # Squares are integers up to 2^40, and none is negative: a sum that ends at or below 2^40 was exact in float64.
    steps[squares(steps)[owner] > STEPS**2] = 0
    return sp.csr_array((steps.astype(np.int64), matrix.indices, matrix.indptr), shape=matrix.shape)


def pick_weights(matrix: sp.csr_array, clip: float, gumbel_scale: float) -> tuple[sp.csr_array, int]:
    r"""Return the weight of each stored entry in a pick, and the weight of all others, in integers.

    **Formal guarantee.** Every weight is between the lightest and :math:`e^{C_2 / b}` times the lightest, exactly.

    >>> weights, lightest = pick_weights(sp.csr_array([[0.05, 0.3]]), 0.1, 0.1)
    >>> (weights.data / lightest).round(4).tolist()
    [1.6487, 2.7183]
    """
    check_real(low=0, open_low=True, gumbel_scale=gumbel_scale)
    span = min(clip / gumbel_scale, _MOST_RANGE)
    lightest = 1 << (_TOTAL_BITS - matrix.shape[1].bit_length() - math.ceil(span / math.log(2)))
    heaviest = int(_CONTEXT.multiply(_CONTEXT.multiply(_CONTEXT.exp(Decimal(span)), _SHRINK), lightest))
    wanted = np.rint(lightest * np.exp(np.minimum(matrix.data / clip, 1) * span)).astype(np.uint64)
    data = np.clip(wanted, np.uint64(lightest), np.uint64(max(heaviest, lightest)))
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape), lightest


def _checked(matrix: sp.csr_array, clip: float, top_k: int) -> sp.csr_array:
    check_real(low=1e-9, high=1e9, clip=clip)
    if not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
        raise fail("matrix", "a number that is negative or not finite", "to hold finite numbers >= 0")
    check_int(low=1, high=1 << 28, num_nodes=matrix.shape[1])
    check_int(low=1, high=matrix.shape[1], top_k=top_k)
    matrix = sp.csr_array(matrix, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _blocks(num_rows: int, num_nodes: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that have about four million entries."""
    height = max(1, _BLOCK // num_nodes)
    for first in range(0, num_rows, height):
        yield first, min(first + height, num_rows)


def _all_picks(weights: sp.csr_array, lightest: int, top_k: int, stream: Stream) -> NDArray[np.int64]:
    """Draw the picks of all rows. A pick reads the words of its own blocks, and more of them until one is accepted."""
    num_rows, num_nodes = weights.shape
    picks, attempts = np.empty((num_rows, top_k), np.int64), 2
    open_rows = np.arange(num_rows)
    while open_rows.size:
        index = (open_rows[:, None] * top_k + np.arange(top_k)).ravel().astype(np.uint64)
        words = np.concatenate([stream.at(index, attempt) for attempt in range(attempts)], axis=1)
        words = words.reshape(len(open_rows), top_k, -1)
        parts = (weights.indptr.astype(np.int64), weights.indices.astype(np.int64), weights.data)
        done = draw_picks(*parts, np.uint64(lightest), num_nodes, open_rows, words, picks)
        open_rows, attempts = open_rows[~done], 2 * attempts
    return picks


def _entries(matrix: sp.csr_array, clip: float, picks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The clipped entries at the picks, in steps toward zero."""
    rows = np.repeat(np.arange(len(picks)), picks.shape[1])
    values = np.asarray(matrix[rows, picks.ravel()], np.float64).reshape(picks.shape)
    return np.asarray(np.floor(np.minimum(values / clip, 1) * STEPS), np.int64)


def _rows(columns: NDArray[np.int64], values: NDArray[np.floating], num_nodes: int) -> sp.csr_array:
    offsets = np.arange(len(columns) + 1) * columns.shape[1]
    return sp.csr_array((values.ravel(), columns.ravel(), offsets), shape=(len(columns), num_nodes))
