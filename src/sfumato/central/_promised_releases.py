"""What promised messages release beside a head: pairs of classes, a test, and the hop, with the noise that a plan gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._promise import GRID, copies_to, noisy, pair_sums, pair_weights, promised_sensitivity, row_sums
from sfumato.central._compatibility import Expected, Law, expected_rows, find_law, forecast
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of
from sfumato.noise.keys import new_key

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Planned, Session

HOP, PAIRS, TEST = "aggregate/1", 0.05, 0.01
"""The name of the hop, and the shares of mu^2 that pairs and test have."""
LEAST_FEATURES = 0.1
"""The least share of mu^2 that features have."""
_MOST_FEATURES, _SLOPE, _BEYOND = 0.5, 30.0, 0.55
_PART = float(np.sqrt(0.5)) * (1 - 2.0**-20)
Steps = NDArray[np.int64]


def check_promised(public: PublicFacts) -> None:
    """Refuse public facts without any bound on degrees."""
    if public.max_degree is None and not public.degree_bounds:
        raise UnsupportedUnitError(
            "One hop has no bounded sensitivity when every arc of a node is protected and nothing bounds how many there are. "
            "Promise a bound (--max-degree, or max_degree in the schema), declare public bounds (--public-degrees, or "
            "degree_column), or take linear."
        )


def features_share(public: PublicFacts, noise_multiplier: float) -> float:
    r"""Return the share of :math:`\mu^2` that features have: more of it, the more noise moves the head."""
    needed = _SLOPE * noise_multiplier * float(np.sqrt(public.num_features)) / max(public.num_train, 1)
    return min(max(needed, LEAST_FEATURES), _MOST_FEATURES)


def bounds_of(graph: Graph) -> NDArray[np.int64]:
    """Return the public bound on the arcs out and in of each node: its own, or the promise for everybody."""
    if graph.degree_bounds is not None:
        return np.asarray(graph.degree_bounds, np.int64)
    if graph.max_degree is None:
        raise InputError("Expected a graph with max_degree or degree_bounds, got neither. Read it with its schema.")
    return np.full(graph.num_nodes, graph.max_degree, np.int64)


def release_pairs(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], bounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Charge the pairs of classes, then compute them, int64 [C, C]."""
    key = session.charge("pairs") if plan.unit.private else new_key()
    pairs = pair_weights(graph.indptr, graph.indices, graph.train_mask, bounds, directed=graph.directed)
    sums = pair_sums(pairs, classes, plan.public.num_classes)
    session.bind("pairs", sums)
    return noisy(sums, GRID * noise_of(plan, "pairs"), key)


def release_hop(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], bounds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Charge the hop, then compute it, int64 [num_nodes, C]; rows of senders are not released, and zero."""
    key, receives = session.charge(HOP) if plan.unit.private else new_key(), ~graph.train_mask
    sums = row_sums(
        copies_to(graph.indptr, graph.indices, classes, receives, bounds), graph.num_nodes, plan.public.num_classes
    )
    session.bind(HOP, sums)
    hop = noisy(sums, GRID * code_norm(plan.public) * noise_of(plan, HOP), key)
    hop[~receives] = 0
    return hop


def release_test(plan: Planned, graph: Graph, session: Session, answers: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Release how many training and validation nodes each of two answers has right, int64 [1, 2]."""
    assert graph.y is not None
    key, nodes = session.charge("test"), np.flatnonzero((graph.train_mask | graph.val_mask) & (graph.y >= 0))
    right = np.stack([answer[nodes] == graph.y[nodes] for answer in answers], axis=1)
    rows: NDArray[np.float32] = (right * _PART).astype(np.float32)
    session.bind("test", rows)
    noise = multiplier_of(plan, "test") * group_sensitivity(plan.unit)
    return noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key)


def hop_pays(
    plan: Planned, pairs: NDArray[np.int64], test: NDArray[np.int64], bounds: NDArray[np.int64], graph: Graph
) -> bool:
    """Return whether the rest goes to the hop; reads releases, roles and public facts alone."""
    law, expected = found(plan, pairs, bounds, graph.train_mask)
    receives, tested = ~graph.train_mask, np.count_nonzero(graph.train_mask | graph.val_mask)
    if not law.known or not receives.any():
        return False
    first, second = np.clip(test[0] / INT16_ONE / _PART / max(tested, 1), 1 / plan.public.num_classes, 0.99).tolist()
    whole = multiplier_of(plan, "pairs") * float(np.sqrt(PAIRS))
    beyond = -_BEYOND * float(np.log(features_share(plan.public, whole)))
    alone = min(second + beyond * max(second - first, 0.0), 0.99)
    own = Expected(expected.weight, expected.totals[receives])
    return forecast(law, own, bounds[receives], row_stddev(plan), second) > alone


def found(
    plan: Planned, pairs: NDArray[np.int64], bounds: NDArray[np.int64], sends: NDArray[np.bool_]
) -> tuple[Law, Expected]:
    """Return what released pairs say of classes, and of the rows to come."""
    law = find_law(pairs / GRID, noise_of(plan, "pairs"), directed=plan.public.directed)
    return law, expected_rows(law, bounds, sends)


def noise_of(plan: Planned, name: str) -> float:
    """Return the standard deviation of one release, in copies of weight 1; 0 without privacy."""
    if not plan.unit.private:
        return 0.0
    return multiplier_of(plan, name) * promised_sensitivity(plan.unit)


def code_norm(public: PublicFacts) -> float:
    """Return the norm of the code of a class (:func:`~sfumato.bounded._promise.row_sums`); ``public`` has their number."""
    return float(np.sqrt(public.num_classes * (public.num_classes - 1)))


def row_stddev(plan: Planned) -> float:
    """Return the standard deviation of an entry of a row of mean 0, in copies of weight 1; ``plan`` has the hop."""
    return noise_of(plan, HOP) * code_norm(plan.public) / plan.public.num_classes
