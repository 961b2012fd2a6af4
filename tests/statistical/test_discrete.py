"""The exact samplers follow their probability mass functions; near-misses are rejected. Fixed keys."""

from fractions import Fraction
from math import exp, sqrt, tanh

import numpy as np
import pytest
from scipy import stats

from sfumato.noise._discrete import _Bits, _decays, discrete_gaussian, discrete_laplace
from sfumato.noise.keys import Stream

SIZE = 100_000
ACCEPT, REJECT = 1e-4, 1e-9


def laplace_pmf(scale, values):
    return tanh(0.5 / scale) * np.exp(-np.abs(values) / scale)


def gaussian_pmf(variance, values):
    span = np.arange(-40 * int(sqrt(variance) + 1), 40 * int(sqrt(variance) + 1) + 1)
    return np.exp(-(values**2) / (2 * variance)) / np.exp(-(span**2) / (2 * variance)).sum()


# Sampler, mass function, parameter, and the factors of the parameter that scale noise by 2/3 and 3/2.
CASES = [
    (discrete_laplace, laplace_pmf, Fraction(5, 2), (2 / 3, 3 / 2)),
    (discrete_laplace, laplace_pmf, Fraction(1, 2), (2 / 3, 3 / 2)),
    (discrete_gaussian, gaussian_pmf, Fraction(25, 4), (4 / 9, 9 / 4)),
    (discrete_gaussian, gaussian_pmf, Fraction(1, 3), (4 / 9, 9 / 4)),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].__name__}-{case[2]}")
def case(request):
    draw, pmf, parameter, factors = request.param
    return np.array(draw(bytes(32), parameter, 0, SIZE)), pmf, float(parameter), factors


def chi_square(values, pmf, parameter):
    """p-value in one cell an integer, the rare ones pooled at either end."""
    span = np.arange(-300, 301)
    mass = pmf(parameter, span)
    edge = int(span[mass * len(values) > 10].max())
    inner = np.abs(span) < edge
    tail = mass[span >= edge].sum()
    counts = np.bincount(np.clip(values, -edge, edge) + edge, minlength=2 * edge + 1)
    return stats.chisquare(counts, np.r_[tail, mass[inner], tail] / mass.sum() * len(values)).pvalue


def mean_test(values, shift):
    """p-value of the mean of noise that is shifted by this many standard deviations."""
    return 2 * stats.norm.sf(abs(values.mean() / values.std() - shift) * sqrt(len(values)))


def test_law_is_the_exact_one(case):
    values, pmf, parameter, _ = case
    assert chi_square(values, pmf, parameter) > ACCEPT
    assert mean_test(values, 0) > ACCEPT


def test_near_misses_are_rejected(case):
    values, pmf, parameter, factors = case
    for factor in factors:
        assert chi_square(values, pmf, parameter * factor) < REJECT
    for shift in (-1 / 50, 1 / 50):
        assert mean_test(values, shift) < 1e-5


@pytest.mark.parametrize(
    "case", [CASES[0], CASES[1], CASES[3]], indirect=True, ids=["laplace-5-2", "laplace-1-2", "gaussian-1-3"]
)
def test_rounding_the_continuous_law_is_another_law(case):
    """Rounded noise of the same parameter is not the discrete law: fine enough a test, except at sigma^2 = 25/4."""
    values, pmf, parameter, _ = case
    ideal = stats.laplace(0, parameter) if pmf is laplace_pmf else stats.norm(0, sqrt(parameter))

    def rounded(_, span):
        return ideal.cdf(span + 0.5) - ideal.cdf(span - 0.5)

    assert chi_square(values, rounded, parameter) < REJECT


@pytest.mark.parametrize(
    ("draw", "parameter", "ideal"),
    [(discrete_laplace, 10**6, stats.laplace), (discrete_gaussian, 10**12, stats.norm)],
)
def test_kolmogorov_smirnov_where_steps_are_fine(draw, parameter, ideal):
    values = np.array(draw(bytes(32), parameter, 0, 20_000))
    assert stats.kstest(values, ideal(0, 10**6).cdf).pvalue > ACCEPT
    for scale in (2 / 3, 3 / 2):
        assert stats.kstest(values, ideal(0, scale * 10**6).cdf).pvalue < REJECT


def test_coordinates_are_uncorrelated(case):
    values = case[0].astype(float)
    for lag in (1, 2, 16):
        for power in (1, 2):
            assert abs(np.corrcoef(values[:-lag] ** power, values[lag:] ** power)[0, 1]) < 5 / sqrt(SIZE)


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(1, 10**30)])
def test_exponential_coins(exponent):
    bits = _Bits(Stream(bytes(32)), 0)
    heads = sum(_decays(bits, exponent) for _ in range(20_000))
    assert stats.binomtest(heads, 20_000, exp(-exponent)).pvalue > ACCEPT
    assert stats.binomtest(heads, 20_000, exp(-exponent) * 0.8).pvalue < REJECT
