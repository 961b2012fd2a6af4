"""The law of the noise: fixed keys, so a pass is a pass for good; every check also rejects a near-miss."""

from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from sfumato.privacy import _noise_kernel, noise

SIGMAS = (0.4, 3.3, 216815.3, 1e9)
SIZE = 1_000_000
ACCEPT, REJECT = 1e-4, 1e-12
ZEROS, ONES = np.zeros(2, np.uint64), np.full(2, 2**64 - 1, np.uint64)


@pytest.fixture(scope="module")
def draws():
    return {sigma: noise.rounded_gaussian(bytes(32), sigma, 0, SIZE) for sigma in SIGMAS}


def chi_square(values, sigma, mean=0.0, bins=200):
    """p-value of integers against round(mean + sigma Z), in at most ``bins`` cells with edges between integers."""
    edges = np.unique(np.floor(sigma * stats.norm.ppf(np.arange(1, bins) / bins))) + 0.5
    cells = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    expected = np.diff(stats.norm.cdf(np.r_[-np.inf, edges, np.inf], mean, sigma)) * len(values)
    return stats.chisquare(cells, expected).pvalue


@pytest.mark.parametrize("sigma", SIGMAS)
def test_law_is_the_rounded_gaussian(draws, sigma):
    assert chi_square(draws[sigma], sigma) > ACCEPT


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize(("scale", "shift"), [(2 / 3, 0), (3 / 2, 0), (1, 1 / 50), (1, -1 / 50)])
def test_near_misses_are_rejected(draws, sigma, scale, shift):
    assert chi_square(draws[sigma], sigma * scale, sigma * shift) < REJECT


@pytest.mark.parametrize("sigma", [216815.3, 1e9])
def test_kolmogorov_smirnov_where_steps_are_fine(draws, sigma):
    assert stats.kstest(draws[sigma][:300_000], stats.norm(scale=sigma).cdf).pvalue > ACCEPT
    assert stats.kstest(draws[sigma][:300_000], stats.norm(sigma / 50, sigma).cdf).pvalue < REJECT


def test_steps_inside_a_bin_are_uniform(draws):
    """The second word counts: the low bits of a draw at sigma 1e9 are even."""
    counts = np.bincount(draws[1e9] & 255, minlength=256)
    assert stats.chisquare(counts).pvalue > ACCEPT


@pytest.mark.parametrize("sigma", SIGMAS)
def test_neighbors_and_streams_are_uncorrelated(draws, sigma):
    values = draws[sigma].astype(float)
    other = noise.rounded_gaussian(noise.derive_key(bytes(32), "other"), sigma, 0, SIZE).astype(float)
    pairs = [(values[:-lag], values[lag:]) for lag in (1, 2, 16)] + [(values, other)]
    for left, right in pairs:
        for power in (1, 2):
            assert abs(np.corrcoef(left**power, right**power)[0, 1]) < 5 / np.sqrt(SIZE)
    assert np.corrcoef(values, values + other)[0, 1] > 0.5


@pytest.mark.parametrize("probability", [0.001, 0.37, 0.5, 0.999])
def test_coins_fall_with_their_probability(probability):
    heads = int(noise.coins(bytes(32), probability, np.arange(SIZE)).sum())
    assert stats.binomtest(heads, SIZE, probability).pvalue > ACCEPT
    assert stats.binomtest(heads, SIZE, probability + 0.01 * (1 if probability < 0.5 else -1)).pvalue < REJECT


@pytest.mark.parametrize("probability", [2.0**-64, 3e-19, 1 / 3, 0.1, np.nextafter(1, 0)])
def test_coins_are_never_above_their_probability(monkeypatch, probability):
    """Heads for words 0 to t - 1 and no other, so the probability is t / 2^64 with t the floor of q 2^64."""
    t = int(Fraction(probability) * 2**64)
    words = np.array([[0, 0], [t - 1, 0], [t, 0], [2**64 - 1, 0]], np.uint64)
    monkeypatch.setattr(noise.Stream, "at", lambda self, index, attempt: words)
    assert noise.coins(bytes(32), probability, np.arange(4)).tolist() == [True, True, False, False]


def test_certain_coins():
    assert noise.coins(bytes(32), 1, np.arange(1000)).all()
    assert not noise.coins(bytes(32), 0, np.arange(1000)).any()
    assert not noise.coins(bytes(32), 2.0**-70, np.arange(1000)).any()


def decode(table, words):
    return _noise_kernel.decode(words, *table.arrays, table.first_bin, table.shift, table.half_precision)


def assert_agree(table, words):
    """Where the kernel is certain, no 128 further bits change the exact decision. Returns the statuses."""
    values, status = decode(table, words)
    for word, value, kind in zip(words, values, status, strict=True):
        for extra in (ZEROS, ONES) if kind != _noise_kernel.UNCERTAIN else ():
            exact, accepted = noise._exact_decision(table, word, extra)
            assert accepted == kind
            assert exact == value or not accepted
    return status


