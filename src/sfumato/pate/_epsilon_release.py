r"""The data-dependent epsilon of a run can be told with noise scaled to its smooth sensitivity (GNSS).

**What is released.** With f the sum over queries of the divergences at one *public* order alpha, SS its beta-smooth
sensitivity, two Gaussian releases: :math:`\ln SS` with noise 5 beta (its neighbors differ by at most beta), and
:math:`f + SS \, \sigma Z`. The value told is the largest f that fits both at the stated confidence, with the costs of the two
releases on top.

For Confident-GNMax f charges each query :math:`\alpha / 2 \sigma_1^2` and :func:`sfumato.pate._data_dependent.charged`, whose
sensitivity counts that the probability of an answer moves with the votes. As published, that movement is left out, the noise
costs less than it does (:func:`sfumato.pate._smooth.published_gnss_renyi`), and
beta and noise are chosen from the votes: :func:`published_release` repeats it for tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from sfumato._validate import check_real, fail
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, new_key, operand_mac
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, Mechanism
from sfumato.pate._analysis import Analysis, analyze, answer_renyi
from sfumato.pate._data_dependent import Floats, charged, log_answer_probability, log_tilted_weights, to_epsilon
from sfumato.pate._sensitivity import confident_local_sensitivities, laplace_local_sensitivities, local_sensitivities
from sfumato.pate._smooth import Gnss, gnss_renyi, published_gnss, smooth_sensitivity
from sfumato.pate._votes import Votes, check_votes

_STEP = 2.0**-20  # of released values
_SPREAD = 5  # noise on ln SS, in beta


@dataclass(frozen=True)
class Released:
    """This noisy epsilon may leave, with its share of the cost included; it is at least the true one with ``confidence``.

    With probability ``confidence``, ``epsilon`` bounds at ``delta`` what the data at hand lose against any neighbor (not the
    reverse), by the Renyi divergence of ``order``. ``cost`` is the divergence of telling it, and ``releasable`` says that it
    may leave.

    >>> Released(2.5, 14.0, 1e-5, 0.95, cost=0.7).releasable
    True
    """

    epsilon: float
    order: float
    delta: float
    confidence: float
    cost: float
    releasable: bool = True


def release_epsilon(
    votes: Votes,
    mechanism: Mechanism,
    delta: float,
    *,
    order: float,
    beta: float,
    noise: float,
    confidence: float = 0.95,
    key: Key | None = None,
) -> Released:
    r"""Release an upper bound on the data-dependent epsilon of a run, noise included.

    **Formal guarantee.** For the data D at hand and every neighbor: answers and the released value together lose at most
    epsilon(D) at delta, where :math:`\epsilon(D) = f(D) + c + \ln(1 - 1/\alpha) - \ln(\alpha \delta) / (\alpha - 1)` and c is
    ``cost``. The released number is at least epsilon(D) with probability ``confidence`` over its own noise, and may leave.
    Release it once: every release costs.

    Args:
        votes: counts [queries, classes], queries fixed before the first answer.
        mechanism: LNMax, GNMax or Confident-GNMax.
        delta: failure probability of the run.
        order: alpha, chosen without looking at these votes, and below about 1 / (2 beta).
        beta: smoothness, chosen likewise; about 0.2 / order.
        noise: sigma in units of the smooth sensitivity, chosen likewise; 5 to 10.
        confidence: the probability of the bound, in (0, 1).
        key: the key of the noise, for tests alone; leave it out.

    Raises:
        InputError: another mechanism, parameters out of range, or without a proof (C5, C6 of GNMax).

    >>> votes = np.tile([180, 30, 20, 10, 10, 0, 0, 0, 0, 0], (500, 1))
    >>> result = release_epsilon(votes, GNMax(40.0), 1e-5, order=14.0, beta=0.015, noise=8.0, key=bytes(32))
    >>> round(result.cost, 3), bool(result.epsilon > analyze(votes, GNMax(40.0), 1e-5).epsilon)
    (0.465, True)

    Source: Papernot et al. (2018), appendix B; the noisy margin is ours.
    """
    votes = check_votes(votes)
    confidence = check_real(low=0, high=1, open_low=True, open_high=True, confidence=confidence)
    beta = check_real(low=0, high=0.5, open_low=True, open_high=True, beta=beta)
    cost = gnss_renyi(beta, noise, order) + order / (2 * _SPREAD**2)
    by_query, by_distance = _cost_and_sensitivities(votes, mechanism, order)
    sensitivity = smooth_sensitivity(by_distance, beta) + 2 * _STEP
    key = new_key() if key is None else key
    key = derive_key(key, "pate", "epsilon", operand_mac(key, votes))
    spread = _SPREAD * (beta + 2 * _STEP)
    told = _noisy(math.log(sensitivity), spread, derive_key(key, "sensitivity"))
    total = _noisy(float(by_query.sum()), noise * sensitivity, derive_key(key, "total"))
    sure = float(-ndtri((1 - confidence) / 2))
    upper = max(0.0, total + sure * noise * math.exp(told + sure * spread) + _STEP)
    at = np.array([order])
    return Released(float(to_epsilon(np.array([upper + cost]), at, delta)[0]), order, delta, confidence, cost)


def published_release(votes: Votes, mechanism: Mechanism, delta: float) -> tuple[Analysis, Gnss, float]:
    """Compute the papers' table: the analysis, the parameters chosen from the votes, and epsilon after the release, less noise.

    Args:
        votes: counts [queries, classes].
        mechanism: GNMax or Confident-GNMax.
        delta: failure probability, in (0, 1).

    Raises:
        InputError: another mechanism.

    Not private: order, beta and noise come from the votes.

    >>> votes = np.tile([180, 30, 20, 10, 10, 0, 0, 0, 0, 0], (500, 1))
    >>> before, chosen, after = published_release(votes, GNMax(40.0), 1e-5)
    >>> round(before.epsilon, 4), round(chosen.sensitivity, 4), round(after, 4)
    (2.9452, 0.2132, 3.9613)
    """
    votes = check_votes(votes)
    if not isinstance(mechanism, GNMax | ConfidentGNMax) or isinstance(mechanism, InteractiveGNMax):
        raise fail("mechanism", mechanism.name, "to be gnmax or confident-gnmax", "No other release was published.")
    before = analyze(votes, mechanism, delta, as_published=True)
    assert before.order is not None
    weights = np.ones(len(votes))
    if isinstance(mechanism, ConfidentGNMax):
        peaks = votes.max(axis=1).astype(float)
        weights = np.exp(log_answer_probability(peaks, mechanism.threshold, mechanism.threshold_stddev)[0])
    chosen = published_gnss(weights @ local_sensitivities(votes, mechanism.noise_stddev, before.order), before.order)
    return before, chosen, before.epsilon + chosen.cost


def _cost_and_sensitivities(votes: Votes, mechanism: Mechanism, order: float) -> tuple[Floats, Floats]:
    """Divergences of each query at the order, and the local sensitivities of their sum by distance."""
    if isinstance(mechanism, InteractiveGNMax):
        remedy = "Report the data-independent epsilon, or answer with one of these."
        raise fail("mechanism", mechanism.name, "to be lnmax, gnmax or confident-gnmax for a release", remedy)
    answers = answer_renyi(votes, mechanism, np.array([order]))[:, 0]
    if isinstance(mechanism, LNMax):
        return answers, laplace_local_sensitivities(votes, mechanism.scale, order).sum(axis=0)
    sigma = mechanism.noise_stddev
    if not isinstance(mechanism, ConfidentGNMax):
        return answers, local_sensitivities(votes, sigma, order).sum(axis=0)
    given = mechanism.threshold, mechanism.threshold_stddev
    peaks = votes.max(axis=1).astype(float)
    costs = order / (2 * mechanism.threshold_stddev**2) + charged(
        answers, log_tilted_weights(peaks, *given, order), order
    )
    return costs, confident_local_sensitivities(votes, peaks, *given, sigma, order).sum(axis=0)


def _noisy(value: float, stddev: float, key: Key) -> float:
    """A value rounded up to the grid, with rounded Gaussian noise."""
    return (math.ceil(value / _STEP) + int(rounded_gaussian(key, stddev / _STEP, 0, 1)[0])) * _STEP
