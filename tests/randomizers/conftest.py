"""Small settings of every randomizer with values that cover the corners of what it may be given."""

from itertools import product

import numpy as np
import pytest

from sfumato import randomizers as rz


def grid(*levels, width):
    return [np.array(row, float) for row in product(levels, repeat=width)]


BOX = grid(0.0, 0.3, 1.0, 1.7, width=3)
SETS = grid(0.0, 1.0, width=6)
VECTORS = [np.array(row, float) for row in ([0, 0, 0], [1, 0, 0], [-1, 0, 0], [0.1, 0.2, -0.3], [5, 5, 5], [-9, 0, 1])]


def finite_at(epsilon):
    """Randomizers with finitely many reports, and values to compare pairwise."""
    return [
        (rz.MultiBit(3, epsilon), BOX),
        (rz.MultiBit(3, epsilon, sampled=2), BOX),
        (rz.MultiBit(3, epsilon, rule="paper", low=(0.0, -1.0, 0.2), high=(1.0, 1.0, 0.5)), BOX),
        (rz.OneBit(3, epsilon), BOX),
        (rz.PGC(2, epsilon), grid(0.0, 0.3, 1.0, width=2)),
        (rz.Piecewise(2, epsilon, sampled=1, cells=8), grid(0.0, 0.3, 0.7, 1.0, width=2)),
        (rz.Piecewise(1, epsilon, cells=64), grid(-1.0, 0.0, 0.51, 1.0, width=1)),
        (rz.RandomizedResponse(4, epsilon), list(range(4))),
        (rz.SubsetSelection(5, epsilon), list(range(5))),
        (rz.SubsetSelection(4, epsilon, size=3), list(range(4))),
        (rz.UnaryEncoding(4, epsilon), list(range(4))),
        (rz.LocalHashing(8, epsilon), list(range(8))),
        (rz.Collision(6, epsilon, cap=2), SETS),
        (rz.Collision(6, epsilon, cap=3, buckets=4), SETS),
        (rz.Direction(3, epsilon, norm=1.0), VECTORS),
        (rz.PrivUnit(3, epsilon, norm=1.0, candidates=9), VECTORS),
        (rz.Sketch(3, rz.MultiBit(2, epsilon, low=-0.5, high=0.5)), grid(-3.0, 0.1, 3.0, width=3)),
    ]


def infinite_at(epsilon):
    return [(rz.Laplace(3, epsilon), BOX), (rz.Gaussian(3, epsilon, delta=1e-6), BOX)]


def pytest_generate_tests(metafunc):
    """``case`` is every randomizer, ``finite_case`` those with an exact pmf, ``budgeted_case`` these at several budgets.

    ``column_case`` are those whose reports do not depend on a public hash or direction of the user.
    """
    columns = rz.MultiBit, rz.OneBit, rz.PGC, rz.Piecewise
    lists = {
        "case": finite_at(2.0) + infinite_at(2.0),
        "finite_case": finite_at(1.5),
        "column_case": [case for case in finite_at(1.5) if isinstance(case[0], columns)],
        "budgeted_case": [case for epsilon in (0.01, 1.0, 4.0) for case in finite_at(epsilon)],
    }
    for name, cases in lists.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases, ids=[str(randomizer) for randomizer, _ in cases])


@pytest.fixture
def finite():
    return finite_at


@pytest.fixture
def infinite():
    return infinite_at


@pytest.fixture
def many():
    """Reports of many users who all hold one value; of one public id, if given."""

    def encode(randomizer, value, count, source, user=None):
        users = np.arange(count) if user is None else np.full(count, user)
        return randomizer.encode(np.broadcast_to(value, (count, *np.shape(value))), source, users)

    return encode
