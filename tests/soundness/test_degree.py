"""The degree cap: uniform, and stable when one record is emptied."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import soundness_faults as faults
from scipy import stats
from soundness_neighbors import assert_only_the_owner_moves, kept_arcs, node_pairs

from sfumato.bounded import _degree as degree
from sfumato.bounded._degree import by_destination, cap_out_degree
from sfumato.errors import InputError

KEY = bytes(32)


def random_arcs(seed, num_nodes=40):
    """Lists of 0 to num_nodes targets; node 0 is empty, node 1 and the last one own an arc to every node."""
    rng = np.random.default_rng(seed)
    adjacency = rng.random((num_nodes, num_nodes)) < rng.random((num_nodes, 1))
    adjacency[0], adjacency[1], adjacency[-1] = False, True, True
    return adjacency


def to_csr(adjacency):
    return np.r_[0, np.cumsum(adjacency.sum(1))].astype(np.int64), np.nonzero(adjacency)[1].astype(np.int32)


def lists(indptr, indices):
    return [indices[low:high].tolist() for low, high in pairwise(indptr)]


def assert_stable(cap, seeds, max_out_degree=5):
    """Emptying or replacing one record changes what its owner keeps, and nothing else."""
    for seed in seeds:
        adjacency = random_arcs(seed)
        before = lists(*cap(*to_csr(adjacency), max_out_degree, KEY))
        for v in (1, seed % 40, 39):
            for record in (np.zeros(40, bool), np.arange(40) % 2 == 0):
                neighbor = adjacency.copy()
                neighbor[v] = record
                after = lists(*cap(*to_csr(neighbor), max_out_degree, KEY))
                assert [u for u in range(40) if before[u] != after[u] and u != v] == []
                assert len(after[v]) <= max_out_degree


@pytest.mark.parametrize("max_out_degree", [1, 2, 5, 39, 40])
def test_each_owner_keeps_at_most_the_cap_of_its_own_arcs(max_out_degree):
    indptr, indices = to_csr(random_arcs(0))
    capped = lists(*cap_out_degree(indptr, indices, max_out_degree, KEY))
    for kept, owned in zip(capped, lists(indptr, indices), strict=True):
        assert len(kept) == min(len(owned), max_out_degree)
        assert set(kept) <= set(owned)
        assert kept == sorted(set(kept))


def test_what_is_kept_is_uniform():
    """20000 owners of the same six targets: all 15 pairs are equally likely, and owners choose independently."""
    owners, pairs = 20_000, list(combinations(range(6), 2))
    indptr, indices = np.arange(owners + 1) * 6, np.tile(np.arange(6, dtype=np.int32), owners)
    _, kept = cap_out_degree(indptr, indices, 2, KEY)
    chosen = np.array([pairs.index(tuple(pair)) for pair in kept.reshape(-1, 2).tolist()])
    counts = np.bincount(chosen, minlength=15)
    assert stats.chisquare(counts).pvalue > 1e-4
    favored = np.full(15, owners / 15)
    favored[0], favored[1] = 1.2 * owners / 15, 0.8 * owners / 15
    assert stats.chisquare(counts, favored).pvalue < 1e-6
    table = np.zeros((15, 15))
    np.add.at(table, (chosen[:-1:2], chosen[1::2]), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_the_choice_depends_on_the_key_alone():
    arcs = to_csr(random_arcs(2))
    assert lists(*cap_out_degree(*arcs, 5, KEY)) == lists(*cap_out_degree(*arcs, 5, KEY))
    assert lists(*cap_out_degree(*arcs, 5, KEY)) != lists(*cap_out_degree(*arcs, 5, b"k" * 32))


def test_stable_when_one_record_changes():
    assert_stable(cap_out_degree, range(20))


@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_stable_for_every_neighbor_of_tiny_graphs(relation):
    pairs = node_pairs(0 if relation == "replace" else 20, relation, released=True)
    assert_only_the_owner_moves(pairs, lambda graphs: kept_arcs(graphs, 2))


@pytest.mark.parametrize("cap", faults.UNSTABLE_CAPS, ids=lambda cap: cap.__name__)
def test_planted_faults_are_caught(monkeypatch, cap):
    with pytest.raises(AssertionError):
        assert_stable(cap, range(1))
    monkeypatch.setattr(degree, "cap_out_degree", cap)
    with pytest.raises(AssertionError, match="other owners' arcs move"):
        assert_only_the_owner_moves(node_pairs(20, "remove", released=True), lambda graphs: kept_arcs(graphs, 2))


def test_capping_then_transposing_keeps_every_arc():
    indptr, indices = cap_out_degree(*to_csr(random_arcs(3)), 4, KEY)
    offsets, sources = by_destination(indptr, indices)
    forward = {(u, t) for u, kept in enumerate(lists(indptr, indices)) for t in kept}
    backward = [(u, t) for t, senders in enumerate(lists(offsets, sources)) for u in senders]
    assert set(backward) == forward
    assert len(backward) == len(indices)
    assert all(senders == sorted(senders) for senders in lists(offsets, sources))


def test_by_destination_of_no_arcs():
    offsets, sources = by_destination(np.zeros(4, np.int64), np.zeros(0, np.int32))
    assert offsets.tolist() == [0, 0, 0, 0]
    assert len(sources) == 0
    assert sources.dtype == np.int32


@pytest.mark.parametrize("bad", [0, -1, 2.5, None])
def test_the_cap_is_a_positive_integer(bad):
    with pytest.raises(InputError, match="max_out_degree"):
        cap_out_degree(np.array([0, 1]), np.array([0], np.int32), bad, KEY)
