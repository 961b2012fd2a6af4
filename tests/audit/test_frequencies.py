"""Frequencies of outcomes contradict no honest mechanism, come near its claim, and catch planted faults."""

import math

import numpy as np
import pytest

from sfumato import randomizers as rz
from sfumato.audit._bounds import epsilon_lower_bound
from sfumato.audit._frequencies import audit_randomizer, farthest, log_ratios
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.errors import InputError
from sfumato.noise.coins import SecretWords
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.privacy.accounting import epsilon
from sfumato.randomizers._randomizer import Randomizer

# Every randomizer, and the share of its claim that the audit reaches at least, with 4,000 users a side at 99.9 %.
# Where many columns answer, the worst report of the proof is rare, and little of the claim can be seen.
SHARES = [
    (rz.RandomizedResponse(4, 1.0), 0.6),
    (rz.SubsetSelection(7, 1.0), 0.5),
    (rz.UnaryEncoding(7, 1.0), 0.5),
    (rz.LocalHashing(7, 1.0), 0.5),
    (rz.OneBit(1, 1.0), 0.6),
    (rz.OneBit(64, 1.0), 0.0),
    (rz.MultiBit(200, 1.0), 0.7),
    (rz.PGC(2, 1.0), 0.5),
    (rz.Piecewise(200, 1.0), 0.6),
    (rz.Laplace(1, 1.0), 0.5),
    (rz.Gaussian(8, 2.0, delta=1e-3), 0.2),
    (rz.Collision(100, 1.0, cap=10), 0.3),
    (rz.Direction(16, 1.0, norm=5.0), 0.6),
    (rz.PrivUnit(16, 1.0, norm=5.0, candidates=16), 0.4),
    (rz.Sketch(200, rz.Direction(16, 1.0, norm=1.0)), 0.6),
    (rz.NeighborLists(1.0), 0.4),
]


def audited(randomizer, values=None, **options):
    options = {"runs": 4000, "source": SecretWords(bytes(32))} | options
    return audit_randomizer(randomizer, values, **options).epsilon_lower_bound


@pytest.mark.parametrize(("randomizer", "share"), SHARES, ids=[type(one).__name__ for one, _ in SHARES])
def test_randomizers_keep_their_claim_and_most_of_it_is_seen(randomizer, share):
    claim = randomizer.realized_epsilon if isinstance(randomizer, rz.NeighborLists) else randomizer.total_epsilon
    assert share * claim <= audited(randomizer) <= claim


def test_every_randomizer_is_audited():
    kinds = {getattr(rz, name) for name in rz.__all__}
    public = {kind for kind in kinds if issubclass(kind, Randomizer)} - {Randomizer}
    assert public | {rz.NeighborLists} == {type(randomizer) for randomizer, _ in SHARES}


class HiddenMark(rz.RandomizedResponse):
    """Sends the label in the clear in a column that the estimate does not read."""

    def encode(self, values, source, users=None):
        sound = super().encode(values, source, users)
        return rz.Reports(np.concatenate([sound.values, self.clipped(values)[:, None]], axis=1))


class SharedHash(rz.LocalHashing):
    """Honest reports under the name of another user: the estimate is wrong, and nothing is betrayed."""

    def encode(self, values, source, users=None):
        sound = super().encode(values, source, users)
        return rz.Reports(sound.values, users=sound.users + 1)


class TrueBitTwice(rz.UnaryEncoding):
    """The bit of the label is set if either of two draws says so."""

    def encode(self, values, source, users=None):
        noise = source.words((len(values), self.num_classes)) < np.uint64(self._other)
        return rz.Reports(
            super().encode(values, source).values | noise * (np.arange(self.num_classes) == values[:, None])
        )


class OneTooMany(rz.MultiBit):
    """Each bit has the budget of m, but m + 1 features answer."""

    def encode(self, values, source, users=None):
        wide = rz.MultiBit(self.num_features, self.epsilon * (self.m + 1) / self.m, sampled=self.m + 1)
        return wide.encode(values, source)


class Unclipped(rz.Laplace):
    """Values outside the public range go through as they are."""

    def to_unit(self, block, columns=slice(None)):
        return (block - self.start[columns]) / self.width[columns]


class SignOfZero(rz.Direction):
    """Without padding, a vector of zeros has no side: its bit is a fair coin, out of the randomizer's reach."""

    def encode(self, values, source, users=None):
        reports = super().encode(values, source, users)
        empty = ~values.any(axis=1)
        coin = source.below(2, (len(values), 1)).astype(np.uint8)
        return rz.Reports(np.where(empty[:, None], 2 * coin - 1, reports.values), users=reports.users)


