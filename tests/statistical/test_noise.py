"""The law of the rounded noise: fixed keys, so a pass is a pass for good; every check also rejects a near-miss."""

import numpy as np
import pytest
from scipy import stats

from sfumato.noise import keys
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.coins import coins
from sfumato.noise.gaussian import rounded_gaussian

LAWS = {"gaussian": (rounded_gaussian, stats.norm), "laplace": (rounded_laplace, stats.laplace)}
CASES = [(law, scale) for law in LAWS for scale in (0.4, 3.3, 216815.3, 1e9)]
SIZE = 1_000_000
ACCEPT, REJECT = 1e-4, 1e-12


@pytest.fixture(scope="module")
def draws():
    return {(law, scale): LAWS[law][0](bytes(32), scale, 0, SIZE) for law, scale in CASES}


def chi_square(values, law, scale, mean=0.0, bins=200):
    """p-value of integers against round(mean + scale X), in at most ``bins`` cells with edges between integers."""
    edges = np.unique(np.floor(scale * law.ppf(np.arange(1, bins) / bins))) + 0.5
    cells = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    expected = np.diff(law.cdf(np.r_[-np.inf, edges, np.inf], mean, scale)) * len(values)
    return stats.chisquare(cells, expected).pvalue


@pytest.mark.parametrize(("law", "scale"), CASES)
def test_law_is_the_rounded_one(draws, law, scale):
    assert chi_square(draws[law, scale], LAWS[law][1], scale) > ACCEPT


@pytest.mark.parametrize(("law", "scale"), CASES)
@pytest.mark.parametrize(("factor", "shift"), [(2 / 3, 0), (3 / 2, 0), (1, 1 / 50), (1, -1 / 50)])
def test_near_misses_are_rejected(draws, law, scale, factor, shift):
    shift *= scale * LAWS[law][1].std()
    assert chi_square(draws[law, scale], LAWS[law][1], scale * factor, shift) < REJECT


@pytest.mark.parametrize(("law", "other"), [("gaussian", "laplace"), ("laplace", "gaussian")])
def test_the_other_law_of_the_same_variance_is_rejected(draws, law, other):
    scale = 216815.3 * LAWS[law][1].std() / LAWS[other][1].std()
    assert chi_square(draws[law, 216815.3], LAWS[other][1], scale) < REJECT


@pytest.mark.parametrize(("law", "scale"), [case for case in CASES if case[1] > 1e5])
def test_kolmogorov_smirnov_where_steps_are_fine(draws, law, scale):
    values, ideal = draws[law, scale][:300_000], LAWS[law][1]
    assert stats.kstest(values, ideal(0, scale).cdf).pvalue > ACCEPT
    for near_miss in (ideal(ideal.std() * scale / 50, scale), ideal(0, scale * 2 / 3), ideal(0, scale * 3 / 2)):
        assert stats.kstest(values, near_miss.cdf).pvalue < REJECT


@pytest.mark.parametrize("law", LAWS)
def test_tails_are_filled(draws, law):
    """Beyond a tail quantile: as many draws as expected on either side, and not half as many again."""
    for level in (1e-3, 1e-4):
        for beyond in (
            draws[law, 1e9] > LAWS[law][1].isf(level) * 1e9,
            draws[law, 1e9] < LAWS[law][1].ppf(level) * 1e9,
        ):
            assert stats.binomtest(int(beyond.sum()), SIZE, level).pvalue > ACCEPT
            assert stats.binomtest(int(beyond.sum()), SIZE, level * 2).pvalue < 1e-5


@pytest.mark.parametrize("law", LAWS)
def test_steps_inside_a_rectangle_are_uniform(draws, law):
    """Low bits count: those of a draw at scale 1e9 are even."""
    counts = np.bincount(draws[law, 1e9] & 255, minlength=256)
    assert stats.chisquare(counts).pvalue > ACCEPT


@pytest.mark.parametrize(("law", "scale"), CASES)
def test_neighbors_and_streams_are_uncorrelated(draws, law, scale):
    values = draws[law, scale].astype(float)
    other = LAWS[law][0](keys.derive_key(bytes(32), "other"), scale, 0, SIZE).astype(float)
    pairs = [(values[:-lag], values[lag:]) for lag in (1, 2, 16)] + [(values, other)]
    for left, right in pairs:
        for power in (1, 2):
            assert abs(np.corrcoef(left**power, right**power)[0, 1]) < 5 / np.sqrt(SIZE)
    assert np.corrcoef(values, values + other)[0, 1] > 0.5


@pytest.mark.parametrize("probability", [0.001, 0.37, 0.5, 0.999])
def test_coins_fall_with_their_probability(probability):
    heads = int(coins(bytes(32), probability, np.arange(SIZE)).sum())
    assert stats.binomtest(heads, SIZE, probability).pvalue > ACCEPT
    assert stats.binomtest(heads, SIZE, probability + 0.01 * (1 if probability < 0.5 else -1)).pvalue < REJECT
