r"""How much each type of edges should weigh in one hop of shared labels: a pilot by type, and one noisy sum about it.

1. *Pilot*: sums of shared labels of each type side by side (:func:`~sfumato.bounded._typed_shares.apart`), one Gaussian release.
2. *Types*: one noisy sum of 2 K numbers for each node, with :math:`S_{v,k}` the released row of type k less the mean of all such
   rows, and :math:`S_v` the rows of all types side by side. A labeled node in training or validation that receives adds, for each
   type, the product of :math:`S_{v,k} / \|S_v\|` with the code of its class. A training node adds the share that each type has
   among its arcs.
3. *Weights.* The first sums, over the number m of such nodes, are :math:`t_k`; the second, over their total, :math:`\pi_k`.
   Owners spent as much on each type, so t is about :math:`h_k \sqrt{\pi_k}`, with h what one arc of type k tells. A sum of
   weighed arcs tells most if weights are h, for its noise is fixed and the squares of an owner's weights add up to at most 1
   (Cauchy-Schwarz). So each type weighs :math:`\hat h + b_k (t_k / \sqrt{\pi_k} - \hat h)`, at least 0, over the largest:
   what its arcs tell, shrunk toward the mean :math:`\hat h = \sum_k t_k \sqrt{\pi_k}` by noise, with :math:`b_k = \tau^2 /
   (\tau^2 + s^2 / \pi_k)`, s the standard deviation of t, and :math:`\tau^2` the larger of :math:`\hat h^2 / 4` and the
   variance of h that noise and one deviation of it do not explain. So types differ when there is evidence that they do. Else
   weights are near 1: the graph without its types.
4. Rows of the pilot are added up with the weights :math:`c_k \sqrt K`, with c in proportion to :math:`w_k \sqrt{\pi_k}` and
   of norm 1. They then hold as much signal as a weighed sum does, and the noise of :math:`\sqrt K` rows.

**Formal guarantee.** Step 1 has sensitivity 1 (2 if records are replaced). In step 2 a record is one row of norm at most 1. It
reads the node's own label and arcs and the released pilot, and is zero if the record is empty: the products have squares that add
up to at most :math:`\sum_k \|S_{v,k}\|^2 / \|S_v\|^2 = 1`, since codes have norm 1; shares add up to 1; and their weights have
:math:`a_1^2 + a_2^2 = 1`. So it is :func:`~sfumato.bounded._grouping.group_sensitivity`. The rest reads releases alone.

**Arcs of another owner.** An arc that v owns enters step 2 in the shares p of v's row, of weight :math:`a_2`. Shares are at
least 0 and add up to at most 1, so two of them are at most :math:`\sqrt 2` apart: the price of one arc is that of a move by
:math:`a_2 \sqrt 2`, with a cap on arcs or without (:func:`told_arc_change`). It is reached where a cap lets another arc in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks
from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._routing import routed_coordinates, routed_sensitivity
from sfumato.bounded._typed_shares import TypedLists, apart, typed_arc_change, typed_lists, weighed
from sfumato.bounded.aggregation import noisy_neighborhood_sum
from sfumato.central._counts import NAME, one_hot
from sfumato.central._shares import Routed, simplex
from sfumato.central._typed import check_types
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of, part_of
from sfumato.noise.keys import derive_key
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Planned, Session
    from sfumato.privacy.units import Unit

Floats = NDArray[np.float64]
TYPES, WEIGHTS = "types", "types.weight"
SHARE = 0.01
_OF_PRODUCTS, _LEAST_SHARE = 0.9, 0.01
_DIFFERS, _MOST_NOISE = 0.5, 0.005
_SLACK = 1 - 2.0**-20


def tells_apart(unit: Unit, public: PublicFacts, noise_multiplier: float) -> bool:
    """Return whether types of edges are told apart, a rule of public facts and of the noise of a plan.

    They are not where noise would hide what each type tells: then the pilot's larger share and the sum about types would be lost.
    """
    noise = noise_multiplier * group_sensitivity(unit) / np.sqrt(SHARE * _OF_PRODUCTS)
    return public.edge_types is not None and bool(noise <= _MOST_NOISE * public.num_train)


def pilot_share(share: float, kinds: int) -> float:
    """Return the share of mu^2 of a pilot by type, where that of one without types has ``share``: more, since noise adds up."""
    return share * min(kinds, 4)


def typed_releases(unit: Unit, public: PublicFacts, pilot: float, noise_multiplier: float) -> tuple[Release, ...]:
    """List the pilot, with a share of mu^2, and the sum about types."""
    assert public.edge_types is not None
    kinds, width = len(public.edge_types), len(public.edge_types) * public.num_classes
    touched, moved = routed_coordinates(unit, public.num_nodes, width), typed_arc_change(unit, weighed=False)
    told = Release(TYPES, part_of(SHARE, noise_multiplier), (1, 2 * kinds), 2 * kinds, arc_change=told_arc_change(unit))
    shape = (public.num_nodes, width)
    return Release(NAME, part_of(pilot, noise_multiplier), shape, touched, arc_change=moved), told


def told_arc_change(unit: Unit) -> float | None:
    """Return how far one arc of another owner moves the sum about types, over its sensitivity; None without such arcs.

    >>> from sfumato.privacy.units import NodeLevel
    >>> round(told_arc_change(NodeLevel()), 4)
    0.4472
    """
    if unit.no_arc_change is None:
        return None
    return float(np.sqrt(2 * (1 - _OF_PRODUCTS)) / group_sensitivity(unit))


class TypedPilot:
    """The lists of one fit by type, and the codes that go along them; ``receives`` are the nodes whose rows are released."""

    def __init__(self, plan: Planned, graph: Graph, session: Session, receives: NDArray[np.bool_]) -> None:
        check_types(plan.public, graph)
        cap = plan.unit.max_out_degree
        self.plan, self.graph, self.session, self.receives = plan, graph, session, receives
        self.lists = typed_lists(graph, graph.train_mask, receives, cap, session.key)
        self.codes = one_hot(graph, plan.public.num_classes)[0] @ simplex(plan.public.num_classes)

    def release(self) -> NDArray[np.int64]:
        """Charge and compute the pilot, int64 [num_nodes, K C] in steps; rows of nodes that do not receive are zero."""
        key, stddev = self.session.charge(NAME), multiplier_of(self.plan, NAME) * routed_sensitivity(self.plan.unit)
        parts = apart(self.lists, self.codes)
        for kind, (arcs, messages) in enumerate(parts):
            self.session.bind(f"{NAME}/{kind}", messages, *arcs.arrays)
        sums = np.hstack([
            noisy_neighborhood_sum(arcs, messages, stddev, derive_key(key, "type", kind))  # noise of its own for each
            for kind, (arcs, messages) in enumerate(parts)
        ])  # fmt: skip
        sums[~self.receives] = 0
        return sums

    def weights(self, pilot: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Charge and compute the sum about types, int64 [1, 2 K]; return it, and w and c of each type, float32 [2, K]."""
        plan, graph = self.plan, self.graph
        assert graph.y is not None
        read = (graph.train_mask | graph.val_mask) & self.receives
        noise = multiplier_of(plan, TYPES) * group_sensitivity(plan.unit)
        rows = type_rows(self.lists, pilot, np.where(read, graph.y, -1), self.receives)
        key = self.session.charge(TYPES)
        self.session.bind(TYPES, rows)
        told = noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key)
        most = max(int(np.count_nonzero(read)), 1)
        return told, weights_of(told[0] / INT16_ONE, noise, most, plan.public.num_classes)

    def routed(self, weights: NDArray[np.float32]) -> Routed:
        """Return what one hop sends along arcs that weigh ``weights``."""
        return Routed(*weighed(self.lists, self.codes, weights.tolist()), self.receives)


