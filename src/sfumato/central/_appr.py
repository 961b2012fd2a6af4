r"""Rows of approximate PageRank for a method that trains on them: what they cost, how they leave, and which weights they give.

:mod:`~sfumato.bounded._appr_release` has the mechanisms and proofs. A part :math:`\mu^2 = 1 / z^2` of a budget becomes noise so:

* ``gaussian``: M rows of multiplier :math:`z \sqrt M`;
* ``exponential``: K M picks of :math:`\epsilon = 2 / (z \sqrt{K M})`, since a pick of range :math:`\epsilon` costs about
  :math:`\mu = \epsilon / 2`;
* ``exponential-laplace``: half of it for the picks, half for values, M rows of multiplier :math:`z \sqrt{2 M}`.

This only *chooses* noise. What it costs is accounted exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.bounded._appr_release import STEPS, exponential_rows, gaussian_rows, largest_entries
from sfumato.bounded._occurrences import trim
from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.graph._subgraph import adjacency, induced
from sfumato.method._gaussian import multiplier_of
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import ExponentialEvent, GaussianEvent, LaplaceEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.budget import Budget

NOISY = ("gaussian", "exponential", "exponential-laplace")
COLUMNS, VALUES, BOTH = "appr/columns", "appr/values", "appr"


@dataclass(frozen=True)
class Rows:
    """Rows of approximate PageRank by public numbers: M roots, N training nodes, K entries a row.

    ``clip`` is the norm of a row (``gaussian``), or the bound of an entry.
    """

    mechanism: str
    num_rows: int
    num_nodes: int
    top_k: int
    clip: float

    def releases(self, noise_multiplier: float, arc_change: float | None = None) -> tuple[Release, ...]:
        r"""List what the rows release, with :math:`\mu = 1 / z` for all of it."""
        shape, rows = (self.num_rows, self.top_k), math.sqrt(self.num_rows)
        if self.mechanism == "gaussian":
            event = GaussianEvent(noise_multiplier * rows, self.num_rows)
            return (Release(BOTH, event, shape, self.num_nodes, arc_change=arc_change),)
        noise = noise_multiplier * (1 if self.mechanism == "exponential" else math.sqrt(2))
        picks = ExponentialEvent(2 / (noise * rows * math.sqrt(self.top_k)), self.num_rows * self.top_k)
        columns = Release(COLUMNS, picks, shape, 0, arc_change=arc_change)
        if self.mechanism == "exponential":
            return (columns,)
        values = LaplaceEvent(noise * rows, self.num_rows)
        return columns, Release(VALUES, values, shape, self.top_k, arc_change=arc_change)

    def released(self, plan: Planned, graph: Graph, roots: NDArray[np.int64], walk: Walk, session: Session) -> Arrays:
        """Charge the rows, then compute and release them; arcs between training nodes are read, both ways.

        Both are int64 [num_rows, top_k]: ``appr/columns`` are numbers among the training nodes, ``appr/values`` steps of clip /
        STEPS.
        """
        names = [release.name for release in plan.releases if release.name.startswith(BOTH)]
        key, *_ = [session.charge(name) for name in names]
        exact = exact_rows(graph, roots, walk)
        for name in names:
            session.bind(name, exact.indptr, exact.indices, exact.data)
        if self.mechanism == "gaussian":
            stddev = multiplier_of(plan, BOTH) * math.sqrt(2) * self.clip
            return self._arrays(gaussian_rows(exact, self.clip, stddev, self.top_k, key), values=True)
        scale, laplace = 2 * self.clip / plan.event_of(ExponentialEvent, COLUMNS).epsilon, None
        if len(names) == 2:
            laplace = plan.event_of(LaplaceEvent, VALUES).noise_multiplier * self.top_k * self.clip
        found = exponential_rows(exact, self.clip, scale, self.top_k, key, laplace)
        return self._arrays(found, values=laplace is not None)

    def matrix(self, released: Arrays) -> sp.csr_matrix:
        """Build the released matrix [num_rows, num_nodes] from its arrays; without values each entry is 1 / K."""
        columns = released[COLUMNS]
        values = (
            released[VALUES] * (self.clip / STEPS) if VALUES in released else np.full(columns.shape, 1 / self.top_k)
        )
        offsets = np.arange(self.num_rows + 1) * self.top_k
        return sp.csr_matrix((values.ravel(), columns.ravel(), offsets), shape=(self.num_rows, self.num_nodes))

    def exact(self, graph: Graph, roots: NDArray[np.int64], walk: Walk) -> sp.csr_matrix:
        """Return the largest entries without noise: nothing is protected."""
        kept = sp.csr_matrix(largest_entries(exact_rows(graph, roots, walk), self.top_k))
        if self.mechanism == "exponential":
            kept.data[:] = 1 / self.top_k
        return kept

    def _arrays(self, found: sp.csr_array, *, values: bool) -> Arrays:
        shape = self.num_rows, self.top_k
        arrays: Arrays = {COLUMNS: found.indices.reshape(shape).astype(np.int64)}
        if values:
            arrays[VALUES] = np.rint(found.data.reshape(shape) / (self.clip / STEPS)).astype(np.int64)
        return arrays


def exact_rows(graph: Graph, roots: NDArray[np.int64], walk: Walk) -> sp.csr_array:
    """Compute approximate PageRank on the arcs between training nodes, both ways: nothing is protected."""
    part = induced(graph, np.flatnonzero(graph.train_mask))
    assert part is not None
    arcs = adjacency(part)
    both = sp.csr_matrix(arcs.maximum(arcs.T))
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return approximate_pagerank(both.indptr.astype(np.int64), both.indices.astype(np.int32), roots, walk)


def random_rows(num_rows: int, num_nodes: int, top_k: int, seed: int) -> sp.csr_matrix:
    """Draw K nodes for each row by public coins, with equal weights, [num_rows, num_nodes]."""
    coins = np.random.default_rng(seed)
    columns = np.stack([coins.choice(num_nodes, top_k, replace=False) for _ in range(num_rows)])
    ends = np.repeat(np.arange(num_rows), top_k), columns.ravel()
    return sp.csr_matrix((np.full(columns.size, 1 / top_k), ends), shape=(num_rows, num_nodes))


def loss_weights(
    matrix: sp.csr_matrix, roots: NDArray[np.int64], most: int, column_clip: float | None = None
) -> sp.csr_matrix:
    r"""Trim a released matrix to ``most`` readers of each node, and scale its rows to entries of sum 1 in size.

    With a ``column_clip`` :math:`\tau` columns are scaled to an L1 norm of at most :math:`\tau` instead, and rows stay.
    Scaling adds no entry, so no more roots read a node than before: it neither costs nor saves anything.
    """
    kept = trim(matrix, roots, most)
    if column_clip is not None:
        mass = np.asarray(abs(kept).sum(0)).ravel()
        return sp.csr_matrix(kept @ sp.diags(1 / np.maximum(mass / column_clip, 1)))
    sums = np.asarray(abs(kept).sum(1)).ravel()
    return sp.csr_matrix(sp.diags(1 / np.where(sums > 0, sums, 1)) @ kept)


def worth_releasing(budget: Budget, rows: Rows, share: float) -> bool:
    r"""Return whether Gaussian rows can tell their K largest entries from noise.

    A row of norm :math:`C_1` whose weight lies in K entries has :math:`C_1 / \sqrt K` in each. The largest of N - K noises is
    about :math:`\sigma \sqrt{2 \ln (N / K)}`. Rows are worth their cost if the first is not below the second. Public numbers
    and the budget decide.

    >>> from sfumato.privacy.budget import Budget
    >>> [worth_releasing(Budget(epsilon, 1e-3), Rows("gaussian", 70, 2000, 4, 0.01), 0.5) for epsilon in (16.0, 1e5)]
    [False, True]
    """
    if not budget.delta:
        return False
    noise = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(2 * rows.num_rows / share)
    return noise * math.sqrt(2 * math.log(rows.num_nodes / rows.top_k)) <= 1 / math.sqrt(rows.top_k)
