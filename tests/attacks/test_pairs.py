"""Candidates are links and true non-links; each distance has the value that is worked out by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import distance as scipy_distance

from sfumato.attacks._pairs import DISTANCES, Candidates, candidates, link_numbers, pair_distances, similarities
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model

BY_HAND = {
    # a = (0.6, 0.3, 0.1), b = (0.2, 0.3, 0.5)
    "cosine": 1 - 0.26 / np.sqrt(0.46 * 0.38),
    "euclidean": np.sqrt(0.32),
    "correlation": 1 - (-0.22 / 3) / np.sqrt((0.38 / 3) * (0.14 / 3)),
    "chebyshev": 0.4,
    "bray-curtis": 0.8 / 2,
    "canberra": 0.4 / 0.8 + 0 + 0.4 / 0.6,
    "city-block": 0.8,
    "squared-euclidean": 0.32,
}
SCIPY = dict(
    zip(
        DISTANCES,
        ("cosine", "euclidean", "correlation", "chebyshev", "braycurtis", "canberra", "cityblock", "sqeuclidean"),
        strict=True,
    )
)


@pytest.mark.parametrize("name", DISTANCES)
def test_each_distance_has_its_value_by_hand(name):
    rows = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    assert pair_distances(rows, np.array([[0, 1]]), [name]).item() == pytest.approx(BY_HAND[name], abs=1e-12)


def test_distances_agree_with_an_independent_implementation_also_in_parts_and_on_sparse_rows(monkeypatch):
    coins = np.random.default_rng(0)
    rows = coins.normal(size=(30, 5)) * (coins.random((30, 5)) < 0.7) + 0.01 * coins.normal(size=(30, 1))
    pairs = coins.integers(30, size=(40, 2))
    expected = [[getattr(scipy_distance, SCIPY[name])(rows[u], rows[v]) for name in DISTANCES] for u, v in pairs]
    assert pair_distances(rows, pairs) == pytest.approx(np.array(expected), abs=1e-9)
    monkeypatch.setattr("sfumato.attacks._pairs._CHUNK", 35)  # seven pairs at a time
    assert pair_distances(sp.csr_matrix(rows), pairs) == pytest.approx(np.array(expected), abs=1e-9)


def test_a_constant_row_is_similar_to_nothing():
    """Published code turns 0 / 0 into a distance of 0: the pair would be the surest link of all."""
    constant = np.full(7, np.float32(1 / 7))
    rows = np.stack([constant, constant, np.eye(7, dtype=np.float32)[0], np.zeros(7, np.float32)])
    pairs = np.array([[0, 1], [0, 2], [2, 3], [3, 3]])
    found = {name: pair_distances(rows, pairs, [name])[:, 0] for name in DISTANCES}
    assert all(np.isfinite(values).all() for values in found.values())
    assert found["correlation"].tolist() == [2, 2, 2, 2]
    assert found["cosine"][2:].tolist() == [2, 2]
    assert found["bray-curtis"][3] == 2
    assert similarities(rows, pairs, "correlation").max() == -2  # no pair ranks above it than by a true similarity
    nearly = rows.copy()
    nearly[0, 0] += np.float32(1e-4)  # seen by float32: no longer constant
    assert pair_distances(nearly, pairs[1:2], ["correlation"]).item() < 0.1


def keys(pairs, nodes=1000):
    return set((pairs @ [nodes, 1]).tolist())


@pytest.mark.parametrize("directed", [False, True])
def test_candidates_are_links_and_as_many_pairs_without_an_arc_either_way(directed):
    coins = np.random.default_rng(1)
    ends = coins.integers(40, size=(2, 120))
    graph = Graph.from_edges(*ends, 40, directed=directed, self_loops="keep")
    true = {(min(u, v), max(u, v)) for u, v in ends.T.tolist() if u != v}
    assert keys(np.stack(np.divmod(link_numbers(graph), 40), 1)) == {1000 * u + v for u, v in true}
    drawn = candidates(graph, coins, 10**6)
    assert keys(drawn.links) == {1000 * u + v for u, v in true}
    assert len(keys(drawn.others)) == len(drawn.others) == len(true)
    assert not keys(drawn.others) & keys(drawn.links)
    assert (drawn.pairs[:, 0] < drawn.pairs[:, 1]).all()
    assert drawn.is_link.sum() == len(true)


def test_every_pair_without_a_link_is_as_likely_a_candidate_as_another():
    graph = Graph.from_edges([0, 1], [1, 2], 6, directed=False)  # 13 other pairs
    coins, counts = np.random.default_rng(2), dict.fromkeys(range(36), 0)
    for _ in range(2600):
        for key in candidates(graph, coins, 2).others @ [6, 1]:
            counts[int(key)] += 1
    seen = np.array([count for count in counts.values() if count])
    assert len(seen) == 13
    assert ((seen - 400) ** 2 / 400).sum() < 45  # chi square, 12 degrees: 0.001 % of fair draws exceed it


def test_a_split_of_pairs_shares_none():
    graph = stochastic_block_model(100, 2, seed=0)
    drawn = candidates(graph, np.random.default_rng(0), 200)
    known, asked = drawn.split(0.25, np.random.default_rng(1))
    assert (len(known.links), len(asked.links), len(known.others), len(asked.others)) == (50, 150, 50, 150)
    assert not keys(known.pairs) & keys(asked.pairs)
    assert keys(known.pairs) | keys(asked.pairs) == keys(drawn.pairs)
    with pytest.raises(InputError, match="both sides"):
        drawn.split(0.001, np.random.default_rng(1))


def test_a_graph_without_links_or_without_other_pairs_is_refused():
    with pytest.raises(InputError, match="to have links"):
        candidates(Graph.from_edges([], [], 3, directed=False), np.random.default_rng(0), 5)
    with pytest.raises(InputError, match="without one"):
        candidates(Graph.from_edges([0, 0, 1], [1, 2, 2], 3, directed=False), np.random.default_rng(0), 5)


def test_links_stand_before_others():
    drawn = Candidates(np.array([[0, 1]]), np.array([[0, 2], [1, 2]]))
    assert drawn.pairs[drawn.is_link].tolist() == [[0, 1]]
