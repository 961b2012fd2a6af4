"""What promised messages release beside a head, with the noise that a plan gives it.

That is a bound on degrees where it pays to find one, pairs of classes, a test, and the hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._found_bound import (
    Found,
    find,
    found_divisors,
    height,
    level,
    margin,
    pair_part,
    sender_counts,
    start_of,
)
from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._promise import (
    GRID,
    Divisors,
    check_bounds,
    copies_to,
    declared_divisors,
    noisy,
    pair_sums,
    pair_weights,
    promised_sensitivity,
    row_sums,
)
from sfumato.central._compatibility import Expected, Law, expected_rows, find_law, forecast
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of
from sfumato.noise.keys import new_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Planned, Session
    from sfumato.privacy.units import Unit

HOP, PAIRS, TEST = "aggregate/1", 0.05, 0.01
"""The name of the hop, and the shares of mu^2 that pairs and test have."""
LEVELS = {"typical": 0.03, "bound": 0.09}
"""The names of the two levels by which a bound is found, and their shares of mu^2."""
LEAST_FEATURES = 0.1
"""The least share of mu^2 that features have."""
_MOST_FEATURES, _SLOPE, _BEYOND = 0.5, 30.0, 0.55
_LARGE = 24
_PART = float(np.sqrt(0.5)) * (1 - 2.0**-20)
Steps = NDArray[np.int64]


class Degrees(NamedTuple):
    """What is known of degrees: the ``bounds`` of nodes, and ``found``, the one for everybody, where no node has its own."""

    bounds: Steps
    found: Found | None = None

    def expected(self, law: Law, sends: NDArray[np.bool_]) -> Expected:
        """Return what rows hold on average."""
        if self.found is None:
            return expected_rows(law, self.bounds, sends)
        return expected_rows(law, self.bounds, sends, height=height(self.found.excess), of_senders=True)


def most_degree(public: PublicFacts) -> int:
    """Return the bound that a schema promises for everybody, or the number of nodes, which no node can have more arcs than."""
    return public.num_nodes if public.max_degree is None else public.max_degree


def is_found(unit: Unit, public: PublicFacts, noise_multiplier: float) -> bool:
    """Return whether a bound is found with a part of the budget: where one for everybody is large beside the margin."""
    moved = promised_sensitivity(unit)
    least = margin(noise_multiplier * moved / float(np.sqrt(LEVELS["bound"])), moved)
    return not public.degree_bounds and most_degree(public) > _LARGE * least


def features_share(public: PublicFacts, noise_multiplier: float) -> float:
    r"""Return the share of :math:`\mu^2` that features have: more of it, the more noise moves the head."""
    needed = _SLOPE * noise_multiplier * float(np.sqrt(public.num_features)) / max(public.num_train, 1)
    return min(max(needed, LEAST_FEATURES), _MOST_FEATURES)


def bounds_of(graph: Graph) -> NDArray[np.int64]:
    """Return the public bound on the arcs out and in of each node: its own, or the same for everybody."""
    if graph.degree_bounds is not None:
        return np.asarray(graph.degree_bounds, np.int64)
    return np.full(graph.num_nodes, graph.num_nodes if graph.max_degree is None else graph.max_degree)


def release_levels(plan: Planned, graph: Graph, session: Session) -> dict[str, Steps]:
    """Charge the two levels of counts of senders, then compute them, each int64 [1, 1]; the second reads the first."""
    found: dict[str, Steps] = {}
    counts = sender_counts(graph.indptr, graph.indices, graph.train_mask)
    for name in LEVELS:
        key = session.charge(name)
        start = start_of(float(found["typical"][0, 0]) / GRID) if found else 0
        exact = np.full((1, 1), GRID * level(counts, start))
        session.bind(name, exact)
        found[name] = noisy(exact, GRID * noise_of(plan, name), key)
    return found


def degrees_of(plan: Planned, num_nodes: int, released: Mapping[str, NDArray[np.integer]], bounds: Steps) -> Degrees:
    """Return what is known of degrees: public ``bounds`` of nodes, or one for everybody, by released levels if there are any."""
    if plan.public.degree_bounds:
        return Degrees(bounds)
    found = Found(most_degree(plan.public), 0)
    if "bound" in released:
        typical, second = (float(released[name][0, 0]) / GRID for name in LEVELS)
        added = margin(noise_of(plan, "bound"), promised_sensitivity(plan.unit))
        found = find(start_of(typical), second, added, found.bound)
    return Degrees(np.full(num_nodes, found.bound), found)


def divisors_of(degrees: Degrees, graph: Graph) -> Divisors:
    """Return what copies and pairs are divided by."""
    if degrees.found is None:
        return declared_divisors(degrees.bounds, graph.indptr, graph.indices)
    check_bounds(bounds_of(graph), graph.indptr, graph.indices)
    counts = sender_counts(graph.indptr, graph.indices, graph.train_mask)
    return found_divisors(degrees.found, counts, graph.train_mask)


def release_pairs(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], divisors: Divisors
) -> NDArray[np.int64]:
    """Charge the pairs of classes, then compute them, int64 [C, C]."""
    key = session.charge("pairs") if plan.unit.private else new_key()
    pairs = pair_weights(graph.indptr, graph.indices, graph.train_mask, divisors, directed=graph.directed)
    sums = pair_sums(pairs, classes, plan.public.num_classes)
    session.bind("pairs", sums)
    return noisy(sums, GRID * noise_of(plan, "pairs"), key)


def release_hop(
    plan: Planned, graph: Graph, session: Session, classes: NDArray[np.int64], divisors: Divisors
) -> NDArray[np.int64]:
    """Charge the hop, then compute it, int64 [num_nodes, C]; rows of senders are not released, and zero."""
    key, receives = session.charge(HOP) if plan.unit.private else new_key(), ~graph.train_mask
    sums = row_sums(
        copies_to(graph.indptr, graph.indices, classes, receives, divisors), graph.num_nodes, plan.public.num_classes
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


def hop_pays(plan: Planned, pairs: NDArray[np.int64], test: NDArray[np.int64], degrees: Degrees, graph: Graph) -> bool:
    """Return whether the rest goes to the hop; reads releases, roles and public facts alone."""
    law, expected = learned(plan, pairs, degrees, graph.train_mask)
    receives, tested = ~graph.train_mask, np.count_nonzero(graph.train_mask | graph.val_mask)
    if not law.known or not receives.any():
        return False
    first, second = np.clip(test[0] / INT16_ONE / _PART / max(tested, 1), 1 / plan.public.num_classes, 0.99).tolist()
    whole = multiplier_of(plan, "pairs") * float(np.sqrt(PAIRS))
    beyond = -_BEYOND * float(np.log(features_share(plan.public, whole)))
    alone = min(second + beyond * max(second - first, 0.0), 0.99)
    own = Expected(expected.weight, expected.totals[receives])
    return forecast(law, own, degrees.bounds[receives], row_stddev(plan), second) > alone


def learned(
    plan: Planned, pairs: NDArray[np.int64], degrees: Degrees, sends: NDArray[np.bool_]
) -> tuple[Law, Expected]:
    """Return what released pairs say of classes, and of the rows to come."""
    weight = 1.0 if degrees.found is None else max(pair_part(degrees.found, int(sends.sum())), 1 / GRID)
    law = find_law(pairs / (GRID * weight), noise_of(plan, "pairs") / weight, directed=plan.public.directed)
    return law, degrees.expected(law, sends)


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
