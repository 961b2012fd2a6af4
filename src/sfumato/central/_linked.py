r"""Graph splits whose groups nodes choose by their own arcs: class sums of groups in place of a network.

1. *Center.* The noisy mean of the training nodes' features, as for ``linear``; a node's row is its features around it, of norm 1.
2. *Sums.* One noisy sum of the groups' rows for each class (:mod:`~sfumato.bounded._linked_sums`): 87 % of :math:`\mu^2`.
3. *Scale.* One number that scores are multiplied by, by the labels of validation nodes (:mod:`~sfumato.central._weighing`).

With groups ``alone`` no node joins another, and no arc is read. The scores of a node are the products of its own row with the
class sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._grouping import group_sensitivity
from sfumato.bounded._linked_sums import check_linked, linked_arc_change, linked_sensitivity, noisy_linked_sums
from sfumato.central._linear import center_release, find_center
from sfumato.central._rows import centered_rows
from sfumato.central._weighing import STEPS, learn_scale
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of, part_of
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit

CENTER_SHARE, SCALE_SHARE = 0.1, 0.03
_LONGEST = 16.0


def linked_releases(unit: Unit, public: PublicFacts, noise_multiplier: float, *, join: bool) -> tuple[Release, ...]:
    """List the center, where rows are centered, the sums and the scale."""
    if join:
        check_linked(unit)
    centers = center_release(unit, public, CENTER_SHARE, noise_multiplier)
    shape, size = (public.num_classes, public.num_features), public.num_classes * public.num_features
    sums = part_of(1 - CENTER_SHARE * len(centers) - SCALE_SHARE, noise_multiplier)
    return (
        *centers,
        Release("sums", sums, shape, size, arc_change=linked_arc_change(unit) if join else unit.no_arc_change),
        Release("scale", part_of(SCALE_SHARE, noise_multiplier), (1,), STEPS, arc_change=unit.no_arc_change),
    )


def learn_linked(plan: Planned, graph: Graph, session: Session, *, join: bool) -> Arrays:
    """Release the center, the sums and the scale; without privacy all is exact, and the scale 1."""
    private, public = plan.unit.private, plan.public
    weights = find_center(plan, graph, session)
    rows, noise, key = centered_rows(graph, weights), 0.0, bytes(32)
    if private:
        key = session.charge("sums")
        noise = multiplier_of(plan, "sums") * linked_sensitivity(
            plan.unit, public.num_train, public.num_features, public.num_classes
        )
    sums, read = noisy_linked_sums(graph, rows, public.num_classes, noise, key, join=join)
    weights["sums"] = (sums * (_LONGEST / _length(sums, noise * INT16_ONE))).astype(np.float32)
    if not private:
        return {**weights, "scale": np.ones(1, np.float32)}
    session.bind("sums", np.frombuffer(read, np.uint8))
    key = session.charge("scale")
    ids = np.flatnonzero(graph.val_mask)
    labels = np.full(graph.num_nodes, -1) if graph.y is None else graph.y
    noise = multiplier_of(plan, "scale") * float(np.sqrt(STEPS)) * group_sensitivity(plan.unit)
    scale, mac = learn_scale(products(weights, rows)[ids], labels[ids], noise, key)
    session.bind("scale", np.frombuffer(mac, np.uint8))
    return {**weights, "scale": scale}


def linked_scores(weights: Arrays, graph: Graph) -> NDArray[np.float32]:
    """Multiply each node's own row with the class sums."""
    found: NDArray[np.float32] = products(weights, centered_rows(graph, weights)) * weights["scale"]
    return found


def _length(sums: NDArray[np.int64], noise_stddev: float) -> float:
    """Return about how long the longest sum is without its noise."""
    longest = float(np.square(sums, dtype=np.float64).sum(axis=1).max(initial=0.0))
    return max(longest - sums.shape[1] * noise_stddev**2, longest / 100, 1.0) ** 0.5


def products(weights: Arrays, rows: Any) -> NDArray[np.float32]:
    """Return the products of rows with the class sums, [num_rows, num_classes]."""
    return np.asarray(rows @ weights["sums"].T, np.float32)
