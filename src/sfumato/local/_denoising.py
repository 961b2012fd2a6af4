"""A server makes of reported neighbor lists a sparse graph, by Bayesian denoising, and beliefs from all claims.

Everything here is post-processing of :class:`~sfumato.randomizers._links.LinkReports` and of public features and labels.
The posterior of a pair depends on the cells of its two users and on how many of the two claim the link (0, 1, 2), so it is
a small table; pairs are only counted into it, and those that are kept are listed: as many as links are expected, up to
a share of all pairs where epsilon is too small to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, logit

from sfumato._validate import check_choice

if TYPE_CHECKING:
    from sfumato.randomizers._links import LinkReports, NeighborLists
    from sfumato.randomizers._values import Floats

RULES = ("expected", "hard")
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Denoised:
    """Links the server believes in: a symmetric CSR matrix of posterior probabilities, and the posterior number of links.

    ``expected`` is that among all pairs, ``kept`` that of the pairs in the matrix.
    """

    links: Any
    expected: float
    kept: float


def expected_degrees(noisy: NDArray[np.integer], epsilon: float) -> Floats:
    """Compute the posterior mean of every degree, [n], under the prior that best explains all noisy degrees (50 steps of EM)."""
    values, cells, counts = np.unique(noisy, return_inverse=True, return_counts=True)
    truth = np.arange(min(max(int(values[-1]), 1), len(noisy) - 1) + 1)
    likelihood = np.exp(-epsilon * np.abs(values[:, None] - truth))
    likelihood /= likelihood.max(axis=1, keepdims=True)
    prior = np.full(len(truth), 1 / len(truth))
    for _ in range(50):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = counts @ posterior / len(noisy)
    return np.asarray((posterior @ truth)[cells])


def beta_model(degrees: Floats, counts: NDArray[np.integer], steps: int = 200) -> Floats:
    r"""Compute link probabilities :math:`\sigma(\beta_a + \beta_b)` under which a user of cell a has degree d_a in expectation.

    Fixed point :math:`\beta_a = \log d_a - \log \sum_j 1 / (e^{-\beta_j} + e^{\beta_a})` over all other users j; users of one
    cell share a beta.

    Source: Chatterjee, Diaconis and Sly (2011), Random graphs with a given degree sequence, theorem 1.5.
    """
    total = counts.sum()
    degrees = np.clip(degrees, 0.25, total - 1.25)
    beta = np.log(degrees) - 0.5 * np.log(degrees @ counts)
    for _ in range(steps):
        terms = 1 / (np.exp(-beta)[None, :] + np.exp(beta)[:, None])
        beta = np.log(degrees) - np.log(np.maximum(terms @ counts - terms.diagonal(), _TINY))
    return np.asarray(expit(beta[:, None] + beta))


def posterior(prior: Floats, epsilon: float) -> Floats:
    r"""Compute P(link | s of its two ends claim it), s = 0, 1, 2: claims add :math:`2 (s - 1) \epsilon_b` to the prior log-odds.

    By Bayes: a claim has probability p under a link and 1 - p under none, and log(p / (1 - p)) = epsilon_b.
    """
    claims = 2 * epsilon * np.arange(-1, 2).reshape(3, *([1] * np.ndim(prior)))
    return np.asarray(expit(logit(prior) + claims))


def _cells(reports: LinkReports, asked: NeighborLists, groups: NDArray[np.integer]) -> tuple[Any, ...]:
    """Users by expected degree, to an eighth of a power of two, and group: cell, and the degree and group of a cell."""
    degrees = expected_degrees(reports.degrees, float(asked.degree_epsilon))
    level = np.round(8 * np.log2(np.maximum(degrees, 0.25))).astype(np.int64)
    keys, cells, counts = np.unique(np.stack((level, groups)), axis=1, return_inverse=True, return_counts=True)
    return cells.ravel(), 2.0 ** (keys[0] / 8), keys[1], counts


def _upper(reports: LinkReports, cells: NDArray[np.int64], size: int) -> Iterator[tuple[int, Any, Any]]:
    """Blocks of pairs i < j: first row, which pairs count, and their place in a table [3, size, size]."""
    column = np.arange(len(reports))
    for rows, agreement in reports.agreement():
        place = (agreement.astype(np.int32) * size + cells[rows, None].astype(np.int32)) * size + cells.astype(np.int32)
        yield rows.start, column > column[rows, None], place


def denoise(
    reports: LinkReports,
    asked: NeighborLists,
    groups: NDArray[np.integer] | None = None,
    rule: str = "expected",
) -> Denoised:
    """Estimate links from reported lists by Bayes: a beta-model prior from noisy degrees, then the posterior over both claims.

    ``groups`` are a public guess of each user's class; links within and between groups then have a prior each, of the odds that
    the claims show.

    Source: Zhu, Tan and Xiao (2023), Blink, section 4.
    """
    check_choice(RULES, rule=rule)
    n = len(reports)
    cells, degrees, group, sizes = _cells(reports, asked, np.zeros(n, np.int64) if groups is None else groups)
    size = len(degrees)
    tally = np.zeros(3 * size * size, np.int64)
    for _, counted, place in _upper(reports, cells, size):
        tally += np.bincount(place[counted], minlength=tally.size)
    counts = tally.reshape(3, size, size)
    prior = beta_model(degrees, sizes)
    if groups is not None:
        prior = _by_group(prior, counts, group[:, None] == group, asked)
    table = posterior(prior, asked.bits_epsilon)
    chosen = table > 0.5 if rule == "hard" else _most_probable(table, counts)
    return Denoised(
        _listed(reports, cells, table, chosen), float((table * counts).sum()), float((table * counts)[chosen].sum())
    )


def _by_group(prior: Floats, counts: NDArray[np.int64], same: NDArray[np.bool_], asked: NeighborLists) -> Floats:
    """Scale the prior within and between groups so that as many links are expected there as the claims say, unbiased."""
    keep, flip = map(float, asked.bit_law)
    pairs, claimed = counts.sum(axis=0), counts[1] / 2 + counts[2]
    for part in (same, ~same):
        found = float((claimed[part] - flip * pairs[part]).sum()) / (keep - flip)
        modelled = float((prior * pairs)[part].sum())
        if modelled > 0:
            prior = np.where(part, prior * min(max(found / modelled, 0.05), 20.0), prior)
    return np.minimum(prior, 0.999)


def _most_probable(table: Floats, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Cells of the most probable pairs, at most as many pairs as are expected; equal cells stay together."""
    values, inverse = np.unique(-table.ravel(), return_inverse=True)
    held = np.bincount(inverse.ravel(), weights=counts.ravel(), minlength=len(values))
    kept = np.cumsum(held) <= (table * counts).sum()
    return np.asarray(kept[inverse.ravel()].reshape(table.shape))


