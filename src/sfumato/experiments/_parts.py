"""Parts of a specification beside its runs: numbers that were published, and what ``--quick`` keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato._validate import check_int, check_real
from sfumato.experiments._runs import written


@dataclass(frozen=True)
class Published:
    """A published number, in percent, and where it is printed.

    Args:
        label: the label of the run that it belongs to.
        value: the number, from 0 to 100.
        source: where it is printed.
        epsilon: the epsilon of its row; None without one.
        half_width: the printed half-width of its interval; None without one.
        at: the value of what its run varies; None if nothing varies.
    """

    label: str
    value: float
    source: str
    epsilon: float | None = None
    half_width: float | None = None
    at: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", written(self.at))
        check_real(low=0, high=100, value=self.value)
        if self.half_width is not None:
            check_real(low=0, high=100, half_width=self.half_width)


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` keeps of an experiment; an empty list keeps all.

    Args:
        seeds: number of seeds, at least 1.
        minutes: about how long it takes on two cores.
        epsilons: the epsilons that are kept.
        values: the varied values that are kept.
        small: cells of method "pate" get the setting quick = true, so that they are no cells of the full profile.
    """

    seeds: int
    minutes: float
    epsilons: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()
    small: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(written, self.values)))
        check_int(low=1, seeds=self.seeds)
        check_real(low=0, minutes=self.minutes)
