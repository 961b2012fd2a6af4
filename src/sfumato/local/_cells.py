r"""Public cells: a partition of the users who are asked, by the topology alone, into groups that are likely alike.

Connected components of at most ``size`` users are cells. A larger one is halved, again and again, along the direction in which an
embedding of its nodes varies most, at the best cut between 30 and 70 % of its users. Components of fewer than an eighth of
``size`` tell nothing of each other; they are put together, in the order of their nodes, so that noise is added to fewer counts.

The embedding of a node is its row of four half kernels times random signs: heat kernels of the typical width and of a quarter
of it, and walks of one and two steps (:mod:`sfumato.local._heat`). Nodes are near that are near in the graph, or that have the
same neighbors.

**Formal guarantee.** No value of a user is an argument: cells are public, like the topology and who is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.local._heat import HeatKernel, Kernel, WalkKernel, heat, normalized_adjacency, typical_width

if TYPE_CHECKING:
    from sfumato.local._heat import Floats

DIRECTIONS = 15.0
"""Directions of the typical heat kernel beyond one a component, as in :mod:`sfumato.local._smoothing`."""
_SIGNS = 64
_SMALL = 8
_LEAST_SHARE = 0.3
_POWERS = 8


def kernels(adjacency: sp.csr_matrix, seed: int = 0) -> list[tuple[Kernel, float]]:
    """List the kernels that a public graph suggests, each with its log prior: heat of five widths, walks of one and two steps."""
    step, walk = normalized_adjacency(adjacency), normalized_adjacency(adjacency, self_loops=False)
    typical = typical_width(step, DIRECTIONS, seed)
    heats = [(HeatKernel(step, typical * 2.0**k, seed), -2.0 * k * k) for k in (-3, -2, -1, 0, 1)]
    return [*heats, *((WalkKernel(walk, hops, seed), 0.0) for hops in (1, 2))]


def cells_of(adjacency: sp.csr_matrix, asked: NDArray[np.bool_], size: int, seed: int = 0) -> NDArray[np.int64]:
    """Number the cell of every node that is asked, from 0, at most ``size`` of them in each; -1 for the others. Shape [n].

    Args:
        adjacency: the public graph, symmetric, [n, n].
        asked: who is asked, bool [n].
        size: the most users in a cell.
        seed: public seed of the signs.

    >>> pairs = sp.csr_matrix(np.kron(np.eye(2), [[0, 1], [1, 0]]))
    >>> cells_of(pairs, np.ones(4, bool), 2).tolist()
    [0, 0, 1, 1]
    """
    count, component = sp.csgraph.connected_components(adjacency, directed=False)
    users = np.bincount(component, weights=asked, minlength=count)
    place = np.full(len(asked), -1, np.int64)
    small = asked & (_SMALL * users < size)[component]
    place[small] = np.arange(small.sum()) // size
    number = 1 + int(place.max(initial=-1))
    whole = asked & ~small & (users <= size)[component]
    names, place[whole] = np.unique(component[whole], return_inverse=True)
    place[whole] += number
    number += len(names)
    if (users > size).any():
        rows = _embedded(adjacency, seed)
        for one in np.flatnonzero(users > size):
            for part in _halved(np.flatnonzero(component == one), rows, asked, size):
                inside = part[asked[part]]
                place[inside] = number
                number += bool(len(inside))
    return place


def _embedded(adjacency: sp.csr_matrix, seed: int) -> Floats:
    """The rows of nodes, float32 [n, 4 * signs]."""
    generator, n = np.random.default_rng(seed), adjacency.shape[0]
    step, walk = normalized_adjacency(adjacency), normalized_adjacency(adjacency, self_loops=False)
    typical = typical_width(step, DIRECTIONS, seed)
    found = []
    heats = [HeatKernel(step, typical / share, seed) for share in (1, 4)]
    for kernel in (*heats, *(WalkKernel(walk, hops, seed) for hops in (1, 2))):
        signs = generator.choice(np.array([-1, 1], np.float32), (n, _SIGNS))
        half = heat(step, kernel.width / 2, signs) if isinstance(kernel, HeatKernel) else kernel.half(signs)
        found.append(kernel.scale * half)
    return np.concatenate(found, axis=1)


def _halved(nodes: NDArray[np.int64], rows: Floats, asked: NDArray[np.bool_], size: int) -> list[NDArray[np.int64]]:
    """Cut the nodes of a component until no part has more than ``size`` users."""
    parts, waiting = [], [nodes]
    while waiting:
        part = waiting.pop()
        if asked[part].sum() <= size:
            parts.append(part)
            continue
        order, cut = _cut(rows[part], asked[part])
        waiting += [part[order[:cut]], part[order[cut:]]]
    return parts


def _cut(rows: Floats, asked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """An order of nodes along their main direction, and where it is cut: at the least variance on both sides."""
    centered = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    direction = centered.T @ (centered @ np.random.default_rng(0).standard_normal(rows.shape[1]))
    for _ in range(_POWERS):
        direction = centered.T @ (centered @ (direction / (np.linalg.norm(direction) + 1e-300)))
    along = centered @ (direction / (np.linalg.norm(direction) + 1e-300))
    order = np.argsort(along, kind="stable")
    users = np.cumsum(asked[order])
    low, high = (int(np.searchsorted(users, share * users[-1])) for share in (_LEAST_SHARE, 1 - _LEAST_SHARE))
    places = np.arange(low, max(high, low + 1)) + 1  # nodes before the cut
    sums = np.cumsum(along[order])
    between = sums[places - 1] ** 2 * (1 / places + 1 / np.maximum(len(rows) - places, 1))  # the sum over all is 0
    return order, int(min(places[between.argmax()], len(rows) - 1))
