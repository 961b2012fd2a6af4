"""Real bags of words: the closed forms predict the measured error, and sparse sets pay off."""

import numpy as np
import pytest
from scipy import sparse

from sfumato.datasets._loading import load_dataset
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import Collision, Direction, MultiBit

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def words(data_dir):
    """Cora's 0/1 bag of words: 2708 users, 1433 words, at most 30 each."""
    return sparse.csr_matrix(load_dataset("planetoid/cora", data_dir).x > 0).astype(np.float32)


def errors(randomizer, values):
    """Mean squared error a coordinate: the closed form, and one measured draw."""
    error = randomizer.estimate(randomizer.encode(values, SecretWords(bytes(32)))).toarray() - values.toarray()
    return randomizer.variance(values).mean(), np.mean(error**2)


def test_collision_is_ten_times_below_multi_bit_at_epsilon_one(words):
    cap = int(words.sum(axis=1).max())
    multibit, collision = errors(MultiBit(1433, 1.0), words), errors(Collision(1433, 1.0, cap=cap), words)
    assert cap == 30
    for predicted, measured in (multibit, collision):
        assert measured == pytest.approx(predicted, rel=0.02)
    assert multibit[0] >= 10 * collision[0]
    assert multibit[1] >= 10 * collision[1]


def test_direction_is_seven_times_below_multi_bit(words):
    multibit = MultiBit(1433, 1.0).variance(words).mean()
    predicted, measured = errors(Direction(1433, 1.0, norm=30**0.5), words)
    assert measured == pytest.approx(predicted, rel=0.02)
    assert multibit > 7 * measured
