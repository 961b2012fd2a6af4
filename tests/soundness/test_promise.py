"""Sums under promised degrees: brute force over tiny graphs with all their arcs, the bound itself, and planted faults."""

import itertools

import numpy as np
import pytest

from sfumato.bounded import _promise as promise
from sfumato.bounded._degree import by_destination
from sfumato.bounded._promise import (
    GRID,
    copies_to,
    declared_divisors,
    load_weight,
    pair_sums,
    pair_weights,
    promised_sensitivity,
    row_sums,
)
from sfumato.bounded._routing import receiving, share
from sfumato.bounded.aggregation import Arcs
from sfumato.errors import InputError
from sfumato.privacy.units import NodeLevel

REPLACED = NodeLevel(arcs="incident", relation="replace")
CLASSES = 3
CODE = GRID * np.sqrt(CLASSES * (CLASSES - 1))


def compressed(adjacency):
    return np.r_[0, np.cumsum(adjacency.sum(1))], adjacency.nonzero()[1].astype(np.int32)


def rows_of(adjacency, classes, receives, bounds):
    copies = copies_to(*compressed(adjacency), classes, receives, declared_divisors(bounds, *compressed(adjacency)))
    return row_sums(copies, len(classes), CLASSES) / CODE


def pairs_of(adjacency, classes, receives, bounds, directed=False):
    divisors = declared_divisors(bounds, *compressed(adjacency))
    pairs = pair_weights(*compressed(adjacency), ~receives, divisors, directed=directed)
    return pair_sums(pairs, classes, CLASSES) / GRID


def emptied(record, adjacency, classes):
    adjacency, classes = adjacency.copy(), classes.copy()
    adjacency[record], adjacency[:, record], classes[record] = False, False, -1
    return adjacency, classes


def replaced(record, adjacency, classes, bounds, rng, directed):
    """Another record in its place, with as many arcs as the bounds of both ends admit."""
    adjacency, classes = emptied(record, adjacency, classes)
    classes[record] = rng.integers(CLASSES)
    for other in rng.permutation(len(classes)):
        for one, two in ((record, other), (other, record)) if directed else ((record, other),):
            free = adjacency[one].sum() < bounds[one] and adjacency[:, two].sum() < bounds[two]
            if one != two and free and rng.random() < 0.9:
                adjacency[one, two] = True
                adjacency[two, one] |= not directed
    return adjacency, classes


def moved(left, right, record):
    """The joint change of what other nodes see: every row but that of the record."""
    difference = left - right
    difference[record] = 0
    return float(np.linalg.norm(difference))


def random_data(rng, directed):
    """Hubs and leaves, loose bounds and tight ones; in half of the graphs one promise for everybody."""
    size, senders = int(rng.integers(4, 40)), rng.uniform(0.2, 0.8)
    adjacency = rng.random((size, size)) < rng.uniform(0.05, 1, (size, 1)) * rng.uniform(0.05, 1, (1, size))
    adjacency = adjacency if directed else np.triu(adjacency) | np.triu(adjacency).T
    np.fill_diagonal(adjacency, False)
    degrees = np.maximum(np.maximum(adjacency.sum(1), adjacency.sum(0)), 1)
    bounds = degrees + rng.integers(0, 1 + int(rng.choice([0, 3, 30])), size)
    bounds = np.full(size, bounds.max()) if rng.random() < 0.5 else bounds
    classes = rng.integers(-1, CLASSES, size) if rng.random() < 0.5 else np.zeros(size, np.int64)
    return adjacency, classes, rng.random(size) >= senders, bounds


def twins(k, receivers, bound=None):
    """k senders of one class, each with arcs to the same receivers: all that one receiver moves adds up."""
    size = k + receivers
    adjacency = np.zeros((size, size), bool)
    adjacency[:k, k:] = adjacency[k:, :k] = True
    bounds = np.full(size, bound or max(k, receivers))
    return adjacency, np.zeros(size, np.int64), np.arange(size) >= k, bounds


EXTREME = [(k, r, None) for k, r in itertools.product((1, 2, 7, 40), (1, 2, 3, 20, 41))] + [(40, 20, 40), (40, 21, 40)]


def worst_rows(relation, count=100):
    rng, worst = np.random.default_rng(0), 0.0
    data = [(twins(*one), False) for one in EXTREME]
    data += [(random_data(rng, bool(number % 2)), bool(number % 2)) for number in range(count)]
    for (adjacency, classes, receives, bounds), directed in data:
        left = rows_of(adjacency, classes, receives, bounds)
        for record in range(len(classes)) if relation == "remove" else rng.choice(len(classes), 2):
            other = (
                emptied(record, adjacency, classes)
                if relation == "remove"
                else replaced(record, adjacency, classes, bounds, rng, directed)
            )
            worst = max(worst, moved(left, rows_of(*other, receives, bounds), record))
    return worst


def test_a_removed_record_moves_rows_of_others_by_at_most_one_and_nearly_reaches_it():
    assert 0.97 < worst_rows("remove") <= 1


def test_a_replaced_record_moves_them_by_at_most_two():
    assert 0.9 < worst_rows("replace") <= promised_sensitivity(REPLACED) == 2


def test_both_cases_reach_the_bound():
    """A sender with half of the bound in receivers; a receiver with as many senders as its bound, all of them at half load."""
    for data, record in ((twins(1, 20, 40), 0), (twins(40, 21, 40), 40)):
        adjacency, classes, receives, bounds = data
        left, right = rows_of(*data), rows_of(*emptied(record, adjacency, classes), receives, bounds)
        assert 0.95 < moved(left, right, record) <= 1


