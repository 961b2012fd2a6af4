r"""Local sensitivities say how far the data-dependent cost of one answer can move when votes change, at every distance.

Counts are sorted first: q is a symmetric function of them, and sorting brings no two histograms further apart. T(g) below is the
bound on the probability that a class g votes behind wins, and q the sum of T over all classes but the winner.

**What d changed votes reach.** T falls and is convex for :math:`g \ge 0`. So q is largest after d votes moved from the winner to
the *largest* other class: every gap is d less, and the convex sum of T grows most if the other d all come off the smallest gap.
It is smallest after d votes moved to the winner from whichever other class is largest then: every gap is d more, and each vote
adds one to the gap where T falls most.

**What one more changes.** Let one changed vote move q to :math:`B_+(q)` at most and :math:`B_-(q)` at least, inverse of each
other. The bound f(q) on the divergence then moves by at most :math:`L(q) = \max(f(B_+(q)) - f(q), f(q) - f(B_-(q)))`. With q_0
where f meets its data-independent ceiling and :math:`q_1 = B_-(q_0)`, L rises up to q_1, is at most :math:`L(q_1)` between q_1
and q_0, and falls beyond, if f rises up to q_0 (condition C5) and its step up does up to q_1 (C6): the step down at q is the
step up at :math:`B_-(q)`. :func:`laplace_local_sensitivities` proves both, :func:`check_conditions` checks them for GNMax.

**GNMax.** One changed vote moves every gap by at most 2, so q moves within

.. math:: B_\pm(q) = (m - 1) \, T(T^{-1}(q / (m - 1)) \mp 2), \qquad T(g) = \tfrac12 \mathrm{erfc}(g / 2 \sigma)

(Papernot et al. 2018, proposition 16).

These are upper bounds: no histogram need have the q of the bound and move as far as it allows.

Source: Papernot et al. (2018), Scalable Private Learning with PATE, appendix B and C; the bound of LNMax is ours.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from sfumato._validate import fail
from sfumato.pate._data_dependent import (
    GRID,
    Floats,
    charged,
    chunks,
    gaussian_log_tail,
    gaussian_renyi,
    laplace_log_tail,
    laplace_renyi,
    log_tilted_weights,
)

_PEAK_DENSITY = 1 / math.sqrt(2 * math.pi)
_TOLERANCE = 1e-12  # of the ceiling; covers rounding where conditions are checked
_FAR, _POINTS = 1e4, 4000  # the grid of -ln q


def local_sensitivities(votes: NDArray[np.integer], noise_stddev: float, order: float) -> Floats:
    """Bound the local sensitivity of each query's GNMax divergence: [queries, teachers], column d for d changed votes."""
    return _steps_and_ceilings(votes, _checked(votes, noise_stddev, order))[0]


def laplace_local_sensitivities(votes: NDArray[np.integer], scale: float, order: float) -> Floats:
    r"""Bound the local sensitivity of each query's LNMax divergence: [queries, teachers], column d for d changed votes.

    Holds at every scale and order: C5 and C6 need no check. *Proof.* Let b be the scale, n the number of teachers, l = alpha - 1,
    :math:`c = e^{2 / b}`, :math:`T(g) = (2 + g / b) / 4 e^{g / b}` for :math:`g \ge 0` and 1/2 below.

    1. *One changed vote moves ln q by at most* :math:`s = \ln T(n - 2) - \ln T(n) < 2 / b`. Every gap to the winner falls by at
       most 2, and :math:`T(g - 2) / T(g) = c (1 - (2 / b) / (2 + g / b))` rises with g, which is at most n (below g = 2 it is
       :math:`T(0) / T(g)`, which rises too). If another class wins then, its term, of a gap of at most 2, makes room for that of
       the former winner, at most T(0). The way back is a changed vote as well. So :math:`B_\pm(q) = e^{\pm s} q`.
    2. *f is convex in ln q where it is below its ceiling.* Up to a factor 1 / l it is ln G(q) there,

       .. math:: G(q) = \frac{(1 - q)^{l + 1}}{(1 - c q)^l} + c^l q
           = 1 + (l (c - 1) - 1 + c^l) \, q + \sum_{k \ge 2} \binom{l + k - 1}{k} \frac{(c - 1)^k q^k}{(1 - q)^{k - 1}}

       (binomial series of :math:`1 - c q = (1 - q)(1 - (c - 1) q / (1 - q))`), a power series in q without a negative
       coefficient: a sum of exponentials of ln q, whose logarithm rises and is convex.
    3. *f has no jump.* The bound by G holds for :math:`q < 1 / (1 + c)`, where G is :math:`c^l`, f so the pure loss 2 / b: it
       meets the ceiling there or before. Hence C5; and C6, for a convex function's step of fixed length s rises.

    Attained by a unanimous vote on two classes, but for the grid.
    """
    return _steps_and_ceilings(votes, _LaplaceLoss(scale, int(votes[0].sum()), order))[0]


