"""Discrete noise depends on key, law, parameter and coordinate alone; parameters are exact."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.noise._discrete import _Bits, discrete_gaussian, discrete_laplace
from sfumato.noise.keys import Stream

KEY = bytes(range(32))
SAMPLERS = [discrete_laplace, discrete_gaussian]


class Words:
    """A stream that hands out the given block of 128 bits, then zeros."""

    def __init__(self, first):
        self.first = first

    def at(self, index, attempts):
        """Blocks by attempt, as the stream does."""
        blocks = b"".join((0 if t else self.first).to_bytes(16, "little") for t in attempts)
        return np.frombuffer(blocks, "<u8").reshape(-1, 2)


@pytest.mark.parametrize("draw", SAMPLERS)
def test_parameters_of_any_size(draw):
    assert draw(KEY, Fraction(1, 1000), 0, 500) == [0] * 500
    assert max(abs(x) for x in draw(KEY, 10**60, 0, 20)) > 10**28
    assert len(set(draw(KEY, 10**60, 2**63 - 4, 2**63 - 1))) == 3


@pytest.mark.parametrize("value", [0, -1, Fraction(-1, 2), 2.5, True, "3", np.float64(1)])
@pytest.mark.parametrize(("draw", "name"), [(discrete_laplace, "scale"), (discrete_gaussian, "variance")])
def test_parameters_are_positive_fractions(draw, name, value):
    with pytest.raises(InputError, match=f"Expected {name} to be a positive int or Fraction"):
        draw(KEY, value, 0, 1)


def test_bits_are_handed_out_once_and_in_order():
    blocks = Stream(KEY).at(np.full(16, 5, np.uint64), np.arange(16, dtype=np.uint64))
    string = int.from_bytes(blocks.tobytes(), "little")
    bits, used = _Bits(Stream(KEY), 5), 0
    for count in (1, 0, 63, 64, 900, 1, 600, 300):
        assert bits.take(count) == string >> used & ((1 << count) - 1)
        used += count


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 2**100 + 1])
def test_uniform_integers_skip_what_is_not_below_the_bound(bound):
    """Of the numbers of that many bits, those below the bound come through unchanged and no other does."""
    width = (bound - 1).bit_length()
    for first in {0, bound // 2, bound - 1, bound, (1 << width) - 1}:
        bits = _Bits(Words(first), 0)
        assert bits.below(bound) == (first if first < bound else 0)
