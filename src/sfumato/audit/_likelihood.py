r"""The best test for sums with noise: the likelihood ratio of what was released, with one canary and without it.

Let :math:`R_k = S_k + N_k` be the releases of a run, :math:`D_{k,i}` what canary i adds to the sum :math:`S_k`, and
:math:`S^0_k` the sum without any canary. Messages are functions of the sender's record, the weights and earlier releases
(:mod:`~sfumato.audit._hops`), so an attacker who knows all records but canary i knows all of these. The score of hop k is

.. math:: t_{k,i} = \frac{\langle R_k - S^0_k, D_{k,i} \rangle}{\sigma_k \|D_{k,i}\|}, \qquad
   t_i = \frac{\sum_k w_{k,i} t_{k,i}}{\sqrt{\sum_k w_{k,i}^2}}, \quad w_{k,i} = \|D_{k,i}\| / \sigma_k .

**Claim.** With Gaussian noise of deviation :math:`\sigma_k`, :math:`t_{k,i}` is N(0, 1) without the canary and
:math:`N(w_{k,i}, 1)` with it, given all earlier releases. If the norms :math:`\|D_{k,i}\|` do not depend on earlier releases,
:math:`t_i` is :math:`N(0, 1)` and :math:`N(\mu_i, 1)` with :math:`\mu_i^2 = \sum_k w_{k,i}^2`: the most that a
:math:`\mu_i`-GDP run lets anyone know. Scores of different canaries are independent.

*Proof.* Canaries touch disjoint rows (:mod:`~sfumato.audit._canaries`), so on the rows of canary i the sum is
:math:`S^0_k + b_i D_{k,i}`, whatever the coins of others are, and :math:`t_{k,i} = b_i w_{k,i} + \langle N_k, D_{k,i} \rangle /
(\sigma_k \|D_{k,i}\|)`. The last term is N(0, 1) given the past, since a fixed direction of independent normal noise is
normal; for other canaries the directions have disjoint supports, hence independent terms. A sum with fixed weights
:math:`w_{k,i}` of terms that are N(0, 1) given the past is normal, by induction over k. (Messages are rows of norm 1 on a
grid of 1 / 32767, and noise is rounded to it: both change a score by about 1e-4 at most.) :math:`\square`

With Laplace noise the ratio is :math:`\sum (|R - S^0| - |R - S^0 - D|) / b`, which reaches its largest value with a probability
that the canary multiplies by :math:`e^\epsilon`; scores are divided by this value.

Where a cap drops arcs at random, :math:`D_{k,i}` is taken over all arcs that the canary has: all its messages are equal, so
that the product above is the same for whatever arcs were kept, and the score stays normal.

The scores are computed from what was *released*. The noise that a plan claims enters them as a scale alone, on which
no bound depends: :func:`~sfumato.audit._gaussian.mean_shift_lower_bound` estimates the deviation of the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.audit._hops import Hop, hops
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.events import PureEvent

if TYPE_CHECKING:
    from sfumato.audit._canaries import Canaries
    from sfumato.method._plan import Fitted

ALL = "all hops"


@dataclass
class HopScores:
    """Scores of canaries over many fits, by hop and for all hops together.

    If the noise is Laplace (``pure``), a score is the log-likelihood ratio over its largest value, so from -1 to 1.
    """

    pure: bool = False
    members: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=dict)
    others: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, fitted: Fitted, canaries: Canaries, coins: NDArray[np.bool_], seed: int) -> bool:
        """Score the canaries of one fit; return False if the auditor cannot compute the sums of this method."""
        with_all, without = (hops(fitted, graph, seed) for graph in (canaries.graph, canaries.without))
        if not with_all:
            return False
        self.pure = isinstance(fitted.plan.event(with_all[0].name), PureEvent)
        total, weights = np.zeros(len(canaries)), np.zeros(len(canaries))
        for hop, empty in zip(with_all, without, strict=True):
            scores, weight = hop_scores(fitted, canaries, hop, empty, pure=self.pure)
            self._keep(hop.name, scores, weight > 0, canaries.kinds, coins)
            total += weight * scores
            weights += weight if self.pure else weight**2
        if len(with_all) > 1:
            divisor = weights if self.pure else np.sqrt(weights)
            scores = np.divide(total, divisor, out=total, where=weights > 0)
            self._keep(ALL, scores, weights > 0, canaries.kinds, coins)
        return True

    def _keep(
        self,
        name: str,
        scores: NDArray[np.float64],
        touched: NDArray[np.bool_],
        kinds: NDArray[np.str_],
        coins: NDArray[np.bool_],
    ) -> None:
        for kind in np.unique(kinds):
            chosen = touched & (kinds == kind)
            self.members.setdefault((name, str(kind)), []).append(scores[chosen & coins])
            self.others.setdefault((name, str(kind)), []).append(scores[chosen & ~coins])


def hop_scores(
    fitted: Fitted, canaries: Canaries, hop: Hop, empty: Hop, *, pure: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Score every canary on one hop."""
    change = hop.sums - empty.sums
    residual = fitted.released[hop.name][:, hop.columns] - empty.sums
    rows = np.flatnonzero(change.any(axis=1))
    owner = row_owners(canaries)[rows]
    if (owner < 0).any():
        raise fail("canaries", "rows that two canaries change", "to touch disjoint rows")
    moved, seen = change[rows] / INT16_ONE, residual[rows] / INT16_ONE
    if pure:
        ratio = _by(owner, (np.abs(seen) - np.abs(seen - moved)).sum(axis=1), len(canaries))
        length = _by(owner, np.abs(moved).sum(axis=1), len(canaries))
        return np.divide(ratio, length, out=np.zeros_like(ratio), where=length > 0), length / hop.noise
    length = np.sqrt(_by(owner, np.square(moved).sum(axis=1), len(canaries)))
    product = _by(owner, (seen * moved).sum(axis=1), len(canaries))
    scores = np.divide(product, hop.noise * length, out=np.zeros_like(product), where=length > 0)
    return scores, length / hop.noise


def row_owners(canaries: Canaries) -> NDArray[np.int64]:
    """Return which canary can change a row of a sum, int64 [num_nodes], and -1 for rows of none."""
    owner = np.full(canaries.graph.num_nodes, -1, np.int64)
    arcs = np.concatenate([canaries.arcs_in, canaries.arcs_out])
    owner[canaries.nodes] = np.arange(len(canaries.nodes))
    if not canaries.graph.directed:
        owner[arcs[:, 0]] = arcs[:, 2]
    elif len(canaries.nodes):
        kept = np.repeat(np.arange(canaries.graph.num_nodes), np.diff(canaries.graph.indptr))
        of_canary = np.isin(kept, canaries.nodes)
        owner[canaries.graph.indices[of_canary]] = owner[kept[of_canary]]
    owner[arcs[:, 1]] = arcs[:, 2]
    return owner


def _by(owner: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.bincount(owner, values, count).astype(np.float64)
