"""The limit that a plan may not exceed."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato._validate import check_real


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) limit on privacy loss, fixed before any data is seen.

    Args:
        epsilon: bound on the log-ratio, > 0.
        delta: failure probability, in [0, 1). Choose it well below 1 / (number of records), as a public number; 0 asks for
            pure differential privacy, which methods with Laplace noise or randomized response give.

    Raises:
        InputError: a value is outside its range.

    >>> Budget(epsilon=1.0, delta=1e-7).epsilon
    1.0
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        remedy = "Smaller means more private; 1 is a common choice. For no privacy use unit none."
        object.__setattr__(self, "epsilon", check_real(remedy, low=0, open_low=True, epsilon=self.epsilon))
        remedy = "Choose a public number well below 1 / (number of records), such as 1e-7."
        object.__setattr__(self, "delta", check_real(remedy, low=0, high=1, open_high=True, delta=self.delta) + 0.0)
