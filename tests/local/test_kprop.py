"""KProp on four nodes against the dense formula, its offset, its isolated nodes, and its public noise scale."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import InputError
from sfumato.local._propagation import noise_scale, propagate
from sfumato.randomizers._randomizer import Estimate

ARCS = np.array([[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], float)
DEGREES = np.array([2, 2, 3, 1, 1])  # of the isolated node: anything
STEP = ARCS / np.sqrt(np.outer(DEGREES, DEGREES))
MEAN = ARCS / DEGREES[:, None]


def estimate():
    rows = sp.csr_matrix(np.array([[0, 7.0, 0], [0, 0, -7], [7, 0, 0], [0, 0, 0], [-7, 0, 0]]))
    return Estimate(rows, np.array([0.5, 0.5, 0.25]))


def test_every_hop_is_the_dense_formula_with_the_offset():
    weight = np.random.default_rng(0).normal(size=(3, 2))
    hops = propagate(sp.csr_matrix(ARCS), estimate(), 3, weight)
    assert len(hops) == 4
    for k, hop in enumerate(hops):
        wanted = np.linalg.matrix_power(STEP, k) @ estimate().toarray() @ weight
        assert np.allclose(hop, wanted, atol=1e-5)
        without = np.linalg.matrix_power(STEP, k) @ estimate().sparse.toarray() @ weight
        assert not np.allclose(hop, without, atol=1e-2)


def test_hops_of_the_mean_average_over_neighbors():
    looped, weight = sp.csr_matrix(ARCS + np.eye(5)), np.random.default_rng(0).normal(size=(3, 2))
    for k, hop in enumerate(propagate(looped, estimate(), 3, weight, mean=True)):
        assert np.allclose(hop, np.linalg.matrix_power(MEAN, k) @ estimate().toarray() @ weight, atol=1e-5)
    ones = propagate(looped, np.ones((5, 1)), 2, mean=True)[2]
    assert np.allclose(ones.ravel(), [1, 1, 1, 1, 0]), "unlike the symmetric step, means leave constants alone"
    wanted = [np.sqrt((np.linalg.matrix_power(MEAN, k) ** 2).sum(axis=1).mean()) for k in range(4)]
    assert np.allclose(noise_scale(sp.csr_matrix(ARCS), 3, mean=True), wanted, atol=1e-6)
    assert wanted[1] > noise_scale(sp.csr_matrix(ARCS), 1)[1], "more noise is left, as the source says"


def test_isolated_nodes_become_zero_and_self_loops_are_ignored():
    hops = propagate(sp.csr_matrix(ARCS + np.eye(5)), np.ones((5, 1)), 2)
    assert hops[0][4] == 1
    assert hops[1][4] == hops[2][4] == 0
    assert np.allclose(hops[2], STEP @ STEP @ np.ones((5, 1)))


def test_an_estimate_is_never_made_dense():
    with pytest.raises(InputError, match="weight"):
        propagate(sp.csr_matrix(ARCS), estimate(), 1)
    with pytest.raises(InputError, match="rows"):
        propagate(sp.csr_matrix(ARCS), np.ones((4, 1)), 1)


def test_noise_scale_is_exact_on_small_graphs():
    wanted = [np.sqrt((np.linalg.matrix_power(STEP, k) ** 2).sum(axis=1).mean()) for k in range(5)]
    assert np.allclose(noise_scale(sp.csr_matrix(ARCS), 4), wanted, atol=1e-6)


def test_noise_scale_of_large_graphs_is_close_and_repeats():
    """Ten ring edges a node: the row norms are known."""
    n = 4000
    source = np.repeat(np.arange(n), 5)
    target = (source + np.tile(np.arange(1, 6), n)) % n
    half = sp.csr_matrix((np.ones(5 * n), (source, target)), (n, n))
    ring = sp.csr_matrix(half + half.T)
    found = noise_scale(ring, 2)
    twice = (ring @ ring).toarray()[0] / 100
    assert np.allclose(found, [1, np.sqrt(0.1), np.linalg.norm(twice)], rtol=0.03)
    assert np.array_equal(found, noise_scale(ring, 2))


def test_standardized_noise_has_variance_one():
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(5, 20000))
    scale = noise_scale(sp.csr_matrix(ARCS), 2)
    for k, hop in enumerate(propagate(sp.csr_matrix(ARCS), noise, 2)):
        assert np.isclose((hop / scale[k]).std(), 1, rtol=0.02)
