"""Sums and noise of a hop that another engine computes in parts have the bits of those that are computed here."""

import numpy as np
import pytest

from sfumato.bounded import aggregation
from sfumato.bounded._engine import using
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, sum_in_blocks
from sfumato.errors import InputError


class Parts:
    """Runs one part after another, the last first."""

    parts = 2

    def run(self, function, shared, parts):
        listed = list(enumerate(parts))
        return [(number, function(*shared, *part)) for number, part in reversed(listed)]


ARCS = Arcs(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 0], np.int32))
ROWS = np.eye(3, 4, dtype=np.float32) / 2


@pytest.mark.parametrize("stddev", [0.0, 2.0])
def test_parts_have_the_same_bits(stddev):
    here = noisy_neighborhood_sum(ARCS, ROWS, stddev, bytes(32))
    with using(Parts()):
        np.testing.assert_array_equal(noisy_neighborhood_sum(ARCS, ROWS, stddev, bytes(32)), here)


def test_loops_of_another_build_are_refused():
    with pytest.raises(InputError, match="one build"):
        aggregation._block_sums(None, 4, "another", None, None)
    assert sum_in_blocks(ARCS, np.ones((3, 1), np.int16)).tolist() == [[1], [2], [1]]