def _listed(reports: LinkReports, cells: NDArray[np.int64], table: Floats, chosen: NDArray[np.bool_]) -> Any:
    """The pairs of the chosen cells, both directions, weighted by their posterior."""
    n, found = len(reports), []
    for start, counted, place in _upper(reports, cells, table.shape[1]):
        row, column = np.nonzero(counted & chosen.ravel()[place])
        found.append((row + start, column, table.ravel()[place[row, column]]))
    row, column, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    half = sp.csr_matrix((weight.astype(np.float32), (row, column)), shape=(n, n))
    return sp.csr_matrix(half + half.T)


def beliefs(
    reports: LinkReports,
    asked: NeighborLists,
    log_probabilities: Floats,
    known: NDArray[np.bool_],
    steps: int = 10,
) -> Floats:
    r"""Compute mean-field beliefs of a block model about classes: log-probabilities [n, C] from *all* claims, no link decided.

    User i's class c gains :math:`\sum_j q_j(c) \log \frac{P(s_{ij} | \text{same class})}{P(s_{ij} | \text{another})}`, s_ij
    the claims of a pair, q the beliefs of the step before (halfway to the new ones), the two link rates estimated from
    claims, unbiased. O(n^2 C) operations a step on blocks of packed bits. ``known`` rows stay as given.
    """
    keep, flip = map(float, asked.bit_law)
    start = current = np.exp(log_probabilities)
    counts = _claims_by_class(reports, start)
    same, pairs = (counts * start).sum(axis=(1, 2)), counts.sum(axis=(1, 2))
    laws = np.array([[flip**2, 2 * keep * flip, keep**2], [keep**2, 2 * keep * flip, flip**2]])
    logs = []
    for held in (same, pairs - same):
        rate = ((held[1] / 2 + held[2]) / held.sum() - flip) / (keep - flip)
        rate = min(max(rate, 1e-7), 0.9)
        logs.append(np.log(rate * laws[0] + (1 - rate) * laws[1]))
    scores = log_probabilities
    for _ in range(steps):
        gain = np.tensordot(logs[0] - logs[1], _claims_by_class(reports, current), axes=1)
        scores = log_softmax(log_probabilities + gain, axis=1)
        current = np.where(known[:, None], start, (current + np.exp(scores)) / 2)
    return np.where(known[:, None], log_probabilities, scores)


def _claims_by_class(reports: LinkReports, mass: Floats) -> Floats:
    """Mass of each class among the others that share 0, 1, 2 claims with a user, [3, n, C]."""
    found = np.empty((3, *mass.shape))
    narrow = mass.astype(np.float32)
    for rows, agreement in reports.agreement():
        for claims in (1, 2):
            found[claims, rows] = (agreement == claims).astype(np.float32) @ narrow
    found[0] = mass.sum(axis=0) - mass - found[1] - found[2]
    return found
