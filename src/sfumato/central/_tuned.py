"""Settings are chosen under the guarantee: the best of a secret number of trials is charged as one release.

Trials draw a setting uniformly from a public list, train, and score on the validation nodes; only the best trial's run leaves,
and it is a run of its method like any other. See :mod:`~sfumato.privacy._selection` for the rules and the proof.

**Score.** The number of validation nodes that are predicted right. Where labels are public it is computed from what the trial
releases, and costs nothing. Elsewhere it is one Gaussian release of sensitivity 1, whatever the relation: roles are public, and a
prediction reads the node's own record and earlier releases only, so given these, emptying or replacing one record changes the
prediction or the label of one node, and the count by one at most. It gets a tenth of a trial's squared loss. Where a record is a
class or a cell, it holds many validation nodes: the count has no such bound, and tuning is refused.

**Noise.** All candidates get noise at which one trial costs about the same (by the central limit, which only *chooses* noise);
what the list then costs is accounted as the largest of the candidates' divergences at each order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from sfumato._validate import fail
from sfumato.bounded._engine import engine, training_threads
from sfumato.errors import DataError, SfumatoError, UnsupportedTargetError, UnsupportedUnitError
from sfumato.method.contract import Arrays, Method, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy._selection import draw_trials
from sfumato.privacy.accounting import central_limit_mu
from sfumato.privacy.events import (
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    check_rule,
    leaves,
)
from sfumato.record._certificate import total_draws
from sfumato.record.ledger import OWN, Ledger, Release, canonical_json

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit

SCORE_SHARE = 0.1
"""Share of a trial's squared loss, by the central limit, that a private score gets beside what it scores."""
_MOST_NOISE = 1e4
_MOST_CANDIDATES = 1000
_NOISES = (1e-8, 1e14)


