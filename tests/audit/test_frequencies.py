"""Frequencies of outcomes contradict no honest mechanism, come near its claim, and catch planted faults."""

import math

import numpy as np
import pytest

from sfumato import randomizers
from sfumato.audit._bounds import epsilon_lower_bound
from sfumato.audit._frequencies import audit_randomizer, farthest, log_ratios
from sfumato.audit._gaussian import audit_rates
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.errors import InputError
from sfumato.noise.coins import SecretWords
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.privacy.accounting import epsilon
from sfumato.randomizers import (
    PGC,
    Collision,
    Direction,
    Gaussian,
    Laplace,
    LocalHashing,
    MultiBit,
    NeighborLists,
    OneBit,
    Piecewise,
    PrivUnit,
    RandomizedResponse,
    Reports,
    Sketch,
    SubsetSelection,
    UnaryEncoding,
)
from sfumato.randomizers._randomizer import Randomizer

# Every randomizer, and the share of its claim that the audit reaches at least, with 4,000 users a side at 99.9 %.
# Where many columns answer, the worst report of the proof is rare, and little of the claim can be seen.
SHARES = [
    (RandomizedResponse(4, 1.0), 0.6),
    (SubsetSelection(7, 1.0), 0.5),
    (UnaryEncoding(7, 1.0), 0.5),
    (LocalHashing(7, 1.0), 0.5),
    (OneBit(1, 1.0), 0.6),
    (OneBit(64, 1.0), 0.0),
    (MultiBit(200, 1.0), 0.7),
    (PGC(2, 1.0), 0.5),
    (Piecewise(200, 1.0), 0.6),
    (Laplace(1, 1.0), 0.5),
    (Gaussian(8, 2.0, delta=1e-3), 0.2),
    (Collision(100, 1.0, cap=10), 0.3),
    (Direction(16, 1.0, norm=5.0), 0.6),
    (PrivUnit(16, 1.0, norm=5.0, candidates=16), 0.4),
    (Sketch(200, Direction(16, 1.0, norm=1.0)), 0.6),
    (NeighborLists(1.0), 0.4),
]


def audited(randomizer, values=None, **options):
    options = {"runs": 4000, "source": SecretWords(bytes(32))} | options
    return audit_randomizer(randomizer, values, **options).epsilon_lower_bound


@pytest.mark.parametrize(("randomizer", "share"), SHARES, ids=[type(one).__name__ for one, _ in SHARES])
def test_randomizers_keep_their_claim_and_most_of_it_is_seen(randomizer, share):
    claim = randomizer.realized_epsilon if isinstance(randomizer, NeighborLists) else randomizer.total_epsilon
    assert share * claim <= audited(randomizer) <= claim


def test_every_randomizer_is_audited():
    kinds = {getattr(randomizers, name) for name in randomizers.__all__}
    public = {kind for kind in kinds if issubclass(kind, Randomizer)} - {Randomizer}
    assert public | {NeighborLists} == {type(randomizer) for randomizer, _ in SHARES}


class HiddenMark(RandomizedResponse):
    """Sends the label in the clear in a column that the estimate does not read."""

    def encode(self, values, source, users=None):
        sound = super().encode(values, source, users)
        return Reports(np.concatenate([sound.values, self.clipped(values)[:, None]], axis=1))


class SharedHash(LocalHashing):
    """Honest reports under the name of another user: the estimate is wrong, and nothing is betrayed."""

    def encode(self, values, source, users=None):
        sound = super().encode(values, source, users)
        return Reports(sound.values, users=sound.users + 1)


@pytest.mark.parametrize(
    "liar",
    [
        RandomizedResponse(4, 2.0),
        UnaryEncoding(7, 2.0),
        MultiBit(200, 2.0),
        Laplace(1, 2.0),
        Direction(16, 2.0, norm=5.0),
        NeighborLists(2.0),
        HiddenMark(4, 1.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_liars_at_claim_one_are_caught(liar):
    assert audited(liar) > 1


def test_broken_estimate_is_no_leak():
    assert audited(SharedHash(7, 1.0)) <= 1


def test_equal_values_give_nothing():
    assert audited(RandomizedResponse(4, 1.0), (2, 2)) == 0
    assert audited(MultiBit(200, 1.0), (np.ones(200), np.ones(200))) == 0


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
    high, low = farthest(MultiBit(3, 1.0, low=-1.0, high=2.0))
    assert high.tolist() == [2.0] * 3
    assert low.tolist() == [-1.0] * 3
    first, second = farthest(Collision(9, 1.0, cap=3))
    assert first.sum() == second.sum() == 3
    assert first @ second == 0
    vector, opposite = farthest(PrivUnit(16, 1.0, norm=5.0, candidates=16))
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
    audit = audit_rates if gaussian else audit_runs
    return audit(members, others, name="", knowledge="", delta=delta, policy=Split()).epsilon_lower_bound


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
        (lambda: audited(RandomizedResponse(4, 1.0), runs=1), "runs"),
        (lambda: farthest(object()), "randomizer to be of a known kind"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_truth_of_binary_response_is_approached():
    """With 20,000 users a side, nine tenths of epsilon 2 are certified at 99.9 %."""
    assert 1.8 < audited(RandomizedResponse(2, 2.0), runs=20_000) <= 2
    assert math.isfinite(audited(RandomizedResponse(2, 40.0)))
