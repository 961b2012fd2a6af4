r"""How far the data-dependent cost can move when votes change, and the private release of that cost (GNSS).

**Local sensitivity.** One changed vote moves every gap by at most 2, so q moves within

.. math:: B(q) = (m - 1) \, T(T^{-1}(q / (m - 1)) \mp 2), \qquad T(g) = \tfrac12 \mathrm{erfc}(g / 2 \sigma)

(Papernot et al. 2018, proposition 16), and the bound f(q) on the divergence by at most
:math:`L(q) = \max(f(B_+(q)) - f(q), f(q) - f(B_-(q)))`. With q_0 where f meets its data-independent ceiling and
:math:`q_1 = B_-(q_0)`, L rises up to q_1, is at most :math:`L(q_1)` between q_1 and q_0, and falls beyond (conditions C5 and
C6, checked by :func:`check_conditions`). d changed votes reach at most the q of moving d votes from the winner to the *largest*
other class, and at least that of moving d votes to the winner from whichever other class is largest. Counts are sorted first.

**Smooth sensitivity.** :math:`SS = \max_d e^{-\beta d} \sum_i L_i(d)`: one teacher votes on every query.

Source: Papernot et al. (2018), Scalable Private Learning with PATE, appendix B and C; Nissim, Raskhodnikova and Smith (2007).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from sfumato._validate import check_real, fail
from sfumato.pate.data_dependent import GRID, Floats, chunks, gaussian_renyi

_PEAK_DENSITY = 1 / math.sqrt(2 * math.pi)
_TOLERANCE = 1e-12  # of the ceiling; covers rounding where conditions are checked
_FAR, _POINTS = 1e4, 4000  # the grid of -ln q


def local_sensitivities(votes: NDArray[np.integer], noise_stddev: float, order: float) -> Floats:
    """Bound the local sensitivity of each query's GNMax divergence at every number of changed votes.

    Args:
        votes: counts, every row of the same sum (the number of teachers).
        noise_stddev: sigma of GNMax.
        order: the one Renyi order.

    Shapes: [queries, classes] to [queries, teachers]; column d is for d changed votes.

    Raises:
        InputError: conditions C5 and C6 do not hold at this sigma, number of classes and order.

    >>> local_sensitivities(np.array([[0, 10, 0]]), 0.5, 1.5)[0, [0, 1, 2, 3, 9]].round(5).tolist()
    [0.0, 0.0, 0.00591, 5.99981, 5.99981]
    """
    return _steps_and_ceilings(votes, noise_stddev, order)[0]


def confident_local_sensitivities(
    votes: NDArray[np.integer],
    peaks: Floats,
    threshold: float,
    threshold_stddev: float,
    noise_stddev: float,
    order: float,
) -> Floats:
    r"""Bound the local sensitivity of :func:`charged` costs, where answers and their probability both depend on votes.

    The cost h(w, c) has :math:`\partial h / \partial c \le w e^x / (1 + w (e^x - 1))` and
    :math:`\partial h / \partial w \le (e^x - 1) / (\alpha - 1)`, x = (alpha - 1) c; both rise in w and c, whose largest
    values within d + 1 changes stand in. One change moves w by at most :math:`1 / (\sqrt{2 \pi} \sigma_1)`.

    Shapes: as :func:`local_sensitivities`.

    >>> rows, peaks = np.array([[200, 50]]), np.array([200.0])
    >>> confident_local_sensitivities(rows, peaks, 200.0, 150.0, 40.0, 14.0)[0, [0, 80]].round(6).tolist()
    [8.4e-05, 0.000406]
    """
    steps, answers = _steps_and_ceilings(votes, noise_stddev, order)
    reached = peaks[:, None] + np.arange(1, steps.shape[1] + 1)
    weights = tilted_weights(reached, threshold, threshold_stddev, order)
    grown = np.expm1((order - 1) * answers)
    slopes = weights * (1 + grown) / (1 + weights * grown)
    return np.asarray(slopes * steps + grown / (order - 1) * _PEAK_DENSITY / threshold_stddev)


def tilted_weights(peaks: Floats, threshold: float, threshold_stddev: float, order: float) -> Floats:
    r"""Probability of an answer under the law that the divergence of order alpha integrates: the count alpha - 1 higher.

    >>> tilted_weights(np.array([200.0]), 200.0, 150.0, 14.0).round(4).tolist()
    [0.5345]
    """
    return np.exp(log_ndtr((np.asarray(peaks) + order - 1 - threshold + GRID) / threshold_stddev))


def charged(answers: Floats, weights: Floats, order: float) -> Floats:
    r"""Bound what an answer adds to the threshold's cost: :math:`\ln(1 + w (e^{(\alpha - 1) D} - 1)) / (\alpha - 1)`.

    For Gaussian noise and a count one off, :math:`p^\alpha p'^{1 - \alpha}` is :math:`e^{\alpha (\alpha - 1) / 2 \sigma_1^2}`
    times the density with the mean alpha - 1 higher: the threshold costs :math:`\alpha / 2 \sigma_1^2`, the answer this.

    >>> charged(np.array([0.1]), np.array([0.5]), 3.0).round(4).tolist()
    [0.0525]
    """
    return np.asarray(np.log1p(weights * np.expm1((order - 1) * answers)) / (order - 1))


def smooth_sensitivity(by_distance: Floats, beta: float) -> float:
    """Return the smooth sensitivity of a sum from its local sensitivities at every distance.

    >>> round(smooth_sensitivity(np.array([0.1, 0.5, 0.5]), 0.2), 4)
    0.4094
    """
    beta = check_real(low=0, open_low=True, beta=beta)
    return float((np.exp(-beta * np.arange(len(by_distance))) * by_distance).max())


def gnss_renyi(beta: float, noise: float, order: float) -> float:
    r"""Renyi divergence of releasing a value with Gaussian noise of deviation sigma times a beta-smooth sensitivity:

    .. math::
        \frac{\alpha e^{-2 \beta}}{2 \sigma^2 v} + \frac{-\frac12 \ln v - \alpha \beta}{\alpha - 1}, \qquad
        v = 1 - \alpha (1 - e^{-2 \beta}).

    **Formal guarantee.** For neighbors whose values differ by at most the smaller of their smooth sensitivities, which differ
    by a factor of at most e^beta: exact for the worst of them, N(0, sigma^2) against
    :math:`N(e^{-\beta}, e^{-2 \beta} \sigma^2)` in units of the larger. A nearer or less narrow second law has less
    divergence, and so does a wider one.

    Args:
        beta: smoothness.
        noise: sigma.
        order: alpha.

    Raises:
        InputError: v is not positive: the divergence is infinite there.

    >>> round(gnss_renyi(0.2 / 14, 6.0, 14.0), 4)
    0.3159

    Source: divergence of two Gaussians, van Erven and Harremoes (2014), equation 10.
    """
    beta, noise = check_real(low=0, open_low=True, beta=beta), check_real(low=0, open_low=True, noise=noise)
    most = float(-1 / math.expm1(-2 * beta))
    order = check_real("Take a smaller beta.", low=1, high=most, open_low=True, open_high=True, order=order)
    left = 1 + order * math.expm1(-2 * beta)
    deviation = -math.log(left) / 2 - order * beta
    return order * math.exp(-2 * beta) / (2 * noise**2 * left) + deviation / (order - 1)


def published_gnss_renyi(beta: float, noise: float, order: float) -> float:
    r"""The same as published, for tables only: *too small*.

    .. math:: \frac{\alpha e^{2 \beta}}{\sigma^2} + \frac{-\frac12 \ln(1 - 2 \alpha \beta) + \alpha \beta}{\alpha - 1}

    The closed form of two Gaussians divides the first term by v, about 1 - 2 alpha beta. The published parameters, alpha beta
    between 0.3 and 0.5, cost up to three times what this says.

    >>> round(published_gnss_renyi(0.46 / 14, 6.233, 14.0), 4), round(gnss_renyi(0.46 / 14, 6.233, 14.0), 4)
    (0.5174, 1.5894)

    Source: Papernot et al. (2018), theorem 23.
    """
    deviation = -math.log(1 - 2 * order * beta) / 2 + beta * order
    return order * math.exp(2 * beta) / noise**2 + deviation / (order - 1)


class Gnss(NamedTuple):
    """Parameters of a release of the cost, and what they give: smooth sensitivity and Renyi cost at the order."""

    order: float
    beta: float
    noise: float
    sensitivity: float
    cost: float


def published_gnss(by_distance: Floats, order: float) -> Gnss:
    """Choose beta and noise as published, *from the votes*: minimal cost plus twice the noise. Not private.

    The grid of beta is 0.30 / order to 0.49 / order by 0.01 / order; the noise is the cube root of alpha e^(2 beta) / SS.

    >>> published_gnss(np.array([0.01, 0.06, 0.06]), 14.0).beta * 14
    0.3
    """
    choices = []
    for beta in (np.arange(30, 50) / 100 / order).tolist():
        sensitivity = smooth_sensitivity(by_distance, beta)
        noise = math.cbrt(order * math.exp(2 * beta) / sensitivity)
        choices.append(Gnss(order, beta, noise, sensitivity, published_gnss_renyi(beta, noise, order)))
    return min(choices, key=lambda choice: choice.cost + 2 * choice.noise * choice.sensitivity)


def check_conditions(noise_stddev: float, num_classes: int, order: float) -> None:
    """Refuse parameters for which the bounds on the local sensitivity do not hold.

    Raises:
        InputError: C5 or C6 fails.

    >>> check_conditions(30.0, 10, 25.0)
    """
    if not all(conditions(noise_stddev, num_classes, order)):
        raise fail(
            "noise_stddev, order",
            (noise_stddev, order),
            f"to satisfy conditions C5 and C6 of the smooth sensitivity with {num_classes} classes",
            "Release at a smaller order, or answer with more noise.",
        )


def conditions(noise_stddev: float, num_classes: int, order: float) -> tuple[bool, bool]:
    """Whether C5 (f rises up to q_0) and C6 (its step up rises up to q_1) hold, on a grid of ln q.

    They are enough: the step down at q is the step up at B_-(q), and f is constant beyond q_0.

    >>> conditions(20.0, 10, 25.0)
    (True, False)
    """
    loss = _Loss(noise_stddev, num_classes, order)
    rises = []
    for end, values in ((loss.log_q0, loss), (loss.log_q1, loss.rise)):
        steps = np.diff(values(-np.geomspace(_FAR, -end, _POINTS)))
        rises.append(bool((steps >= -_TOLERANCE * loss.ceiling).all()))
    return rises[0], rises[1]


def _steps_and_ceilings(votes: NDArray[np.integer], noise_stddev: float, order: float) -> tuple[Floats, Floats]:
    """Local sensitivities, and the largest divergences one change further: [queries, teachers] each."""
    check_conditions(noise_stddev, votes.shape[1], order)
    loss = _Loss(noise_stddev, votes.shape[1], order)
    ranked, places = np.unique(-np.sort(-votes, axis=1), axis=0, return_inverse=True)
    steps = np.full((len(ranked), int(votes[0].sum())), loss.largest)
    answers = np.full_like(steps, loss.ceiling)
    for part in chunks(len(ranked), votes.size // len(votes) * steps.shape[1]):
        log_q = _most(ranked[part], loss)
        rises = np.zeros(steps[part].shape, bool)
        rises[:, : log_q.shape[1]] = log_q < loss.log_q1
        log_q = log_q[log_q < loss.log_q1]
        reached = loss(loss.moved(log_q, -2.0))
        answers[part][rises], steps[part][rises] = reached, np.maximum(reached - loss(log_q), 0)
        flat = np.flatnonzero(loss.of_counts(ranked[part]) > loss.log_q0)
        if flat.size:
            log_q = _fewest(ranked[part][flat], loss)
            falls = loss.ceiling - loss(loss.moved(log_q, 2.0))
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


class _Loss:
    """The divergence f of one answer at one order as a function of ln q, and how q moves."""

    def __init__(self, noise_stddev: float, num_classes: int, order: float) -> None:
        self.noise_stddev, self.num_classes, self.order = noise_stddev, num_classes, np.array([order])
        self.ceiling = order / noise_stddev**2
        self.width = math.sqrt(2) * noise_stddev
        low, high = -1.0, 0.0
        while self(np.array(low)) >= self.ceiling:
            low *= 2
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if self(np.array(middle)) < self.ceiling else (low, middle)
        self.log_q0 = high
        published = min(
            high, -((order / noise_stddev) ** 2)
        )  # mu_2 >= order there: earlier than needed, at little noise
        self.log_q1 = float(self.moved(np.array(published), 2.0))
        self.largest = self.ceiling - float(self(np.array(self.log_q1)))

    def __call__(self, log_q: Floats) -> Floats:
        return gaussian_renyi(log_q.ravel(), self.noise_stddev, self.order).reshape(log_q.shape)

    def moved(self, log_q: Floats, gap: float) -> Floats:
        """ln q after every gap, all being equal, grew by ``gap``."""
        others = math.log(self.num_classes - 1)
        moved = others + log_ndtr(ndtri_exp(np.minimum(log_q - others, math.log(0.5))) - gap / self.width)
        return np.asarray(np.minimum(moved, math.log1p(-1 / self.num_classes)))

    def rise(self, log_q: Floats) -> Floats:
        """Largest rise by one changed vote."""
        return self(self.moved(log_q, -2.0)) - self(log_q)

    def of_counts(self, ranked: NDArray[np.integer]) -> Floats:
        """ln q of counts whose first column is the winner."""
        return self.of_gaps((ranked[:, :1] - ranked[:, 1:])[..., None])[:, 0]

    def of_gaps(self, gaps: NDArray[np.integer]) -> Floats:
        """ln q of whole gaps, classes on the middle axis."""
        table = log_ndtr(-(np.arange(gaps.max() + 1) - GRID) / self.width)
        return np.asarray(np.logaddexp.reduce(table[gaps], axis=1))
