r"""Two nodes, with and without an edge between them: what released edges tell of it.

The method releases edges thousands of times of either graph, by its own code and with fresh keys. There is one pair, or two
if arcs are directed, and as many may be released as there are, by a public number. So the pair comes out or does not by its own
bit and noise alone, and one of the two outcomes is :math:`e^\epsilon` times likelier without or with the edge. In a large graph a
bound on it is weaker: nearly all released edges are false, and other pairs take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit._thresholds import Explicit, audit_runs
from sfumato.graph._graph import Graph
from sfumato.method.contract import Session
from sfumato.noise.keys import new_key
from sfumato.record.ledger import Ledger

if TYPE_CHECKING:
    from sfumato.audit._evidence import Evidence
    from sfumato.method.contract import Listed
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

EDGES = "edges"
_ALL = {"epochs": 1, "mean_degree": 1.0}  # one arc a node: all pairs may be released


def audit_pair(
    method: Listed,
    unit: Unit,
    budget: Budget,
    *,
    runs: int,
    confidence: float,
    directed: bool,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Return the epsilon that released edges of two nodes rule out, with and without an edge between them.

    **Formal guarantee.** Unit: one arc if ``directed``, else one undirected edge. If the method is epsilon-DP, the bound exceeds
    epsilon with probability at most 1 - ``confidence``: runs have keys of their own, and nothing was chosen after they were seen.

    Args:
        method: releases ``edges``; its settings are those under which every pair may come out.
        unit: edge level.
        budget: that is claimed.
        runs: how often edges of either graph are released.
        confidence: of the bound.
        directed: whether the unit is one arc.
        seed: of public parts of the runs.
        told: is told of progress.
    """
    named: Any = method
    worlds = [_graph(directed, joined=joined) for joined in (True, False)]
    plan = replace(named, **_ALL).calibrate(budget, unit, worlds[0].public_facts(unit, assume_public=True))
    found: list[list[float]] = [[], []]
    for number in range(runs):
        for scores, world in zip(found, worlds, strict=True):
            session = Session(Ledger(plan.entry.to_dict(), plan.releases), new_key(), seed)
            edges = plan.method.run(plan, world, session).released[EDGES]
            scores.append(float([0, 1] in edges.tolist()))
        if told is not None and number % 50 == 0:
            told(number, runs)
    return audit_runs(
        *found, name="one pair of nodes", knowledge="both graphs and the released edges", delta=plan.delta or 0.0,
        confidence=confidence, policy=Explicit(0.5),
    )  # fmt: skip


def _graph(directed: bool, *, joined: bool) -> Graph:
    """Two nodes; if arcs are directed, the second one always sends to the first."""
    sources, targets = np.array([(1, 0)] * directed + [(0, 1)] * joined, np.int64).reshape(-1, 2).T
    x, y, roles = np.eye(2, dtype=np.float32), np.array([0, 1]), np.array([0, 2], np.uint8)
    return Graph.from_edges(sources, targets, 2, directed=directed, x=x, y=y, roles=roles)
