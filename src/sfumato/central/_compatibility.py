r"""What a noisy row of neighbors' classes says about a node's own class, by one noisy matrix of pairs of classes.

The matrix M sums, over arcs between two senders, :math:`1 / \max(B_u, B_w)` at the entry of their classes
(:func:`~sfumato.bounded._promise.pair_weights`). It gives

* the *law* :math:`P_c`: the classes of senders that a node of class c has arcs from. M is shrunk, by the part of its square
  that noise explains, toward two numbers: a share h of arcs stays inside a class, and the rest follows how frequent classes are;
* the *fullness* t: how many arcs there are, as a share of what the bounds admit.

A receiver v then has the expected total weight :math:`T_v = t \, \tau \, B_v \bar w / \sqrt{B_v}`, with :math:`\tau` the share of
senders and :math:`\bar w` the mean of their weights, and its row, of noise :math:`\sigma`, is taken for Gaussian around
:math:`f T_v (P_c - 1 / C)` with variances

.. math:: \sigma^2 + \left( f T_v \bar w / \sqrt{B_v} + 0.05 (f T_v)^2 \right) P_{ck} (1 - P_{ck}),

where f is one of seven factors from 1/8 to 8, equally likely, for nodes differ in degree; the last term says that a node's
neighbors are not drawn independently. So a flat law, or a row below its noise, adds nothing. All of this reads releases and
public facts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._promise import load_weight
from sfumato.central._forecast import MOST_STRENGTH, solve

Floats = NDArray[np.float64]
_FACTORS, _TOGETHER, _LEAST_SHARE, _LEAST_TOTAL = 2.0 ** np.arange(-3, 4), 0.05, 0.1, 2.0
_DRAWS, _SPREAD = 4000, 1.0


class Law(NamedTuple):
    """A law says how classes are paired by arcs.

    ``of_neighbors`` is P [C, C], the law of the neighbors' classes by the node's own class, ``frequencies`` [C] say how often
    each class is at an end of an arc. The law is flat unless ``known``: the sum of M, ``total``, stands out from its noise.
    """

    of_neighbors: Floats
    frequencies: Floats
    total: float
    known: bool


class Expected(NamedTuple):
    """The mean ``weight`` of a copy, before the divisor of the receiver, and the expected total weight of each node's row."""

    weight: float
    totals: Floats


def find_law(pairs: Floats, stddev: float, *, directed: bool) -> Law:
    """Return the law that a noisy matrix of pairs shows, with senders as rows; ``stddev`` is that of the noise of an entry.

    >>> find_law(np.array([[90.0, 20.0], [0.0, 90.0]]), 0.0, directed=False).of_neighbors.round(2).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    size, total = len(pairs), float(pairs.sum())
    if total <= _LEAST_TOTAL * size * stddev or total <= 0:
        flat = np.full((size, size), 1 / size)
        return Law(flat, flat[0], 0.0, False)
    if not directed:
        pairs, stddev = (pairs + pairs.T) / 2, stddev / np.sqrt(2)
    ends = np.maximum(pairs.sum(0) + pairs.sum(1), 2 * _LEAST_SHARE * total / size)
    ends /= ends.sum()
    chance = float(np.square(ends).sum())
    inside = float(np.clip((np.trace(pairs) / total - chance) / max(1 - chance, 1e-9), -_LEAST_SHARE, 1))
    plain = (1 - inside) * np.outer(ends, ends) + inside * np.diag(ends)
    rest = pairs / total - plain
    square = float(np.square(rest).sum())
    kept = max(0.0, 1 - rest.size * (stddev / total) ** 2 / square) if square else 0.0
    joint = np.maximum(plain + kept * rest, 1e-3 * np.outer(ends, ends))
    return Law((joint / joint.sum(axis=0)).T, ends, total, True)


def expected_rows(
    law: Law, bounds: NDArray[np.int64], sends: NDArray[np.bool_], *, height: float = 1.0, of_senders: bool = False
) -> Expected:
    """Return what rows hold on average if every node fills the same share of its public bound.

    ``height`` is that of weights, and the bounds are those of arcs from and to senders alone if ``of_senders``.
    """
    share, own = float(sends.mean()), np.sort(bounds[sends].astype(np.float64))
    later = np.arange(len(own))[::-1]
    most = share / 2 * float((np.cumsum(own) + own * later).sum()) / max(own.sum(), 1.0)
    full = min(law.total / most, 1 / share if of_senders else 1.0) if most else 0.0
    loads = full * (1 - share) * own / bounds.mean()
    weight = float(np.average(load_weight(loads, height), weights=own)) if len(own) else 0.0
    return Expected(weight, full * share * np.sqrt(bounds) * weight)


def log_likelihood(
    rows: Floats, stddev: float, law: Law, expected: Expected, bounds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the log-likelihood of each row under each class, [n, C], up to a number of its own for each row.

    ``rows`` are released, in copies of weight 1 and with mean 0; ``bounds`` are those of the degrees of these nodes.
    """
    size = rows.shape[1]
    rows = rows - rows.mean(axis=1, keepdims=True)
    copy = (expected.weight / np.sqrt(bounds))[:, None]
    spread = law.of_neighbors * (1 - law.of_neighbors)
    found = np.empty((len(_FACTORS), *rows.shape))
    for place, factor in enumerate(_FACTORS):
        total = factor * expected.totals[:, None]
        for c, (own, apart) in enumerate(zip(law.of_neighbors, spread, strict=True)):
            variance = stddev**2 + (copy * total + _TOGETHER * total**2) * apart + 1e-12
            terms = np.square(rows - total * (own - 1 / size)) / variance + (1 - 1 / size) * np.log(variance)
            found[place, :, c] = -terms.sum(axis=1) / 2
    highest = found.max(axis=0)
    total_likelihood: NDArray[np.float64] = highest + np.log(np.exp(found - highest).mean(axis=0))
    return total_likelihood


def forecast(law: Law, expected: Expected, bounds: NDArray[np.int64], stddev: float, accuracy: float) -> float:
    """Estimate the accuracy that rows and features would reach together; reads releases and public facts alone.

    Nodes, rows and an independent Gaussian channel of features are drawn from the model of this module, by public coins.
    """
    coins, size = np.random.default_rng(0), len(law.frequencies)
    nodes, classes = coins.integers(0, len(bounds), _DRAWS), coins.choice(size, _DRAWS, p=law.frequencies)
    totals = expected.totals[nodes][:, None] * 2.0 ** (_SPREAD * coins.normal(size=(_DRAWS, 1)))
    own = law.of_neighbors[classes]
    variance = stddev**2 + (
        expected.weight / np.sqrt(bounds[nodes])[:, None] * totals + _TOGETHER * totals**2
    ) * own * (1 - own)
    rows = totals * (own - 1 / size) + np.sqrt(variance) * coins.normal(size=own.shape)
    says = log_likelihood(rows, stddev, law, Expected(expected.weight, expected.totals[nodes]), bounds[nodes])
    noise, true = coins.normal(size=own.shape), np.arange(size) == classes[:, None]

    def right(strength: float, other: Floats | float = 0.0) -> float:
        return float(((strength * (noise + strength * true) + other).argmax(axis=1) == classes).mean())

    return right(solve(right, accuracy, MOST_STRENGTH)[1], says)
