"""Parts of a specification beside its runs: numbers that were published, and what ``--quick`` keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato._validate import check_int, check_real
from sfumato.experiments._runs import written


@dataclass(frozen=True)
class Published:
    """A published number, in percent, and where.

    ``half_width`` is that of its interval, and ``at`` the value of what its run varies.
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
    """What ``--quick`` keeps of an experiment in about so many minutes on two cores; an empty list keeps all.

    If ``small``, cells of method "pate" get the setting quick = true, so that they are no cells of the full profile.
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
