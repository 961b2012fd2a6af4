r"""What noisy counts and public values say about a link between two nodes: four numbers from 0 to 1 for any pair.

* *likeness*: the cosine of two public rows: features (rare ones count more) beside the one-hot label;
* *degree*: the sum of the two log degrees, each shrunk toward the mean by the noise of its row;
* *affinity*: how much more often u meets the class of v than chance has it, plus the reverse. Counts are shrunk toward what
  the class of the node has on average;
* *direction*: the inner product of the directions of both rows, shrunk by their noise: common neighbors, by class.

Each is replaced by how rare it is: with M = 50,000 random pairs as a reference, of which k reach the value,
:math:`\phi = \log((M + 1) / (k + 1)) / \log(M + 1)`. So the same weights fit numbers of any scale, and no pair has more than 1.

The score of a pair is :math:`\theta^\top \phi`. With the mean :math:`t` of :math:`\phi` over links, the weights maximize

.. math:: \theta^\top t - \log \frac{1}{M} \sum_{\text{reference}} e^{\theta^\top \phi}
          - \frac{1}{2} \sum_j \lambda_j (\theta_j - \theta^0_j)^2,

the likelihood of links that are drawn with odds :math:`e^{\theta^\top \phi}` from all pairs. Private data enter through t alone.
:math:`\lambda_j` is ten times the variance of the noise of :math:`t_j`, plus one over the number of links, and :math:`\theta^0`
trusts likeness alone, which reads no edge: the more noise, the closer to that.

In a graph of two sides all of this is about pairs across: random pairs are such ones, degrees are shrunk toward the mean of their
side, and nodes without a label are a class of their own, so that what they take counts too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._blocks import ROWS_AT_ONCE, in_blocks, let_go, spans
from sfumato.central._counts import directions

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.graph._sides import Sides

Floats = NDArray[np.float64]
NAMES = ("likeness", "degree", "affinity", "direction")
_REFERENCE, _CHUNK = 50_000, 1 << 16
_LEAST_DEGREE, _LEAST_LAW, _LEAST_SPREAD = 0.1, 1e-3, 0.02
_CAUTION = 10.0
_STEPS, _LONGEST_STEP, _CLOSE = 60, 2.0, 1e-6


def public_rows(graph: Graph) -> sp.csr_matrix:
    """Return rows of norm 1 that hold public features and labels: the cosine of two says how alike nodes are.

    A stored column of a sparse table counts the more the fewer nodes have it; dense columns are standardized.
    """
    assert graph.y is not None
    known = np.flatnonzero(graph.y >= 0)
    labels = sp.csr_matrix((np.ones(len(known)), (known, graph.y[known])), shape=(graph.num_nodes, graph.num_classes))
    if graph.x is None:
        return labels
    x: Any = graph.x
    if sp.issparse(x):
        x = sp.csr_matrix(x, dtype=np.float64)
        x = x @ sp.diags(np.log((1 + graph.num_nodes) / np.maximum(x.getnnz(axis=0), 1)))
    else:
        spread = x.std(axis=0, dtype=np.float64)
        x = sp.csr_matrix((x - x.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1))
    return _unit_rows(sp.hstack([_unit_rows(x), labels]).tocsr())


def cosines(rows: sp.csr_matrix, pairs: NDArray[np.integer]) -> Floats:
    """Return the inner product of two rows of norm 1 for each pair of row numbers [2, m]."""
    found: Floats = np.asarray(rows[pairs[0]].multiply(rows[pairs[1]]).sum(axis=1)).ravel()
    return found


def _unit_rows(rows: sp.csr_matrix) -> sp.csr_matrix:
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.where(norms > 0, norms, 1)) @ rows)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence turns released counts of labels of neighbors [num_nodes, num_classes] into numbers for pairs; it reads no edge.

    ``stddev`` is that of the noise of one count. With ``sides`` the last of one more column counts neighbors without a label.
    ``one`` is what stands for one neighbor in ``counts``. What is known of each node is held as float32, rounded after the
    noise; products and sums are float64.
    """

    graph: Graph
    counts: NDArray[Any]
    stddev: float
    sides: Sides | None = None
    one: float = 1.0

    def of(self, pairs: NDArray[np.integer]) -> Floats:
        """Return how rare each number of each pair is, float64 [m, 4] from 0 to 1; ``pairs`` is [2, m]."""
        total = len(self.sorted_reference) + 1
        found = self._raw(pairs)
        for column, values in enumerate(self.sorted_reference.T):
            above = total - 1 - np.searchsorted(values, found[:, column], side="left")
            found[:, column] = np.log(total / (above + 1)) / np.log(total)
        return found

    @cached_property
    def reference(self) -> Floats:
        """Return the numbers of the random pairs themselves, float64 [M, 4]."""
        return self.of(self._random_pairs)

    @property
    def of_nodes(self) -> tuple[Floats, NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """Return what numbers of pairs are made of: log degrees, log affinities, classes and directions of nodes."""
        return self._log_degrees, self._log_affinities, self._labels, self._directions

    @cached_property
    def _random_pairs(self) -> NDArray[np.int64]:
        first, second = np.random.default_rng(0).integers(self.graph.num_nodes, size=(2, _REFERENCE))
        apart = first != second if self.sides is None else self.sides.apart(np.stack((first, second)))
        return np.stack((first[apart], second[apart]))

    @cached_property
    def sorted_reference(self) -> Floats:
        """Return the values of the random pairs, each number sorted for itself, float64 [M, 4]."""
        return np.sort(self._raw(self._random_pairs), axis=0)

    @cached_property
    def public(self) -> sp.csr_matrix:
        """Return the public row of each node, of norm 1."""
        return public_rows(self.graph)

    @cached_property
    def _degrees(self) -> Floats:
        """Degrees above 0: each is shrunk toward the mean of its side by the share of the variance that noise explains."""
        sums = in_blocks(lambda first, last: self._rows(first, last).sum(axis=1), len(self.counts), read=(self.counts,))
        if self.sides is None:
            return self._shrunk(sums)
        for side in (self.sides.second, ~self.sides.second):
            sums[side] = self._shrunk(sums[side])
        return sums

    def _shrunk(self, sums: Floats) -> Floats:
        mean, noise = max(float(sums.mean()), _LEAST_DEGREE), self.counts.shape[1] * self.stddev**2
        spread = max(float(sums.var()) - noise, (_LEAST_DEGREE * mean) ** 2)
        shrunk = mean + spread / (spread + noise) * (sums - mean)
        degrees: Floats = np.maximum(shrunk, _LEAST_DEGREE * mean)
        return degrees

    @cached_property
    def _labels(self) -> NDArray[np.int32]:
        """The class of each node; without one the last: a column of zeros, or the column of nodes without a label."""
        assert self.graph.y is not None
        classes = self.counts.shape[1] - (self.sides is not None)
        return np.where(self.graph.y < 0, classes, self.graph.y).astype(np.int32)

    @cached_property
    def _log_degrees(self) -> Floats:
        found: Floats = np.log(self._degrees)
        return found

    @cached_property
    def _log_affinities(self) -> NDArray[np.float32]:
        """How much more often a node meets each class than chance has it; a last column of 0 for nodes without a label."""
        count, classes = self.counts.shape
        groups = self._labels if self.sides is None else 2 * self._labels + self.sides.second
        kinds = int(groups.max()) + 1 if self.sides is not None else classes + 1
        sizes = np.maximum(np.bincount(groups, minlength=kinds), 1)[:, None]
        sums = self._total(lambda first, last: _by_group(groups[first:last], self._rows(first, last), kinds))
        laws = np.maximum(sums / sizes, _LEAST_LAW * self._degrees.mean() / classes)
        laws /= laws.sum(axis=1, keepdims=True)

        def expected(first: int, last: int) -> Floats:
            found: Floats = self._degrees[first:last, None] * laws[groups[first:last]]
            return found

        def beyond(first: int, last: int) -> Floats:
            return self._rows(first, last) - expected(first, last)

        squares = self._total(lambda first, last: np.square(beyond(first, last)).sum(axis=0))
        least = _LEAST_SPREAD * (self._total(lambda first, last: expected(first, last).sum(axis=0)) / count)
        spread = np.maximum(squares / count - self.stddev**2, least)

        def shrunk(first: int, last: int) -> Floats:
            own = expected(first, last)
            found: Floats = np.maximum(
                own + spread / (spread + self.stddev**2) * (self._rows(first, last) - own), own / 20
            )
            return found

        chance = self._total(lambda first, last: shrunk(first, last).sum(axis=0))
        chance = chance / self._total(lambda first, last: shrunk(first, last).sum())

        def logs(first: int, last: int) -> NDArray[np.float32]:
            rows, found = shrunk(first, last), np.zeros((last - first, classes + 1), np.float32)
            found[:, :-1] = np.log(rows / rows.sum(axis=1, keepdims=True) / chance)
            return found

        return in_blocks(logs, count, read=(self.counts,))

    def _rows(self, first: int, last: int) -> Floats:
        """The counts of some nodes."""
        found: Floats = self.counts[first:last] / self.one
        return found

    def _total(self, part: Callable[[int, int], Any]) -> Any:
        """The sum of what is found of each block of nodes."""
        found = 0.0
        for first, last in spans(len(self.counts), ROWS_AT_ONCE):
            found = found + part(first, last)
            let_go(self.counts)
        return found

    @cached_property
    def _directions(self) -> NDArray[np.float32]:
        def of(first: int, last: int) -> NDArray[np.float32]:
            rows = self._rows(first, last)
            return directions(rows - rows.mean(axis=1, keepdims=True), self.stddev).astype(np.float32)

        return in_blocks(of, len(self.counts), read=(self.counts,))

    def _raw(self, pairs: NDArray[np.integer]) -> Floats:
        parts = [self._raw_part(pairs[:, at : at + _CHUNK]) for at in range(0, pairs.shape[1], _CHUNK)]
        return np.concatenate(parts) if parts else np.empty((0, len(NAMES)))

    def _raw_part(self, pairs: NDArray[np.integer]) -> Floats:
        u, v = pairs
        met, label = self._log_affinities, self._labels
        found: Floats = np.stack((
            cosines(self.public, pairs),
            self._log_degrees[u] + self._log_degrees[v],
            met[u, label[v]].astype(np.float64) + met[v, label[u]],
            np.einsum("ij,ij->i", *(self._directions[nodes].astype(np.float64) for nodes in (u, v))),
        ), axis=1)  # fmt: skip
        return found


def _by_group(groups: NDArray[np.integer], rows: Floats, kinds: int) -> Floats:
    """The sums of the rows of each group."""
    return np.stack([np.bincount(groups, column, kinds) for column in rows.T], axis=1)


def fit_weights(sums: Floats, count: float, stddev: float, reference: Floats) -> Floats:
    r"""Return the weights :math:`\theta` by Newton steps; ``stddev`` is that of the noise of each sum, and of the count.

    >>> random = np.random.default_rng(0).exponential(0.1, (1000, 4)).clip(0, 1)
    >>> (fit_weights(np.array([40.0, 10, 10, 10]), 100.0, 0.0, random).round() + 0).tolist()
    [7.0, 1.0, 0.0, 1.0]
    """
    links = max(count, 1.0)
    mean = np.clip(sums / links, 0, 1)
    strength = _CAUTION * stddev**2 * (1 + mean**2) / links**2 + 1 / links
    start = np.zeros(len(mean))
    start[0] = np.log(len(reference) + 1) / 2
    weights = start.copy()
    for _ in range(_STEPS):
        scores = reference @ weights
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        found = shares @ reference
        curvature = (reference.T * shares) @ reference - np.outer(found, found) + np.diag(strength)
        step = np.linalg.solve(curvature, mean - found - strength * (weights - start))
        weights = weights + step * min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), _CLOSE))
        if np.abs(step).max() < _CLOSE:
            break
    return weights
