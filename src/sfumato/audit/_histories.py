r"""Canary edges in a history: what all days together tell of each, and the epsilon that they certainly exceed.

Every canary is an edge between two nodes that have no other, so its row tells of it alone. It came with the first refresh; if
deletions are counted, it went again when that moves the releases most. A fair coin decides whether it was ever there. The
attacker reads all releases of its row and scores it by their exact log-likelihood ratio: no attack on one edge is stronger.

The history is released as any other is: by the schedule, the key and the samplers of :mod:`~sfumato.bounded._history`. Rows have
independent noise, so canaries are independent runs of the mechanism on one edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.audit._evidence import Audit
from sfumato.audit._gaussian import audit_means
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.bounded._history import NEVER, Form, Increments, Stream, noisy_day
from sfumato.graph._graph import Graph
from sfumato.noise.keys import new_key
from sfumato.privacy.units import EdgeLevel

if TYPE_CHECKING:
    from sfumato.bounded._refreshes import Ints
    from sfumato.central._daily import DailyMessages
    from sfumato.noise.keys import Key
    from sfumato.privacy.budget import Budget

_KNOWS = "all other edges, the schedule, and every release of the history"


def audit_history(
    method: DailyMessages,
    budget: Budget,
    *,
    canaries: int = 20_000,
    confidence: float = 0.999,
    seed: int = 0,
    key: Key | None = None,
) -> Audit:
    """Release a history of canary edges, and return the epsilon that all its days together rule out.

    **Formal guarantee.** If the whole history is (epsilon, delta)-DP, the bound exceeds epsilon with probability at most
    1 - ``confidence``; of sums, if their noise is Gaussian as well.

    Args:
        method: days, refreshes, form of noise, deletions.
        budget: that the history claims to keep.
        canaries: how many edges; half of them are there, about.
        confidence: of the bound.
        seed: decides which canaries are there.
        key: of the noise; None draws one.

    Raises:
        InputError: there are fewer than 8 canaries.

    >>> from sfumato.central._daily import DailyMessages
    >>> from sfumato.privacy.budget import Budget
    >>> found = audit_history(DailyMessages(days=4, refreshes=4), Budget(2.0, 1e-6), canaries=4000, key=bytes(32))
    >>> 1.0 < found.epsilon_lower_bound < 2.0, found.flagged
    (True, False)
    """
    check_int(low=8, canaries=canaries)
    labels = np.tile(np.arange(2), canaries)
    roles = np.repeat(np.array([0, 2], np.uint8), canaries)
    graph = Graph.from_edges([], [], 2 * canaries, directed=False, x=np.zeros((2 * canaries, 1)), y=labels, roles=roles)
    unit = EdgeLevel(directed=False)
    plan = method.calibrate(budget, unit, graph.public_facts(unit, assume_public=True))
    form, there = method.form(plan), np.random.default_rng(seed).random(canaries) < 0.5
    first, second = _worst(form, method.refreshes)
    phases, senders = method.phases(graph), np.arange(canaries)
    went = np.full(canaries, NEVER)
    if second is not None:  # on the day of the refresh that shall tell first that it went
        went = method.schedule.day_of(phases[canaries:], second)
    come = method.schedule.day_of(phases[canaries:], first)
    arcs = np.stack([senders, canaries + senders])[:, there]
    both, came, gone = np.hstack([arcs, arcs[::-1]]), np.tile(come[there], 2), np.tile(went[there], 2)
    stream = Stream.of(method.history(unit, graph, both[0], both[1], came, gone), method.schedule, phases, 2)
    told = _released(stream, form, key or new_key(), method.days, canaries, labels[:canaries])
    moved = _told_alone(form, method.refreshes, first, second)
    delta, name = plan.delta or 0.0, "the whole history of an edge"
    if isinstance(form, Increments):
        ratios = (np.abs(told) - np.abs(told - moved)).sum(axis=1) / float(form.scale)
        evidence = audit_runs(
            ratios[there],
            ratios[~there],
            name=name,
            knowledge=_KNOWS,
            delta=delta,
            confidence=confidence,
            policy=Split(),
        )
    else:
        ratios = told @ (moved / np.linalg.norm(moved))
        evidence = audit_means(
            ratios[there], ratios[~there], name=name, knowledge=_KNOWS, confidence=confidence, delta=delta
        )
    return Audit(method.name, unit.name, plan.epsilon, delta, confidence, (evidence,))


def _worst(form: Form, refreshes: int) -> tuple[int, int | None]:
    """The refreshes at which an edge comes and goes that moves the releases most."""
    if not form.deletions or refreshes == 1:
        return 0, None
    lengths = {
        second: float(np.linalg.norm(_told_alone(form, refreshes, 0, second)))
        for second in (None, *range(1, refreshes))
    }
    return 0, max(lengths, key=lambda one: lengths[one])


def _told_alone(form: Form, refreshes: int, first: int, second: int | None) -> NDArray[np.float64]:
    """What the refreshes of a row tell of one edge."""
    told = np.zeros(refreshes)
    told[first:] = form.weights(np.arange(refreshes - first))
    if second is not None:
        told[second:] -= form.weights(np.arange(refreshes - second))
    return told


def _released(stream: Stream, form: Form, key: Key, days: int, canaries: int, classes: Ints) -> NDArray[np.int64]:
    """What the refreshes of each canary's row say in the column of its class, int64 [canaries, refreshes]."""
    told = np.zeros((canaries, stream.schedule.refreshes), np.int64)
    for day in range(1, days + 1):
        rows, refreshes, values = noisy_day(stream, day, form, key)
        of_canaries = rows >= canaries
        at = rows[of_canaries] - canaries
        told[at, refreshes[of_canaries]] = values[of_canaries, classes[at]]
    return told
