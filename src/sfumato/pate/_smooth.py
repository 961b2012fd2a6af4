r"""The smooth sensitivity of a cost decides the noise of its Gaussian release (GNSS).

**Smooth sensitivity.** :math:`SS = \max_d e^{-\beta d} \sum_i L_i(d)`, L_i(d) the local sensitivity of query i within d changed
votes (:mod:`sfumato.pate._sensitivity`): one teacher votes on every query.

Source: Papernot et al. (2018), Scalable Private Learning with PATE, appendix B and C; Nissim, Raskhodnikova and Smith (2007).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato._validate import check_real

if TYPE_CHECKING:
    from sfumato.pate._data_dependent import Floats


def smooth_sensitivity(by_distance: Floats, beta: float) -> float:
    """Compute the smooth sensitivity of a sum from its local sensitivities at every distance."""
    beta = check_real(low=0, open_low=True, beta=beta)
    return float((np.exp(-beta * np.arange(len(by_distance))) * by_distance).max())


def gnss_renyi(beta: float, noise: float, order: float) -> float:
    r"""Compute the Renyi divergence of a value with Gaussian noise of sigma times a beta-smooth sensitivity.

    .. math::
        \frac{\alpha e^{-2 \beta}}{2 \sigma^2 v} + \frac{-\frac12 \ln v - \alpha \beta}{\alpha - 1}, \qquad
        v = 1 - \alpha (1 - e^{-2 \beta}).

    **Formal guarantee.** For neighbors whose values differ by at most the smaller of their smooth sensitivities, which differ
    by a factor of at most e^beta: exact for the worst of them, N(0, sigma^2) against
    :math:`N(e^{-\beta}, e^{-2 \beta} \sigma^2)` in units of the larger. A nearer or less narrow second law has less
    divergence, and so does a wider one.
    Source: divergence of two Gaussians, van Erven and Harremoes (2014), equation 10.
    """
    beta, noise = check_real(low=0, open_low=True, beta=beta), check_real(low=0, open_low=True, noise=noise)
    most = float(-1 / math.expm1(-2 * beta))
    order = check_real("Take a smaller beta.", low=1, high=most, open_low=True, open_high=True, order=order)
    left = 1 + order * math.expm1(-2 * beta)
    deviation = -math.log(left) / 2 - order * beta
    return order * math.exp(-2 * beta) / (2 * noise**2 * left) + deviation / (order - 1)


def published_gnss_renyi(beta: float, noise: float, order: float) -> float:
    r"""Compute the same as published, for tables only: it is *too small*.

    .. math:: \frac{\alpha e^{2 \beta}}{\sigma^2} + \frac{-\frac12 \ln(1 - 2 \alpha \beta) + \alpha \beta}{\alpha - 1}

    The closed form of two Gaussians divides the first term by v, about 1 - 2 alpha beta. The published parameters, alpha beta
    between 0.3 and 0.5, cost up to three times what this says.
    Source: Papernot et al. (2018), theorem 23.
    """
    deviation = -math.log(1 - 2 * order * beta) / 2 + beta * order
    return order * math.exp(2 * beta) / noise**2 + deviation / (order - 1)


class Gnss(NamedTuple):
    """These are the parameters of a release of the cost, and what they give: smooth sensitivity and Renyi cost at the order."""

    order: float
    beta: float
    noise: float
    sensitivity: float
    cost: float


def published_gnss(by_distance: Floats, order: float) -> Gnss:
    """Choose beta and noise as published, *from the votes*: minimal cost plus twice the noise. Not private.

    The grid of beta is 0.30 / order to 0.49 / order by 0.01 / order; the noise is the cube root of alpha e^(2 beta) / SS.
    """
    choices = []
    for beta in (np.arange(30, 50) / 100 / order).tolist():
        sensitivity = smooth_sensitivity(by_distance, beta)
        noise = math.cbrt(order * math.exp(2 * beta) / sensitivity)
        choices.append(Gnss(order, beta, noise, sensitivity, published_gnss_renyi(beta, noise, order)))
    return min(choices, key=lambda choice: choice.cost + 2 * choice.noise * choice.sensitivity)
