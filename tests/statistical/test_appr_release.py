"""The law of released PageRank rows: fixed keys, so a pass is a pass for good; every check also rejects a near miss."""

from itertools import combinations, permutations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from sfumato.bounded._appr_release import STEPS, clipped_rows, exponential_rows, gaussian_rows

ACCEPT, REJECT = 1e-4, 1e-12
ROWS, NODES, TOP, CLIP, SCALE = 60_000, 6, 2, 0.01, 0.006
ROW = np.array([0.0, 0.004, 0.0, 0.05, 0.0, 0.01])


@pytest.fixture(scope="module")
def picked():
    return exponential_rows(repeated(ROW, ROWS), CLIP, SCALE, TOP, bytes(32))


def repeated(row, count):
    columns = np.flatnonzero(row)
    ends = np.tile(columns, count), np.arange(count + 1) * len(columns)
    return sp.csr_array((np.tile(row[columns], count), *ends), shape=(count, len(row)))


def chances(row, scale, clip=CLIP, top_k=TOP):
    """The probability of every set of picks: draws without replacement by exp(u / b), all orders added."""
    weights = np.exp(np.minimum(row, clip) / scale)
    sets = dict.fromkeys(combinations(range(len(row)), top_k), 0.0)
    for order in permutations(range(len(row)), top_k):
        chance, left = 1.0, weights.sum()
        for pick in order:
            chance, left = chance * weights[pick] / left, left - weights[pick]
        sets[tuple(sorted(order))] += chance
    return sets


def fit(rows, expected):
    places = {names: place for place, names in enumerate(expected)}
    columns = rows.indices.reshape(rows.shape[0], -1)
    counts = np.bincount([places[tuple(names)] for names in columns.tolist()], minlength=len(places))
    return stats.chisquare(counts, np.array(list(expected.values())) * rows.shape[0]).pvalue


def test_picks_have_the_law_of_one_shot_gumbel_noise(picked):
    """The same by definition: the two largest of entries with Gumbel noise, from another generator."""
    assert fit(picked, chances(ROW, SCALE)) > ACCEPT
    noisy = np.minimum(ROW, CLIP) + np.random.default_rng(0).gumbel(scale=SCALE, size=(ROWS, NODES))
    largest = np.sort(np.argsort(noisy, axis=1)[:, -TOP:], axis=1)
    drawn = sp.csr_array((np.ones(largest.size), largest.ravel(), np.arange(ROWS + 1) * TOP), shape=(ROWS, NODES))
    assert fit(drawn, chances(ROW, SCALE)) > ACCEPT


@pytest.mark.parametrize(
    ("scale", "clip"), [(SCALE * 2 / 3, CLIP), (SCALE * 3 / 2, CLIP), (SCALE, 0.05), (SCALE, 0.008)]
)
def test_near_misses_of_picks_are_rejected(picked, scale, clip):
    assert fit(picked, chances(ROW, scale, clip)) < REJECT


def test_draws_with_replacement_are_rejected(picked):
    weights = np.exp(np.minimum(ROW, CLIP) / SCALE)
    weights /= weights.sum()
    sets = {pair: 2 * weights[list(pair)].prod() for pair in combinations(range(NODES), TOP)}
    assert fit(picked, {pair: chance / sum(sets.values()) for pair, chance in sets.items()}) < REJECT


def test_zeros_are_picked_uniformly_and_without_repetition():
    """Many nodes, few entries, many picks: the group of zeros alone."""
    row = np.zeros(40)
    row[[3, 4, 20]] = 1e-9
    columns = exponential_rows(repeated(row, 20_000), CLIP, 1.0, 10, bytes(32)).indices.reshape(-1, 10)
    assert (np.diff(columns, axis=1) > 0).all()
    # Counts of the columns of a row are negatively correlated: chi-square times (1 - 1/40) / (1 - 10/40) has 39 degrees.
    counts = np.bincount(columns.ravel(), minlength=40)
    statistic = ((counts - 5000.0) ** 2 / 5000).sum() * (1 - 1 / 40) / (1 - 10 / 40)
    assert stats.chi2(39).sf(statistic) > ACCEPT
    shifted = np.bincount(np.where(columns == 39, 38, columns).ravel(), minlength=40)
    assert stats.chi2(39).sf(((shifted - 5000.0) ** 2 / 5000).sum()) < REJECT


def test_values_have_fresh_laplace_noise():
    rows = exponential_rows(repeated(ROW, ROWS), CLIP, SCALE, TOP, bytes(32), laplace_scale=0.02)
    noise = rows.data - np.minimum(ROW, CLIP)[rows.indices]
    assert stats.kstest(noise, stats.laplace(0, 0.02).cdf).pvalue > ACCEPT
    for scale in (0.02 * 2 / 3, 0.02 * 3 / 2):
        assert stats.kstest(noise, stats.laplace(0, scale).cdf).pvalue < REJECT
    first, second = noise.reshape(-1, TOP).T
    assert stats.pearsonr(first, second).pvalue > ACCEPT


def test_every_coordinate_gets_gaussian_noise():
    stddev, rows = 0.03, repeated(ROW, 20_000)
    noise = gaussian_rows(rows, CLIP, stddev, NODES, bytes(32)).toarray() - clipped_rows(rows, CLIP).toarray() * (
        CLIP / STEPS
    )
    for column in noise.T:
        assert stats.kstest(column, stats.norm(0, stddev).cdf).pvalue > ACCEPT
        for scale in (stddev * 2 / 3, stddev * 3 / 2):
            assert stats.kstest(column, stats.norm(0, scale).cdf).pvalue < REJECT
    assert abs(np.corrcoef(noise.T) - np.eye(NODES)).max() < 0.04
