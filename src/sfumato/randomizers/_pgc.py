"""The randomizer of private graph convolution (PGC): one bit about every feature, each with its own budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sfumato.noise.exact import realized
from sfumato.randomizers._multibit import Bits
from sfumato.randomizers._randomizer import shares


@dataclass(frozen=True)
class PGC(Bits):
    r"""PGC mechanism: every feature sends one bit at **its own** :math:`\epsilon`, so that a user spends :math:`d \epsilon`.

    With :math:`\alpha` = ``low``, :math:`\beta` = ``high`` and :math:`\Delta = \beta - \alpha`, a feature x sends 1 with
    probability :math:`\frac{1}{e^\epsilon + 1} + \frac{x - \alpha}{\Delta} \cdot \frac{e^\epsilon - 1}{e^\epsilon + 1}`. A bit b
    decodes to :math:`\frac{(e^\epsilon + 1) b - 1}{e^\epsilon - 1} \Delta + \alpha`, of variance
    :math:`\Delta^2 \frac{e^\epsilon}{(e^\epsilon - 1)^2} + (x - \alpha)(\beta - x)`.

    **Formal guarantee.** ``total_epsilon``-LDP, ``total_epsilon`` <= d * epsilon, for all features of a user together;
    ``realized_epsilon`` <= epsilon for one feature with the others fixed. Proof: d independent bits, each of
    probability ratio at most e^epsilon, and composition. The published tables print the budget of one feature.

    Args:
        num_features: number of features d.
        epsilon: budget of each single feature, > 0.
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.

    Shapes: reports hold bits uint8 [n, d].

    Raises:
        InputError: a setting is out of range.

    >>> PGC(1433, epsilon=1.0).describe()
    'PGC: epsilon 1433 a user, 1433 bits a report (epsilon 1 for each of 1433 features)'

    Source: Sajadmanesh and Gatica-Perez (2020), When Differential Privacy Meets Graph Neural Networks, equations 2.3 to 2.5.
    """

    _odds = (1, 1)

    @property
    def m(self) -> int:
        """The number of features: all of them report."""
        return self.num_features

    @cached_property
    def total_epsilon(self) -> float:
        """The total that a user spends over its d features, rounded upward."""
        return realized(self._hit, 1, 1, self.num_features)

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The share of words that gives the likelier answer, for each of d bits."""
        return shares(self._hit, 1, 1, self.num_features)

    def describe(self) -> str:
        """Return a line that names first what a user spends in total."""
        return f"{super().describe()} (epsilon {self.epsilon:g} for each of {self.num_features} features)"