@dataclass(frozen=True)
class Tuned(CuratorMethod):
    """Tuning runs one method with several settings, in a secret number of trials, and releases the best run alone.

    Each trial draws a setting uniformly from ``candidates``. What the selection costs is in
    :mod:`~sfumato.privacy._selection`.

    **Formal guarantee.** All trials together are charged as one release of at most the budget, under the unit of the method.
    The number of trials and all losing runs must stay secret.

    ``fit`` of its plan ends with a run of the best candidate. Under ``poisson`` no trial at all is drawn with probability
    e^-mean_trials: then nothing is released, and the charge stays.

    Args:
        candidates: the same method with 2 to 1000 different settings, chosen without looking at protected data; the
            certificate lists them.
        rule: law of the number of trials: ``logarithmic`` (the cheapest), ``geometric`` or ``poisson``.
        mean_trials: expected number of trials, in (1, 10000].

    Raises:
        InputError: candidates of several methods, or of one that scores pairs, fewer than 2 or more than 1000, or one twice, or
            with other limits of the claim than another; an unknown rule; a mean out of range.

    >>> from sfumato.central._gap import GAP
    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> tuned = Tuned((GAP(num_hops=1), GAP(num_hops=2)), mean_trials=5)
    >>> plan = tuned.calibrate(Budget(1.0, 1e-6), EdgeLevel(directed=False), facts)
    >>> len(plan.releases), round(plan.epsilon, 2)
    (1, 1.0)

    Source: Papernot and Steinke (2022), Hyperparameter Tuning with Renyi Differential Privacy.
    """

    candidates: tuple[Method, ...]
    rule: str = "logarithmic"
    mean_trials: float = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        settings = [canonical_json(candidate.settings) for candidate in self.candidates]
        if len(set(settings)) < max(len(settings), 2):
            raise fail("candidates", self.candidates, "to be at least two, all different", "A single one is not tuned.")
        if len(settings) > _MOST_CANDIDATES:
            raise fail("candidates", len(settings), f"to be at most {_MOST_CANDIDATES}", "Trials pick at random.")
        if len({type(candidate) for candidate in self.candidates}) > 1:
            raise fail("candidates", self.candidates, "to be settings of one method", "Tune each method by itself.")
        if self.candidates[0].card.scores_pairs:
            name = self.candidates[0].name
            raise fail(
                "candidates", name, "to be settings of a method that scores nodes", "Trials count right classes."
            )
        if len({candidate.limits for candidate in self.candidates}) > 1:
            raise fail(
                "candidates",
                self.candidates,
                "to leave the same out of the claim",
                "All trials are scored, so what one candidate declares public counts for the choice. Tune them apart.",
            )
        check_rule(self.rule, self.mean_trials)
        object.__setattr__(self, "card", self.candidates[0].card)  # what leaves is a run of their method

    @property
    def choices(self) -> tuple[Method, ...]:
        """Return the candidates that trials draw from."""
        return self.candidates

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Find the noise of all candidates at which the whole selection costs at most ``budget``; no data is seen.

        Args:
            budget: the most that all trials together may spend.
            unit: the unit of privacy; none is refused.
            public: facts of the graph.

        Raises:
            InputError: without privacy, or with so little budget that only noise would be left.
            UnsupportedTargetError: no classes are learned.
        """
        if public.target is not None:
            raise UnsupportedTargetError(
                f"Expected classes to choose settings by, got a target of kind {public.target}: trials are compared by right "
                "answers. Train with settings of your choice."
            )
        if not unit.private:
            raise fail("unit", "none", "to be a unit of privacy", "Without one, train each setting and compare.")
        if budget is not None and not budget.delta:
            raise fail("delta", 0, "to be above 0 for a choice among settings", "Give one, or train with `delta` 0.")
        plan = super().calibrate(budget, unit, public)
        noises = [noise_of(event) for event in leaves([release.event for release in plan.releases])]
        if max(noises, default=0.0) > _MOST_NOISE:
            raise fail(
                "epsilon",
                budget and budget.epsilon,
                f"to leave noise multipliers of at most {_MOST_NOISE:g} (needed: {max(noises):.3g})",
                "Raise epsilon, or lower the expected number of trials.",
            )
        return plan

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one release, the selection.

        Its draws are those of the longest trial, and one for all secret choices.
        """
        trials = self.trials(unit, public, noise_multiplier)
        if not any(trials):
            return ()
        events = tuple(tuple(release.event for release in trial) for trial in trials)
        draws = 1 + max(total_draws(trial) for trial in trials)
        return (Release("tuned", SelectionEvent(events, self.rule, self.mean_trials), (1,), draws),)

    def trials(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[tuple[Release, ...], ...]:
        """List what one trial of each candidate releases.

        Args:
            unit: the unit of privacy.
            public: facts of the graph.
            noise_multiplier: that of the first candidate; the others get noise at which a trial costs about as much.

        Raises:
            UnsupportedUnitError: a candidate has rows for single nodes, which a score would tell others of; or a record
                holds many nodes, each of which a score counts.
        """
        if unit.partition or unit.nodes_per_person is not None:
            raise UnsupportedUnitError(
                f"A choice among settings has no proof under unit {unit.name}: a score counts every validation node of "
                f"{unit.describe()}, not one. Train with settings that were chosen on other data."
            )
        first = self.candidates[0].releases(unit, public, noise_multiplier)
        if any(release.visible_to == OWN for release in first):
            raise UnsupportedUnitError(
                f"A choice among settings of {self.candidates[0].name!r} has no proof under unit {unit.name}: its score would "
                "tell others of rows that are for their own node alone. Train with the default settings."
            )
        mu = _mu(first)
        if not mu:
            return tuple(candidate.releases(unit, public, noise_multiplier) for candidate in self.candidates)
        score: tuple[Release, ...] = ()
        if "labels" not in unit.public:
            score = (Release("score", GaussianEvent(1 / (math.sqrt(SCORE_SHARE) * mu)), (1,), 1),)
        alike = (_alike(candidate, unit, public, noise_multiplier, mu) for candidate in self.candidates)
        return tuple((*releases, *score) for releases in alike)

    def check(self, graph: Graph) -> None:
        """Refuse a split without validation nodes, on which nothing could be scored, and a graph that a candidate refuses.

        Roles are public, labels need not be.

        Raises:
            DataError: no node has the validation role.
        """
        if not graph.val_mask.any():
            raise DataError(f"Expected graph {graph.name!r} to have validation nodes, got none. Check the split.")
        for candidate in self.candidates:
            candidate.check(graph)

    def check_noise(self, events: Sequence[Event], unit: Unit) -> None:
        """Refuse the one event of a plan if a candidate cannot draw the noise that ``events`` holds for it under a ``unit``.

        Raises:
            InputError: there is such noise.
        """
        for event in events:
            assert isinstance(event, SelectionEvent)
            for candidate, trial in zip(self.candidates, event.candidates, strict=True):
                candidate.check_noise(trial, unit)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Charge the selection, then run all trials and show nothing of them.

        Raises:
            SfumatoError: no trial was drawn, as the rule ``poisson`` may do. Nothing is released, and the charge stays.
        """
        key = session.charge("tuned") if plan.releases else session.key
        planned = self._planned(plan)
        trials: list[tuple[Planned, Key]] = []
        for number in range(draw_trials(self.rule, self.mean_trials, key)):
            own = derive_key(key, "trial", number)
            chosen = int.from_bytes(derive_key(own, "candidate"), "big") % len(planned)
            one = Planned(self.candidates[chosen], plan.unit, plan.budget, plan.public, planned[chosen], None, None)
            trials.append((one, own))
        best: tuple[int, int, Outcome] | None = None  # of equal scores the first trial is kept
        for number, (weights, released, score) in engine().run(
            _run, (graph, session.seed), trials, threads=training_threads()
        ):
            if best is None or (score, -number) > best[:2]:
                best = score, -number, Outcome(weights, released, _unscored(trials[number][0]))
        if best is None:
            raise SfumatoError(
                "The selection came out empty, as the rule poisson may: nothing is released, and the charge stays. "
                "Another attempt is another charge; the other rules always run at least one trial."
            )
        outcome = best[2]
        if plan.releases:
            session.bind("tuned", *(arrays[name] for arrays in outcome[:2] for name in sorted(arrays)))
        return outcome

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> Any:
        """Refuse the call: a finished run belongs to the chosen candidate, which computes scores.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    def _planned(self, plan: Planned) -> list[tuple[Release, ...]]:
        """Each candidate's releases with the noise that the plan has for them."""
        sketches = self.trials(plan.unit, plan.public, 1.0)
        if not plan.releases:
            return list(sketches)
        chosen = plan.event_of(SelectionEvent, "tuned").candidates
        return [
            tuple(replace(release, event=one) for release, one in zip(sketch, events, strict=True))
            for sketch, events in zip(sketches, chosen, strict=True)
        ]


def _run(graph: Graph, seed: int, trial: Planned, key: Key) -> tuple[Arrays, Arrays, int]:
    """One trial: weights, releases, and its score, noisy where labels are private. Nothing of it is written or shown."""
    score = next((release for release in trial.releases if release.name == "score"), None)
    trial = _unscored(trial)
    session = Session(Ledger({}, trial.releases), key, seed)
    weights, released = trial.method.run(trial, graph, session)[:2]
    assert graph.y is not None
    seen = graph.val_mask & (graph.y >= 0)
    count = 0  # of a trial that diverged: what it released says so
    if all(np.isfinite(array).all() for array in weights.values()):
        predicted = trial.method.scores(trial, weights, released, graph).argmax(axis=1)
        count = int(np.count_nonzero(predicted[seen] == graph.y[seen]))
    if score is not None:
        assert isinstance(score.event, GaussianEvent)
        own = derive_key(key, "score", operand_mac(key, np.array([count])))
        count += int(rounded_gaussian(own, score.event.noise_multiplier, 0, 1)[0])
    return weights, released, count


def _unscored(trial: Planned) -> Planned:
    """What a trial releases beside its score."""
    return replace(trial, releases=tuple(release for release in trial.releases if release.name != "score"))


def noise_of(event: Event) -> float:
    """Return the noise multiplier of an event; of a pure one, that of Laplace noise which costs as much."""
    if isinstance(event, PureEvent | RandomizedResponseEvent):
        return 1 / event.epsilon
    return getattr(event, "noise_multiplier", 0.0)


def _mu(releases: Sequence[Release]) -> float:
    return central_limit_mu([release.event for release in releases])


def _alike(
    candidate: Method, unit: Unit, public: PublicFacts, noise_multiplier: float, mu: float
) -> tuple[Release, ...]:
    """A candidate's releases at the noise where their limiting mu is ``mu``; a search from that of the first."""

    def excess(log_noise: float) -> float:
        return math.log(_mu(candidate.releases(unit, public, math.exp(log_noise))) / mu)

    same = candidate.releases(unit, public, noise_multiplier)
    if _mu(same) == mu:
        return same
    return candidate.releases(unit, public, math.exp(brentq(excess, *map(math.log, _NOISES), xtol=1e-12)))
