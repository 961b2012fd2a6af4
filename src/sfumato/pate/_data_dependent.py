r"""One vote costs less when the teachers agree: these Renyi divergences shrink with the probability of another answer.

For a query with vote counts n let i* be a winner and :math:`q \ge Pr[M \ne i^*]`. Both aggregators have a bound on q by a
union over pairs (Papernot et al. 2018, proposition 7; Papernot et al. 2017, lemma 4):

.. math::
    q = \sum_{j \ne i^*} \tfrac12 \mathrm{erfc}\frac{n_{i^*} - n_j}{2 \sigma}, \qquad
    q = \sum_{j \ne i^*} \frac{2 + (n_{i^*} - n_j) / b}{4 e^{(n_{i^*} - n_j) / b}}.

Gaps are taken :data:`GRID` smaller than they are, since noisy votes are rounded to that grid and a tie may go either way.

Every value depends on private votes: it may not leave. Divergences are those of M(D) from M(D') for the data D at hand and
every neighbor D'. All functions take many queries and many orders at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from sfumato._validate import check_choice, check_real

Floats = NDArray[np.float64]
GRID = 2.0**-20  # votes
PUBLISHED_MOMENTS = np.arange(1.0, 9.0)  # l of Papernot et al. 2017; the Renyi order is l + 1
PUBLISHED_ORDERS = np.concatenate([np.arange(2, 101, 0.5), np.logspace(np.log10(100), np.log10(500), 100)])
ORDERS = np.union1d(PUBLISHED_ORDERS, 1 + np.geomspace(1e-2, 1e5, 200))
CONVERSIONS = ("tight", "classic")
_CHUNK = 1_000_000


def gaussian_log_q(votes: NDArray[np.integer], noise_stddev: float) -> Floats:
    """Bound ln Pr[another answer than the winner's] of GNMax, for each row of counts.

    A difference of two noises is Gaussian of deviation sqrt(2) sigma. Clipped at ln(1 - 1 / classes), which no data-dependent
    bound uses.
    """
    return _clip(logsumexp(gaussian_log_tail(_gaps(votes), noise_stddev), axis=1), votes.shape[1])


def laplace_log_q(votes: NDArray[np.integer], scale: float) -> Floats:
    """Bound ln Pr[another answer than the winner's] of LNMax, for each row of counts."""
    return _clip(logsumexp(laplace_log_tail(_gaps(votes), scale), axis=1), votes.shape[1])


def gaussian_log_tail(gaps: Floats, noise_stddev: float) -> Floats:
    """Compute ln Pr[a class ``gaps`` votes behind another exceeds it] under Gaussian noise on both."""
    return np.asarray(log_ndtr(-gaps / (np.sqrt(2) * noise_stddev)))


def laplace_log_tail(gaps: Floats, scale: float) -> Floats:
    """Compute the same under Laplace noise. Gaps below 0 count as 0: q is 1/2 or more there, where no such bound holds."""
    gaps = np.maximum(gaps, 0) / scale
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(gaps), -np.inf, np.log(2 + gaps) - np.log(4) - gaps)


def log_answer_probability(peaks: Floats, threshold: float, threshold_stddev: float) -> tuple[Floats, Floats]:
    """Return ln Pr[answered] and ln Pr[refused] of the noisy threshold on counts that lie on the grid."""
    first_kept = (np.ceil(threshold / GRID) - 0.5) * GRID  # what is rounded to the threshold passes it
    distances = (np.asarray(peaks, float) - first_kept) / threshold_stddev
    return np.asarray(log_ndtr(distances)), np.asarray(log_ndtr(-distances))


def gaussian_renyi(log_q: Floats, noise_stddev: float, orders: Floats) -> Floats:
    r"""Bound the Renyi divergence of one GNMax answer by its log q: the smaller of data-dependent and data-independent.

    With :math:`\mu_2 = \sigma \sqrt{\ln 1 / q}`, :math:`\mu_1 = \mu_2 + 1` (proposition 10), the mechanism's own bounds
    :math:`\epsilon_i = \mu_i / \sigma^2`,

    .. math::
        D_\alpha \le \frac{1}{\alpha - 1} \ln\left((1 - q) A^{\alpha - 1} + q B^{\alpha - 1}\right), \quad
        A = \frac{1 - q}{1 - (q e^{\epsilon_2})^{(\mu_2 - 1) / \mu_2}}, \quad B = \frac{e^{\epsilon_1}}{q^{1 / (\mu_1 - 1)}}

    if :math:`\mu_1 > \alpha`, :math:`\mu_2 > 1`, :math:`\ln 1 / q > \epsilon_2` and
    :math:`q \le e^{(\mu_2 - 1) \epsilon_2} (\frac{\mu_1}{\mu_1 - 1} \frac{\mu_2}{\mu_2 - 1})^{-\mu_2}`; else
    :math:`\alpha / \sigma^2`.

    **Formal guarantee.** Holds for any mechanism that is :math:`(\alpha, \alpha / \sigma^2)` Renyi private for all alpha and
    gives one outcome with probability at least 1 - q on the data at hand. For sensitivity 1 pass sqrt(2) sigma.
    Source: Papernot et al. (2018), Scalable Private Learning with PATE, theorem 6.
    """
    variance = noise_stddev**2
    log_q, orders = np.asarray(log_q, float)[:, None], np.asarray(orders, float)
    mu2 = np.sqrt(variance * np.maximum(-log_q, 0))
    mu1 = mu2 + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = (mu2 - 1) * mu2 / variance - mu2 * (np.log1p(1 / (mu1 - 1)) + np.log1p(1 / (mu2 - 1)))
        applies = (mu1 > orders) & (mu2 > 1) & (-log_q > mu2 / variance) & (log_q <= most)
        log_p = _log1mexp(log_q)
        log_a = log_p - _log1mexp((log_q + mu2 / variance) * (1 - 1 / mu2))
        log_b = mu1 / variance - log_q / (mu1 - 1)
        logs = np.logaddexp(log_p + (orders - 1) * log_a, log_q + (orders - 1) * log_b)
        return np.where(applies, np.fmin(logs / (orders - 1), orders / variance), orders / variance)


def laplace_renyi(log_q: Floats, epsilon: float, orders: Floats) -> Floats:
    r"""Bound the Renyi divergence of one LNMax answer by its log q: the smallest of three.

    With l = alpha - 1 and a pure loss of :math:`\epsilon = 2 / b`: the pure loss itself, :math:`\alpha \epsilon^2 / 2`, and
    where :math:`q < 1 / (e^\epsilon + 1)`

    .. math:: \frac1l \ln\left((1 - q) \left(\frac{1 - q}{1 - e^\epsilon q}\right)^l + q e^{\epsilon l}\right).

    **Formal guarantee.** Holds for any epsilon-private mechanism that gives one outcome with probability at least 1 - q.
    Source: Papernot et al. (2017), Semi-supervised Knowledge Transfer, theorems 2 and 3.
    """
    log_q, moments = np.asarray(log_q, float)[:, None], np.asarray(orders, float) - 1
    plain = np.minimum(epsilon, (moments + 1) * epsilon**2 / 2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_p = np.log1p(-np.exp(log_q))
        logs = np.logaddexp(
            log_p + (log_p - _log1mexp(epsilon + log_q)) * moments,
            log_q + epsilon * moments,
        )
        applies = log_q < -np.logaddexp(0, epsilon)
        return np.where(applies, np.fmin(logs / moments, plain), plain)


def confident_renyi(
    answers: Floats, peaks: Floats, threshold: float, threshold_stddev: float, orders: Floats
) -> Floats:
    r"""Bound the divergence of one query that is answered only if its largest count passes a noisy threshold.

    With p the probability of an answer, p' that for a largest count one off, and D the divergence of the answer,

    .. math::
        \frac{1}{\alpha - 1} \ln \max_{p'} \left(p^\alpha p'^{1 - \alpha} e^{(\alpha - 1) D}
        + (1 - p)^\alpha (1 - p')^{1 - \alpha}\right).

    The expression is convex in p', so a count that stays needs no case of its own. The published cost, the threshold's plus
    p D, is no bound on a divergence: Jensen's inequality points the other way.

    **Formal guarantee.** The refusal, if it comes to that, is charged with the answer: nothing depends on what happened.
    """
    costs = []
    logs = [side[:, None] for side in log_answer_probability(peaks, threshold, threshold_stddev)]
    for step in (-1.0, 1.0):
        others = [side[:, None] for side in log_answer_probability(peaks + step, threshold, threshold_stddev)]
        answered, refused = (orders * log + (1 - orders) * other for log, other in zip(logs, others, strict=True))
        costs.append(np.logaddexp(answered + (orders - 1) * answers, refused))
    return np.asarray(np.maximum(*costs) / (orders - 1))


def log_tilted_weights(peaks: Floats, threshold: float, threshold_stddev: float, order: float) -> Floats:
    """Compute ln Pr[answered] under the law that the divergence of order alpha integrates: the count is alpha - 1 higher."""
    return np.asarray(log_ndtr((np.asarray(peaks) + order - 1 - threshold + GRID) / threshold_stddev))


def charged(answers: Floats, log_weights: Floats, order: float) -> Floats:
    r"""Bound what an answer adds to the threshold's cost: :math:`\ln(1 + w (e^{(\alpha - 1) D} - 1)) / (\alpha - 1)`.

    For Gaussian noise and a count one off, :math:`p^\alpha p'^{1 - \alpha}` is :math:`e^{\alpha (\alpha - 1) / 2 \sigma_1^2}`
    times the density with the mean alpha - 1 higher: the threshold costs :math:`\alpha / 2 \sigma_1^2`, the answer this.
    ``log_weights`` is ln w: a weight below every float still counts where e^((alpha - 1) D) is above every float.
    """
    gains = (order - 1) * np.asarray(answers)
    with np.errstate(divide="ignore"):
        large = np.logaddexp(_log1mexp(log_weights), log_weights + gains)
    small = np.log1p(np.exp(log_weights) * np.expm1(np.minimum(gains, 1)))
    return np.asarray(np.where(gains <= 1, small, large) / (order - 1))


def to_epsilon(divergences: Floats, orders: Floats, delta: float, conversion: str = "tight") -> Floats:
    r"""Convert divergences to epsilon at every order: :math:`D + \ln(1 / \delta) / (\alpha - 1)`, where tight with a correction.

    Tight adds :math:`\ln(1 - 1 / \alpha) - \ln(\alpha) / (\alpha - 1)` (Canonne, Kamath and Steinke 2020, proposition 12).
    """
    delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    classic = divergences - np.log(delta) / (orders - 1)
    if check_choice(CONVERSIONS, conversion=conversion) == "classic":
        return np.asarray(classic)
    return np.asarray(np.maximum(classic + np.log1p(-1 / orders) - np.log(orders) / (orders - 1), 0))


def chunks(num_queries: int, width: int) -> list[slice]:
    """Cut the queries into slices whose tables of ``width`` columns stay small."""
    size = max(1, _CHUNK // width)
    return [slice(start, min(start + size, num_queries)) for start in range(0, num_queries, size)]


def _gaps(votes: NDArray[np.integer]) -> Floats:
    """Gaps to the winner, a grid step smaller; infinity at the winner itself."""
    gaps = votes.max(axis=1, keepdims=True) - votes - GRID
    gaps[np.arange(len(votes)), votes.argmax(axis=1)] = np.inf
    return np.asarray(gaps)


def _clip(log_q: Floats, num_classes: int) -> Floats:
    return np.minimum(log_q, np.log1p(-1 / num_classes))


def _log1mexp(x: Floats) -> Floats:
    """ln(1 - e^x) for x < 0."""
    return np.where(x > -0.6931471805599453, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
