r"""PATE from end to end: teachers are trained again on two data sets that differ in one record, and answer until they run dry.

Each teacher is a nearest neighbor: the record next to the queries decides its vote, and the others are far away. One record has
another class in the second data set, so that one vote moves on every query. Votes are two by two nearly even, where an answer
tells most of one vote; after Laplace noise the class asked for lies so far behind that its rare answers have the worst ratio.

The attacker knows both data sets and reads the answers: he counts how often the first class was the answer. An answer tells
less than the noisy counts of which it names the largest, and those are what is charged. So of Gaussian noise even the best attack
on many even votes finds no more than :math:`\sqrt{2 / \pi}`, 80 %, of :math:`\mu`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato._validate import check_int
from sfumato.audit._evidence import CONFIDENCE, Audit
from sfumato.audit._thresholds import Explicit, audit_runs
from sfumato.pate._aggregation import LNMax
from sfumato.pate._teachers import assign, train_each
from sfumato.privacy.accounting import epsilon

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.pate._aggregation import Answers
    from sfumato.pate._votes import Votes
    from sfumato.privacy.events import Event

_TEACHERS, _FAR = 25, 3.0


class Aggregator(Protocol):
    """What answers by the votes of teachers."""

    @property
    def name(self) -> str: ...
    def events(self, num_queries: int) -> tuple[Event, ...]: ...
    def aggregate(self, votes: Votes) -> Answers: ...


class Nearest:
    """A teacher that predicts the class of the nearest of its records."""

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        self.x, self.y = x, y

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.y[np.abs(x[:, :1] - self.x[:, 0]).argmin(1)])


def audit_teachers(
    mechanism: Aggregator,
    *,
    queries: int,
    delta: float,
    runs: int = 2000,
    confidence: float = CONFIDENCE,
    told: Callable[[int, int], None] | None = None,
) -> Audit:
    """Return the epsilon that answers to ``queries`` rule out, of teachers who are trained anew in each run.

    **Formal guarantee.** Unit: one record, replaced under its id. If all noise of votes is what the events of the mechanism
    state, or more, the audit is flagged with probability at most 1 - ``confidence``. The bound of Gaussian noise refutes the
    claimed noise, and that of Laplace noise any claim.

    Args:
        mechanism: answers by votes.
        queries: how many are asked in a run.
        delta: of the claim.
        runs: on each of both data sets.
        confidence: of the bound.
        told: is told of progress.

    >>> found = audit_teachers(LNMax(0.5), queries=1, delta=1e-6, runs=1000)
    >>> 1.0 < found.epsilon_lower_bound < found.claimed <= 4.0
    True
    """
    check_int(low=2, runs=runs)
    laplace = isinstance(mechanism, LNMax)
    behind = round(_FAR * mechanism.scale) if isinstance(mechanism, LNMax) else 1
    found: list[list[float]] = [[], []]
    data = [_records(behind, label) for label in (0, 1)]
    for number in range(runs):
        for scores, (x, y, ids) in zip(found, data, strict=True):
            trained = train_each(lambda _: Nearest(), x, y, ids, num_teachers=_TEACHERS, num_classes=2)
            answers = mechanism.aggregate(trained.votes(np.zeros((queries, 1)))).labels
            scores.append(float((answers == 0).sum() - (answers == 1).sum()))
        if told is not None and number % 50 == 0:
            told(number, runs)
    about: dict[str, Any] = {"knowledge": "both data sets and all answers", "delta": delta, "confidence": confidence}
    one = audit_runs(
        *found, name="votes of teachers trained again", policy=Explicit(0.0), gaussian=not laplace, **about
    )
    claim = epsilon(list(mechanism.events(queries)), delta)
    return Audit(f"PATE, {mechanism.name}", "one record, replaced", claim, delta, confidence, (one,))


def _records(behind: int, label: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Three records of each teacher: the one at 0 decides. Class 0 is ``behind`` with the label 1, by two less with 0."""
    ids = np.arange(40 * _TEACHERS)
    teachers = assign(ids, _TEACHERS)
    own = np.array([np.flatnonzero(teachers == one)[:3] for one in range(_TEACHERS)])
    x, y = np.tile([0.0, 5.0, 6.0], (_TEACHERS, 1)), np.tile([0, 0, 1], (_TEACHERS, 1))
    y[:, 0] = np.arange(_TEACHERS) >= (_TEACHERS - behind) // 2 + 1
    y[0, 0] = label
    return x.reshape(-1, 1), y.ravel(), own.ravel()
