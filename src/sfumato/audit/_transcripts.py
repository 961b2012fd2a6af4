r"""White box: two data sets that differ in one record, and all noisy sums of a run, those of every training step included.

The method runs thousands of times on either data set, by its own code and with fresh keys. The attacker knows both data sets and
sees each noisy sum :math:`R_k = S_k + N_k` before anything is made of it (:mod:`sfumato.noise._witness`), as the proofs of
composition allow him. With :math:`D_k` the difference of the two exact sums and :math:`\sigma_k` the deviation of the noise, he
scores a run by

.. math:: t = \frac{\sum_k \langle R_k, D_k \rangle / \sigma_k^2}{\sqrt{\sum_k \|D_k\|^2 / \sigma_k^2}}.

**Claim.** If noise is normal and the exact sums :math:`S_k` do not depend on earlier noise, t is normal with variance 1 under
both data sets, its means are :math:`\mu = (\sum_k \|D_k\|^2 / \sigma_k^2)^{1/2}` apart, and no attack on the run does better.

*Proof.* The sums are then fixed vectors plus independent normal noise, so that t is the log-likelihood ratio up to a shift and a
scale (Neyman and Pearson). :math:`\square`

The data sets and the settings are chosen so that sums depend on earlier noise hardly at all (:mod:`~sfumato.audit._worst`). Sums
that do are left out: of those, differences over a few runs are not alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.audit._evidence import Evidence
from sfumato.audit._gaussian import audit_means, epsilon_of_mu
from sfumato.audit._thresholds import audit_runs
from sfumato.audit._worst import pairs
from sfumato.method.contract import Session
from sfumato.noise._witness import witness
from sfumato.noise.keys import new_key
from sfumato.record.ledger import Ledger

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Plan
    from sfumato.method.contract import Listed
    from sfumato.noise._witness import Exact, Steps
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

    Floats = NDArray[np.float64]
    Place = tuple[str, tuple[int, ...], int]
    Seen = dict[Place, tuple[Floats, float]]

_TAUGHT, _ALIKE, _ENOUGH, _SEVERAL = 8, 0.5, 0.95, 8
_WIDE, _LONG, _SPREAD = 1000, 8, 1e-9
_KNOWS = "both data sets, and all noisy sums of a run"


def audit_transcripts(
    method: Listed,
    unit: Unit,
    budget: Budget,
    *,
    runs: int,
    confidence: float,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> tuple[Evidence, frozenset[str], str]:
    """Return the epsilon that noisy sums of many runs on two neighboring data sets rule out, and the releases that were read.

    The last of the three says what is wrong with the noise itself (:func:`broken_noise`), or nothing.

    **Formal guarantee.** If scores are normal as the module says, and the method is (epsilon, delta)-DP at the delta of the
    budget, the bound exceeds epsilon with probability at most 1 - ``confidence``: runs have keys of their own, so that
    scores are independent.

    Args:
        method: what is audited, with settings of :func:`~sfumato.audit._worst.still`.
        unit: node or record level.
        budget: that is claimed.
        runs: how often the method is run on each of both data sets; 3/8 as often if it has more than 8 noisy sums.
        confidence: of the bound.
        seed: of public parts of the runs.
        told: is told of progress.
    """
    check_int(low=2, runs=runs)
    best = worst(method, unit, budget, seed)
    name = "one record, all noisy sums"
    if best is None:
        return Evidence(name, _KNOWS, 0.0, confidence, 0, "no scores", reach=0.0), frozenset(), ""
    plan, worlds, moves, apart = best
    if len(seen(plan, worlds[0], seed)) > _SEVERAL:
        runs = max(2, 3 * runs // 8)  # they take longer
    found: list[list[float]] = [[], []]
    for number in range(runs):
        for scores, world in zip(found, worlds, strict=True):
            scores.append(score(seen(plan, world, seed), moves))
        if told is not None and number % 50 == 0:
            told(number, runs)
    spread = max(float(np.std(scores)) for scores in found)
    bound = (audit_means if spread > _SPREAD else audit_runs)(
        *found, name=name, knowledge=_KNOWS, delta=plan.delta or 0.0, confidence=confidence
    )
    exact = epsilon_of_mu(apart, plan.delta or 0.0)
    bound = replace(bound, estimator=f"{bound.estimator}; exact sums are epsilon {exact:.3g} apart")
    return bound, frozenset(place[0] for place in moves), " ".join(broken_noise(plan, worlds[0], seed))


def broken_noise(plan: Plan, graph: Graph, seed: int) -> Iterator[str]:
    """Run a plan three times, and yield a sentence for each release with entries without noise, or noise that comes again.

    **Formal guarantee.** Noise of at least 1,000 steps of deviation is a given number with probability below 4e-4. So an honest
    entry is without noise in three runs with probability below 7e-11, and eight entries come again with one below 1e-27.
    """
    noises = [
        {place: noise for place, (noise, stddev) in seen(plan, graph, seed, what="noise").items() if stddev >= _WIDE}
        for _ in range(3)
    ]
    places = set.intersection(*map(set, noises))
    bare = {place[0] for place in places if not np.any([one[place] for one in noises], axis=0).all()}
    for name in sorted(bare):
        yield f"Entries of {name} have no noise."
    drawn = Counter(noise.tobytes() for one in noises for noise in one.values() if len(noise) >= _LONG)
    again = {place[0] for one in noises for place, noise in one.items() if drawn[noise.tobytes()] > 1}
    for name in sorted(again):
        yield f"Noise of {name} comes more than once: the difference of such sums is exact."


def worst(
    method: Listed, unit: Unit, budget: Budget, seed: int
) -> tuple[Plan, tuple[Graph, Graph], Seen, float] | None:
    """Return the pair of data sets whose exact sums are the farthest apart, by how much each moves, and how far that is."""
    best, farthest = None, 0.0
    for plan, worlds in pairs(method, unit, budget):
        taught = [[seen(plan, world, seed, what="exact") for _ in range(_TAUGHT)] for world in worlds]
        moves = differences(*taught)
        apart = float(np.mean([apart_of(one, moves) for one in taught[0]]))
        if apart > farthest:
            best, farthest = (plan, worlds, moves, apart), apart
        if epsilon_of_mu(farthest, plan.delta or 0.0) > _ENOUGH * (plan.epsilon or 0.0):
            break
    return best


def taught_of(plan: Plan, worlds: tuple[Graph, Graph], seed: int) -> tuple[Seen, Seen]:
    """Return the exact sums on either data set, where they differ and do not depend on noise; elsewhere they are 0."""
    taught = [[seen(plan, world, seed, what="exact") for _ in range(_TAUGHT)] for world in worlds]
    moves = differences(*taught)

    def kept(side: list[Seen]) -> Seen:
        return {
            place: (np.mean([one[place][0] for one in side if place in one], axis=0) * (move != 0), stddev)
            for place, (move, stddev) in moves.items()
        }

    return kept(taught[0]), kept(taught[1])


def apart_of(run: Seen, moves: Seen) -> float:
    """Return how far the scores of a run on one data set are from those on the other, in standard deviations."""
    return math.sqrt(
        sum(float(moves[place][0] @ moves[place][0]) / moves[place][1] ** 2 for place in run if place in moves)
    )


def seen(plan: Plan, graph: Graph, seed: int, *, what: str = "noisy") -> Seen:
    """Run a plan with a fresh key, and return its "noisy" sums, or the "exact" ones or the "noise", and their deviations.

    They are found by the name of the release, the shape of the sum, and which of such sums it is.
    """
    ledger, found = Ledger(plan.entry.to_dict(), plan.releases), dict[Any, Any]()

    def see(noisy: Steps, stddev: float, sums: Exact) -> None:
        shown = noisy if what == "noisy" else sums() if what == "exact" else noisy - sums()
        number = len(ledger.entries) - 2  # of the release that was charged last; the plan is the first entry
        found[plan.releases[number].name, shown.shape, len(found)] = shown.astype(np.float64).ravel(), stddev

    with witness(see):
        plan.method.run(plan, graph, Session(ledger, new_key(), seed))
    return found


def differences(first: list[Seen], second: list[Seen]) -> Seen:
    """Return the difference of each sum between two data sets and its deviation, if it is alike in all runs that have the sum."""
    moves: Seen = {}
    for place in {place for one in (*first, *second) for place in one}:
        sides = [np.array([one[place][0] for one in side if place in one]) for side in (first, second)]
        if min(map(len, sides)) < 2:
            continue
        move = sides[0].mean(axis=0) - sides[1].mean(axis=0)
        spread = np.maximum(*(np.ptp(side, axis=0) for side in sides))
        move[spread > _ALIKE * np.abs(move)] = 0
        if move.any():
            moves[place] = move, next(one[place][1] for one in first if place in one)
    return moves


def score(run: Seen, moves: Seen) -> float:
    """Score a run: how far its noisy sums lean to the data set with the record, in standard deviations."""
    apart = apart_of(run, moves)
    leaning = sum(float(run[place][0] @ move) / stddev**2 for place, (move, stddev) in moves.items() if place in run)
    return leaning / apart if apart else 0.0
