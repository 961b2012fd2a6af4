"""Trees on four nodes by hand, their beliefs by enumeration, and what smoothing on them is good for."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import InputError
from sfumato.local import CommunityTrees
from sfumato.local._dendrogram import Dendrogram
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import SubsetSelection

TWO_PAIRS = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
PRIOR = np.array([0.5, 0.3, 0.2])


def cliques(number, size, seed=0):
    """Cliques in a ring: neighbors are joined by one edge."""
    edges = np.kron(np.eye(number), np.ones((size, size)))
    for i in range(number):
        a, b = i * size, (i + 1) % number * size + 1
        edges[a, b] = edges[b, a] = 1
    np.fill_diagonal(edges, 0)
    order = np.random.default_rng(seed).permutation(number * size)
    return sp.csr_matrix(edges[np.ix_(order, order)]), (np.arange(number * size) // size)[order]


def test_pairs_are_merged_before_the_root_joins_components():
    tree = Dendrogram.grow(TWO_PAIRS, np.random.default_rng(0))
    assert tree.pairs.tolist() == [[0, 1], [2, 3]]
    assert tree.sizes.tolist() == [1, 1, 1, 1, 2, 2, 4]


def test_every_node_is_in_one_cluster_of_every_level():
    adjacency, block = cliques(6, 12)
    tree = Dendrogram.grow(adjacency, np.random.default_rng(1))
    n, m = 72, len(tree.pairs)
    assert sorted([*tree.pairs.ravel(), *tree.tops]) == list(range(n + m))
    assert (tree.pairs < n + np.arange(m)[:, None]).all()
    members = [{i} for i in range(n)]
    for left, right in tree.pairs:
        members.append(members[left] | members[right])
    assert [len(one) for one in members] == tree.sizes[:-1].tolist()
    found = {frozenset(one) for one in members}
    whole = [frozenset(np.flatnonzero(block == b).tolist()) in found for b in range(6)]
    assert sum(whole) >= 4, "cliques that hang on two edges should be clusters"


@pytest.mark.parametrize("rate", [0.3, 2.0])
@pytest.mark.parametrize(
    "adjacency", [TWO_PAIRS, sp.csr_matrix(np.eye(4, k=1) + np.eye(4, k=-1)), sp.csr_matrix((4, 4))]
)
def test_two_passes_are_the_sum_over_all_labelings(adjacency, rate):
    tree = Dendrogram.grow(adjacency, np.random.default_rng(3))
    likelihood = np.random.default_rng(4).random((4, 3))
    likelihood[2] = 1
    posterior, cavity = tree.posterior(likelihood, PRIOR, rate)
    total = len(tree.sizes)
    parent = np.full(total, total - 1)
    parent[tree.pairs.ravel()] = np.repeat(4 + np.arange(len(tree.pairs)), 2)
    keep = tree._kept(rate)[:, 0]
    depth = np.log(tree.sizes) / np.log(4)
    np.testing.assert_allclose(keep[:4], 0.9 * np.exp(-rate * (depth[parent[:4]] - depth[:4])))
    weights = np.zeros((2, 4, 3))
    for labels in product(range(3), repeat=total):
        chance = PRIOR[labels[-1]]
        for i in range(total - 1):
            same = labels[i] == labels[parent[i]]
            chance *= keep[i] * same + (1 - keep[i]) * PRIOR[labels[i]]
        seen = [likelihood[i, labels[i]] for i in range(4)]
        for i in range(4):
            weights[0, i, labels[i]] += chance * np.prod(seen)
            weights[1, i, labels[i]] += chance * np.prod(seen[:i] + seen[i + 1 :])
    weights /= weights.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(posterior, weights[0], rtol=1e-9)
    np.testing.assert_allclose(cavity, weights[1], rtol=1e-9)


def test_noisy_cliques_are_read_right():
    adjacency, block = cliques(12, 40)
    y = block % 3
    labels = SubsetSelection(3, epsilon=1.0)
    known = np.random.default_rng(0).random(len(y)) < 0.75
    reports = np.where(known, labels.encode(y, SecretWords(bytes(32))).values[:, 0], -1)
    smoothed = CommunityTrees().fit(adjacency, reports, known, labels.transition)
    assert (smoothed.probabilities.argmax(axis=1) == y)[~known].mean() > 0.85
    np.testing.assert_allclose(smoothed.probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(smoothed.held_out[~known], smoothed.probabilities[~known])


def test_held_out_does_not_read_a_nodes_own_report():
    adjacency, block = cliques(3, 6)
    known = np.ones(18, bool)
    model = CommunityTrees(rates=(1.0,))
    first = model.fit(adjacency, block, known, SubsetSelection(3, 1.0).transition)
    tree = model._grown(adjacency)[0]
    likelihood = np.random.default_rng(0).random((18, 3))
    before = tree.posterior(likelihood, np.full(3, 1 / 3), 1.0)[1]
    likelihood[4] = [0.9, 0.05, 0.05]
    after = tree.posterior(likelihood, np.full(3, 1 / 3), 1.0)[1]
    np.testing.assert_allclose(before[4], after[4], rtol=1e-12)
    assert np.abs(before - after).max() > 1e-3
    assert first.width == 1.0


def test_same_arguments_same_answer_and_another_graph_another():
    adjacency, block = cliques(4, 6)
    known, transition = np.ones(24, bool), np.full((4, 4), 0.2) + 0.2 * np.eye(4)
    model = CommunityTrees()
    first = model.fit(adjacency, block, known, transition).probabilities
    np.testing.assert_array_equal(model.fit(adjacency, block, known, transition).probabilities, first)
    other, _ = cliques(4, 6, seed=5)
    assert np.abs(model.fit(other, block, known, transition).probabilities - first).max() > 1e-3
    np.testing.assert_array_equal(CommunityTrees().fit(adjacency, block, known, transition).probabilities, first)


@pytest.mark.parametrize("wrong", [{"num_trees": 0}, {"rates": ()}, {"rates": (0.0,)}, {"seed": -1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong)).rstrip("s")):
        CommunityTrees(**wrong)