@pytest.mark.parametrize(
    ("liar", "sound", "values"),
    [
        (TrueBitTwice(20, 1.0), rz.UnaryEncoding(20, 1.0), (3, 14)),
        (OneTooMany(1433, 1.0), rz.MultiBit(1433, 1.0), None),
        (Unclipped(8, 1.0), rz.Laplace(8, 1.0), (np.full(8, 5.0), np.zeros(8))),
        (SignOfZero(128, 1.0, norm=5.0), rz.Direction(128, 1.0, norm=5.0), (np.r_[np.ones(30), np.zeros(98)], np.zeros(128))),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_near_misses_of_sound_randomizers_are_caught(liar, sound, values):
    assert audited(sound, values) <= 1 < audited(liar, values)


@pytest.mark.parametrize(
    "liar",
    [
        rz.RandomizedResponse(4, 2.0),
        rz.UnaryEncoding(7, 2.0),
        rz.MultiBit(200, 2.0),
        rz.Laplace(1, 2.0),
        rz.Direction(16, 2.0, norm=5.0),
        rz.NeighborLists(2.0),
        HiddenMark(4, 1.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_liars_at_claim_one_are_caught(liar):
    assert audited(liar) > 1


def test_broken_estimate_is_no_leak():
    assert audited(SharedHash(7, 1.0)) <= 1


def test_equal_values_give_nothing():
    assert audited(rz.RandomizedResponse(4, 1.0), (2, 2)) == 0
    assert audited(rz.MultiBit(200, 1.0), (np.ones(200), np.ones(200))) == 0


def test_score_that_was_learned_on_the_same_runs_finds_what_is_not_there():
    """Outcomes of 200 kinds that say nothing: the half that taught the score must not be the half that bounds."""
    generator, learned, held_out = np.random.default_rng(15), 0, 0
    for _ in range(20):
        first, second = generator.integers(200, size=(2, 1000, 1))
        members, others = log_ratios(first, second)
        half = audit_runs(members, others, name="", knowledge="", delta=0.0, confidence=0.9, policy=Split())
        held_out += half.epsilon_lower_bound > 0
        hits, alarms = ((side[::2] > 0).sum() for side in (members, others))
        learned += epsilon_lower_bound(int(hits), 500, int(alarms), 500, confidence=0.9) > 0
    assert learned == 20
    assert held_out <= 4


def test_farthest_values_are_allowed_and_at_the_ends():
    high, low = farthest(rz.MultiBit(3, 1.0, low=-1.0, high=2.0))
    assert high.tolist() == [2.0] * 3
    assert low.tolist() == [-1.0] * 3
    first, second = farthest(rz.Collision(9, 1.0, cap=3))
    assert first.sum() == second.sum() == 3
    assert first @ second == 0
    vector, opposite = farthest(rz.PrivUnit(16, 1.0, norm=5.0, candidates=16))
    assert np.linalg.norm(vector) == pytest.approx(5.0)
    assert (vector == -opposite).all()


def votes(mechanism, counts=(21, 20), queries=20, delta=1e-5, runs=500, gaussian=False):
    """The epsilon that the answers to equal queries rule out, of whose votes one teacher changes each from class 0 to 1."""
    source, votes = SecretWords(bytes(32)), np.tile(counts, (queries, 1))
    first, second = (
        np.stack([mechanism.aggregate(side, source.bytes(32)).labels for _ in range(runs)]).reshape(-1, 1)
        for side in (votes, votes + np.array([-1, 1]))
    )
    members, others = (side.reshape(runs, queries).sum(axis=1) for side in log_ratios(first, second, queries))
    about = {"name": "", "knowledge": "", "delta": delta, "policy": Split(), "gaussian": gaussian}
    return audit_runs(members, others, **about).epsilon_lower_bound


@pytest.mark.parametrize(
    ("mechanism", "share", "options"),
    [
        (LNMax(2.0), 0.03, {}),
        (LNMax(2.0), 0.1, {"queries": 1, "delta": 0.0, "runs": 2000}),
        (GNMax(2.0), 0.1, {}),
        (GNMax(2.0), 0.3, {"gaussian": True}),
        (ConfidentGNMax(20.0, 5.0, 2.0), 0.2, {"gaussian": True}),
        (ConfidentGNMax(200.0, 5.0, 2.0), 0.0, {}),
    ],
)
def test_mechanisms_keep_their_claim(mechanism, share, options):
    claim = epsilon(mechanism.events(options.get("queries", 20)), 1e-5)
    assert share * claim <= votes(mechanism, **options) <= claim


def test_half_of_the_noise_is_caught():
    claim = epsilon(GNMax(4.0).events(50), 1e-5)
    assert votes(GNMax(4.0), queries=50, gaussian=True) <= claim
    assert votes(GNMax(2.0), queries=50, gaussian=True) > claim


def test_votes_far_from_a_tie_say_nothing():
    assert votes(GNMax(1.0), (40, 0)) == 0


class KnownCoins(GNMax):
    """Noise of a fixed key: near a tie the answer is a function of the votes."""

    def aggregate(self, votes, key=None):
        return super().aggregate(votes, bytes(32))


def test_fixed_key_is_caught():
    claim = epsilon(GNMax(20.0).events(20), 1e-5)
    assert votes(KnownCoins(20.0)) > 2 * claim
    assert votes(GNMax(20.0)) <= claim


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: audited(rz.RandomizedResponse(4, 1.0), runs=1), "runs"),
        (lambda: farthest(object()), "randomizer to be of a known kind"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_truth_of_binary_response_is_approached():
    """With 20,000 users a side, nine tenths of epsilon 2 are certified at 99.9 %."""
    assert 1.8 < audited(rz.RandomizedResponse(2, 2.0), runs=20_000) <= 2
    assert math.isfinite(audited(rz.RandomizedResponse(2, 40.0)))
