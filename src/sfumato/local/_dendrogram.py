r"""Label-only prediction on hierarchies of communities does exact Bayesian inference on random trees over the public graph.

A tree is grown by merging, in rounds, all clusters that are each other's closest, where clusters A and B are as close as
:math:`w(A, B) / (d(A)\, d(B))`: w sums the weights between them, d those at them. (Clusters linked to one other alone are
equally close to it; they are merged two by two, and from round 50 on all that have the same closest.) Every edge draws an
exponential weight from a public seed, so that trees differ and their average has soft borders.

A label runs down the tree as a Markov chain: a cluster of share s of the nodes (in logarithms, :math:`\tau = \log |A| / \log n`)
keeps the class of its parent with probability :math:`e^{-\lambda (\tau_{parent} - \tau)}` and else draws it from the class
prior; a node draws anew with probability 1/10 on top. Two passes over the tree give the exact posterior of every node,
and exactly what it is without the node's own report (the *cavity*). Where the heat kernel of
:mod:`~sfumato.local._smoothing` is smooth, this prior has sharp borders, and a majority may win outright.

**Formal guarantee.** Post-processing of reports on a public topology, as in :mod:`~sfumato.local._smoothing`.

Source: the merging rule is that of Bonald, Charpentier, Galland and Hollocou (2018), Hierarchical Graph Clustering using
Node Pair Sampling, here in rounds; the two passes are Felsenstein (1981), with Pearl (1988) for the way down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.local._smoothed import Cache, Smoothed, averaged, checked_graph, checked_reports, class_prior, for_last

if TYPE_CHECKING:
    from sfumato.local._heat import Floats

_TYPICAL_RATE = 0.8
_PATIENCE = 50  # rounds before neighbors of a hub are merged with each other
_OWN = 0.1  # chance that a node draws its class anew, beside what its clusters do


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """A dendrogram is a tree of clusters. Nodes are 0, ..., n - 1, merge i makes cluster n + i, and the last cluster holds all.

    ``pairs`` [merges, 2] are what each merge joins; merges from ``rounds[k]`` to ``rounds[k + 1]`` are independent. ``tops``
    are joined at the root. ``sizes`` [n + merges + 1] count nodes.
    """

    pairs: NDArray[np.int64]
    rounds: NDArray[np.int64]
    tops: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def grow(cls, adjacency: sp.csr_matrix, generator: np.random.Generator) -> Dendrogram:
        """Grow a tree on edges of random weights; ``adjacency`` is symmetric, without self-loops."""
        upper = sp.triu(adjacency, 1).tocsr().astype(np.float64)
        upper.data = generator.exponential(size=upper.nnz) + 1e-12
        return cls.of(upper)

    @classmethod
    def of(cls, upper: sp.csr_matrix) -> Dendrogram:
        """Merge until no weight is left between clusters; ``upper`` has the weight of each edge once, above the diagonal."""
        n = upper.shape[0]
        weights, names, sizes = sp.csr_matrix(upper + upper.T), np.arange(n), [np.ones(n, np.int64)]
        degrees = np.asarray(weights.sum(axis=1)).ravel()
        pairs, count = [np.empty((0, 2), np.int64)], n
        while weights.nnz:
            left, right = _merges(weights, degrees, late=len(pairs) > _PATIENCE)
            pairs.append(names[np.stack((left, right), axis=1)])
            place = np.full(len(names), -1)
            place[right] = -2
            place[left] = -2
            kept = np.flatnonzero(place == -1)
            place[kept] = np.arange(len(kept))
            place[left] = place[right] = len(kept) + np.arange(len(left))
            names = np.concatenate((names[kept], count + np.arange(len(left))))
            count += len(left)
            known = np.concatenate(sizes)
            sizes.append(known[pairs[-1]].sum(axis=1))
            fold = sp.csr_matrix((np.ones(len(place)), (np.arange(len(place)), place)), (len(place), len(names)))
            degrees = fold.T @ degrees
            weights = (fold.T @ weights @ fold).tocsr()
            weights.setdiag(0)
            weights.eliminate_zeros()
        rounds = np.cumsum([len(joined) for joined in pairs])
        return cls(np.concatenate(pairs), rounds, names, np.concatenate((*sizes, [n])))

    def posterior(self, likelihood: Floats, prior: Floats, rate: float) -> tuple[Floats, Floats]:
        """Compute posterior and cavity of every node, each [n, C].

        Args:
            likelihood: likelihood of the reports, [n, C]; ones where there is none.
        """
        n, m = len(likelihood), len(self.pairs)
        keep = self._kept(rate)
        up, sent = np.zeros((2, n + m + 1, len(prior)))
        with np.errstate(divide="ignore"):
            up[:n] = np.log(likelihood)
        _send(up, sent, slice(0, n), keep, prior)
        for start, stop in pairwise(self.rounds):
            up[n + start : n + stop] = sent[self.pairs[start:stop]].sum(axis=1)
            _send(up, sent, slice(n + start, n + stop), keep, prior)
        up[-1] = sent[self.tops].sum(axis=0)
        down = np.tile(np.log(prior), (n + m + 1, 1))
        _receive(down, up[-1] + down[-1] - sent[self.tops], self.tops, keep, prior)
        for start, stop in reversed(list(pairwise(self.rounds))):
            above = (up + down)[n + start : n + stop, None] - sent[self.pairs[start:stop]]
            _receive(down, above.reshape(-1, len(prior)), self.pairs[start:stop].ravel(), keep, prior)
        cavity = np.exp(down[:n])
        posterior = cavity * likelihood
        return posterior / posterior.sum(axis=1, keepdims=True), cavity / cavity.sum(axis=1, keepdims=True)

    def _kept(self, rate: float) -> Floats:
        """Probability that a cluster keeps the class of its parent, [n + merges + 1, 1]."""
        n, depth = int(self.sizes[-1]), np.log(self.sizes) / np.log(max(2, self.sizes[-1]))
        parent = np.full(len(depth), len(depth) - 1)
        parent[self.pairs.ravel()] = np.repeat(n + np.arange(len(self.pairs)), 2)
        kept = np.exp(-rate * (depth[parent] - depth))
        kept[:n] *= 1 - _OWN
        return kept[:, None]


def _merges(weights: sp.csr_matrix, degrees: Floats, *, late: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs to merge: each other's closest; and leaves of one cluster, which are equally close to it, two by two.

    Once ``late``, all that have the same closest are paired: a hub does not take one neighbor a round.
    """
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    columns = weights.indices.astype(np.int64)
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    closeness = weights.data / (degrees[low] * degrees[high])
    linked = np.flatnonzero(np.diff(weights.indptr))
    starts = weights.indptr[linked]
    best = np.repeat(np.maximum.reduceat(closeness, starts), np.diff(weights.indptr)[linked])
    pair = np.where(closeness == best, low * len(degrees) + high, -1)  # ties go by the pair: some pair is mutual
    first, second = np.divmod(np.maximum.reduceat(pair, starts), len(degrees))
    closest = np.full(weights.shape[0], -1)
    closest[linked] = first + second - linked
    mutual = closest[closest[linked]] == linked
    waiting = linked[~mutual]
    if not late:
        waiting = waiting[np.diff(weights.indptr)[waiting] == 1]
    waiting = waiting[np.argsort(closest[waiting], kind="stable")]
    target = closest[waiting]
    place = np.arange(len(target)) - np.searchsorted(target, target)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (target[:-1] == target[1:]))
    pairs = linked[mutual & (linked < closest[linked])]
    return np.concatenate((pairs, waiting[first])), np.concatenate((closest[pairs], waiting[first + 1]))


