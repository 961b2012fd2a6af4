"""A released matrix has to be as large as its noise: honest ones are, and those with less noise than was charged are not."""

import numpy as np
import pytest
from verify_written import Held

from sfumato.verify._noise import noise_faults

SIZE = 1e5
LAWS = {2: lambda draws, shape: draws.normal(size=shape), 1: lambda draws, shape: draws.laplace(size=shape)}


def held(power, share, shape=(4000, 3), seed=0, sums=0.0):
    draws = np.random.default_rng(seed)
    found = Held(np.rint(share * SIZE * LAWS[power](draws, shape) + sums))
    found.shape = list(shape)
    return found


def faults(*how, **more):
    return list(noise_faults("aggregate/1", held(*how, **more), SIZE, how[0]))


@pytest.mark.parametrize("power", [1, 2])
def test_as_much_noise_as_was_charged_is_enough(power):
    for seed in range(20):
        assert faults(power, 1.0, seed=seed) == []
    assert faults(power, 0.0, sums=SIZE * 3) == []  # large sums hide what is there
    assert faults(power, 1.0, shape=(0, 3)) == faults(power, 1.0, shape=(3, 0)) == []
    assert faults(power, 0.0, shape=(40, 3)) == []  # too few numbers to tell


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.5, 2 / 3])
def test_less_noise_than_was_charged_is_named(power, share):
    assert "aggregate/1: holds less noise than was charged" in faults(power, share)[0]


@pytest.mark.parametrize("power", [1, 2])
def test_one_column_of_small_sums_tells(power):
    sums = np.array([30 * SIZE, 0.0, 30 * SIZE])
    assert faults(power, 1.0, sums=sums) == []
    assert len(faults(power, 0.5, sums=sums)) == 1


@pytest.mark.parametrize("power", [1, 2])
def test_any_sums_make_it_larger(power):
    """Also sums that are as large as the noise: none hides an honest release from being one."""
    for seed in range(10):
        sums = SIZE * np.random.default_rng(100 + seed).choice([-1.0, 0.0, 1.0], (4000, 3))
        assert faults(power, 1.0, seed=seed, sums=sums) == []