def confident_local_sensitivities(
    votes: NDArray[np.integer],
    peaks: Floats,
    threshold: float,
    threshold_stddev: float,
    noise_stddev: float,
    order: float,
) -> Floats:
    r"""Bound the local sensitivity where the votes move answers and the probability of an answer.

    The cost h(w, c), :func:`sfumato.pate._data_dependent.charged`, has
    :math:`\partial h / \partial c \le w e^x / (1 + w (e^x - 1))` and
    :math:`\partial h / \partial w \le (e^x - 1) / (\alpha - 1)`, x = (alpha - 1) c; both rise in w and c, whose largest
    values within d + 1 changes stand in (a count is at most the number of teachers). One change moves w by at most
    :math:`1 / (\sqrt{2 \pi} \sigma_1)`, and however far w moves, h stays between 0 and c.
    """
    steps, answers = _steps_and_ceilings(votes, _checked(votes, noise_stddev, order))
    reached = np.minimum(peaks[:, None] + np.arange(1, steps.shape[1] + 1), steps.shape[1])
    log_weights = log_tilted_weights(reached, threshold, threshold_stddev, order)
    gains = (order - 1) * answers
    slopes = np.exp(np.minimum(log_weights + gains - (order - 1) * charged(answers, log_weights, order), 0))
    with np.errstate(over="ignore"):
        moved = np.expm1(gains) / (order - 1) * _PEAK_DENSITY / threshold_stddev
    return np.asarray(slopes * steps + np.minimum(moved, answers))


def check_conditions(noise_stddev: float, num_classes: int, order: float) -> None:
    """Refuse parameters for which the bounds on the local sensitivity do not hold."""
    if not all(conditions(noise_stddev, num_classes, order)):
        raise fail(
            "noise_stddev, order",
            (noise_stddev, order),
            f"to satisfy conditions C5 and C6 of the smooth sensitivity with {num_classes} classes",
            "Release at a smaller order, or answer with more noise.",
        )


def conditions(noise_stddev: float, num_classes: int, order: float) -> tuple[bool, bool]:
    """Tell whether C5 (f rises up to q_0) and C6 (its step up rises up to q_1) hold, on a grid of ln q."""
    loss = _GaussianLoss(noise_stddev, num_classes, order)
    rises = []
    for end, values in ((loss.log_q0, loss), (loss.log_q1, loss.rise)):
        steps = np.diff(values(-np.geomspace(_FAR, -end, _POINTS)))
        rises.append(bool((steps >= -_TOLERANCE * loss.ceiling).all()))
    return rises[0], rises[1]


def _checked(votes: NDArray[np.integer], noise_stddev: float, order: float) -> _Loss:
    check_conditions(noise_stddev, votes.shape[1], order)
    return _GaussianLoss(noise_stddev, votes.shape[1], order)


