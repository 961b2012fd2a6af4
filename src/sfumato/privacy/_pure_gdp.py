r"""Pure events under Gaussian composition: the least mu for which a pure event is mu-GDP.

**Formal guarantee.** An :math:`\epsilon`-DP mechanism is :math:`\mu`-GDP for :math:`\mu = -2 \Phi^{-1}(1 / (1 + e^\epsilon))`.

*Proof.* A test of level :math:`\alpha` has a type II error of at least :math:`f(\alpha) = \max(0, 1 - e^\epsilon \alpha,
e^{-\epsilon} (1 - \alpha))` (Wasserman and Zhou 2010), a line from (0, 1) to :math:`(q, q)` and another one to (1, 0), where
:math:`q = 1 / (1 + e^\epsilon)`. The curve of N(0, 1) against N(mu, 1), :math:`G(\alpha) = \Phi(\Phi^{-1}(1 - \alpha) - \mu)`,
is convex, with G(0) = 1 and G(1) = 0, and :math:`G(q) = \Phi(-\Phi^{-1}(q) - \mu) = \Phi(\Phi^{-1}(q)) = q`. A convex curve is
below its chords, so :math:`G \le f`: the mechanism is at least as hard to tell apart. :math:`\square`

It is the least such mu: for a smaller one G(q) > q = f(q), and randomized response reaches f. Squares add up with those of
Gaussian events (Dong, Roth and Su 2019), also where methods are chosen after earlier answers, as
:class:`~sfumato.privacy._filters.GaussianFilter` says. A few large releases cost more by this sum than by that of their
epsilons, many small ones less: :math:`\mu \approx 1.2533 \epsilon`, so from about :math:`(1.2533 \epsilon_0 / \mu_0)^2` equal
releases on, where :math:`\epsilon_0` is the total and :math:`\mu_0` what it allows (at epsilon 4 and delta 1e-6, 36).

Source: Dong, Roth and Su 2019, section 2, for the curves; the bound is known, and the proof above is complete.
"""

from __future__ import annotations

import math

from sfumato._validate import check_real

_ROUNDING = 1e-12  # relative; the functions used are accurate to some 1e-15


def pure_mu(epsilon: float) -> float:
    """Return mu of a pure event, rounded up.

    >>> round(pure_mu(1.0), 6), round(pure_mu(1e-6) / 1e-6, 6)
    (1.232035, 1.253314)
    """
    epsilon = check_real(low=0, epsilon=epsilon)
    if not epsilon:
        return 0.0
    from scipy.special import erfinv, log_expit, ndtri_exp

    if epsilon < 1:  # 2 p - 1 = tanh(epsilon / 2), without the digits that 1 / (1 + e^epsilon) loses
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(float(log_expit(-epsilon))))
    return mu * (1 + _ROUNDING)


def less_noise(mu: float) -> tuple[str, float]:
    """Return which noise of a count costs mu with the smaller deviation, ``gaussian`` or ``laplace``, and this deviation.

    The count moves by 1. Gaussian noise of deviation 1 / mu is exactly mu-GDP. Of Laplace noise only the pure event is counted,
    which is never less than its own curve: its deviation is the root of 2 over :func:`pure_epsilon`, which is smaller above
    mu = 9.1 alone.

    >>> less_noise(0.25), less_noise(10.0)[0]
    (('gaussian', 4.0), 'laplace')
    """
    mu = check_real(low=0, open_low=True, mu=mu)
    pure = pure_epsilon(mu)
    laplace = math.sqrt(2) / pure if pure else math.inf
    return ("gaussian", 1 / mu) if 1 / mu <= laplace else ("laplace", laplace)


def pure_epsilon(mu: float) -> float:
    """Return the largest epsilon whose pure events are mu-GDP, rounded down: the inverse of :func:`pure_mu`.

    >>> round(pure_epsilon(1.232035), 5)
    1.0
    """
    from scipy.special import log_ndtr

    mu = check_real(low=0, mu=mu) * (1 - 2 * _ROUNDING)
    if mu < 1:  # 2 artanh(erf(mu / sqrt 8)), without the digits that a difference of logarithms loses
        return 2 * math.atanh(math.erf(mu / math.sqrt(8))) * (1 - _ROUNDING)
    return max(0.0, float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - _ROUNDING))
