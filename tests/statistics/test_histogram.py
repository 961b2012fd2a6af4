"""Numbers of nodes by degree: close, of the right sum, and whole, whatever was released."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

import sfumato as sf
from sfumato.statistics._answers import describe
from sfumato.statistics._counts import Counted, degree_ends
from sfumato.statistics._histogram import middles, sequence_of, smoothed
from sfumato.statistics._statistics import Statistics

GRAPH = sf.graph.campus(1500, seed=1)
UNIT = sf.EdgeLevel(directed=False)


def errors(of, scale=4.25, draws=5):
    """Mean L1 error of numbers of nodes by degree, in shares of all nodes."""
    size, ends = GRAPH.num_nodes, degree_ends(GRAPH.num_nodes - 1)
    counted, random, share = Counted(GRAPH), np.random.default_rng(0), 1 - np.exp(-1 / scale)
    exact, found = counted.degrees(ends)[0], []
    for _ in range(draws):
        row = exact + random.geometric(share, len(exact)) - random.geometric(share, len(exact))
        below = of(row.astype(float), scale, size, middles(ends))
        found.append(np.abs(np.diff(below, prepend=0) - np.diff(np.append(exact, size), prepend=0)).sum() / size)
    return np.mean(found)


def test_estimates_are_closer_than_isotonic_regression():
    total = 2 * GRAPH.num_edges
    ours = errors(lambda row, scale, size, degrees: smoothed(row, scale, size, degrees, total))
    theirs = errors(lambda row, scale, size, degrees: np.append(isotonic_regression(np.clip(row, 0, size)).x, size))
    assert ours < 0.65 * theirs


@pytest.mark.parametrize("size", [1, 2, 3, 40, 20_000])
@pytest.mark.parametrize("scale", [0.5, 30.0, 1e12])
def test_degrees_are_whole_and_add_up(size, scale):
    random, degrees = np.random.default_rng(size), middles(degree_ends(max(1, size - 1)))
    row = np.rint(random.laplace(size / 2, scale, len(degrees) - 1))
    for total in (None, 0, 2, size * (size - 1) // 2, size * (size - 1), 10**15):
        found = sequence_of(smoothed(row, scale, size, degrees, total), degrees, total)
        assert found.dtype == np.int64
        assert len(found) == size
        assert (np.diff(found) >= 0).all()
        assert found[0] >= 0
        assert found[-1] <= degrees[-1]
        if total is not None:
            assert found.sum() == min(total, degrees[-1] * size)


@pytest.mark.parametrize("grouped", [False, True])
def test_degrees_add_up_to_the_ends_of_edges(grouped):
    method = Statistics("edges,mixing,degrees", grouped=grouped)
    found = describe(method.calibrate(sf.Budget(1.0, 0.0), UNIT, GRAPH.public_facts(UNIT)).fit(GRAPH))
    rows = range(len(found.groups)) if grouped else [0]
    assert sum(int(found.sequence("degrees", group).sum()) for group in rows) == 2 * found.num_edges