def _steps_and_ceilings(votes: NDArray[np.integer], loss: _Loss) -> tuple[Floats, Floats]:
    """Local sensitivities, and the largest divergences one change further: [queries, teachers] each."""
    ranked, places = np.unique(-np.sort(-votes, axis=1), axis=0, return_inverse=True)
    steps = np.full((len(ranked), int(votes[0].sum())), loss.largest)
    answers = np.full_like(steps, loss.ceiling)
    for part in chunks(len(ranked), votes.size // len(votes) * steps.shape[1]):
        log_q = _most(ranked[part], loss)
        rises = np.zeros(steps[part].shape, bool)
        rises[:, : log_q.shape[1]] = log_q < loss.log_q1
        log_q = log_q[log_q < loss.log_q1]
        reached = loss(loss.moved(log_q, 1))
        answers[part][rises], steps[part][rises] = reached, np.maximum(reached - loss(log_q), 0)
        flat = np.flatnonzero(loss.of_counts(ranked[part]) > loss.log_q0)
        if flat.size:
            log_q = _fewest(ranked[part][flat], loss)
            falls = loss.ceiling - loss(loss.moved(log_q, -1))
            steps[part][flat] = np.where(log_q > loss.log_q0, np.maximum(falls, 0), loss.largest)
    return steps[places.ravel()], answers[places.ravel()]


def _most(ranked: NDArray[np.integer], loss: _Loss) -> Floats:
    """Largest ln q that d changed votes reach: all from the winner to the next class, d as long as some row has no tie."""
    moved = np.arange(int(ranked[:, 0].max() - ranked[:, 1].min()) // 2 + 1)
    gaps = ranked[:, :1, None] - ranked[:, 1:, None] - moved
    gaps[:, 0] -= moved
    return np.where(gaps[:, 0] >= 0, loss.of_gaps(np.maximum(gaps, 0)), 0.0)


def _fewest(ranked: NDArray[np.integer], loss: _Loss) -> Floats:
    """Smallest ln q that d changed votes reach: each from whichever other class is the largest then."""
    counts = ranked.copy()
    rows = np.arange(len(ranked))
    result = np.empty((len(ranked), int(ranked[0].sum())))
    for moved in range(result.shape[1]):
        result[:, moved] = loss.of_counts(counts)
        largest = 1 + counts[:, 1:].argmax(axis=1)
        taken = counts[rows, largest] > 0
        counts[rows, largest] -= taken
        counts[:, 0] += taken
    return result


class _Loss(ABC):
    """The divergence f of one answer at one order as a function of ln q, and how q moves."""

    def __init__(self, ceiling: float, latest: float = 0.0) -> None:
        """q_0 counts as ``latest`` for q_1, if that is earlier."""
        self.ceiling = ceiling
        low, high = -1.0, 0.0
        while self(np.array(low)) >= ceiling:
            low *= 2
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self(np.array(middle)) < ceiling else (low, middle)
        self.log_q0 = high
        self.log_q1 = float(self.moved(np.array(min(high, latest)), -1))
        self.largest = ceiling - float(self(np.array(self.log_q1)))

    @abstractmethod
    def __call__(self, log_q: Floats) -> Floats: ...

    @abstractmethod
    def moved(self, log_q: Floats, sign: int) -> Floats:
        """ln of B_+ (sign 1) or B_- (sign -1) of q."""

    @abstractmethod
    def log_tail(self, gaps: Floats) -> Floats:
        """ln T."""

    def rise(self, log_q: Floats) -> Floats:
        return self(self.moved(log_q, 1)) - self(log_q)

    def of_counts(self, ranked: NDArray[np.integer]) -> Floats:
        """ln q of counts whose first column is the winner."""
        return self.of_gaps((ranked[:, :1] - ranked[:, 1:])[..., None])[:, 0]

    def of_gaps(self, gaps: NDArray[np.integer]) -> Floats:
        """ln q of whole gaps, classes on the middle axis."""
        table = self.log_tail(np.arange(gaps.max() + 1) - GRID)
        return np.asarray(np.logaddexp.reduce(table[gaps], axis=1))


class _GaussianLoss(_Loss):
    def __init__(self, noise_stddev: float, num_classes: int, order: float) -> None:
        self.noise_stddev, self.num_classes, self.order = noise_stddev, num_classes, np.array([order])
        # the published q_0: mu_2 >= order there, earlier than needed at little noise
        super().__init__(order / noise_stddev**2, latest=-((order / noise_stddev) ** 2))

    def __call__(self, log_q: Floats) -> Floats:
        return gaussian_renyi(log_q.ravel(), self.noise_stddev, self.order).reshape(log_q.shape)

    def moved(self, log_q: Floats, sign: int) -> Floats:
        others, step = math.log(self.num_classes - 1), sign * math.sqrt(2) / self.noise_stddev
        moved = others + log_ndtr(ndtri_exp(np.minimum(log_q - others, math.log(0.5))) + step)
        return np.asarray(np.minimum(moved, math.log1p(-1 / self.num_classes)))

    def log_tail(self, gaps: Floats) -> Floats:
        return gaussian_log_tail(gaps, self.noise_stddev)


class _LaplaceLoss(_Loss):
    def __init__(self, scale: float, teachers: int, order: float) -> None:
        self.scale, self.epsilon, self.order = scale, 2 / scale, np.array([order])
        self.step = -float(np.diff(self.log_tail(np.array([teachers - 2.0, teachers])))[0])
        super().__init__(min(self.epsilon, order * self.epsilon**2 / 2))

    def __call__(self, log_q: Floats) -> Floats:
        return laplace_renyi(log_q.ravel(), self.epsilon, self.order).reshape(log_q.shape)

    def moved(self, log_q: Floats, sign: int) -> Floats:
        return log_q + sign * self.step

    def log_tail(self, gaps: Floats) -> Floats:
        return laplace_log_tail(gaps, self.scale)
