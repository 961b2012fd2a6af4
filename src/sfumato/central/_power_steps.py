r"""Method dpar at edge level: one or two noisy power steps of PageRank, from the scores that public features give.

Features and labels are public here, and a record is one edge.

1. *Scores.* A graph-free model (:mod:`~sfumato.central._graph_free`) gives class probabilities H of every node.
2. *First step.* Known nodes, the labeled training nodes, send the one-hot row of their label to all others: S counts them.
3. *Second step.* The others send what they then think to each other, divided by the a arcs of a record: T sums it.
4. *Reading.* With M = S + u a T, the shares :math:`\pi` of the classes among known nodes, and
   :math:`r_v = (\max(M_v, 0) + b \pi) / (|\max(M_v, 0)| + b)`,

   .. math:: Q_v \propto H_v^t \, (r_v / \pi)^w .

This is equation 5.19 of the source, :math:`Q = (1 - \alpha) D^{-1} A Q + \alpha H`, with averages of logarithms in place of
averages of probabilities. The number b of messages grows with the noise (:func:`~sfumato.central._counts.smoothing`), so a node
with few arcs goes back to its own scores; and t, w and u, chosen on validation labels, take the place of :math:`\alpha`.
Row sums of M serve as degrees, which need no release of their own. Nothing is trained on M, so few labels are enough, and
messages to known nodes, whose labels are known, are not paid for.

**Formal guarantee** (edge level). S and T together are one release of L1 sensitivity 1 with discrete Laplace noise
(:func:`~sfumato.bounded._counting.to_others`): pure epsilon, delta 0. H, t, w and u are functions of public data and of S and
T: post-processing. A single arc is moved by the same bound.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.bounded._counting import to_count_steps, to_others, unrouted_sensitivity
from sfumato.bounded.aggregation import Arcs
from sfumato.central._counts import NAME, Counter, class_shares, count_deviation, counts_release, one_hot, smoothing
from sfumato.central._graph_free import grown, unused_features
from sfumato.central._labels import MESSAGES_DROPPED, MOST_TREE_WORK, PRIOR, posterior, stored_prior
from sfumato.central._rows import labeled_nodes
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._targets import softmax
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.card import Audience
from sfumato.method.contract import Arrays, Outcome, Planned, Session

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit
    from sfumato.record.ledger import Release

AUDIENCE = Audience(("noisy aggregates", "weights"), never=("sums before noise",))
POWERS = (1.0, 0.0, 0.25, 0.5, 1.5, 2.0, 3.0), (1.0, 0.5), (0.25, 0.0, 0.125, 0.5, 1.0)
"""Candidates for w, t and u; the first ones are taken where there are no validation labels."""
_READING, _SHARES = "steps.reading", "class.shares"


def at_edges(unit: Unit) -> bool:
    """Return whether features and labels are public, as where a record is one edge; other such units have no proof here."""
    return unit.private and "labels" in unit.public


def step_releases(settings: Any, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
    """List the one release of all steps; refuse settings that mean something at node level alone."""
    if settings.mechanism not in ("auto", "none"):
        raise UnsupportedUnitError(
            f"Mechanism {settings.mechanism!r} of dpar makes PageRank rows, which hide one edge at the same price as one node. "
            "Leave it out under unit edge: power steps take the place of rows."
        )
    if settings.public_test_graph:
        raise fail("public_test_graph", True, "to be False at edge level", "Every edge is protected there.")
    if settings.power_steps > 2:
        raise fail("power_steps", settings.power_steps, "to be 1 or 2 at edge level")
    return (counts_release(unit, public, settings.power_steps, noise_multiplier),)


def run_steps(plan: Planned, graph: Graph, session: Session, steps: int) -> Outcome:
    """Learn from features, take the steps, and choose how they are read."""
    public, (rows, known) = plan.public, one_hot(graph, plan.public.num_classes)
    found = [*PRIOR.trained(public, graph, session), *grown(public, graph, session, MOST_TREE_WORK)]
    prior = PRIOR.best(public, graph, found)
    own, shares = posterior(public, prior, graph), class_shares(rows, known)
    counter = Counter(plan, session, to_others(Arcs(*graph.transpose()), known), known)
    counts = counter.of_known(rows)
    powers = _chosen(plan, graph, counts, own, shares)
    if steps == 2:
        told = _read(plan, counts, own, shares, powers)
        to_count_steps(told)  # refuses a row longer than 1: a of them over a are not, in whole steps either
        sent = told / np.float32(unrouted_sensitivity(plan.unit))
        counts = np.hstack([counts, counter.of_others(sent)])
        powers = _chosen(plan, graph, counts, own, shares)
    weights = {f"prior.{name}": part for name, part in prior.items()}
    return Outcome({**weights, _SHARES: shares, _READING: np.array(powers, np.float32)}, {NAME: counts})


def step_scores(plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
    """Compute logarithms of Q from stored weights, stored steps and the nodes' own features."""
    own, powers = posterior(plan.public, stored_prior(weights), graph), tuple(map(float, weights[_READING]))
    scores: NDArray[np.float32] = np.log(_read(plan, released[NAME], own, weights[_SHARES], powers))
    return scores


def unused_steps(plan: Planned, weights: Arrays) -> tuple[str, ...]:
    """Say where the steps are not read, and where features say nothing; of a tuning without a trial, nothing."""
    if _READING not in weights:
        return ()
    dropped = (MESSAGES_DROPPED,) * (not weights[_READING][0])
    return *dropped, *unused_features(plan.public, stored_prior(weights))


def _chosen(
    plan: Planned, graph: Graph, counts: NDArray[np.int64], own: NDArray[np.float32], shares: NDArray[np.float32]
) -> tuple[float, ...]:
    """Return w, t and u with the smallest cross-entropy on public validation labels."""
    y, _, val = labeled_nodes(graph)
    asked = POWERS if counts.shape[1] > own.shape[1] else (*POWERS[:2], (0.0,))

    def loss(powers: tuple[float, ...]) -> float:
        told = _read(plan, counts[val], own[val], shares, powers)[np.arange(len(val)), y[val]]
        return float(-np.log(told).sum())

    return min(product(*asked), key=loss)


def _read(
    plan: Planned,
    counts: NDArray[np.int64],
    own: NDArray[np.float32],
    shares: NDArray[np.float32],
    powers: tuple[float, ...],
) -> NDArray[np.float32]:
    """Return Q, class probabilities above 0, from S, or from S and T."""
    (w, t, u), classes = powers, own.shape[1]
    noise = count_deviation(plan)
    messages = counts[:, :classes] / INT16_ONE
    if counts.shape[1] > classes:
        u *= unrouted_sensitivity(plan.unit)
        messages = messages + u * (counts[:, classes:] / INT16_ONE)
        noise *= np.sqrt(1 + u**2)
    there, b = np.maximum(messages, 0), smoothing(noise)
    rates = (there + b * shares) / (there.sum(axis=1, keepdims=True) + b)
    scores = t * np.log(own) + w * np.log(rates / shares)
    return np.maximum(softmax(scores.astype(np.float32)), np.float32(1e-9))
