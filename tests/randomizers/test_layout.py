"""What a report holds and what its guarantee rests on, as anyone can read it: checked for every randomizer."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import sparse

from sfumato import randomizers as rz
from sfumato.collect._questions import Links
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._randomizer import Layout

WORDS = 2**64

# Bits of a report, by hand: values of ceil(log2 N) bits, drawn features of ceil(log2 d) bits or d bits in all.
BITS = [
    (rz.MultiBit(1433, 1.0), 1 * (1 + 11)),
    (rz.MultiBit(1433, 4.0), 2 * (1 + 11)),
    (rz.MultiBit(1433, 8.0, sampled=130), 130 * (1 + 11)),
    (rz.MultiBit(1433, 8.0, sampled=131), 131 + 1433),
    (rz.MultiBit(3, 8.0, sampled=3), 3),
    (rz.OneBit(1433, 1.0), 1433),
    (rz.PGC(1433, 1.0), 1433),
    (rz.Piecewise(1433, 1.0), 1 * (10 + 11)),
    (rz.Piecewise(2, 5.0, sampled=2, cells=8), 2 * 3),
    (rz.Laplace(2, 1.0), 2 * 28),
    (rz.Gaussian(2, 1.0, delta=1e-6), 2 * 28),
    (rz.Collision(1433, 1.0, cap=30, buckets=64), 6),
    (rz.Collision(1433, 1.0, cap=30, buckets=65), 7),
    (rz.Direction(1433, 1.0, norm=5.0), 1),
    (rz.PrivUnit(64, 1.0, norm=1.0, candidates=256), 8),
    (rz.Sketch(1433, rz.Direction(64, 1.0, norm=5.0)), 1),
    (rz.RandomizedResponse(7, 1.0), 3),
    (rz.SubsetSelection(7, 0.5, size=3), 6),
    (rz.UnaryEncoding(100, 1.0), 100),
    (rz.LocalHashing(1000, 1.0), 2),
]


@pytest.mark.parametrize(("randomizer", "bits"), BITS, ids=str)
def test_bits(randomizer, bits):
    assert randomizer.bits == randomizer.layout.bits == bits


def test_bits_of_every_randomizer_are_known(finite, infinite):
    assert {type(one) for one, _ in BITS} == {type(one) for one, _ in finite(1.0) + infinite(1.0)}


def every_report(layout):
    drawn = combinations(range(layout.of), layout.count) if layout.of else [()]
    return (
        (*one, *said) for one, said in product(drawn, product(range(layout.low, layout.high + 1), repeat=layout.count))
    )


def test_possible_reports_are_those_of_the_layout(finite_case):
    """Of both laws: whatever can be reported has its place, and there is no place for anything else."""
    randomizer, values = finite_case
    assert {*randomizer.pmf(values[0], user=1)} == {*every_report(randomizer.layout)}


def test_reports_lie_in_the_layout(case, many):
    randomizer, values = case
    layout = randomizer.layout
    for value in (values[0], values[-1]):
        reports = many(randomizer, value, 300, SecretWords(bytes(32)))
        assert reports.values.shape == (300, layout.count)
        assert reports.values.dtype.kind in "iu"
        assert layout.low <= reports.values.min() <= reports.values.max() <= layout.high
        assert (reports.indices is None) == (layout.of == 0)
        if layout.of:
            assert reports.indices.shape == (300, layout.count)
            assert (np.diff(reports.indices.astype(int), axis=1) > 0).all()
            assert reports.indices.max() < layout.of
        assert len(reports.key(0)) == layout.count * (2 if layout.of else 1)


def test_the_ends_of_the_layout_are_decoded(case, many):
    """A server that takes what the layout allows must be able to read it."""
    randomizer, values = case
    layout, like = randomizer.layout, many(randomizer, values[0], 1, SecretWords(bytes(32)))
    for value, first in product((layout.low, layout.high), (0, layout.of - layout.count)):
        indices = None if like.indices is None else (first + np.arange(layout.count, dtype=like.indices.dtype))[None]
        report = rz.Reports(np.full_like(like.values, value), indices, like.users)
        assert report.values.min() == value
        assert np.isfinite(randomizer.estimate(report).toarray()).all()


def loss(thresholds, more=0):
    """The log-ratio that the shares of words give over all parts, at 50 digits."""
    hit, favored, others, parts = (thresholds[name] for name in ("hit", "favored", "others", "parts"))
    with mp.workdps(50):
        return parts * mp.log(mpf((hit + more) * others) / (WORDS - favored * (hit + more)))


def requested(randomizer):
    """What a user was to spend at most: for rz.PGC on every feature."""
    return randomizer.epsilon * (randomizer.num_features if isinstance(randomizer, rz.PGC) else 1)


def test_epsilon_follows_from_the_thresholds(budgeted_case):
    randomizer, _ = budgeted_case
    assert {*randomizer.thresholds} == {"hit", "favored", "others", "parts"}
    assert all(type(number) is int for number in randomizer.thresholds.values())
    true = loss(randomizer.thresholds)
    assert true <= randomizer.total_epsilon <= requested(randomizer)
    assert randomizer.total_epsilon - true < 1e-9 * true
    assert loss(randomizer.thresholds, 1) > requested(randomizer)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
@pytest.mark.parametrize("num_features", [1, 3, 1433])
def test_laplace_follows_from_its_thresholds(epsilon, num_features):
    laplace = rz.Laplace(num_features, epsilon)
    steps, scale, parts = (laplace.thresholds[name] for name in ("steps", "scale", "parts"))
    assert (type(steps), type(scale), parts) == (int, int, num_features)
    assert Fraction(parts * steps, scale) <= Fraction(laplace.total_epsilon)
    assert laplace.total_epsilon - parts * steps / scale < 1e-9 * epsilon
    assert Fraction(parts * steps, scale - 1) > Fraction(epsilon) >= Fraction(laplace.total_epsilon)
    assert (laplace.layout.low, laplace.layout.high) == (-60 * scale, steps + 60 * scale)


def failure(noise_multiplier, epsilon):
    """The exact delta of rz.Gaussian noise."""
    with mp.workdps(60):
        z, e = mpf(noise_multiplier), mpf(epsilon)
        return mp.ncdf(1 / (2 * z) - e * z) - mp.exp(e) * mp.ncdf(-1 / (2 * z) - e * z)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
@pytest.mark.parametrize(("num_features", "delta"), [(1, 1e-6), (3, 1e-10), (1433, 1e-10)])
def test_gaussian_follows_from_its_thresholds(epsilon, num_features, delta):
    gaussian = rz.Gaussian(num_features, epsilon, delta=delta)
    steps, stddev, parts, stated = (
        gaussian.thresholds[name] for name in ("steps", "stddev", "parts", "noise_multiplier")
    )
    assert (type(steps), parts) == (int, num_features)
    with mp.workdps(60):
        multiplier = mpf(stddev) / (steps * mp.sqrt(parts))
        assert stated <= multiplier < stated * (1 + mpf("1e-12"))
        left = delta - parts * mpf(2) ** -100 * (1 + mp.exp(epsilon))
    assert failure(multiplier, gaussian.total_epsilon) <= left
    assert failure(multiplier * (1 - mpf("1e-8")), epsilon) > delta > 0
    assert gaussian.total_epsilon <= epsilon
    assert gaussian.total_epsilon == pytest.approx(epsilon, rel=1e-8)
    assert gaussian.layout.high - steps == -gaussian.layout.low >= 13 * stddev


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_lists_follow_from_their_thresholds(epsilon, share):
    lists = rz.NeighborLists(epsilon, share)
    degree = Fraction(lists.thresholds["degree_steps"], 2**20)
    assert degree <= Fraction(epsilon) * Fraction(share) < degree + Fraction(1, 2**20)
    with mp.workdps(50):
        of_degree = mpf(degree.numerator) / degree.denominator
        true = of_degree + loss(lists.thresholds)
        assert true <= lists.realized_epsilon <= epsilon
        assert lists.realized_epsilon - true < 1e-9 * true
        roundings = 4096  # of the budget of the bits, rounded down to a float before its words are counted
        assert of_degree + loss(lists.thresholds, roundings) > epsilon
        assert of_degree + mpf(2) ** -20 + loss(lists.thresholds) > epsilon


@pytest.mark.parametrize("num_users", [2, 8, 9, 33])
def test_lists_lie_in_the_layout_of_a_schema(num_users):
    degree, bits = Links(num_users, "00" * 32, 0.5).layouts
    reports = rz.NeighborLists(0.5).encode(sparse.csr_matrix(np.ones((num_users, num_users))), SecretWords(bytes(32)))
    assert degree == Layout(1, -num_users, 2 * num_users)
    assert bits == Layout(num_users - 1, 0, 1)
    assert degree.bits + bits.bits == rz.NeighborLists(0.5).bits(num_users)
    assert degree.low <= reports.degrees.min() <= reports.degrees.max() <= degree.high
    assert np.unpackbits(reports.bits, axis=1, bitorder="little")[:, num_users:].sum() == 0


def test_layouts_of_all_sizes_take_the_shorter_form():
    for of, count in product(range(2, 40), range(1, 40)):
        if count < of:
            layout = Layout(count, 0, 2, of=of)
            assert layout.bits == 2 * count + min(of, count * (of - 1).bit_length())
            assert not Layout(count, 0, 2).as_bitmap
            assert layout.as_bitmap == (of < count * (of - 1).bit_length())
