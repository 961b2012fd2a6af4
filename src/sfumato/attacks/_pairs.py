"""Pairs of nodes, and how far apart their rows are: what attacks on links are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato._validate import fail
from sfumato.graph._arcs import owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph

    Floats = NDArray[np.float64]

DISTANCES = (
    "cosine",
    "euclidean",
    "correlation",
    "chebyshev",
    "bray-curtis",
    "canberra",
    "city-block",
    "squared-euclidean",
)
_FARTHEST = 2.0
_CHUNK = 1 << 22  # entries of dense rows at a time
_CONSTANT = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Candidates:
    """Pairs of nodes that an attacker asks about: links, and pairs without an arc either way.

    The smaller number of a pair comes first.
    """

    links: NDArray[np.int64]
    others: NDArray[np.int64]

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Return links and then the others, int64 [m + k, 2]."""
        return np.concatenate([self.links, self.others])

    @property
    def is_link(self) -> NDArray[np.bool_]:
        """Mark the links among ``pairs``."""
        return np.arange(len(self.links) + len(self.others)) < len(self.links)

    def split(self, share: float, coins: np.random.Generator) -> tuple[Candidates, Candidates]:
        """Split both kinds at random: a share that the attacker knows, and the rest. No pair is in both."""
        parts: list[list[NDArray[np.int64]]] = [[], []]
        for pairs in (self.links, self.others):
            order, known = coins.permutation(len(pairs)), round(share * len(pairs))
            if not 0 < known < len(pairs):
                raise fail("known", share, f"to leave some of {len(pairs)} pairs on both sides")
            for part, chosen in zip(parts, (order[:known], order[known:]), strict=True):
                part.append(pairs[np.sort(chosen)])
        first, second = (Candidates(*part) for part in parts)
        return first, second


def link_numbers(graph: Graph) -> NDArray[np.int64]:
    """List the pairs of different nodes with an arc either way as ``u * num_nodes + v``, u < v, ascending and each once."""
    ends = np.sort(np.stack([owners(graph.indptr), graph.indices.astype(np.int64)]), axis=0)
    ends = ends[:, ends[0] < ends[1]]
    numbers: NDArray[np.int64] = np.unique(ends[0] * graph.num_nodes + ends[1])
    return numbers


def candidates(graph: Graph, coins: np.random.Generator, most: int) -> Candidates:
    """Draw the candidates: all links (a random part of them if there are more than ``most``), and as many random other pairs.

    Others are different pairs of different nodes without an arc either way, each equally likely.
    """
    numbers, nodes = link_numbers(graph), graph.num_nodes
    chosen = np.sort(coins.choice(numbers, most, replace=False)) if len(numbers) > most else numbers
    free = nodes * (nodes - 1) // 2 - len(numbers)
    if not len(chosen) or free < len(chosen):
        raise fail(
            "graph", graph.name, "to have links, and at least as many pairs without one", "Attack another graph."
        )
    others = np.empty(0, np.int64)
    while len(others) < len(chosen):
        ends = np.sort(coins.integers(nodes, size=(2, 2 * len(chosen) + 64)), axis=0)
        drawn = (ends[0] * nodes + ends[1])[ends[0] < ends[1]]
        drawn = np.concatenate([others, drawn[~np.isin(drawn, numbers)]])
        first = np.sort(np.unique(drawn, return_index=True)[1])  # in the order of the draws: no number is favored
        others = drawn[first][: len(chosen)]
    return Candidates(*(np.stack(np.divmod(np.sort(part), nodes), axis=1) for part in (chosen, others)))


def pair_distances(rows: Any, pairs: NDArray[np.int64], names: Sequence[str] = DISTANCES) -> NDArray[np.float64]:
    r"""Compute distances between the rows of each pair, in float64.

    For rows a and b: cosine :math:`1 - a \cdot b / (\|a\| \|b\|)`; correlation, the same after each row's mean is taken off;
    Bray-Curtis :math:`\sum |a_i - b_i| / \sum |a_i + b_i|`; Canberra :math:`\sum |a_i - b_i| / (|a_i| + |b_i|)`, where 0 / 0
    counts as 0; Chebyshev :math:`\max |a_i - b_i|`; and city block, Euclidean and squared Euclidean, which are the norms.

    **Where a distance is 0 / 0 it is 2**, the largest that cosine and correlation can be: a row of zeros, and under correlation
    a constant row, is similar to nothing. (Published code makes it 0, and takes such a pair for a sure link.) A row whose
    deviation is below what float32 resolves counts as constant.

    Source: He, Jia, Backes, Gong and Zhang (2021), Stealing Links from Graph Neural Networks, section 4.
    """
    found = np.empty((len(pairs), len(names)))
    step = max(1, _CHUNK // max(1, rows.shape[1]))
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        a, b = (dense(rows[part[:, side]]) for side in (0, 1))
        for column, name in enumerate(names):
            found[start : start + step, column] = _DISTANCES[name](a, b)
    return found


def similarities(rows: Any, pairs: NDArray[np.int64], distance: str) -> NDArray[np.float64]:
    """Return minus the distance of each pair, so that a link scores high."""
    return -pair_distances(rows, pairs, [distance])[:, 0]


def dense(rows: Any) -> NDArray[np.float64]:
    """Return rows that may be sparse as a dense float64 array."""
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, np.float64)


def _cosine(a: Floats, b: Floats) -> Any:
    return _angle(a, b, a, b)


def _correlation(a: Floats, b: Floats) -> Any:
    first, second = (rows - rows.mean(1, keepdims=True) for rows in (a, b))
    return _angle(first, second, a, b)


def _angle(a: Floats, b: Floats, whole_a: Floats, whole_b: Floats) -> Any:
    """One minus the cosine; 2 where a row is nothing beside the row that it was."""
    there, size = np.ones(len(a), bool), np.ones(len(a))
    for rows, whole in ((a, whole_a), (b, whole_b)):
        norm = np.linalg.norm(rows, axis=1)
        there &= norm > _CONSTANT * np.linalg.norm(whole, axis=1)
        size *= norm
    cosine = np.divide((a * b).sum(1), size, out=np.full(len(a), 1 - _FARTHEST), where=there)
    return 1 - np.clip(cosine, -1, 1)


def _bray_curtis(a: Floats, b: Floats) -> Any:
    below = np.abs(a + b).sum(1)
    return np.divide(np.abs(a - b).sum(1), below, out=np.full(len(a), _FARTHEST), where=below > 0)


def _canberra(a: Floats, b: Floats) -> Any:
    apart, sizes = np.abs(a - b), np.abs(a) + np.abs(b)
    return np.divide(apart, sizes, out=np.zeros_like(apart), where=sizes > 0).sum(1)


_DISTANCES: dict[str, Callable[[Floats, Floats], Any]] = {
    "cosine": _cosine,
    "euclidean": lambda a, b: np.linalg.norm(a - b, axis=1),
    "correlation": _correlation,
    "chebyshev": lambda a, b: np.abs(a - b).max(1),
    "bray-curtis": _bray_curtis,
    "canberra": _canberra,
    "city-block": lambda a, b: np.abs(a - b).sum(1),
    "squared-euclidean": lambda a, b: ((a - b) ** 2).sum(1),
}