def _send(up: Floats, sent: Floats, rows: slice, keep: Floats, prior: Floats) -> None:
    top = up[rows].max(axis=1, keepdims=True)
    shares = np.exp(up[rows] - top)
    sent[rows] = np.log(keep[rows] * shares + (1 - keep[rows]) * (shares @ prior)[:, None]) + top


def _receive(down: Floats, above: Floats, rows: NDArray[np.int64], keep: Floats, prior: Floats) -> None:
    shares = np.exp(above - above.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    down[rows] = np.log(keep[rows] * shares + (1 - keep[rows]) * prior)


@dataclass(frozen=True)
class CommunityTrees:
    r"""Community trees average ``num_trees`` random trees; the rate that they share is averaged by what the reports say.

    Every rate :math:`\lambda` is scored by the log likelihood of each report under its node's cavity, and a weak public
    prior centered at 0.8 (two log units for a factor of 2) decides where the reports cannot. Trees are cached on the
    instance for the last graph seen. ``Smoothed.width`` is the best rate; ``share`` is 1.

    Cost: a tree takes some tens of rounds of sparse products; a pass O(n C). Nothing dense in n x n.

    Raises:
        InputError: a setting is out of range.

    ``rates`` are the values of lambda that are tried, and ``seed`` is public.

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> known = np.array([True, False, True, False])
    >>> smoothed = CommunityTrees(num_trees=2).fit(path, np.array([0, -1, 1, -1]), known, np.eye(2))
    >>> smoothed.probabilities.argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    num_trees: int = 8
    rates: tuple[float, ...] = (0.3, 0.6, 1.0, 1.5, 2.5)
    seed: int = 0
    _cache: Cache = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_int(low=1, num_trees=self.num_trees)
        if not isinstance(self.rates, tuple) or not self.rates:
            raise fail("rates", self.rates, "to be a tuple of one or more numbers", "Try rates=(0.8,).")
        for rate in self.rates:
            check_real("Try 0.8.", low=0, high=100, open_low=True, rate=rate)
        check_int(low=0, seed=self.seed)

    def fit(
        self,
        adjacency: sp.csr_matrix,
        noisy_labels: NDArray[np.integer],
        known_mask: NDArray[np.bool_],
        transition: Floats,
    ) -> Smoothed:
        """Compute probabilities for all nodes by smoothing the reports of the known ones.

        ``adjacency``, ``noisy_labels``, ``known_mask`` and ``transition`` are those of
        :meth:`~sfumato.local._smoothing.HeatKernelRidge.fit`, and so are the errors.
        """
        labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
        trees = for_last(self._cache, checked_graph(adjacency, len(labels)), self._grown)
        prior = class_prior(labels, known, transition)
        likelihood = np.ones((len(labels), len(prior)))
        likelihood[known] = transition[:, labels[known]].T
        fitted = []
        for rate in self.rates:
            full, part = np.mean([tree.posterior(likelihood, prior, rate) for tree in trees], axis=0)
            part[~known] = full[~known]
            score = float(np.log((part * likelihood).sum(axis=1)[known]).sum())
            fitted.append(((rate, 1.0), score - 2 * np.log2(rate / _TYPICAL_RATE) ** 2, full, part))
        return averaged(fitted)

    def _grown(self, adjacency: sp.csr_matrix) -> list[Dendrogram]:
        generator = np.random.default_rng(self.seed)
        return [Dendrogram.grow(adjacency, generator) for _ in range(self.num_trees)]
