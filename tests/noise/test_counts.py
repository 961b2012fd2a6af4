"""Counts with Laplace noise: the ratio of probabilities of neighbors, by all neighbors of small tables."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.noise import counts as module
from sfumato.noise.counts import laplace_counts

RECORDS = list(product(range(3), repeat=2))  # two people, each in one of three bins


def law(counts, outputs, scale):
    """Probability of each output, by the closed form of the noise of one count."""
    q = np.exp(-1 / scale)
    return np.prod((1 - q) / (1 + q) * q ** np.abs(outputs - counts), axis=-1)


def largest_ratio(pairs, changed, epsilon=0.7):
    outputs = np.array(list(product(range(-3, 6), repeat=3)))
    ratios = [
        law(np.array(one), outputs, changed / epsilon) / law(np.array(two), outputs, changed / epsilon)
        for one, two in pairs
    ]
    return np.log(np.max(ratios))


def histogram(people):
    return np.bincount(people, minlength=3)


def test_neighbors_are_as_likely_to_give_every_output():
    gone = [(histogram(people), histogram(people[:1])) for people in RECORDS]
    replaced = [(histogram(one), histogram((one[0], other))) for one in RECORDS for other in range(3)]
    assert largest_ratio(gone, 1) == pytest.approx(0.7)
    assert largest_ratio(replaced, 2) == pytest.approx(0.7)
    assert largest_ratio(replaced, 1) == pytest.approx(1.4), "a near miss: noise for one bin where two change"


@pytest.mark.parametrize("changed", [1, 2])
def test_the_noise_has_that_law(changed, monkeypatch):
    monkeypatch.setattr(module, "new_key", lambda: bytes(32))
    found = laplace_counts(np.full((200, 100), 5), 0.7, changed=changed) - 5
    assert found.shape == (200, 100)
    q = np.exp(-0.7 / changed)
    for value in range(-3, 4):
        chance = (1 - q) / (1 + q) * q ** abs(value)
        assert abs((found == value).mean() - chance) < 4 * np.sqrt(chance / found.size)


def test_every_call_and_every_table_has_noise_of_its_own():
    assert not np.array_equal(laplace_counts(np.zeros(50, int), 0.1), laplace_counts(np.zeros(50, int), 0.1))
    zero, one = (module._noise(np.full(50, value), Fraction(10), bytes(32)) for value in (0, 1))
    assert not np.array_equal(zero, one), "the difference would tell both tables"
    assert laplace_counts(3, 1.0).shape == ()


@pytest.mark.parametrize(
    ("counts", "settings", "told"),
    [
        ([1.5], {"epsilon": 1.0}, "counts to be integers"),
        ([True], {"epsilon": 1.0}, "counts to be integers"),
        ([], {"epsilon": 1.0}, "counts to be integers"),
        ([1], {"epsilon": 0.0}, "epsilon"),
        ([1], {"epsilon": 1.0, "changed": 0}, "changed"),
    ],
)
def test_wrong_input_is_refused(counts, settings, told):
    with pytest.raises(InputError, match=told):
        laplace_counts(counts, **settings)
