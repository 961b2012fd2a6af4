r"""Published numbers that are no bounds, for tables beside ours. A certificate never uses them.

**Theorem 5 is not a bound.** For Algorithm 5 with cells drawn with probability q, noise of deviation :math:`\sigma S` and T
steps it states :math:`\epsilon = 4 q \sqrt{T \ln(1 / \delta)} / \sigma` if a cell is replaced (Remark 1: 2 in place of 4 if it is
removed). What does not hold in its proof:

* Equation 4.5 uses :math:`e^{4 / \sigma^2} - 1 \le 4 / \sigma^2`, which is the wrong way round.
* Terms of order :math:`q^3` are left out when T steps are added, and :math:`\kappa (\kappa + 1)` becomes :math:`\kappa^2`.
* The pair of Lemma 3 is a Gaussian against a mixture. If a cell is replaced, both data sets give a mixture.
* Its conditions, :math:`q < 1 / (16 \sigma)` and :math:`q < \sqrt{\epsilon / (64 \sqrt{T \ln(1 / \delta)})}`, fail at every
  published setting (q = 0.2 and 0.33).

Against the exact sampled Gaussian mechanism: for the published digits (sigma 1.6, 3, 3.65; q = 0.2, delta = 1e-3) it states
18.6, 8.2 and 7, which are T = 200, 137 and 148 steps, where the truth is 15.9, 5.4 and 4.5. For the published faces (sigma
0.8, 1.2, 1.6; q = 0.33, delta = 1e-2) it states 62, 45.5 and 40.5, which are T = 307, 371 and 523 steps, where the truth is
112.5, 71.8 and 61.4: the claims are false. It can be false where its conditions hold, too: q = 0.05, sigma = 1, T = 10,000 and
delta = 1e-3 give 52.6, and the truth is 83.7.

A sound bound of the same kind is ``accounting.epsilon(events, delta, method="moments")``: Renyi divergences of the right pair.

**The strong composition of 2016 is not a bound** at its own example. It takes the epsilon of a step from the classical
calibration of a Gaussian, which has no proof above 1 (there it is 1.46), and says that sampling makes it q times as small, where
it makes it ln(1 + q (e^epsilon - 1)) (there 0.033 and not 0.015). With proved steps its 9.34 would be 17.2; the truth is 0.95.

Sources: the thesis on class-level privacy, section 4.4; Abadi et al. (2016), section 3.1, as the slides show it.
"""

from __future__ import annotations

import math

from sfumato._validate import check_choice, check_int, check_real

_FACTORS, _CONDITIONS = {"replace": 4, "add-remove": 2}, {"replace": 64, "add-remove": 32}


def theorem_5_epsilon(
    sampling_prob: float, noise_multiplier: float, steps: int, delta: float, relation: str = "replace"
) -> float:
    """Return the epsilon that Theorem 5 states, or Remark 1 for ``add-remove``. It is *not* an upper bound (top of this file).

    ``sampling_prob`` is q, ``noise_multiplier`` sigma, the standard deviation of the noise over S, and ``steps`` T.

    >>> round(theorem_5_epsilon(0.2, 1.6, steps=200, delta=1e-3), 1)
    18.6
    """
    _check(sampling_prob, noise_multiplier, steps, delta)
    factor = _FACTORS[check_choice(tuple(_FACTORS), relation=relation)]
    return factor * sampling_prob * math.sqrt(steps * -math.log(delta)) / noise_multiplier


def strong_composition_epsilon(sampling_prob: float, noise_multiplier: float, steps: int, delta: float) -> float:
    r"""Return the epsilon of the comparison in figure 2 of Abadi et al. (2016). It is *not* an upper bound (top of this file).

    A step has :math:`\epsilon_0 = q \sqrt{2 \ln(1.25 / \delta_0)} / \sigma` at :math:`\delta_0 = \delta / (2 q T)`, and T of them
    :math:`\sqrt{2 T \ln(2 / \delta)} \epsilon_0 + T \epsilon_0^2`. Arguments are those of :func:`theorem_5_epsilon`.

    >>> round(strong_composition_epsilon(0.01, 4.0, steps=10_000, delta=1e-5), 2)
    9.34
    """
    _check(sampling_prob, noise_multiplier, steps, delta)
    step_delta = min(delta / 2 / (sampling_prob * steps), 1.0)
    step = sampling_prob * math.sqrt(2 * math.log(1.25 / step_delta)) / noise_multiplier
    return math.sqrt(2 * steps * math.log(2 / delta)) * step + steps * step**2


def theorem_5_applies(
    sampling_prob: float, noise_multiplier: float, steps: int, delta: float, relation: str = "replace"
) -> bool:
    r"""Return whether the conditions hold under which Theorem 5 is stated. They do not make it true.

    They are :math:`q < 1 / (16 \sigma)`, :math:`\kappa \le \sigma^2 \ln(1 / (q \sigma))` with the order
    :math:`\kappa = 2 \ln(1 / \delta) / \epsilon` that its proof takes, and
    :math:`q < \sqrt{\epsilon / (64 \sqrt{T \ln(1 / \delta)})}` (Remark 1: 32).

    >>> theorem_5_applies(0.2, 1.6, steps=200, delta=1e-3), theorem_5_applies(0.05, 1.0, steps=10000, delta=1e-3)
    (False, True)
    """
    stated = theorem_5_epsilon(sampling_prob, noise_multiplier, steps, delta, relation)
    order = 2 * -math.log(delta) / stated
    return (
        sampling_prob < 1 / (16 * noise_multiplier)
        and order <= noise_multiplier**2 * math.log(1 / (sampling_prob * noise_multiplier))
        and sampling_prob < math.sqrt(stated / (_CONDITIONS[relation] * math.sqrt(steps * -math.log(delta))))
    )


def _check(sampling_prob: float, noise_multiplier: float, steps: int, delta: float) -> None:
    check_real(low=0, high=1, open_low=True, sampling_prob=sampling_prob)
    check_real(low=0, open_low=True, noise_multiplier=noise_multiplier)
    check_int(low=1, steps=steps)
    check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