def test_no_larger_weight_has_the_same_sensitivity():
    """w is the least of the bounds that both cases set, over all larger loads."""
    loads = np.linspace(0, 4, 401)
    reach = np.sqrt(loads[None, 1:])
    least = (
        1 / reach
        + 2 * np.maximum(reach - np.sqrt(loads[:, None]), 0)
        + np.where(loads[None, 1:] < loads[:, None], 9, 0)
    ).min(1)
    assert np.abs(least - load_weight(loads))[:-1].max() < 1e-3


def test_the_slope_and_the_height_are_what_the_proof_says():
    loads = np.linspace(1e-6, 10, 200_001)
    weight = load_weight(loads)
    assert (weight * np.sqrt(loads)).max() <= 1 + 1e-12
    assert (-np.diff(weight) / np.diff(loads) * np.sqrt(loads[:-1])).max() <= 1 + 1e-9


@pytest.mark.parametrize("directed", [False, True])
def test_a_record_moves_pairs_by_at_most_one_and_reaches_it(directed):
    rng, worst, worst_l1 = np.random.default_rng(1), 0.0, 0.0
    everybody = ~np.eye(6, dtype=bool), np.zeros(6, np.int64), np.zeros(6, bool), np.full(6, 5)
    for adjacency, classes, receives, bounds in (everybody, *(random_data(rng, directed) for _ in range(120))):
        left = pairs_of(adjacency, classes, receives, bounds, directed)
        for record in range(len(classes)):
            right = pairs_of(*emptied(record, adjacency, classes), receives, bounds, directed)
            worst = max(worst, float(np.linalg.norm(left - right)))
            worst_l1 = max(worst_l1, float(np.abs(left - right).sum()))
    assert 0.99 < worst <= worst_l1 <= 1


def test_pairs_read_no_receiver_and_rows_read_no_arc_between_senders():
    rng = np.random.default_rng(2)
    for _ in range(50):
        adjacency, classes, receives, bounds = random_data(rng, False)
        pairs, rows = pairs_of(adjacency, classes, receives, bounds), rows_of(adjacency, classes, receives, bounds)
        without = adjacency & np.outer(~receives, ~receives)
        assert np.array_equal(pairs, pairs_of(without, np.where(receives, -1, classes), receives, bounds))
        assert np.array_equal(rows, rows_of(adjacency & ~np.outer(~receives, ~receives), classes, receives, bounds))
        assert not rows[~receives].any()


def by_degree(load, height=1.0):
    """The hop of owned arcs: the true load divides."""
    return 1 / np.sqrt(np.maximum(load, 1e-6))


def half_again(load, height=1.0):
    return 1.5 * load_weight(load)


def steeper(load, height=1.0):
    """A weight that falls twice as fast from the same height: a receiver moves its senders too much."""
    return np.maximum(load_weight(2 * load) * np.sqrt(2), by_degree(np.maximum(load, 0.25)))


def undivided(load, height=1.0):
    return np.full_like(load, 2 * np.sqrt(2))


@pytest.mark.parametrize("fault", [by_degree, half_again, steeper, undivided])
def test_planted_weights_are_caught(monkeypatch, fault):
    monkeypatch.setattr(promise, "load_weight", fault)
    assert worst_rows("remove", count=20) > 1.01


def test_the_divisor_of_owned_arcs_is_unbounded_when_a_receiver_is_removed():
    """k senders, two receivers: the row of the one that stays grows by k (1 - 1 / sqrt 2)."""
    changes = []
    for k in (4, 16, 64):
        adjacency, _, receives, _ = twins(k, 2)
        ones = np.ones((k + 2, 1), np.float32)
        found = []
        for graph in (adjacency, emptied(k, adjacency, np.zeros(k + 2, np.int64))[0]):
            left = receiving(Arcs(*compressed(graph)), ~receives, receives)
            arcs = Arcs(*by_destination(left.offsets, left.sources))
            rows = share(ones, np.diff(left.offsets))
            found.append(sum(float(rows[u, 0]) for u in arcs.sources[arcs.offsets[k + 1] : arcs.offsets[k + 2]]))
        changes.append(found[1] - found[0])
    assert np.allclose(changes, [k * (1 - 0.5**0.5) for k in (4, 16, 64)], rtol=1e-3)


def test_a_broken_promise_is_refused_and_not_told():
    adjacency, classes, receives, _ = twins(5, 2)
    with pytest.raises(InputError, match="number of its arcs"):
        rows_of(adjacency, classes, receives, np.full(7, 4))


def test_rounding_is_paid_for_up_to_large_promises():
    for bound in (3, 1500, 20_000):
        adjacency, classes, receives, _ = twins(3, 2)
        bounds = np.full(5, bound)
        left, right = (
            rows_of(adjacency, classes, receives, bounds),
            rows_of(*emptied(3, adjacency, classes), receives, bounds),
        )
        assert moved(left, right, 3) <= 3 / bound
    with pytest.raises(InputError, match="Promise less"):
        promise.rounding_slack(np.array([200_000]))


def test_more_arcs_in_than_promised_are_refused_as_arcs_out_are():
    """A receiver with k senders moves k loads: its bound on arcs in is what the proof divides by."""
    outward, inward = np.zeros((5, 5), bool), np.zeros((5, 5), bool)
    outward[0, 1:], inward[1:, 0] = True, True
    receives, classes = np.array([True, False, False, False, False]), np.array([-1, 0, 1, 0, 1])
    for adjacency in (outward, inward):
        rows_of(adjacency, classes, receives, np.array([4, 1, 1, 1, 1]))
        with pytest.raises(InputError, match="bounds"):
            rows_of(adjacency, classes, receives, np.array([3, 1, 1, 1, 1]))
