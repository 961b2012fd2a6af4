"""Attacks at large d: no randomizer loses more than it claims, and planted faults are seen to."""

import numpy as np
import pytest

from sfumato.audit._bounds import epsilon_lower_bound
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import (
    PGC,
    Collision,
    Direction,
    Gaussian,
    Laplace,
    LocalHashing,
    MultiBit,
    OneBit,
    Piecewise,
    PrivUnit,
    RandomizedResponse,
    Reports,
    Sketch,
    SubsetSelection,
    UnaryEncoding,
)

D = 1433
ONES, ZEROS = np.ones(D, np.float32), np.zeros(D, np.float32)
FIRST, LAST = np.r_[np.ones(30, np.float32), np.zeros(D - 30, np.float32)], np.r_[np.zeros(D - 30), np.ones(30)]
SHORT = 128

# Randomizer, two values, users a side, and the share of the claim that the attack must at least reach (None: unknown).
CLAIMS = [
    (MultiBit(D, 1.0), ONES, ZEROS, 20000, 0.9),
    (MultiBit(D, 5.0), ONES, ZEROS, 20000, 0.5),
    (OneBit(SHORT, 1.0), ONES[:SHORT], ZEROS[:SHORT], 5000, None),
    (PGC(SHORT, 0.02), ONES[:SHORT], ZEROS[:SHORT], 5000, None),
    (Piecewise(D, 1.0), ONES, ZEROS, 20000, 0.6),
    (Laplace(SHORT, 2.0), ONES[:SHORT], ZEROS[:SHORT], 5000, None),
    (Gaussian(SHORT, 2.0, delta=1e-3), ONES[:SHORT], ZEROS[:SHORT], 5000, 0.2),
    (RandomizedResponse(50, 1.0), 3, 44, 20000, 0.5),
    (SubsetSelection(18, 1.0), 3, 14, 20000, 0.3),
    (UnaryEncoding(50, 1.0), 3, 44, 20000, 0.5),
    (LocalHashing(50, 1.0), 3, 44, 20000, 0.3),
    (Collision(D, 1.0, cap=30), FIRST, LAST, 1000, 0.3),
    (Direction(SHORT, 1.0, norm=5.0), FIRST[:SHORT], -FIRST[:SHORT], 5000, 0.8),
    (PrivUnit(SHORT, 1.0, norm=5.0, candidates=16), FIRST[:SHORT], -FIRST[:SHORT], 4000, 0.4),
    (Sketch(D, Direction(64, 1.0, norm=1.0)), ONES, -ONES, 5000, 0.8),
]
CONFIDENCE = 1 - 0.01 / len(CLAIMS)


def audit(yes, no, delta=0.0, confidence=CONFIDENCE):
    """Best lower bound over 21 thresholds, either way round, on scores of runs on the first and on the second value."""
    thresholds = np.unique(np.quantile(np.r_[yes, no], np.linspace(0, 1, 21)))
    counts = [(np.array([(side >= cut).sum() for cut in thresholds]), len(side)) for side in (yes, no)]
    (hits, positives), (alarms, negatives) = counts
    options = {"delta": delta, "confidence": confidence, "comparisons": 2 * len(thresholds)}
    one = epsilon_lower_bound(hits, positives, alarms, negatives, **options)
    two = epsilon_lower_bound(negatives - alarms, negatives, positives - hits, positives, **options)
    return max(one.max(), two.max())


def scores(randomizer, reports, first, second):
    """How far the estimate leans to the first value: what an attacker who knows both would look at."""
    if hasattr(randomizer, "num_classes"):
        first, second = (np.eye(randomizer.num_classes)[value] for value in (first, second))
    elif isinstance(randomizer, Sketch):
        first, second = (randomizer.project(value[None])[0] for value in (first, second))
    estimate = randomizer.estimate(reports)
    return np.round(estimate.sparse @ (np.asarray(first, float) - second), 9)


def repeat(value, count):
    return np.broadcast_to(value, (count, *np.shape(value)))


def lower_bound(randomizer, first, second, count, attacked=None):
    source = SecretWords(bytes(range(32)))
    sides = [(attacked or randomizer).encode(repeat(value, count), source) for value in (first, second)]
    return audit(*(scores(randomizer, side, first, second) for side in sides), delta=randomizer.delta)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim[0]).__name__)
def test_no_attack_contradicts_the_claim(claim):
    randomizer, first, second, count, reached = claim
    bound = lower_bound(randomizer, first, second, count)
    assert bound <= randomizer.total_epsilon
    assert reached is None or bound >= reached * randomizer.total_epsilon


class TrueBitTwice(UnaryEncoding):
    """The bit of the label is set if either of two draws says so."""

    def encode(self, values, source, users=None):
        noise = source.words((len(values), self.num_classes)) < np.uint64(self._other)
        return Reports(super().encode(values, source).values | noise * (np.arange(self.num_classes) == values[:, None]))


class OneTooMany(MultiBit):
    """Each bit has the budget of m, but m + 1 features answer."""

    def encode(self, values, source, users=None):
        wide = MultiBit(self.num_features, self.epsilon * (self.m + 1) / self.m, sampled=self.m + 1)
        return wide.encode(values, source)


class Unclipped(Laplace):
    """Values outside the public range go through as they are."""

    def to_unit(self, block, columns=slice(None)):
        return (block - self.start[columns]) / self.width[columns]


class SignOfZero(Direction):
    """Without padding, a vector of zeros has no side: its bit is a fair coin, out of the randomizer's reach."""

    def encode(self, values, source, users=None):
        reports = super().encode(values, source, users)
        empty = ~values.any(axis=1)
        coin = source.below(2, (len(values), 1)).astype(np.uint8)
        return Reports(np.where(empty[:, None], 2 * coin - 1, reports.values), users=reports.users)


def test_true_bit_drawn_twice_is_caught():
    sound = UnaryEncoding(20, 1.0)
    assert lower_bound(sound, 3, 14, 20000) <= 1 < lower_bound(sound, 3, 14, 20000, TrueBitTwice(20, 1.0))


def test_wrong_number_of_features_is_caught():
    sound = MultiBit(D, 1.0)
    assert lower_bound(sound, ONES, ZEROS, 20000) <= 1 < lower_bound(sound, ONES, ZEROS, 20000, OneTooMany(D, 1.0)) <= 2


def test_values_that_escape_the_range_are_caught():
    sound, far = Laplace(8, 1.0), np.full(8, 5.0)
    assert (
        lower_bound(sound, far, np.zeros(8), 5000) <= 1 < lower_bound(sound, far, np.zeros(8), 5000, Unclipped(8, 1.0))
    )


def test_sign_of_zero_that_depends_on_the_value_is_caught():
    sound, count = Direction(SHORT, 1.0, norm=5.0), 5000
    outside = [
        [
            (side.encode(repeat(value, count), SecretWords(bytes(32))).values[:, 0] > 1)
            for value in (ZEROS[:SHORT], FIRST[:SHORT])
        ]
        for side in (sound, SignOfZero(SHORT, 1.0, norm=5.0))
    ]
    assert (
        audit(*(side.astype(float) for side in outside[0])) <= 1 < audit(*(side.astype(float) for side in outside[1]))
    )
