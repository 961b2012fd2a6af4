r"""From scores to the mu of Gaussian differential privacy that a mechanism exceeds, and to its epsilon.

A mechanism is mu-GDP if no test between two neighbors does better than one between N(0, 1) and N(mu, 1): a test of true
positive rate t and false positive rate f has :math:`\Phi^{-1}(t) - \Phi^{-1}(f) \le \mu`. A Gaussian release of noise
multiplier z has mu = 1 / z, a composition of them the root of the sum of squares, and it is
(epsilon, delta)-DP exactly where the closed form of Balle and Wang says so. What each function refutes:

* :func:`~sfumato.audit._thresholds.audit_runs` with ``gaussian`` refutes the claimed *noise*, that is the claim of mu-GDP that a
  plan of Gaussian releases makes. Its epsilon is that of the mu found. It is no bound for a mechanism whose claim is
  (epsilon, delta) alone, since the test that was tried may have its advantage elsewhere on the curve.
* :func:`audit_means` assumes exactly normal scores of one variance. Then their whole trade-off curve is known, what was
  computed from the outputs is no easier to tell apart than the outputs are, and so its epsilon refutes the
  (epsilon, delta) claim as well as the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy.special import chdtri, ndtri

from sfumato._validate import check_int, check_real, fail
from sfumato.audit._bounds import clopper_pearson
from sfumato.audit._evidence import CONFIDENCE, Evidence, check_scores
from sfumato.privacy.accounting import epsilon as epsilon_of
from sfumato.privacy.events import GaussianEvent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_DELTA_UP = 1 + 1.1e-9  # relative; the accountant rounds delta up by half of it
_EPSILON_DOWN = 1 - 2.0**-49
_LEAST_MU = 1e-9


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return an epsilon for which a mechanism with the trade-off curve of mu-GDP is not (epsilon, delta)-DP.

    **Formal guarantee.** It is never above the exact one. The accountant rounds up by less than 5.1e-10 relative in
    delta, and is asked at a delta that is larger by 1.1e-9.

    Source: Balle and Wang 2018, theorem 8; Dong, Roth and Su 2019, corollary 2.13.
    """
    mu = check_real(low=0, mu=mu)
    delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    if mu < _LEAST_MU or delta * _DELTA_UP >= 1:
        return 0.0
    return epsilon_of([GaussianEvent(1 / mu)], delta * _DELTA_UP) * _EPSILON_DOWN


def mu_lower_bound(
    true_positives: int, positives: int, false_positives: int, negatives: int, *, confidence: float = CONFIDENCE
) -> float:
    r"""Return a mu that a mechanism exceeds, from the counts of one attack that was fixed before.

    With t the lower bound of Clopper and Pearson on the true positive rate and f the upper one on the false positive rate,
    each at risk (1 - confidence) / 2, it is :math:`\max(0, \Phi^{-1}(t) - \Phi^{-1}(f))`.

    **Formal guarantee.** If the mechanism is mu-GDP, the result exceeds mu with probability at most 1 - confidence.

    Source: Nasr et al. 2023, section 4.
    """
    low, _ = clopper_pearson(true_positives, positives, confidence)
    _, high = clopper_pearson(false_positives, negatives, confidence)
    return max(0.0, float(ndtri(low) - ndtri(high))) if low > 0 and high < 1 else 0.0


def mean_shift_lower_bound(
    members: ArrayLike, others: ArrayLike, *, confidence: float = CONFIDENCE, stddev: float | None = None
) -> float:
    r"""Return a lower bound on the distance of two normal means in standard deviations, 0 if there is none above 0.

    With n members and m others, D the difference of their means and z the normal quantile of the risk, the bound is
    :math:`D / \sigma - z \sqrt{1/n + 1/m}`. A :math:`\sigma` that is not known is replaced by the upper bound
    :math:`s \sqrt{(n + m - 2) / \chi^2}` of the pooled deviation s, and the risk is shared by both quantiles.

    **Formal guarantee.** For independent normal scores of one standard deviation, the result exceeds the distance with
    probability at most 1 - ``confidence``.

    ``stddev`` has to be known for certain, which the claimed noise is not.
    """
    members, others = check_scores("members", members), check_scores("others", others)
    risk = 1 - check_real(low=0, high=1, open_low=True, open_high=True, confidence=confidence)
    if stddev is None:
        risk /= 2
        freedom = check_int("Known scores need a spread.", low=2, scores=len(members) + len(others) - 2)
        squares = ((members - members.mean()) ** 2).sum() + ((others - others.mean()) ** 2).sum()
        if squares == 0:
            raise fail("members", "scores without spread", "to be normal", "Use audit_runs for scores of few values.")
        stddev = math.sqrt(squares / chdtri(freedom, 1 - risk))
    stddev = check_real(low=0, open_low=True, stddev=stddev)
    error = math.sqrt(1 / len(members) + 1 / len(others))
    return max(0.0, float((members.mean() - others.mean()) / stddev + ndtri(risk) * error))


def audit_means(
    members: ArrayLike,
    others: ArrayLike,
    *,
    name: str,
    knowledge: str,
    delta: float,
    confidence: float = CONFIDENCE,
    stddev: float | None = None,
) -> Evidence:
    """Return the epsilon of two normal laws whose means differ by as much as the scores rule out.

    It is for log-likelihood ratios of Gaussian releases, which are normal with one variance under both data sets if
    the release is a fixed vector plus normal noise. No threshold is chosen, and nothing is lost at rare errors.

    **Formal guarantee.** If the scores are independent and exactly normal of one standard deviation with and without
    the canary, and the mechanism is (epsilon, delta)-DP, the bound exceeds epsilon with probability at most
    1 - ``confidence``: the scores are computed from its outputs, and their own curve is that of mu-GDP.

    Without a ``stddev`` that is known for certain, an upper bound from the scores is used, so that noise of another size than
    claimed is found.

    Source: Andrew et al. 2023, section 3, with bounds in place of estimates.
    """
    members, others = check_scores("members", members), check_scores("others", others)
    mu = mean_shift_lower_bound(members, others, confidence=confidence, stddev=stddev)
    spread = "estimated" if stddev is None else "known"
    return Evidence(
        name,
        knowledge,
        epsilon_of_mu(mu, delta),
        confidence,
        len(members) + len(others),
        f"difference of means of normal scores of one {spread} variance",
        members,
        others,
    )