@pytest.mark.parametrize("sigma", SIGMAS)
def test_exact_decision_agrees_on_random_words(sigma):
    table = noise._table(sigma)
    status = assert_agree(table, noise.Stream(b"w" * 32).consecutive(0, 1500))
    assert (status == _noise_kernel.ACCEPTED).mean() > 0.9
    assert (status == _noise_kernel.REJECTED).any()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_exact_decision_agrees_next_to_bin_thresholds(sigma):
    """Words within 9 counts of a threshold: the nearest are uncertain, and the certain ones are right."""
    table = noise._table(sigma)
    middle = len(table.thresholds) // 2
    near = [
        int(table.thresholds[j]) + shift for j in range(middle - 30, middle + 30) for shift in (-9, -6, -1, 0, 1, 6, 9)
    ]
    words = noise.Stream(b"b" * 32).consecutive(0, len(near)).copy()
    words[:, 0] = near
    status = assert_agree(table, words).reshape(-1, 7)
    assert (status[:, [2, 3, 4]] == _noise_kernel.UNCERTAIN).all()
    assert (status[:, [0, 6]] != _noise_kernel.UNCERTAIN).any()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_exact_decision_agrees_next_to_acceptance_thresholds(sigma):
    """Words around the exact acceptance threshold of their cell: uncertain near it, right and certain away from it."""
    table = noise._table(sigma)
    shifts = [sign * 2**power for power in (0, 3, 4, 5, 6, 8, 14, 22, 40) for sign in (-1, 1)]
    words = []
    for i, (_, second) in enumerate(noise.Stream(b"a" * 32).consecutive(0, 60)):
        j = len(table.thresholds) // 2 - 100 + 3 * i
        with mp.workprec(300):
            first = (table.first_bin + j) << 31
            mode = first if first >= 0 else first + 2**31 - 1
            cell = first + int(second >> np.uint64(33))
            ratio = noise._mass(cell, sigma, table.shift) / noise._mass(mode, sigma, table.shift)
            low, high = table.cumulative[j], table.cumulative[j + 1]
            counts = (1 - ratio) * (high - low) / table.cumulative[-1] * 2**64
            edge, band = int(mp.floor(low / table.cumulative[-1] * 2**64 + counts)), int(counts / 2**45)
        words += [(edge + shift, int(second)) for shift in (-band, band, *shifts)]
    status = assert_agree(table, np.array(words, np.uint64)).reshape(-1, len(shifts) + 2)
    assert (status[:, :4] == _noise_kernel.UNCERTAIN).all(), "the stated band is 2^-44 of the threshold"
    assert (status[:, -2] == _noise_kernel.REJECTED).all()
    assert (status[:, -1] == _noise_kernel.ACCEPTED).all()


@pytest.mark.parametrize("sigma", [3.3, 216815.3])
def test_every_draw_through_the_fallback_is_the_same(monkeypatch, sigma):
    """The kernel calls every word uncertain: the exact sampler alone gives the same bits, hence the same law."""
    fast = noise.rounded_gaussian(bytes(32), sigma, 0, 4000)
    calls = []

    def unsure(words, *_):
        calls.append(len(words))
        return np.zeros(len(words), np.int64), np.full(len(words), _noise_kernel.UNCERTAIN, np.uint8)

    monkeypatch.setattr(_noise_kernel, "decode", unsure)
    slow = noise.rounded_gaussian(bytes(32), sigma, 0, 4000)
    assert sum(calls) > 4000, "every draw, and the retries of rejected ones, must pass through the fallback"
    assert np.array_equal(fast, slow)
    assert chi_square(slow, sigma, bins=50) > ACCEPT
    assert chi_square(slow, sigma * 1.5, bins=50) < REJECT


@pytest.mark.parametrize("sigma", [0.4, 1e9])
def test_bin_thresholds_match_the_normal_integral(sigma):
    """Thresholds from exact masses of the bins' heaviest cells, by erfc at 600 bits, differ by at most one count."""
    table = noise._table(sigma)
    with mp.workprec(600):
        width = mpf(1) / (mpf(sigma) * mpf(2) ** table.shift)
        half = [_upper((j << 31) * width) - _upper(((j << 31) + 1) * width) for j in range(-table.first_bin)]
        masses, total, running = [*reversed(half), *half], 2 * mp.fsum(half), mpf(0)
        for threshold, mass in zip(table.thresholds, masses, strict=True):
            assert abs(int(threshold) - int(mp.floor(running / total * 2**64))) <= 1
            running += mass


def _upper(z):
    return mp.erfc(z / mp.sqrt(2)) / 2
