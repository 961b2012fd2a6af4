"""Sums on a device of torch have the bits of the processor's."""

import numpy as np
import pytest
import torch

from sfumato.bounded.aggregation import Arcs, neighborhood_sum
from sfumato.bounded.device import sum_on_device
from sfumato.bounded.kernels import INT16_ONE
from sfumato.graph._weights import FULL

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("width", [1, 7, 16, 40])
def test_sums_have_the_bits_of_the_processor(device, width):
    random = np.random.default_rng(width)
    degrees = random.integers(0, 12, 700)
    degrees[::3], degrees[350] = 0, 70_000
    offsets = np.r_[0, np.cumsum(degrees)].astype(np.int64)
    arcs = Arcs(offsets, (700 * random.random(offsets[-1]) ** 3).astype(np.int32))
    steps = random.choice([-INT16_ONE - 1, -INT16_ONE, 5, INT16_ONE], (700, width)).astype(np.int16)
    weights = random.integers(0, FULL + 1, len(arcs.sources)).astype(np.uint16)
    for one in (arcs, Arcs(arcs.offsets, arcs.sources, weights)):
        for block in (1 << 24, 1000):
            assert np.array_equal(sum_on_device(one, steps, device, block=block), neighborhood_sum(one, steps))


def test_no_arcs_sum_to_zero():
    empty = Arcs(np.zeros(3, np.int64), np.empty(0, np.int32))
    assert not sum_on_device(empty, np.ones((2, 3), np.int16), "cpu").any()
