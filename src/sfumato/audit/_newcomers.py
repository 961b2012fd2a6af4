"""Canary edges of nodes that arrive later: what the noisy rows of newcomers tell of each, and the epsilon that they exceed.

Label messages are trained on nodes without edges. Then as many nodes arrive, and a fair coin decides for each whether it has an
edge to a known node of its own, which sends its public label. The row of a newcomer tells of this edge alone, so newcomers are
independent runs of the release on one edge. The attacker reads the noisy count of the known node's class, cut off where more or
less tells nothing: up to a monotone map, the exact likelihood ratio of Laplace noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_int
from sfumato.audit._evidence import Audit
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.central._arrivals import calibrate_arrival
from sfumato.central._labels import LabelMessages
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.units import EdgeLevel
from sfumato.tables._newcomers import Newcomers, node_names

if TYPE_CHECKING:
    from sfumato.privacy.budget import Budget

_RELEASE = "aggregate/1"


def audit_newcomers(
    budget: Budget, *, directed: bool = False, canaries: int = 20_000, confidence: float = 0.999, seed: int = 0
) -> Audit:
    """Release rows of nodes that arrive after a run of label messages, and return the epsilon that they rule out.

    **Formal guarantee.** Unit: one undirected edge, or one arc. If an arrival costs no more than the run claims, the audit is
    flagged with probability at most 1 - ``confidence``.

    Args:
        budget: of the run, and so of its arrivals.
        directed: whether the unit is one arc.
        canaries: how many nodes arrive; half of them have an edge, about.
        confidence: of the bound.
        seed: decides who has an edge.

    >>> from sfumato.privacy.budget import Budget
    >>> found = audit_newcomers(Budget(1.0, 1e-6))
    >>> 0.5 < found.epsilon_lower_bound < 1.0, found.flagged
    (True, False)
    """
    check_int(low=8, canaries=canaries)
    unit, x = EdgeLevel(directed=directed), np.zeros((canaries, 1), np.float32)
    ids, labels, roles = np.arange(canaries), np.arange(canaries) % 2, np.zeros(canaries, np.uint8)
    roles[-1] = 2
    about: dict[str, Any] = {"directed": directed, "x": x}
    known = Graph.from_edges([], [], canaries, y=labels, node_ids=ids, roles=roles, **about)
    public = known.public_facts(unit, assume_public=True)
    run = LabelMessages(num_hops=1, epochs=1).calibrate(budget, unit, public).fit(known, seed=seed)
    there = np.random.default_rng(seed).random(canaries) < 0.5
    own = Graph.from_edges([], [], canaries, node_ids=ids + canaries, **about)
    ends = np.flatnonzero(there), canaries + np.flatnonzero(there)
    late = Newcomers.join(own, [known], *(ends[::-1]))  # newcomers stand first
    plan = calibrate_arrival([run], node_names(late), late.public_facts(unit))
    counts = plan.fit(late, seed=seed).released[_RELEASE][ids, labels]
    scores = np.clip(counts, 0, INT16_ONE).astype(np.float64)
    knows = "all other edges, all labels, and the released rows"
    delta, name = plan.delta or 0.0, "edges of nodes that arrive later"
    found = audit_runs(
        scores[there], scores[~there], name=name, knowledge=knows, delta=delta, confidence=confidence, policy=Split()
    )
    return Audit("label-messages, arrivals", unit.name, plan.epsilon, delta, confidence, (found,))
