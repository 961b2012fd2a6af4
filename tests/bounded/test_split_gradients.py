"""Gradients of groups against automatic differentiation, clipping, dropout by public words, and the groups themselves."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._split_gradients import SplitNetwork, split_steps
from sfumato.bounded._split_kernel import rounded_exp
from sfumato.bounded._splits import group_numbers, split_graph, unit_rows
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.nn._training import SGD

WIDTH, GROUPS = 5, 6
GRAPH = stochastic_block_model(60, 3, mean_degree=8, num_features=4, seed=0).with_split(seed=0)


def network(second_hop=True, dropout=0.0, seed=0):
    return SplitNetwork(split_graph(GRAPH, GROUPS, 0, second_hop=second_hop), WIDTH, 3, dropout, seed)


def weights(net, scale=0.5):
    return np.random.default_rng(0).normal(size=net.num_parameters) * scale


def differentiated(net, flat):
    """The gradient of the summed losses of all groups, by automatic differentiation of dense matrices."""
    split, parameters = net.split, torch.tensor(flat, requires_grad=True)
    rows, hop = (torch.from_numpy(part.toarray()) for part in (split.rows, split.hop))
    ends = [4 * WIDTH, WIDTH, WIDTH * 3, 3]
    first, first_bias, second, second_bias = parameters.split(ends)
    scores = hop @ torch.relu(rows @ first.view(4, WIDTH) + first_bias) @ second.view(WIDTH, 3) + second_bias
    targets, shares = torch.from_numpy(split.targets), torch.from_numpy(np.repeat(split.shares, np.diff(split.offsets)))
    known = targets >= 0
    (functional.cross_entropy(scores[known], targets[known], reduction="none") * shares[known]).sum().backward()
    return parameters.grad.numpy()


@pytest.mark.parametrize("second_hop", [True, False])
def test_the_gradient_is_that_of_the_mean_losses(second_hop):
    net = network(second_hop)
    found = net.gradient(weights(net), np.arange(GROUPS))
    assert np.allclose(found, differentiated(net, weights(net)), atol=1e-12)
    assert not np.allclose(found, 2 / 3 * found, atol=1e-3)


@pytest.mark.parametrize("clip", [1e-9, 0.01, 0.3, 1e9])
def test_each_group_is_clipped_over_all_parameters_jointly(clip):
    net = network()
    flat = weights(net)
    each = [net.gradient(flat, np.array([group])) for group in range(GROUPS)]
    expected = sum(part * min(1, clip / np.linalg.norm(part)) for part in each)
    found = net.clipped_sum(flat, np.arange(GROUPS), clip) * (clip / 2**24)
    assert np.abs(found - expected).max() <= 2 * GROUPS * clip / 2**24


def test_the_sum_does_not_depend_on_the_order_of_groups_or_on_company():
    net = network(dropout=0.5)
    flat, order = weights(net), np.array([4, 0, 5, 2, 1, 3])
    alone = sum(net.clipped_sum(flat, np.array([group]), 0.1, step=3) for group in range(GROUPS))
    assert np.array_equal(net.clipped_sum(flat, order, 0.1, step=3), alone)
    assert net.clipped_sum(flat, order[:0], 0.1).tolist() == [0] * net.num_parameters


def test_dropout_follows_seed_and_step_and_keeps_the_mean():
    flat = weights(network())
    drawn = [
        network(dropout=0.5, seed=seed).gradient(flat, np.arange(GROUPS), step) for seed in (0, 1) for step in (0, 0, 1)
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert not any(np.array_equal(drawn[0], other) for other in drawn[2:])
    net = network(dropout=0.2)
    mean = np.mean([net.gradient(flat, np.arange(GROUPS), step)[-3:] for step in range(400)], axis=0)
    assert np.allclose(mean, network().gradient(flat, np.arange(GROUPS))[-3:], atol=0.05)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200, -1e300])
def test_a_group_that_overflows_adds_nothing(value):
    net = network()
    flat = weights(net)
    flat[-3:] = 0.0, value, -value
    for group in range(GROUPS):
        with np.errstate(all="ignore"):
            plain = np.linalg.norm(net.gradient(flat, np.array([group])))
        steps = net.clipped_sum(flat, np.array([group]), 1.0).tolist()
        assert sum(step * step for step in steps) <= 4**24  # whole numbers of any size
        assert any(steps) == bool(np.isfinite(plain) and plain)


def test_groups_follow_ids_alone():
    ids = np.array(["ann", "bob", "cem", "dan"])
    groups = group_numbers(ids, 1000, 0)
    assert groups.tolist() == group_numbers(ids[::-1], 1000, 0)[::-1].tolist()
    assert groups.tolist() != group_numbers(ids, 1000, 1).tolist()
    sizes = np.bincount(group_numbers(np.arange(20000), 10, 7), minlength=10)
    assert abs(sizes - 2000).max() < 6 * np.sqrt(2000)


@pytest.mark.parametrize(("groups", "seed"), [(0, 0), (2, -1), (1.5, 0)])
def test_bad_numbers_are_refused(groups, seed):
    with pytest.raises(InputError):
        group_numbers(np.arange(3), groups, seed)


def test_nothing_is_left_between_groups_and_weights_count_what_is_left():
    split = split_graph(GRAPH, GROUPS, 0)
    places = np.repeat(np.arange(GROUPS), np.diff(split.offsets))
    rows, columns = split.hop.nonzero()
    assert (places[rows] == places[columns]).all()
    assert split.hop.nnz > GRAPH.num_nodes
    degrees = np.diff(split.hop.indptr)
    assert np.allclose(split.hop.toarray(), split.hop.toarray().T)
    assert np.allclose(split.hop.diagonal(), 1 / degrees)


def test_sparse_features_are_read_in_any_form_and_stay_as_they_are():
    """An unsorted row, a place that stands twice and a stored zero: put in order in the graph itself, records would move."""
    values, columns = np.array([3.0, 4.0, 0.0, 2.0, 3.0, 1.0]), np.array([2, 0, 1, 2, 2, 1])
    x = sp.csr_matrix((values.astype(np.float32), columns, np.array([0, 2, 5, 6])), shape=(3, 3))
    graph = Graph.from_edges([0], [1], 3, directed=False, x=x, y=[0, 1, 0], roles=[0, 0, 0])
    held = [part.copy() for part in (graph.x.data, graph.x.indices, graph.x.indptr)]
    rows = unit_rows(graph)
    assert rows.toarray().round(6).tolist() == [[0.8, 0, 0.6], [0, 0, 1], [0, 1, 0]]
    assert rows.nnz == 4  # a node whose stored values are all zero counts as absent
    for before, after in zip(held, (graph.x.data, graph.x.indices, graph.x.indptr), strict=True):
        assert np.array_equal(before, after)


def test_absent_nodes_leave_their_group_out():
    x, y = np.eye(4, 2, dtype=np.float32), np.array([0, 1, -1, -1])
    graph = Graph.from_edges([0], [3], 4, directed=False, x=x, y=y, classes=("a", "b"), roles=[0, 0, 2, 2])
    split = split_graph(graph, 1, 0)
    assert split.left_out.tolist() == [True]  # node 2 has no feature, no label, no arc; node 3 has an arc
    linked = Graph.from_edges([0, 1], [3, 2], 4, directed=False, x=x, y=y, classes=("a", "b"), roles=[0, 0, 2, 2])
    assert split_graph(linked, 1, 0).left_out.tolist() == [False]


def test_steps_move_the_weights_and_left_out_groups_do_not_count(monkeypatch):
    net = network()
    start = weights(net)
    settings = PrivateSGD(0.5, 4, 0.1, 1e-4, 0.1)
    flat, mac = split_steps(net, start, settings, bytes(32), leave_out=True, optimizer=SGD)
    assert len(mac) == 32
    assert np.abs(flat - start).max() > 1e-3
    assert np.array_equal(flat, split_steps(net, start, settings, bytes(32), leave_out=True, optimizer=SGD)[0])
    net.split.left_out[:] = True
    still, _ = split_steps(net, start, settings, bytes(32), leave_out=True, optimizer=SGD)
    assert np.abs(still - start).max() < 1e-4
    with pytest.raises(InputError, match="float64"):
        split_steps(net, start.astype(np.float32), settings, bytes(32), leave_out=True)


@pytest.mark.parametrize("clip", [0.0, 1e-10, 1e10])
def test_a_clip_out_of_range_is_refused(clip):
    net = network()
    with pytest.raises(InputError, match="l2_clip_norm"):
        net.clipped_sum(weights(net), np.arange(GROUPS), clip)


def test_exp_is_that_of_the_library():
    for x in (0.0, -1e-9, -0.5, -20.0, -699.0, -1e5):
        assert rounded_exp(x) == pytest.approx(np.exp(max(x, -700)), rel=1e-14)
    assert np.isnan(rounded_exp(np.nan))