def type_rows(
    lists: TypedLists, pilot: NDArray[np.int64], y: NDArray[np.int64], receives: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return what each node adds to the sum about types, float32 [num_nodes, 2 K]; ``y`` is -1 where no product counts."""
    degrees, kinds = lists.degrees(), lists.kinds
    classes = pilot.shape[1] // kinds
    mean = pilot[receives].mean(axis=0) if receives.any() else np.zeros(pilot.shape[1])
    codes = simplex(classes).astype(np.float64)

    def block(first: int, last: int) -> NDArray[np.float32]:
        sums = (pilot[first:last] - mean).reshape(-1, kinds, classes) / INT16_ONE
        sums -= sums.mean(axis=2, keepdims=True)
        norms, own = np.sqrt(np.square(sums).sum(axis=(1, 2))), y[first:last]
        products = np.einsum("vkc,vc->vk", sums, codes[np.maximum(own, 0)])
        products *= np.divide(1.0, norms, out=np.zeros_like(norms), where=(norms > 0) & (own >= 0))[:, None]
        arcs = degrees[first:last]
        shares = arcs / np.maximum(arcs.sum(axis=1, keepdims=True), 1)
        found = np.hstack([np.sqrt(_OF_PRODUCTS) * products, np.sqrt(1 - _OF_PRODUCTS) * shares])
        return (found * _SLACK).astype(np.float32)

    return in_blocks(block, len(pilot), read=(pilot,))


def weights_of(told: Floats, noise: float, most: int, classes: int) -> NDArray[np.float32]:
    """Return w and c of each type, float32 [2, K], from the released sum with noise of this deviation over ``most`` nodes.

    >>> weights_of(np.array([90.0, 0, 300, 300]), 1.0, 1000, 4).astype(float).round(2).tolist()
    [[1.0, 0.02], [1.0, 0.02]]
    """
    kinds = len(told) // 2
    counts = np.maximum(told[kinds:], noise)
    shares = np.maximum(counts / counts.sum(), _LEAST_SHARE)
    shares /= shares.sum()
    root = np.sqrt(shares)
    tells = told[:kinds] / (np.sqrt(_OF_PRODUCTS) * most)
    spread = np.hypot(noise / (np.sqrt(_OF_PRODUCTS) * most), 1 / np.sqrt(most * kinds * max(classes - 1, 1)))
    mean = float(tells @ root)
    if mean <= 0:
        weights = np.ones(kinds)
    else:
        each = tells / root
        expected = (kinds - 1 + np.sqrt(2 * (kinds - 1))) * spread**2  # of noise alone, and its deviation
        prior = max(float(shares @ np.square(each - mean) - expected) / (1 - shares @ shares), (_DIFFERS * mean) ** 2)
        weights = np.maximum(mean + prior / (prior + spread**2 / shares) * (each - mean), 0)
        weights /= weights.max()
    joined = weights * root
    return np.stack((weights, joined / np.linalg.norm(joined))).astype(np.float32)


def joined(pilot: NDArray[np.int64], weights: NDArray[np.float32]) -> Floats:
    """Return one row for each node from the rows of all types, in steps, float64 [num_nodes, C]; ``weights`` are w and c."""
    kinds = weights.shape[1]
    parts = pilot.reshape(len(pilot), kinds, -1)
    found: Floats = np.einsum("vkc,k->vc", parts, weights[1].astype(np.float64) * np.sqrt(kinds))
    return found
