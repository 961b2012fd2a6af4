"""Under one key, another operand draws from other keys: equal noise on two operands would cancel in their difference."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from contracts_draws import MECHANISMS, Recorder

from sfumato.bounded import _appr_release as appr_release
from sfumato.bounded import _counting as counting
from sfumato.bounded import _gradients as gradients
from sfumato.bounded import _grouping as grouping
from sfumato.bounded import _history as history
from sfumato.bounded import _linked_sums as linked
from sfumato.bounded import _pairs as pairs
from sfumato.bounded import _promise as promise
from sfumato.bounded import _statistics as totals
from sfumato.bounded._refreshes import Schedule
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum
from sfumato.graph._graph import Graph
from sfumato.nn._training import Adam
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax

KEY = bytes(range(32))
RING = Arcs(np.array([0, 1, 2, 3]), np.array([1, 2, 0], np.int32))
BACK = Arcs(np.array([0, 1, 2, 3]), np.array([2, 0, 1], np.int32))
MOVED = Arcs(np.array([0, 0, 2, 3]), np.array([1, 2, 0], np.int32))
WEIGHED = Arcs(RING.offsets, RING.sources, np.array([7, 9, 9], np.uint16))
OTHERWISE = Arcs(RING.offsets, RING.sources, np.array([9, 7, 9], np.uint16))
ROWS = np.eye(3, dtype=np.float32) / 2
MATRIX = sp.csr_array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]])
VOTES = np.array([[9, 1], [2, 8]])
LINKED = [
    Graph.from_edges([1, 1], [0, 2], 3, directed=True, x=np.eye(3), y=y, roles=[0, 2, 0])
    for y in ([0, -1, 1], [0, -1, 0])
]
STUDENT = np.array([[0.5, 0.5], [0.25, 0.75]])


def steps(sums, prob=1.0):
    """A step of DP-SGD whose sum is given."""
    settings = gradients.PrivateSGD(prob, 1, 1.0, 1.0, 0.1)
    optimizer = Adam([torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))], 0.1)
    gradients.noisy_steps(optimizer, lambda *_: np.array(sums), np.arange(2), settings, KEY, 0.0)


OPERANDS = {
    "noisy_neighborhood_sum": [
        lambda one=one, rows=rows: noisy_neighborhood_sum(one, rows, 2.0, KEY)
        for one, rows in ((RING, ROWS), (BACK, ROWS), (MOVED, ROWS), (WEIGHED, ROWS), (OTHERWISE, ROWS), (RING, ROWS[::-1]))
    ],
    "noisy_counts": [
        lambda one=one, rows=rows: counting.noisy_counts(one, rows, 2.0, KEY)
        for one, rows in ((RING, ROWS), (BACK, ROWS), (MOVED, ROWS), (WEIGHED, ROWS), (OTHERWISE, ROWS), (RING, ROWS[::-1]))
    ],
    "noisy_day": [  # nothing comes on the second and the third day: equal rows, and other noise all the same
        lambda day=day, rows=rows: history.noisy_day(
            history.Stream.of(history.History(*np.array([rows, [0, 1], [1, 1], [history.NEVER] * 2])), Schedule(3, 3),
                              np.zeros(3, int), 2), day, history.Increments(Fraction(1)), KEY)
        for day, rows in ((1, [0, 1]), (1, [1, 0]), (2, [0, 1]), (3, [0, 1]))
    ],
    "noisy_group_sums": [
        lambda rows=rows, groups=groups: grouping.noisy_group_sums(rows, np.array(groups), 3, 2.0, KEY)
        for rows, groups in ((ROWS, [0, 1, 2]), (ROWS, [0, 2, 1]), (ROWS[::-1], [0, 1, 2]))
    ],
    "noisy_linked_sums": [
        lambda graph=graph, rows=rows, join=join: linked.noisy_linked_sums(graph, rows, 2, 2.0, KEY, join=join)
        for graph, rows, join in ((LINKED[0], ROWS, True), (LINKED[1], ROWS, True), (LINKED[0], ROWS[::-1], True),
                                  (LINKED[0], ROWS, False))
    ],
    "noisy": [lambda sums=sums: promise.noisy(np.array(sums), 9.0, KEY) for sums in ([[1, 2]], [[2, 1]], [[1], [2]])],
    "noisy_totals": [
        lambda counts=counts: totals.noisy_totals(np.array(counts), Fraction(9), KEY) for counts in ([1, 2], [2, 1], [[1], [2]])
    ],
    "noisy_pair_sums": [lambda one=one: pairs.noisy_pair_sums(np.full((2, 2), one), 2, KEY) for one in (0.5, 0.25)],
    "noisy_steps": [lambda sums=sums: steps(sums) for sums in ([1, 2], [2, 1])],
    "gaussian_rows": [
        lambda one=one, clip=clip: appr_release.gaussian_rows(one, clip, 0.1, 2, KEY)
        for one, clip in ((MATRIX, 0.1), (MATRIX * 0.05, 0.1), (MATRIX[::-1], 0.1))
    ],
    "exponential_rows": [
        lambda one=one, law=law: appr_release.exponential_rows(one, *law, KEY, 0.1)
        for one, law in ((MATRIX, (0.1, 0.1, 2)), (MATRIX * 0.5, (0.1, 0.1, 2)), (MATRIX, (0.2, 0.1, 2)),
                         (MATRIX, (0.1, 0.2, 2)), (MATRIX, (0.1, 0.1, 1)))
    ],
    "LNMax": [lambda votes=votes: LNMax(2.0).aggregate(votes, KEY) for votes in (VOTES, VOTES[::-1])],
    "GNMax": [lambda votes=votes: GNMax(2.0).aggregate(votes, KEY) for votes in (VOTES, VOTES[::-1])],
    "ConfidentGNMax": [lambda votes=votes: ConfidentGNMax(5.0, 2.0, 2.0).aggregate(votes, KEY) for votes in (VOTES, VOTES[::-1])],
    "InteractiveGNMax": [
        lambda votes=votes, told=told: InteractiveGNMax(5.0, 2.0, 2.0).aggregate(votes, KEY, student=told)
        for votes, told in ((VOTES, STUDENT), (VOTES[::-1], STUDENT), (VOTES, STUDENT[::-1]))
    ],
}  # fmt: skip
OF_SOURCES = {"randomized_pairs", "noisy_edge_count", "largest_pairs"}  # drawn from coins that the caller derives


@pytest.fixture(scope="module")
def recorder():
    with pytest.MonkeyPatch.context() as patch:
        yield Recorder(patch)


@pytest.mark.parametrize("name", OPERANDS)
def test_noise_of_another_operand_comes_from_other_keys(name, recorder):
    seen = set()
    for release in [*OPERANDS[name], OPERANDS[name][0]]:
        recorder.cleared()
        release()
        drawn = {
            draw.key for frame in recorder.frames for draw in frame.draws if draw.law.endswith(("gaussian", "laplace"))
        }
        assert drawn
        if release is OPERANDS[name][0] and seen:
            assert drawn <= seen, "the same operand has the same noise"
        else:
            assert not drawn & seen
        seen |= drawn


def test_every_mechanism_is_here():
    assert {one.__name__ for one in MECHANISMS} <= {*OPERANDS} | OF_SOURCES
