r"""What a plan costs if it runs on a secret sample of the records.

**Sampling.** Each record stays with probability q by a secret coin of its own; all others become empty before anything is
computed. The sample stays secret, and so does whatever names its members.

**Claim.** If a plan is :math:`(\epsilon', \delta')`-DP when one record becomes empty, in both directions, then sampling and plan
together are :math:`(\log(1 + q (e^{\epsilon'} - 1)), q \delta')`-DP. *Proof:* fix the coins of all others, and let P and N be
the laws of what leaves if v's record stays and if it does not. Where v is empty, the law is N either way; so the two laws are
:math:`q P + (1 - q) N` and N. With :math:`e^\epsilon = 1 + q (e^{\epsilon'} - 1)`, for every event E

.. math:: q P(E) + (1 - q) N(E) - e^\epsilon N(E) = q \, (P(E) - e^{\epsilon'} N(E)) \le q \delta' .

In the other direction take away the outcomes with N < P: they only lower the difference. On the others

.. math:: N - e^\epsilon (q P + (1 - q) N) = q (N - e^{\epsilon'} P) - q (1 - q) (e^{\epsilon'} - 1) (N - P)
          \le q (N - e^{\epsilon'} P) ,

of which the sum is at most :math:`q \delta'`. The coins of others are averaged over, which keeps both bounds.

Source: Li, Qardaji and Su (2012), theorem 1. Multiplying epsilon by q, as published code does, is no bound.
"""

from __future__ import annotations

import math

from sfumato._validate import check_real


def sampled_epsilon(epsilon: float, rate: float) -> float:
    r"""Return :math:`\log(1 + q (e^{\epsilon'} - 1))`, what remains of an epsilon if records are sampled; delta becomes q delta.

    **Formal guarantee.** That of the module: records become empty, add-remove, and the sample stays secret.

    >>> round(sampled_epsilon(1.0, 0.09), 3), round(sampled_epsilon(89.0, 0.09), 1)
    (0.144, 86.6)
    """
    check_real(low=0, epsilon=epsilon)
    check_real(low=0, high=1, open_low=True, rate=rate)
    if epsilon < 1:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))


def inner_epsilon(epsilon: float, rate: float) -> float:
    r"""Return :math:`\log(1 + (e^\epsilon - 1) / q)`, what a plan may cost on the sample; the inverse of :func:`sampled_epsilon`.

    >>> round(inner_epsilon(8.0, 0.09), 2)
    10.41
    """
    check_real(low=0, epsilon=epsilon)
    check_real(low=0, high=1, open_low=True, rate=rate)
    if epsilon < 1:
        return math.log1p(math.expm1(epsilon) / rate)
    return epsilon + math.log((1 - math.exp(-epsilon)) / rate + math.exp(-epsilon))
