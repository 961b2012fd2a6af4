"""An analysis says what a run of PATE costs, by data-independent bounds that may be told and data-dependent ones that may not.

A data-dependent epsilon is computed from private votes. It bounds the loss of the run on *this* data against every neighbor,
is valid only for queries fixed before the first answer, and must not be published, nor stop, tune or choose anything: see
:mod:`sfumato.pate._epsilon_release` for a noisy version that may leave.

By default costs are true bounds on Renyi divergences (:mod:`sfumato.pate._data_dependent`), converted tightly over many orders,
and the exact data-independent value is reported where it is smaller. ``as_published`` repeats the papers: their orders, the
classic conversion, and for Confident-GNMax the mean cost, threshold plus Pr[answer] times answer. Never mix the two in a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._validate import check_real
from sfumato.pate._aggregation import (
    ConfidentGNMax,
    InteractiveGNMax,
    LNMax,
    Mechanism,
    check_student,
    on_grid,
    peaks_above,
)
from sfumato.pate._data_dependent import (
    GRID,
    ORDERS,
    PUBLISHED_MOMENTS,
    PUBLISHED_ORDERS,
    Floats,
    chunks,
    confident_renyi,
    gaussian_log_q,
    gaussian_renyi,
    laplace_log_q,
    laplace_renyi,
    log_answer_probability,
    to_epsilon,
)
from sfumato.pate._votes import Votes, check_votes
from sfumato.privacy import accounting


@dataclass(frozen=True)
class Analysis:
    """An analysis holds the cost of asking every row of votes, and what it is made of.

    ``order`` is the Renyi order (the papers' moment is one less), None where the data-independent value is the smaller one.
    ``answered`` is the expected number of answers. ``threshold``, ``answers`` and ``conversion`` add up to ``epsilon`` at the
    order. ``data_independent`` holds for all votes and may be told; as published it is for
    the expected number of answers, and may not.

    ``mechanism``, ``num_queries``, ``delta`` and ``as_published`` repeat what was analyzed; ``releasable`` says whether
    ``epsilon`` may be told.
    """

    mechanism: str
    num_queries: int
    epsilon: float
    order: float | None
    delta: float
    answered: float
    threshold: float
    answers: float
    conversion: float
    data_independent: float
    as_published: bool
    releasable: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the object that the command line prints."""
        return {
            "mechanism": self.mechanism,
            "queries": self.num_queries,
            "epsilon": self.epsilon,
            "order": self.order,
            "delta": self.delta,
            "answered": self.answered,
            "releasable": self.releasable,
            "data_independent_epsilon": self.data_independent,
            "as_published": self.as_published,
        }


def analyze(
    votes: Votes, mechanism: Mechanism, delta: float, *, as_published: bool = False, student: Floats | None = None
) -> Analysis:
    """Bound the cost of asking the teachers every row of ``votes``.

    **Formal guarantee.** For the data D behind the votes and every neighbor D': Pr[answers(D) in S] is at most
    e^epsilon Pr[answers(D') in S] + delta, for queries fixed in advance. With ``as_published`` that is the papers' claim, not
    ours. ``data_independent`` holds for all D: exact for Gaussian noise; every query is taken to be answered (as published:
    the expected number).

    Args:
        votes: counts [queries, classes].
        mechanism: the mechanism that answers.
        delta: failure probability, in (0, 1).
        as_published: the papers' orders, conversion and mean costs.
        student: probabilities [queries, classes], for interactive GNMax; taken as fixed before the first answer of its round.

    Raises:
        InputError: votes that are no counts; delta outside (0, 1).

    >>> votes = np.tile([240, 10, 0, 0, 0, 0, 0, 0, 0, 0], (100, 1))
    >>> result = analyze(votes, LNMax(scale=20.0), 1e-5, as_published=True)
    >>> round(result.epsilon, 4), result.order, result.releasable
    (1.4444, 9.0, False)
    >>> round(analyze(votes, LNMax(scale=20.0), 1e-5).epsilon, 4)
    0.1909

    Source: Papernot et al. (2017), section 3; Papernot et al. (2018), section 4 and appendix A.
    """
    votes = check_votes(votes)
    delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    if isinstance(mechanism, LNMax) and as_published:
        orders = PUBLISHED_MOMENTS + 1
    else:
        orders = PUBLISHED_ORDERS if as_published else ORDERS
    costs = _Costs(votes, mechanism, orders, _peaks(votes, mechanism, student))
    threshold, answers = costs.mean() if as_published else costs.bound()
    by_order = to_epsilon(threshold + answers, orders, delta, "classic" if as_published else "tight")
    best = int(by_order.argmin())
    if as_published:
        free = float(to_epsilon(costs.ceiling(), orders, delta, "classic").min())
    else:
        free = accounting.epsilon(mechanism.events(len(votes)), delta)
    smaller = not as_published and free < by_order[best]
    epsilon = free if smaller else float(by_order[best])
    parts = float(threshold[best]), float(answers[best])
    return Analysis(
        mechanism.name,
        len(votes),
        epsilon,
        None if smaller else float(orders[best]),
        delta,
        float(costs.answer_probability().sum()),
        *parts,
        epsilon - sum(parts),
        free,
        as_published,
    )


def _peaks(votes: Votes, mechanism: Mechanism, student: Floats | None) -> Floats:
    """What the threshold sees, in votes on the grid."""
    if isinstance(mechanism, InteractiveGNMax):
        return np.asarray(peaks_above(votes, check_student(student, votes)) * GRID)
    return np.asarray(on_grid(votes.max(axis=1)) * GRID)


class _Costs:
    """Renyi divergences of a run, summed over queries, at every order."""

    def __init__(self, votes: Votes, mechanism: Mechanism, orders: Floats, peaks: Floats) -> None:
        self.votes, self.mechanism, self.orders, self.peaks = votes, mechanism, orders, peaks
        self.nothing = np.zeros(len(orders))

    def bound(self) -> tuple[Floats, Floats]:
        """Bounds for the threshold (with no answers) and for what answers add."""
        if not isinstance(self.mechanism, ConfidentGNMax):
            return self.mean()
        total, free = self.nothing.copy(), self.nothing.copy()
        given = self.mechanism.threshold, self.mechanism.threshold_stddev, self.orders
        for part in chunks(len(self.votes), len(self.orders)):
            answers = self._answers(part)
            total += confident_renyi(answers, self.peaks[part], *given).sum(axis=0)
            free += confident_renyi(np.zeros_like(answers), self.peaks[part], *given).sum(axis=0)
        return free, total - free

    def mean(self) -> tuple[Floats, Floats]:
        """Threshold and answers, each answer weighted by its probability."""
        weights, answers, threshold = self.answer_probability(), self.nothing.copy(), self.nothing.copy()
        for part in chunks(len(self.votes), len(self.orders)):
            answers += weights[part] @ self._answers(part)
            if isinstance(self.mechanism, ConfidentGNMax):
                log_q = np.minimum(*self._log_sides(part))
                threshold += gaussian_renyi(log_q, 2**0.5 * self.mechanism.threshold_stddev, self.orders).sum(axis=0)
        return threshold, answers

    def ceiling(self) -> Floats:
        """The published data-independent cost of the expected number of answers."""
        if isinstance(self.mechanism, LNMax):
            return len(self.votes) * self.orders * (2 / self.mechanism.scale) ** 2 / 2
        total = self.answer_probability().sum() * self.orders / self.mechanism.noise_stddev**2
        if isinstance(self.mechanism, ConfidentGNMax):
            total = total + len(self.votes) * self.orders / (2 * self.mechanism.threshold_stddev**2)
        return np.asarray(total)

    def answer_probability(self) -> Floats:
        if isinstance(self.mechanism, ConfidentGNMax):
            return np.exp(self._log_sides(slice(None))[0])
        return np.ones(len(self.votes))

    def _log_sides(self, part: slice) -> tuple[Floats, Floats]:
        assert isinstance(self.mechanism, ConfidentGNMax)
        return log_answer_probability(self.peaks[part], self.mechanism.threshold, self.mechanism.threshold_stddev)

    def _answers(self, part: slice) -> Floats:
        return answer_renyi(self.votes[part], self.mechanism, self.orders)


def answer_renyi(votes: Votes, mechanism: Mechanism, orders: Floats) -> Floats:
    """Bound the divergence of each answer, without that of a threshold: [queries, orders]."""
    if isinstance(mechanism, LNMax):
        return laplace_renyi(laplace_log_q(votes, mechanism.scale), 2 / mechanism.scale, orders)
    return gaussian_renyi(gaussian_log_q(votes, mechanism.noise_stddev), mechanism.noise_stddev, orders)
