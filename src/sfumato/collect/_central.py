"""What a report costs its user: against the server, and against whoever sees the reports of an anonymous survey alone.

**Formal guarantee.** The local cost is that of the schema, whoever looks. The central one is that of
:func:`~sfumato.privacy._shuffling.shuffled_epsilon`, for the value of one user, if the assumption holds that is stated with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_int, check_real
from sfumato.errors import DataError, InputError
from sfumato.privacy._shuffling import MOST_LOCAL, shuffled_epsilon

if TYPE_CHECKING:
    from sfumato.collect._schema import Schema

DELTA = 1e-6
ASSUMPTION = (
    "It holds against whoever sees the closed file or what is computed from it, and not against the server. It takes on trust "
    "that the server noted neither addresses nor times of reports and signed tokens for enrolled devices alone, and that as many "
    "reports as stated are honest, one a user."
)
NAMED = "Each report is tied to its user, so nothing hides among others, and there is no central epsilon."
APPROXIMATE = "Reports are private up to a delta, for which no central epsilon is proved here."
LARGE = f"The local epsilon is above {MOST_LOCAL:g}, where nothing hides among others."


@dataclass(frozen=True)
class Central:
    """A claim for the reports of an anonymous survey, of which ``honest`` are taken for honest and ``dishonest`` not."""

    epsilon: float
    delta: float
    honest: int
    dishonest: int
    assumption: str = ASSUMPTION


@dataclass(frozen=True)
class Privacy:
    """The local cost of a report, and the central one, or ``why`` there is none."""

    epsilon: float
    delta: float
    central: Central | None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        local = {"epsilon": self.epsilon, "delta": self.delta}
        return {"local": local, "central": None if self.central is None else asdict(self.central), "why": self.why}


def most_delta(reports: int) -> float:
    """Return the largest delta of a claim for so many ``reports``, a tenth of their inverse.

    A delta is also the probability that a user's report is shown as it is: with one of 1 / n nobody would wonder at one such
    report in each survey of n, and with one of 0.5 every claim about epsilon is true and says nothing.
    """
    return 1 / (10 * reports)


def privacy_of(schema: Schema, reports: int, delta: float | None = None, dishonest: int | None = None) -> Privacy:
    """Return what a report to ``schema`` cost its user, among so many ``reports``; ``delta`` is 1e-6 or less if it is None.

    Raises:
        InputError: ``delta`` or ``dishonest`` is out of range, such as a delta above :func:`most_delta`.
        DataError: an anonymous survey has fewer reports than its schema wants.
    """
    if delta is not None:
        check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    local = schema.epsilon, schema.delta
    if schema.anonymous is None:
        return Privacy(*local, None, NAMED)
    if reports < schema.anonymous.least_reports:
        raise DataError(
            f"Expected {schema.anonymous.least_reports:,} anonymous reports or more, got {reports:,}. With fewer nothing is "
            "computed."
        )
    if schema.delta or schema.epsilon > MOST_LOCAL:
        return Privacy(*local, None, APPROXIMATE if schema.delta else LARGE)
    most = most_delta(reports)
    if delta is None:
        delta = min(DELTA, most)
    elif delta > most:
        raise InputError(
            f"Expected delta to be {most:.3g} or less among {reports:,} reports, a tenth of one in their number, got {delta:g}. "
            "With more, a claim would hold although single reports are shown. Take less, or leave it out."
        )
    others = reports // 2 if dishonest is None else check_int(low=0, high=reports - 1, dishonest=dishonest)
    honest = reports - others
    return Privacy(*local, Central(shuffled_epsilon(schema.epsilon, honest, delta), delta, honest, others))
